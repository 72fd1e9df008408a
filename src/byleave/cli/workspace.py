"""The workspace and the policy that the common flags name; with `-v`, what was read for them.

`--tool` and `--access` name the access that the operating system enforces for a program.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from byleave.cli.output import say_verbose, warn
from byleave.core.observing import LEFT_TO_AGENT, OBSERVE
from byleave.errors import InputError, StateError
from byleave.policy.compile import RUN_TOOL
from byleave.policy.layers import ENCLOSING
from byleave.policy.load import Workspace
from byleave.policy.sandbox_settings import access_layer, shell_layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import ParsedArguments
    from byleave.guard.guard import Guard
    from byleave.guard.warnings import SensitiveWarnings
    from byleave.net.proxy import Decide
    from byleave.policy.compile import Compiled
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy
    from byleave.sandbox.confinement import Confinement


def working_directory() -> str:
    """Return the working directory, which may have been removed meanwhile."""
    try:
        return os.getcwd()
    except OSError as error:
        raise InputError(
            f"the working directory cannot be used: {error.strerror}", hint="go to one that exists, or give --root DIR"
        ) from None


def open_workspace(given: ParsedArguments, root: str | None = None) -> Workspace:
    """Return the workspace at `root`, else at `--root`, else around the working directory."""
    path = root if root is not None else given.one("root")
    if path == "":
        raise InputError("the root is empty", hint="name a directory, or leave the root out to have it found")
    workspace = Workspace(path)
    _sweep(workspace)
    return workspace


def _sweep(workspace: Workspace) -> None:
    """Remove the names that a killed run has left reserved; one look if there are none."""
    state = workspace.homes.workspace(workspace.root.path)
    if not os.path.lexists(os.path.join(state, "placeholders.json")):  # the journal of what is imported below
        return
    from byleave.sandbox.placeholders import Placeholders  # heavy: a check does not need it

    with suppress(StateError):  # a run is just beginning or ending, or it cannot be done now: the next one does it
        Placeholders(state, workspace.root.path).recover(patience=0.0)


def load_policy(given: ParsedArguments, workspace: Workspace) -> LivePolicy:
    """Return the policy that the common flags ask for."""
    session = given.one("session")
    return workspace.load(files=given.options.get("policy", ()), session=session if session is not None else "default")


def open_policy(given: ParsedArguments) -> LivePolicy:
    """Return the policy of the workspace, and show its warnings and, with `-v`, where it came from."""
    policy = load_policy(given, open_workspace(given))
    say_verbose(given, origins(policy))
    warn(given, policy.warnings)
    return policy


def origins(policy: LivePolicy) -> Iterator[str]:
    """Yield a sentence for everything that was read."""
    yield f"the workspace is {policy.root.path}"
    for layer in policy.compiled.layers:
        around = ", which only tightens" if layer.name == ENCLOSING else ", which is not trusted"
        trust = "" if layer.trusted else around
        yield f"read {layer.file} ({layer.name}){trust}"
    if not policy.compiled.layers:
        yield "no configuration was found: only the built-in rules hold"


def loosened(compiled: Compiled) -> Iterator[str]:
    """Yield a sentence for each setting that has byleave decide less than its rules say."""
    if compiled.settings["defaults"].get("mode") == OBSERVE:
        yield (
            '[defaults] mode = "observe": hooks and the ACP proxy only record what the rules would decide; what '
            "byleave protects by itself stays protected (`byleave audit summary` shows what would have been)"
        )
    if compiled.settings["hooks"].get("silent") == LEFT_TO_AGENT:
        yield '[hooks] silent = "agent": a command that no rule matches is left to the agent\'s own permissions'


DOOR = "run"


def refuse_both(given: ParsedArguments) -> None:
    """Raise an InputError if --tool and --access are both there."""
    if given.one("tool") is not None and given.one("access") is not None:
        raise InputError("--tool and --access are two ways to say the same", hint="give one of them")


def confining_policy(given: ParsedArguments, workspace: Workspace) -> tuple[LivePolicy, str]:
    """Return the policy and the tool whose access holds; without --tool, one that is made for this run."""
    session = given.one("session")
    tool = given.one("tool")
    extra: list[Layer] = []
    if tool is None:
        extra.append(_made_up(given))
    policy = workspace.load(
        files=given.options.get("policy", ()), session=session if session is not None else "default", extra=extra
    )
    if tool is not None and tool not in policy.compiled.tools:
        raise policy.compiled.no_tool(tool)
    return policy, tool if tool is not None else RUN_TOOL


def shell_policy(given: ParsedArguments, workspace: Workspace) -> LivePolicy:
    """Return the policy for a command line that runs confined, whether there is a [shell] table or not."""
    session = given.one("session")
    files = given.options.get("policy", ())
    return workspace.load(files=files, session=session if session is not None else "default", extra=[shell_layer()])


def _made_up(given: ParsedArguments) -> Layer:
    file = given.one("access")
    return access_layer(RUN_TOOL, None if file is None else os.path.join(working_directory(), file), file)


def confining_guard(given: ParsedArguments, workspace: Workspace, policy: LivePolicy) -> Guard:
    """Return the guard that answers and records what a program in the sandbox requests. Close it in the end."""
    from byleave.guard.open_guard import guard_for  # `check` needs no guard

    session = given.one("session")
    return guard_for(
        workspace, DOOR, session=session if session is not None else "default", policy=policy, client_approves=None
    )


def decided_by(guard: Guard) -> Decide:
    """Return what answers for a sandbox by a guard, which records each decision."""
    from byleave.guard.evaluation import Who  # heavy: a check does not need it

    def decide(action: dict[str, Any]) -> Any:
        return guard.check(action, Who(None, "default")).verdict

    return decide


def warn_of_tampering(
    given: ParsedArguments,
    confinement: Confinement,
    since: float,
    *,
    session: str | None = None,
    seconds: float | None = None,
) -> None:
    """Say what has changed meanwhile that git, a shell, an editor or a package manager would run by itself later.

    It looks for `seconds`, else for as long as after `byleave run`. `session`: the one that hears only once that not
    all was looked at; else the one that the flags name.
    """
    found = confinement.tampered_since(since, seconds)
    if found is None or given.flag("quiet"):
        return
    if found.sentence is not None:
        warn(given, [found.sentence])
    elif not found.complete:
        note = "the workspace is too large to be searched after a run for changed files that other programs obey"
        warn(given, _notices(given, confinement, session).say_once("appeared", note))


def warn_of_weaker(given: ParsedArguments, confinement: Confinement, *, session: str | None = None) -> None:
    """Say once in a session what is not enforced, where something weaker than namespaces holds the program."""
    weaker = confinement.weaker
    if confinement.setup is None or weaker is None:
        return
    warn(given, _notices(given, confinement, session).say_once(f"os sandbox {confinement.setup.backend}", weaker))


def _notices(given: ParsedArguments, confinement: Confinement, session: str | None) -> SensitiveWarnings:
    from byleave.guard.warnings import SensitiveWarnings  # heavy: a check does not need it

    session, workspace = session if session is not None else given.one("session"), confinement.workspace
    directory = os.path.dirname(workspace.files.session_file(session if session is not None else "default"))
    return SensitiveWarnings(workspace.sensitive(confinement.policy.compiled), directory)
