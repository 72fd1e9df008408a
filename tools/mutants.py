"""Change one thing in a function, run the tests that reach it, and report what no test notices.

    python tools/mutants.py core --module core/decide.py --sample 200

One process has collected the tests and loaded the modules. It forks for each mutant: the child takes the code of the
changed function, runs the tests that reach the changed line, the quickest first, and ends with the first that fails.
`tests/surviving_mutants.toml` lists the survivors that change nothing that could be observed, each with the reason.
`tests/open_mutants.txt` lists those that have neither a test nor a reason yet. Another survivor is an error. What is
changed: `mutations`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import importlib
import json
import math
import os
import random
import resource
import select
import shutil
import signal
import sys
import time
import tomllib
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

import coverage
import pytest
from _pytest.runner import runtestprotocol
from mutations import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCES = Path("src/byleave")
LISTED = Path("tests/surviving_mutants.toml")
OPEN = Path("tests/open_mutants.txt")
BUILD = Path("build/mutants")
TESTS = ("tests/core", "tests/policy", "tests/test_cases.py")
MEMORY = 8 << 30  # bytes of addresses; a loop that collects without an end stops here
TIMES_SLOWER = 10  # than without a change, and some seconds: then a test is ended, and the mutant counts as noticed
WALL_SECONDS = 400  # more than the time limit of one test, for a mutant that waits


class Survivor(NamedTuple):
    """A mutant as the list names it: so it keeps its name when lines move."""

    file: str
    function: str
    change: str


def codes_of(source: bytes, name: str) -> dict[str, list[CodeType]]:
    """Return the code objects of a compiled module by their qualified names."""
    found: dict[str, list[CodeType]] = defaultdict(list)
    todo = [compile(source, name, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop(0)
        found[code.co_qualname].append(code)
        todo[:0] = [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


class LiveFunctions:
    """The functions of some files that are in memory, wherever a class or a decorator keeps them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        """Find the functions of these files: their full names, and what they hold."""
        self._of: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # what is frozen is not listed
        objects = gc.get_objects()
        self._caches = [each for each in objects if isinstance(each, functools._lru_cache_wrapper)]  # noqa: SLF001
        for each in objects:
            if isinstance(each, FunctionType) and each.__code__.co_filename in files:
                code = each.__code__
                self._of[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
        self._codes = {file: codes_of(source, file) for file, source in files.items()}

    def exchange(self, file: str, name: str, source: bytes) -> None:
        """Give a function, and what is defined inside of it, the code of another source."""
        new = codes_of(source, file)
        for qualified, codes in self._codes[file].items():
            if qualified != name and not qualified.startswith(f"{name}.<locals>."):
                continue
            if len(codes) != len(new[qualified]):
                continue
            for old, changed in zip(codes, new[qualified], strict=True):
                for function in self._of[file, qualified, old.co_firstlineno]:
                    function.__code__ = changed
        for cache in self._caches:
            with suppress(Exception):
                cache.cache_clear()


def listed_survivors(path: Path = LISTED) -> dict[Survivor, str]:
    """Return the survivors that are explained, each with its explanation."""
    return {
        Survivor(file, function, change): entry["why"]
        for file, functions in tomllib.loads(path.read_text("utf-8")).items()
        for function, entries in functions.items()
        for entry in entries
        for change in entry["changes"]
    }


def open_survivors(path: Path = OPEN) -> set[Survivor]:
    """Return the survivors that are not explained: a line each, as they are printed."""
    found = set()
    for line in path.read_text("utf-8").rstrip("\n").split("\n") if path.exists() else ():
        file, _, rest = line.partition(", ")
        function, _, change = rest.partition(": ")
        found.add(Survivor(file, function, change))
    return found


def still_open(
    outcome: Outcome, every: set[Survivor], explained: set[Survivor], before: set[Survivor]
) -> set[Survivor]:
    """Return what is open after a run: new survivors come, and what is noticed, explained or gone goes."""
    files = {each.file for each in every}
    kept = {each for each in before if each in every or each.file not in files}
    return (kept | outcome.survived) - outcome.noticed - outcome.unreached - explained


class Outcome(NamedTuple):
    """What became of the mutants: by what each names, and those that no test reaches."""

    survived: set[Survivor]
    noticed: set[Survivor]
    unreached: set[Survivor]


def compare(outcome: Outcome, every: set[Survivor], listed: set[Survivor], files: set[str]) -> list[str]:
    """Return what must change: a survivor that is not listed, and an entry that is noticed or that no mutant has."""
    gone = {entry for entry in listed - every if entry.file in files}
    return [
        *(f"no test notices it: {_shown(each)}" for each in sorted(outcome.survived - listed)),
        *(f"listed, but a test notices it: {_shown(each)}" for each in sorted(outcome.noticed & listed)),
        *(f"listed, but no test reaches it: {_shown(each)}" for each in sorted(outcome.unreached & listed)),
        *(f"listed, but gone: {_shown(each)}" for each in sorted(gone)),
    ]


def _shown(survivor: Survivor) -> str:
    return f"{survivor.file}, {survivor.function}: {survivor.change}"


class Reached(NamedTuple):
    """What one run of all tests says: who reaches which line, how long each test takes, and which fail as it is."""

    lines: dict[str, dict[str, list[int]]]
    seconds: list[float]
    failed: list[int]
    modules: list[str]


class Trial:
    """The pytest plugin that runs mutants instead of the tests."""

    def __init__(
        self, mutants: Sequence[Mutant], sources: Mapping[str, bytes], root: Path, least: int, most: float
    ) -> None:
        self.mutants = mutants
        self.outcome = Outcome(set(), set(), set())
        self.problem = ""
        self._sources = {str(root / file): source for file, source in sources.items()}
        self._root = root
        self._least = least
        self._most = most or math.inf
        self._quickest: dict[tuple[str, str], list[int]] = defaultdict(list)  # who noticed a mutant of this function

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Take the same examples each time, and do not look for a smaller one that fails."""
        from hypothesis import Phase, settings  # before pytest has started, its plugin could not be rewritten

        kept = (Phase.explicit, Phase.generate)
        with suppress(Exception):
            settings.register_profile("mutants", settings.get_profile("quick"), phases=kept, database=None)
            settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed or not session.items:
            self.problem = "the tests cannot be collected"
            return True
        self._items = session.items
        base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # noqa: SLF001
        # What the session needs is there before the first fork; no code of byleave has run.
        nothing = pytest.Function.from_parent(self._items[0].parent, name="nothing", callobj=_nothing)
        self._passes(nothing, self._items[-1])
        kept = _entries(base)
        reached = self._who_reaches(self._kept_answer(session.config.args))
        _clean(base, kept)
        for name in reached.modules:
            with suppress(Exception):
                importlib.import_module(name)
        self._live = LiveFunctions(self._sources)
        self._seconds = reached.seconds
        gc.collect()
        gc.freeze()
        failing = self._fail_in_order(reached)
        _clean(base, kept)
        if failing:
            print("fail as they are, and are left out:", *(self._items[each].nodeid for each in failing), sep="\n  ")
        tests = {mutant: self._tests(mutant, reached, failing) for mutant in self.mutants}
        every = sorted({test for chosen in tests.values() for test in chosen}, key=self._seconds.__getitem__)
        print(f"{len(self.mutants)} mutants; {len(every)} of {len(self._items)} tests reach them", flush=True)
        began = time.monotonic()
        for number, mutant in enumerate(self.mutants, 1):
            self._try(mutant, tests[mutant])
            _clean(base, kept)
            if number % 50 == 0 or number == len(self.mutants):
                passed = time.monotonic() - began
                print(f"{number} of {len(self.mutants)}: {passed:.0f} s", flush=True)
        return True

    def _kept_answer(self, words: Sequence[str]) -> Path:
        """Return the file that keeps who reaches what; its name is made of the code, the tests and the cases."""
        digest = hashlib.sha256(repr((words, [item.nodeid for item in self._items])).encode())
        run = {item.path for item in self._items}
        for file in sorted([*Path("src").rglob("*.py"), *Path("tests").rglob("*")]):
            is_other_test = file.name.startswith("test_") and file.absolute() not in run
            if file.is_file() and file.suffix != ".pyc" and file not in {LISTED, OPEN} and not is_other_test:
                digest.update(file.read_bytes())
        return BUILD / f"reached-{digest.hexdigest()[:16]}.json"

    def _fail_in_order(self, reached: Reached) -> list[int]:
        """Return the tests that fail without a change, in the order that mutants get them."""
        known = self._kept_answer(["order"])
        if known.exists():
            found: list[int] = json.loads(known.read_text())
            return found
        found = list(reached.failed)
        left = sorted(set(range(len(self._items))).difference(found), key=self._seconds.__getitem__)
        while (failing := self._fork(None, left)) is not None:
            found.append(failing)
            left = left[left.index(failing) + 1 :]
        known.write_text(json.dumps(found))
        return found

    def _try(self, mutant: Mutant, tests: list[int]) -> None:
        named = Survivor(*mutant[:3])
        if not tests:
            self.outcome.unreached.add(named)
            return
        before = self._quickest[mutant.file, mutant.function]
        first = [test for test in before if test in set(tests)]
        noticed = self._fork(mutant, [*first, *(test for test in tests if test not in set(first))])
        if noticed is None:
            self.outcome.survived.add(named)
            print(f"survived {len(tests)} tests: {_shown(named)}", flush=True)
            return
        self.outcome.noticed.add(named)
        with suppress(ValueError):
            before.remove(noticed)
        before.insert(0, noticed)
        del before[20:]

    def _tests(self, mutant: Mutant, reached: Reached, failing: list[int]) -> list[int]:
        lines = reached.lines.get(str(self._root / mutant.file), {})
        found = {test for line in mutant.lines for test in lines.get(str(line), ())}
        return sorted(found.difference(failing), key=self._seconds.__getitem__)

    def _passes(self, item: pytest.Item, following: pytest.Item) -> bool:
        """Run one test; return whether it passes."""
        return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))

    def _who_reaches(self, answer: Path) -> Reached:
        """Run every test once, in a process of its own: what it remembers would hide what a mutant changes."""
        if answer.exists():
            return Reached(*json.loads(answer.read_text()))
        print(f"{len(self._items)} tests: which reach which line", flush=True)
        child = os.fork()
        if child == 0:
            _quiet()
            counted = coverage.Coverage(data_file=None, include=[f"{self._root}/*"], config_file=False)
            counted.start()
            seconds, failed = [], []
            for number, item in enumerate(self._items):
                counted.switch_context(str(number))
                began = time.process_time()
                following = self._items[(number + 1) % len(self._items)]
                if not self._passes(item, following):
                    failed.append(number)
                seconds.append(time.process_time() - began)
            counted.stop()
            data = counted.get_data()
            lines = {
                file: {
                    str(line): [int(context) for context in contexts if context]
                    for line, contexts in data.contexts_by_lineno(file).items()
                }
                for file in data.measured_files()
            }
            BUILD.mkdir(parents=True, exist_ok=True)
            answer.write_text(json.dumps(Reached(lines, seconds, failed, list(sys.modules))))
            os._exit(0)
        os.waitpid(child, 0)
        return Reached(*json.loads(answer.read_text()))

    def _fork(self, mutant: Mutant | None, tests: list[int]) -> int | None:
        """Run tests in a child with this change; return the one that fails, or in which the child dies, or None."""
        running = os.memfd_create("running")
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                _quiet()
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                self._run(mutant, tests, running)
            finally:
                os._exit(0)
        ended = os.pidfd_open(child)
        if not select.select([ended], [], [], WALL_SECONDS if mutant else None)[0]:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what its tests left behind
        number = int(os.pread(running, 9, 0) or tests[0])
        os.close(ended)
        os.close(running)
        return None if number == len(self._items) else number

    def _run(self, mutant: Mutant | None, tests: list[int], running: int) -> None:
        """Write down which test is running until one fails; in the end, the number of all tests."""
        if mutant is not None:
            file = str(self._root / mutant.file)
            self._live.exchange(file, mutant.function, mutant.apply(self._sources[file]))
        began = used = time.process_time()
        for place, number in enumerate(tests):
            os.pwrite(running, b"%9d" % number, 0)
            seconds = int(used + self._least + TIMES_SLOWER * self._seconds[number]) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            following = self._items[tests[place + 1]] if place + 1 < len(tests) else self._items[-1]
            if not self._passes(self._items[number], following):
                return
            used = time.process_time()
            if mutant is not None and used - began > self._most:
                break
        os.pwrite(running, b"%9d" % len(self._items), 0)


def _nothing() -> None:
    """Be a test that calls nothing."""


def _quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(nothing, number)


def _entries(base: Path) -> set[Path]:
    return {
        *base.iterdir(),
        *(each for directory in base.iterdir() if directory.is_dir() for each in directory.iterdir()),
    }


def _clean(base: Path, kept: set[Path]) -> None:
    """Remove what a child left: the next one starts with the same names."""
    for path in sorted(_entries(base) - kept):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 if every survivor is listed, and every entry of the list survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package")
    parser.add_argument("--module", action="append", default=[], help="a file, such as core/decide.py; more than once")
    parser.add_argument("--function", default="", help="mutants of this function alone")
    parser.add_argument("--sample", type=int, default=0, help="as many mutants, picked by the seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=3, help="the least that a test gets of the processor")
    most = "the most that one mutant gets: what no test notices in that time counts as a survivor; 0: no limit"
    parser.add_argument("--most", type=float, default=0, help=most)
    parser.add_argument("--open", action="store_true", help="only those that are listed as open")
    parser.add_argument(
        "--write", action="store_true", help="write which are open, instead of reporting what must change"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, and run none")
    parser.add_argument("--tests", action="append", default=[], help="files or directories, instead of all")
    parser.add_argument("--long", action="store_true", help="also the tests that are marked `long`")
    given = parser.parse_args(words)
    root = SOURCES.resolve()
    files = given.module or sorted(str(file.relative_to(root)) for file in (root / given.package).glob("*.py"))
    sources = {file: (root / file).read_bytes() for file in files}
    every = [mutant for file, source in sources.items() for mutant in mutants_of(file, source)]
    opened = open_survivors()
    chosen = [mutant for mutant in every if given.function in {"", mutant.function}]
    if given.open:
        chosen = [mutant for mutant in chosen if Survivor(*mutant[:3]) in opened]
    if 0 < given.sample < len(chosen):
        picked = random.Random(given.seed).sample(range(len(chosen)), given.sample)  # noqa: S311 -- the same each time
        chosen = [chosen[index] for index in sorted(picked)]
    if given.list:
        print(*(_shown(Survivor(*mutant[:3])) for mutant in chosen), sep="\n")
        return 0
    trial = Trial(chosen, sources, root, given.seconds, given.most)
    os.environ["CI"] = "1"  # the same examples each time
    plain = ["-n", "0", "-p", "no:cacheprovider", "-s", *([] if given.long else ["-m", "not long"])]
    code = pytest.main([*plain, *(given.tests or TESTS)], plugins=[trial])
    if trial.problem or code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        print(trial.problem or "pytest has failed")
        return 1
    return _report(trial.outcome, {Survivor(*mutant[:3]) for mutant in every}, given)


def _report(outcome: Outcome, every: set[Survivor], given: argparse.Namespace) -> int:
    """Print what became of the mutants, and write down which are open, or print what must change."""
    explained, opened = set(listed_survivors()), open_survivors()
    survived, noticed, unreached = (len(each) for each in outcome)
    of_them = f"{len(outcome.survived & explained)} explained, {len(outcome.survived & opened)} open"
    print(
        f"{survived + noticed + unreached} of {len(every)} mutants: {noticed} noticed, {survived} survived ({of_them});"
    )
    print(f"{unreached} on lines that no test reaches while it runs")
    if given.write:
        if given.tests:  # another test may notice what these do not
            outcome = Outcome(set(), outcome.noticed, set())
        opened = still_open(outcome, every, explained, opened)
        OPEN.write_text("".join(f"{_shown(each)}\n" for each in sorted(opened)), "utf-8")
        print(f"{len(opened)} are open")
        return 0
    files = {each.file for each in every}
    problems = compare(outcome, every, explained | opened, files)
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
