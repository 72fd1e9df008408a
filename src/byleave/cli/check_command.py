"""`byleave check`: decide one action by the policy and show the verdict."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from byleave.cli.batch import run_batch
from byleave.cli.output import fitted, paint, say, say_json
from byleave.cli.workspace import open_policy, working_directory
from byleave.core.action import CallAction, CommandAction, OtherAction, parse_action
from byleave.core.decision import ALLOW, HOW_TO_ALLOW, WORDS, explain, verdict_tree
from byleave.errors import InputError
from byleave.protocol.json_members import repeats_a_name
from byleave.text import nearest_word, quoted, sentence_list, shown_lines

if TYPE_CHECKING:
    from typing import Any

    from byleave.analysis.nearest_rule import NearestRule
    from byleave.cli.arguments import ParsedArguments
    from byleave.core.decision import Verdict
    from byleave.policy.live_policy import LivePolicy

EXIT_CODES = (0, 10, 20)  # allow, ask, deny
_TOOLLESS = (CallAction, CommandAction, OtherAction)  # the tool of a call is a server's, not a configured one


def run(given: ParsedArguments) -> int:
    """Answer one question, or a stream of them with `--batch`."""
    if given.flag("batch"):
        return run_batch(given)
    action = parse_action(_action(given))
    if given.flag("add"):
        from byleave.cli.check_add import refuse_adding

        refuse_adding(given)
    policy = open_policy(given)
    tool = None if isinstance(action, _TOOLLESS) else action.tool
    if tool is not None and tool not in policy.compiled.tools:
        raise InputError(f"no tool named {quoted(tool)} is configured", hint=_missing_tool_hint(policy, tool))
    resolved = policy.evaluate(action, confines=not given.flag("unconfined"))
    verdict = resolved.verdict
    hint = None if tool is not None or isinstance(action, _TOOLLESS) else _toolless_hint(policy)
    if given.flag("add"):
        from byleave.cli.check_add import add_rule

        if not given.flag("json"):
            _show(given, verdict, hint)
        return add_rule(given, resolved, code=EXIT_CODES[verdict.decision])
    near = None
    if verdict.decision is not ALLOW and not given.flag("quiet"):
        from byleave.analysis.nearest_rule import nearest_rule

        near = nearest_rule(policy, resolved, confines=not given.flag("unconfined"))
    _show(given, verdict, hint, near)
    return EXIT_CODES[verdict.decision]


def _action(given: ParsedArguments) -> dict[str, Any]:
    """Return the action in its JSON form, as the words of the command line spell it."""
    words = {name.lower(): value for name, value in given.words.items()}
    action: dict[str, Any] = {"kind": given.command.name, **words}
    for key in ("tool", "agent", "cwd", "method", "address", "query", "glob"):
        if (value := given.one(key)) is not None:
            action[key] = value
    if "cwd" in action:  # a person means it from where they stand; the action means it from the root
        action["cwd"] = os.path.join(working_directory(), action["cwd"])
    if given.command.name == "spawn":
        if not given.rest:
            raise InputError("no program was named", hint="byleave check spawn --tool TOOL -- PROGRAM ARGS...")
        action |= {"program": given.rest[0], "args": list(given.rest[1:])}
    arguments = given.one("arguments")
    if arguments is not None:
        action["arguments"] = _json(arguments)
    return action


def _json(text: str) -> Any:
    try:
        if repeats_a_name(text):
            raise InputError("--arguments gives a name twice", hint="keep one of the two")
        import json

        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("--arguments is not JSON", hint='write an object, such as \'{"sql": "select 1"}\'') from None


def _missing_tool_hint(policy: LivePolicy, name: str) -> str:
    for layer in policy.compiled.layers:
        if not layer.trusted and name in layer.tree.get("tools", {}):
            return f"{layer.file} describes it, but is not trusted yet: read it, then run `byleave trust`"
    known = tuple(policy.compiled.tools)
    if not known:
        return "no tool is configured here; `byleave init` writes a file to begin with"
    near = nearest_word(name, known)
    return f"did you mean {quoted(near)}?" if near else f"there are {sentence_list(known, most=20)}"


def _toolless_hint(policy: LivePolicy) -> str:
    """Say why a question without a tool is answered so poorly."""
    tools = tuple(policy.compiled.tools)
    if tools:
        return f"no tool was named; with --tool TOOL its own rules answer (there are {sentence_list(tools)})"
    if policy.compiled.layers:
        return "no tool is configured; `byleave policy show` shows what was read"
    return "no tool is configured here; `byleave init` writes a file to begin with"


def _show(given: ParsedArguments, verdict: Verdict, hint: str | None, near: NearestRule | None = None) -> None:
    if given.flag("json"):
        tree = verdict_tree(verdict)
        if verdict.decision is not ALLOW:
            tree["nearest"] = None if near is None else near.tree
        say_json(tree)
        return
    word = WORDS[verdict.decision]
    if given.flag("quiet"):
        say(word)
        return
    # TOML stays in its lines: it is there to be copied.
    prose, mark, toml = shown_lines(explain(verdict)).partition(f"\n  {HOW_TO_ALLOW}")
    if near is not None:
        prose += f"\n  nearest: {near.sentence}"
    say(paint(word, word) + fitted(prose + mark).removeprefix(word) + toml)
    if hint is not None and verdict.code == "no_match":
        say(fitted(f"  hint: {hint}"))
