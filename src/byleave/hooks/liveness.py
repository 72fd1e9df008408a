"""Whether the agents that this user has really ask byleave: their settings, and what came of them.

A hook that is not installed, switched off, not trusted, or started from a place that is gone is easily missed: the
agent works as ever. Each finding is a sentence that says what to do.

An agent writes down its sessions. If one of them has tool calls in it and is much newer than the last call that byleave
was asked about, the agent works without its hook. `note_event` keeps when that was.

Start at `hook_findings`.
"""

from __future__ import annotations

import glob
import json
import os
import stat
import time
from shlex import split
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import StateError
from byleave.hooks.agents import CLAUDE_CODE, CLINE, CODEX, COPILOT, GEMINI, QWEN
from byleave.hooks.detect import find_agents, oldest_version
from byleave.hooks.install import NotPlainError, installed_items, is_off, settings_file
from byleave.hooks.last_event import last_event
from byleave.hooks.snippets import ENTRY, PLACES
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GOOD, NOTE, BAD = "ok", "note", "bad"
SILENCE = 86_400.0  # seconds between a session's last tool call and the last event, from which on it is said
_MOST_FILES = 2000  # session files that are looked at
_TAIL = 1 << 18  # bytes of the newest that are read
_DAY = 86_400.0

# Where the agents keep their sessions, and what a tool call looks like in there.
_SESSIONS: Mapping[str, tuple[str, tuple[bytes, ...]]] = {
    CLAUDE_CODE: (".claude/projects/*/*.jsonl", (b'"tool_use"',)),
    CODEX: (".codex/sessions/*/*/*/*.jsonl", (b'"function_call"', b'"local_shell_call"', b'"custom_tool_call"')),
    GEMINI: (".gemini/tmp/*/chats/*.json*", (b'"toolCalls"', b'"functionCall"')),
    QWEN: (".qwen/projects/*/chats/*.jsonl", (b'"functionCall"',)),
    COPILOT: (".copilot/session-state/*/events.jsonl", (b'"tool.execution', b'"toolRequests"')),
    CLINE: (".cline/data/sessions/*/*.json*", (b'"tool_use"', b'"tool_call"', b'"tool-call"')),
}


class HookFinding(Struct, frozen=True):
    """What was found about the hook of one agent."""

    agent: str
    title: str
    state: str
    text: str


def hook_findings(home: str, state: str, root: str, path: str, now: float | None = None) -> list[HookFinding]:
    """Return what there is to say about each agent of this user; `state` is byleave's own directory of state."""
    found: list[HookFinding] = []
    at = time.time() if now is None else now
    for agent in find_agents(home, path):
        problems = list(_problems(agent.name, home, state, root=root, path=path, now=at))
        if not problems:
            problems = [(GOOD, _last(last_event(state, agent.name), at))]
        found += [HookFinding(agent.name, agent.title, how, text) for how, text in problems]
    return found


def silent_agents(home: str, state: str, path: str, now: float | None = None) -> list[str]:
    """Return a sentence for each agent that works, and of whose calls byleave hears nothing."""
    at = time.time() if now is None else now
    found = [(agent, _silence(agent.name, home, state, at)) for agent in find_agents(home, path)]
    return [f"{agent.title}: {text}" for agent, text in found if text]


def _problems(agent: str, home: str, state: str, *, root: str, path: str, now: float) -> Iterator[tuple[str, str]]:
    file = settings_file(agent, home)
    place = PLACES[agent]
    again = f"run `byleave hook --install {agent}` yourself"
    try:
        items = installed_items(agent, file)
    except (StateError, NotPlainError) as error:
        problem = error.problem if isinstance(error, StateError) else str(error)
        yield NOTE, f"it is not known whether it asks byleave: {shown(file)} cannot be read ({problem})"
        return
    if not items:
        yield NOTE, f"it does not ask byleave: {again}"
        return
    version = oldest_version(agent, home, path) if place.newer else ()
    new_enough = bool(version) and version >= place.since
    missing = [item for item in place.all_lists if item not in items and (new_enough or item not in place.newer)]
    if place.newer and not new_enough and any(item in items for item in place.newer):
        yield BAD, f"an older version of it may ignore all of its hooks, because it does not know some of them: {again}"
    if any(item in place.lists for item in missing):
        yield BAD, f"it asks byleave about some calls only: {again}"
    elif missing:
        yield NOTE, f"it does not report what came of its calls: {again}"
    gone = _gone(items.values())
    if gone:
        yield BAD, f"its hook would start {shown(gone)}, which is not there, so every call is blocked: {again}"
    for settings in dict.fromkeys((file, *_settings_files(agent, home, root))):
        if is_off(agent, settings):
            yield (
                BAD,
                f"its hooks are switched off in {shown(settings)}, so it does not ask byleave: switch them on there",
            )
    if agent == GEMINI and _is_untrusted_folder(home, root):
        yield BAD, "it does not trust this folder, and runs no hooks in it: trust the folder in Gemini CLI"
    silence = _silence(agent, home, state, now)
    if silence:
        yield BAD, silence


