"""`byleave check`: put one action to the policy and show the answer."""

from byleave.api import Workspace
from byleave.cli.output import paint, say, say_json, warn
from byleave.core.action import parse_action
from byleave.core.explain import explain
from byleave.core.verdict import WORDS, verdict_tree
from byleave.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.cli.arguments import Given
    from byleave.core.verdict import Verdict

EXIT_CODES = (0, 10, 20)  # allow, ask, deny


def run(given: "Given") -> int:
    """Answer one question, or a stream of them with `--batch`."""
    if given.flag("batch"):
        from byleave.cli.batch import run_batch

        return run_batch(given)
    action = parse_action(_action(given))
    policy = open_workspace(given).load(
        files=given.options.get("policy", ()), session=given.one("session") or "default"
    )
    warn(given, policy.warnings)
    verdict = policy.decide(action)
    _show(given, verdict)
    return EXIT_CODES[verdict.decision]


def open_workspace(given: "Given") -> Workspace:
    """Return the workspace that the common flags name."""
    return Workspace(given.one("root"))


def _action(given: "Given") -> "dict[str, Any]":
    """Return the action in its JSON form, as the words of the command line spell it."""
    words = {name.lower(): value for name, value in given.words.items()}
    action: dict[str, Any] = {"kind": given.command.name, **words}
    for key in ("tool", "agent", "cwd", "method", "address"):
        if (value := given.one(key)) is not None:
            action[key] = value
    if given.command.name == "spawn":
        if not given.rest:
            raise InputError("no program was named", hint="byleave check spawn --tool TOOL -- PROGRAM ARGS...")
        action |= {"program": given.rest[0], "args": list(given.rest[1:])}
    arguments = given.one("arguments")
    if arguments is not None:
        action["arguments"] = _json(arguments)
    return action


def _json(text: str) -> "Any":
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("--arguments is not JSON", hint='write an object, such as \'{"sql": "select 1"}\'') from None


def _show(given: "Given", verdict: "Verdict") -> None:
    if given.flag("json"):
        say_json(verdict_tree(verdict))
        return
    word = WORDS[verdict.decision]
    if given.flag("quiet"):
        say(word)
        return
    say(paint(word, word) + explain(verdict).removeprefix(word))
