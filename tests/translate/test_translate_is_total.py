"""Whatever a call holds, it has a meaning: never an error, never nothing, and nothing is lost by saying more."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import amounts
import byleave
from byleave.core.action import CallAction, action_tree, parse_action
from byleave.translate.call import ToolCall, Where
from byleave.translate.names import ROLES, VERBS
from byleave.translate.parsed_input import MOST
from byleave.translate.shell_text import quote_words
from byleave.translate.translate import OPERATIONS, translate

WHERE = Where("/ws", "/ws", {"/ws", "/ws/README.md"}.__contains__)
PATHS = ("/ws/a", "a/../b", "~", "~/x", "~x", " /x", "*", "file:///ws/a", "\ud800", "\0")
PATCHES = ("*** Begin Patch\n*** Add File: a\n+\n*** End Patch", "--- a/x\n+++ b/x")
WORDS = ("ls", "view", "https://a.example/", "[in .] (x)", '{"command": "ls"}')
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from((*PATHS, *PATCHES, *WORDS)))
NAMES = st.one_of(st.sampled_from(sorted(ROLES)), st.sampled_from(["type", "update", "delete"]), st.text(max_size=6))
TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, TREES, max_size=5)
BLOCKS = st.one_of(
    TREES,
    st.fixed_dictionaries({"type": st.just("diff"), "path": TREES}),
    TEXTS.map(lambda text: {"type": "content", "content": {"type": "text", "text": text}}),
    OBJECTS.map(
        lambda tree: {"type": "content", "content": {"type": "text", "text": json.dumps(tree)}},
    ),
)
KINDS = st.one_of(st.none(), st.sampled_from(sorted(OPERATIONS)), st.just("deploy"))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "kind": KINDS,
    "title": st.one_of(st.none(), TEXTS),
    "raw": st.one_of(st.none(), OBJECTS),
    "content": st.lists(BLOCKS, max_size=3).map(tuple),
    "locations": st.lists(st.one_of(TREES, st.fixed_dictionaries({"path": TEXTS})), max_size=3).map(tuple),
    "tool": st.one_of(st.none(), TEXTS, st.sampled_from(["bash", "mcp__a__b", "mcp__", "think"])),
    "kinds": st.lists(KINDS.map(str), max_size=2).map(tuple),
}
# Not `st.builds`: it resolves the types of the fields, some of which are imported for type checkers only.
CALLS = st.fixed_dictionaries({}, optional=FIELDS).map(lambda fields: ToolCall(**fields))
ANYTHING: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(FIELDS, TREES)
NO_CALLS = st.fixed_dictionaries(ANYTHING).map(lambda fields: ToolCall(**fields))


@pytest.mark.long
@settings(max_examples=amounts.of(150, 50))
@given(st.one_of(CALLS, NO_CALLS), st.sampled_from(["/ws", "/ws/src", "/", None]))
def test_every_call_has_a_meaning_that_can_be_judged_and_written_down(call: ToolCall, cwd: str | None) -> None:
    found = translate(call, Where("/ws", cwd, WHERE.exists))
    assert found.actions
    assert bool(found.problem) is not found.understood
    for action in found.actions:
        tree = action_tree(action)
        # How the agent spells a name is no part of what is done.
        done = action.replace(respelled=False) if isinstance(action, CallAction) else action
        assert parse_action(tree) == done
        if not isinstance(action, CallAction):
            json.dumps(tree, ensure_ascii=False).encode()
    json.dumps(dict(found.sources), ensure_ascii=False).encode()


@settings(max_examples=amounts.of(100, 50))
@given(
    st.sampled_from(["read", "edit", "delete", "execute", "fetch", "think", "switch_mode"]),
    st.dictionaries(st.sampled_from(["path", "url", "command", "description"]), TEXTS, max_size=3),
    st.sampled_from(["file_path", "target_file", "output_path", "uri", "cmd", "patch", "paths", "other"]),
    TEXTS,
)
def test_a_further_name_takes_nothing_away(kind: str, raw: dict[str, str], name: str, text: str) -> None:
    assume(raw.get("command") not in VERBS and text not in VERBS)  # beside a path, they are what is done to it
    before = translate(ToolCall(kind=kind, raw=raw, tool="t"), WHERE)
    after = translate(ToolCall(kind=kind, raw={**raw, name: text}, tool="t"), WHERE)
    told = {action for action in before.actions if action != translate(ToolCall(kind=kind), WHERE).actions[0]}
    assert told <= set(after.actions)
    if before.problem and told:
        assert after.problem


def deep(depth: int) -> Any:
    tree: Any = "x"
    for _ in range(depth):
        tree = {"a": [tree]}
    return tree


LARGE: dict[str, Callable[[], ToolCall]] = {
    "paths": lambda: ToolCall(kind="read", raw={"paths": [f"f{number}" for number in range(100_000)]}),
    "locations": lambda: ToolCall(
        kind="edit", locations=tuple({"path": f"/ws/f{number}"} for number in range(100_000))
    ),
    "names": lambda: ToolCall(
        kind="execute", raw={f"n{number}": number for number in range(100_000)} | {"command": "ls"}
    ),
    "changes": lambda: ToolCall(kind="edit", raw={"changes": {f"f{number}": {} for number in range(100_000)}}),
    "diffs": lambda: ToolCall(kind="edit", content=tuple({"type": "diff", "path": f"f{n}"} for n in range(100_000))),
    "files in a patch": lambda: ToolCall(
        kind="edit",
        raw={
            "patch": "\n".join(["*** Begin Patch", *(f"*** Delete File: {n}" for n in range(50_000)), "*** End Patch"])
        },
    ),
    "spellings of one name": lambda: ToolCall(
        kind="execute", raw={"_" * number + "command": ["sh", "-c", "ls " * 500] for number in range(2000)}
    ),
    "directories for one path": lambda: ToolCall(
        kind="read", raw={"_" * number + "cwd": f"/d{number}" for number in range(2000)} | {"path": "x"}
    ),
    "ends of a move": lambda: ToolCall(kind="move", raw={"src": [str(n) for n in range(2000)], "dst": ["d"] * 2000}),
    "urls": lambda: ToolCall(kind="fetch", raw={"urls": [f"https://{number}.example/" for number in range(100_000)]}),
    "arguments in a text": lambda: ToolCall(
        kind="execute", content=({"type": "text", "text": '{"a":[' + "[]," * 1_000_000 + "1]}"},)
    ),
    "brackets in a text": lambda: ToolCall(
        kind="execute", content=({"type": "text", "text": '{"a":' + "[" * 200_000},)
    ),
    "levels": lambda: ToolCall(kind="read", raw={"path": "x", "more": deep(100_000)}),
    "values": lambda: ToolCall(kind="read", raw={"path": "x", "more": [[number] for number in range(100_000)]}),
}


@pytest.mark.long
@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE.keys())
def test_what_is_too_much_is_not_understood(make: Callable[[], ToolCall]) -> None:
    found = translate(make(), WHERE)
    assert not found.understood
    assert 1 <= len(found.actions) <= MOST


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 100_000])
def test_a_look_at_the_disk_that_fails_does_no_harm(path: str) -> None:
    def look(place: str) -> bool:
        raise ValueError(place)

    found = translate(ToolCall(kind="edit", raw={"path": path}), Where("/ws", "/ws", look))
    assert [action_tree(action)["kind"] for action in found.actions] == ["update"]


@pytest.mark.parametrize("name", ["time", "if", "coproc", "!", "{", "[[", "noglob"])
def test_a_program_with_the_name_of_a_keyword_is_quoted(name: str) -> None:
    assert quote_words([name, "rm"]) == f"'{name}' rm"


@settings(max_examples=amounts.of(100, 50))
@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=8), min_size=1))
def test_a_list_of_arguments_is_quoted_so_that_a_shell_reads_it_back(words: list[str]) -> None:
    import shlex

    assert shlex.split(quote_words(words)) == words
    reading = byleave.read_command(quote_words(words))
    if reading.understood:
        assert reading.commands[0].argv == words
