"""`byleave policy test`: try the cases beside a policy, and show which rules they reach.

Project files are read as they are written, trusted or not: a test says what a file means, and changes nothing.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.coverage import coverage, deciding, is_tested, written_rules
from byleave.analysis.policy_tests import SUFFIX, action_text, evaluate_case, example_cases, read_cases
from byleave.cli.junit import junit_text, write_report
from byleave.cli.output import (
    complain,
    fitted,
    fitting_columns,
    is_closed_within,
    paint,
    say,
    say_json,
    say_verbose,
    silence,
    warn,
)
from byleave.cli.workspace import open_workspace, origins, working_directory
from byleave.errors import ByleaveError, ConfigError, ConfigErrors, InputError
from byleave.policy.debounce import file_stamp
from byleave.policy.layers import LARGEST_PROJECT_FILE, read_given_file
from byleave.text import quoted, shown, shown_lines
from byleave.workspace.unignored import find_unignored

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.analysis.coverage import Coverage, WrittenRule
    from byleave.analysis.policy_tests import CaseFile, CaseResult
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace

FAILED = 1
BROKEN = 2
_PERIOD = 0.5  # seconds between two looks at the files
_SEARCHED_AGAIN = 4  # looks after which new case files are searched for
_MOST_UNTOUCHED = 20  # rules that are listed for a person
_WIDEST_PERCENT = 8


class CaseSource(Struct, frozen=True):
    """A case file: as it is named in results, and where it is."""

    name: str
    path: str


class CaseReport(Struct, frozen=True):
    """What came of all cases."""

    results: tuple[CaseResult, ...]
    coverage: Coverage

    @property
    def failed(self) -> list[CaseResult]:
        return [result for result in self.results if not result.ok]

    @property
    def passed(self) -> int:
        return len(self.results) - len(self.failed)


def run(given: ParsedArguments) -> int:
    """Try every case once, or again and again with `--watch`."""
    least = _percent(given)
    workspace = open_workspace(given)
    if given.flag("watch"):
        return _watch(given, workspace, least)
    return _try_once(given, workspace, _sources(given, workspace), least)


def _percent(given: ParsedArguments) -> float | None:
    word = given.one("min_coverage")
    if word is None:
        return None
    digits = word.removesuffix("%")
    plain = digits.isascii() and digits.replace(".", "", 1).isdigit() and len(digits) <= _WIDEST_PERCENT
    if not plain or float(digits) > 100:
        raise InputError(f"--min-coverage {quoted(word)} is no percentage", hint="write a number from 0 to 100")
    return float(digits)


def _sources(given: ParsedArguments, workspace: Workspace) -> list[CaseSource]:
    """Return the case files: those that are named, else those of the workspace."""
    if "FILE" in given.words:
        here = working_directory()
        return [
            CaseSource(name, os.path.join(here, name)) for name in dict.fromkeys([given.words["FILE"], *given.rest])
        ]
    root = workspace.root.path
    found = find_unignored(root, SUFFIX, os.environ)
    if not found.complete:
        warn(given, ["the workspace is too large: not all of it was searched for case files"])
    return [CaseSource(name, os.path.join(root, name)) for name in found.names]


def _try_once(given: ParsedArguments, workspace: Workspace, sources: Sequence[CaseSource], least: float | None) -> int:
    report = _tried(given, workspace, sources)
    junit = given.one("junit")
    if junit is not None:
        write_report(os.path.join(working_directory(), junit), junit_text(report.results))
    _show(given, report, sources, least)
    short = least is not None and report.coverage.percent < least
    return FAILED if report.failed or short else 0


def _tried(given: ParsedArguments, workspace: Workspace, sources: Sequence[CaseSource]) -> CaseReport:
    """Return what came of all cases; the problems of all files together if there are any."""
    files = list(_read_all(sources))
    found: LivePolicy | None = None
    if not files or any(file.policy is None for file in files):
        found = workspace.load_as_written(
            files=given.options.get("policy", ()), session=given.one("session") or "default"
        )
        say_verbose(given, origins(found))
        warn(given, found.warnings)
    problems: list[ConfigError] = []
    results: list[CaseResult] = []
    rules: list[WrittenRule] = []
    policies = [] if found is None else [found]
    for file in files:
        policy = found if file.policy is None else workspace.compile_alone([file.policy])
        assert policy is not None  # noqa: S101 -- loaded above, where a file needs it
        if file.policy is not None:
            policies.append(policy)
        for case in file.cases:
            try:
                results.append(evaluate_case(case, policy))
            except ConfigErrors as error:
                problems += _problems(error)
    if problems:
        raise ConfigErrors(problems)
    for policy in policies:
        results += [evaluate_case(case, policy) for case in example_cases(policy)]
        rules += [rule for rule in written_rules(policy.compiled) if is_tested(policy.compiled, rule.source)]
    decided = [key for result in results for key in deciding(result.verdict)]
    return CaseReport(tuple(results), coverage(rules, decided))


def _problems(error: ConfigErrors) -> list[ConfigError]:
    return [each for each in error.exceptions if isinstance(each, ConfigError)]


def _read_all(sources: Sequence[CaseSource]) -> Iterator[CaseFile]:
    problems: list[ConfigError] = []
    for source in sources:
        try:
            content = read_given_file(source.name, source.path)
            if len(content) > LARGEST_PROJECT_FILE:
                raise InputError(f"{quoted(source.name)} is too large", hint="split it into several files")
            yield read_cases(content, source.name)
        except ConfigErrors as error:
            problems += _problems(error)
    if problems:
        raise ConfigErrors(problems)


def _show(given: ParsedArguments, report: CaseReport, sources: Sequence[CaseSource], least: float | None) -> None:
    if given.flag("json"):
        say_json(
            {
                "passed": report.passed,
                "failed": len(report.failed),
                "cases": [result.tree for result in report.results],
                "coverage": report.coverage.tree,
            }
        )
        return
    if not given.flag("quiet"):
        for line in _lines(given, report, sources):
            say(line)
    for line in _summary(report, least):
        say(fitted(line))


def _lines(given: ParsedArguments, report: CaseReport, sources: Sequence[CaseSource]) -> Iterator[str]:
    if not sources:
        yield fitted(f"no case file was found: `byleave init` writes a first one, NAME{SUFFIX}")
    for file in dict.fromkeys(result.case.file for result in report.results):
        own = [result for result in report.results if result.case.file == file]
        shown_cases = own if given.flag("verbose") else [result for result in own if not result.ok]
        passed = sum(result.ok for result in own)
        yield f"{paint(shown(file), 'bold')}  {passed} of {len(own)} passed"
        for result in shown_cases:
            yield from _result_lines(result)
    untouched = report.coverage.untouched
    if untouched:
        yield ""
        yield "rules that decide no case:"
        yield from fitting_columns([(shown(rule.source), _named(rule)) for rule in untouched[:_MOST_UNTOUCHED]])
        if len(untouched) > _MOST_UNTOUCHED:
            yield f"  and {len(untouched) - _MOST_UNTOUCHED} more; --json lists all"
    yield ""


def _named(rule: WrittenRule) -> str:
    return shown(rule.rule if rule.tool is None else f"{rule.tool}: {rule.rule}")


def _result_lines(result: CaseResult) -> Iterator[str]:
    """Yield a case by its name; of one that failed, what was expected and what was found."""
    case, first = result.case, result.verdict["because"][0]
    if result.ok:
        word = result.verdict["decision"]
        yield fitted(f"  {paint('pass', 'allow')}  {shown(case.name)}: {paint(word, word)} by {shown(first['rule'])}")
        return
    yield fitted(f"  {paint('FAIL', 'deny')}  {shown(case.name)}  ({shown(case.file)}:{case.line})")
    yield fitted(f"        {action_text(case.action)}")
    for problem in result.problems:
        yield fitted(paint(f"      - {problem.key}: {shown(problem.expected)}", "allow"))
        yield fitted(paint(f"      + {problem.key}: {shown(problem.found)}", "deny"))
    if not any(problem.key == "rule" for problem in result.problems):
        yield fitted(f"        rule: {shown(first['rule'])} ({shown(first['source'])})")
    if not any(problem.key == "reason" for problem in result.problems):
        yield fitted(f"        reason: {shown(result.verdict['reason'])}")


def _summary(report: CaseReport, least: float | None) -> Iterator[str]:
    counted = report.coverage
    failed = len(report.failed)
    words = paint(f"{failed} failed", "deny") if failed else "none failed"
    share = f"{counted.touched} of {len(counted.rules)} rules decided a case ({counted.percent:.0f} %)"
    if not counted.rules:
        share = "there are no rules"
    yield f"{report.passed} passed, {words}; {share}"
    if least is not None and counted.percent < least:
        yield paint(f"too little: --min-coverage wants {least:g} %, and this is {counted.percent:.1f} %", "deny")


def _watch(given: ParsedArguments, workspace: Workspace, least: float | None) -> int:
    """Try the cases again whenever a policy or a case file has changed, until interrupted or not read any more."""
    looks, before, sources = 0, None, _sources(given, workspace)
    try:
        while True:
            now = _stamp(given, workspace, sources)
            if now != before:
                before = now
                _try_again(given, workspace, sources, least)
                sys.stdout.flush()
            if is_closed_within(_PERIOD):
                return 0
            looks += 1
            if looks % _SEARCHED_AGAIN == 0:
                sources = _sources(given, workspace)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        silence(sys.stdout)
        return 0


def _try_again(
    given: ParsedArguments, workspace: Workspace, sources: Sequence[CaseSource], least: float | None
) -> None:
    if not given.flag("json") and not given.flag("quiet"):
        say(paint(f"-- {time.strftime('%H:%M:%S')}", "dim"))
    try:
        _try_once(given, workspace, sources, least)
    except (ByleaveError, ConfigErrors) as error:
        if given.flag("json"):
            say_json({"error": {"code": error.code, "message": shown_lines(str(error))}})
        else:
            sys.stdout.flush()
            complain(shown_lines(str(error)))


def _stamp(given: ParsedArguments, workspace: Workspace, sources: Sequence[CaseSource]) -> object:
    session, files = given.one("session") or "default", list(given.options.get("policy", ()))
    policy = workspace.files.stamp(session, files, base=working_directory())
    return policy, [(source, file_stamp(source.path)) for source in sources]
