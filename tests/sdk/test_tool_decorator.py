"""A function as a tool: its schema says what it takes, wrong arguments are named, and whatever happens is an answer."""

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.protocol.vfs import Failed, Finished
from byleave.record import Record
from byleave.sdk.testing import Harness
from byleave.sdk.tool import ArgumentError, Tool, ToolError, tool
from byleave.sdk.vfs import Host, NotFound
from byleave.sdk.vfs_async import AsyncHost
from byleave.sdk.vfs_conversation import ToolConversation
from sdk.driving import ScriptedWire, drive, serving_files


@dataclass
class Point:
    x: int
    y: Annotated[int, "upwards"] = 0


class Span(TypedDict):
    start: int
    end: NotRequired[int]


class Pair(Record):
    left: str
    right: "str | None" = None


@tool
def everything(
    host: Host,
    text: Annotated[str, "some text"],
    number: int,
    *,
    real: float = 1.5,
    flag: bool = False,
    words: list[str] | None = None,
    table: "dict[str, int] | None" = None,
    mode: Literal["fast", "slow"] = "fast",
    point: Point | None = None,
    span: Span | None = None,
    pairs: list[Pair] | None = None,
    either: int | str = 0,
    whatever: Any = None,
) -> str:
    """Take everything.

    And say so.
    """
    given = [text, number, real, flag, words, table, mode, point, span, pairs, either, whatever]
    return repr(given)


OBJECT = {"type": "object", "additionalProperties": False}
STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
PROPERTIES: dict[str, Any] = {
    "text": {"type": "string", "description": "some text"},
    "number": INTEGER,
    "real": {"type": "number", "default": 1.5},
    "flag": {"type": "boolean", "default": False},
    "words": {"anyOf": [{"type": "array", "items": STRING}, NULL]},
    "table": {"anyOf": [{"type": "object", "additionalProperties": INTEGER}, NULL]},
    "mode": {"enum": ["fast", "slow"], "default": "fast"},
    "point": {
        "anyOf": [
            {
                **OBJECT,
                "properties": {"x": INTEGER, "y": {"type": "integer", "description": "upwards", "default": 0}},
                "required": ["x"],
            },
            NULL,
        ]
    },
    "span": {"anyOf": [{**OBJECT, "properties": {"start": INTEGER, "end": INTEGER}, "required": ["start"]}, NULL]},
    "pairs": {
        "anyOf": [
            {
                "type": "array",
                "items": {
                    **OBJECT,
                    "properties": {"left": STRING, "right": {"anyOf": [STRING, NULL]}},
                    "required": ["left"],
                },
            },
            NULL,
        ]
    },
    "either": {"anyOf": [INTEGER, STRING], "default": 0},
    "whatever": {},
}


def test_the_schema_is_made_of_the_type_hints() -> None:
    assert everything.name == "everything"
    assert everything.description == "Take everything.\n\nAnd say so."
    assert everything.parameters == {**OBJECT, "properties": PROPERTIES, "required": ["text", "number"]}
    assert json.loads(json.dumps(everything.schema)) == everything.schema


def test_arguments_become_what_the_function_takes() -> None:
    arguments = {
        "text": "a",
        "number": 1,
        "real": 2,
        "flag": True,
        "words": ["w"],
        "table": {"a": 1},
        "mode": "slow",
        "point": {"x": 1},
        "span": {"start": 1},
        "pairs": [{"left": "l"}],
        "either": "e",
        "whatever": [None],
    }
    expected = repr(
        ["a", 1, 2, True, ["w"], {"a": 1}, "slow", Point(1, 0), {"start": 1}, [Pair("l")], "e", [None]],
    )
    assert Harness().call(everything, arguments).text == expected


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"number": 1}, 'the argument "text" is missing'),
    "of a wrong type": ({"text": 5}, "text must be a text, and is a number"),
    "true for a number": ({"number": True}, "number must be a whole number, and is true or false"),
    "a fraction for a number": ({"number": 1.5}, "number must be a whole number, and is a number"),
    "a number for a flag": ({"flag": 1}, "flag must be true or false, and is a number"),
    "null where nothing is not allowed": ({"text": None}, "text must be a text, and is null"),
    "null for an optional number": ({"real": None}, "real must be a number, and is null"),
    "a text for a list": ({"words": "w"}, "words must be a list or nothing, and is a text"),
    "wrong in a list": ({"words": ["w", 1]}, "words[1] must be a text, and is a number"),
    "wrong in a table": ({"table": {"a": "b"}}, "table.a must be a whole number, and is a text"),
    "none of the choices": ({"mode": "medium"}, 'mode must be one of fast and slow, and is "medium"'),
    "missing in an object": ({"point": {}}, 'the argument "point.x" is missing'),
    "unknown in an object": (
        {"span": {"start": 1, "to": 2}},
        'there is no argument "span.to"; there are: start and end',
    ),
    "deep inside": ({"pairs": [{"left": "l"}, {"left": 1}]}, "pairs[1].left must be a text, and is a number"),
    "neither": ({"either": []}, "either must be a whole number or a text, and is a list"),
}


