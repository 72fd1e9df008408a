"""What a token says is read in one way or not at all: its parts, its kind, its scopes, and the agent that it means."""

import json
from typing import Any

import jwt
import pytest

from byleave.gateway.issuer_keys import ALGORITHMS, usable_keys
from byleave.gateway.jwt_reader import JwtReader, Verified
from byleave.gateway.token_claims import Rejected, TokenAgents, scopes_of, take_apart, why_no_access_token
from byleave.policy.gateway_settings import IdentityRule
from fakes.mcp_front import Jwt
from fakes.token_issuer import AUDIENCE, TokenIssuer, part

ISSUER = "https://id.example.com"
MADE = TokenIssuer(ISSUER)


def reader(*rules: IdentityRule, **settings: Any) -> JwtReader:
    made = JwtReader(Jwt(issuer=ISSUER, audience=AUDIENCE, **settings), subjects={}, rules=rules)
    made._keys = usable_keys(json.dumps(MADE.keys).encode(), frozenset(ALGORITHMS), jwt)  # noqa: SLF001 -- as if fetched
    return made


HEADER = {"alg": "ES256", "kid": "k1"}
CLAIMS = MADE.claims(exp=4_000_000_000)
TWICE: dict[str, tuple[object, object]] = {
    "the issuer": (HEADER, b'{"iss":"https://evil.example","iss":"%s"}' % ISSUER.encode()),
    "the algorithm": (b'{"alg":"none","alg":"ES256","kid":"k1"}', CLAIMS),
    "the key id": (b'{"alg":"ES256","kid":"other","kid":"k1"}', CLAIMS),
    "an inner claim": (HEADER, b'{"iss":"x","realm_access":{"roles":["a"],"roles":["b"]}}'),
}


@pytest.mark.parametrize("case", TWICE)
def test_a_member_that_is_given_twice_spoils_the_token(case: str) -> None:
    token = MADE.by_hand(*TWICE[case])
    assert take_apart(token) is None
    assert isinstance(reader().read(token), Rejected)


@pytest.mark.parametrize(
    "token", ["a.b", "..", "a.b.c.d", "e30.e30.", ".e30.x", "e30.e3 0.x", "e30.e30.x\n", "W10.e30.x"]
)
def test_what_is_no_plain_token_is_malformed(token: str) -> None:
    assert take_apart(token) is None


def test_a_token_that_is_too_long_is_not_even_taken_apart() -> None:
    assert take_apart(f"{part(HEADER)}.{part({'x': 'y' * 20_000})}.x") is None
    assert reader().read(MADE.token(x="y" * 20_000)) == Rejected("the token is too long")


@pytest.mark.parametrize("kid", ["../../etc/passwd", "https://evil.example/k1", "k" * 8000, "k1\x00", "K1"])
def test_a_key_id_is_a_word_and_nothing_more(kid: str) -> None:
    assert reader().read(MADE.token({"kid": kid})) is None


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None])
def test_access_tokens_may_call(kind: str | None) -> None:
    header = HEADER if kind is None else {**HEADER, "typ": kind}
    assert isinstance(reader().read(MADE.by_hand(header, CLAIMS)), Verified)


@pytest.mark.parametrize("kind", ["dpop+jwt", "logout+jwt", "secevent+jwt", "", 7, ["at+jwt"]])
def test_tokens_of_other_types_may_not(kind: object) -> None:
    assert reader().read(MADE.by_hand({**HEADER, "typ": kind}, CLAIMS)) == Rejected("the token is not an access token")


OF_OTHER_KINDS: dict[str, dict[str, Any]] = {
    "a hash of an access token": {"at_hash": "x"},
    "a hash of a code": {"c_hash": "x"},
    "what a client asked once": {"nonce": "x"},
    "an ID token of Cognito": {"token_use": "id"},
    "an ID token of Keycloak": {"typ": "ID", "scope": "x"},
    "a refresh token of Keycloak": {"typ": "Refresh", "scope": "x"},
}


