"""`byleave unmount`: take a mount of this session away, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.output import say, say_json, say_verbose, warn
from byleave.cli.terminal import record_answers, requires_person
from byleave.cli.workspace import open_workspace, working_directory
from byleave.errors import MountError, StateError
from byleave.mounts.apply import unmount
from byleave.store.approvals import now
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import ParsedArguments
    from byleave.mounts.apply import Unmount, Unmounts
    from byleave.policy.load import Workspace

REMAINS = 1


def run(given: ParsedArguments) -> int:
    """Take the named mount away, or every one, and say what became of each link."""
    workspace = open_workspace(given)
    say_verbose(given, [f"the workspace is {workspace.root.path}"])
    done = unmount_named(given, workspace, given.words.get("NAME"))
    if given.flag("json"):
        say_json({"unmounted": [each.tree() for each in done.unmounts]})
    elif not given.flag("quiet"):
        for line in [line for each in done.unmounts for line in _lines(each)] or ["nothing is mounted"]:
            say(line)
    return REMAINS if any(each.stays for each in done.unmounts) else 0


def unmount_named(given: ParsedArguments, workspace: Workspace, name: str | None) -> Unmounts:
    """Take a mount away, or every one, with the consent of a person or a script, and record it."""
    _require_person(given)
    workspace.approvals.mounts()  # reads them, and says so if that is not possible
    warn(given, workspace.approvals.warnings)
    session = given.one("session")
    done = unmount(
        workspace,
        name,
        cwd=working_directory(),
        session=session if session is not None else "default",
        files=given.options.get("policy", ()),
        now=now(),
    )
    record_answers(given, workspace, [each.name for each in done.unmounts if each.tools])
    return done


def _require_person(given: ParsedArguments) -> None:
    try:
        requires_person(given)
    except StateError as error:
        if given.flag("yes"):  # started by an agent or tool, whose --yes does not count
            raise
        raise MountError(error.problem, hint=error.hint, code="needs_confirmation") from None


def _lines(each: Unmount) -> Iterator[str]:
    name = shown(each.name)
    if each.tools:
        yield f"unmounted {name} for {', '.join(shown(tool) for tool in each.tools)}"
    if each.why is not None:
        yield f"{name}: stays mounted: {each.why}" if each.stays else f"{name}: no link was removed: {each.why}"
