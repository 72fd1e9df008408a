"""Run a plain (stdio) tool: a process held to its access, told what to do once, heard when it has ended.

What it writes is content blocks as JSON, a question, an error, or plain text.
"""

import json
import os
from contextlib import suppress
from threading import Thread, Timer
from time import monotonic

from byleave.errors import RequestError
from byleave.text import shown
from byleave.toolhost.outcome import Broken, Cancelled, NeedsInput, broken, completed
from byleave.toolhost.running import attend
from byleave.toolhost.templates import fill
from byleave.toolhost.turn import Turn
from byleave.wire.blocks import Failure, read_content, read_failure, read_question
from byleave.wire.codes import CANCELLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.sandbox.network import Decide
    from byleave.toolhost.boxes import Boxes
    from byleave.toolhost.conversation import Timing
    from byleave.toolhost.outcome import Outcome
    from byleave.toolhost.running import Said

_LONGEST_WORD = 128 << 10  # bytes, as Linux limits one argument


def run_plain(
    boxes: "Boxes",
    told: "Mapping[str, Any]",
    timing: "Timing",
    cancel: Turn,
    decide: "Decide",
    *,
    begun: "Callable[[Callable[[], object]], object]",
    limit: int,
    reads_only: bool,
) -> "Outcome":
    """Run the tool to its end, and return what came of it. `begun` is told how to end it at once."""
    words, given = fill(boxes.command(), told)
    if any(len(word) >= _LONGEST_WORD for word in words):
        return broken("the arguments are too long for a command line; leave {{tool}} out, and read standard input")
    stdin = _input(given)
    try:
        process = boxes.start_plain(words, stdin, decide, reads_only=reads_only)
    finally:
        os.close(stdin)
    turn = Turn(None if timing.wall is None else monotonic() + timing.wall)
    patience = Timer(timing.cancel, turn.cancel)
    patience.daemon = True

    def stop() -> None:
        process.terminate()
        patience.start()

    begun(turn.cancel)
    cancel.on_cancel(stop)
    try:
        with process:
            said = attend(process, turn, limit=limit)  # type: ignore[arg-type]
    except RequestError as error:
        return Cancelled() if error.number == CANCELLED or cancel.cancelled else broken(error.problem)
    finally:
        patience.cancel()
    if cancel.cancelled:
        return Cancelled()
    return broken(str(process.problem)) if process.problem is not None else read_output(said)


def _input(given: bytes) -> int:
    """Return a descriptor from which the tool reads what it is given, to its end.

    It is a pipe: the tool could execute a file in memory, or have the loader map it, whatever is in it.
    """
    reading, writing = os.pipe()
    Thread(target=_feed, args=(writing, given), name="byleave-input", daemon=True).start()
    return reading


def _feed(writing: int, given: bytes) -> None:
    left = memoryview(given)
    with suppress(BrokenPipeError):  # the tool has ended, or wants to read no more
        while left:
            left = left[os.write(writing, left) :]
    os.close(writing)


def read_output(said: "Said") -> "Outcome":
    """Return what a plain tool's output means. A tool that ends with a failure has failed, whatever it wrote."""
    text = said.out.decode("utf-8", "replace")
    tree = _object(text)
    if tree is not None and "error" in tree:
        return Broken(read_failure(tree["error"]))
    if said.exit_code != 0:
        return Broken(Failure(_complaint(said, text)))
    if tree is not None:
        question = read_question(tree.get("question")) if _asks(tree) else None
        if question is not None:
            return NeedsInput(question)
        content = read_content(tree.get("content"))
        if content is not None:
            return completed(content)
    blocks = read_content(text)
    return completed(blocks if blocks is not None and text else [])


def _asks(tree: "Mapping[str, Any]") -> bool:
    return "needs_input" in (tree.get("outcome"), tree.get("type"))


def _object(text: str) -> "dict[str, Any] | None":
    """Return the JSON object that the whole output is, None if it is none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _complaint(said: "Said", text: str) -> str:
    err = said.err.decode("utf-8", "replace").strip()
    return err or text.strip() or shown(f"the tool ended with exit code {said.exit_code}, and said nothing")
