"""What a tool gives back: blocks, errors, questions and states; what is none of them is not taken for one."""

from typing import Any

import pytest

from byleave.protocol.content import question_in, read_content, read_failure, read_update, update_tree

SILENT = "the tool failed, and did not say why"


@pytest.mark.parametrize(
    "content",
    [None, 1, {"type": "text"}, ["x"], [{"text": "x"}], [{"type": "text"}], [{"type": "resource", "resource": 1}]],
)
def test_what_is_no_block_is_not_read(content: object) -> None:
    assert read_content(content) is None


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([{"type": "text", "text": "x"}], None),
        ([{"type": "question", "id": "q", "text": "?"}], {"id": "q", "text": "?"}),
        (
            [{"type": "question", "question": {"id": "q", "text": "?", "type": "yes"}}],
            {"id": "q", "text": "?", "type": "yes"},
        ),
        ([{"type": "question", "id": 1, "text": "?"}], None),
    ],
)
def test_a_question_has_an_id_and_a_text(blocks: list[dict[str, Any]], expected: object) -> None:
    assert question_in(blocks) == expected


@pytest.mark.parametrize(
    ("tree", "message", "trace"),
    [
        ("it broke", "it broke", ()),
        (None, SILENT, ()),
        ({"message": ""}, SILENT, ()),
        ({"message": "m", "trace": ["a", 1]}, "m", ("a", "1")),
        ({"message": "m", "trace": "a"}, "m", ()),
    ],
)
def test_an_error_says_why_or_that_it_does_not(tree: object, message: str, trace: tuple[str, ...]) -> None:
    failure = read_failure(tree)
    assert (failure.message, failure.trace, failure.transient) == (message, trace, False)


@pytest.mark.parametrize(
    "tree",
    [
        {"type": "running", "content": "half"},
        {"type": "waiting", "question": {"id": "q", "text": "?"}},
        {"type": "stopped", "result": "done"},
        {"type": "stopped", "content": "half", "error": {"message": "m", "trace": [], "transient": True}},
    ],
)
def test_a_state_is_read_as_it_was_written(tree: dict[str, Any]) -> None:
    update = read_update(tree)
    assert update is not None
    assert update_tree(update) == tree


@pytest.mark.parametrize(
    "tree",
    [
        None,
        {"type": "flying"},
        {"type": "running", "content": 1},
        {"type": "waiting", "question": {"id": "q"}},
        {"type": "stopped", "result": [1]},
    ],
)
def test_what_is_no_state_is_not_taken_for_one(tree: object) -> None:
    assert read_update(tree) is None
