"""The smallest rule that would turn an answer into an allow, as TOML text a person can paste.

Pure. A rule stands alone, so a suggestion repeats what the tool may already do at that place.
"""

from byleave.core.fs import CAPABILITIES, WRITES, FsRule, FsTable
from byleave.core.url import default_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.access import Access
    from byleave.core.net import NetRule
    from byleave.core.url import Target


def suggest_fs(access: "Access", tool: str, path: str, capability: str) -> str | None:
    """Return the rule that would grant `capability` at `path` and take nothing away."""
    table = access.fs
    if _unspeakable(path):
        return None
    blocks = []
    if isinstance(table, FsTable):
        if table.rules and table.rules[0].source == "built-in":  # the first declared rule closes the type: keep it
            blocks = [_fs_block(tool, ".", _granted(table.rules[0]))]
        present = table.match(path)
        given = _granted(present) if present is not None and not present.external else set()
    else:
        given = set()
    return "\n".join([*blocks, _fs_block(tool, path or ".", given | {capability})])


def suggest_net(tool: str, target: "Target", winner: "NetRule | None") -> str | None:
    """Return a rule for the scheme and host, with the port and the path only where they are needed."""
    if target.userinfo or target.tainted or target.segments != target.plain:
        return None
    lines = [
        f"[[tools.{toml_key(tool)}.access.net]]",
        f"host = {toml_string(target.host)}",
        f"scheme = {toml_string(target.scheme)}",
    ]
    if target.port is not None and target.port != default_port(target.scheme):
        lines.append(f"port = {target.port}")
    if winner is not None and target.segments:  # some rule is more specific than the host alone
        lines.append(f"path_prefix = {toml_string('/' + '/'.join(target.segments))}")
    return "\n".join([*lines, "allow = true"])


def suggest_env(tool: str, name: str) -> str | None:
    """Return the rule that lets the tool read one variable."""
    if _unspeakable(name) or not name or "=" in name or "*" in name:
        return None
    return f"[[tools.{toml_key(tool)}.access.env]]\nname = {toml_string(name)}\nread = true"


def suggest_command(tool: str, program: str, args: "Sequence[str]") -> str | None:
    """Return the entry that lets the tool start the program with exactly these arguments."""
    if any(_unspeakable(word) for word in (program, *args)) or "**" in args or not program:
        return None
    words = ", ".join(toml_string(word) for word in args)
    return f"[tools.{toml_key(tool)}.access.commands.{toml_key(program)}]\nargs = [[{words}]]"


def toml_string(text: str) -> str:
    """Return `text` as a TOML basic string."""
    return (
        '"' + "".join(_TOML_ESCAPES.get(char, char) if char.isprintable() else _toml_code(char) for char in text) + '"'
    )


def toml_key(text: str) -> str:
    """Return `text` as a TOML key, bare where it can be."""
    bare = text.isascii() and text.replace("-", "a").replace("_", "a").isalnum()
    return text if bare else toml_string(text)


_TOML_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def _toml_code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _granted(rule: FsRule) -> set[str]:
    return {name for name in CAPABILITIES if rule.grants(name)}


def _fs_block(tool: str, path: str, given: set[str]) -> str:
    """Write one fs rule, with `write` for the three that it stands for."""
    names = [name for name in CAPABILITIES if name in given]
    if given >= WRITES:
        names = [name for name in ("read", "write", "execute") if name in given or name == "write"]
    head = [f"[[tools.{toml_key(tool)}.access.fs]]", f"path = {toml_string(path)}"]
    return "\n".join(head + [f"{name} = true" for name in names])


def _unspeakable(text: str) -> bool:
    """Whether the text holds bytes that are not UTF-8, which no TOML file can name."""
    return any("\ud800" <= char <= "\udfff" for char in text) if not text.isascii() else False
