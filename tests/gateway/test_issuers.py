"""A token is read by the issuer that it names, with that issuer's own keys; where those are, the issuer itself says."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from byleave.errors import ConfigError, InputError
from byleave.gateway import issuer_keys
from byleave.gateway.issuer_keys import keys_of, metadata_urls
from byleave.gateway.issuers import Issuers
from byleave.gateway.jwt_reader import JwtReader, Verified
from byleave.gateway.token_claims import Rejected
from byleave.policy.gateway_settings import IdentityRule
from fakes.mcp_front import Jwt, run
from fakes.token_issuer import AUDIENCE, TokenIssuer, issuing


def settings(issuer: TokenIssuer, **more: Any) -> Jwt:
    return Jwt(issuer=issuer.issuer, audience=AUDIENCE, **more)


async def opened(*issuers: TokenIssuer, now: list[float] | None = None) -> Issuers:
    clock: dict[str, Any] = {} if now is None else {"clock": lambda: now[0]}
    made = Issuers([JwtReader(settings(each), subjects={}, **clock) for each in issuers])
    for reader in made:
        await reader.open()
    return made


def test_each_issuer_has_its_own_tokens() -> None:
    async def scenario() -> None:
        async with issuing() as one, issuing() as other:
            one.publish()
            other.publish()
            made = await opened(one, other)
            found = [made.read(each.token()) for each in (one, other)]
            assert all(isinstance(each, Verified) for each in found)
            assert len({each.principal for each in found if isinstance(each, Verified)}) == 2

    run(scenario)


MIXED: dict[str, Callable[[TokenIssuer, TokenIssuer], str]] = {
    "one signs as the other": lambda one, other: one.token(iss=other.issuer),
    "one signs as the other under its key id": lambda one, other: one.token({"kid": other.kid}, iss=other.issuer),
    "without a key id": lambda one, other: one.by_hand({"alg": "ES256"}, one.claims(iss=other.issuer)),
    "a slash at the end": lambda one, _other: one.token(iss=f"{one.issuer}/"),
    "other letters": lambda one, _other: one.token(iss=one.issuer.upper()),
    "a list of issuers": lambda one, other: one.by_hand({"alg": "ES256", "kid": "k1"}, one.claims(iss=[other.issuer])),
    "no issuer": lambda one, _other: one.token(iss=None),
    "an issuer that nobody knows": lambda one, _other: one.token(iss="https://evil.example"),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_token_that_names_another_issuer_is_good_nowhere(case: str) -> None:
    async def scenario() -> None:
        async with issuing(kid="same") as one, issuing(kid="same") as other:
            one.publish()
            other.publish()
            made = await opened(one, other)
            assert isinstance(made.read(MIXED[case](one, other)), Rejected)

    run(scenario)


@pytest.mark.parametrize("audience", [["x", AUDIENCE], AUDIENCE])
def test_an_audience_may_be_one_of_several(audience: object) -> None:
    async def scenario() -> None:
        async with issuing() as one:
            one.publish()
            made = await opened(one)
            assert isinstance(made.read(one.token(aud=audience)), Verified)
            for wrong in (f"{AUDIENCE}/", "https://mcp.example.com", [], ["x"], {AUDIENCE: 1}, AUDIENCE.upper()):
                assert isinstance(
                    made.read(one.by_hand({"alg": "ES256", "kid": "k1"}, one.claims(aud=wrong))), Rejected
                )

    run(scenario)


def test_a_flood_of_unknown_keys_asks_each_issuer_once_a_minute() -> None:
    async def scenario() -> None:
        async with issuing() as one, issuing() as other:
            now = [2_000_000_000.0]
            one.publish()
            other.publish()
            made = await opened(one, other, now=now)
            for number in range(20):
                for each in (one, other):
                    await made.refresh(each.token({"kid": f"unknown{number}"}))
            assert [len(each.asked) for each in (one, other)] == [2, 2]  # the metadata and the keys, at the beginning
            now[0] += 61
            await asyncio.gather(*[made.refresh(one.token({"kid": f"unknown{number}"})) for number in range(20)])
            assert [len(each.asked) for each in (one, other)] == [4, 2]
            await made.refresh(one.token(iss="https://evil.example"))
            await made.refresh("no token")

    run(scenario)


def test_an_issuer_that_is_slow_keeps_no_other_waiting() -> None:
    async def scenario() -> None:
        async with issuing() as slow, issuing() as quick:
            slow.slow = asyncio.Event()
            slow.publish()
            quick.publish()
            made = Issuers().renewed(None, [settings(slow), settings(quick)], subjects={}, rules=[])
            async with asyncio.timeout(3):
                await made.open()
                await made.refresh(quick.token())
                assert isinstance(made.read(quick.token()), Verified)
                assert made.read(slow.token()) is None
                slow.slow.set()
                await made.refresh(slow.token())
                assert isinstance(made.read(slow.token()), Verified)

    run(scenario)


def test_a_reload_keeps_the_keys_of_what_stays_the_same() -> None:
    async def scenario() -> None:
        async with issuing() as one, issuing() as other:
            one.publish()
            other.publish()
            made = await opened(one, other)
            rules = [IdentityRule("b", (("x", "y"),), other.issuer)]
            same = made.renewed(None, [settings(one), settings(other)], subjects={}, rules=[])
            assert [*same] == [*made]
            changed = made.renewed(None, [settings(one)], subjects={}, rules=rules)
            assert [*changed] != [*made][:1]
            assert isinstance(changed.read(one.token()), Verified)  # with the keys that were there
            assert isinstance(changed.read(other.token()), Rejected)
            await changed.open()
            moved = made.renewed(None, [settings(one, jwks=f"{one.origin}/moved")], subjects={}, rules=[])
            assert moved.read(one.token()) is None  # keys of one place are not those of another
            assert [len(each.asked) for each in (one, other)] == [2, 2]

    run(scenario)


def test_the_words_of_one_issuer_are_no_words_of_another() -> None:
    async def scenario() -> None:
        async with issuing() as worded, issuing() as listed:
            worded.publish()
            listed.publish()
            made = Issuers().renewed(settings(worded), [settings(listed)], subjects={"robot": "builder"}, rules=[])
            for reader in made:
                await reader.open()
            found = [made.read(each.token(sub="robot")) for each in (worded, listed)]
            assert [each.agent for each in found if isinstance(each, Verified)] == ["builder", "robot"]
            assert isinstance(made.read(listed.token(sub="builder")), Rejected)

    run(scenario)


def test_no_claim_of_a_listed_issuer_names_an_agent_with_a_token_of_ours() -> None:
    async def scenario() -> None:
        async with issuing() as worded, issuing() as listed:
            worded.publish()
            listed.publish()
            made = Issuers().renewed(settings(worded), [settings(listed)], subjects={}, rules=[], own=["admin"])
            for reader in made:
                await reader.open()
            assert isinstance(made.read(listed.token(sub="admin")), Rejected)
            assert isinstance(made.read(listed.token(sub="free")), Verified)
            assert isinstance(made.read(worded.token(sub="admin")), Verified)  # as the older form always did

    run(scenario)


def test_a_page_for_every_path_is_no_metadata() -> None:
    async def scenario() -> None:
        async with issuing() as one:
            one.publish(SECOND)
            one.answers[FIRST] = b"<html>"
            assert json.loads(await asyncio.to_thread(keys_of, settings(one))) == one.keys

    run(scenario)


# ---- Where the keys are --------------------------------------------------------------------------------------------


def test_metadata_is_looked_for_where_clients_look() -> None:
    assert [*metadata_urls("https://id.example.com")] == [
        "https://id.example.com/.well-known/oauth-authorization-server",
        "https://id.example.com/.well-known/openid-configuration",
    ]
    assert [*metadata_urls("https://id.example.com/realms/x/")] == [
        "https://id.example.com/.well-known/oauth-authorization-server/realms/x",
        "https://id.example.com/.well-known/openid-configuration/realms/x",
        "https://id.example.com/realms/x/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", "/.well-known/oauth-authorization-server"),
        ("", "/.well-known/openid-configuration"),
        ("/realms/x", "/.well-known/oauth-authorization-server/realms/x"),
        ("/realms/x", "/.well-known/openid-configuration/realms/x"),
        ("/realms/x", "/realms/x/.well-known/openid-configuration"),
        ("/", "/.well-known/openid-configuration"),
    ],
)
def test_the_keys_are_where_the_metadata_says(path: str, place: str) -> None:
    async def scenario() -> None:
        async with issuing(path) as one:
            one.publish(place)
            assert json.loads(await asyncio.to_thread(keys_of, settings(one))) == one.keys

    run(scenario)


def told(change: Callable[[TokenIssuer], object]) -> str:
    """Return why the keys of an issuer cannot be had, after a change of what it serves."""
    caught: list[str] = []

    async def scenario() -> None:
        async with issuing() as one:
            one.publish()
            change(one)
            with pytest.raises(InputError) as raised:
                await asyncio.to_thread(keys_of, settings(one))
            caught.append(raised.value.problem)

    run(scenario)
    return caught[0]


FIRST, SECOND = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
WRONG: dict[str, tuple[Callable[[TokenIssuer], object], str]] = {
    "another issuer": (lambda one: one.publish(issuer="https://evil.example"), "that of another issuer"),
    "a slash more": (lambda one: one.publish(issuer=f"{one.issuer}/"), "that of another issuer"),
    "no issuer": (
        lambda one: one.answers.update({FIRST: b'{"jwks_uri":"https://e.com/k"}'}),
        "that of another issuer",
    ),
    "no keys": (lambda one: one.answers.update({FIRST: b'{"issuer":"x"}'}), "has no metadata"),
    "no JSON": (lambda one: one.answers.update({FIRST: b"<html>"}), "has no metadata"),
    "a list": (lambda one: one.answers.update({FIRST: b"[]"}), "has no metadata"),
    "keys that are no text": (
        lambda one: one.answers.update({FIRST: json.dumps({"issuer": one.issuer, "jwks_uri": ["x"]}).encode()}),
        "has no metadata",
    ),
    "the issuer twice": (
        lambda one: one.answers.update(
            {FIRST: f'{{"issuer":"x","issuer":"{one.issuer}","jwks_uri":"{one.origin}/keys"}}'.encode()}
        ),
        "has no metadata",
    ),
    "a redirect of the keys": (lambda one: one.answers.update({"/keys": (302, f"{one.origin}/other")}), "answered 302"),
    "a redirect of the metadata": (
        lambda one: one.answers.update({FIRST: (302, f"{one.origin}{SECOND}")}),
        "has no metadata",
    ),
    "nothing at all": (lambda one: one.answers.clear(), "has no metadata"),
    "keys elsewhere on this machine": (
        lambda one: one.publish(jwks_uri=f"http://localhost:{one.issuer.rpartition(':')[2]}/keys"),
        "cannot be fetched",
    ),
    "keys at a private address": (lambda one: one.publish(jwks_uri="https://192.168.1.1/keys"), "cannot be fetched"),
    "keys of the machine itself": (
        lambda one: one.publish(jwks_uri="https://169.254.169.254/latest/meta-data"),
        "cannot be fetched",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_metadata_that_leads_astray_is_not_followed(case: str) -> None:
    change, problem = WRONG[case]
    assert problem in told(change)


@pytest.mark.parametrize("url", ["http://id.example.com/keys", "file:///etc/passwd", "http://127.0.0.1/keys"])
def test_an_issuer_with_tls_has_keys_with_tls(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Response:
        status = 200
        body = json.dumps({"issuer": "https://id.example.com", "jwks_uri": url}).encode()

    def fetched(url: str, *_rest: object) -> Response:
        asked.append(url)
        return Response()

    monkeypatch.setattr(issuer_keys, "_response", fetched)
    with pytest.raises((InputError, ConfigError)):
        keys_of(Jwt(issuer="https://id.example.com"))
    assert asked == [f"https://id.example.com{FIRST}"]
