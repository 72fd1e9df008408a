"""The smallest rule that would turn an answer into an allow, as TOML text a person can paste.

Pure. A rule stands alone, so a suggestion repeats what the tool may already do at that place.
"""

from byleave.core.access import VFS, Default
from byleave.core.env import name_problem
from byleave.core.fs import CAPABILITIES, WRITES, FsRule, FsTable
from byleave.core.paths import refuse_input
from byleave.core.verdict import ALLOW, BUILT_IN
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from byleave.core.access import Access
    from byleave.core.commands import CommandRule
    from byleave.core.net import NetTable
    from byleave.core.url import Target


def suggest_fs(
    access: "Access", tool: str, path: str, capability: str, *, without: "AbstractSet[str]" = frozenset()
) -> str | None:
    """Return the rule that would grant `capability` at `path` and take nothing away, with `without` left out."""
    if not is_speakable(tool, path) or refuse_input(path) is not None:
        return None
    table = access.fs
    kept = _all_of(table)
    blocks = [] if kept is None else [_fs_block(tool, ".", kept)]  # the first declared rule closes the type: keep it
    if isinstance(table, FsTable):
        present = table.match(path)
        given = _granted(present) if present is not None and not present.external else set()
    else:
        given = kept or set()
    return "\n\n".join([*blocks, _fs_block(tool, path or ".", (given - without) | {capability})])


def suggest_net(access: "Access", tool: str, target: "Target") -> str | None:
    """Return a rule for this very scheme, host, port and path."""
    if not is_speakable(tool) or target.userinfo or target.tainted or target.readings:
        return None
    if target.segments != target.plain or (not target.segments and _knows(access.net, target.host)):
        return None  # without a path, the rule would reach into what other rules say about the host
    lines = [
        f"[[tools.{toml_key(tool)}.access.net]]",
        f"host = {toml_string(target.host)}",
        f"scheme = {toml_string(target.scheme)}",
    ]
    if target.port is not None:
        lines.append(f"port = {target.port}")
    if target.segments:
        lines.append(f"path_prefix = {toml_string('/' + '/'.join(target.segments))}")
    return _beside_files(access, tool, "\n".join([*lines, "allow = true"]))


def suggest_env(access: "Access", tool: str, name: str) -> str | None:
    """Return the rule that lets the tool read one variable."""
    if not is_speakable(tool, name) or "*" in name or name_problem(name) is not None:
        return None
    block = f"[[tools.{toml_key(tool)}.access.env]]\nname = {toml_string(name)}\nread = true"
    return _beside_files(access, tool, block)


def suggest_command(
    access: "Access", tool: str, program: str, args: "Sequence[str]", rule: "CommandRule | None" = None
) -> str | None:
    """Return the entry that lets the tool start the program with exactly these arguments."""
    if not is_speakable(tool, program, *args) or "**" in args or not program:
        return None
    lists = [f"[{', '.join(toml_string(word) for word in args)}]"]
    if rule is not None and not rule.args:  # an empty list means "no arguments", which any other list would end
        lists.insert(0, "[]")
    head = f"[tools.{toml_key(tool)}.access.commands.{toml_key(program)}]"
    return _beside_files(access, tool, f"{head}\nargs = [{', '.join(lists)}]")


def is_speakable(*texts: str) -> bool:
    """Whether TOML can spell the texts: bytes that are not UTF-8, and halves of characters, it cannot."""
    return not any("\ud800" <= char <= "\udfff" for text in texts if not text.isascii() for char in text)


def toml_string(text: str) -> str:
    """Return `text` as a TOML basic string."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join([_TOML_ESCAPES.get(char) or _toml_char(char) for char in text])}"'


def toml_key(text: str) -> str:
    """Return `text` as a TOML key, bare where it can be."""
    bare = text.isascii() and text.replace("-", "a").replace("_", "a").isalnum()
    return text if bare else toml_string(text)


_TOML_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def _toml_char(char: str) -> str:
    """Return the character, or its escape if it could not be seen."""
    if shown(char) == char:
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _granted(rule: FsRule) -> set[str]:
    return {name for name in CAPABILITIES if rule.grants(name)}


def _all_of(table: "FsTable | Default") -> set[str] | None:
    """Return what a default gives everywhere in the workspace; None where rules were declared, or nothing is given."""
    if isinstance(table, FsTable):
        built_in = bool(table.rules) and table.rules[0].source == BUILT_IN
        return _granted(table.rules[0]) if built_in else None
    return set(CAPABILITIES) if table.decision is ALLOW else None


def _beside_files(access: "Access", tool: str, block: str) -> str:
    """Return the block; a vfs tool that declares anything at all would lose its view of the workspace, so keep that."""
    return f"{_fs_block(tool, '.', {'read'})}\n\n{block}" if access.fs is VFS.fs else block


def _knows(table: "NetTable | Default", host: str) -> bool:
    return not isinstance(table, Default) and any(rule.host == host for rule in table.rules)


def _fs_block(tool: str, path: str, given: "AbstractSet[str]") -> str:
    """Write one fs rule, with `write` for the three that it stands for."""
    names = [name for name in CAPABILITIES if name in given]
    if given >= WRITES:
        names = [name for name in ("read", "write", "execute") if name in given or name == "write"]
    head = [f"[[tools.{toml_key(tool)}.access.fs]]", f"path = {toml_string(path)}"]
    return "\n".join(head + [f"{name} = true" for name in names])
