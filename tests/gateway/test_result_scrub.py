"""Secrets that servers were given do not come back in their answers, and what was JSON stays JSON."""

import html
import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byleave.gateway.redact import ResultScrub, without_escapes

SECRET = "s3cr3t/t0ken+value"
HIDDEN = "[REDACTED]"


def scrubbed(message: str | bytes, *secrets: str) -> Any:
    given_ = message if isinstance(message, bytes) else message.encode()
    return json.loads(ResultScrub(secrets or (SECRET,)).message(given_))


def escaped(text: str, *, upper: bool = False) -> str:
    """Return a text as JSON with every character written as its number."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    return "".join(f"\\u{number.upper() if upper else number}" for number in numbers)


SPELLINGS = {
    "as it is": SECRET,
    "with escaped slashes": SECRET.replace("/", "\\/"),
    "every character by its number": escaped(SECRET),
    "numbers in capitals": escaped(SECRET, upper=True),
    "split by a single escape": f"{SECRET[:9]}{escaped(SECRET[9])}{SECRET[10:]}",
    "in a URL": SECRET.replace("/", "%2F").replace("+", "%2B"),
    "in base64": b64encode(f"user:{SECRET}".encode()).decode(),
    "in base64 for URLs": urlsafe_b64encode(f"us:{SECRET}".encode()).decode(),
    "in hex": SECRET.encode().hex(),
    "in base64 with escaped slashes": b64encode(b"\xff\xff" + SECRET.encode()).decode().replace("/", "\\/"),
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_is_hidden_in_every_spelling_we_promise(spelling: str) -> None:
    (text,) = scrubbed(f'{{"text": "before {spelling} after"}}').values()
    assert HIDDEN in text
    assert text.startswith("before ")
    assert text.endswith(" after")


MARKED = 'p&ss<w>rd\'s "one"'


@pytest.mark.parametrize(
    "page",
    [
        'p&amp;ss&lt;w&gt;rd\'s "one"',
        html.escape(MARKED),
        html.escape(MARKED).replace("&#x27;", "&#39;"),
        "p&amp;ss&lt;w&gt;rd&#39;s &#34;one&#34;",
        quote_plus(MARKED).lower(),
    ],
)
def test_a_secret_is_hidden_in_a_page_that_says_it_back(page: str) -> None:
    said = scrubbed(json.dumps({"text": f"<p>unknown user: {page}</p>"}), MARKED)
    assert said == {"text": f"<p>unknown user: {HIDDEN}</p>"}


def test_an_answer_without_secrets_is_the_very_same_object() -> None:
    scrub = ResultScrub((SECRET,))
    for message in (b'{"a":"\\u00e9\\n\\/x"}', b"{}", b'{"t":"' + b"x" * 10_000 + b'\\u2019"}'):
        assert scrub.message(message) is message


def test_nothing_is_looked_for_where_there_is_no_secret() -> None:
    message = b"not even JSON"
    assert ResultScrub(()).message(message) is message


def test_a_value_below_eight_characters_is_left() -> None:
    assert scrubbed('["1234567", "12345678"]', "1234567", "12345678") == ["1234567", HIDDEN]


def test_names_are_scrubbed_too() -> None:
    assert scrubbed(json.dumps({SECRET: {f"x{SECRET}": 1}})) == {HIDDEN: {f"x{HIDDEN}": 1}}


def test_a_secret_of_digits_is_hidden_in_a_number_which_becomes_a_text() -> None:
    assert scrubbed('{"n": 12345678, "m": -9.12345678e5, "o": 1234}', "12345678") == {
        "n": HIDDEN,
        "m": HIDDEN,
        "o": 1234,
    }


def test_a_secret_that_begins_inside_of_an_escape_is_none() -> None:
    message = '["\\nsecretval", "\\u0061bcdefgh", "\\\\nsecretval"]'
    assert scrubbed(message, "nsecretval", "0061bcdefgh") == ["\nsecretval", "abcdefgh", f"\\{HIDDEN}"]


def test_a_secret_that_ends_in_a_backslash_takes_no_other_escape_with_it() -> None:
    secret = "ends-with\\"
    assert scrubbed(json.dumps([f'{secret}"', f"{secret}\n", secret]), secret) == [f'{HIDDEN}"', f"{HIDDEN}\n", HIDDEN]


def test_of_overlapping_secrets_no_rest_is_left() -> None:
    assert scrubbed('["xabcdefghijklmnopy"]', "abcdefghijkl", "ghijklmnop") == [f"x{HIDDEN}y"]
    assert scrubbed('["abcdabcdabcdabcdx"]', "abcdabcdabcd") == [f"{HIDDEN}x"]


def test_a_secret_inside_of_another_does_not_spare_the_rest_of_it() -> None:
    assert scrubbed('["prefix-12345678-suffix"]', "12345678", "prefix-12345678-suffix") == [HIDDEN]


def test_characters_beyond_the_first_plane_are_found_as_pairs() -> None:
    secret = "key\U0001f600\U0001f601-ключ"
    for spelling in (secret, escaped(secret), json.dumps(secret)[1:-1], f"{secret[:4]}{escaped(secret[4:])}"):
        assert scrubbed(f'["{spelling}"]', secret) == [HIDDEN]


def test_half_a_character_beside_a_secret_stays_what_it_was() -> None:
    assert scrubbed(f'["\\ud83d{SECRET}\\ude00"]') == [f"\ud83d{HIDDEN}\ude00"]


def test_json_inside_of_json_is_scrubbed() -> None:
    secret = 'pass"word\\with/quotes'
    inner = json.dumps({"deep": json.dumps({"password": secret})})
    assert secret not in json.loads(json.loads(scrubbed(json.dumps([inner]), secret)[0])["deep"])["password"]


def test_a_secret_that_is_json_does_not_break_the_structure_it_looks_like() -> None:
    secret = '{"type":"account","key":"0123456789abcdef0123"}'
    message = f'{{"structuredContent":{secret},"text":{json.dumps(secret)}}}'
    assert scrubbed(message, secret) == {"structuredContent": {"type": "account", "key": HIDDEN}, "text": HIDDEN}


def test_the_lines_of_a_key_are_hidden_one_by_one() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END KEY-----"
    assert scrubbed(json.dumps([key, "2: MIIEvQIBADANBgkqhkiG"]), key) == [HIDDEN, f"2: {HIDDEN}"]


BROKEN = [
    b'{"a": "\\x s3cr3t/t0ken+value"}',
    b'{"a": "s3cr3t/t0ken+value',
    b'"s3cr3t/t0ken+value\\',
    b'"\xff s3cr3t/t0ken+value"',
    b'"\x00s3cr3t/t0ken+value"',
    b'["\x00s3cr3t/t0ken+value\x00"]',
]


@pytest.mark.parametrize("message", BROKEN)
def test_what_is_no_json_does_not_betray_a_secret_either(message: bytes) -> None:
    assert SECRET.encode() not in ResultScrub((SECRET,)).message(message)


def test_a_variable_with_bytes_that_are_no_text_does_no_harm() -> None:
    secret = "caf\udce9-secret-value"
    assert ResultScrub((secret,)).message(b'["plain"]') == b'["plain"]'
    assert scrubbed(f'["{escaped(secret)}", "{json.dumps(secret)[1:-1]}"]', secret) == [HIDDEN, HIDDEN]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=20)


@given(TEXTS, SECRETS, TEXTS, st.lists(st.booleans(), min_size=45, max_size=45))
def test_whatever_the_spelling_it_is_hidden_and_stays_json(
    before: str, secret: str, after: str, numbers: list[bool]
) -> None:
    text, ascii_only = f"{before}{secret}{after}", numbers.pop()
    written = "".join(
        escaped(char) if by_number else json.dumps(char, ensure_ascii=ascii_only)[1:-1]
        for char, by_number in zip(text, numbers, strict=False)
    )
    (value,) = scrubbed(f'["{written}"]', secret)
    assert secret not in value.replace(HIDDEN, "\0")
    assert HIDDEN in value


@settings(max_examples=30)
@given(
    st.recursive(
        TEXTS | st.integers() | st.booleans() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
    )
)
def test_what_holds_no_secret_means_the_same_afterwards(tree: Any) -> None:
    for ascii_only in (True, False):
        assert scrubbed(json.dumps(tree, ensure_ascii=ascii_only), "no such value anywhere") == tree


def test_five_megabytes_without_a_secret_are_not_taken_apart() -> None:
    message = json.dumps([{"t": "hello w\u00f6rld \n"}] * 200_000).encode()
    assert ResultScrub((SECRET,)).message(message) is message


SHOWN = {
    "\x1b[31mred\x1b[0m": "red",
    "two\nlines": "two\nlines",
    "\x1b]0;title\x07x": "\\x1b]0;title\\x07x",
    "\x1b[2Jgone": "\\x1b[2Jgone",
    "\x1b\x1b[0m[31mx": "\\x1b[31mx",
    "\u202egnp": "\\u202egnp",
    "\x9b31mx": "\\u009b31mx",
    "a\rb": "a\\rb",
}


@pytest.mark.parametrize(("text", "expected"), SHOWN.items())
def test_text_for_people_cannot_act_on_their_terminal(text: str, expected: str) -> None:
    assert without_escapes(text) == expected
