"""Try escapes with and without the sandbox, and tell which of them work.

An attempt counts when it works without a sandbox, for this user on this machine. Inside it must fail.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.escapes.place import SYSTEM_PYTHON, built

HERE = Path(__file__).parent
PRELUDE = (HERE / "prelude.py").read_text()
DRIVER = (HERE / "inside.py").read_text()
PATIENCE = 240.0
TOGETHER = 4  # most attempts wait for something
CANARIES = (
    {"id": "_read", "lang": "py", "code": "assert open(W+'/file.txt').read() == 'hello'"},
    {"id": "_write", "lang": "py", "code": "open(W+'/cw','w').write('x'); assert open(W+'/cw').read() == 'x'"},
)

Case = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """How one attempt ended; `code` is None where nothing was heard of it."""

    code: int | None
    told: str = ""

    @property
    def worked(self) -> bool:
        return self.code == 0


@dataclass(frozen=True)
class Outcome:
    """One attempt, without the sandbox and inside of it."""

    id: str
    plain: Result
    inside: Result

    @property
    def counts(self) -> bool:
        return self.plain.worked

    @property
    def word(self) -> str:
        if not self.counts:
            return "no case"
        if self.inside.code is None:
            return "NO ANSWER"
        return "ESCAPED" if self.inside.worked else "stopped"


def load() -> list[Case]:
    """Return the given cases and our own."""
    lines = [line for name in ("given", "own") for line in (HERE / f"{name}.jsonl").read_text().splitlines() if line]
    return [json.loads(line) for line in lines]


def fitting(cases: list[Case]) -> list[Case]:
    """Return the cases that are for the user who runs this."""
    user = "user" if os.getuid() else "root"
    return [case for case in cases if case.get("needs", user) == user]


def try_all(cases: list[Case], launcher: list[str] | None = None) -> tuple[list[Outcome], list[str]]:
    """Try every case both ways, and return what came of it and which ordinary things did not work inside."""
    apart = ["unshare", "-m", "-u"] if os.getuid() == 0 and shutil.which("unshare") else []  # mounts that succeed stay
    outcomes, broken = [], []
    with ThreadPoolExecutor(TOGETHER) as pool:
        trials = []
        for access in sorted({case.get("access", "given") for case in cases}):
            group = [case for case in cases if case.get("access", "given") == access]
            starts = (apart, launcher or confined(access))
            trials.append((access, group, [pool.submit(_try, start, group, access) for start in starts]))
        for access, group, ways in trials:
            plain, inside = (way.result() for way in ways)
            outcomes += [Outcome(case["id"], plain[case["id"]], inside[case["id"]]) for case in group]
            failed = [case["id"] for case in CANARIES if not inside[case["id"]].worked]
            broken += [f"{access} {name}: {inside[name].told}" for name in failed]
    return outcomes, broken


def confined(access: str) -> list[str]:
    """Return the words that start a program in the sandbox; $NAMES stand for the place's."""
    given = ["--access", "$POLICY"] if (HERE / "access" / f"{access}.toml").exists() else []
    return [sys.executable, "-m", "byleave", "run", "--root", "$WS", *given, "--no-input", "--"]


def _try(launcher: list[str], cases: list[Case], access: str) -> dict[str, Result]:
    with built(access) as names:
        words = [names[word[1:]] if word.startswith("$") else word for word in launcher]
        order = [CANARIES[0], *cases, CANARIES[1]]
        job = {"names": names, "prelude": PRELUDE, "cases": order}
        results = dict.fromkeys([case["id"] for case in order], Result(None, "no answer"))
        for line in _run([*words, SYSTEM_PYTHON, "-S", "-c", DRIVER], job, names):
            answer = json.loads(line)
            results[answer["id"]] = Result(answer["code"], answer["told"])
        for case in cases:
            if "after" in case and results[case["id"]].worked:
                results[case["id"]] = _look(case, names)
        return results


def _run(words: list[str], job: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    """Run a driver with two descriptors on the outside, as a careless parent might leave them open."""
    left = [os.open(names["OUT"] + "/secret.txt", os.O_RDONLY), os.open(names["OUT"], os.O_RDONLY)]
    try:
        done = subprocess.run(
            words,
            input=json.dumps(job).encode() + b"\n",
            stdout=subprocess.PIPE,
            cwd=names["WS"],
            env=_environment(names),
            pass_fds=left,
            process_group=int(names["VPID"]),
            timeout=PATIENCE,
            check=False,
        )
    finally:
        for descriptor in left:
            os.close(descriptor)
    yield from done.stdout.decode().splitlines()


def _environment(names: dict[str, str]) -> dict[str, str]:
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "USER": "u"}
    environment |= {"HOME": names["UHOME"], "BYLEAVE_HOME": names["BHOME"]}
    environment |= {"AWS_SECRET_ACCESS_KEY": "hunter2", "LD_FOO": "1", "BYL_GRANTED_X": "yes"}
    environment["BYL_SECRET"] = hashlib.sha256(names["RUNID"].encode()).hexdigest()  # stands nowhere in the job
    return environment | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def _look(case: Case, names: dict[str, str]) -> Result:
    """Look from outside, after the sandbox has ended, whether the attempt left what it wanted to."""
    done = subprocess.run(
        [SYSTEM_PYTHON, "-S", "-c", PRELUDE + case["after"]], env=names, capture_output=True, check=False, timeout=30
    )
    return Result(done.returncode, done.stderr.decode()[-300:])


def as_json(outcomes: list[Outcome], broken: list[str]) -> str:
    return json.dumps({"outcomes": [asdict(outcome) for outcome in outcomes], "broken": broken})


def from_json(text: str) -> tuple[list[Outcome], list[str]]:
    told = json.loads(text)
    outcomes = [Outcome(one["id"], Result(**one["plain"]), Result(**one["inside"])) for one in told["outcomes"]]
    return outcomes, told["broken"]
