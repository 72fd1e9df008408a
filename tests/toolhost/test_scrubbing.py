"""What was used for a tool does not come back to it, in whatever spelling is known."""

import base64
import json
import threading
from urllib.parse import quote

import pytest

from byleave.core.redact import REDACTED, SecretFilter

SECRET = "hunter2-4711/\u00fc\"x'"


@pytest.fixture
def scrub() -> SecretFilter:
    made = SecretFilter()
    made.uses(SECRET)
    return made


SPELLINGS = {
    "as it is": SECRET,
    "in JSON": json.dumps(SECRET)[1:-1],
    "in JSON, not escaped": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "in JSON in JSON": json.dumps(json.dumps(SECRET))[1:-1],
    "in a URL": quote(SECRET, safe=""),
    "in base64": base64.b64encode(SECRET.encode()).decode(),
    "in base64 for URLs": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "in base64, behind a user": base64.b64encode(f"u:{SECRET}".encode()).decode(),
    "in base64, behind a longer user": base64.b64encode(f"use:{SECRET}@x".encode()).decode(),
    "in base64, behind an even longer user": base64.b64encode(f"user:{SECRET} and".encode()).decode(),
    "in hex": SECRET.encode().hex(),
    "in large hex": SECRET.encode().hex().upper(),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_value_is_hidden_in_every_spelling_that_is_known(scrub: SecretFilter, spelled: str) -> None:
    hidden = scrub.text(f"before {spelled} after")
    assert REDACTED in hidden
    assert spelled[6:-6] not in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")


def test_bytes_that_are_no_text_keep_everything_but_the_value(scrub: SecretFilter) -> None:
    data = b"\xff\x00" + SECRET.encode() + b"\xc3"
    assert scrub.data(data) == b"\xff\x00" + REDACTED.encode() + b"\xc3"
    assert scrub.data(b"\xff\xfe\x80") == b"\xff\xfe\x80"


def test_a_tree_is_hidden_in_keys_and_values(scrub: SecretFilter) -> None:
    tree = {"a": [SECRET, 1, None, True], f"k{SECRET}": {"b": f"x{SECRET}y"}}
    assert scrub.tree(tree) == {"a": [REDACTED, 1, None, True], f"k{REDACTED}": {"b": f"x{REDACTED}y"}}


def test_without_values_nothing_is_touched() -> None:
    scrub, data, tree = SecretFilter(), b"x" * 100, {"a": [1]}
    assert scrub.data(data) is data
    assert scrub.tree(tree) is tree
    assert scrub.text("x") == "x"


@pytest.mark.parametrize("value", ["", "abc", "true", "production"])
def test_what_gives_nothing_away_is_not_hidden(value: str) -> None:
    scrub = SecretFilter()
    scrub.uses(value)
    assert scrub.text(f"-{value}- true production abc") == f"-{value}- true production abc"


def test_a_value_that_begins_with_another_is_hidden_whole(scrub: SecretFilter) -> None:
    scrub.uses(f"{SECRET}-and-more")
    assert scrub.text(f"{SECRET}-and-more {SECRET}") == f"{REDACTED} {REDACTED}"


def test_a_value_that_is_no_text_is_hidden_too() -> None:
    scrub = SecretFilter()
    scrub.uses("ab\udcffcdef")
    assert scrub.data(b"x ab\xffcdef y") == b"x [REDACTED] y"


def test_values_may_come_from_many_threads() -> None:
    scrub = SecretFilter()
    values = [f"secret-number-{number:03}-{thread}" for thread in range(4) for number in range(25)]

    def use(mine: list[str]) -> None:
        for value in mine:
            scrub.uses(value)
            assert scrub.text(value) == REDACTED

    threads = [threading.Thread(target=use, args=(values[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {scrub.text(value) for value in values} == {REDACTED}
