"""What a tool gives back: content blocks, errors, questions, states. Read once here, whatever the runtime.

Blocks have MCP's shapes and pass through as they are, also those of kinds we do not know. A plain text is one block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.record import Record

if TYPE_CHECKING:
    Block = dict[str, Any]

RUNNING, WAITING, STOPPED = "running", "waiting", "stopped"


class ToolFailure(Record):
    """Why a tool failed, in its own words. `transient`: trying again may help."""

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False


class Update(Record):
    """What a stateful tool says of itself: `type` is running, waiting or stopped; the rest as it was written."""

    type: str
    content: Any = None
    question: dict[str, Any] | None = None
    result: Any = None
    error: ToolFailure | None = None


def text_block(text: str) -> Block:
    """Return the block that a plain text is."""
    return {"type": "text", "text": text}


def read_content(content: object) -> list[Block] | None:
    """Return the blocks that a result holds; None if these are no blocks."""
    if isinstance(content, str):
        return [text_block(content)]
    if isinstance(content, list) and all(_is_block(block) for block in content):
        return content
    return None


def _is_block(block: object) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    needed = _NEEDED.get(block["type"])
    return needed is None or isinstance(block.get(needed[0]), needed[1])


_NEEDED: dict[str, tuple[str, type]] = {"text": ("text", str), "resource": ("resource", dict)}


def question_in(blocks: list[Block]) -> dict[str, Any] | None:
    """Return the first question among the blocks; it has an id and a text."""
    for block in blocks:
        if block["type"] == "question":
            asked = block.get("question")
            return read_question(asked if isinstance(asked, dict) else block)
    return None


def read_question(tree: object) -> dict[str, Any] | None:
    """Return a question as it was written, without the word that makes it a block; None if it has no id or no text."""
    if not isinstance(tree, dict) or not isinstance(tree.get("id"), str) or not isinstance(tree.get("text"), str):
        return None
    return {key: value for key, value in tree.items() if key != "type" or value != "question"}


def read_failure(tree: object) -> ToolFailure:
    """Return the error that a tool reports; whatever it left out is empty."""
    if not isinstance(tree, dict):
        return ToolFailure(tree if isinstance(tree, str) else "the tool failed, and did not say why")
    message, trace = tree.get("message"), tree.get("trace")
    return ToolFailure(
        message if isinstance(message, str) and message else "the tool failed, and did not say why",
        tuple(str(line) for line in trace) if isinstance(trace, list) else (),
        tree.get("transient") is True,
    )


def read_update(tree: object) -> Update | None:
    """Return the state that a tool reports; None if it is none."""
    if not isinstance(tree, dict) or tree.get("type") not in (RUNNING, WAITING, STOPPED):
        return None
    kind, content = tree["type"], tree.get("content")
    if content is not None and read_content(content) is None:
        return None
    if kind == WAITING:
        question = read_question(tree.get("question"))
        return None if question is None else Update(kind, content, question)
    if kind == STOPPED:
        return _stopped(tree, content)
    return Update(kind, content)


def _stopped(tree: dict[str, Any], content: object) -> Update | None:
    if tree.get("error") is not None:
        return Update(STOPPED, content, error=read_failure(tree["error"]))
    result = tree.get("result", "")
    return None if read_content(result) is None else Update(STOPPED, content, result=result)


def update_tree(update: Update) -> dict[str, Any]:
    """Return a state as JSON: what is not there is left out."""
    tree: dict[str, Any] = {"type": update.type}
    if update.content is not None:
        tree["content"] = update.content
    if update.question is not None:
        tree["question"] = update.question
    if update.error is not None:
        tree["error"] = failure_tree(update.error)
    elif update.type == STOPPED:
        tree["result"] = update.result
    return tree


def failure_tree(failure: ToolFailure) -> dict[str, Any]:
    """Return an error as JSON."""
    return {"message": failure.message, "trace": list(failure.trace), "transient": failure.transient}
