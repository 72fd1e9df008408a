"""A JSON text is read strictly, without the `json` package: what readers could take in two ways is refused."""

from typing import Any

import pytest

from byleave.protocol.json_text import JsonTextError, read_json

REFUSED = {
    '{"a": NaN}': "holds NaN, which is no JSON",
    '{"a": [Infinity]}': "holds Infinity, which is no JSON",
    "-Infinity": "holds -Infinity, which is no JSON",
    '{"a": 1} {}': "is not one JSON object",
    '{"a": 1}x': "is not one JSON object",
    '{"a": 1, "a": 2}': "gives a name twice",
    '{"b": {"a": 1, "\\u0061": 2}}': "gives a name twice",
    '{"a": 1,}': "is not JSON",
    "": "is not JSON",
    "nonsense": "is not JSON",
    "[" * 100_000: "is nested too deeply",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_two_readers_could_take_differently_is_refused(text: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        read_json(text)
    assert str(caught.value) == REFUSED[text]


@pytest.mark.parametrize(("text", "value"), [('{"a": [1, 2.5, null, "x"]}', {"a": [1, 2.5, None, "x"]}), ("7", 7)])
def test_one_value_is_read(text: str, value: Any) -> None:
    assert read_json(text) == value
