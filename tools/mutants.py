"""Change one thing in a function, run the tests that reach it, and report what no test notices.

    python tools/mutants.py core --module core/decide.py --sample 200

One process has collected the tests and loaded the modules. It forks for each mutant: the child takes the code of the
changed function, runs the tests that reach the changed line, the quickest first, and ends with the first that fails.
`tests/surviving_mutants.toml` lists the survivors that change nothing that could be observed, each with the reason;
another survivor is an error. Functions are changed; tables and defaults, which are made at import, are not.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import hashlib
import importlib
import json
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SOURCES = Path("src/byleave")
LISTED = Path("tests/surviving_mutants.toml")
BUILD = Path("build/mutants")
TESTS = ("tests/core", "tests/policy", "tests/test_cases.py")
MEMORY = 8 << 30  # bytes of addresses; a loop that collects without an end stops here
TIMES_SLOWER = 10  # than without a change, and some seconds: then a test is ended, and the mutant counts as noticed
WALL_SECONDS = 400  # more than the time limit of one test, for a mutant that waits

DECISIONS = {"ALLOW": "ASK", "ASK": "ALLOW", "DENY": "ASK"}
TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OTHER_CALLS = {"any": "all", "all": "any", "max": "min", "min": "max"}
OTHER_METHODS = {"partition": "rpartition", "rpartition": "partition", "find": "rfind", "rfind": "find"}
NEEDLESS_METHODS = ("casefold", "lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    """One change of a file: the text between two offsets (of bytes) is replaced."""

    file: str
    function: str
    change: str
    lines: range
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


class Survivor(NamedTuple):
    """A mutant as the list names it: so it keeps its name when lines move."""

    file: str
    function: str
    change: str


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of the text."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for name, function in _functions(ast.parse(source)):
        for statement, node, text in _changes(function):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            if (start, end, text) in found or b" ".join(source[start:end].split()) == text.encode():
                continue
            first, last = starts[node.lineno - 1], starts[node.end_lineno or node.lineno]
            before = source[first:last].decode()
            after = (source[first:start] + text.encode() + source[end:last]).decode()
            change = f"{' '.join(before.split())} => {' '.join(after.split())}"
            counted[name, change] += 1
            if counted[name, change] > 1:
                change += f" ({counted[name, change]})"
            reach = range(min(statement.lineno, node.lineno), (node.end_lineno or node.lineno) + 1)
            found[start, end, text] = Mutant(file, name, change, reach, start, end, text)
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end))


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module and the methods of its classes; what is inside of them belongs to them."""
    inside: list[tuple[str, ast.AST]] = [("", node) for node in tree.body]
    while inside:
        prefix, node = inside.pop(0)
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            inside[:0] = [(f"{prefix}{node.name}.", each) for each in node.body]
        elif isinstance(node, ast.If | ast.Try):
            inside[:0] = [(prefix, each) for each in ast.iter_child_nodes(node)]


def _changes(function: Function) -> Iterator[tuple[ast.stmt, ast.expr | ast.stmt, str]]:
    """Yield the changes of a function's body: the statement, the node in it, and what stands there instead."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    todo: list[tuple[ast.stmt, ast.AST]] = [(statement, statement) for statement in body]
    unturned: set[ast.AST] = set()
    while todo:
        statement, node = todo.pop(0)
        unturned.update(_unturned(node))
        changes = [*_by_condition(node), *_by_return(node, function)]
        for changed, text in changes if node in unturned else [*changes, *_by_node(node)]:
            yield statement, changed, text
        if isinstance(node, ast.JoinedStr):  # what a message says
            continue
        skipped = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        inner: list[tuple[ast.stmt, ast.AST]] = []
        for child in ast.iter_child_nodes(node):
            if child in skipped or (isinstance(child, ast.keyword) and child.arg == "strict"):
                continue
            inner.append((child if isinstance(child, ast.stmt) else statement, child))
        todo[:0] = inner


def _unturned(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the parts that are not negated: what notices that a part always holds, or never, notices that, too."""
    for part in node.values if isinstance(node, ast.BoolOp) else _conditions(node):
        if isinstance(part, ast.UnaryOp):
            yield part
        elif isinstance(part, ast.Compare) and len(part.ops) == 1 and len(TURNED[type(part.ops[0])]) == 1:
            yield part


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.comprehension(ifs=conditions):
            return conditions
        case ast.match_case(guard=ast.expr() as guard):
            return [guard]
    return []


def _by_condition(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield what takes a condition's choice away: it always holds, or never."""
    for test in _conditions(node):
        if isinstance(test, ast.Constant):
            continue
        named = any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(test))
        written = ast.unparse(test)
        if not isinstance(node, ast.While):
            yield test, f"(({written}) or True)" if named else "True"
        yield test, f"(({written}) and False)" if named else "False"


