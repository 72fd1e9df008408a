"""Verify JSON Web Tokens, and say which agent a good one names.

Signatures are checked by PyJWT (the extra `byleave[jwt]`), with keys from a file or from the issuer's URL; only keys
with a public half are used, so that a token cannot be signed with what all may read. A token never brings its own key:
of its header only `alg` and `kid` are read, and `kid` is a word to look up, nothing more. A URL is read over https,
or over http on this machine; redirects are not followed, and time and size are limited.

Start at `JwtReader.read`. A token under an unknown key is worth one look at the newest keys: `JwtReader.refresh`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from byleave.core.net_rules import NetRule
from byleave.core.url import BadUrl, parse_url
from byleave.errors import ByleaveError, ConfigError, InputError, RequestError
from byleave.gateway.http_trust import is_loopback_host
from byleave.net.addresses import in_thread
from byleave.net.http_client import HttpClient, HttpRequest
from byleave.text import quoted, shown
from byleave.user_files import read_private

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Settings(Protocol):
        """`[gateway.jwt]`, compiled."""

        @property
        def issuer(self) -> str: ...
        @property
        def audience(self) -> str | tuple[str, ...]: ...
        @property
        def jwks(self) -> str: ...
        @property
        def agent_claim(self) -> str: ...
        @property
        def algorithms(self) -> tuple[str, ...]: ...


_LARGEST = 1 << 20
PATIENCE = 5.0  # seconds


def is_url(source: str) -> bool:
    """Whether keys come from elsewhere; anything else is a file."""
    return "://" in source


def fetch_keys(source: str) -> bytes:
    """Return what `source` holds; a ByleaveError if it cannot be had."""
    if is_url(source):
        return _fetched(source)
    content = read_private(os.path.abspath(source), limit=_LARGEST, links=True)
    if content is None:
        raise ConfigError(f"there is no file {quoted(source)}", hint="name the file that holds the issuer's keys")
    return content


def _fetched(url: str) -> bytes:
    """Return what the issuer serves at the URL: over https, or over http on this machine; no redirect is followed."""
    target = parse_url(url)
    if isinstance(target, BadUrl):
        raise InputError(f"the keys at {quoted(url)} cannot be fetched: {target.problem}", hint="check the URL")
    if target.scheme != "https" and not (target.scheme == "http" and is_loopback_host(target.host)):
        raise ConfigError("keys are fetched over https, or over http on this machine", hint="write https://")
    request = HttpRequest("GET", url, (("Accept", "application/json"),))
    rules = (NetRule(target.host, allow=True, private=True),)  # an issuer may be on the user's own network
    try:
        with HttpClient() as client:
            response = client.fetch(request, rules, limit=_LARGEST, deadline=time.monotonic() + PATIENCE)
    except (RequestError, PermissionError):
        problem = f"the keys at {quoted(url)} cannot be fetched"
        raise InputError(problem, hint="see whether the issuer is up, and what the URL holds") from None
    if response.status != 200:
        raise InputError(
            f"the issuer answered {response.status}", hint="give the URL itself: redirects are not followed"
        )
    return response.body


# Which signatures a key may be used for, by its type and curve; and which of its members are public.
_USES = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
ALGORITHMS = tuple(dict.fromkeys([name for names in _USES.values() for name in names]))
_LEAST_BITS = 2048  # of an RSA key: NIST SP 800-131A
_LEEWAY = 30.0  # seconds by which clocks may differ
_PAUSE = 60.0  # seconds between two looks for new keys
_FRESH = 600.0  # seconds after which keys are looked for again, while the old ones still serve
_MOST_REMEMBERED = 1024
_LONGEST_TOKEN = 1 << 14
_LONGEST_NAME = 256


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class Verified(Struct, frozen=True):
    """A good token: the agent it names, to which principal its sessions belong, and until when it is good."""

    agent: str
    principal: str
    expires: float


class Rejected(Struct, frozen=True):
    """Why a token is not taken: a few words that give nothing away."""

    why: str


class Key(Struct, frozen=True):
    """A public key, and the signatures it is for."""

    kid: str | None
    algorithms: tuple[str, ...]
    key: Any


class JwtReader:
    """Reads tokens of one issuer for one audience. `subjects`: agents by what the claim says, where it is no name."""

    def __init__(
        self, settings: Settings, *, subjects: Mapping[str, str], clock: Callable[[], float] = time.time
    ) -> None:
        self._library = _library()
        self._settings = settings
        self._algorithms = _asymmetric(settings.algorithms)
        self._audience = [settings.audience] if isinstance(settings.audience, str) else list(settings.audience)
        self._subjects = subjects
        self._bound = frozenset(subjects.values())
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._looked = -_PAUSE
        self._looking: asyncio.Task[None] | None = None
        self._remembered: OrderedDict[bytes, Verified] = OrderedDict()

    def is_for(self, settings: Settings, subjects: Mapping[str, str]) -> bool:
        """Whether a reader made of these would be the same, but for the keys that this one has already."""
        return bool(self._keys) and (self._settings, dict(self._subjects)) == (settings, dict(subjects))

    async def open(self) -> None:
        """Get the keys for the first time. A ConfigError if they are in a file that cannot be used."""
        try:
            await self._look()
        except ByleaveError as problem:
            if not is_url(self._settings.jwks):
                raise ConfigError(f"[gateway.jwt] jwks: {problem.problem}", hint=problem.hint) from None

    def read(self, token: str) -> Verified | Rejected | None:
        """Return what a token says; None if its key is not known yet, and `refresh` may help."""
        if len(token) > _LONGEST_TOKEN:
            return Rejected("the token is too long")
        digest = sha256(token.encode()).digest()
        known = self._remembered.get(digest)
        if known is not None and known.expires > self._clock():
            return known
        found = self._read(token)
        if isinstance(found, Verified):
            self._remembered[digest] = found
            if len(self._remembered) > _MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return found

    async def refresh(self) -> None:
        """Look for new keys, unless that was done within the last minute. Many may wait for one look."""
        if self._looking is None:
            if self._clock() < self._looked + _PAUSE:
                return
            self._looking = asyncio.create_task(self._look_quietly())
        await asyncio.shield(self._looking)

    def keep_fresh(self) -> None:
        """Begin to look for new keys where the ones at hand are old; to be called from time to time."""
        if self._looking is None and self._clock() >= self._looked + _FRESH:
            self._looking = asyncio.create_task(self._look_quietly())

    async def _look_quietly(self) -> None:
        try:
            await self._look()
        except ByleaveError:  # the keys at hand stay; a token under another key is rejected
            return
        finally:
            self._looking = None

    async def _look(self) -> None:
        self._looked = self._clock()
        try:
            content = await in_thread(lambda: fetch_keys(self._settings.jwks), PATIENCE)
        except TimeoutError:
            raise InputError("the keys did not come in time", hint="see whether the issuer is up") from None
        self._keys = self._usable(content)
        self._remembered.clear()  # tokens under a key that was withdrawn are rejected

    def _usable(self, content: bytes) -> tuple[Key, ...]:
        try:
            listed = msgspec.json.decode(content, type=_KeySet).keys
            found = [self._key(each) for each in listed]
        except (ValueError, TypeError, RecursionError):
            raise ConfigError(
                f"{quoted(self._settings.jwks)} holds no set of keys",
                hint='it must be JSON: {"keys": [...]} (RFC 7517)',
            ) from None
        return tuple([key for key in found if key is not None])

    def _key(self, each: dict[str, Any]) -> Key | None:
        """Return a key that we can use; None for others, which a set may well hold."""
        kid, use, named = each.get("kid"), each.get("use", "sig"), each.get("alg")
        names = _USES.get((each.get("kty", ""), each.get("crv", "")), ())
        usable = tuple([name for name in names if name in self._algorithms and named in (None, name)])
        if not usable or use != "sig" or not isinstance(kid, str | None):
            return None
        public = {name: each[name] for name in _PUBLIC if isinstance(each.get(name), str)}
        try:
            key = self._library.algorithms.get_default_algorithms()[usable[0]].from_jwk(public)
        except (self._library.InvalidKeyError, ValueError, TypeError):
            return None
        is_short = public["kty"] == "RSA" and key.key_size < _LEAST_BITS
        return None if is_short else Key(kid, usable, key)

    def _read(self, token: str) -> Verified | Rejected | None:
        try:
            header = self._library.get_unverified_header(token)
        except (self._library.PyJWTError, ValueError, TypeError, RecursionError):
            return Rejected("the token is malformed")
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(kid, str | None):
            return Rejected("the token is malformed")
        if algorithm not in self._algorithms or "crit" in header or "b64" in header:
            return Rejected("the token is not signed in a way that is taken here")
        fitting = [key for key in self._keys if algorithm in key.algorithms and kid in (None, key.kid)]
        if len(fitting) != 1:
            return None if kid is not None or not fitting else Rejected("the token does not say which key signed it")
        return self._claims(token, algorithm, fitting[0])

    def _claims(self, token: str, algorithm: str, key: Key) -> Verified | Rejected:
        library = self._library
        try:
            claims = library.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud"]},
            )
        except library.ExpiredSignatureError:
            return Rejected("the token has expired")
        except library.InvalidAudienceError:
            return Rejected("the token is for another audience")
        except (library.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return Rejected("the token is not good")
        return self._who(claims)

    def _who(self, claims: dict[str, Any]) -> Verified | Rejected:
        settings = self._settings
        said, subject, expires = claims.get(settings.agent_claim), claims.get("sub", ""), claims["exp"]
        if not isinstance(said, str) or not is_name(said) or not isinstance(subject, str):
            return Rejected(f"the token has no text as {shown(settings.agent_claim)}")
        agent = self._subjects.get(said)
        if agent is None and said in self._bound:  # the name of an agent that goes by another word
            return Rejected("the token does not speak of an agent")
        principal = f"jwt:{settings.issuer}:{len(subject)}:{subject}:{said}"
        try:
            return Verified(agent or said, principal, float(expires) + _LEEWAY)
        except (TypeError, ValueError, OverflowError):
            return Rejected("the token does not say when it expires")


def is_name(text: str) -> bool:
    """Whether a text can name an agent: not empty, not endless, nothing in it that cannot be seen."""
    return 0 < len(text) <= _LONGEST_NAME and shown(text) == text


def _asymmetric(names: tuple[str, ...]) -> frozenset[str]:
    wrong = [name for name in names if name not in ALGORITHMS]
    if wrong:
        raise ConfigError(
            f"[gateway.jwt] algorithms: {quoted(wrong[0])} is not taken", hint=f"choose from {', '.join(ALGORITHMS)}"
        )
    return frozenset(names or ALGORITHMS)


def _library() -> Any:
    try:
        import jwt
        from jwt.algorithms import has_crypto
    except ImportError:
        has_crypto = False
    if not has_crypto:
        raise ConfigError(
            "[gateway.jwt] is configured, and what checks signatures is not installed",
            hint="install it: pip install 'byleave[jwt]'",
        )
    return jwt
