"""A JSON Web Token is good if the issuer signed it, for us, and it has not expired; whatever it says of itself."""

import asyncio
import base64
import builtins
import hmac
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt as library
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from byleave.errors import ConfigError, StateError
from byleave.gateway import issuer_keys
from byleave.gateway.issuer_keys import fetch_keys
from byleave.gateway.jwt_reader import JwtReader, Verified
from byleave.gateway.token_claims import Rejected
from fakes.mcp_front import Jwt, Settings, run, scene

NOW = 2_000_000_000
ISSUER = "https://id.example.com"
CLAIMS = {"iss": ISSUER, "aud": "byleave", "exp": NOW + 60, "sub": "backend"}
CALL = b'{"jsonrpc":"2.0","id":5,"method":"echo"}'

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SHORT = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 -- refused
SIGNERS: dict[str, tuple[Any, str]] = {
    "k1": (KEY, "ES256"),
    "k2": (EDWARDS, "EdDSA"),
    "k3": (RSA, "RS256"),
}


def public(kid: str | None, key: Any, algorithm: str, **more: object) -> dict[str, Any]:
    made = library.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**made, **({} if kid is None else {"kid": kid}), **more}


def key_set(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": list(keys) or [public(kid, *each) for kid, each in SIGNERS.items()]})


def signed(
    claims: dict[str, Any] | None = None, *, key: Any = KEY, algorithm: str = "ES256", kid: object = "k1", **header: Any
) -> str:
    named = {} if kid is None else {"kid": kid}
    return library.encode(CLAIMS if claims is None else claims, key, algorithm=algorithm, headers={**named, **header})


def by_hand(header: dict[str, Any], claims: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """Return a token that no library would make."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims)]
    signature = base64.urlsafe_b64encode(sign(b".".join(parts))).rstrip(b"=")
    return b".".join([*parts, signature]).decode()


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library's clock stand still, too."""

    class Clock(library.api_jwt.datetime):  # type: ignore[name-defined,misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(NOW, tz)

    monkeypatch.setattr(library.api_jwt, "datetime", Clock)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    written = tmp_path / "keys.json"
    written.write_text(key_set())
    written.chmod(0o600)
    return written


def reader(keys: Path, *, subjects: dict[str, str] | None = None, **settings: Any) -> JwtReader:
    made = JwtReader(Jwt(jwks=str(keys), **settings), subjects=subjects or {}, clock=lambda: NOW)
    asyncio.run(made.open())
    return made


@pytest.mark.parametrize("kid", SIGNERS)
def test_a_good_token_says_who_is_calling(keys: Path, kid: str) -> None:
    key, algorithm = SIGNERS[kid]
    found = reader(keys).read(signed(key=key, algorithm=algorithm, kid=kid))
    assert found == Verified("backend", f"jwt:22:{ISSUER}:7:backend:7:backend:backend", NOW + 90.0)


def without(name: str) -> dict[str, Any]:
    return {claim: value for claim, value in CLAIMS.items() if claim != name}


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {**CLAIMS, "exp": NOW - 31},
    "expired long ago": {**CLAIMS, "exp": 1},
    "of no end": without("exp"),
    "an end that is no number": {**CLAIMS, "exp": "never"},
    "an endless end": {**CLAIMS, "exp": 1e400},
    "for another audience": {**CLAIMS, "aud": "other"},
    "for other audiences": {**CLAIMS, "aud": ["other", "third"]},
    "for a longer audience": {**CLAIMS, "aud": "byleave.evil.example"},
    "for nobody": without("aud"),
    "an audience that is no text": {**CLAIMS, "aud": {"byleave": 1}},
    "of another issuer": {**CLAIMS, "iss": "https://evil.example"},
    "of no issuer": without("iss"),
    "of several issuers": {**CLAIMS, "iss": [ISSUER]},
    "not yet good": {**CLAIMS, "nbf": NOW + 600},
    "of no agent": without("sub"),
    "an agent that is no text": {**CLAIMS, "sub": 7},
    "an agent without a name": {**CLAIMS, "sub": ""},
    "an agent with a hidden name": {**CLAIMS, "sub": "back\u202eend"},
    "an agent with lines": {**CLAIMS, "sub": "a\nb"},
}


@pytest.mark.parametrize("case", WRONG_CLAIMS)
def test_a_token_with_wrong_claims_is_not_taken(keys: Path, case: str) -> None:
    claims = WRONG_CLAIMS[case]
    token = by_hand({"alg": "EdDSA", "kid": "k2"}, claims, EDWARDS.sign)
    assert isinstance(reader(keys).read(token), Rejected)


def test_the_token_made_by_hand_would_be_good_with_right_claims(keys: Path) -> None:
    assert isinstance(reader(keys).read(by_hand({"alg": "EdDSA", "kid": "k2"}, CLAIMS, EDWARDS.sign)), Verified)


PEM = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
NUMBERS = public("k3", RSA, "RS256")["n"].encode()
FORGED = {
    "no signature": by_hand({"alg": "none"}, CLAIMS, lambda _data: b""),
    "no signature in other letters": by_hand({"alg": "nOnE", "kid": "k3"}, CLAIMS, lambda _data: b""),
    "signed with the public key": by_hand(
        {"alg": "HS256", "kid": "k3"}, CLAIMS, lambda data: hmac.digest(PEM, data, "sha256")
    ),
    "signed with the key's number": by_hand(
        {"alg": "HS256", "kid": "k3"}, CLAIMS, lambda data: hmac.digest(NUMBERS, data, "sha256")
    ),
    "signed with another key": signed(key=OTHER),
    "brings its own key": signed(key=OTHER, jwk=public("k1", OTHER, "ES256")),
    "tells where its key is": signed(key=OTHER, jku="https://evil.example/keys"),
    "a key for another algorithm": signed(key=EDWARDS, algorithm="EdDSA", kid="k3"),
    "critical things we do not know": signed(crit=["x"], x=1),
    "a critical list that is none": signed(crit=None),
    "two parts": "a.b",
    "three empty parts": "..",
    "no base64": "!.!.!",
    "no object": base64.urlsafe_b64encode(b"[]").decode() + ".e30.x",
    "endless": "a" * 20_000 + ".b.c",
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_token_is_not_taken(keys: Path, case: str) -> None:
    assert not isinstance(reader(keys).read(FORGED[case]), Verified)


def test_a_signature_is_for_its_own_claims(keys: Path) -> None:
    head, _claims, signature = signed().split(".")
    claims = base64.urlsafe_b64encode(json.dumps({**CLAIMS, "sub": "admin"}).encode()).rstrip(b"=").decode()
    assert isinstance(reader(keys).read(f"{head}.{claims}.{signature}"), Rejected)


@pytest.mark.parametrize("kid", ["../../etc/passwd", "/dev/null", "k1\0", "k1' OR 1=1", "", "https://evil.example/k1"])
def test_a_key_id_is_only_a_word_to_look_up(keys: Path, kid: str) -> None:
    assert reader(keys).read(signed(kid=kid)) is None


@pytest.mark.parametrize("kid", [7, None, ["k1"], {"k1": 1}])
def test_a_key_id_that_is_no_text_finds_nothing(keys: Path, kid: object) -> None:
    token = by_hand({"alg": "ES256", "kid": kid}, CLAIMS, lambda _data: b"x" * 64)
    assert not isinstance(reader(keys).read(token), Verified)


def test_without_a_key_id_there_must_be_one_key_that_fits(keys: Path) -> None:
    keys.write_text(key_set(public("a", KEY, "ES256"), public("b", EDWARDS, "EdDSA")))
    assert isinstance(reader(keys).read(signed(kid=None)), Verified)
    keys.write_text(key_set(public("a", KEY, "ES256"), public("b", OTHER, "ES256")))
    assert isinstance(reader(keys).read(signed(kid=None)), Rejected)


def test_keys_that_cannot_be_relied_on_are_not_used(keys: Path) -> None:
    secret = {"kty": "oct", "kid": "s", "k": base64.urlsafe_b64encode(b"x" * 32).decode(), "alg": "HS256"}
    keys.write_text(
        key_set(
            secret,
            public("short", SHORT, "RS256"),
            public("k1", KEY, "ES256", use="enc"),
            public("k3", RSA, "RS256", alg="PS256"),
            {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "AA", "y": "AA"},
        )
    )
    made = reader(keys)
    symmetric = by_hand({"alg": "HS256", "kid": "s"}, CLAIMS, lambda data: hmac.digest(b"x" * 32, data, "sha256"))
    assert isinstance(made.read(symmetric), Rejected)
    assert made.read(signed()) is None
    assert made.read(signed(key=RSA, algorithm="RS256", kid="k3")) is None
    assert isinstance(made.read(signed(key=RSA, algorithm="PS256", kid="k3")), Verified)
    short = by_hand({"alg": "RS256", "kid": "short"}, CLAIMS, lambda _data: b"x")
    assert made.read(short) is None


@pytest.mark.parametrize("odd", [{"kty": ["EC"]}, {"kty": "EC", "crv": {}}, {"kty": None}, {}, {"kty": 1, "crv": []}])
def test_an_odd_key_keeps_nobody_from_the_good_ones(keys: Path, odd: dict[str, Any]) -> None:
    keys.write_text(key_set({**odd, "kid": "odd"}, public("a", KEY, "ES256")))
    assert isinstance(reader(keys).read(signed(kid="a")), Verified)


def test_only_the_algorithms_that_are_configured_are_taken(keys: Path) -> None:
    made = reader(keys, algorithms=("EdDSA",))
    assert isinstance(made.read(signed()), Rejected)
    assert isinstance(made.read(signed(key=EDWARDS, algorithm="EdDSA", kid="k2")), Verified)
    with pytest.raises(ConfigError, match="HS256"):
        reader(keys, algorithms=("HS256",))


def test_a_claim_may_mean_an_agent_by_another_word(keys: Path) -> None:
    made = reader(keys, agent_claim="email", subjects={"robot@example.com": "builder"})
    found = made.read(signed({**CLAIMS, "email": "robot@example.com"}))
    assert isinstance(found, Verified)
    assert found.agent == "builder"
    assert isinstance(made.read(signed({**CLAIMS, "email": "builder"})), Rejected)


def test_two_agents_of_one_subject_share_no_session(keys: Path) -> None:
    made = reader(keys, agent_claim="agent")
    found = [made.read(signed({**CLAIMS, "agent": agent})) for agent in ("a", "b")]
    assert len({each.principal for each in found if isinstance(each, Verified)}) == 2


def test_a_remembered_token_expires_all_the_same(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [float(NOW)]
    made = JwtReader(Jwt(jwks=str(keys)), subjects={}, clock=lambda: now[0])
    asyncio.run(made.open())
    token = signed()
    assert isinstance(made.read(token), Verified)
    monkeypatch.setattr(library, "decode", _expired)
    assert isinstance(made.read(token), Verified)  # the library was not asked again
    now[0] = NOW + 91
    assert made.read(token) == Rejected("the token has expired")


def _expired(*_token: object, **_options: object) -> None:
    raise library.ExpiredSignatureError


def test_the_package_for_signatures_is_asked_for_by_name(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "jwt" or name.startswith("jwt."):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError) as caught:
        JwtReader(Jwt(jwks=str(keys)), subjects={})
    assert "byleave[jwt]" in caught.value.hint


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"keys": 1}', '{"keys": ["x"]}', "{" * 100_000])
def test_a_file_without_keys_is_a_config_error(keys: Path, content: str) -> None:
    keys.write_text(content)
    with pytest.raises(ConfigError):
        reader(keys)


def test_a_file_that_is_missing_or_that_others_can_write_is_refused(keys: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        reader(keys.with_name("none.json"))
    keys.chmod(0o666)
    with pytest.raises(StateError, match="written by others"):
        fetch_keys(str(keys))


class Issuer:
    """Serves keys over http, and counts how often they are asked for."""

    def __init__(self) -> None:
        self.reply = b""
        self.asked = 0
        self.port = 0

    def serve(self, content: str, status: str = "200 OK", fields: str = "") -> None:
        head = f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(content)}\r\n\r\n"
        self.reply = head.encode() + content.encode()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        writer.write(self.reply)
        writer.close()


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    server = await asyncio.start_server(issuer.answer, "127.0.0.1", 0)
    issuer.port = server.sockets[0].getsockname()[1]
    async with server:
        yield issuer


def test_a_new_key_is_looked_for_once_a_minute_at_most() -> None:
    async def scenario() -> None:
        async with issuing() as issuer:
            now = [float(NOW)]
            issuer.serve(key_set(public("old", OTHER, "ES256")))
            settings = Jwt(jwks=f"http://127.0.0.1:{issuer.port}/keys")
            made = JwtReader(settings, subjects={}, clock=lambda: now[0])
            await made.open()
            issuer.serve(key_set())
            token = signed({**CLAIMS, "exp": NOW + 9999})
            assert made.read(token) is None
            await made.refresh()
            assert (made.read(token), issuer.asked) == (None, 1)
            now[0] += 61
            await asyncio.gather(*[made.refresh() for _ in range(10)])
            assert issuer.asked == 2
            assert isinstance(made.read(token), Verified)
            now[0] += 61
            issuer.serve("gone", "500 Internal Server Error")
            await made.refresh()
            assert (isinstance(made.read(token), Verified), issuer.asked) == (True, 3)  # the keys at hand stay
            now[0] += 601
            issuer.serve(key_set(public("old", OTHER, "ES256")))
            made.keep_fresh()
            await made.refresh()
            assert (made.read(token), issuer.asked) == (None, 4)  # a key that was withdrawn vouches for nobody

    run(scenario)


@pytest.mark.parametrize("url", ["http://192.0.2.1/keys", "ftp://127.0.0.1/keys", "http://localhost.example/keys"])
def test_keys_come_over_https_or_from_this_machine(url: str) -> None:
    with pytest.raises(ConfigError, match="https"):
        fetch_keys(url)


def test_a_url_that_leads_elsewhere_is_not_followed() -> None:
    async def scenario() -> None:
        async with issuing() as issuer:
            issuer.serve("", "302 Found", f"Location: http://127.0.0.1:{issuer.port}/other\r\n")
            made = JwtReader(Jwt(jwks=f"http://127.0.0.1:{issuer.port}/keys"), subjects={}, clock=lambda: NOW)
            await made.open()
            assert (made.read(signed()), issuer.asked) == (None, 1)

    run(scenario)


def test_a_token_opens_the_door_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: float(NOW))

    async def scenario() -> None:
        async with issuing() as issuer:
            issuer.serve(key_set())
            jwt = Jwt(jwks=f"http://127.0.0.1:{issuer.port}/keys")
            async with scene(settings=Settings(jwt=jwt), subjects={"robot": "builder"}) as opened:
                client = await opened.client()
                fields = {"mcp_protocol_version": "2026-07-28"}
                good = await client.post(CALL, **fields, authorization=f"Bearer {signed()}")
                assert good.tree["result"]["who"][:2] == ["backend", "verified"]
                refused = {
                    "expired": signed({**CLAIMS, "exp": NOW - 100}),
                    "another audience": signed({**CLAIMS, "aud": "x"}),
                    "unknown key": signed(kid="unknown"),
                }
                for word, token in refused.items():
                    bad = await client.post(CALL, **fields, authorization=f"Bearer {token}")
                    assert bad.status == 401
                    assert bad.fields["www-authenticate"].startswith('Bearer realm="byleave", error="invalid_token"')
                    assert word in bad.fields["www-authenticate"]
                claimed = await client.post(CALL, **fields, x_byleave_agent="builder")
                assert claimed.status == 401

    run(scenario)


@pytest.mark.parametrize(
    "header", [{"alg": ["ES256"], "kid": "k1"}, {"alg": {}, "kid": "k1"}, {"alg": "ES256", "kid": []}]
)
def test_a_header_of_odd_types_is_refused_like_any_other(keys: Path, header: dict[str, Any]) -> None:
    made = reader(keys)
    assert isinstance(made.read(by_hand(header, CLAIMS, lambda _text: b"x")), Rejected)
    assert isinstance(made.read(signed({**CLAIMS, "exp": 10**400})), Rejected)


def test_keys_that_never_come_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(issuer_keys, "PATIENCE", 0.1)
    monkeypatch.setattr(issuer_keys, "fetch_keys", lambda _source: over.wait(30))

    async def scenario() -> None:
        made = JwtReader(Jwt(jwks="https://id.example.com/keys"), subjects={}, clock=lambda: NOW)
        async with asyncio.timeout(3):
            await made.open()  # the issuer may be up again later
        assert made.read(signed()) is None

    run(scenario)
    over.set()
