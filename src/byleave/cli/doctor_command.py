"""`byleave doctor`: does everything work here, and what is really enforced?"""

import os
import sys

from byleave import __version__
from byleave.cli.doctor_sandbox import sandbox_findings
from byleave.cli.finding import BAD, GOOD, NOTE, Finding
from byleave.cli.output import columns, paint, say, say_json, tell
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.core.fs import is_under
from byleave.errors import ByleaveError, ConfigErrors
from byleave.text import shown, shown_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.api import Workspace
    from byleave.cli.arguments import Given
    from byleave.guard.judge import Policy

_PAINTS = {GOOD: "allow", NOTE: "ask", BAD: "deny"}


def run(given: "Given") -> int:
    """Show every finding; exit 1 if one is bad."""
    findings = [finding for finding in _findings(given) if finding.state != GOOD or not given.flag("quiet")]
    if given.flag("json"):
        say_json([{"state": finding.state, "what": finding.what, "text": finding.text} for finding in findings])
    else:
        rows = [(f"{finding.state:<4}", finding.what, shown_lines(finding.text)) for finding in findings]
        for finding, line in zip(findings, columns(rows, indent=""), strict=True):
            say(paint(line[:4], _PAINTS[finding.state]) + line[4:])
    return int(any(finding.state == BAD for finding in findings))


def _findings(given: "Given") -> "Iterator[Finding]":
    yield Finding(GOOD, "byleave", f"{__version__}, Python {sys.version.split()[0]}, {sys.platform}")
    try:
        workspace = open_workspace(given)
    except ByleaveError as error:
        yield Finding(BAD, "workspace", str(error))
        return
    yield Finding(GOOD, "workspace", shown(workspace.root.path))
    yield from _state(workspace)
    policy = _load(given, workspace)
    yield from _policy(given, workspace, policy)
    yield _audit(workspace)
    yield _opening()
    yield from _own_code(workspace)
    yield _search(workspace, () if isinstance(policy, Exception) else policy.compiled.settings["sandbox"]["write"])
    yield from sandbox_findings(workspace, None if isinstance(policy, Exception) else policy)


def _state(workspace: "Workspace") -> "Iterator[Finding]":
    from byleave.private import refuse_shared

    for what, path in (("configuration", workspace.homes.config), ("state", workspace.homes.state)):
        try:
            refuse_shared(path, os.stat(path))
            yield Finding(GOOD, what, shown(path))
        except FileNotFoundError:
            yield Finding(GOOD, what, f"{shown(path)} (not there yet)")
        except OSError as error:
            yield Finding(BAD, what, f"{shown(path)}: {error.strerror}")
        except ByleaveError as error:
            yield Finding(BAD, what, f"{error.problem}; {error.hint}")


def _load(given: "Given", workspace: "Workspace") -> "Policy | ByleaveError | ConfigErrors":
    try:
        return load_policy(given, workspace)
    except (ByleaveError, ConfigErrors) as error:
        return error


def _policy(
    given: "Given", workspace: "Workspace", policy: "Policy | ByleaveError | ConfigErrors"
) -> "Iterator[Finding]":
    if isinstance(policy, Exception):
        yield Finding(BAD, "policy", str(policy).replace("\n", "\n" + " " * 4))
        return
    tell(given, origins(policy))
    compiled = policy.compiled
    layers = ", ".join(f"{shown(layer.file or '')} ({layer.name})" for layer in compiled.layers)
    number = len(compiled.tools)
    if layers:
        yield Finding(GOOD, "policy", f"{number} {'tool' if number == 1 else 'tools'} from {layers}")
    else:
        yield Finding(NOTE, "policy", "no configuration was found; `byleave init` writes a file to begin with")
    for warning in compiled.warnings:
        yield Finding(NOTE, "policy", warning)
    yield from _sensitive(workspace, policy)


def _sensitive(workspace: "Workspace", policy: "Policy") -> "Iterator[Finding]":
    from byleave.guard.reach import sensitive_reaches

    reaches = sensitive_reaches(policy, workspace.sensitive(policy.compiled))
    if not reaches:
        yield Finding(GOOD, "sensitive places", "no tool reaches one at the top of the workspace or of a mount")
    for reach in reaches:
        yield Finding(NOTE, "sensitive places", reach.sentence)


def _audit(workspace: "Workspace") -> Finding:
    from byleave.core.masking import Mask

    log = workspace.audit_log(None, Mask())
    try:
        doubts = log.doubts()
        number = log.head().sequence
    except ByleaveError as error:
        return Finding(BAD, "audit log", f"{error.problem}; {error.hint}")
    finally:
        log.close()
    if doubts:
        told = f"{'; '.join(shown(each) for each in doubts[:3])}. Run `byleave audit verify`"
        return Finding(BAD, "audit log", told)
    if log.warnings:
        return Finding(NOTE, "audit log", "; ".join(log.warnings))
    told = f"{number} records, both ends are whole; `byleave audit verify` checks them all"
    if not number:
        told = "nothing was recorded yet"
    return Finding(GOOD, "audit log", told)


def _own_code(workspace: "Workspace") -> "Iterator[Finding]":
    """Say that byleave's own files are part of the workspace: they are kept from writing, but a new `.pth` is not."""
    if is_under(os.path.abspath(sys.prefix), workspace.root.path):
        told = "byleave is installed inside this workspace: install it elsewhere, with `pipx` or `uv tool`"
        yield Finding(NOTE, "installation", told)


def _search(workspace: "Workspace", written: "Sequence[str]") -> Finding:
    from byleave.toolhost.ripgrep import find_ripgrep

    program = find_ripgrep(workspace.root.path, *written)
    if program is not None:
        return Finding(GOOD, "search for tools", f"ripgrep ({shown(program)})")
    return Finding(
        NOTE, "search for tools", "slower, and some patterns are refused: there is no ripgrep 13 or newer here"
    )


def _opening() -> Finding:
    from byleave.workspace.openers import openat2, works

    if works(openat2):
        return Finding(GOOD, "race-free opening", "openat2")
    return Finding(NOTE, "race-free opening", "a walk with O_NOFOLLOW: this kernel has no openat2")
