"""Programs that try to get out of the sandbox, by every way we know of. None may.

The attempts are data: `escapes/given.jsonl` came with the project, `escapes/own.jsonl` is ours. By hand:
`PYTHONPATH=tests python -m sandbox.escapes ID`.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import amounts
from sandbox.escapes.trial import Outcome, fitting, from_json, load
from sandbox.machine import as_nobody, needs_sandbox

PATIENCE = 600.0
SHARED = [case["id"] for case in load() if "needs" not in case]
BOTH = os.getuid() == 0 and not amounts.SLOW  # each attempt is made by one of two users; `make slow` has both try all


def try_everything(
    start: list[str], environment: dict[str, str], names: Sequence[str]
) -> tuple[list[Outcome], list[str]]:
    warm = [*start, "-m", "byleave", "run", "--root", environment["HOME"], "--", "true"]  # builds the launcher once
    subprocess.run(warm, env=environment, cwd="/", check=True, timeout=PATIENCE, capture_output=True)
    done = subprocess.run(
        [*start, "-m", "sandbox.escapes", "--json", *names],
        env=environment,
        cwd="/",
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    outcomes, broken = from_json(done.stdout.decode())
    return outcomes, broken and [*broken, done.stderr.decode()[-3000:]]


@pytest.fixture
def readable_place() -> Iterator[Path]:
    """A directory that other users can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="byleave-test-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        yield Path(place)


def judge(outcomes: list[Outcome], broken: list[str]) -> None:
    """Hold that all were stopped, that ordinary work was not, and that the attempts are real ones."""
    assert broken == []
    hidden = {case["id"] for case in load() if not case.get("shown", True)}
    out = [one for one in outcomes if one.word in ("ESCAPED", "NO ANSWER") or (one.id in hidden and one.inside.worked)]
    assert [f"{one.word} {one.id}" for one in out] == []
    unshown = [one.id for one in outcomes if not one.counts and one.id not in hidden]
    assert len(unshown) <= len(outcomes) // 10, f"these prove nothing on this machine: {unshown}"


@needs_sandbox
def test_nobody_gets_out_as_the_user_who_runs_the_tests() -> None:
    paths = [str(Path(__file__).parents[1]), *sys.path]
    names = SHARED[::2] if BOTH else SHARED
    names += [case["id"] for case in fitting(load()) if "needs" in case]
    outcomes, broken = try_everything(
        [sys.executable], {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}, names
    )
    assert len(outcomes) == len(names)
    judge(outcomes, broken)


@needs_sandbox
def test_nobody_gets_out_as_an_ordinary_user(readable_place: Path) -> None:
    words, environment = as_nobody(readable_place / "home")
    names = SHARED[1::2] if BOTH else SHARED
    names += [case["id"] for case in load() if case.get("needs") == "user"]
    outcomes, broken = try_everything(words, environment, names)
    assert len(outcomes) == len(names)
    judge(outcomes, broken)


def test_cases_are_named_once_and_say_what_they_should() -> None:
    cases = load()
    assert [name for name, count in Counter(case["id"] for case in cases).items() if count > 1] == []
    fields = {"id", "class", "lang", "code", "stopped_by", "access", "needs", "after", "shown", "reason"}
    assert [case["id"] for case in cases if not fields >= case.keys()] == []
    assert [case["id"] for case in cases if not case.get("shown", True) and not case.get("reason")] == []
    for case in cases:
        if case["lang"] == "py":
            compile(case["code"], case["id"], "exec")
