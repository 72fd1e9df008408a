"""Witnesses for calls of MCP servers: who calls which tool of which server, and with which arguments.

Complete, because a decision about a call is made from the agent, the server, the tool and the arguments. Names count
by the patterns that match them, and by whether they are plain ASCII: `name_classes` has one for each way, and all of
them are combined. The agent may be missing, and so may the tool, for the server itself.

Arguments count by the tests that rules make of them. For each pointer there is a value for every way in which its
tests can answer: texts by `name_classes`, and no value, an object, and lists of two values, since a list stands for
each of its elements. What a regular expression, a directory or a host means beside another test of the same argument
is not known that way: then the set is not called exact.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from byleave.analysis.fs_witnesses import patterns_without_wildcards
from byleave.analysis.name_classes import literal_pattern, name_classes
from byleave.analysis.rule_atoms import AGENTS, Witness, WitnessSet
from byleave.core.action import CallAction
from byleave.core.agents import DEFAULT, other_names
from byleave.core.patterns import NOT_ASCII, oddity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from byleave.analysis.rule_atoms import Atoms
    from byleave.core.agents import AgentReach
    from byleave.core.arguments import ArgumentTest

MOST_CALLS = 60_000
_MOST_VALUES = 2_000  # states of the patterns of one argument
_MOST_LISTED = 12  # values that are tried in pairs
_MISSING = object()
_PLAIN_NAMES = (None, NOT_ASCII)
_TEXTS = ("equals", "prefix", "glob")
_FOREIGN = "\u00e9"  # a letter that is not ASCII, and looks like no other


def call_witnesses(atoms: Atoms) -> WitnessSet:
    """Return a call for each way in which these policies can answer about calls."""
    agents, servers, tools = (tuple(dict.fromkeys(each)) for each in _patterns(atoms))
    callers, known = _names(agents, also=[other for agent in agents for other in other_names(agent)])
    offered, all_servers = _names(servers, foreign=True)
    called, all_tools = _names(tools, foreign=True)
    tests = [matcher.argument for matcher in atoms.calls if matcher.argument is not None]
    arguments, all_arguments = _arguments(tests)
    total = (len(callers) + 1) * len(offered) * (len(called) + 1) * len(arguments)
    found: list[Witness] = []
    for agent, server, tool, given in product((None, *callers), offered, (None, *called), arguments):
        if len(found) >= MOST_CALLS:
            break
        found.append(Witness(AGENTS, CallAction(server, tool, given, agent)))
    exact = known and all_servers and all_tools and all_arguments and total <= MOST_CALLS
    return WitnessSet(tuple(found), exact)


def _patterns(atoms: Atoms) -> tuple[list[str], list[str], list[str]]:
    """Return the patterns that rules have for agents, servers and tools."""
    agents: list[str] = [*atoms.agent_patterns, DEFAULT]
    servers = [matcher.server for matcher in atoms.calls]
    tools = [matcher.tool for matcher in atoms.calls if matcher.tool is not None]
    for known in atoms.agents:
        agents += [name for name in (known.default,) if name is not None]
        for agent in known.agents:
            agents.append(agent.name)
            for reach in (agent.allow, agent.deny):
                servers += _servers(reach)
                tools += [entry.pattern for entries in reach.tools.values() for entry in entries]
    return agents, servers, tools


def _servers(reach: AgentReach) -> Iterator[str]:
    yield from (entry.pattern for entry in reach.servers)
    yield from reach.tools


def _names(patterns: Sequence[str], *, foreign: bool = False, also: Iterable[str] = ()) -> tuple[list[str], bool]:
    """Return a name for each way in which patterns answer; with `foreign`, plain names and others apart."""
    literals = patterns_without_wildcards(tuple(patterns))
    classes = name_classes(
        patterns,
        more=_FOREIGN if foreign else "",
        kind_of=oddity if foreign else lambda _name: None,
        is_name=lambda name: bool(name) and oddity(name) in _PLAIN_NAMES,
    )
    return list(dict.fromkeys([*literals, *classes.names, *also])), classes.complete


def _arguments(tests: list[ArgumentTest]) -> tuple[list[Any], bool]:
    """Return arguments for each way in which tests answer, and whether these are all."""
    pointers: dict[str, list[ArgumentTest]] = {}
    for test in tests:
        own = pointers.setdefault(test.pointer, [])
        if all((test.test, test.value) != (other.test, other.value) for other in own):
            own.append(test)
    complete = True
    choices: list[list[tuple[str, Any]]] = []
    for pointer, own in pointers.items():
        values, known = _values(pointer, own)
        complete = complete and known
        choices.append([(pointer, value) for value in values])
    trees = [_tree(chosen) for chosen in product(*choices)] if _size(choices) <= MOST_CALLS else [_tree(())]
    return [None, *trees] if pointers else [None], complete and _size(choices) <= MOST_CALLS


def _size(choices: list[list[tuple[str, Any]]]) -> int:
    size = 1
    for each in choices:
        size *= len(each)
    return size


def _values(pointer: str, tests: list[ArgumentTest]) -> tuple[list[Any], bool]:
    """Return a value for each way in which the tests of one argument answer, and whether these are all."""
    texts = [_as_pattern(test) for test in tests if test.test in _TEXTS and isinstance(test.value, str)]
    classes = name_classes(texts, is_name=lambda _text: True, most=_MOST_VALUES)
    candidates: list[Any] = [*classes.names, _MISSING, None, {}, True, 7]
    for test in tests:
        candidates += _examples(test)
    kept = _told_apart(pointer, tests, candidates)
    pairs = [[one, other] for one in kept[:_MOST_LISTED] for other in kept[:_MOST_LISTED] if one is not other]
    kept = _told_apart(pointer, tests, [*kept, *(pair for pair in pairs if _MISSING not in pair)])
    return kept, classes.complete and (len(tests) == len(texts) or len(tests) == 1) and _is_tried(pointer, tests, kept)


def _as_pattern(test: ArgumentTest) -> str:
    if test.test == "glob":
        return str(test.value)
    return literal_pattern(test.value) + ("*" if test.test == "prefix" else "")


def _told_apart(pointer: str, tests: list[ArgumentTest], values: list[Any]) -> list[Any]:
    kept: dict[object, Any] = {}
    for value in values:
        kept.setdefault(_answers(pointer, tests, value), value)
    return list(kept.values())


def _answers(pointer: str, tests: list[ArgumentTest], value: Any) -> tuple[bool | None, ...]:
    tree = _tree(((pointer, value),))
    return tuple(test.holds(tree, granting=granting) for test in tests for granting in (True, False))


def _is_tried(pointer: str, tests: list[ArgumentTest], values: list[Any]) -> bool:
    """Whether every test passes for one of the values, and fails for another."""
    answers = [_answers(pointer, tests, value) for value in values]
    return all({True, False} <= {said[place] for said in answers} for place in range(2 * len(tests)))


def _examples(test: ArgumentTest) -> Iterator[Any]:
    value = test.value
    if test.test == "equals":
        yield value
        yield str(value)
    elif test.test == "inside":
        yield from (value, f"{value}/file", "elsewhere/file", "../file", "/elsewhere")
    elif test.test == "host":
        yield from (f"https://{value}/", f"https://user@{value}/", "https://other.example/", "no url")
    elif test.test == "regex" and test.search is not None:
        yield from _regex_examples(str(value))


_PLAINLY = (
    *((r"\b", ""), (r"\s", " "), (r"\d", "1"), (r"\w", "a"), (r"\A", ""), (r"\z", ""), (r"\Z", "")),
    *((".*", ""), (".+", "a"), ("^", ""), ("$", ""), ("(?i)", ""), ("(?s)", ""), ("(?m)", ""), ("(?:", "(")),
)


def _regex_examples(pattern: str) -> Iterator[str]:
    """Yield texts that a regular expression may match: its words, and what is left without its signs."""
    plain = pattern
    for sign, meant in _PLAINLY:
        plain = plain.replace(sign, meant)
    for part in (plain, *plain.replace("(", "|").replace(")", "|").split("|")):
        for text in (part, part.replace("\\", ""), *("".join(c for c in part if c not in signs) for signs in _SIGNS)):
            yield text
            yield f" {text} "
    yield "".join(letter if letter.isalnum() else " " for letter in plain)


_SIGNS = ("+*?()\\", "+*?()\\.", "+*?()[]{}\\")


def _tree(chosen: Iterable[tuple[str, Any]]) -> Any:
    """Return arguments with a value at each pointer; one that leads through another replaces it."""
    tree: Any = {}
    for pointer, value in chosen:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        if not steps:
            tree = {} if value is _MISSING else value
            continue
        here = tree if isinstance(tree, dict) else {}
        tree = here
        for step in steps[:-1]:
            inner = here.get(step)
            here[step] = here = inner if isinstance(inner, dict) else {}
        if value is not _MISSING:
            here[steps[-1]] = value
    return tree
