"""Calls whose input is not clear: none is understood, so each needs approval."""

from typing import Any

import pytest

from byleave.core.action import action_tree
from byleave.translate.call import ToolCall, Where, as_own_question, is_own_question
from byleave.translate.input_reader import read_json
from byleave.translate.names import is_thought
from byleave.translate.parsed_input import ParsedInput
from byleave.translate.translate import translate

HERE = Where("/ws", "/ws", frozenset({"/ws"}).__contains__)
MANY = [f"f{number}" for number in range(20_000)]
SPELLINGS = (
    *("path", "paths", "file", "files", "file_path", "file_paths", "file_name", "file_names", "path_name", "dir"),
    *("notebook_path", "absolute_path", "relative_path", "target_file", "target_path", "directory", "folder"),
)
PATCHES = {
    "a move of nothing": "*** Begin Patch\n*** Move to: b\n*** End Patch",
    "a move of what is added": "*** Begin Patch\n*** Add File: a\n*** Move to: b\n*** End Patch",
    "a file without a name": "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
    "a new side without an old one": "+++ b/x\n@@ -1 +1 @@\n-a\n+b",
    "a rename from nothing": "diff --git a/x b/y\nrename to y",
    "from nowhere to nowhere": "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b",
    "names in quotes": 'diff --git "a/\\303" "b/\\303"\n--- "a/\\303"\n+++ "b/\\303"',
    "a patch of nothing": "*** Begin Patch\n*** End Patch",
    "a name in quotes above a hunk": '--- "a"\n+++ "a"\n@@ -1 +1 @@\n-a\n+b',
    "no name above a hunk": "--- \t\n+++ \t\n@@ -1 +1 @@\n-a\n+b",
    "two names and no renaming": "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b",
    "a patch that is too long": "*** Begin Patch\n*** Add File: a\n" + "+x\n" * 4_000_000,
}
INPUTS: dict[str, tuple[str, dict[Any, Any]]] = {
    "a patch that is no text": ("edit", {"path": "a", "patch": 7}),
    "edits in words": ("edit", {"path": "a", "edits": ["x", {"path": "b"}]}),
    "edits that hide more": ("edit", {"path": "a", "edits": [{"path": "b", "command": {"x": ["rm -rf /"]}}]}),
    "edits of very many names": ("edit", {"path": "a", "edits": [dict.fromkeys(MANY, "x")]}),
    "a diff that is a number": ("edit", {"path": "a", "diff": 7}),
    "a command without words": ("execute", {"command": []}),
    "a command with an empty program": ("execute", {"command": ["", "x"]}),
    "a command with a null": ("execute", {"command": ["ls", "a\0b"]}),
    "a script in quotes": ("execute", {"command": ["'rm -rf /; ls'", "x"]}),
    "a script in quotes for a shell": ("execute", {"command": ["bash", "-lc", "'rm -rf x; ls'"]}),
    "an environment that is a text": ("execute", {"command": "ls", "env": "PATH=x"}),
    "an environment of two shapes": ("execute", {"command": "ls", "env": ["A=1", {"name": "B", "value": "2"}]}),
    "something typed into it under another name": ("execute", {"command": "ls", "input": "y"}),
    "very many files, each an object": ("read", {"paths": [{"path": name} for name in MANY]}),
    "another user": ("execute", {"command": "ls", "run_as": "root"}),
    "another user's rights as such": ("execute", {"command": "ls", "privileged": True}),
    "a script that is a number": ("execute", {"command": "ls", "script": 7}),
    "something typed into it": ("execute", {"command": "ls", "stdin": "y"}),
    "a patch among what is typed into it": ("execute", {"command": "ls", "input": "x\n--- a\n+++ b\n@@"}),
    "a body that hides a command": ("execute", {"command": "ls", "body": {"x": {"command": "rm x"}}}),
    "arguments inside of wrapped arguments": ("execute", {"params": {"params": {"command": "rm x"}}}),
    "wrapped arguments that are no JSON to all": ("execute", {"command": "ls", "params": '{"timeout": NaN}'}),
    "a name that is no text": ("execute", {"command": "ls", 7: "x"}),
    "a command under a name that nobody knows": ("read", {"path": "a", "other_file": {"command": "rm x"}}),
    "very many files under a name that nobody knows": ("read", {"other_files": MANY}),
    "a change that moves twice": (
        "edit",
        {"changes": {"a": {"type": "update", "move_path": "b", "update": {"move_path": "c"}}}},
    ),
    "changes under a name that is no text": ("edit", {"changes": {7: "x", "a": "y"}}),
    "edits of very many spellings": ("edit", {"edits": [dict.fromkeys(SPELLINGS, "a")]}),
    "edits in a text that looks like JSON": ("edit", {"path": "a", "edits": '[{"path": "b"'}),
    "edits of very many files": ("edit", {"edits": [{"path": name} for name in MANY]}),
    "a path that names no file": ("read", {"path": {"line": 7}}),
    "a rename to nowhere": ("edit", {"command": "rename", "path": "a"}),
    "renames of many files to one": ("edit", {"paths": MANY[:17], "new_path": "x"}),
    "a search for a number": ("search", {"path": "src", "pattern": 7}),
    "a search for very many patterns": ("search", {"path": "src", "globs": MANY}),
    "a request with a header that leads elsewhere": ("fetch", {"url": "https://h.example", "headers": {"Host": "x"}}),
    "a request with headers that are no table": ("fetch", {"url": "https://h.example", "headers": "Accept: x"}),
    "very many files": ("read", {"paths": MANY}),
    "very many moves": ("move", {"sources": MANY[:2000], "targets": MANY[:2000]}),
    "a move to nowhere": ("move", {"path": "a"}),
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_that_is_not_clear_is_not_understood(name: str) -> None:
    found = translate(ToolCall(kind="edit", raw={"patch": PATCHES[name]}), HERE)
    assert not found.understood
    assert found.problem


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_that_is_not_clear_is_not_understood(name: str) -> None:
    kind, raw = INPUTS[name]
    found = translate(ToolCall(kind=kind, raw=raw), HERE)
    assert not found.understood
    assert found.problem


def test_a_copy_in_a_patch_writes_its_target() -> None:
    patch = "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n"
    found = translate(ToolCall(kind="edit", raw={"patch": patch}), HERE)
    assert {"y"} <= {action_tree(action)["path"] for action in found.actions}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ToolCall(kind="switch_mode"), True),
        (ToolCall(kind="other", tool="ExitPlanMode"), True),
        (ToolCall(kind="other", title="ExitPlanMode: go on?"), True),
        (ToolCall(kind="think", title="Shall I go on?"), True),
        (ToolCall(kind="think", raw={"question": "Shall I?"}), True),
        (ToolCall(kind="think", title="Considering"), False),
        (ToolCall(kind="other", tool="deploy", title="Shall I?"), False),
        (ToolCall(kind="execute", raw={"command": "rm x"}, title="ExitPlanMode"), False),
        (ToolCall(kind="read", raw={"path": "a", "question": "May I?"}), False),
    ],
)
def test_a_question_of_the_agents_own_is_nothing_but_a_question(call: ToolCall, expected: bool) -> None:  # noqa: FBT001
    meant = translate(call, HERE)
    assert is_own_question(call, meant) is expected
    asked = as_own_question(meant)
    assert (asked.understood, asked.is_own_question) == (False, True)


