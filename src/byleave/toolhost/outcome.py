"""What comes of a call, whatever the runtime. Each outcome has a JSON form that programs rely on, and an exit code."""

from byleave.record import Record
from byleave.wire.blocks import Failure, Update, failure_tree, question_in, update_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.wire.blocks import Block


class Completed(Record):
    """The tool did its work; these blocks are its result."""

    content: "list[Block]"


class Broken(Record):
    """The tool failed, or could not be run."""

    failure: Failure


class NeedsInput(Record):
    """The tool has a question. It is run again with the answer."""

    question: "dict[str, Any]"
    content: "list[Block]" = []


class Cancelled(Record):
    """Somebody stopped the call."""


class State(Record):
    """How a stateful tool stands."""

    update: Update


Outcome = Completed | Broken | NeedsInput | Cancelled | State


def broken(message: str, *, transient: bool = False) -> Broken:
    """Return the outcome of a call that failed for this reason."""
    return Broken(Failure(message, (), transient))


def completed(content: "list[Block]") -> Outcome:
    """Return the outcome that these blocks are: a question among them comes first."""
    question = question_in(content)
    if question is not None:
        return NeedsInput(question, [block for block in content if block["type"] != "question"])
    if any(block["type"] == "question" for block in content):
        return broken("the tool asks a question without an id or a text")
    return Completed(content)


def outcome_tree(outcome: Outcome) -> "dict[str, Any]":
    """Return an outcome as JSON."""
    if isinstance(outcome, Completed):
        return {"outcome": "completed", "content": outcome.content}
    if isinstance(outcome, Broken):
        return {"outcome": "error", **failure_tree(outcome.failure)}
    if isinstance(outcome, NeedsInput):
        tree = {"outcome": "needs_input", "question": outcome.question}
        return {**tree, "content": outcome.content} if outcome.content else tree
    if isinstance(outcome, State):
        return {"outcome": "state", "state": update_tree(outcome.update)}
    return {"outcome": "cancelled"}


EXIT_CODES: "dict[type, int]" = {Completed: 0, Broken: 1, NeedsInput: 10, Cancelled: 130, State: 0}
