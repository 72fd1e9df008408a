"""What a plain tool writes, and what it means."""

import json
from typing import Any

import pytest

from byleave.toolhost.outcome import outcome_tree
from byleave.toolhost.process import ProcessOutput
from byleave.toolhost.stdio_runtime import read_output

TEXT = {"type": "text", "text": "hi"}
QUESTION = {"id": "q", "text": "Sure?"}
CASES: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "plain text is one block": ("hi", "", 0, {"outcome": "completed", "content": [TEXT]}),
    "nothing is no block": ("", "noise", 0, {"outcome": "completed", "content": []}),
    "blocks are blocks": (json.dumps({"content": [TEXT]}), "", 0, {"outcome": "completed", "content": [TEXT]}),
    "a content that is a text is one block": ('{"content": "hi"}', "", 0, {"outcome": "completed", "content": [TEXT]}),
    "blocks of kinds nobody knows pass": (
        '{"content": [{"type": "image", "data": "x"}]}',
        "",
        0,
        {"outcome": "completed", "content": [{"type": "image", "data": "x"}]},
    ),
    "JSON that is something else is text": (
        '{"a": 1}',
        "",
        0,
        {"outcome": "completed", "content": [{"type": "text", "text": '{"a": 1}'}]},
    ),
    "a question among the blocks needs an answer": (
        json.dumps({"content": [TEXT, {"type": "question", **QUESTION}]}),
        "",
        0,
        {"outcome": "needs_input", "question": QUESTION, "content": [TEXT]},
    ),
    "a question may be an outcome of its own": (
        json.dumps({"type": "needs_input", "question": QUESTION}),
        "",
        0,
        {"outcome": "needs_input", "question": QUESTION},
    ),
    "a question without a text is an error": (
        '{"content": [{"type": "question", "id": "q"}]}',
        "",
        0,
        {
            "outcome": "error",
            "message": "the tool has a question without an id or a text",
            "trace": [],
            "transient": False,
        },
    ),
    "a failure is told by what it complains about": (
        "half",
        "no such thing\n",
        3,
        {"outcome": "error", "message": "no such thing", "trace": [], "transient": False},
    ),
    "a failure that complains about nothing is told by its output": (
        "half",
        "",
        3,
        {"outcome": "error", "message": "half", "trace": [], "transient": False},
    ),
    "a silent failure is told by its code": (
        "",
        "",
        3,
        {
            "outcome": "error",
            "message": "the tool ended with exit code 3, and printed nothing",
            "trace": [],
            "transient": False,
        },
    ),
    "an error may be told in full": (
        '{"error": {"message": "m", "trace": ["a"], "transient": true}}',
        "",
        1,
        {"outcome": "error", "message": "m", "trace": ["a"], "transient": True},
    ),
    "a result of a tool that failed is no result": (
        '{"content": "hi"}',
        "oops",
        1,
        {"outcome": "error", "message": "oops", "trace": [], "transient": False},
    ),
}


@pytest.mark.parametrize(("out", "err", "code", "expected"), CASES.values(), ids=CASES.keys())
def test_output_means_what_it_says(out: str, err: str, code: int, expected: dict[str, Any]) -> None:
    assert outcome_tree(read_output(ProcessOutput(out.encode(), err.encode(), code))) == expected


def test_bytes_that_are_no_text_do_not_break_it() -> None:
    assert outcome_tree(read_output(ProcessOutput(b"\xff\xfe", b"", 0)))["content"] == [
        {"type": "text", "text": "\ufffd\ufffd"}
    ]