def found_in(kind: str | None, raw: dict[Any, Any], **more: Any) -> tuple[list[dict[str, Any]], bool]:
    found = translate(ToolCall(kind=kind, raw=raw, **more), HERE)
    return [action_tree(action) for action in found.actions], found.understood


LS = {"kind": "command", "command": "ls", "cwd": "/ws"}
UPDATE_A = {"kind": "create", "path": "a"}
CLEAR: dict[str, tuple[str | None, dict[Any, Any], list[dict[str, Any]]]] = {
    "words beside a path that are no places": ("edit", {"edits": [{"path": "a", "from": "3", "to": "9"}]}, [UPDATE_A]),
    "edits that are words": ("edit", {"path": "a", "edits": "make it shorter"}, [UPDATE_A]),
    "a diff that is a list of edits": ("edit", {"diff": [{"path": "a"}]}, [UPDATE_A]),
    "a path in an object": ("read", {"path": {"path": "a"}}, [{"kind": "read", "path": "a"}]),
    "nobody else's rights": ("execute", {"command": "ls", "privileged": False}, [LS]),
    "nothing typed into it": ("execute", {"command": "ls", "is_input": False}, [LS]),
    "wrapped arguments that hide nothing": ("execute", {"params": {"command": "ls", "params": {"n": 1}}}, [LS]),
    "a mode that is no verb": ("execute", {"command": "ls", "mode": "fast"}, [LS]),
    "a header that says what comes back": (
        "fetch",
        {"url": "https://h.example", "headers": {"Accept": "text/html"}},
        [{"kind": "url", "url": "https://h.example"}],
    ),
    "a script that no rule can allow": (
        "execute",
        {"command": ["sh", "-c", "ls 'x"]},
        [{"kind": "command", "command": "ls 'x", "cwd": "/ws"}],
    ),
    "a renamed file with changes": (
        "edit",
        {
            "patch": "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n"
            "--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"
        },
        [{"kind": "move", "path": "x", "to": "y"}],
    ),
}