@pytest.mark.parametrize(("wrong", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_wrong_argument_is_an_error_that_names_it(wrong: dict[str, Any], message: str) -> None:
    arguments = (
        wrong if "number" in wrong and len(wrong) == 1 and "text" in message else {"text": "", "number": 0} | wrong
    )
    outcome = Harness().call(everything, arguments)
    assert outcome.tree == {"outcome": "error", "message": message, "trace": [], "transient": False}


def test_an_unknown_argument_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match='there is no argument "txet"; there are: text, number, real'):
        everything.read({"txet": "", "number": 1})


@given(
    st.dictionaries(
        st.sampled_from([*PROPERTIES, "unknown"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
            max_leaves=4,
        ),
    )
)
def test_whatever_the_arguments_are_they_are_read_or_refused(arguments: dict[str, Any]) -> None:
    with suppress(ArgumentError):
        everything.read(arguments)
    assert everything.format_arguments(arguments)


def test_a_tool_can_still_be_called_as_the_function_it_is() -> None:
    host: Any = None
    assert everything(host, "a", 1, flag=True).startswith("['a', 1, 1.5, True")


def test_a_function_that_cannot_be_a_tool_is_refused_when_it_is_made_one() -> None:
    def no_host() -> None: ...

    def no_type(host: Host, x) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        ...

    def rest(host: Host, *words: str) -> None: ...

    def odd(host: Host, x: complex) -> None: ...

    for function, why in ((no_host, "must take a host"), (no_type, "needs a type"), (rest, "named parameters only")):
        with pytest.raises(TypeError, match=why):
            tool(function)
    with pytest.raises(TypeError, match="JSON has nothing like it"):
        tool(odd)


@tool
def failing(host: Host, how: str) -> str | None:
    """Fail in one way or another."""
    if how == "denied":
        host.write("x", "y")
    if how == "refused":
        raise ToolError("not today", transient=True)
    if how == "broken":
        raise ZeroDivisionError("oops")
    if how == "set":
        return {1}  # type: ignore[return-value]
    if how == "blocks":
        return [{"type": "text", "text": {1}}]  # type: ignore[return-value]
    if how == "early":
        host.result("said already")
        raise ValueError("too late")
    return None


def test_a_refusal_of_the_host_is_an_error_with_its_sentence() -> None:
    tree = Harness().call(failing, {"how": "denied"}).tree
    assert (tree["outcome"], tree["trace"], tree["transient"]) == ("error", [], False)
    assert "x" in tree["message"]


def test_a_tool_that_says_why_it_fails_is_quoted() -> None:
    tree = Harness().call(failing, {"how": "refused"}).tree
    assert tree == {"outcome": "error", "message": "not today", "trace": [], "transient": True}


def test_an_exception_is_an_error_with_a_trace() -> None:
    tree = Harness().call(failing, {"how": "broken"}).tree
    assert (tree["outcome"], tree["message"]) == ("error", "ZeroDivisionError: oops")
    assert tree["trace"][0] == "Traceback (most recent call last):"
    assert tree["trace"][-1] == "ZeroDivisionError: oops"


def test_what_happens_after_the_result_changes_nothing() -> None:
    assert Harness().call(failing, {"how": "early"}).tree == {
        "outcome": "completed",
        "content": [{"type": "text", "text": "said already"}],
    }


@pytest.mark.parametrize("how", ["set", "blocks"])
def test_what_is_no_result_is_an_error_and_not_a_silence(how: str) -> None:
    message = str(Harness().call(failing, {"how": how}).message)
    assert message == "TypeError: a result is a text, or a list of content blocks; see docs/protocol.md"


def test_nothing_returned_is_an_empty_result() -> None:
    assert Harness().call(failing, {"how": ""}).content == [{"type": "text", "text": ""}]


def test_a_cancelled_tool_says_that_it_was() -> None:
    harness = Harness({"a": "x"})
    assert harness.call(failing, {"how": "denied"}, cancel_at=1).tree == {"outcome": "cancelled"}


@tool.named("shout")
def whisper(host: Host, text: str) -> str:
    """Say something."""
    return text.upper()


@whisper.formatter
def _format(arguments: Any) -> str:
    return f"shout {arguments['text']}"


def test_a_formatter_says_what_a_call_would_do_and_nothing_is_done() -> None:
    harness = Harness()
    assert whisper.name == "shout"
    assert harness.call(whisper, {"text": "a"}, action="format_arguments").text == "shout a"
    assert harness.call(whisper, {"text": "a"}).text == "A"


def test_a_tool_whose_host_is_gone_ends_quietly() -> None:
    wire = ScriptedWire(b"", told={"arguments": {"how": "denied"}})
    assert failing.serve(Host(ToolConversation(wire))) is False


def test_arguments_that_a_formatter_cannot_use_are_shown_as_they_are() -> None:
    assert whisper.format_arguments({"text": 1, "x": "a\nb\x1b"}) == 'shout(text=1, x="a\\nb\\u001b")'
    assert failing.format_arguments({"how": "x" * 500}) == f'failing(how="{"x" * 199}...)'


@tool
async def gathering(host: AsyncHost, paths: list[str]) -> str:
    """Read many files at once."""
    import asyncio

    return ",".join(await asyncio.gather(*(host.read(path) for path in paths)))


def test_a_coroutine_is_a_tool_too() -> None:
    harness = Harness({"a": "1", "b": "2"})
    assert harness.call(gathering, {"paths": ["a", "b"]}).text == "1,2"
    assert harness.call(gathering, {"paths": ["a", "c"]}).kind == "error"
    assert harness.call(gathering, {"paths": 1}).message == "paths must be a list, and is a number"


@tool.stateful(actions=("spawn", "fetch", "apply"))
def hunks(host: Host, mode: str) -> str:
    """Go through hunks."""
    host.waiting({"id": "q", "text": "Stage this hunk?"}, content="Confirm?")
    answer = host.next_input()
    if answer == "fail":
        raise NotFound("no more hunks")
    return f"{mode}: {answer}"


def test_a_stateful_tool_has_one_variant_for_each_action_it_supports() -> None:
    base = {"type": "object", "additionalProperties": False}
    parameters = {**base, "properties": {"mode": STRING}, "required": ["mode"]}
    named = {"id": {"type": "string"}}
    assert hunks.parameters == {
        "oneOf": [
            {
                **base,
                "properties": {"action": {"const": "spawn"}, **named, "args": parameters},
                "required": ["action", "id", "args"],
            },
            {**base, "properties": {"action": {"const": "fetch"}, **named}, "required": ["action", "id"]},
            {
                **base,
                "properties": {"action": {"const": "apply"}, **named, "input": {}},
                "required": ["action", "id", "input"],
            },
        ]
    }


def test_a_stateful_tool_waits_goes_on_and_stops() -> None:
    outcome = Harness().call(hunks, {"mode": "all"}, inputs=["y"])
    assert outcome.states == (
        {"type": "waiting", "content": "Confirm?", "question": {"id": "q", "text": "Stage this hunk?"}},
        {"type": "stopped", "result": "all: y"},
    )
    failed = Harness().call(hunks, {"mode": "all"}, inputs=["fail"])
    assert failed.states[-1]["error"] == {"message": "no more hunks", "trace": [], "transient": False}


@pytest.mark.parametrize("actions", [(), ("fetch",), ("spawn", "poke")])
def test_a_stateful_tool_without_spawn_or_with_an_unknown_action_is_refused(actions: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="spawn, and any of"):
        tool.stateful(actions=actions)


SCRIPT = """
from byleave.sdk.tool import tool
from byleave.sdk.vfs import Host

@tool
{kind}def count(host: "Host", path: str) -> str:
    print("stray")
    return str(len(({wait}host.read(path)).splitlines()))

count.run()
"""


@pytest.mark.parametrize(("kind", "wait"), [("", ""), ("async ", "await ")], ids=["plain", "async"])
def test_a_program_that_runs_a_tool_is_that_tool(kind: str, wait: str, tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(SCRIPT.format(kind=kind, wait=wait))
    argv, answer = [sys.executable, str(script)], serving_files({"a": "1\n2\n"})
    good = drive(argv, answer, told={"arguments": {"path": "a"}}, env={**os.environ})
    assert (good.last, good.stderr, good.exit_code) == (Finished([{"type": "text", "text": "2"}]), "stray\n", 0)
    bad = drive(argv, answer, told={"arguments": {"path": "b"}}, env={**os.environ})
    assert isinstance(bad.last, Failed)
    assert bad.last.failure.message == "b does not exist"


def test_a_tool_is_a_tool_and_a_function_is_not() -> None:
    assert isinstance(everything, Tool)
    assert not isinstance(everything.function, Tool)
