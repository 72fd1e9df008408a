"""What must not be seen is not written: granted values in every spelling, and whatever has the form of a secret."""

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.api import compile_policy
from byleave.core.masking import REDACTED, Mask
from byleave.guard.secrets import mask_for

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
    mask = Mask([SECRET])
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
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest": f"{REDACTED}\nrest",
}


@pytest.mark.parametrize(("text", "masked"), FORMS.items(), ids=FORMS.keys())
def test_what_looks_like_a_secret_is_hidden(text: str, masked: str) -> None:
    assert Mask().touches(text)
    assert Mask().text(text) == masked


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
    assert not Mask().touches(text)
    assert Mask().text(text) == text


def test_a_value_whose_name_says_that_it_is_secret_is_hidden_however_short() -> None:
    tree = {"password": "p", "Api-Key": "k", "tokens": 5, "note": "p", "nested": [{"auth_token": "t"}]}
    assert Mask().tree(tree) == {
        "password": REDACTED,
        "Api-Key": REDACTED,
        "tokens": 5,
        "note": "p",
        "nested": [{"auth_token": REDACTED}],
    }
    assert Mask().touches(json.dumps(tree))


@given(st.text(min_size=4, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_a_masked_tree_holds_the_value_nowhere(secret: str, before: str, after: str) -> None:
    mask = Mask([secret])
    tree = {f"{before}{secret}": [f"{secret}{after}", {"k": secret}], "n": 1}
    text = json.dumps(mask.tree(tree), ensure_ascii=False)
    if secret.lower() not in {"true", "null", "none"} and secret not in REDACTED and len(secret) >= 4:
        assert json.dumps(secret, ensure_ascii=False)[1:-1] not in text.replace(REDACTED, "\0")


def test_short_and_plain_values_hide_nothing() -> None:
    mask = Mask(["1", "abc", "true", "always", ""])
    assert mask.text("abc 1 true always") == "abc 1 true always"


def test_granted_variables_are_masked_and_common_ones_are_not(tmp_path: Path) -> None:
    env = [{"name": "CI_*", "read": True}, {"name": "NPM_AUTH", "substitute": True}, {"name": "HOME", "read": True}]
    policy = compile_policy({"tools": {"t": {"source": "local", "access": {"env": env}}}}, root=str(tmp_path))
    environment = {"CI_JOB": "granted-1", "NPM_AUTH": "granted-2", "HOME": "/home/me", "OTHER": "not-granted"}
    mask = mask_for(policy.compiled.policy, environment)
    text = "granted-1 granted-2 /home/me not-granted"
    assert mask.text(text) == f"{REDACTED} {REDACTED} /home/me not-granted"


def test_a_long_text_takes_no_longer_than_it_has_to() -> None:
    text = "token " * 20_000 + "https://" + "a:" * 20_000
    assert Mask().text(text).startswith("token token")
