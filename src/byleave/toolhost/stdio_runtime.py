"""Run a plain (stdio) tool: a process held to its access, which receives its call once and prints its outcome.

It receives the call in the words of its command, where they have a place for it, else on standard input. A place is
`{{context}}` or `{{tool}}` inside of one word. What replaces it is JSON, and stays inside that word: words are never
joined, split or read by a shell. A word that is code (the program itself, what follows `-c`) may not have a place.

It prints content blocks as JSON, a question, an error, or plain text.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from threading import Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING

from byleave.errors import InputError, RequestError
from byleave.protocol.content import ToolFailure, read_content, read_failure, read_question
from byleave.protocol.jsonrpc import CANCELLED
from byleave.text import quoted, shown
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.outcome import CancelledOutcome, FailedOutcome, NeedsInput, broken, completed
from byleave.toolhost.process import attend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.net.proxy import Decide
    from byleave.toolhost.limits import Timing
    from byleave.toolhost.outcome import Outcome
    from byleave.toolhost.process import ProcessOutput, ToolSandboxes


PLACES = ("context", "tool")
_LONGEST_CLUSTER = 3  # `-lc`


def fill(command: Sequence[str], given: Mapping[str, Any]) -> tuple[list[str], bytes]:
    """Return the words of the command, and what goes to standard input: nothing, if the words say it all."""
    texts = {f"{{{{{name}}}}}": _json(given[name]) for name in PLACES}
    for before, word in zip(("-c", *command), command, strict=False):
        if _takes_code(before) and any(place in word for place in texts):
            raise InputError(
                f"{quoted(word)} would be read as a program, and the caller of the tool would write a part of it",
                hint='give {{tool}} a word of its own behind the script, where a shell has it as "$0" or "$1"',
            )
    if not any(place in word for word in command for place in texts):
        return list(command), _json(dict(given)).encode() + b"\n"
    return [_filled(word, texts) for word in command], b""


def _takes_code(option: str) -> bool:
    """Whether the word behind this one is code to a shell or an interpreter: `-c`, `-lc`, `-e`, `--eval`."""
    cluster = option.startswith("-") and not option.startswith("--") and len(option) <= _LONGEST_CLUSTER
    return (cluster and option[-1] in "ce") or option in ("--eval", "--command", "--execute")


def _filled(word: str, texts: Mapping[str, str]) -> str:
    """Fill a word from left to right; what was put in is not looked at again."""
    done, rest = "", word
    while True:
        found = min(((rest.find(place), place) for place in texts if place in rest), default=None)
        if found is None:
            return done + rest
        at, place = found
        done, rest = done + rest[:at] + texts[place], rest[at + len(place) :]


def _json(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"))  # ASCII: a word of the command line must be text everywhere


_LONGEST_WORD = 128 << 10  # bytes, as Linux limits one argument


def run_plain(
    sandboxes: ToolSandboxes,
    given: Mapping[str, Any],
    timing: Timing,
    cancel: Deadline,
    decide: Decide,
    *,
    begun: Callable[[Callable[[], object]], object],
    limit: int,
    reads_only: bool,
) -> Outcome:
    """Run the tool to its end, and return its outcome. `begun` receives the function that ends it at once."""
    words, stdin_data = fill(sandboxes.command(), given)
    if any(len(word) >= _LONGEST_WORD for word in words):
        return broken("the arguments are too long for a command line; leave {{tool}} out, and read standard input")
    stdin = _input(stdin_data)
    try:
        process = sandboxes.start_plain(words, stdin, decide, reads_only=reads_only)
    finally:
        os.close(stdin)
    turn = Deadline(None if timing.wall is None else monotonic() + timing.wall)
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
        return CancelledOutcome() if error.number == CANCELLED or cancel.cancelled else broken(error.problem)
    finally:
        patience.cancel()
    if cancel.cancelled:
        return CancelledOutcome()
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


def read_output(said: ProcessOutput) -> Outcome:
    """Return what a plain tool's output means. A tool that ends with a failure has failed, whatever it wrote."""
    text = said.out.decode("utf-8", "replace")
    tree = _object(text)
    if tree is not None and "error" in tree:
        return FailedOutcome(read_failure(tree["error"]))
    if said.exit_code != 0:
        return FailedOutcome(ToolFailure(_complaint(said, text)))
    if tree is not None:
        question = read_question(tree.get("question")) if _asks(tree) else None
        if question is not None:
            return NeedsInput(question)
        content = read_content(tree.get("content"))
        if content is not None:
            return completed(content)
    blocks = read_content(text)
    return completed(blocks if blocks is not None and text else [])


def _asks(tree: Mapping[str, Any]) -> bool:
    return "needs_input" in (tree.get("outcome"), tree.get("type"))


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that the whole output is, None if it is none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _complaint(said: ProcessOutput, text: str) -> str:
    err = said.err.decode("utf-8", "replace").strip()
    return err or text.strip() or shown(f"the tool ended with exit code {said.exit_code}, and printed nothing")
