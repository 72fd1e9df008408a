"""--tool and --access: whose access holds for a program that the operating system is to hold to the policy."""

import os

from byleave.cli.output import warn
from byleave.cli.workspace import working_directory
from byleave.config.compile import RUN_TOOL
from byleave.errors import InputError
from byleave.guard.asking import Who

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.api import Workspace
    from byleave.cli.arguments import Given
    from byleave.config.layers import Layer
    from byleave.guard.guard import Guard
    from byleave.guard.judge import Policy
    from byleave.guard.notices import Notices
    from byleave.sandbox.box import Sandbox
    from byleave.sandbox.network import Decide

DOOR = "run"


def refuse_both(given: "Given") -> None:
    """Raise an InputError if --tool and --access are both there."""
    if given.one("tool") is not None and given.one("access") is not None:
        raise InputError("--tool and --access are two ways to say the same", hint="give one of them")


def confining_policy(given: "Given", workspace: "Workspace") -> "tuple[Policy, str]":
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


def _made_up(given: "Given") -> "Layer":
    from byleave.config.access_file import access_layer

    file = given.one("access")
    return access_layer(RUN_TOOL, None if file is None else os.path.join(working_directory(), file), file)


def confining_guard(given: "Given", workspace: "Workspace", box: "Sandbox") -> "Guard":
    """Return the guard that answers and records what is asked for in the sandbox. Close it in the end."""
    session = given.one("session")
    guard = workspace.guard(DOOR, session=session if session is not None else "default", policy=box.policy)
    box.decide = _deciding(guard)
    return guard


def _deciding(guard: "Guard") -> "Decide":
    def decide(action: "dict[str, Any]") -> "Any":
        return guard.check(action, Who(None, "default")).verdict

    return decide


def warn_of_appeared(given: "Given", workspace: "Workspace", box: "Sandbox", since: float) -> None:
    """Say what has changed meanwhile that git, a shell, an editor or a package manager would run by itself later."""
    found = box.appeared_since(since)
    if found is None or given.flag("quiet"):
        return
    if found.sentence is not None:
        warn(given, [found.sentence])
    elif not found.complete:
        told = "there is too much in the workspace to look at all of it after a run for files that other programs obey"
        warn(given, _notices(given, workspace, box).say_once("appeared", told))


def warn_of_weaker(given: "Given", workspace: "Workspace", box: "Sandbox") -> None:
    """Say once in a session what is not enforced, where something weaker than namespaces holds the program."""
    weaker = None if box.setup is None else box.setup.weaker
    if box.setup is None or weaker is None:
        return
    warn(given, _notices(given, workspace, box).say_once(f"os sandbox {box.setup.backend}", weaker))


def _notices(given: "Given", workspace: "Workspace", box: "Sandbox") -> "Notices":
    from byleave.guard.notices import Notices

    session = given.one("session")
    directory = os.path.dirname(workspace.files.session_file(session if session is not None else "default"))
    return Notices(workspace.sensitive(box.policy.compiled), directory)
