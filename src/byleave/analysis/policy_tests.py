"""Cases about a policy: what is attempted, and what the policy should decide.

Pure: the content of a case file in, cases out; a case and a policy in, a result out. A mistake in a case is an error
with its place, never a case that passes or fails. The examples of rules (`match`, `not_match`) are cases too; that
they match is checked when a policy is loaded.

Start at `read_cases` and `evaluate_case`. Which rules decided: `analysis.coverage`. Files: `cli.policy_test_command`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from byleave.analysis.coverage import is_tested
from byleave.core.action import KINDS, fields_of, parse_action
from byleave.core.decision import verdict_tree
from byleave.core.patterns import text_matches
from byleave.errors import ConfigError, ConfigErrors, InputError
from byleave.policy.diagnostics import check_tree
from byleave.policy.layers import INLINE, Layer
from byleave.policy.mcp_json import is_json
from byleave.policy.normalize import AT, LINE
from byleave.policy.parse import parse_table
from byleave.policy.rule_types import ConfigTable
from byleave.policy.toml_spans import locate
from byleave.policy.toml_text import parse_toml, read_text
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.errors import SourceSpan
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.toml_spans import Path, Spots

SUFFIX = ".policy-test.toml"
FILE_KINDS = ("read", "create", "update", "delete", "exec")
_SHORT = ("command", *FILE_KINDS, "url", "call")
_BESIDE = {"command": ("agent", "cwd"), "url": ("tool", "agent"), "call": ("agent",)}
_OUTCOMES = ("allow", "ask", "deny")
_MOST_CALL = 3  # a server, a tool, arguments


class CaseTable(ConfigTable):
    """One case: an action, in one of its forms, and the decision that it should get."""

    one_of: ClassVar[tuple[str, ...]] = ("action", *_SHORT)

    decision: Annotated[Literal["allow", "ask", "deny"], Meta(examples=["deny"])]
    name: Annotated[str | UnsetType, Meta(examples=["no push with force"])] = UNSET
    action: Annotated[
        dict[str, Any] | UnsetType, Meta(examples=[{"kind": "env", "name": "HOME", "tool": "builder"}])
    ] = UNSET
    command: Annotated[str | UnsetType, Meta(examples=["git push --force"])] = UNSET
    read: Annotated[str | UnsetType, Meta(examples=["src/main.py"])] = UNSET
    create: Annotated[str | UnsetType, Meta(examples=["src/new.py"])] = UNSET
    update: Annotated[str | UnsetType, Meta(examples=["src/main.py"])] = UNSET
    delete: Annotated[str | UnsetType, Meta(examples=["src/main.py"])] = UNSET
    exec: Annotated[str | UnsetType, Meta(examples=["bin/run"])] = UNSET
    url: Annotated[str | UnsetType, Meta(examples=["https://api.example.org/v1"])] = UNSET
    call: Annotated[list[Any] | UnsetType, Meta(examples=[["postgres", "query", {"sql": "select 1"}]])] = UNSET
    tool: Annotated[str | UnsetType, Meta(examples=["editor"])] = UNSET
    agent: Annotated[str | UnsetType, Meta(examples=["claude-code"])] = UNSET
    cwd: Annotated[str | UnsetType, Meta(examples=["docs"])] = UNSET
    unconfined: Annotated[bool | UnsetType, Meta(examples=[True])] = UNSET
    rule: Annotated[str | UnsetType, Meta(examples=["deny git push*"])] = UNSET
    reason: Annotated[str | UnsetType, Meta(examples=["*rewrites history*"])] = UNSET
    sandbox: Annotated[bool | UnsetType, Meta(examples=[True])] = UNSET


class CaseFileTable(ConfigTable):
    """A case file: the cases, and a policy of its own if it does not test the one that is found."""

    case: Annotated[list[CaseTable] | UnsetType, Meta(examples=[[]])] = UNSET
    policy: Annotated[dict[str, Any] | UnsetType, Meta(examples=[{"rules": []}])] = UNSET


class Expectation(Struct, frozen=True):
    """What a case wants: a decision, and if they are given, the deciding rule, the reason, the way it runs."""

    decision: str
    rule: str | None = None
    reason: str | None = None
    sandbox: bool | None = None


class PolicyCase(Struct, frozen=True):
    """One case and where it stands. `at` is the place of its tool, or else of its action, for an error about it.

    `example` is `match` or `not_match` for an example of the rule whose place is `rule_source`.
    """

    name: str
    file: str
    line: int
    action: dict[str, Any]
    expected: Expectation
    at: SourceSpan
    confines: bool = True
    example: str | None = None
    rule_source: str | None = None


class CaseFile(Struct, frozen=True):
    """The cases of one file; `policy` is the layer of its own policy, None if it tests the one that is found."""

    file: str
    cases: tuple[PolicyCase, ...]
    policy: Layer | None = None


class CaseResult(Struct, frozen=True):
    """What the policy decided about a case, in JSON form, and what of it is not as expected."""

    case: PolicyCase
    verdict: dict[str, Any]
    problems: tuple[CaseProblem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def expected(self) -> str | None:
        """The decision that the case wants. An example wants that of its rule, where no other rule decides it."""
        if self.case.example is None:
            return self.case.expected.decision
        decides = self.case.example == "match" and self.case.rule_source == self.verdict["because"][0]["source"]
        return self.case.expected.decision if decides else None

    @property
    def tree(self) -> dict[str, Any]:
        """The result for programs."""
        case = self.case
        tree = {"name": case.name, "file": case.file, "line": case.line, "ok": self.ok, "expected": self.expected}
        tree |= {"decision": self.verdict["decision"], "because": self.verdict["because"]}
        return tree if self.ok else {**tree, "problems": [problem.tree for problem in self.problems]}


class CaseProblem(Struct, frozen=True):
    """One thing that a case wants and the policy does otherwise."""

    key: str
    expected: str
    found: str

    @property
    def tree(self) -> dict[str, str]:
        return {"key": self.key, "expected": self.expected, "found": self.found}


def read_cases(content: bytes, file: str) -> CaseFile:
    """Return the cases of a file; all its problems at once if it has any."""
    text = read_text(content, file)
    tree = parse_toml(text, file)
    places = locate(text)
    problems = check_tree(tree, file=file, places=places, shape=CaseFileTable)
    if problems:
        raise ConfigErrors(problems)
    cases: list[PolicyCase] = []
    for number, table in enumerate(tree.get("case", ())):
        try:
            cases.append(_case(table, ("case", number), file, places))
        except ConfigError as error:
            problems.append(error)
    if problems:
        raise ConfigErrors(problems)
    return CaseFile(file, tuple(cases), _own_policy(tree, content, file, places))


def _case(table: Mapping[str, Any], at: Path, file: str, places: Spots) -> PolicyCase:
    form = next(key for key in CaseTable.one_of if key in table)
    action = table["action"] if form == "action" else _spelled_out(table, form, at, file, places)
    beside = ("tool", "agent", "cwd") if form == "action" else ()
    for key in (*beside, *(key for key in ("tool", "cwd") if form != "action" and key not in _beside(form))):
        if key in table:
            hint = f"write it inside of the action: {key} = ..." if form == "action" else "leave it out"
            raise ConfigError(
                f"{key} does not belong beside {form}", hint=hint, at=places.point((*at, key), file, at_key=True)
            )
    _check_action(action, (*at, form), file, places, spelled=form != "action")
    if action["kind"] != "command" and ("sandbox" in table or "unconfined" in table):
        key = "sandbox" if "sandbox" in table else "unconfined"
        problem = f"{key} is about how a command runs, and this is none"
        raise ConfigError(problem, hint="leave it out", at=places.point((*at, key), file, at_key=True))
    tool_at = (*at, "action", "tool") if form == "action" else (*at, "tool")
    return PolicyCase(
        table.get("name") or _title(action),
        file,
        places.line(at),
        action,
        Expectation(table["decision"], table.get("rule"), table.get("reason"), table.get("sandbox")),
        places.point(tool_at, file) if "tool" in action else places.point((*at, form), file),
        confines=not table.get("unconfined", False),
    )


def _beside(form: str) -> tuple[str, ...]:
    return _BESIDE.get(form, ("tool", "agent"))


def _spelled_out(table: Mapping[str, Any], form: str, at: Path, file: str, places: Spots) -> dict[str, Any]:
    """Return the action that a short form stands for."""
    given = {key: table[key] for key in _beside(form) if key in table}
    if form == "call":
        words = table["call"]
        if not 1 <= len(words) <= _MOST_CALL or not all(isinstance(word, str) for word in words[:2]):
            hint = 'write call = ["server"], ["server", "tool"] or ["server", "tool", {arguments}]'
            raise ConfigError(
                "call is a server, its tool and its arguments", hint=hint, at=places.point((*at, form), file)
            )
        return {"kind": "call", **dict(zip(("server", "tool", "arguments"), words, strict=False)), **given}
    named = "path" if form in FILE_KINDS else form
    return {"kind": form, named: table[form], **given}


def _check_action(action: dict[str, Any], at: Path, file: str, places: Spots, *, spelled: bool) -> None:
    kind = action.get("kind")
    known = fields_of(kind) if isinstance(kind, str) else ()
    if not spelled and known:
        for key in action:
            if key != "kind" and key not in known:
                problem = f"unknown key {quoted(key)} in an action of the kind {quoted(str(kind))}"
                hint = f"it has {sentence_list(known, most=20)}"
                raise ConfigError(problem, hint=hint, at=places.point((*at, key), file, at_key=True))
    if not _is_json(action.get("arguments")):
        hint = "write text, numbers, true, false, lists and tables"
        raise ConfigError("no call has arguments of this type", hint=hint, at=places.point(at, file))
    try:
        parse_action(action)
    except InputError as error:
        here = (*at, "kind") if "kind" in action and kind not in KINDS else at
        raise ConfigError(error.problem, hint=error.hint, at=places.point(here, file)) from None


def _is_json(value: object) -> bool:
    """Whether JSON has this value; it has no dates, which TOML has."""
    if isinstance(value, dict):
        return all(_is_json(each) for each in value.values())
    if isinstance(value, list):
        return all(_is_json(each) for each in value)
    return value is None or isinstance(value, str | int | float)


def _title(action: Mapping[str, Any]) -> str:
    """Return an action in a few words, for a case without a name."""
    words = [str(value) for key, value in action.items() if key != "kind" and isinstance(value, str)]
    return " ".join([str(action["kind"]), *words])


class _PlacesBelow:
    """Where the parts of one table of a file stand."""

    def __init__(self, places: Spots, inside: Path) -> None:
        self._places = places
        self._inside = inside

    def line(self, path: Path) -> int:
        return self._places.line((*self._inside, *path))

    def point(self, path: Path, file: str, *, at_key: bool = False) -> SourceSpan:
        return self._places.point((*self._inside, *path), file, at_key=at_key)


def _own_policy(tree: Mapping[str, Any], content: bytes, file: str, places: Spots) -> Layer | None:
    if "policy" not in tree:
        return None
    inside = ("policy",)
    made = parse_table(tree["policy"], file, _PlacesBelow(places, inside))
    return Layer(INLINE, made, file, content, inside=inside)


def example_cases(policy: LivePolicy) -> Iterator[PolicyCase]:
    """Yield the examples of the rules that tests are about, as cases."""
    for layer in policy.compiled.layers:
        rules = layer.tree.get("rules", {}).get("value", ())
        given = [rule for rule in rules if any(key in rule for key in ("match", "not_match"))]
        tested = [rule for rule in given if is_tested(policy.compiled, layer.source(rule[LINE]))]
        if not tested or is_json(layer.file or "", layer.content):
            continue
        places = locate(read_text(layer.content, layer.file or ""))
        for rule in tested:
            yield from _examples_of(rule, layer, places)


def _examples_of(rule: Mapping[str, Any], layer: Layer, places: Spots) -> Iterator[PolicyCase]:
    word = next(word for word in _OUTCOMES if word in rule)
    for key in ("match", "not_match"):
        for number, example in enumerate(rule.get(key, ())):
            place = places.point((*layer.inside, *rule[AT], key, number), layer.file or "")
            yield PolicyCase(
                f"{key} {quoted(example)}",
                layer.file or "inline",
                place.line,
                {"kind": "command", "command": example},
                Expectation(word),
                place,
                example=key,
                rule_source=layer.source(rule[LINE]),
            )


def evaluate_case(case: PolicyCase, policy: LivePolicy) -> CaseResult:
    """Return what a policy decides about a case, and what is not as expected; an error if it cannot be decided."""
    try:
        verdict = verdict_tree(policy.decide(case.action, confines=case.confines))
    except InputError as error:
        raise ConfigErrors([ConfigError(error.problem, hint=error.hint, at=case.at)]) from None
    problems = () if case.example is not None else tuple(_problems(case.expected, verdict))
    return CaseResult(case, verdict, problems)


def _problems(expected: Expectation, verdict: Mapping[str, Any]) -> Iterator[CaseProblem]:
    if expected.decision != verdict["decision"]:
        yield CaseProblem("decision", expected.decision, verdict["decision"])
    first = verdict["because"][0]
    if expected.rule is not None and not any(text_matches(expected.rule, first[key]) for key in ("rule", "source")):
        yield CaseProblem("rule", expected.rule, f"{first['rule']} ({first['source']})")
    if expected.reason is not None and not text_matches(expected.reason, verdict["reason"]):
        yield CaseProblem("reason", expected.reason, verdict["reason"])
    confined = verdict.get("sandbox") is not None
    if expected.sandbox is not None and expected.sandbox is not confined:
        yield CaseProblem("sandbox", _word(expected.sandbox), _word(confined))


def _word(answer: bool) -> str:  # noqa: FBT001 -- a value of TOML, to be written as one
    return "true" if answer else "false"


def action_text(action: Mapping[str, Any]) -> str:
    """Return what a case attempts, for a person."""
    kind = str(action["kind"])
    words = [f"{key} = {shown(str(value))}" for key, value in action.items() if key not in ("kind", _SUBJECT.get(kind))]
    subject = shown(str(action.get(_SUBJECT.get(kind, ""), "")))
    return " ".join([word for word in (kind, subject) if word]) + (f"  ({', '.join(words)})" if words else "")


_SUBJECT = {**dict.fromkeys(FILE_KINDS, "path"), "command": "command", "url": "url", "move": "path", "env": "name"}
