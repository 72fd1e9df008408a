"""`byleave run --diagnose`: the list that a run ends with, of what was refused, why, and what would allow it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.output import complain, fitted, paint
from byleave.cli.workspace import confining_guard, decided_by
from byleave.core.access import SHELL_TOOL
from byleave.core.action import CAPABILITY_OF
from byleave.core.decision import WORDS
from byleave.core.suggest import toml_key
from byleave.errors import ByleaveError
from byleave.sandbox.diagnose import finding
from byleave.sandbox.diagnose.diagnosis import diagnose, unlisted
from byleave.sandbox.diagnose.finding import ACCESS, FILE, HELD, NEVER, NOWHERE, SANDBOX, RefusalFinding, Scene, merged
from byleave.sandbox.diagnose.refusals import sandbox_toml
from byleave.text import sentence_list, shown, shown_lines, speakable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.sandbox.confinement import Confinement
    from byleave.sandbox.diagnose.diagnosis import Observer
    from byleave.sandbox.plan.plan import Approximation, SandboxPlan

MOST_SHOWN = 15
_MOST_RECORDED = 100  # files of one run
_MOST_SUBJECTS = 3
_LONGEST_SUBJECT = 200
_VERBS = {
    "read": "read",
    "create": "create",
    "update": "write to",
    "delete": "delete",
    "exec": "run",
    "own": "change the owner of",
    "look": "look for",
}
_UNMENDED = {NEVER: "nothing allows it in a sandbox"}
_TOO_MANY = "there were too many to keep them all"


class Destination(Struct, frozen=True):
    """Where rules for the tool belong: how its tables begin in there, and what that file is called."""

    tool: str
    file: str
    alone: bool  # a file that holds one `[access]` table, and nothing else

    def adapted(self, suggestion: str) -> str:
        """Return a suggestion as it stands in that file."""
        if not self.alone:
            return suggestion
        return suggestion.replace(f"[tools.{toml_key(self.tool)}.access", "[access")


def destination(given: ParsedArguments, tool: str) -> Destination:
    """Return where a rule for this run belongs."""
    if given.one("tool") is not None or tool == SHELL_TOOL:
        return Destination(tool, "your configuration", alone=False)
    file = given.one("access")
    return Destination(tool, "a file for --access" if file is None else file, alone=True)


def report_refusals(
    given: ParsedArguments, confinement: Confinement, observer: Observer, command: Sequence[str]
) -> None:
    """Write what a program was refused to standard error; nothing if it came to nothing for another reason.

    `command` is the program that was to be started, if a rule on commands has to list it.
    """
    try:
        _diagnose(given, confinement, observer, command)
    except ByleaveError as error:  # a configuration that has become unusable meanwhile; the exit code is the program's
        complain(f"byleave: the refusals cannot be explained: {shown_lines(str(error))}")


def _diagnose(given: ParsedArguments, confinement: Confinement, observer: Observer, command: Sequence[str]) -> None:
    started = tuple(unlisted(command, confinement.tool, confinement.policy.decide)) if command else ()
    if started:
        _report(given, started, confinement, 0)
    elif observer.plan is not None:
        scene = _scene(confinement, observer.plan, observer.approximate)
        found = diagnose(observer, scene)
        _report(given, found, confinement, observer.missing)
        _record(given, confinement, found)


def _record(given: ParsedArguments, confinement: Confinement, found: Sequence[RefusalFinding]) -> None:
    """Record the files that the policy denies and the kernel refused, so that `policy learn` can propose rules.

    Hosts and programs were recorded when they were requested. Not where the kernel was stricter than the policy.
    """
    root = f"{confinement.workspace.root.path}/"
    refused = [
        {"kind": verb, "path": place.removeprefix(root), "tool": confinement.tool}
        for each in found
        if each.kind == FILE and each.rank == HELD and each.suggestion is not None
        for place in each.places
        if place.startswith(root)
        for verb in each.verbs
        if verb in CAPABILITY_OF
    ]
    denied = [action for action in refused[:_MOST_RECORDED] if not confinement.policy.decide(action).allowed]
    if denied:
        with confining_guard(given, confinement.workspace, confinement.policy) as guard:
            decide = decided_by(guard)
            for action in denied:
                decide(action)


def _scene(confinement: Confinement, plan: SandboxPlan, approximate: tuple[Approximation, ...]) -> Scene:
    compiled = confinement.policy.compiled
    return Scene(
        plan,
        approximate,
        confinement.tool,
        confinement.policy.decide,
        confinement.workspace.sensitive(compiled).at,
        finding,
        confinement.workspace.own_places(compiled.layers),
        compiled.settings.get("sandbox", {}),
        tuple(os.environ.get("PATH", os.defpath).split(":")),
    )


def _report(given: ParsedArguments, found: Sequence[RefusalFinding], confinement: Confinement, missing: int) -> None:
    where = destination(given, confinement.tool)
    if given.flag("json"):
        tree = {"refused": [finding_tree(each, where) for each in found], "uncounted": missing}
        complain(json.dumps(speakable(tree)))
        return
    listed = confinement.policy.compiled.settings.get("sandbox", {})
    for line in finding_lines(found, where, listed, confinement.workspace.homes.user, missing):
        complain(line)


def finding_tree(finding: RefusalFinding, where: Destination) -> dict[str, Any]:
    """Return one finding for programs."""
    ref = finding.rule
    return {
        "what": _what(finding),
        "kind": finding.kind,
        "ops": list(finding.verbs),
        "subjects": list(finding.subjects),
        "times": finding.times,
        "why": finding.why,
        "because": [] if ref == NOWHERE else [_ref_tree(finding)],
        "caution": finding.caution,
        "suggestion": None if finding.suggestion is None else where.adapted(finding.suggestion),
        "add_to": _place(finding, where),
    }


def _ref_tree(finding: RefusalFinding) -> dict[str, str]:
    ref = finding.rule
    return {"rule": ref.rule, "source": ref.source, "decision": WORDS[ref.decision]}


def _place(finding: RefusalFinding, where: Destination) -> str | None:
    if finding.suggestion is None:
        return None
    return where.file if finding.belongs == ACCESS else "your configuration"


def finding_lines(
    found: Sequence[RefusalFinding],
    where: Destination,
    listed: Mapping[str, Sequence[str]],
    home: str,
    missing: int = 0,
) -> Iterator[str]:
    """Yield the list for people: what was refused and why, then all that would allow it, as TOML to paste."""
    if not found:
        yield f"{_ours()} nothing was refused" + (f" that was recorded; {_TOO_MANY}" if missing else "")
        return
    yield f"{_ours()} {_counted(len(found))} refused"
    for number, each in enumerate(found[:MOST_SHOWN], 1):
        yield from _one(number, each)
    if len(found) > MOST_SHOWN:
        yield f" and {len(found) - MOST_SHOWN} more, which --json lists"
    if missing:
        yield f" and {missing} more that were not recorded: {_TOO_MANY}"
    yield from _remedies(found[:MOST_SHOWN], where, listed, home)


def _ours() -> str:
    return paint("byleave:", "bold", sys.stderr)


def _counted(number: int) -> str:
    return "one thing was" if number == 1 else f"{number} things were"


def _one(number: int, finding: RefusalFinding) -> Iterator[str]:
    times = "" if finding.times == 1 else f" ({finding.times} times)"
    yield f"{number:2}. {paint(_what(finding), 'deny', sys.stderr)}{times}"
    ref = finding.rule
    repeats_rule = finding.why.endswith((ref.rule, f"`{ref.rule}` does not grant it"))
    if ref == NOWHERE or not repeats_rule:
        yield fitted(f"    {shown_lines(finding.why)}", sys.stderr)
    if ref != NOWHERE:
        yield fitted(f"    because: {shown(ref.rule)} ({WORDS[ref.decision]}, {shown(ref.source)})", sys.stderr)
    if finding.caution is not None:
        yield fitted(f"    {paint('caution:', 'ask', sys.stderr)} {shown(finding.caution)}", sys.stderr)
    elif finding.suggestion is None and "no rule allows" not in finding.why:
        yield f"    {_UNMENDED.get(finding.rank, 'no single rule would allow it')}"


def _what(finding: RefusalFinding) -> str:
    verbs = sentence_list([_VERBS.get(verb, verb) for verb in finding.verbs])
    return f"{verbs} {sentence_list([_cut(each) for each in finding.subjects], most=_MOST_SUBJECTS)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SUBJECT else f"{text[: _LONGEST_SUBJECT - 3]}..."


def _remedies(
    found: Sequence[RefusalFinding], where: Destination, listed: Mapping[str, Sequence[str]], home: str
) -> Iterator[str]:
    """Yield the pieces of TOML, put together so that they can be pasted as they are."""
    ruled = [each for each in enumerate(found, 1) if each[1].belongs == ACCESS and each[1].suggestion]
    finding = [each for each in enumerate(found, 1) if each[1].belongs == SANDBOX and each[1].listing]
    together = merged([finding.suggestion for _number, finding in ruled])
    if together is not None:
        yield from _block(ruled, where.file, where.adapted(together))
    listings = [finding.listing for _number, finding in finding if finding.listing is not None]
    if listings:
        yield from _block(finding, "your configuration", sandbox_toml(listings, listed, home))


def _block(numbered: Sequence[tuple[int, RefusalFinding]], file: str, toml: str) -> Iterator[str]:
    numbers = sentence_list([str(number) for number, _finding in numbered], most=MOST_SHOWN)
    yield ""
    yield f"to allow {numbers}, add to {shown(file)}:"
    yield from (f"  {shown(line)}".rstrip() for line in toml.splitlines())
