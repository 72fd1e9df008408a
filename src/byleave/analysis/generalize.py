"""Which rules would cover what people allowed, from the narrowest to the widest that their answers support. Pure.

A `Question` is an action that still needs approval, with the rule that the policy suggests for it alone. `exact_rules`
are those suggestions, where they hold nothing of one occasion. `wider_rules` leave open what differs between several
questions: the last words of a command, the files below a directory, the path of a URL, the end of a tool's name. No
rule leaves open the subcommand of a program, and none speaks of the whole workspace.

Nothing here decides anything: `learn` tries each rule.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from byleave.analysis.one_off import VaryingNumbers, is_one_off, one_off_places
from byleave.core.suggest import suggest_below, suggest_call_rule, suggest_open_rule, toml_string
from byleave.core.url import BadUrl, parse_url
from byleave.shell.knowledge.programs import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.analysis.answers import Lesson
    from byleave.core.match_context import Knowledge

    Groups = dict[tuple[str, ...], list["Question"]]

_SEVERAL = 2  # different values, from which on a rule may leave a place open
_SEVERAL_TOOLS = 3
_SHORTEST_STEM = 3  # letters of the names of tools that a pattern begins with
_FILE_KINDS = ("read", "create", "update", "delete", "exec")


class Question(Struct, frozen=True):
    """An action that needs a rule. `words` are those of its one command that needs it; `path` is in the workspace."""

    lesson: Lesson
    suggestion: str | None
    words: tuple[str, ...] = ()
    knowledge: Knowledge | None = None
    path: str | None = None

    @property
    def kind(self) -> str:
        """The kind of the action."""
        return str(self.lesson.action["kind"])


class ProposedRule(Struct, frozen=True):
    """A rule that is to be tried, and the questions that it was made from."""

    toml: str
    questions: tuple[Question, ...]


def exact_rules(questions: Sequence[Question]) -> list[ProposedRule]:
    """Return the rules that the policy suggests, each with all the questions that it is suggested for."""
    numbers = VaryingNumbers([each.words for each in questions if each.words])
    found: dict[str, list[Question]] = {}
    for each in questions:
        if each.suggestion is not None and not _holds_one_off(each, numbers):
            found.setdefault(each.suggestion, []).append(each)
    return _with_kinds_joined([ProposedRule(toml, tuple(group)) for toml, group in found.items()])


def _holds_one_off(question: Question, numbers: VaryingNumbers) -> bool:
    """Whether the suggested rule would hold a word of one occasion."""
    words = question.words
    if words:
        places = one_off_places(words) | numbers.places(words)
        named = set(_strings(_parsed(question.suggestion or "")))
        return any(words[place] in named for place in places if place < len(words))
    pieces = [piece for text in _strings(_parsed(question.suggestion or "")) for piece in text.split("/")]
    return any(is_one_off(piece) for piece in pieces)


def _parsed(toml: str) -> dict[str, Any]:
    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError:
        return {}


def _strings(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _strings(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _strings(value)


def _with_kinds_joined(rules: list[ProposedRule]) -> list[ProposedRule]:
    """Return the rules with those about one path joined: who changes a file also makes it."""
    joined: dict[str, list[tuple[str, ProposedRule]]] = {}
    others: list[ProposedRule] = []
    for rule in rules:
        kind = rule.questions[0].kind
        mark = f", ops = [{toml_string(kind)}] }}"
        if kind in ("create", "update") and rule.toml.endswith(mark):
            joined.setdefault(rule.toml.removesuffix(mark), []).append((kind, rule))
        else:
            others.append(rule)
    for start, group in joined.items():
        kinds = ", ".join(toml_string(kind) for kind, _rule in sorted(group, key=lambda each: each[0]))
        questions = tuple(question for _kind, rule in group for question in rule.questions)
        others.append(ProposedRule(f"{start}, ops = [{kinds}] }}", questions))
    return others


def wider_rules(questions: Sequence[Question]) -> Iterator[ProposedRule]:
    """Yield rules for questions that no exact rule covers often enough, the narrowest first."""
    commands = [each for each in questions if each.words]
    yield from _open_commands(commands)
    plain = [each for each in questions if "tool" not in each.lesson.action or each.kind == "call"]
    yield from _directories([each for each in plain if each.kind in _FILE_KINDS and each.path])
    yield from _urls([each for each in questions if each.kind == "url" and each.suggestion])
    yield from _tool_names([each for each in plain if each.kind == "call"])
    refused = [each for each in questions if "tool" in each.lesson.action and each.kind in _FILE_KINDS]
    yield from _access_below([each for each in refused if each.path and each.suggestion])


# Commands


def _open_commands(questions: Sequence[Question]) -> Iterator[ProposedRule]:
    """Yield a rule for each beginning that several commands share and that may stay open, the longest first."""
    numbers = VaryingNumbers([each.words for each in questions])
    groups: Groups = {}
    for each in questions:
        once = one_off_places(each.words) | numbers.places(each.words)
        for length in range(1, len(each.words) + 1):
            if length - 1 in once:
                break
            groups.setdefault(each.words[:length], []).append(each)
    for words in sorted(groups, key=lambda words: (-len(words), words)):
        group = groups[words]
        if len({each.words for each in group}) < _SEVERAL or not _may_end_in(words):
            continue
        first = next((each for each in group if each.knowledge is not None), None)
        toml = suggest_open_rule(words, first.knowledge) if first is not None and first.knowledge is not None else None
        if toml is not None:
            yield ProposedRule(toml, tuple(group))


def _may_end_in(words: tuple[str, ...]) -> bool:
    """Whether a rule may name these words alone: the subcommand is among them, if the program has any."""
    facts = BUILT_IN.table(words[0].rpartition("/")[2])
    if len(words) == 1:
        return facts is not None and not (facts.subcommands or facts.known_subcommands) and "/" not in words[0]
    if facts is not None and not (facts.subcommands or facts.known_subcommands):
        return True
    return not words[1].startswith("-")


# Files


def _directories(questions: Sequence[Question]) -> Iterator[ProposedRule]:
    groups: dict[tuple[str, str], list[Question]] = {}
    for each in questions:
        for directory in _above(each.path or ""):
            groups.setdefault((directory, each.kind), []).append(each)
    for directory, kind in sorted(groups, key=lambda key: (-key[0].count("/"), key)):
        group = groups[directory, kind]
        names = {each.path or "" for each in group}
        if len(names) >= _SEVERAL:
            suffixes = {name.rpartition("/")[2].rpartition(".")[2] for name in names if "." in name.rpartition("/")[2]}
            whole = len(suffixes) != 1 or any("." not in name.rpartition("/")[2] for name in names)
            toml = suggest_below(directory, "" if whole else suffixes.pop(), [kind])
            if toml is not None:
                yield ProposedRule(toml, tuple(group))


def _above(path: str) -> Iterator[str]:
    """Yield the directories above a file that a rule may name, the workspace itself not among them."""
    names = path.split("/")[:-1]
    for length in range(1, len(names) + 1):
        if names[length - 1].startswith(".") or is_one_off(names[length - 1]):
            return
        yield "/".join(names[:length])


# URLs and calls


def _urls(questions: Sequence[Question]) -> Iterator[ProposedRule]:
    """Yield rules for what URLs of one host have in common: the beginning of their paths, or the host."""
    groups: dict[tuple[str, ...], list[Question]] = {}
    for each in questions:
        target = parse_url(str(each.lesson.action.get("url", "")))
        if isinstance(target, BadUrl):
            continue
        start = (str(each.lesson.action.get("tool", "")), target.scheme, target.host, str(target.port))
        names: tuple[str, ...] = ()
        groups.setdefault(start, []).append(each)
        for segment in target.segments:
            if is_one_off(segment) or segment.isdigit():
                break
            names += (segment,)
            groups.setdefault((*start, *names), []).append(each)
    for key in sorted(groups, key=lambda key: (-len(key), key)):
        group = groups[key]
        if len({each.suggestion for each in group}) >= _SEVERAL:
            toml = _with_shorter_path(group[0].suggestion or "", key[4:])
            if toml is not None:
                yield ProposedRule(toml, tuple(group))


def _with_shorter_path(suggestion: str, segments: tuple[str, ...]) -> str | None:
    """Return the suggested rule for a URL with less of its path."""
    before, mark, rest = suggestion.partition("path_prefix = ")
    if not mark:
        return None
    whole = toml_string("/" + "/".join(segments))
    after = rest[rest.index('"', 1) + 1 :]
    if segments:
        return f"{before}{mark}{whole}{after}"
    return before.rstrip(", \n") + (after if after.startswith("\n") else f" {after.lstrip()}")


def _tool_names(questions: Sequence[Question]) -> Iterator[ProposedRule]:
    """Yield rules for tools of a server whose names begin with the same word: `get_*`."""
    groups: dict[tuple[str, str], list[Question]] = {}
    for each in questions:
        server, tool = each.lesson.action.get("server"), each.lesson.action.get("tool")
        if isinstance(server, str) and isinstance(tool, str) and "_" in tool and each.suggestion:
            groups.setdefault((server, tool.partition("_")[0]), []).append(each)
    for (server, stem), group in groups.items():
        tools = {each.lesson.action["tool"] for each in group}
        rule = suggest_call_rule(server, f"{stem}_")
        if len(tools) >= _SEVERAL_TOOLS and len(stem) >= _SHORTEST_STEM and rule is not None:
            yield ProposedRule(rule.replace(toml_string(f"{stem}_"), toml_string(f"{stem}_*")), tuple(group))


# What sandboxed runs were refused


def _access_below(questions: Sequence[Question]) -> Iterator[ProposedRule]:
    """Yield rules for the directories below which a run was refused several files."""
    groups: dict[tuple[str, str, str], list[Question]] = {}
    for each in questions:
        for directory in _above(each.path or ""):
            groups.setdefault((directory, str(each.lesson.action["tool"]), each.kind), []).append(each)
    for key in sorted(groups, key=lambda key: (-key[0].count("/"), key)):
        group = groups[key]
        if len({each.path for each in group}) >= _SEVERAL:
            before, mark, _path = (group[0].suggestion or "").rpartition("\npath = ")
            after = _path.partition("\n")[2]
            if mark:
                yield ProposedRule(f"{before}{mark}{toml_string(key[0])}\n{after}", tuple(group))
