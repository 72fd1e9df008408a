"""Which agents and editors this machine has: their programs on PATH and in usual places, and their settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.hooks.agent_process import version_of
from byleave.hooks.agents import CLAUDE_CODE, CURSOR
from byleave.hooks.snippets import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Programs of agents that are not called as byleave calls the agent.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {CLAUDE_CODE: ("claude",), CURSOR: ("cursor-agent", "cursor")}
# Where installers put programs that a login shell alone has on its PATH; `*` is a version.
_USUAL = (
    *("~/.local/bin", "~/bin", "~/.claude/local", "~/.npm-global/bin", "~/.bun/bin", "~/.volta/bin", "~/.opencode/bin"),
    *("~/.nvm/versions/node/*/bin", "/usr/local/bin", "/opt/homebrew/bin", "/snap/bin"),
)
_EDITORS = {
    "zed": ("Zed", ("zed", "zeditor"), (".config/zed", "Library/Application Support/Zed")),
    "vscode": ("VS Code", ("code", "codium"), (".config/Code", "Library/Application Support/Code", ".vscode")),
}
_MOST_VERSIONS = 20


class Detected(Struct, frozen=True):
    """An agent or an editor that was found, and where."""

    name: str
    title: str
    place: str


def find_agents(home: str, path: str) -> list[Detected]:
    """Return the agents with hooks that this user has, in the order in which byleave lists them."""
    directories = _directories(home, path)
    found: list[Detected] = []
    for agent, settings in PLACES.items():
        place = _program(_PROGRAMS.get(agent, (agent,)), directories) or _settings(home, settings.file)
        if place is not None:
            found.append(Detected(agent, settings.title, place))
    return found


def oldest_version(agent: str, home: str, path: str) -> tuple[int, ...]:
    """Return the version of the oldest program of an agent that this user has; () if one of them is not known."""
    names, directories = _PROGRAMS.get(agent, (agent,)), _directories(home, path)
    files = [os.path.join(directory, name) for directory in directories for name in names]
    found = [version_of(agent, file) for file in files if os.path.isfile(file) and os.access(file, os.X_OK)]
    return min(found) if found and all(found) else ()


def find_editors(home: str, path: str) -> list[Detected]:
    """Return the editors that can start an agent through byleave, or run one with hooks."""
    directories = _directories(home, path)
    found: list[Detected] = []
    for name, (title, programs, settings) in _EDITORS.items():
        kept = [os.path.join(home, each) for each in settings if os.path.isdir(os.path.join(home, each))]
        place = _program(programs, directories) or next(iter(kept), None)
        if place is not None:
            found.append(Detected(name, title, place))
    return found


def _directories(home: str, path: str) -> list[str]:
    named = [each for each in path.split(os.pathsep) if os.path.isabs(each)]
    usual = [place for each in _USUAL for place in _expanded(each.replace("~", home, 1))]
    return list(dict.fromkeys([*named, *usual]))


def _expanded(place: str) -> Iterator[str]:
    before, star, behind = place.partition("*")
    if not star:
        yield place
        return
    try:
        names = sorted(os.listdir(before), reverse=True)[:_MOST_VERSIONS]
    except OSError:
        return
    yield from (f"{before}{name}{behind}" for name in names)


def _program(names: tuple[str, ...], directories: list[str]) -> str | None:
    for name in names:
        for directory in directories:
            file = os.path.join(directory, name)
            if os.path.isfile(file) and os.access(file, os.X_OK):
                return file
    return None


def _settings(home: str, file: str) -> str | None:
    """Return the directory that the agent keeps its settings in: the first below home, or below .config."""
    names = file.split("/")
    place = os.path.join(home, *names[: 2 if names[0] == ".config" else 1])
    return place if os.path.isdir(place) else None
