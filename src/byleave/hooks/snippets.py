"""What stands in each agent's settings so that it asks byleave before every tool call. Pure, and data.

The shell that an agent starts its hooks with turns whatever else may happen to ours (no such program, killed, a crash)
into the one exit code that blocks the call.
"""

from __future__ import annotations

from shlex import join, split
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.hooks.agents import CLAUDE_CODE, CODEX, CURSOR, GEMINI, OPENCODE
from byleave.hooks.event_reader import BEFORE_MCP, BEFORE_READ, BEFORE_SHELL, BEFORE_TOOL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

PATIENCE = 30  # seconds that an agent waits for a hook; ours gives up, and blocks the call, before that
ENTRY = "byleave/hooks/__main__.py"
_OTHERWISE = "/bin/sh -c 'echo \"byleave blocks this call\" >&2; exit 2'"


class SettingsFile(Struct, frozen=True):
    """Where an agent reads its hooks: a file below the user's home, and in it the lists that get an item each.

    `variables` move the file elsewhere: byleave guards it only where it usually is. `needs` are members that the file
    must have besides, `note` is what is left for the user to do or to know.
    """

    title: str
    file: str
    lists: tuple[tuple[str, ...], ...] = ()
    variables: tuple[str, ...] = ()
    needs: Mapping[str, Any] = {}
    note: str = ""


PLACES: Mapping[str, SettingsFile] = {
    CLAUDE_CODE: SettingsFile(
        "Claude Code", ".claude/settings.json", (("hooks", "PreToolUse"),), ("CLAUDE_CONFIG_DIR",)
    ),
    CODEX: SettingsFile(
        "Codex",
        ".codex/hooks.json",
        (("hooks", "PreToolUse"),),
        ("CODEX_HOME",),
        note="Codex runs no hook before you have trusted it: start `codex`, and do so when it asks, or in /hooks",
    ),
    GEMINI: SettingsFile(
        "Gemini CLI",
        ".gemini/settings.json",
        (("hooks", "BeforeTool"),),
        ("GEMINI_CLI_HOME",),
        note="Gemini CLI runs hooks in folders that you trust, and asks its own questions besides",
    ),
    CURSOR: SettingsFile(
        "Cursor",
        ".cursor/hooks.json",
        tuple(("hooks", event) for event in (BEFORE_SHELL, BEFORE_MCP, BEFORE_READ, BEFORE_TOOL)),
        needs={"version": 1},
        note="restart Cursor, and look at Hooks in its settings",
    ),
    OPENCODE: SettingsFile(
        "opencode", ".config/opencode/plugins/byleave.js", variables=("OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME")
    ),
}


def hook_words(python: str, entry: str, packages: Sequence[str], options: Sequence[str], agent: str) -> list[str]:
    """Return the command that an agent starts: absolute, isolated, and without what `site` would run."""
    more = ["--packages", ":".join(packages)] if packages else []
    return [python, "-I", "-S", entry, "hook", agent, *options, *more]


def item(agent: str, words: Sequence[str]) -> dict[str, Any]:
    """Return what is added to each list of the agent's settings."""
    command = f"{join(words)} || {_OTHERWISE}"
    if agent == CURSOR:
        return {"command": command, "timeout": PATIENCE, "failClosed": True}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": PATIENCE}
    if agent == CLAUDE_CODE:  # since 2.1.295, for what a shell cannot turn into an exit code: a hook that hangs
        return {"matcher": "*", "hooks": [{**hook, "onFailure": "block"}]}
    if agent == GEMINI:
        return {"matcher": "*", "hooks": [{"name": "byleave", **hook, "timeout": PATIENCE * 1000}]}
    return {"hooks": [hook]}


def is_ours(agent: str, value: Any) -> bool:
    """Whether an item of a list is one that we wrote, now or before, and nothing else is in it."""
    if agent == CURSOR:
        return isinstance(value, dict) and _starts_us(agent, value.get("command"))
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
