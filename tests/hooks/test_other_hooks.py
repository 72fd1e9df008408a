"""A second hook for the shell tool is found in the settings of every level; what cannot be read counts as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.hooks.install import our_words
from byleave.hooks.other_hooks import other_hooks
from byleave.hooks.snippets import PLACES, item
from byleave.user_files import ParseCache

EVENTS = {"claude-code": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool"}
SHELL = {"claude-code": "Bash", "codex": "Bash", "gemini": "run_shell_command"}
OTHER = {"type": "command", "command": "/usr/bin/other"}


class Room:
    """A user's home with byleave's own hook, and a project."""

    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "project"
        self.memory = ParseCache(str(base / "memory"), "1")
        for directory in (self.home, self.project):
            directory.mkdir()

    def write(self, path: Path, content: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def install(self, agent: str) -> None:
        words = our_words(agent, ["--home", str(self.home)])
        self.write(self.home / PLACES[agent].file, {"hooks": {EVENTS[agent]: [item(agent, words)]}})

    def others(self, agent: str, *words: str) -> str:
        return other_hooks(agent, str(self.home), (str(self.project),), ("agent", *words), self.memory)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "OPENCODE_CONFIG", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    return Room(tmp_path)


@pytest.mark.parametrize("agent", EVENTS)
def test_our_own_hook_is_no_other(agent: str, room: Room) -> None:
    assert room.others(agent) == ""
    room.install(agent)
    assert room.others(agent) == ""


LEVELS = {
    "claude-code": (
        "home/.claude/settings.json",
        "project/.claude/settings.json",
        "project/.claude/settings.local.json",
    ),
    "codex": ("home/.codex/hooks.json", "project/.codex/hooks.json"),
    "gemini": (
        "home/.gemini/settings.json",
        "project/.gemini/settings.json",
        "home/.gemini/extensions/one/hooks/hooks.json",
    ),
}
PLACED = [(agent, level) for agent, levels in LEVELS.items() for level in levels]


@pytest.mark.parametrize(("agent", "level"), PLACED)
def test_a_hook_of_any_level_is_found(agent: str, level: str, room: Room) -> None:
    file = room.home.parent / level
    room.write(file, {"hooks": {EVENTS[agent]: [{"hooks": [OTHER]}]}})
    assert room.others(agent) == f"{file} has one"


MATCHERS: dict[str, bool] = {
    "*": True,
    "": True,
    "TOOL": True,
    "Edit|TOOL|Write": True,
    "Edit|Write": False,
    "Edit": False,
    "B.*": True,
    "Edit.*": True,  # a pattern: it is not read, so it counts
    "mcp__x__.*": True,
    "TOOL(git *)": True,
}


@pytest.mark.parametrize("agent", EVENTS)
@pytest.mark.parametrize(("matcher", "counts"), MATCHERS.items())
def test_a_matcher_is_read_on_the_safe_side(agent: str, matcher: str, counts: bool, room: Room) -> None:  # noqa: FBT001
    room.install(agent)
    file = room.project / LEVELS[agent][1].removeprefix("project/")
    group = {"matcher": matcher.replace("TOOL", SHELL[agent]), "hooks": [OTHER]}
    room.write(file, {"hooks": {EVENTS[agent]: [group], "Notification": [{"hooks": [OTHER]}]}})
    assert bool(room.others(agent)) is counts


@pytest.mark.parametrize("agent", EVENTS)
@pytest.mark.parametrize(
    "content", ["{", "[]", '{"hooks": []}', '{"hooks": {"EVENT": {}}}', '{"hooks": {"EVENT": [1]}}']
)
def test_settings_that_cannot_be_read_count_as_a_hook(agent: str, content: str, room: Room) -> None:
    room.write(room.home.parent / LEVELS[agent][0], content.replace("EVENT", EVENTS[agent]))
    assert room.others(agent)


def test_our_hook_in_two_forms_counts_as_two(room: Room) -> None:
    room.install("claude-code")
    words = our_words("claude-code", ["--home", str(room.home), "--session", "other"])
    group = item("claude-code", words)
    room.write(room.project / ".claude/settings.json", {"hooks": {"PreToolUse": [group]}})
    assert "twice" in room.others("claude-code")


def test_a_hook_that_answers_in_a_persons_place_counts_for_claude_code(room: Room) -> None:
    room.install("claude-code")
    group = {"matcher": "Bash", "hooks": [OTHER]}
    room.write(room.project / ".claude/settings.json", {"hooks": {"PermissionRequest": [group]}})
    assert room.others("claude-code")


def test_settings_on_the_command_line_of_claude_code_count(room: Room) -> None:
    hooks = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [OTHER]}]}}
    room.write(room.home / "more.json", hooks)
    assert room.others("claude-code", "--settings", "{}") == ""
    assert room.others("claude-code", "--settings", json.dumps(hooks))
    assert room.others("claude-code", f"--settings={room.home / 'more.json'}")
    assert room.others("claude-code", "--settings", "more.json")
    assert room.others("claude-code", "--plugin-dir", "x")


def test_plugins_of_claude_code_are_looked_through(room: Room) -> None:
    room.write(room.home / ".claude/settings.json", {"enabledPlugins": {"one@market": True}})
    assert room.others("claude-code")  # it is not known where they are
    place = room.home / ".claude/plugins/cache/one"
    known = {"plugins": {"one@market": [{"installPath": str(place)}]}}
    room.write(room.home / ".claude/plugins/installed_plugins.json", known)
    assert room.others("claude-code") == ""
    room.write(place / "hooks/hooks.json", {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [OTHER]}]}})
    assert room.others("claude-code")


CODEX_FILES = {
    "hooks in the configuration": ('[[hooks.PreToolUse]]\nmatcher = "Bash"\nhooks = [{type = "command"}]\n', True),
    "trust in ours": ('[hooks.state."/h/hooks.json:pre_tool_use:0:0"]\ntrusted_hash = "x"\n', False),
    "a feature of that name": ("[features]\nhooks = true\n", False),
    "plugins": ('[plugins."a@b"]\nenabled = true\n', True),
    "no TOML": ("hooks =", True),
    "an escaped name": ('"h\\u006foks" = {PreToolUse = [{hooks = [{command = "x"}]}]}\n', True),
}


@pytest.mark.parametrize(("content", "counts"), CODEX_FILES.values(), ids=CODEX_FILES.keys())
def test_the_configuration_of_codex_is_read(content: str, counts: bool, room: Room) -> None:  # noqa: FBT001
    room.install("codex")
    room.write(room.home / ".codex/config.toml", content)
    assert bool(room.others("codex")) is counts
    assert bool(room.others("codex")) is counts  # as it is remembered


@pytest.mark.parametrize(
    "place",
    ["home/.config/opencode/plugin/x.js", "project/.opencode/plugins/x.ts", "project/../.opencode/plugin/x.js"],
)
def test_every_other_plugin_of_opencode_counts(place: str, room: Room) -> None:
    plugin = room.home / ".config/opencode/plugins/byleave.js"
    words = our_words("opencode", ["--home", str(room.home)])
    room.write(plugin, f"// Asks byleave before every tool call. Written.\nconst COMMAND = {json.dumps(words)}\n")
    assert room.others("opencode") == ""
    room.write((room.home.parent / place).resolve(), "export const X = async () => ({})")
    assert room.others("opencode")


def test_a_plugin_that_opencode_is_configured_with_counts(room: Room) -> None:
    room.write(room.project / "opencode.jsonc", '{"plugin": ["one"], /* c */}')
    assert room.others("opencode")


def test_settings_that_lie_elsewhere_count(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(room.home / ".claude"))
    assert room.others("claude-code") == ""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(room.home / "elsewhere"))
    assert "CLAUDE_CONFIG_DIR" in room.others("claude-code")
