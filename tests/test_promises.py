"""Every test asserts what it promises: by itself, or by a helper that does."""

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CHECKS = frozenset({"raises", "fail", "warns"})
# Helpers that fail the test themselves; each has an assertion or raises an error when it has waited for too long.
HELPERS = frozenset(
    {
        "assert_kept",
        "assert_never_looser",
        "both",
        "check_resolution",
        "eventually",
        "goes_through",
        "judge",
        "pass_both_ways",
        "until",
    }
)
NAMED = ast.Name | ast.Attribute
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[Path, Function]]:
    for file in sorted(HERE.rglob("*.py")):
        if file.relative_to(HERE).parts[0] not in ("cases", "samples"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, Function):
                    yield file, node


def called(function: Function) -> set[str]:
    """Return the names of the functions and methods that a function calls."""
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {func.id if isinstance(func, ast.Name) else func.attr for func in calls if isinstance(func, NAMED)}


def asserts(function: Function) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(function)) or bool(
        called(function) & (CHECKS | HELPERS)
    )


def without_assertion(all_functions: list[tuple[Path, Function]]) -> list[str]:
    return [
        f"{file.relative_to(HERE)}::{function.name}"
        for file, function in all_functions
        if function.name.startswith("test_") and not asserts(function)
    ]


def test_every_test_asserts_what_it_promises() -> None:
    assert without_assertion(list(functions())) == []


def test_the_helpers_fail_when_their_promise_does_not_hold() -> None:
    failing = {
        function.name
        for _file, function in functions()
        if any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function)) or called(function) & HELPERS
    }
    assert HELPERS - failing == set()


def test_a_test_that_only_fails_by_an_exception_is_found() -> None:
    tree = ast.parse(
        "def test_it():\n    run()\n\ndef test_that():\n    until(run)\n\ndef test_this():\n    assert run()\n"
    )
    found: list[tuple[Path, Function]] = [
        (HERE / "test_x.py", node) for node in tree.body if isinstance(node, ast.FunctionDef)
    ]
    assert without_assertion(found) == ["test_x.py::test_it"]
