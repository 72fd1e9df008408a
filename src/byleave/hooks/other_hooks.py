"""Which other hooks an agent has for its shell tool, as far as its settings can be read.

Where several hooks answer, the agent chooses whose changed call it takes; then none of ours may count on being the one.
The settings of all levels are read at every call, before a command is confined. What cannot be read counts as a hook.

A matcher is read on the safe side: only a plain list of other names is known not to mean the shell tool.

Start at `other_hooks`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from byleave.hooks.agents import CLAUDE_CODE, CODEX, GEMINI, OPENCODE
from byleave.policy.agent_settings import SettingsSource, UnreadableSettingsError, read_settings
from byleave.protocol.json_text import JsonTextError, read_json
from byleave.record import Record
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.user_files import ParseCache

_ENTRY = "/byleave/hooks/__main__.py hook "
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_|")
_ALL = ("", "*", ".*")
_MOST_PLUGINS = 64
_LARGEST = 1 << 20
_OUR_PLUGIN = "// Asks byleave before every tool call."
_PLUGIN_ENDINGS = (".js", ".ts", ".mjs", ".cjs", ".mts", ".cts")


# Variables that have an agent read its settings elsewhere, and what they are usually.
_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    CLAUDE_CODE: {"CLAUDE_CONFIG_DIR": ".claude"},
    CODEX: {"CODEX_HOME": ".codex"},
    GEMINI: {
        "GEMINI_CLI_HOME": "",
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "",
        "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": "",
    },
    OPENCODE: {
        "XDG_CONFIG_HOME": ".config",
        "OPENCODE_CONFIG_DIR": ".config/opencode",
        "OPENCODE_CONFIG": ".config/opencode/opencode.json",
        "OPENCODE_CONFIG_CONTENT": "",
    },
}


class _Place(Record):
    """Where an agent of this user looks for hooks: below its home, in its projects, on its own command line."""

    home: str
    projects: tuple[str, ...]
    words: tuple[str, ...]
    memory: ParseCache


class _Found(Record):
    """A hook for the shell tool: what it starts, and the file that says so."""

    command: str
    file: str


def other_hooks(agent: str, home: str, projects: tuple[str, ...], words: tuple[str, ...], memory: ParseCache) -> str:
    """Return a sentence about another hook for the agent's shell tool, "" if there is none.

    `projects` are the directories in which the agent may look for a project's settings.
    """
    if not home:
        return "the user's home is not known"
    for name, usual in _ELSEWHERE[agent].items():
        if os.environ.get(name) and os.path.normpath(os.environ[name]) != os.path.normpath(os.path.join(home, usual)):
            return f"{name} is set, so the agent may read its settings elsewhere"
    try:
        found = list(_READERS[agent](_Place(home, projects, words, memory)))
    except _UnknownError as error:
        return str(error)
    ours = {hook.command for hook in found if _is_ours(agent, hook)}
    other = next((hook for hook in found if not _is_ours(agent, hook)), None)
    if other is not None:
        return f"{shown(other.file)} has one"
    return "byleave's own hook is installed twice, in different ways" if len(ours) > 1 else ""


class _UnknownError(Exception):
    """Something that may bring hooks along and cannot be read; its text is a sentence."""


def _is_ours(agent: str, hook: _Found) -> bool:
    return f"{_ENTRY}{agent} " in f"{hook.command} "


def _tree(path: str) -> dict[str, Any]:
    try:
        return read_settings(SettingsSource("", path))
    except UnreadableSettingsError as error:
        raise _UnknownError(f"{shown(path)} {error}") from None


def _listed(tree: Mapping[str, Any], event: str, tool: str, file: str) -> Iterator[_Found]:
    """Yield the hooks of a settings tree in the form that Claude Code, Codex and Gemini CLI share."""
    hooks = tree.get("hooks")
    groups = hooks.get(event) if isinstance(hooks, dict) else None
    if groups is None and (hooks is None or isinstance(hooks, dict)):
        return
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise _UnknownError(f"{shown(file)} has hooks in a form that byleave does not know")
    for group in groups:
        inner = group.get("hooks")
        if not isinstance(inner, list) or not all(isinstance(hook, dict) for hook in inner):
            raise _UnknownError(f"{shown(file)} has hooks in a form that byleave does not know")
        if _could_match(group.get("matcher"), tool):
            for hook in inner:
                yield _Found(str(hook.get("command", hook.get("type", "?"))), file)


def _could_match(matcher: object, tool: str) -> bool:
    if matcher is None or not isinstance(matcher, str) or matcher in _ALL or not _PLAIN.issuperset(matcher):
        return True
    return tool in matcher.split("|")


def _entries(directory: str) -> list[str]:
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        raise _UnknownError(f"{shown(directory)} cannot be read") from None
    if len(names) > _MOST_PLUGINS:
        raise _UnknownError(f"{shown(directory)} holds more than byleave looks through")
    return [os.path.join(directory, name) for name in names]


_CLAUDE_FILES = ("settings.json", "settings.local.json")


def _claude_code(place: _Place) -> Iterator[_Found]:
    user = os.path.join(place.home, ".claude")
    managed = "/etc/claude-code"
    files = [
        *[os.path.join(user, name) for name in _CLAUDE_FILES],
        *[os.path.join(each, ".claude", name) for each in place.projects for name in _CLAUDE_FILES],
        os.path.join(managed, "managed-settings.json"),
        *[name for name in _entries(os.path.join(managed, "managed-settings.d")) if name.endswith(".json")],
        os.path.join(user, "remote-settings.json"),
    ]
    plugins = False
    for file in files:
        tree = _tree(file)
        yield from _claude_hooks(tree, file)
        enabled = tree.get("enabledPlugins")
        plugins = plugins or (bool(enabled) and (not isinstance(enabled, dict) or any(enabled.values())))
    for option, value in _options(place.words, ("--settings", "--plugin-dir", "--agents")):
        tree = _given(value) if option == "--settings" else {}
        if option != "--settings":
            raise _UnknownError(f"the agent was started with {option}")
        yield from _claude_hooks(tree, option)
    if plugins:
        yield from _claude_plugins(os.path.join(user, "plugins"))


def _claude_plugins(directory: str) -> Iterator[_Found]:
    """Yield the hooks of the plugins that are installed, enabled or not."""
    installed = _tree(os.path.join(directory, "installed_plugins.json")).get("plugins")
    if not isinstance(installed, dict):
        raise _UnknownError("it is not known what the agent's plugins do")
    for versions in installed.values():
        for each in versions if isinstance(versions, list) else [versions]:
            path = each.get("installPath") if isinstance(each, dict) else None
            if not isinstance(path, str) or not os.path.isabs(path):
                raise _UnknownError("it is not known what the agent's plugins do")
            file = os.path.join(path, "hooks/hooks.json")
            yield from _claude_hooks(_tree(file), file)
            manifest = os.path.join(path, ".claude-plugin/plugin.json")
            named = _tree(manifest).get("hooks")
            if isinstance(named, dict):
                yield from _claude_hooks({"hooks": named.get("hooks", named)}, manifest)
            elif named is not None:
                for name in named if isinstance(named, list) else [named]:
                    file = os.path.normpath(os.path.join(path, str(name)))
                    yield from _claude_hooks(_tree(file), file)


def _claude_hooks(tree: Mapping[str, Any], file: str) -> Iterator[_Found]:
    """Yield the hooks that can change a call: before it, and in the place of a person who is asked about it."""
    yield from _listed(tree, "PreToolUse", "Bash", file)
    answering = _listed(tree, "PermissionRequest", "Bash", file)
    yield from [hook for hook in answering if not _is_ours(CLAUDE_CODE, hook)]  # ours only notes the question


def _options(words: tuple[str, ...], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line that bring settings along, with their values."""
    for number, word in enumerate(words[1:], start=1):
        name, mark, value = word.partition("=")
        if name in names:
            yield name, value if mark else (words[number + 1] if number + 1 < len(words) else "")


