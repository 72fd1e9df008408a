"""Results of policy cases as a JUnit report, which CI systems show beside those of other tests."""

from __future__ import annotations

import os
import stat
import tempfile
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr  # it only writes; nothing is parsed

from byleave.errors import ByleaveError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.analysis.policy_tests import CaseResult


def junit_text(results: Sequence[CaseResult]) -> str:
    """Return the report: one suite for each file."""
    return "\n".join(_lines(results))


def _lines(results: Sequence[CaseResult]) -> Iterator[str]:
    failed = sum(not result.ok for result in results)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="byleave policy test" tests="{len(results)}" failures="{failed}" errors="0">'
    for file in dict.fromkeys(result.case.file for result in results):
        own = [result for result in results if result.case.file == file]
        lost = sum(not result.ok for result in own)
        yield f'  <testsuite name={_attribute(file)} tests="{len(own)}" failures="{lost}" errors="0" skipped="0">'
        for result in own:
            yield from _case(result)
        yield "  </testsuite>"
    yield "</testsuites>\n"


def _case(result: CaseResult) -> Iterator[str]:
    case = result.case
    where = f'classname={_attribute(case.file)} file={_attribute(case.file)} line="{case.line}"'
    if result.ok:
        yield f"    <testcase name={_attribute(case.name)} {where}/>"
        return
    yield f"    <testcase name={_attribute(case.name)} {where}>"
    first = result.problems[0]
    message = f"{first.key}: expected {first.expected}, found {first.found}"
    lines = [f"{each.key}: expected {each.expected}, found {each.found}" for each in result.problems]
    ref = result.verdict["because"][0]
    lines += [f"rule: {ref['rule']} ({ref['source']})", f"reason: {result.verdict['reason']}"]
    text = "\n".join(_text(line) for line in lines)
    yield f"      <failure message={_attribute(message)} type={_attribute(first.key)}>{text}</failure>"
    yield "    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(shown(text))


def _text(text: str) -> str:
    return shown(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def write_report(path: str, text: str) -> None:
    """Write a report as a whole. A link in its place is replaced, not followed; a device or a pipe is written to."""
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
            return
        descriptor, made = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".junit-")
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(file.fileno(), 0o644)
            os.replace(made, path)
        except BaseException:
            os.unlink(made)
            raise
    except OSError as error:
        problem = f"{quoted(path)} cannot be written: {error.strerror}"
        raise ByleaveError(problem, hint="name a file in a directory that exists") from None
