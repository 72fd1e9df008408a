"""`byleave hook`: answer an agent's own hook event; `--install` and `--uninstall` change the agent's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import say, say_json, warn
from byleave.cli.workspace import open_workspace
from byleave.core.fs_rules import is_under
from byleave.errors import InputError, StateError
from byleave.hooks.event_reader import Hook
from byleave.hooks.hook import serve
from byleave.policy.dirs import find_homes, find_root
from byleave.policy.load import Workspace
from byleave.store.tickets import confining_ended, resume_confining
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

    from byleave.cli.arguments import ParsedArguments
    from byleave.hooks.install import InstallPlan

REFUSED = 1
INSTALL, UNINSTALL, RESUME = "install", "uninstall", "resume"


def run(given: ParsedArguments) -> int:
    """Serve the event on standard input, unless the agent's settings are to be changed."""
    verbs = [verb for verb in (INSTALL, UNINSTALL, RESUME) if given.flag(verb)]
    agent = given.words.get("AGENT")
    if len(verbs) + (agent is not None) != 1:
        raise InputError(
            "one agent has to be named",
            hint="write byleave hook AGENT, --install AGENT, --uninstall AGENT or --resume AGENT",
        )
    if given.flag(RESUME):
        return _resume(given, str(given.one(RESUME)))
    if agent is None:
        return _change(given, verbs[0], str(given.one(verbs[0])))
    return _serve(given, agent)


def _serve(given: ParsedArguments, agent: str) -> NoReturn:
    hook = Hook(
        agent,
        given.one("home"),
        given.one("root"),
        tuple(given.options.get("policy", ())),
        given.one("session") or "default",
        given.one("agent_profile"),
    )
    serve(hook)


def _resume(given: ParsedArguments, agent: str) -> int:
    """Have the commands of an agent run confined again, once a person has looked at the one that did not."""
    from byleave.cli.terminal import consents, record_answers  # heavy: an event needs no settings file

    workspace = _workspace(given, home_of(given)) if given.one("home") is not None else open_workspace(given)
    directory = workspace.homes.workspace(workspace.root.path)
    why = confining_ended(directory, agent)
    resumed = False
    if why is not None:
        lines = [f"The commands of {agent} are not confined any more, because {shown(why)}."]
        if not given.flag("quiet") and not given.flag("json"):
            say(lines[0])
        if not consents(given, "Confine them again?", about=lines):
            return REFUSED
        resumed = resume_confining(directory, agent)
        record_answers(given, workspace, [f"resume {agent} ({why})"])
    if given.flag("json"):
        say_json({"agent": agent, "resumed": resumed})
    elif not given.flag("quiet"):
        say(f"the commands of {agent} run confined again" if resumed else "nothing was changed")
    return 0


def _change(given: ParsedArguments, verb: str, agent: str) -> int:
    """Show what would be written, ask, and write it."""
    from byleave.cli.terminal import consents, record_answers  # heavy: an event needs no settings file
    from byleave.hooks.install import carry_out

    home = home_of(given)
    plan = plan_change(given, verb, agent, home)
    if given.flag("dry_run"):
        return _show(given, plan)
    lines = list(_lines(plan, verb))
    if not given.flag("quiet") and not given.flag("json"):
        say("\n".join(lines))
    if plan.changes:
        if not consents(given, "Write this?" if verb == INSTALL else "Remove it?", about=lines):
            return _done(given, verb, plan, changed=False) or REFUSED
        carry_out(plan)
        record_answers(given, _workspace(given, home), [f"{verb} {agent} ({plan.file})"])
    if verb == INSTALL:
        warn(given, install_warnings(plan, home))
    return _done(given, verb, plan, changed=plan.changes)


def home_of(given: ParsedArguments) -> str:
    """Return the home of the user whose agents are meant."""
    home = given.one("home")
    if home is None:
        home = find_homes(os.environ).user
    if not os.path.isabs(home):
        raise InputError(f"the home is not absolute: {quoted(home)}", hint="write --home and the whole path, from / on")
    return os.path.normpath(home)


def plan_change(given: ParsedArguments, verb: str, agent: str, home: str) -> InstallPlan:
    """Return what `--install` or `--uninstall` would change."""
    # heavy: an event needs no settings file
    from byleave.hooks.install import our_words, plan_install, plan_uninstall, settings_file
    from byleave.hooks.snippets import PLACES

    if given.options.get("policy"):
        raise InputError("a hook reads the usual files", hint="leave --policy out")
    file = settings_file(agent, home)
    if verb == UNINSTALL:
        return plan_uninstall(agent, file)
    plan = plan_install(agent, file, our_words(agent, _options(given, home)))
    moved = [name for name in PLACES[agent].variables if os.environ.get(name) and given.one("home") is None]
    if moved:
        problem = f"{moved[0]} is set, so {plan.place.title} reads its settings elsewhere, where byleave guards nothing"
        hint = f"unset it; or paste this where {plan.place.title} reads:\n{plan.snippet.rstrip()}"
        raise StateError(problem, hint=hint)
    return plan


def _options(given: ParsedArguments, home: str) -> list[str]:
    """Return the flags that go along into the settings."""
    root, profile, session = given.one("root"), given.one("agent_profile"), given.one("session")
    options = ["--home", home]
    if root is not None:
        options += ["--root", os.path.abspath(root)]
    if profile is not None:
        options += ["--agent-profile", profile]
    if session is not None:
        options += ["--session", session]
    return options


def _show(given: ParsedArguments, plan: InstallPlan) -> int:
    if given.flag("json"):
        say_json({"file": plan.file, "changes": plan.changes, "content": plan.after})
    elif not plan.changes:
        say(f"{plan.file} would stay as it is")
    elif plan.after is None:
        say(f"{plan.file} would be removed")
    else:
        say(f"{plan.file} would be:\n{plan.after.rstrip()}")
    return 0


def _lines(plan: InstallPlan, verb: str) -> Iterator[str]:
    if not plan.changes:
        state = "asks byleave already" if verb == INSTALL else "does not ask byleave"
        yield f"{plan.place.title} {state} ({plan.file})"
    elif verb == UNINSTALL:
        yield f"{plan.place.title} would ask byleave no more ({plan.file})"
    else:
        yield f"{plan.place.title} would ask byleave before every tool call. {plan.file} would get:"
        yield plan.snippet.rstrip()


def _done(given: ParsedArguments, verb: str, plan: InstallPlan, *, changed: bool) -> int:
    kept = plan.kept_copy
    if given.flag("json"):
        say_json({"file": plan.file, "changed": changed, "backup": kept if changed else None})
    elif not given.flag("quiet"):
        beside = f" (what it was before: {kept})" if kept else ""
        say(f"{verb}ed: {plan.file}{beside}" if changed else "nothing was changed")
    return 0


def install_warnings(plan: InstallPlan, home: str) -> Iterator[str]:
    """Yield what the user has to know once the hook is installed."""
    from byleave.hooks.install import is_switched_off  # heavy: an event needs no settings file

    if is_switched_off(plan):
        yield f"hooks are switched off in {plan.file}: {plan.place.title} will not ask byleave"
    if plan.place.note:
        yield plan.place.note
    if find_homes(os.environ) != find_homes({"HOME": home}):
        yield f"the hook reads no environment variable: its configuration and its records are in {home}"
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if is_under(package, find_root(os.getcwd())):
        yield "byleave is installed inside this workspace: an agent that may write here can change it"


def _workspace(given: ParsedArguments, home: str) -> Workspace:
    return Workspace(given.one("root"), homes=find_homes({"HOME": home}))
