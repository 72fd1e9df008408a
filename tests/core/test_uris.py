"""The URIs of resources: what is odd about one is named, and every way to write one is known."""

import pytest

from byleave.core.url import forms, oddity

SCHEME = "its scheme is missing, or not written in small letters"
BLANKS = "it holds blanks, backslashes or invisible letters"
ESCAPE = "it has an escape that is not written as %2F"
HIDDEN = "it has an escape for what is written plainly, or must not be hidden"
NAMES = "it has empty names, parameters, or too few slashes"
FILE = "a file is written file:///path, without a query"
HOST = "its host is not written in small letters, or not plainly"
PORT = "its port is empty, or the usual one"
DOTS = "it has dots that lead elsewhere"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///docs/a%20b", ""),
        ("note:anything", ""),
        ("https://example.com:8443/a?b=..", ""),
        ("db://tables/users", ""),
        ("docs", SCHEME),
        (":a", SCHEME),
        ("1a:b", SCHEME),
        ("File:///a", SCHEME),
        ("file:///a b", BLANKS),
        ("file:///a\\b", BLANKS),
        ("file:///a\u200bb", BLANKS),
        ("file:///a#b", "it has a fragment"),
        ("file:///a%2", ESCAPE),
        ("file:///a%2f", ESCAPE),
        ("file:///a%+A", ESCAPE),
        ("file:///%61", HIDDEN),
        ("file:///a%2Fb", HIDDEN),
        ("file:///a%00", HIDDEN),
        ("file:/a", NAMES),
        ("file:///a//b", NAMES),
        ("https://example.com/a;b", NAMES),
        ("file:///a?b", FILE),
        ("file://host/a", FILE),
        ("https://Example.com/", HOST),
        ("https://you@example.com/", HOST),
        ("db://example.com./a", HOST),
        ("https://example.com:443/", PORT),
        ("https://example.com:/", PORT),
        ("file:///a/../b", DOTS),
        ("note:a/./b", DOTS),
    ],
)
def test_what_is_odd_about_a_uri_is_named(uri: str, expected: str) -> None:
    assert oddity(uri) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("note:a", {"note:a"}),
        ("note:a/", {"note:a/", "note:a"}),
        ("note:a%20b", {"note:a%20b", "note:a b"}),
        ("note:caf%C3%A9", {"note:caf%C3%A9", "note:caf\u00e9"}),
        ("note:a%zz", {"note:a%zz"}),  # an escape for nothing stands for itself
        ("note:a%+A", {"note:a%+A"}),
        ("note:a%2", {"note:a%2"}),
        ("note:a%", {"note:a%"}),
    ],
)
def test_every_way_to_write_a_uri_is_known(uri: str, expected: set[str]) -> None:
    assert set(forms(uri)) == expected