def _silence(agent: str, home: str, state: str, now: float) -> str:
    """Return a sentence if the agent has made calls that byleave was not asked about; "" if none are known of."""
    newest = _newest_session(agent, home)
    seen = last_event(state, agent)
    if newest is None or newest > now + _DAY:
        return ""
    try:
        installed = os.stat(settings_file(agent, home)).st_mtime
    except OSError:
        return ""
    since = max(installed, seen or 0.0)
    if newest - since < (SILENCE if seen else 0.0):
        return ""
    way = "start `codex` and trust the hook, in /hooks" if agent == CODEX else "see whether its hooks are switched off"
    heard = f"since {_when(seen)}" if seen else "so far"
    return f"it has made calls, the last at {_when(newest)}, and byleave was asked about none {heard}: {way}"


def _newest_session(agent: str, home: str) -> float | None:
    """Return when the agent last wrote down a session, if that has tool calls in it."""
    if agent not in _SESSIONS:
        return None
    pattern, marks = _SESSIONS[agent]
    newest: tuple[float, str] | None = None
    for number, path in enumerate(glob.iglob(os.path.join(glob.escape(home), pattern))):
        if number >= _MOST_FILES:
            break
        try:
            found = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and (newest is None or found.st_mtime > newest[0]):
            newest = (found.st_mtime, path)
    return newest[0] if newest is not None and _holds_any(newest[1], marks) else None


def _holds_any(path: str, marks: Sequence[bytes]) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(descriptor).st_size - _TAIL))
            tail = file.read(_TAIL)
    except OSError:
        return False
    return any(mark in tail.replace(b": ", b":") for mark in marks)


def _gone(items: object) -> str:
    """Return the first program or file of ours that an installed hook would start and that is not there."""
    for command in _commands(items):
        try:
            words = split(command)
        except ValueError:
            continue
        at = next((number for number, word in enumerate(words) if word.endswith(f"/{ENTRY}")), None)
        for word in () if at is None else (words[0], words[at]):
            if word.startswith("/") and not os.path.exists(word):
                return word
    return ""


def _commands(tree: object) -> Iterator[str]:
    """Yield every text in a tree of settings that may start something of ours."""
    if isinstance(tree, str):
        if ENTRY in tree:
            yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _commands(value)
    elif not isinstance(tree, int | float | None):
        for value in tree:  # type: ignore[attr-defined]
            yield from _commands(value)


def _settings_files(agent: str, home: str, root: str) -> list[str]:
    """Return the files in which the hooks of an agent can be switched off, of the user and of the project."""
    names = {
        CLAUDE_CODE: (".claude/settings.json", ".claude/settings.local.json"),
        GEMINI: (".gemini/settings.json",),
        QWEN: (".qwen/settings.json",),
        COPILOT: (".github/copilot/settings.json", ".github/copilot/settings.local.json"),
    }
    own = (".copilot/settings.json", ".copilot/config.json") if agent == COPILOT else ()
    return [*(os.path.join(home, name) for name in own), *(os.path.join(root, name) for name in names.get(agent, ()))]


def _is_untrusted_folder(home: str, root: str) -> bool:
    """Whether the user does not trust the workspace in Gemini CLI, or a directory above it."""
    try:
        with open(os.path.join(home, ".gemini/trustedFolders.json"), "rb") as file:
            tree = json.loads(file.read(_TAIL))
    except (OSError, ValueError, RecursionError):
        return False
    above = [root, *_parents(root)]
    said = [tree[place] for place in above if isinstance(tree, dict) and place in tree]
    return bool(said) and said[0] == "DO_NOT_TRUST"


def _parents(path: str) -> Iterator[str]:
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        yield path


def _last(seen: float | None, now: float) -> str:
    if seen is None:
        return "it asks byleave before every call; it has made none so far"
    ago = max(0, round((now - seen) / _DAY))
    return f"it asks byleave before every call, the last time {'today' if not ago else f'{ago} days ago'}"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
