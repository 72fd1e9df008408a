"""`byleave policy lint`: what is wrong with the policy, where, and what to do; `--fix` removes what has no effect."""

from __future__ import annotations

import sys
from collections import Counter
from difflib import unified_diff
from typing import TYPE_CHECKING

from byleave.analysis.findings import ERROR, NOTE, SEVERITIES, WARNING, is_at_least
from byleave.analysis.lint import lint, surroundings
from byleave.cli.output import complain, fitted, paint, say, say_json, say_verbose, warn
from byleave.cli.rule_file import RuleFile, write_shown
from byleave.cli.terminal import consents, may_ask, record_answers
from byleave.cli.workspace import open_workspace, origins
from byleave.errors import StateError
from byleave.policy.layers import LOCAL, PROJECT
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.analysis.findings import Finding
    from byleave.analysis.lint_fix import FixPlan
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace

FAILED = 1
NEEDS_CONSENT = 10
_PAINTS = {ERROR: "deny", WARNING: "ask", NOTE: "dim"}


def run(given: ParsedArguments) -> int:
    """Print every finding; exit 1 if one weighs as much as `--fail-on`."""
    workspace = open_workspace(given)
    policy = _load(given, workspace)
    say_verbose(given, origins(policy))
    around = surroundings(workspace, policy, disk=True, progress=_progress(given))
    findings = lint(policy, around)
    code, fixed = 0, []
    if given.flag("fix"):
        code, plan = _fix(given, workspace, policy, findings)
        if code == 0 and plan.fixed:
            fixed = list(plan.fixed)
            findings = lint(_load(given, workspace), around)
    if given.flag("json"):
        tree = {"findings": [finding.tree for finding in findings]}
        say_json({**tree, "fixed": [finding.tree for finding in fixed]} if given.flag("fix") else tree)
    else:
        _show(given, policy, findings)
    failing = any(is_at_least(finding, given.one("fail_on") or ERROR) for finding in findings)
    return code or (FAILED if failing else 0)


def _load(given: ParsedArguments, workspace: Workspace) -> LivePolicy:
    """Return the policy as it is written: whether a project file is trusted makes no difference here."""
    session = given.one("session")
    files = given.options.get("policy", ())
    return workspace.load_as_written(files=files, session=session if session is not None else "default")


def _progress(given: ParsedArguments) -> Callable[[int], None] | None:
    """Return what shows on a terminal how far the walk is; None where a person does not see it."""
    if given.flag("quiet") or not sys.stderr.isatty():
        return None

    def show(seen: int) -> None:
        sys.stderr.write(f"\rlooking at the workspace: {seen:,} names\x1b[K")
        sys.stderr.flush()

    return show


def _show(given: ParsedArguments, policy: LivePolicy, findings: Sequence[Finding]) -> None:
    if not given.flag("quiet") and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    for finding in findings:
        where = f" {shown(finding.source)}" if finding.source else ""
        say(fitted(f"{paint(finding.severity, _PAINTS[finding.severity])} {paint(finding.code, 'bold')}{where}"))
        if given.flag("quiet"):
            continue
        say(fitted(f"  {shown(finding.rule)}"))
        say(fitted(f"  {shown(finding.message)}"))
        say(fitted(f"  fix: {shown(finding.fix)}"))
        say("")
    if given.flag("quiet"):
        return
    if not policy.compiled.layers:
        say("no configuration was found; `byleave setup` writes one")
    say(summary(findings))
    fixable = sum(finding.place is not None for finding in findings)
    if fixable and not given.flag("fix"):
        say(f"`byleave policy lint --fix` can remove {fixable} of them without changing a decision")


def summary(findings: Sequence[Finding]) -> str:
    """Return how many findings there are of each severity, the gravest first."""
    counts = Counter(finding.severity for finding in findings)
    words = [
        f"{counts[each]} {each}{'' if counts[each] == 1 else 's'}" for each in reversed(SEVERITIES) if counts[each]
    ]
    return ", ".join(words) or "nothing was found"


def _fix(
    given: ParsedArguments, workspace: Workspace, policy: LivePolicy, findings: Sequence[Finding]
) -> tuple[int, FixPlan]:
    """Show what would be removed, and remove it if the user agrees."""
    from byleave.analysis.lint_fix import plan_fix

    plan = plan_fix(policy, findings, workspace.compile_alone)
    changed = plan.changed(policy.compiled.layers)
    for finding, why in plan.left:
        warn(given, [f"{finding.source}: {finding.rule} stays: {why}"])
    if not changed:
        if not given.flag("json") and not given.flag("quiet"):
            say("there is nothing to remove")
        return 0, plan
    files = [(RuleFile(old.path), new) for old, new in changed]
    for (file, _new), (old, _after) in zip(files, changed, strict=True):
        if file.content != old.content:
            raise StateError(f"{quoted(old.path)} has changed meanwhile", hint="try again")
    lines = [line for (file, _), (old, new) in zip(files, changed, strict=True) for line in _diff(file, old, new)]
    if not given.flag("json") and not given.flag("quiet"):
        for line in lines:
            say(line)
    if not given.flag("yes") and not may_ask(given):
        complain("byleave: nothing was changed: this needs your consent; add --yes to consent in a script")
        return NEEDS_CONSENT, plan
    if not consents(given, "Remove these rules?", about=lines):
        return FAILED, plan
    for file, _new in files:  # all of them before the first is written
        file.refuse_changed()
    for file, new in files:
        write_shown(given, workspace, file, new.content)
    record_answers(given, workspace, [f"removal of {len(plan.fixed)} rules from {old.path}" for old, _new in changed])
    if any(old.name in (PROJECT, LOCAL) for old, _new in changed):
        warn(given, ["a project file has changed: if you trusted it before, run `byleave trust` again"])
    return 0, plan


def _diff(file: RuleFile, old: Layer, new: Layer) -> list[str]:
    """Return the lines that change; a line ends where TOML ends it."""
    texts = [layer.content.decode().replace("\r\n", "\n").removesuffix("\n") for layer in (old, new)]
    before, after = (text.split("\n") for text in texts)
    changed = [shown(line) for line in unified_diff(before, after, lineterm="", n=2)][2:]
    return [f"{file.shown}:", *changed]
