"""What stands in each agent's settings so that it asks byleave before every tool call. Pure, and data.

The shell that an agent starts its hooks with turns whatever else may happen to ours (no such program, killed, a crash)
into the one exit code that blocks the call.
"""

from __future__ import annotations

from shlex import join, split
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.hooks.agents import CLAUDE_CODE, CLINE, CODEX, COPILOT, CURSOR, GEMINI, OPENCODE, QWEN
from byleave.hooks.event_reader import BEFORE_MCP, BEFORE_READ, BEFORE_SHELL, BEFORE_TOOL, COPILOT_BEFORE, OUTCOME
from byleave.hooks.outcome_events import outcome_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PATIENCE = 30  # seconds that an agent waits for a hook; ours gives up, and blocks the call, before that
OUTCOME_PATIENCE = 10  # seconds that it waits where nothing is to be decided
ENTRY = "byleave/hooks/__main__.py"
_BLOCKED = (
    "byleave blocks this call: its hook failed. Is byleave still installed? "
    "Run byleave doctor, or take the hook out of the settings of this agent"
)
_OTHERWISE = f"/bin/sh -c 'echo \"{_BLOCKED}\" >&2; exit 2'"


class SettingsFile(Struct, frozen=True):
    """Where an agent reads its hooks: a file below the user's home, and in it the lists that get an item each.

    `lists` are of the events that wait for a decision, `outcomes` of those that report what came of it. `newer` are of
    events that versions before `since` do not know: some of these ignore a whole file for one such name, our hook with
    it, so they are put in only where every program of the agent here is known to be new enough.
    `variables` move the file elsewhere: byleave guards it only where it usually is. `needs` are members that the file
    must have besides, `note` is what is left for the user to do or to know.
    """

    title: str
    file: str
    lists: tuple[tuple[str, ...], ...] = ()
    outcomes: tuple[tuple[str, ...], ...] = ()
    newer: tuple[tuple[str, ...], ...] = ()
    since: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()
    needs: Mapping[str, Any] = {}
    note: str = ""

    @property
    def all_lists(self) -> tuple[tuple[str, ...], ...]:
        return (*self.lists, *self.outcomes, *self.newer)


_NEWER = ("PermissionRequest", "PostToolUseFailure", "PermissionDenied")  # of Claude Code, which 2.0.0 does not know


def _outcomes(agent: str) -> tuple[tuple[str, ...], ...]:
    known = [event for event in outcome_names(agent) if agent != CLAUDE_CODE or event not in _NEWER]
    return tuple(("hooks", event) for event in known)


PLACES: Mapping[str, SettingsFile] = {
    CLAUDE_CODE: SettingsFile(
        "Claude Code",
        ".claude/settings.json",
        (("hooks", "PreToolUse"),),
        _outcomes(CLAUDE_CODE),
        tuple(("hooks", event) for event in _NEWER),
        (2, 1, 325),
        ("CLAUDE_CONFIG_DIR",),
    ),
    CODEX: SettingsFile(
        "Codex",
        ".codex/hooks.json",
        (("hooks", "PreToolUse"),),
        _outcomes(CODEX),
        variables=("CODEX_HOME",),
        note="Codex runs no hook before you have trusted it: start `codex`, and do so when it asks, or in /hooks",
    ),
    GEMINI: SettingsFile(
        "Gemini CLI",
        ".gemini/settings.json",
        (("hooks", "BeforeTool"),),
        _outcomes(GEMINI),
        variables=("GEMINI_CLI_HOME",),
        note="Gemini CLI runs hooks in folders that you trust, and asks its own questions besides",
    ),
    CURSOR: SettingsFile(
        "Cursor",
        ".cursor/hooks.json",
        tuple(("hooks", event) for event in (BEFORE_SHELL, BEFORE_MCP, BEFORE_READ, BEFORE_TOOL)),
        _outcomes(CURSOR),
        needs={"version": 1},
        note="restart Cursor, and look at Hooks in its settings",
    ),
    COPILOT: SettingsFile(
        "Copilot CLI",
        ".copilot/hooks/byleave.json",
        (("hooks", COPILOT_BEFORE),),
        _outcomes(COPILOT),
        variables=("COPILOT_HOME",),
        needs={"version": 1},
    ),
    QWEN: SettingsFile(
        "Qwen Code",
        ".qwen/settings.json",
        (("hooks", "PreToolUse"),),
        _outcomes(QWEN),
        variables=("QWEN_HOME", "QWEN_CODE_SYSTEM_SETTINGS_PATH"),
        note="Qwen Code asks its own questions before it asks byleave",
    ),
    CLINE: SettingsFile(
        "Cline",
        ".cline/hooks/PreToolUse.sh",
        variables=("CLINE_DIR",),
        note="Cline ends its run when a call is refused: start it again, and say how it is to go on",
    ),
    OPENCODE: SettingsFile(
        "opencode", ".config/opencode/plugins/byleave.js", variables=("OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME")
    ),
}


