"""The recorded conversations of real agents, played around the real proxy: without a rule, allowed, and denied."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakes.acp_parties import PERMISSION, Proxy, Scene, chosen, line_of, picked, proxy

CASES = Path(__file__).parent.parent / "cases" / "acp"
NAMES = sorted(path.name.removesuffix(".ops.json") for path in CASES.glob("*.ops.json"))
CANCELLED = [name for name in NAMES if name.startswith("cancel_")]
DENIED = -32001
RULES = """
[[rules]]
{0} = {{ any_command = true }}
[[rules]]
{0} = {{ path = "**" }}
[[rules]]
{0} = {{ url = {{ host = "example.com" }} }}
"""


@dataclass(frozen=True)
class Step:
    """One recorded line. `number` is that of the agent's request which it is, or answers."""

    from_agent: bool
    line: bytes
    number: int | None


@dataclass(frozen=True)
class Case:
    """A recorded conversation, and for every request of the agent what it amounts to."""

    steps: list[Step]
    ops: list[dict[str, Any]]

    @classmethod
    def load(cls, name: str, scene: Scene) -> "Case":
        ops = [with_actions(op) for op in json.loads(scene.fill((CASES / f"{name}.ops.json").read_text()))]
        recorded = scene.fill((CASES / f"{name}.jsonl").read_text()).splitlines()
        case = cls(list(_steps([json.loads(line) for line in recorded])), ops)
        asked = [json.loads(step.line) for step in case.steps if step.from_agent and step.number is not None]
        assert [(op["id"], op["method"]) for op in ops] == [(each["id"], each["method"]) for each in asked]
        return case

    def understood(self) -> set[int]:
        return {number for number, op in enumerate(self.ops) if op["actions"]}

    def permissions(self) -> set[int]:
        return {number for number, op in enumerate(self.ops) if op["method"] == PERMISSION}

    def said(self) -> dict[int, str]:
        """Return what the editor decided when it was asked, by the number of the request."""
        answers = {step.number: json.loads(step.line) for step in self.steps if not step.from_agent}
        return {
            number: "allow" if picked(answers[number]) == self.ops[number]["allow_with"] else "deny"
            for number in self.permissions()
        }


def with_actions(op: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with all its actions: usually one, none if it cannot be told."""
    one = op.get("action")
    return {"actions": [] if one is None else [one], **op}


def _steps(recorded: list[dict[str, Any]]) -> Iterator[Step]:
    asked = 0
    open_: dict[Any, int] = {}
    for each in recorded:
        message, from_agent = each["raw"], each["dir"] == "a2c"
        number = None
        if from_agent and "method" in message and "id" in message:
            number = open_[message["id"]] = asked
            asked += 1
        elif not from_agent and "method" not in message:
            number = open_.pop(message["id"])
        # Two ways of writing the same: what is passed on must not care.
        line = line_of(message) if from_agent else json.dumps(message).encode() + b"\n"
        yield Step(from_agent, line, number)


def play(between: Proxy, case: Case, settled: set[int]) -> dict[int, Any]:
    """Play a conversation in which the proxy answers some requests itself; return its answers.

    Everything else arrives on the other side as it was said, in order, and nothing besides.
    """
    answers: dict[int, Any] = {}
    for step in case.steps:
        if step.from_agent:
            between.agent.say(step.line)
            if step.number is not None and step.number in settled:
                answers[step.number] = between.agent.hears()
            else:
                assert between.client.line() == step.line
        elif step.number not in settled:
            between.client.say(step.line)
            assert between.agent.line() == step.line
    between.nothing_came()
    return answers


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    (made.root / "sub").mkdir()
    return made


def logged_as(case: Case, scene: Scene, decision: str) -> None:
    """Compare with the log; of what is not understood, it does not matter what it is taken for."""
    judged = scene.logged()
    found = [(each["actions"] if each["understood"] else [], each["verdict"]["decision"]) for each in judged]
    assert found == [(op["actions"], decision if op["actions"] else "ask") for op in case.ops]
    assert all(each["sources"] for each in judged if each["understood"])


def audited_as(case: Case, scene: Scene, decision: str) -> None:
    """Compare with the records: every action of every request, in order; what an agent did besides is there as well.

    Where a person was asked, the record says what became of it.
    """
    records = [record for record in scene.audited() if record["event"] == "decision"]
    said = case.said()
    for number, op in enumerate(case.ops):
        settled = said.get(number, "ask") if decision == "ask" or not op["actions"] else decision
        own, records = records[: len(op["actions"]) or 1], records[len(op["actions"]) or 1 :]
        assert [record["action"] for record in own] == (op["actions"] or [own[0]["action"]])
        assert {(record["method"], record["verdict"]["decision"]) for record in own} == {(op["method"], settled)}
    assert records == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_without_a_rule_every_line_arrives_as_it_was_said(name: str, scene: Scene) -> None:
    case = Case.load(name, scene)
    with proxy(scene) as between:
        assert play(between, case, set()) == {}
        assert between.ends() == 0
    logged_as(case, scene, "ask")
    audited_as(case, scene, "ask")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_what_the_policy_allows_is_answered_without_the_editor(name: str, scene: Scene) -> None:
    scene.policy.write_text(RULES.format("allow"))
    case = Case.load(name, scene)
    settled = case.understood() & case.permissions()
    with proxy(scene) as between:
        answers = play(between, case, settled)
        assert between.ends() == 0
    for number in settled:
        assert answers[number] == chosen(case.ops[number]["id"], case.ops[number]["allow_with"])
    logged_as(case, scene, "allow")
    audited_as(case, scene, "allow")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_what_the_policy_denies_never_reaches_the_editor(name: str, scene: Scene) -> None:
    scene.policy.write_text(RULES.format("deny"))
    case = Case.load(name, scene)
    with proxy(scene) as between:
        answers = play(between, case, case.understood())
        assert between.ends() == 0
    for number in case.understood():
        op, answer = case.ops[number], answers[number]
        assert answer["id"] == op["id"]
        if op["method"] == PERMISSION:
            assert picked(answer) == op["reject_with"]
        else:
            assert (answer["error"]["code"], bool(answer["error"]["message"])) == (DENIED, True)
    logged_as(case, scene, "deny")
    audited_as(case, scene, "deny")


@pytest.mark.parametrize("name", CANCELLED)
def test_a_cancelled_request_is_answered_even_if_the_editor_is_silent(name: str, scene: Scene) -> None:
    case = Case.load(name, scene)
    with proxy(scene) as between:
        late = []
        for step in case.steps:
            if step.from_agent:
                between.agent.say(step.line)
                assert between.client.line() == step.line
            elif step.number is None:
                between.client.say(step.line)
                assert between.agent.line() == step.line
            else:
                late.append(step.line)
        assert between.agent.hears() == chosen(0, None)
        for line in late:  # the agent has its answer: a second one would answer something else
            between.client.say(line)
        between.nothing_came()
        assert between.ends() == 0
    [record] = scene.audited()
    assert ([record["action"]], record["answer"]["choice"]) == (case.ops[0]["actions"], "cancelled")
