"""`byleave setup`: one command that puts byleave in place, and one question before it.

Finds the agents, editors and the project; shows every step; asks once; does the steps; proves each hook; and ends with
what now happens to six typical commands. `--undo` takes away what it has put in place. The steps: `setup_steps`.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from textwrap import wrap
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.cli.hook_command import home_of
from byleave.cli.output import paint, say, say_json
from byleave.cli.setup_steps import (
    DONE,
    FAILED,
    HOOK,
    IMPORT,
    NO_FILE,
    NO_PROJECT,
    PROBE,
    SKIPPED,
    TRUST,
    WOULD,
    SetupSteps,
    problem_of,
)
from byleave.cli.terminal import consents, may_ask, record_answers, started_by_agent
from byleave.cli.workspace import open_workspace
from byleave.core.decision import ALLOW, ASK
from byleave.errors import ByleaveError, ConfigErrors, StateError
from byleave.hooks.confining import SHELL_TOOLS
from byleave.hooks.detect import find_agents, find_editors
from byleave.hooks.snippets import PLACES
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from byleave.sandbox.can_confine import can_confine, machine_problem
from byleave.text import sentence_list, shown
from byleave.user_files import Lock, make_private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.cli.arguments import ParsedArguments
    from byleave.cli.setup_steps import SetupStep
    from byleave.hooks.detect import Detected
    from byleave.policy.live_policy import LivePolicy

REFUSED = 1
NEEDS_CONSENT = 10
WIDTH = 80
_MOST_LINES = 8  # of what a step shows beneath it, so that all steps fit on a screen
_TESTS = (
    ("package.json", "npm test", "npm install left-pad"),
    ("Cargo.toml", "cargo test", "cargo add serde"),
    ("go.mod", "go test ./...", "go get example.org/x"),
    ("uv.lock", "uv run pytest", "uv add requests"),
    ("pyproject.toml", "pytest", "pip install requests"),
    ("Makefile", "make test", "pip install requests"),
)


def run(given: ParsedArguments) -> int:
    """Show what would be done, ask, do it, and report."""
    home = home_of(given)
    workspace = open_workspace(given)
    workspaces = [workspace]
    hooks_homes = find_homes({"HOME": home})
    if hooks_homes != workspace.homes:
        workspaces.append(Workspace(workspace.root.path, homes=hooks_homes))
    undo = given.flag("undo")
    found = find_agents(home, os.environ.get("PATH", ""))
    named = given.options.get("agent", [])
    agents = list(dict.fromkeys(named)) if named or undo else [each.name for each in found]
    steps = SetupSteps(workspaces, home, agents)
    planned = steps.plan_undo() if undo else steps.plan()
    screen = [*_heading(workspace, found, home), *_shown_steps(planned, home, undo=undo)]
    open_steps = [step for step in planned if step.status == WOULD]
    if given.flag("dry_run"):
        return _report(given, screen, planned, ok=not _failed(planned), code=0)
    if not open_steps:
        screen += [] if _failed(planned) else ["", "Nothing to do." if not undo else "Nothing to undo."]
        code = _report(given, screen, planned, ok=not _failed(planned))
        _say_commands(given, workspaces[-1], [] if undo else _guarded(planned))
        return code
    if started_by_agent():
        raise StateError(
            "this needs your consent, and an agent or tool may have started this command",
            hint="run the command yourself, in a terminal of your own",
        )
    if not given.flag("yes") and not may_ask(given):
        screen += ["", "Nothing was changed: this needs your consent, at a terminal or by --yes."]
        return _report(given, screen, planned, ok=False, code=NEEDS_CONSENT)
    _say(given, screen)
    if not consents(given, "\nUndo all of this?" if undo else "\nDo all of this?", about=screen):
        _say(given, ["Nothing was changed."])
        return _report(given, [], planned, ok=False, code=REFUSED)
    finished = list(_do(steps, planned, undo=undo))
    done = [step for step in finished if step.status == DONE]
    record_answers(given, workspaces[-1], [f"{step.step} {step.agent or ''}: {step.detail}" for step in done])
    code = _report(given, ["", *_results(finished)], finished, ok=not _failed(finished))
    _say(given, list(_afterwards(steps, finished, home, undo=undo)))
    _say_commands(given, workspaces[-1], [] if undo else _guarded(finished))
    return code


def _do(steps: SetupSteps, planned: Sequence[SetupStep], *, undo: bool) -> Iterator[SetupStep]:
    """Do what was agreed to, one setup at a time; what another one has done meanwhile is not done again."""
    with ExitStack() as stack:
        try:
            state = make_private_directory(steps.state)
            stack.enter_context(Lock(os.path.join(state, "setup.lock")))
        except (ByleaveError, OSError):  # nothing can be written there: the steps themselves say so
            stack.close()
        fresh = {(step.step, step.agent): step for step in (steps.plan_undo() if undo else steps.plan())}
        for step in planned:
            current = fresh.get((step.step, step.agent), structs.replace(step, status=SKIPPED, act=None))
            if step.status == WOULD and current.status == WOULD and not current.is_same(step):
                detail = f"it is not what you agreed to any more ({current.detail}): run it again"
                yield structs.replace(current, status=FAILED, detail=detail, act=None)
            else:
                yield current.done() if step.status == WOULD and current.status == WOULD else current


def _guarded(steps: Sequence[SetupStep]) -> list[str]:
    """Return the agents that have the hook."""
    return [step.agent or "" for step in steps if step.step == HOOK and step.status in (DONE, SKIPPED)]


def _failed(steps: Sequence[SetupStep]) -> bool:
    return any(step.status == FAILED for step in steps)


def _report(
    given: ParsedArguments, lines: Sequence[str], steps: Sequence[SetupStep], *, ok: bool, code: int | None = None
) -> int:
    """Print the lines for people, or the steps for programs, and return the exit code."""
    if given.flag("json"):
        say_json({"steps": [step.tree for step in steps], "ok": ok})
    else:
        _say(given, lines)
    return (0 if ok else REFUSED) if code is None else code


def _say(given: ParsedArguments, lines: Sequence[str]) -> None:
    if not given.flag("json") and not given.flag("quiet"):
        for line in lines:
            say(line)


def _heading(workspace: Workspace, found: Sequence[Detected], home: str) -> Iterator[str]:
    yield paint("byleave setup", "bold")
    yield from _folded("project", _short(workspace.root.path, home))
    editors = find_editors(home, os.environ.get("PATH", ""))
    names = [f"{each.title} ({shown(_short(each.place, home))})" for each in [*found, *editors]]
    if found:
        yield from _folded("found", ", ".join(names))
        return
    titles = ", ".join(f"{place.title} (--agent {agent})" for agent, place in PLACES.items())
    yield from _folded("found", ", ".join([*names, "no agent that byleave has a hook for"]))
    yield from _folded("hooks", f"there are hooks for {titles}")
    others = "byleave acp stands between an editor and any ACP agent, byleave mcp before MCP servers"
    yield from _folded("else", f"{others}, and byleave run starts any program in a sandbox")


def _shown_steps(steps: Sequence[SetupStep], home: str, *, undo: bool) -> Iterator[str]:
    """Yield what would be done, what is in place, and what cannot be done."""
    would = [step for step in steps if step.status == WOULD]
    if would:
        yield ""
        yield "It would:"
    for number, group in enumerate(_groups(would), start=1):
        together = len(group) > 1
        text = _TOGETHER[group[0].step] if together else group[0].detail
        if together and undo:
            text = "have these agents ask byleave no more:"
        if together and group[0].step == PROBE:
            text = f"{text}: {', '.join(PLACES[step.agent or ''].title for step in group)}"
        yield from _folded(f"{number:>5}", text)
        for step in group:
            yield from _beneath(step, home, named=together)
    missing = [step for step in steps if step.detail in (NO_PROJECT, NO_FILE)]
    kept = [step for step in steps if step.status == SKIPPED and step.step != IMPORT and step not in missing]
    if kept and not undo:
        yield ""
        yield "In place:" if would or missing else "Everything is in place:"
        for step in kept:
            yield from _folded("", step.detail)
    if missing and not undo:
        yield ""
        yield from _folded("but", missing[0].detail)
    for step in steps:
        if step.status == FAILED or (undo and step.status == SKIPPED):
            yield from _folded("but", _with_agent(step))


_TOGETHER = {
    HOOK: "have these agents ask byleave before every tool call:",
    PROBE: "send a real event through each hook",
}


def _groups(steps: Sequence[SetupStep]) -> Iterator[list[SetupStep]]:
    """Yield the steps, those together that do the same for several agents."""
    for kind in dict.fromkeys(step.step for step in steps):
        alike = [step for step in steps if step.step == kind]
        yield from [alike] if kind in _TOGETHER else [[step] for step in alike]


def _beneath(step: SetupStep, home: str, *, named: bool) -> Iterator[str]:
    """Yield the details of a step that a person agrees to."""
    if step.step == HOOK:
        name = f"{PLACES[step.agent or ''].title} " if named else ""
        yield from _folded("", f"{name}({_short(step.lines[0], home)})")
    elif step.step == TRUST:  # whole: it may be a stranger's
        yield from (row for line in step.lines for row in _folded("", line.strip()))
    elif step.step == IMPORT:
        yield from (f"            {_cut(shown(line), WIDTH - 12)}" for line in step.lines[:_MOST_LINES])
        if len(step.lines) > _MOST_LINES:
            yield f"            and {len(step.lines) - _MOST_LINES} more: byleave policy import {step.agent}"


def _with_agent(step: SetupStep) -> str:
    return step.detail if step.agent is None else f"{PLACES[step.agent].title}: {step.detail}"


def _results(steps: Sequence[SetupStep]) -> Iterator[str]:
    for step in steps:
        if step.status == SKIPPED:
            continue
        colour = {DONE: "allow", FAILED: "deny"}.get(step.status, "dim")
        label = f"{step.status:<8}"
        first, *others = _folded("", _with_agent(step) if step.status == FAILED else step.detail)
        yield f"  {paint(label, colour)}  {first.strip()}"
        yield from others


def _afterwards(steps: SetupSteps, finished: Sequence[SetupStep], home: str, *, undo: bool) -> Iterator[str]:
    """Yield what is left for the user to know."""
    if not undo and not any(step.step == HOOK for step in finished):
        yield from _folded("next", "no agent asks byleave yet: byleave setup --agent NAME has one of them do so")
    for step in finished:
        if step.step == HOOK and step.status == DONE and not undo and PLACES[step.agent or ""].note:
            yield from _folded("note", PLACES[step.agent or ""].note)
    if not undo and any(step.step == HOOK and step.status == DONE for step in finished):
        yield from _folded("note", "an agent that is running already asks byleave from its next start on")
    editors = find_editors(home, os.environ.get("PATH", ""))
    if not undo and any(each.name == "zed" for each in editors):
        yield from _folded("note", "for an agent that Zed starts: byleave acp --setup zed -- AGENT prints the settings")
    if undo and steps.other_projects and any(step.step == HOOK for step in finished):
        places = ", ".join(shown(root) for root in steps.other_projects)
        yield from _folded("note", f"the agents ask byleave nowhere any more; it was set up in {places} as well")


def _say_commands(given: ParsedArguments, workspace: Workspace, agents: Sequence[str]) -> None:
    """Say what now happens to typical commands: of the agents that byleave confines here, or of the others."""
    if not agents or given.flag("json") or given.flag("quiet"):
        return
    try:
        policy = workspace.load()
        problem = can_confine(policy, workspace, agents[0])
        weak = machine_problem(workspace.homes.memory)
        confined = [agent for agent in agents if agent in SHELL_TOOLS and problem is None]
        named = confined or agents
        commands = _typical(workspace.root.path)
        outcomes = [_outcome(policy, command, named[0], confines=bool(confined)) for command in commands]
    except (ByleaveError, ConfigErrors) as error:
        say("")
        for line in _folded("but", f"the policy cannot be used: {problem_of(error)}"):
            say(line)
        return
    say("")
    for line in wrap(f"What now happens when {_titles(named)} {'runs' if len(named) == 1 else 'run'}", WIDTH):
        say(line)
    width = max(map(len, commands))
    for command, outcome in zip(commands, outcomes, strict=True):
        say(f"  {command:<{width}}  {outcome}")
    if policy.compiled.settings["defaults"].get("mode") == "observe":
        say(f"but in observe mode this is only recorded, and {_titles(named)} decides")
    for line in wrap(" ".join(_unconfined(agents, confined, problem)), WIDTH, break_on_hyphens=False):
        say(line)
    if weak and problem is None:
        say("Commands are not fully confined here: byleave doctor says what is missing.")
    say("byleave check command 'ANY OTHER' tries others; byleave setup --undo undoes it.")


def _unconfined(agents: Sequence[str], confined: Sequence[str], problem: str | None) -> Iterator[str]:
    """Yield where commands are not confined, and what that means."""
    if problem is not None:
        yield f"Nothing can run confined here, so more needs your approval: {problem}."
        return
    others = [agent for agent in agents if agent not in confined]
    if others:
        yield f"byleave cannot confine commands of {_titles(others)}: what runs only confined is asked about."
    older = [f"{PLACES[agent].title} before {'.'.join(map(str, SHELL_TOOLS[agent].since))}" for agent in confined]
    if older:
        yield (
            f"The same holds for {sentence_list(older)}."
            if others
            else (f"With {sentence_list(older)}, what runs only confined is asked about.")
        )


def _titles(agents: Sequence[str]) -> str:
    return sentence_list([PLACES[agent].title for agent in agents])


def _typical(root: str) -> list[str]:
    there = [(test, install) for marker, test, install in _TESTS if os.path.lexists(os.path.join(root, marker))]
    test, install = there[0] if there else ("make test", "pip install requests")
    return ["git status", test, install, "git push", "cat .env", "rm -rf ~/"]


def _outcome(policy: LivePolicy, command: str, agent: str, *, confines: bool) -> str:
    verdict = policy.decide({"kind": "command", "command": command, "agent": agent}, confines=confines)
    confined = confines and verdict.sandbox is not None and verdict.sandbox[0]
    if verdict.decision is ALLOW:
        return paint("runs", "allow") + (" confined, without a question" if confined else ", without a question")
    if verdict.decision is ASK:
        return paint("needs your approval", "ask")
    return paint("is denied", "deny")


def _folded(label: str, text: str) -> list[str]:
    """Return a text in lines that fit, behind its label."""
    rows = wrap(shown(text), WIDTH - 12, break_on_hyphens=False) or [""]
    return [f"  {label if number == 0 else '':<8}  {row}".rstrip() for number, row in enumerate(rows)]


def _short(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