@pytest.mark.parametrize("name", CLEAR)
def test_an_input_in_another_shape_is_understood_where_it_is_clear(name: str) -> None:
    kind, raw, actions = CLEAR[name]
    assert found_in(kind, raw) == (actions, True)


def test_the_script_inside_of_quotes_counts_as_well() -> None:
    actions, understood = found_in("execute", {"command": ["bash", "-lc", "'rm -rf x; ls'"]})
    assert not understood
    assert "rm -rf x; ls" in [action["command"] for action in actions]


def test_a_call_amounts_to_no_more_actions_than_can_be_looked_at() -> None:
    for raw in ({"command": "delete", "paths": MANY[:1000]}, {"paths": MANY[:1000], "commands": ["a", "b", "c"]}):
        actions, understood = found_in("edit", raw)
        assert (len(actions), understood) == (1000, False)


def test_a_search_is_no_more_actions_than_can_be_looked_at() -> None:
    actions, understood = found_in("search", {"paths": MANY[:600], "globs": ["*.a", "*.b"]})
    assert (len(actions), understood) == (1000, False)


def test_a_tool_that_nobody_knows_and_that_names_changes_is_both() -> None:
    raw = {"patch": "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}
    assert found_in(None, raw, tool="builder") == ([{"kind": "other", "name": "builder"}, UPDATE_A], True)
    assert found_in(None, raw, tool="apply_patch") == ([UPDATE_A], True)


def test_no_more_doubts_are_kept_than_can_be_looked_at() -> None:
    parsed = ParsedInput()
    for number in range(2000):
        parsed.doubt(f"{number}")
    assert (len(parsed.doubts), parsed.doubts[0]) == (1000, "0")


def test_a_path_with_brackets_is_one_file_where_it_is_there() -> None:
    for name, understood in (("a[1].txt", True), ("b[1].txt", False)):
        where = Where("/ws", "/ws", frozenset({"/ws", "/ws/a[1].txt"}).__contains__)
        assert translate(ToolCall(kind="read", raw={"path": name}), where).understood is understood


def test_what_an_agent_does_not_read_beside_its_command_is_a_doubt() -> None:
    for raw, understood in (({"command": "ls"}, True), ({"command": "ls", "cwd": "src"}, False)):
        assert found_in("execute", raw, takes_directory=False)[1] is understood


def test_a_search_of_the_web_is_no_search_of_files() -> None:
    actions, understood = found_in("search", {"query": "x"}, tool="WebSearch")
    assert (actions, understood) == ([{"kind": "other", "name": "search"}], False)


def test_a_tool_that_nobody_knows_and_that_names_a_command_is_both() -> None:
    assert found_in(None, {"command": "ls"}, tool="builder") == ([{"kind": "other", "name": "builder"}, LS], True)
    assert found_in(None, {"command": "ls"}, tool="Bash") == ([LS], True)


def test_arguments_in_the_content_are_an_object_or_nothing() -> None:
    for text, command in (('{"command": "ls"}', True), ('[{"command": "ls"}]', False)):
        content = ({"type": "content", "content": {"type": "text", "text": f"```json\n{text}\n```"}},)
        found = translate(ToolCall(kind="execute", title="`ls`", content=content), HERE)
        assert ({"kind": "command", "command": "ls", "cwd": "/ws"} in map(action_tree, found.actions)) is command


@pytest.mark.parametrize(
    ("name", "thought"),
    [("Thought", True), ("todo_list", True), ("description", True), ("command", False), ("path", False), (7, False)],
)
def test_only_words_for_people_are_thoughts(*, name: object, thought: bool) -> None:
    assert is_thought(name) is thought


@pytest.mark.parametrize("text", ["[1]", "7", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, " " * (1 << 20) + "{}"])
def test_arguments_as_text_are_one_clear_object(text: str) -> None:
    with pytest.raises(ValueError, match=r"no object|is not JSON|given twice|too deep|too long"):
        read_json(text)
