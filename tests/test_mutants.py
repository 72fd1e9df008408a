"""The tool that changes code to see whether a test notices: what it changes, and what it reports."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parent.parent
TOOL = REPOSITORY / "tools/mutants.py"


@pytest.fixture(scope="module")
def mutants() -> Iterator[ModuleType]:
    """Yield the tool, loaded as `python tools/mutants.py` loads it."""
    sys.path.insert(0, str(TOOL.parent))
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(TOOL.parent))


CHANGED = [
    ("if a:\n  return 1", {"if True:", "if False:", "return 2"}),
    ("if a == b:\n  pass", {"if True:", "if False:"}),
    ("x = a == b", {"x = (a != b)"}),
    ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
    ("x = a and not b", {"x = (a)", "x = (not b)"}),
    ("if x := a:\n  pass", {"if (((x := a)) or True):", "if (((x := a)) and False):"}),
    ("return DENY", {"return ASK"}),
    ("x = any(a)", {"x = all(a)"}),
    ("x = a.casefold()", {"x = (a)"}),
    ("x = [a for a in b if a]", {"x = [a for a in b if True]", "x = [a for a in b if False]"}),
    ("raise a", {"pass"}),
    ("a()", {"pass"}),
    ("x = 'a'", {"x = 'XXa'"}),
    ("x = 'a message'", set()),
    ("x = f'{a == b}'", set()),
    ("while a:\n  break", {"while False:", "continue"}),
    ("x = zip(a, strict=True)", set()),
    ("x: Literal['a'] = a", set()),
]


@pytest.mark.parametrize(("body", "expected"), CHANGED, ids=[body for body, _ in CHANGED])
def test_each_kind_of_code_is_changed_in_its_ways(mutants: ModuleType, body: str, expected: set[str]) -> None:
    source = f"def f(a, b):\n  '''Say nothing.'''\n  {body.replace(chr(10), chr(10) + '  ')}\n".encode()
    found = mutants.mutants_of("x.py", source)
    assert {mutant.change.partition(" => ")[2] for mutant in found} == expected
    for mutant in found:
        compile(mutant.apply(source), "x.py", "exec")


def test_an_answer_becomes_another_one_of_those_declared(mutants: ModuleType) -> None:
    source = b"def f(a) -> bool:\n  return g(a)\ndef h(a) -> int | None:\n  return g(a)\n"
    found = [mutant.change.partition(" => ")[2] for mutant in mutants.mutants_of("x.py", source)]
    assert found == ["return True", "return False", "return None"]


def test_the_same_change_of_two_lines_alike_has_two_names(mutants: ModuleType) -> None:
    found = mutants.mutants_of("x.py", b"class A:\n  def f(self):\n    a()\n    a()\n")
    assert [(mutant.function, mutant.change) for mutant in found] == [
        ("A.f", "a() => pass"),
        ("A.f", "a() => pass (2)"),
    ]


def test_a_survivor_that_is_not_listed_and_a_listed_one_that_is_noticed_or_gone_are_problems(
    mutants: ModuleType,
) -> None:
    one, two, three = (mutants.Survivor("a.py", "f", change) for change in ("1", "2", "3"))

    def problems(survived: set[object], noticed: set[object], listed: set[object]) -> list[str]:
        outcome = mutants.Outcome(survived, noticed, set())
        found: list[str] = mutants.compare(outcome, {one, two}, listed, {"a.py"})
        return found

    assert problems({one}, {two}, {one}) == []
    assert problems({one}, {two}, set()) == ["no test notices it: a.py, f: 1"]
    assert problems({one}, {two}, {one, two}) == ["listed, but a test notices it: a.py, f: 2"]
    assert problems({one}, {two}, {one, three}) == ["listed, but gone: a.py, f: 3"]


def test_every_listed_survivor_is_a_mutant_of_the_code_as_it_is(mutants: ModuleType) -> None:
    listed = mutants.listed_survivors(REPOSITORY / "tests/surviving_mutants.toml")
    source = REPOSITORY / "src/byleave"
    every = {
        mutants.Survivor(*mutant[:3])
        for file in {entry.file for entry in listed}
        for mutant in mutants.mutants_of(file, (source / file).read_bytes())
    }
    assert set(listed) - every == set()
    assert all(listed.values())


def test_what_is_open_survived_and_has_no_reason(mutants: ModuleType) -> None:
    new, explained, noticed, old, gone, elsewhere = (
        mutants.Survivor(file, "f", change)
        for file, change in (*(("a.py", change) for change in "12345"), ("b.py", "6"))
    )
    outcome = mutants.Outcome({new, explained, old}, {noticed}, set())
    before = {noticed, old, gone, elsewhere}
    found = mutants.still_open(outcome, {new, explained, noticed, old}, {explained}, before)
    assert found == {new, old, elsewhere}


def test_open_survivors_are_read_as_they_are_printed(mutants: ModuleType, tmp_path: Path) -> None:
    change = 'x = {"a, b": 1}, "\u2028" => x = {"a, b": 2}, "\u2028"'
    (tmp_path / "open.txt").write_text(f"core/a.py, A.f: {change}\n", "utf-8")
    assert mutants.open_survivors(tmp_path / "open.txt") == {mutants.Survivor("core/a.py", "A.f", change)}
    assert mutants.open_survivors(tmp_path / "none.txt") == set()


TOO_HIGH = ("(self > 18)", "self >= 19")
MODULE = """
import functools