def _by_return(node: ast.AST, function: Function) -> Iterator[tuple[ast.expr, str]]:
    """Yield other values that the function may return by what it declares."""
    if not isinstance(node, ast.Return) or node.value is None or function.returns is None:
        return
    declared = ast.unparse(function.returns)
    if declared.endswith("None") and declared != "None" and not isinstance(node.value, ast.Constant):
        yield node.value, "None"
    if declared == "bool" and isinstance(node.value, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
        yield node.value, "True"
        yield node.value, "False"


def _by_node(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.BoolOp(values=values):
            for index, value in enumerate(values):
                if not any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(value)):
                    rest = values[:index] + values[index + 1 :]
                    yield node, _written(ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0])
        case ast.Compare(left=left, ops=ops, comparators=right):
            for index, op in enumerate(ops):
                for other in TURNED[type(op)]:
                    yield node, _written(ast.Compare(left, [*ops[:index], other(), *ops[index + 1 :]], right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, _written(operand)
        case ast.Constant(value=value):
            yield from ((node, repr(other)) for other in _other_values(value))
        case ast.Name(id=name) if name in DECISIONS:
            yield node, DECISIONS[name]
        case ast.Call(func=ast.Name(id=name) as called) if name in OTHER_CALLS:
            yield called, OTHER_CALLS[name]
        case ast.Call(func=ast.Attribute(value=value, attr=method), args=args, keywords=keywords):
            if method in NEEDLESS_METHODS:
                yield node, _written(value)
            elif method in OTHER_METHODS:
                renamed = ast.Attribute(value, OTHER_METHODS[method], ast.Load())
                yield node, _written(ast.Call(renamed, args, keywords))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield node, _written(ast.BinOp(left, OPERATORS[type(op)](), right))
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OPERATORS:
            yield node, ast.unparse(ast.AugAssign(target, OPERATORS[type(op)](), value))
        case ast.Expr(value=ast.Call(func=called)) if ast.unparse(called) != "assert_never":
            yield node, "pass"
        case ast.Raise() | ast.Break():
            yield node, "pass" if isinstance(node, ast.Raise) else "continue"
        case ast.Continue():
            yield node, "break"


def _written(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def _other_values(value: object) -> Iterator[object]:
    """Yield what may stand for a value; text with a blank is a message."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case str() if not any(letter.isspace() for letter in value.strip()) or value.isspace():
            yield f"XX{value}"
        case bytes():
            yield b"XX" + value


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

    def exchange(self, file: str, name: str, source: bytes) -> bool:
        """Give a function, and what is defined inside of it, the code of another source; False if it is not there."""
        new = codes_of(source, file)
        exchanged = False
        for qualified, codes in self._codes[file].items():
            if qualified != name and not qualified.startswith(f"{name}.<locals>."):
                continue
            if len(codes) != len(new[qualified]):
                continue
            for old, changed in zip(codes, new[qualified], strict=True):
                for function in self._of[file, qualified, old.co_firstlineno]:
                    function.__code__ = changed
                    exchanged = True
        for cache in self._caches:
            with suppress(Exception):
                cache.cache_clear()
        return exchanged


def listed_survivors(path: Path = LISTED) -> dict[Survivor, str]:
    """Return the survivors that are explained, each with its explanation."""
    return {
        Survivor(file, function, change): entry["why"]
        for file, functions in tomllib.loads(path.read_text("utf-8")).items()
        for function, entries in functions.items()
        for entry in entries
        for change in entry["changes"]
    }


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

    def __init__(self, mutants: Sequence[Mutant], sources: Mapping[str, bytes], root: Path, least: int) -> None:
        self.mutants = mutants
        self.outcome = Outcome(set(), set(), set())
        self.problem = ""
        self._sources = {str(root / file): source for file, source in sources.items()}
        self._root = root
        self._least = least
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
        if reached.failed:
            print("fail as they are, and are left out:", *(self._items[each].nodeid for each in reached.failed))
        tests = {mutant: self._tests(mutant, reached) for mutant in self.mutants}
        every = sorted({test for chosen in tests.values() for test in chosen}, key=self._seconds.__getitem__)
        print(f"{len(self.mutants)} mutants; {len(every)} of {len(self._items)} tests reach them", flush=True)
        if self._fails_unchanged(reached):
            return True
        _clean(base, kept)
        began = time.monotonic()
        for number, mutant in enumerate(self.mutants, 1):
            self._try(mutant, tests[mutant])
            _clean(base, kept)
            if number % 50 == 0 or number == len(self.mutants):
                passed = time.monotonic() - began
                print(f"{number} of {len(self.mutants)}: {passed:.0f} s", flush=True)
        return True

    def _kept_answer(self, words: Sequence[str]) -> Path:
        """Return where it is kept who reaches what: in a file that is named by all of the code, the tests and the cases."""
        digest = hashlib.sha256(repr((words, [item.nodeid for item in self._items])).encode())
        run = {item.path for item in self._items}
        for file in sorted([*Path("src").rglob("*.py"), *Path("tests").rglob("*")]):
            is_other_test = file.name.startswith("test_") and file.absolute() not in run
            if file.is_file() and file.suffix != ".pyc" and file != LISTED and not is_other_test:
                digest.update(file.read_bytes())
        return BUILD / f"reached-{digest.hexdigest()[:16]}.json"

    def _fails_unchanged(self, reached: Reached) -> bool:
        """Run all tests once in the order that mutants get them: one that fails there would notice every mutant."""
        order = sorted(set(range(len(self._items))).difference(reached.failed), key=self._seconds.__getitem__)
        passed = self._kept_answer(["order"])
        if passed.exists():
            return False
        failing = self._fork(None, order)
        if failing is not None:
            name = self._items[failing].nodeid if failing >= 0 else "a test"
            self.problem = f"without a change, {name} fails in the order of mutants"
            return True
        passed.touch()
        return False

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
        if noticed >= 0:
            with suppress(ValueError):
                before.remove(noticed)
            before.insert(0, noticed)
            del before[20:]

    def _tests(self, mutant: Mutant, reached: Reached) -> list[int]:
        lines = reached.lines.get(str(self._root / mutant.file), {})
        found = {test for line in mutant.lines for test in lines.get(str(line), ())}
        return sorted(found.difference(reached.failed), key=self._seconds.__getitem__)

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
        """Run tests in a child with this change; return the one that fails, -1 if the child does not live to say it.

        None: no test notices the change.
        """
        answers, answering = os.pipe()
        child = os.fork()
        if child == 0:
            failing = -1
            try:
                os.setpgid(0, 0)
                _quiet()
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                failing = self._run(mutant, tests)
            finally:
                os.write(answering, str(failing).encode())
                os._exit(0)
        os.close(answering)
        ended = os.pidfd_open(child)
        if not select.select([ended], [], [], WALL_SECONDS if mutant else None)[0]:
            os.kill(child, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what its tests left behind
        os.waitpid(child, 0)
        os.close(ended)
        answer = os.read(answers, 99)
        os.close(answers)
        number = int(answer) if answer else -1
        return None if number == len(self._items) else number

    def _run(self, mutant: Mutant | None, tests: list[int]) -> int:
        """Return the first test that fails, or the number of all tests."""
        if mutant is not None:
            file = str(self._root / mutant.file)
            changed = mutant.apply(self._sources[file])
            if not self._live.exchange(file, mutant.function, changed):
                return len(self._items)
        used = time.process_time()
        for place, number in enumerate(tests):
            seconds = int(used + self._least + TIMES_SLOWER * self._seconds[number]) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            following = self._items[tests[place + 1]] if place + 1 < len(tests) else self._items[-1]
            if not self._passes(self._items[number], following):
                return number
            used = time.process_time()
        return len(self._items)


def _nothing() -> None:
    """Be a test that calls nothing."""


def _quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(nothing, number)


def _entries(base: Path) -> set[Path]:
    return {*base.iterdir(), *(each for directory in base.iterdir() if directory.is_dir() for each in directory.iterdir())}


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
    parser.add_argument("--list", action="store_true", help="print the mutants, and run none")
    parser.add_argument("--tests", action="append", default=[], help="files or directories, instead of all")
    parser.add_argument("--long", action="store_true", help="also the tests that are marked `long`")
    given = parser.parse_args(words)
    root = SOURCES.resolve()
    files = given.module or sorted(str(file.relative_to(root)) for file in (root / given.package).glob("*.py"))
    sources = {file: (root / file).read_bytes() for file in files}
    every = [mutant for file, source in sources.items() for mutant in mutants_of(file, source)]
    chosen = [mutant for mutant in every if given.function in {"", mutant.function}]
    if 0 < given.sample < len(chosen):
        picked = random.Random(given.seed).sample(range(len(chosen)), given.sample)  # noqa: S311 -- the same each time
        chosen = [chosen[index] for index in sorted(picked)]
    if given.list:
        print(*(_shown(Survivor(*mutant[:3])) for mutant in chosen), sep="\n")
        return 0
    trial = Trial(chosen, sources, root, given.seconds)
    os.environ["CI"] = "1"  # the same examples each time
    plain = ["-n", "0", "-p", "no:cacheprovider", "-s", *([] if given.long else ["-m", "not long"])]
    code = pytest.main([*plain, *(given.tests or TESTS)], plugins=[trial])
    if trial.problem or code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        print(trial.problem or "pytest has failed")
        return 1
    listed = listed_survivors()
    problems = compare(trial.outcome, {Survivor(*mutant[:3]) for mutant in every}, set(listed), set(files))
    survived, noticed, unreached = (len(each) for each in trial.outcome)
    explained = len(trial.outcome.survived.intersection(listed))
    print(f"{len(chosen)} of {len(every)} mutants: {noticed} noticed, {survived} survived ({explained} of them explained), ")
    print(f"{unreached} on lines that no test reaches while it runs")
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
