"""`byleave call`: run one configured tool, and print what came of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from byleave.cli.calls import CallRunner
from byleave.cli.mount_command import mount_first
from byleave.cli.output import complain, say, say_json, tell, warn
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.text import quoted, shown, shown_lines
from byleave.toolhost.outcome import (
    EXIT_CODES,
    CancelledOutcome,
    CompletedOutcome,
    FailedOutcome,
    NeedsInput,
    broken,
    outcome_tree,
)

if TYPE_CHECKING:
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.toolhost.outcome import Outcome


def run(given: ParsedArguments) -> int:
    """Run the tool, or keep running calls of it; the exit code says what came of the last one."""
    arguments, answers = read_arguments(given.words.get("ARGUMENTS", "{}")), _answers(given)
    workspace = open_workspace(given)
    mount_first(given, workspace, own=False)
    policy = load_policy(given, workspace)
    tell(given, origins(policy))
    warn(given, policy.warnings)
    with CallRunner(given, workspace, policy, given.words["TOOL"], answers) as calls:
        if given.flag("schema"):
            say_json(calls.schema())
            return 0
        if given.flag("keep"):
            return _keep(calls, arguments if "ARGUMENTS" in given.words else None)
        outcome = calls.run(arguments)
    _show(given, outcome)
    return EXIT_CODES[type(outcome)]


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; an InputError if they are no JSON object."""
    import json

    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("the arguments are not JSON", hint="""write an object, such as '{"path": "src"}'""") from None
    if not isinstance(tree, dict):
        raise InputError("the arguments are no JSON object", hint="""write an object, such as '{"path": "src"}'""")
    return tree


def _answers(given: ParsedArguments) -> dict[str, str]:
    answers: dict[str, str] = {}
    for text in given.options.get("answer", ()):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{quoted(text)} is no answer", hint="write --answer ID=VALUE")
        answers[name] = value
    return answers


def _keep(calls: CallRunner, first: dict[str, Any] | None) -> int:
    """Answer one line of arguments after the other, until there are no more."""
    code = 0
    if first is not None:
        code = _told(calls.run(first))
    for line in calls.lines():
        try:
            outcome = calls.run(read_arguments(line))
        except (ByleaveError, ConfigErrors) as error:  # of this line; the next may do
            outcome = broken(getattr(error, "problem", str(error)))
        code = _told(outcome)
    return code


def _told(outcome: Outcome) -> int:
    say_json(outcome_tree(outcome))
    sys.stdout.flush()
    return EXIT_CODES[type(outcome)]


def _show(given: ParsedArguments, outcome: Outcome) -> None:
    if given.flag("json"):
        say_json(outcome_tree(outcome))
    elif isinstance(outcome, CompletedOutcome):
        _show_content(outcome.content)
    elif isinstance(outcome, FailedOutcome):
        complain(f"byleave: {shown_lines(outcome.failure.message)}")
        for line in outcome.failure.trace:
            complain(f"  {shown(line)}")
    elif isinstance(outcome, NeedsInput):
        _show_content(outcome.content)
        complain(f"byleave: the tool asks: {shown_lines(outcome.question['text'])}")
        complain(f"  answer it with --answer {shown(outcome.question['id'])}=VALUE")
    elif isinstance(outcome, CancelledOutcome):
        complain("byleave: cancelled")
    else:
        say_json(outcome_tree(outcome))


def _show_content(content: list[dict[str, Any]]) -> None:
    """Print blocks: text as it is, where it cannot act on a terminal; of anything else, what it is."""
    for block in content:
        text = _text_of(block)
        say(shown_lines(text) if sys.stdout.isatty() else _writable(text.removesuffix("\n")))


def _text_of(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"[{shown(block['type'])}]"


def _writable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
