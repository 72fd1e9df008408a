"""Calls whose input is not clear: none is understood, so each needs approval."""

from typing import Any

import pytest

from byleave.core.action import action_tree
from byleave.translate.call import ToolCall, Where, as_own_question, is_own_question
from byleave.translate.translate import translate

HERE = Where("/ws", "/ws", frozenset({"/ws"}).__contains__)
MANY = [f"f{number}" for number in range(20_000)]
PATCHES = {
    "a move of nothing": "*** Begin Patch\n*** Move to: b\n*** End Patch",
    "a move of what is added": "*** Begin Patch\n*** Add File: a\n*** Move to: b\n*** End Patch",
    "a file without a name": "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
    "a new side without an old one": "+++ b/x\n@@ -1 +1 @@\n-a\n+b",
    "a rename from nothing": "diff --git a/x b/y\nrename to y",
    "from nowhere to nowhere": "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b",
    "names in quotes": 'diff --git "a/\\303" "b/\\303"\n--- "a/\\303"\n+++ "b/\\303"',
    "a patch that is too long": "*** Begin Patch\n*** Add File: a\n" + "+x\n" * 4_000_000,
}
INPUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a patch that is no text": ("edit", {"path": "a", "patch": 7}),
    "edits in words": ("edit", {"path": "a", "edits": ["x", {"path": "b"}]}),
    "edits that hide more": ("edit", {"path": "a", "edits": [{"path": "b", "command": {"x": ["rm -rf /"]}}]}),
    "edits of very many names": ("edit", {"path": "a", "edits": [dict.fromkeys(MANY, "x")]}),
    "a diff that is a number": ("edit", {"path": "a", "diff": 7}),
    "a command without words": ("execute", {"command": []}),
    "a command with an empty program": ("execute", {"command": ["", "x"]}),
    "a command with a null": ("execute", {"command": ["ls", "a\0b"]}),
    "a script in quotes": ("execute", {"command": ["'rm -rf /; ls'", "x"]}),
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