def hook_words(python: str, entry: str, packages: str, options: Sequence[str], agent: str) -> list[str]:
    """Return the command that an agent starts: absolute, isolated, and without what `site` would run."""
    more = ["--packages", packages] if packages else []
    return [python, "-I", "-S", entry, "hook", agent, *options, *more]


def items(agent: str, words: Sequence[str], version: tuple[int, ...] = ()) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return what is added to each list of the agent's settings; `version` is the oldest here, () if not known."""
    place = PLACES[agent]
    deciding, reporting = item(agent, words), outcome_item(agent, words)
    newer = place.newer if version and version >= place.since else ()
    return {**dict.fromkeys(place.lists, deciding), **dict.fromkeys((*place.outcomes, *newer), reporting)}


def outcome_item(agent: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what is added to the lists of events that report an outcome: it never stops the agent."""
    command = f"{join([*words, '--only', OUTCOME])} || true"
    if agent == CURSOR:
        return {"command": command, "timeout": OUTCOME_PATIENCE}
    if agent == COPILOT:
        return {"type": "command", "bash": command, "timeoutSec": OUTCOME_PATIENCE}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": OUTCOME_PATIENCE}
    if agent in (GEMINI, QWEN):
        return {"matcher": "*", "hooks": [{"name": "byleave", **hook, "timeout": OUTCOME_PATIENCE * 1000}]}
    return {"matcher": "*", "hooks": [hook]} if agent == CLAUDE_CODE else {"hooks": [hook]}


def item(agent: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what is added to the lists of events that wait for a decision."""
    command = f"{join(words)} || {_OTHERWISE}"
    if agent == CURSOR:
        return {"command": command, "timeout": PATIENCE, "failClosed": True}
    if agent == COPILOT:
        return {"type": "command", "bash": command, "timeoutSec": PATIENCE}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": PATIENCE}
    if agent == CLAUDE_CODE:  # since 2.1.295, for what a shell cannot turn into an exit code: a hook that hangs
        return {"matcher": "*", "hooks": [{**hook, "onFailure": "block"}]}
    if agent in (GEMINI, QWEN):
        return {"matcher": "*", "hooks": [{"name": "byleave", **hook, "timeout": PATIENCE * 1000}]}
    return {"hooks": [hook]}


def is_ours(agent: str, value: Any) -> bool:
    """Whether an item of a list is one that we wrote, now or before, and nothing else is in it."""
    if agent == CURSOR:
        return isinstance(value, dict) and _starts_us(agent, value.get("command"))
    if agent == COPILOT:
        return isinstance(value, dict) and _starts_us(agent, value.get("bash"))
    inner = value.get("hooks") if isinstance(value, dict) else None
    if not isinstance(inner, list) or not inner:
        return False
    return all(isinstance(each, dict) and _starts_us(agent, each.get("command")) for each in inner)


def _starts_us(agent: str, command: Any) -> bool:
    try:
        words = split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    at = next((number for number, word in enumerate(words) if word.endswith(f"/{ENTRY}")), None)
    return at is not None and words[at + 1 : at + 3] == ["hook", agent]
