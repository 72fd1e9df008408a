"""What the decoder refuses is a ValueError, which is what is caught wherever bytes of others are read."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from byleave.protocol.json_fast import FAST
from byleave.protocol.jsonrpc import PARSE_ERROR, Malformed, read_envelope

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@pytest.mark.parametrize("line", [b"{x", b"[]", b'{"jsonrpc":1}', b'{"jsonrpc":"\xff"}', b""])
def test_a_line_that_cannot_be_read_is_malformed_and_no_error_of_ours(line: bytes) -> None:
    assert issubclass(msgspec.DecodeError, ValueError)
    assert isinstance(read_envelope(line, FAST), Malformed)
    read = read_envelope(b"{x", FAST)
    assert isinstance(read, Malformed)
    assert read.number == PARSE_ERROR


def test_no_version_of_msgspec_is_installed_whose_errors_are_others() -> None:
    """Up to 0.20, its errors are plain exceptions, which nothing catches."""
    named = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    (bound,) = [each for each in named if each.startswith("msgspec")]
    lowest = bound.removeprefix("msgspec>=").partition(",")[0]
    assert tuple(int(part) for part in lowest.split(".")) >= (0, 21)
