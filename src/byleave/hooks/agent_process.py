"""The agent's process among the ancestors of a hook, and its version: from what /proc and the installed package say.

What the environment or the event says about a version is not read: both pass through settings that a project may have.
Nor is a package inside the workspace, which the agent can write. Where an ancestor may be the agent and its version
cannot be found, `problem` says so. Where none of them can be the agent, a person or a test has started the hook.

Start at `find_agent`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from byleave.caller import parent_process
from byleave.core.fs_rules import is_under
from byleave.hooks.agents import CLAUDE_CODE, CODEX, GEMINI, OPENCODE
from byleave.hooks.event_reader import UnreadableEventError, read_object
from byleave.record import Record
from byleave.text import quoted
from byleave.user_files import first_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Version = tuple[int, ...]

# What the agents' programs are called, and the packages that they come in; the platform's own package ends in its name.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    CLAUDE_CODE: ("claude",),
    CODEX: ("codex",),
    GEMINI: ("gemini",),
    OPENCODE: ("opencode",),
}
_PACKAGES: Mapping[str, tuple[str, ...]] = {
    CLAUDE_CODE: ("@anthropic-ai/claude-code",),
    CODEX: ("@openai/codex",),
    GEMINI: ("@google/gemini-cli",),
    OPENCODE: ("opencode-ai", "opencode"),
}
_SDK = "@anthropic-ai/claude-agent-sdk"  # has a Claude Code of its own, and says which
_RUNTIMES = ("node", "nodejs", "bun", "deno", "electron")
_DELETED = " (deleted)"
_MOST_ANCESTORS = 64
_MOST_LEVELS = 8  # from a program up to the package.json of its package
_LARGEST = 1 << 20


class FoundAgent(Record):
    """The nearest ancestor that is the agent: `process` is its pid and start time, None if there is none.

    `words` is its command line. `problem` says why its version is not known.
    """

    process: tuple[int, int] | None = None
    version: Version = ()
    words: tuple[str, ...] = ()
    problem: str = ""


class _Ancestor(Record):
    pid: int
    started: int
    name: str  # as the kernel knows it, 15 letters of it
    program: str | None  # None where it cannot be read
    words: tuple[str, ...]


def find_agent(agent: str, root: str, *, pid: int | None = None, proc: str = "/proc") -> FoundAgent:
    """Return the process of an agent that works on the workspace at `root`; `pid` is where the search begins."""
    unreadable = ""
    for each in _ancestors(parent_process() if pid is None else pid, proc):
        if each is None:
            return FoundAgent(problem="its process cannot be found")
        process = (each.pid, each.started)
        if each.program is None:
            names = {each.name, os.path.basename(each.words[0])}
            if not names.isdisjoint(("", *_PROGRAMS[agent], *_RUNTIMES)):
                unreadable = unreadable or f"it is not known what the process {each.pid} is"
            continue
        version, problem = _version(agent, each, root, proc)
        if version:
            return FoundAgent(process, version, each.words, unreadable)
        if problem:
            return FoundAgent(process, (), each.words, problem)
    return FoundAgent(problem=unreadable)


def _ancestors(pid: int, proc: str) -> Iterator[_Ancestor | None]:
    """Yield what is known of the processes above, the nearest first; None where the way up is lost."""
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:  # above the first process, or outside of this namespace
            return
        place = f"{proc}/{pid}"
        status = first_bytes(f"{place}/stat", _LARGEST)
        head, _, tail = status.rpartition(b")")
        fields = tail.split()
        if len(fields) < 20:
            yield None
            return
        try:
            program: str | None = os.readlink(f"{place}/exe")
        except FileNotFoundError:  # a kernel's own process has none
            program = ""
        except OSError:
            program = None
        words = tuple([os.fsdecode(word) for word in first_bytes(f"{place}/cmdline", _LARGEST).split(b"\0")])
        yield _Ancestor(pid, int(fields[19]), os.fsdecode(head.partition(b"(")[2]), program, words)
        pid = int(fields[1])
    yield None


def _version(agent: str, ancestor: _Ancestor, root: str, proc: str) -> tuple[Version, str]:
    """Return the version of a process that is the agent, or why it is not known; neither if it is not the agent."""
    program = (ancestor.program or "").removesuffix(_DELETED)
    deleted = program != ancestor.program
    name = os.path.basename(program)
    runtime = name in _RUNTIMES or name.rstrip("0123456789.-") in _RUNTIMES
    script = _script(ancestor, proc) if runtime else None
    if runtime and script is None:
        return (), f"the process {ancestor.pid} ({name}) may be the agent, and its version cannot be found"
    place = os.path.realpath(script) if script is not None else program
    installed = _as_version(name) if os.path.basename(os.path.dirname(program)) == "versions" else ()
    if installed and f"/{_PROGRAMS[agent][0]}/versions/" in program and not is_under(program, root):
        return installed, ""  # the native installer's own directory, a file for each version
    named = name.removesuffix(".exe") in _PROGRAMS[agent] or os.path.basename(ancestor.words[0]) in _PROGRAMS[agent]
    found = _package(place)
    theirs = found is not None and any(
        found[0] == name or found[0].startswith(f"{name}-linux") for name in _PACKAGES[agent]
    )
    if found is None or not theirs:
        if named:
            return (), f"the version of {quoted(place)} cannot be found"
        return (), ""
    _name, text, file = found
    if is_under(file, root):
        return (), f"{quoted(file)} lies in the workspace, where the agent could change it"
    if deleted or _changed_since(file, ancestor):
        return (), "it was updated since it was started: start it again"
    version = _as_version(text)
    return version, "" if version else f"{quoted(file)} has no version that byleave can read"


def version_of(agent: str, program: str) -> Version:
    """Return the version of an installed program of an agent; () if it is not known, or it is another program."""
    place = os.path.realpath(program)
    installed = _as_version(os.path.basename(place)) if os.path.basename(os.path.dirname(place)) == "versions" else ()
    if installed and f"/{_PROGRAMS[agent][0]}/versions/" in place:
        return installed
    found = _package(place)
    known = found is not None and any(
        found[0] == name or found[0].startswith(f"{name}-linux") for name in _PACKAGES[agent]
    )
    return _as_version(found[1]) if found is not None and known else ()


def _script(ancestor: _Ancestor, proc: str) -> str | None:
    """Return the script that a runtime runs; None if its command line does not say."""
    try:
        here = os.readlink(f"{proc}/{ancestor.pid}/cwd")
    except OSError:
        here = "/"
    for word in ancestor.words[1:]:
        if word.startswith("-"):
            continue
        path = os.path.join(here, word)
        return path if word and os.path.isfile(path) else None
    return None


def _package(place: str) -> tuple[str, str, str] | None:
    """Return the name, the version and the file of the package that a program belongs to."""
    directory = os.path.dirname(place)
    for _ in range(_MOST_LEVELS):
        file = os.path.join(directory, "package.json")
        content = first_bytes(file, _LARGEST)
        if content:
            try:
                tree = read_object(content)
            except UnreadableEventError:
                return None
            name, version = tree.get("name"), tree.get("version")
            if isinstance(name, str) and name.startswith(f"{_SDK}-linux"):  # the SDK's package for this platform
                return _package(os.path.join(os.path.dirname(directory), os.path.basename(_SDK), "sdk"))
            if name == _SDK:
                name, version = _PACKAGES[CLAUDE_CODE][0], tree.get("claudeCodeVersion")
            if isinstance(name, str) and isinstance(version, str):
                return name, version, file
        directory = os.path.dirname(directory)
    return None


def _changed_since(file: str, ancestor: _Ancestor) -> bool:
    """Whether a file was changed after the process had started: then it may speak of another version."""
    try:
        up = time.clock_gettime(time.CLOCK_BOOTTIME) - ancestor.started / os.sysconf("SC_CLK_TCK")
        return os.stat(file).st_ctime > time.time() - up + 1
    except OSError:
        return True


def _as_version(text: str) -> Version:
    """Return the numbers of a version such as 2.1.325 or 0.166.0-linux-x64; () if it is none."""
    parts = text.split("-", maxsplit=1)[0].split("+", maxsplit=1)[0].split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
        return ()
    return tuple([int(part) for part in parts])
