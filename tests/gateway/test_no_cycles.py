"""No two modules of the gateway import each other, directly or round about; imports for types alone count, too."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import byleave.gateway

SOURCE = Path(byleave.gateway.__file__).parent
PACKAGE = "byleave.gateway"


def imports_of(file: Path) -> Iterator[str]:
    """Yield the modules of the gateway that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(f"{PACKAGE}."):
            yield node.module.removeprefix(f"{PACKAGE}.")


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += graph.get(each, ())
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one module."""
    reached = {name: reachable(graph, name) for name in graph}
    found = [{name} | {other for other in reached[name] if name in reached.get(other, ())} for name in graph]
    return [each for number, each in enumerate(found) if len(each) > 1 and each not in found[:number]]


def test_no_module_of_the_gateway_imports_another_in_a_cycle() -> None:
    graph = {file.stem: set(imports_of(file)) for file in SOURCE.glob("*.py")}
    assert cycles(graph) == []


def test_the_test_of_cycles_can_fail() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
