"""The outcomes of a call, in every runtime. Each has a JSON form that programs rely on, and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.protocol.content import ToolFailure, Update, failure_tree, question_in, update_tree

if TYPE_CHECKING:
    from typing import Any

    from byleave.protocol.content import Block


class CompletedOutcome(Struct, frozen=True):
    """The tool did its work; these blocks are its result."""

    content: list[Block]


class FailedOutcome(Struct, frozen=True):
    """The tool failed, or could not be run."""

    failure: ToolFailure


class NeedsInput(Struct, frozen=True):
    """The tool has a question. It is run again with the answer."""

    question: dict[str, Any]
    content: list[Block] = []


class CancelledOutcome(Struct, frozen=True):
    """The call was stopped."""


class StateOutcome(Struct, frozen=True):
    """The state of a stateful tool."""

    update: Update


Outcome = CompletedOutcome | FailedOutcome | NeedsInput | CancelledOutcome | StateOutcome


def broken(message: str, *, transient: bool = False) -> FailedOutcome:
    """Return the outcome of a call that failed for this reason."""
    return FailedOutcome(ToolFailure(message, (), transient))


def completed(content: list[Block]) -> Outcome:
    """Return the outcome that these blocks are: a question among them comes first."""
    question = question_in(content)
    if question is not None:
        return NeedsInput(question, [block for block in content if block["type"] != "question"])
    if any(block["type"] == "question" for block in content):
        return broken("the tool has a question without an id or a text")
    return CompletedOutcome(content)


def outcome_tree(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON."""
    if isinstance(outcome, CompletedOutcome):
        return {"outcome": "completed", "content": outcome.content}
    if isinstance(outcome, FailedOutcome):
        return {"outcome": "error", **failure_tree(outcome.failure)}
    if isinstance(outcome, NeedsInput):
        tree = {"outcome": "needs_input", "question": outcome.question}
        return {**tree, "content": outcome.content} if outcome.content else tree
    if isinstance(outcome, StateOutcome):
        return {"outcome": "state", "state": update_tree(outcome.update)}
    return {"outcome": "cancelled"}


EXIT_CODES: dict[type, int] = {
    CompletedOutcome: 0,
    FailedOutcome: 1,
    NeedsInput: 10,
    CancelledOutcome: 130,
    StateOutcome: 0,
}