def _given(value: str) -> dict[str, Any]:
    """Return the settings that a value on the command line is, or names."""
    if not value.lstrip().startswith("{"):
        if not os.path.isabs(value):
            raise _UnknownError("the agent was started with --settings and a file that byleave cannot find")
        return _tree(value)
    try:
        tree = read_json(value.strip())
    except JsonTextError:
        tree = None
    if not isinstance(tree, dict):
        raise _UnknownError("the agent was started with --settings that cannot be read")
    return tree


def _codex(place: _Place) -> Iterator[_Found]:
    user = os.path.join(place.home, ".codex")
    for directory in (user, *[os.path.join(each, ".codex") for each in place.projects], "/etc/codex"):
        file = os.path.join(directory, "hooks.json")
        yield from _listed(_tree(file), "PreToolUse", "Bash", file)
        names = [name for name in _entries(directory) if name.endswith(".toml")] if directory != user else []
        names = names or [os.path.join(directory, "config.toml")]
        if directory == user:
            names += [name for name in _entries(directory) if name.endswith(".config.toml")]
        for name in names:
            tree = _toml(name, place.memory)
            yield from _listed(tree, "PreToolUse", "Bash", name)
            if tree.get("plugins"):
                raise _UnknownError(f"{shown(name)} enables plugins, which may have hooks")
    for _option, value in _options(place.words, ("-c", "--config", "--profile", "--profile-v2")):
        if "hooks" in value or "plugins" in value:
            raise _UnknownError("the agent was started with hooks on its command line")


