"""Bodies that are compressed: read as they were, never larger than allowed, and refused where they are damaged."""

import gzip
import zlib

import pytest

from byleave.protocol.http_body import CodingError, DecodedTooLargeError, decoded

TEXT = b"some text" * 10


def gzipped(plain: bytes) -> bytes:
    """Return the same bytes at any time: they are in the names of tests, which all workers must agree on."""
    return gzip.compress(plain, mtime=0)


RAW = zlib.compressobj(wbits=-15)
DEFLATED = RAW.compress(TEXT) + RAW.flush()


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        (TEXT, []),
        (TEXT, ["identity", ""]),
        (gzipped(TEXT), ["gzip"]),
        (gzipped(TEXT[:50]) + gzipped(TEXT[50:]), ["gzip"]),
        (zlib.compress(TEXT), ["deflate"]),
        (DEFLATED, ["deflate"]),  # as some servers write it, against the standard
        (gzipped(zlib.compress(TEXT)), ["deflate", "gzip"]),
    ],
)
def test_a_body_is_what_it_was_before_its_codings(body: bytes, codings: list[str]) -> None:
    assert decoded(body, codings, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("body", "codings", "says"),
    [
        (b"x", ["br"], "not known"),
        (gzipped(TEXT), ["gzip"] * 10, "many times over"),
        (b"no gzip", ["gzip"], "damaged"),
        (gzipped(TEXT)[:-9], ["gzip"], "damaged"),
        (gzipped(TEXT) + b"more", ["gzip"], "damaged"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes, codings: list[str], says: str) -> None:
    with pytest.raises(CodingError, match=says):
        decoded(body, codings, 1000)


@pytest.mark.parametrize("body", [gzipped(bytes(1001)), gzipped(bytes(600)) * 2])
def test_a_body_that_grows_too_large_is_refused(body: bytes) -> None:
    with pytest.raises(DecodedTooLargeError):
        decoded(body, ["gzip"], 1000)


def test_an_empty_body_is_empty() -> None:
    assert decoded(b"", ["gzip"], 10) == b""
