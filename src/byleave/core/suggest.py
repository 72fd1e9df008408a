"""The rule that would turn an answer into an allow, as TOML text a person can paste.

Pure. What a tool is granted is the smallest rule that helps; a rule stands alone, so it repeats what the tool may
already do at that place. A rule for agents names a subcommand instead of all words, and the source files of a directory
instead of one, where that is safe. No suggestion holds what looks like a secret. What deletes, publishes or runs
anything has a comment above it that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.access import SHELL_TOOL, VFS, Default
from byleave.core.cautions import UNKNOWN_OPTION, call_caution, command_cautions, kind_caution, wide_subcommand
from byleave.core.decision import ALLOW, BUILT_IN
from byleave.core.env_rules import name_problem
from byleave.core.fs_rules import CAPABILITIES, WRITES, FsRule, FsTable, FsTarget
from byleave.core.paths import refuse_input
from byleave.core.redact import shows_secret
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from byleave.core.access import Access
    from byleave.core.command_rules import CommandRule
    from byleave.core.match_context import Knowledge
    from byleave.core.net_rules import NetTable
    from byleave.core.url import Target


def suggest_fs(
    access: Access, tool: str, path: str, capability: str, *, without: AbstractSet[str] = frozenset()
) -> str | None:
    """Return the rule that would grant `capability` at `path` and take nothing away, with `without` left out."""
    if not is_speakable(tool, path) or refuse_input(path) is not None or _shows_secret([path]):
        return None
    table = access.fs
    kept = _all_of(table)
    blocks = [] if kept is None else [_fs_block(tool, ".", kept)]  # the first declared rule closes the type: keep it
    given = kept or set()
    if isinstance(table, FsTable):
        place = FsTarget(path, path)
        given = {name for name in CAPABILITIES if table.decide(place, name).decision is ALLOW}
    return "\n\n".join([*blocks, _fs_block(tool, path or ".", (given - without) | {capability})])


def suggest_net(access: Access, tool: str, target: Target) -> str | None:
    """Return a rule for this very scheme, host, port and path."""
    if not is_speakable(tool) or target.userinfo or target.tainted or target.readings or _shows_secret(target.segments):
        return None
    if target.segments != target.plain or (not target.segments and _knows(access.net, target.host)):
        return None  # without a path, the rule would reach into what other rules say about the host
    lines = [
        f"[[{access_table(tool)}.net]]",
        f"host = {toml_string(target.host)}",
        f"scheme = {toml_string(target.scheme)}",
    ]
    if target.port is not None:
        lines.append(f"port = {target.port}")
    if target.segments:
        lines.append(f"path_prefix = {toml_string('/' + '/'.join(target.segments))}")
    return _beside_files(access, tool, "\n".join([*lines, "allow = true"]))


def suggest_env(access: Access, tool: str, name: str, use: str) -> str | None:
    """Return the rule that lets the tool `read` one variable, or merely has the host `substitute` it."""
    if not is_speakable(tool, name) or "*" in name or name_problem(name) is not None:
        return None
    block = f"[[{access_table(tool)}.env]]\nname = {toml_string(name)}\n{use} = true"
    return _beside_files(access, tool, block)


def suggest_command(
    access: Access, tool: str, program: str, args: Sequence[str], rule: CommandRule | None = None
) -> str | None:
    """Return the entry that lets the tool start the program with exactly these arguments."""
    if not is_speakable(tool, program, *args) or "**" in args or not program or _shows_secret([program, *args]):
        return None
    lists = [f"[{', '.join(toml_string(word) for word in args)}]"]
    if rule is not None and not rule.args:  # an empty list means "no arguments", which any other list would end
        lists.insert(0, "[]")
    head = f"[{access_table(tool)}.commands.{toml_key(program)}]"

    block = _with_cautions(f"{head}\nargs = [{', '.join(lists)}]", command_cautions([program, *args]))
    return _beside_files(access, tool, block)


SERVERS = "servers."  # begins the name under which the access of an MCP server is kept among those of tools


def access_table(tool: str) -> str:
    """Return where the access of a tool is written, or that of a server, of one of its tools or of the shell."""
    if tool == SHELL_TOOL:
        return "shell.access"
    server, _, name = tool.removeprefix(SERVERS).partition(".")
    if not tool.startswith(SERVERS):
        return f"tools.{toml_key(tool)}.access"
    return f"servers.{toml_key(server)}{f'.tools.{toml_key(name)}' if name else ''}.access"


def is_speakable(*texts: str) -> bool:
    """Whether TOML can spell the texts: bytes that are not UTF-8, and halves of characters, it cannot."""
    return not any("\ud800" <= char <= "\udfff" for text in texts if not text.isascii() for char in text)


# Files that people read and change all day, and that hold no keys.
_SOURCES = (
    *("py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "rs", "go", "c", "h", "cc", "cpp", "hpp", "java", "kt"),
    *("rb", "php", "swift", "vue", "svelte", "css", "scss", "html", "md", "rst"),
)


def suggest_path_rule(place: FsTarget, kind: str, *, wide: bool = False, tree: bool = False) -> str | None:
    """Return the rule that lets this path be touched in this way, for every agent.

    `wide`: the sources of the same kind in its directory may be, too, if nothing protects it. `tree`: all that is
    below it has to be.
    """
    if place.door is not None:  # the rule would have to name where the link leads, which is not shown to agents
        return None
    path = place.relative if place.relative is not None else place.canonical
    if not path or not is_speakable(path) or not _GLOB_LETTERS.isdisjoint(path):
        return None
    if wide and place.relative is not None:
        path = _with_its_like(place.relative, kind) or path
    if _shows_secret([path]):
        return None
    path = f"{path}/**" if tree else path

    rule = f"[[rules]]\nallow = {{ path = {toml_string(path)}, ops = [{toml_string(kind)}] }}"
    return _with_cautions(rule, [kind_caution(kind)])


def _with_its_like(path: str, kind: str) -> str | None:
    """Return the glob of the sources beside a source and below; None where a rule had better name the file alone."""
    directory, _, name = path.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    hidden = any(part.startswith(".") for part in path.split("/"))
    if kind not in ("read", "create", "update") or not directory or not stem or hidden or suffix not in _SOURCES:
        return None
    return f"{directory}/**/*.{suffix}"


def suggest_url_rule(target: Target) -> str | None:
    """Return the rule that lets this very URL be reached, for every agent."""
    if target.userinfo or target.tainted or target.readings or target.segments != target.plain:
        return None
    if _shows_secret(target.segments):
        return None
    parts = [f"host = {toml_string(target.host)}", f"scheme = {toml_string(target.scheme)}"]
    parts += [f"port = {target.port}"] if target.port is not None else []
    parts += [f"path_prefix = {toml_string('/' + '/'.join(target.segments))}"] if target.segments else []
    return f"[[rules]]\nallow = {{ url = {{ {', '.join(parts)} }} }}"


def suggest_call_rule(server: str, tool: str | None) -> str | None:
    """Return the rule that lets this tool of this server be called."""
    names = [server] if tool is None else [server, tool]
    if not is_speakable(*names) or any(not _GLOB_LETTERS.isdisjoint(name) for name in names):
        return None
    keys = ", ".join(f"{key} = {toml_string(name)}" for key, name in zip(("server", "tool"), names, strict=False))

    return _with_cautions(f"[[rules]]\nallow = {{ call = {{ {keys} }} }}", [call_caution(tool)])


def suggest_agent(
    agent: str, servers: Sequence[str], table: tuple[str, str, Sequence[str]], *, new: Sequence[str]
) -> str | None:
    """Return what opens servers to an agent, and names in one of its tables: kind, server, names.

    `new` are the names that came with the action; one that would be read as a pattern cannot be suggested.
    """
    kind, server, names = table
    if not is_speakable(agent, *new, *names) or any(not _GLOB_LETTERS.isdisjoint(name) for name in new):
        return None
    lines = [f"allow.servers = {_toml_list(servers)}"] if servers else []
    lines += [f"allow.{kind}.{toml_key(server)} = {_toml_list(names)}"] if names else []
    return "\n".join([f"[agents.{toml_key(agent)}]", *lines]) if lines else None


def _toml_list(words: Sequence[str]) -> str:
    return f"[{', '.join(toml_string(word) for word in words)}]"


def suggest_command_rule(argv: Sequence[str | None], knowledge: Knowledge | None = None) -> str | None:
    """Return the rule that lets this command run: by its subcommand where all its options are known to be harmless.

    Elsewhere it names every word: a wider one might allow a form that was not looked at.
    """
    words = [word for word in argv if word is not None]
    if len(words) < len(argv) or not words or not is_speakable(*words):
        return None

    covered = knowledge is not None and knowledge.uncovered((), ()) is None
    subcommand = wide_subcommand(words) if covered else None
    if knowledge is not None and subcommand is not None and knowledge.is_subcommand(subcommand):
        named = f"command = {toml_string(words[0])}, subcommand = {toml_string(subcommand)}"
        return _with_cautions(f"[[rules]]\nallow = {{ {named} }}", command_cautions([words[0], subcommand]))
    if "**" in words or _shows_secret(words):
        return None
    args = ", ".join(toml_string(word) for word in words[1:])
    rule = f"[[rules]]\nallow = {{ command = {toml_string(words[0])}, args = [{args}] }}"
    return _with_cautions(rule, [*command_cautions(words), None if covered else UNKNOWN_OPTION])


def suggest_open_rule(words: Sequence[str], knowledge: Knowledge) -> str | None:
    """Return the rule that lets these words run with any harmless ones behind them; None if that must not be.

    What of the program deletes or overwrites stays outside of it.
    """
    if not words or "**" in words or not is_speakable(*words) or _shows_secret(words):
        return None
    from byleave.core.cautions import DESTRUCTIVE, can_destroy, command_cautions, may_stay_open

    if not may_stay_open(words):
        return None
    named = f"command = {toml_string(words[0])}"
    if len(words) == 2 and knowledge.is_subcommand(words[1]):
        named += f", subcommand = {toml_string(words[1])}"
    elif len(words) > 1:
        named += f", args = {_toml_list([*words[1:], '**'])}"
    if can_destroy(words[0]):
        named += f", not = {{ group = {toml_string(DESTRUCTIVE)} }}"
    return _with_cautions(f"[[rules]]\nallow = {{ {named} }}", command_cautions(words))


def suggest_below(directory: str, suffix: str, kinds: Sequence[str]) -> str | None:
    """Return the rule that lets every file below a directory be touched in these ways, or those of one suffix."""
    if not directory or not is_speakable(directory, suffix) or not _GLOB_LETTERS.isdisjoint(directory + suffix):
        return None
    if _shows_secret([directory]):
        return None
    from byleave.core.cautions import kind_caution

    path = f"{directory}/**/*.{suffix}" if suffix else f"{directory}/**"
    rule = f"[[rules]]\nallow = {{ path = {toml_string(path)}, ops = {_toml_list(kinds)} }}"
    return _with_cautions(rule, [kind_caution(kind) for kind in kinds])


def _shows_secret(words: Sequence[str]) -> bool:
    return shows_secret(words)


_CAUTION = "# Caution: "


def _with_cautions(block: str, cautions: Iterable[str | None]) -> str:
    return "\n".join([*(f"{_CAUTION}{each}." for each in cautions if each is not None), block])


def cautions_apart(suggestion: str) -> tuple[str, tuple[str, ...]]:
    """Return a suggestion without its cautions, and these as they are said elsewhere."""
    lines = suggestion.split("\n")
    said = [line.removeprefix(_CAUTION).removesuffix(".") for line in lines if line.startswith(_CAUTION)]
    return "\n".join(line for line in lines if not line.startswith(_CAUTION)), tuple(dict.fromkeys(said))


_GLOB_LETTERS = frozenset("*?[")


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


def _all_of(table: FsTable | Default) -> set[str] | None:
    """Return what a default gives everywhere in the workspace; None where rules were declared, or nothing is given."""
    if isinstance(table, FsTable):
        built_in = bool(table.rules) and table.rules[0].source == BUILT_IN
        return _granted(table.rules[0]) if built_in else None
    return set(CAPABILITIES) if table.decision is ALLOW else None


def _beside_files(access: Access, tool: str, block: str) -> str:
    """Return the block; a vfs tool that declares anything at all would lose its view of the workspace, so keep that."""
    return f"{_fs_block(tool, '.', {'read'})}\n\n{block}" if access.fs is VFS.fs else block


def _knows(table: NetTable | Default, host: str) -> bool:
    return not isinstance(table, Default) and any(rule.host == host for rule in table.rules)


def _fs_block(tool: str, path: str, given: AbstractSet[str]) -> str:
    """Write one fs rule, with `write` for the three that it stands for."""
    names = [name for name in CAPABILITIES if name in given]
    if given >= WRITES:
        names = [name for name in ("read", "write", "execute") if name in given or name == "write"]
    head = [f"[[{access_table(tool)}.fs]]", f"path = {toml_string(path)}"]
    return "\n".join(head + [f"{name} = true" for name in names])