class Age(int):
    @property
    def adult(self):
        return self >= 18

@functools.cache
def name(age):
    return "adult" if Age(age).adult else "child"

def endless(age):
    while age > 0:
        age -= 1
    return True
"""
TESTS = """
from byleave.demo.ages import Age, endless, name

def test_an_adult_is_named_so():
    assert (name(20), name(3)) == ("adult", "child")

def test_it_ends():
    assert endless(3)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Return a function that runs the tool in a project of one module, and returns its exit code and its lines."""
    module = tmp_path / "src/byleave/demo/ages.py"
    module.parent.mkdir(parents=True)
    (tmp_path / "src/byleave/__init__.py").touch()
    module.write_text(MODULE)
    for directory in ("core", "policy"):
        (tmp_path / "tests" / directory).mkdir(parents=True)
    (tmp_path / "tests/core/test_ages.py").write_text(TESTS)
    (tmp_path / "tests/test_cases.py").touch()
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n")

    def tool(listed: str, *words: str) -> tuple[int, list[str]]:
        (tmp_path / "tests/surviving_mutants.toml").write_text(listed)
        command = [sys.executable, str(TOOL), "demo", "--seconds", "1", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout.splitlines()

    return tool


def test_what_no_test_notices_is_reported_and_fails(run: Callable[..., tuple[int, list[str]]]) -> None:
    code, lines = run("")
    assert code == 1
    assert [line for line in lines if line.startswith("no test notices it")] == [
        "no test notices it: demo/ages.py, Age.adult: return self >= 18 => return (self > 18)",
        "no test notices it: demo/ages.py, Age.adult: return self >= 18 => return self >= 19",
        "no test notices it: demo/ages.py, endless: age -= 1 => age -= 2",
        "no test notices it: demo/ages.py, endless: while age > 0: => while (age <= 0):",
        "no test notices it: demo/ages.py, endless: while age > 0: => while (age >= 0):",
        "no test notices it: demo/ages.py, endless: while age > 0: => while False:",
        "no test notices it: demo/ages.py, endless: while age > 0: => while age > 1:",
    ]


def test_what_is_open_is_written_and_tried_again(run: Callable[..., tuple[int, list[str]]], tmp_path: Path) -> None:
    listed = tmp_path / "tests/open_mutants.txt"
    assert run("", "--write")[0] == 0
    written = listed.read_text().splitlines()
    assert len(written) == 7
    assert written[0] == "demo/ages.py, Age.adult: return self >= 18 => return (self > 18)"
    code, lines = run("", "--open")
    assert (code, "7 of 14 mutants: 0 noticed, 7 survived (0 explained, 7 open);" in lines) == (0, True)
    test = "from byleave.demo.ages import Age\ndef test_eighteen():\n    assert Age(18).adult\n"
    (tmp_path / "tests/policy/test_eighteen.py").write_text(test)
    assert run("", "--open")[0] == 1
    assert run("", "--open", "--write", "--tests", "tests/policy")[0] == 0
    assert listed.read_text().splitlines() == [each for each in written if "Age.adult" not in each]


def test_a_mutant_that_has_used_its_time_counts_as_a_survivor(
    run: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    slow = "def test_slowly():\n    assert sum(range(3_000_000)) and Age(18).adult\n"
    (tmp_path / "tests/core/test_ages.py").write_text("from byleave.demo.ages import Age\n" + slow)
    quick = "from byleave.demo.ages import Age\ndef test_quickly():\n    assert Age(20).adult\n"
    (tmp_path / "tests/policy/test_quickly.py").write_text(quick)
    survivors = [
        f"no test notices it: demo/ages.py, Age.adult: return self >= 18 => return {text}" for text in TOO_HIGH
    ]
    lines = run("")[1]
    assert any(line.startswith("14 of 14 mutants:") for line in lines), lines
    assert not set(survivors).intersection(lines)
    assert set(survivors) <= set(run("", "--most", "0.000001")[1])