def _toml(path: str, memory: ParseCache) -> dict[str, Any]:
    """Return what a TOML file says of hooks and plugins. The parse, which is slow, is remembered."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError:
        raise _UnknownError(f"{shown(path)} cannot be read") from None
    if len(content) > _LARGEST:
        raise _UnknownError(f"{shown(path)} is too large")
    if b"hooks" not in content and b"plugins" not in content and b"\\" not in content:
        return {}
    tree = memory.recall(f"hooks in {path}", content, _parse_toml)
    if tree is None:
        raise _UnknownError(f"{shown(path)} is not TOML")
    return tree


def _parse_toml(content: bytes) -> dict[str, Any] | None:
    import tomllib  # heavy: one agent has TOML

    try:
        tree = tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    hooks = tree.get("hooks")
    kept: dict[str, Any] = {"plugins": bool(tree.get("plugins"))}
    if isinstance(hooks, dict):
        kept["hooks"] = {name: value for name, value in hooks.items() if name != "state"}  # whom the user trusts
    elif hooks is not None:
        kept["hooks"] = str(hooks)
    return kept


def _gemini(place: _Place) -> Iterator[_Found]:
    own = [os.path.join(each, ".gemini") for each in (place.home, *place.projects)]
    files = [os.path.join(directory, "settings.json") for directory in own]
    files += [f"/etc/gemini-cli/{name}" for name in ("settings.json", "system-defaults.json")]
    extensions = [entry for directory in own for entry in _entries(os.path.join(directory, "extensions"))]
    for file in (*files, *[os.path.join(each, "hooks/hooks.json") for each in extensions]):
        yield from _listed(_tree(file), "BeforeTool", "run_shell_command", file)


def _opencode(place: _Place) -> Iterator[_Found]:
    """Yield every plugin: it is a program, and may do whatever it likes before a call."""
    around = dict.fromkeys([directory for each in place.projects for directory in _upwards(each)])
    own = os.path.join(place.home, ".config/opencode")
    for directory in (own, *[os.path.join(each, ".opencode") for each in (place.home, *around)]):
        for name in (entry for kind in ("plugin", "plugins") for entry in _entries(os.path.join(directory, kind))):
            if name.endswith(_PLUGIN_ENDINGS):
                yield _Found(_started_by(name), name)
    for directory in (own, place.home, *around, *[os.path.join(each, ".opencode") for each in around]):
        for name in ("config.json", "opencode.json", "opencode.jsonc") if directory == own else _OPENCODE_FILES:
            file = os.path.join(directory, name)
            if _tree(file).get("plugin"):
                yield _Found("plugin", file)


_OPENCODE_FILES = ("opencode.json", "opencode.jsonc")


def _started_by(plugin: str) -> str:
    """Return what our plugin starts, in the form of a command; of any other its name."""
    try:
        with open(plugin, "rb") as file:
            text = file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return plugin
    if not text.startswith(_OUR_PLUGIN):
        return plugin
    return text.partition("const COMMAND = ")[2].partition("\n")[0].replace('", "', " ").replace('","', " ")


def _upwards(directory: str) -> Iterator[str]:
    while True:
        yield directory
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


_READERS: Mapping[str, Callable[[_Place], Iterator[_Found]]] = {
    CLAUDE_CODE: _claude_code,
    CODEX: _codex,
    GEMINI: _gemini,
    OPENCODE: _opencode,
}