@pytest.mark.parametrize("case", OF_OTHER_KINDS)
def test_an_id_token_is_not_for_calling(case: str) -> None:
    claims = {**CLAIMS, **OF_OTHER_KINDS[case]}
    assert isinstance(reader().read(MADE.by_hand({**HEADER, "typ": "JWT"}, claims)), Rejected)
    assert why_no_access_token({"typ": "at+jwt"}, claims) is None  # the issuer says what it is


@pytest.mark.parametrize("kind", [{}, {"typ": "at+jwt"}])
@pytest.mark.parametrize("bound", [{"jkt": "x"}, {"jkt": None}, "jkt", ["jkt"]])
def test_a_token_that_is_bound_to_a_key_is_no_bearer_token(kind: dict[str, str], bound: object) -> None:
    refused = reader().read(MADE.by_hand({**HEADER, **kind}, {**CLAIMS, "cnf": bound}))
    assert isinstance(refused, Rejected)
    assert "bound to a key" in refused.why


@pytest.mark.parametrize("bound", [None, {}, {"x5t#S256": "x"}])
def test_a_token_that_is_bound_to_no_key_of_the_client_is_taken(bound: object) -> None:
    assert isinstance(reader().read(MADE.by_hand(HEADER, {**CLAIMS, "cnf": bound})), Verified)


def test_a_nonce_beside_scopes_is_in_an_access_token() -> None:
    assert isinstance(
        reader().read(MADE.by_hand(HEADER, {**CLAIMS, "nonce": "x", "scope": "a", "typ": "Bearer"})), Verified
    )


SCOPES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "words": ({"scope": "a b  c"}, {"a", "b", "c"}),
    "a list": ({"scope": ["a", "b"]}, {"a", "b"}),
    "of another name": ({"scp": ["a"]}, {"a"}),
    "words of another name": ({"scp": "a b"}, {"a", "b"}),
    "both": ({"scope": "a", "scp": ["b"]}, {"a"}),
    "none": ({}, set()),
    "an empty text": ({"scope": ""}, set()),
    "an object": ({"scope": {"a": True}}, set()),
    "a number": ({"scope": 7, "scp": "a"}, set()),
    "a list with more than words": ({"scope": ["a", 7]}, set()),
    "a tabulator": ({"scope": "a\tb"}, {"a\tb"}),
}


@pytest.mark.parametrize("case", SCOPES)
def test_scopes_are_words(case: str) -> None:
    claims, expected = SCOPES[case]
    assert scopes_of(claims) == expected


MATCHES: dict[str, tuple[str, str | bool, dict[str, Any], bool]] = {
    "a text": ("team", "builders", {"team": "builders"}, True),
    "another text": ("team", "builders", {"team": "builders2"}, False),
    "another case": ("team", "builders", {"team": "Builders"}, False),
    "a list": ("groups", "builders", {"groups": ["x", "builders"]}, True),
    "a list without it": ("groups", "builders", {"groups": ["x"]}, False),
    "a list in a list": ("groups", "builders", {"groups": [["builders"]]}, False),
    "an object with it": ("groups", "builders", {"groups": {"builders": True}}, False),
    "a glob": ("groups", "team-*", {"groups": ["team-7"]}, True),
    "a glob in the claim is a text": ("groups", "builders", {"groups": ["*"]}, False),
    "a claim cannot widen a glob": ("groups", "team-[ab]", {"groups": ["team-[ab]"]}, False),
    "a path": ("realm_access.roles", "admin", {"realm_access": {"roles": ["admin"]}}, True),
    "a name with dots": ("https://x.example/groups", "b", {"https://x.example/groups": "b"}, True),
    "a name with dots inside": (
        "resource_access.mcp.example.roles",
        "b",
        {"resource_access": {"mcp.example": {"roles": "b"}}},
        True,
    ),
    "a path through a text": ("a.b", "c", {"a": "b"}, False),
    "a path through a list": ("a.b", "c", {"a": [{"b": "c"}]}, False),
    "true": ("email_verified", True, {"email_verified": True}, True),
    "the word true": ("email_verified", True, {"email_verified": "true"}, False),
    "one for true": ("email_verified", True, {"email_verified": 1}, False),
    "a number for a text": ("org", "7", {"org": 7}, False),
    "none": ("org", "7", {}, False),
}


@pytest.mark.parametrize("case", MATCHES)
def test_a_claim_matches_by_what_it_is(case: str) -> None:
    path, expected, claims, holds = MATCHES[case]
    agents = TokenAgents(ISSUER, None, subjects={}, rules=[IdentityRule("builder", ((path, expected),))])
    assert (agents.agent_of(claims) == "builder") is holds


def test_a_path_that_can_be_read_in_two_ways_refuses_the_token() -> None:
    rules = [IdentityRule("guest", (("a.b", "x"),)), IdentityRule("admin", (("c", "y"),))]
    agents = TokenAgents(ISSUER, None, subjects={}, rules=rules)
    found = agents.agent_of({"a": {"b": "x"}, "a.b": "z", "c": "y"})
    assert found == Rejected("the token can be read in two ways")  # else it would not be the guest, but the admin


def test_all_members_of_a_match_must_hold_and_the_first_match_counts() -> None:
    rules = [
        IdentityRule("both", (("groups", "a"), ("groups", "b"))),
        IdentityRule("first", (("groups", "a"),)),
        IdentityRule("second", (("groups", "*"),)),
    ]
    agents = TokenAgents(ISSUER, None, subjects={}, rules=rules)
    assert [agents.agent_of({"groups": groups}) for groups in (["a", "b"], ["a"], ["c"])] == ["both", "first", "second"]


def test_a_rule_for_another_issuer_matches_nothing() -> None:
    rules = [IdentityRule("builder", (("groups", "b"),), "https://other.example")]
    assert isinstance(TokenAgents(ISSUER, None, subjects={}, rules=rules).agent_of({"groups": "b"}), Rejected)


def test_no_claim_can_name_an_agent_that_rules_mean() -> None:
    rules = [IdentityRule("builder", (("groups", "b"),), "https://other.example")]
    agents = TokenAgents(ISSUER, "sub", subjects={}, rules=rules)
    assert isinstance(agents.agent_of({"sub": "builder"}), Rejected)
    assert agents.agent_of({"sub": "free"}) == "free"


def test_without_a_rule_or_a_claim_there_is_no_agent() -> None:
    made = reader(IdentityRule("builder", (("groups", "b"),)), agent_claim=None)
    assert made.read(MADE.token()) == Rejected("the token does not speak of an agent")
    assert isinstance(made.read(MADE.token(groups=["b"])), Verified)


@pytest.mark.parametrize("expires", ["2000000000", True, [2_000_000_000], None, {}])
def test_an_end_that_is_no_number_is_none(expires: object) -> None:
    assert isinstance(reader().read(MADE.by_hand(HEADER, {**CLAIMS, "exp": expires})), Rejected)


def test_sessions_of_one_agent_have_different_owners() -> None:
    made = reader(IdentityRule("builder", (("groups", "b"),)), agent_claim=None)
    found = [made.read(MADE.token(groups=["b"], sub=sub)) for sub in ("a", "b", "a:1", "1:a")]
    assert len({each.principal for each in found if isinstance(each, Verified)}) == 4
    assert made.read(MADE.token(groups=["b"], sub=None)) == Rejected("the token has no text as sub")


def test_owners_of_two_issuers_cannot_be_written_alike() -> None:
    one, other = TokenIssuer("https://x"), TokenIssuer("https://x:1:a")
    names = []
    for made, sub in ((one, "a"), (other, "a")):
        agents = JwtReader(Jwt(issuer=made.issuer, audience=AUDIENCE), subjects={})
        found = agents._who(made.claims(sub=sub))  # noqa: SLF001
        names.append(found.principal if isinstance(found, Verified) else "")
    assert len(set(names)) == 2
