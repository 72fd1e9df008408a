"""Who is calling over HTTP, and may they?

A bearer token proves it: one of ours, known by its hash, or a JWT. A caller without one is the user of this machine,
and must come from here: through a connection of the user's own, to a name of this machine, from no foreign page, and
through no proxy. Such a caller may claim to be an agent, unless that agent has a way to prove it.

Signatures of JWTs are checked by PyJWT (the extra `byleave[jwt]`), with keys from a file or from the issuer's URL; only
keys with a public half are used, so that a token cannot be signed with what all may read. A token never brings its own
key: of its header only `alg` and `kid` are read, and `kid` is a word to look up, nothing more. A URL is read over
https, or over http on this machine; redirects are not followed, and time and size are limited.

Start at `Identity.who` and `JwtReader.read`. A token under an unknown key is worth one look at the newest keys:
`JwtReader.refresh`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from byleave.core.net_rules import NetRule
from byleave.core.url import BadUrl, parse_url
from byleave.errors import ByleaveError, ConfigError, InputError, RequestError
from byleave.gateway.http_request import AGENT
from byleave.gateway.http_trust import Proxies, is_foreign, is_loopback_host, names_us
from byleave.gateway.interfaces import Caller
from byleave.net.endpoints import in_thread
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

    from collections.abc import Collection

    from byleave.gateway.http_request import RequestHead
    from byleave.net.peers import PeerAddress

    class Connection(Protocol):
        """What is known of the way by which a request came."""

        @property
        def local(self) -> PeerAddress: ...
        @property
        def remote(self) -> PeerAddress: ...
        @property
        def is_ours(self) -> bool: ...


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


USER = "user"
_UNNAMED = Caller(None, "default", USER)
_GLOB = frozenset("*?[")
_ASK = b'WWW-Authenticate: Bearer realm="byleave"\r\n'


# Kinds of refusals, as records and figures name them.
WRONG_TOKEN, NO_TOKEN, ORIGIN, HOST, PROXY, OTHER_USER, AGENT_NAME = (
    *("wrong_token", "no_token", "origin", "host", "proxy", "user", "agent"),
)
_USE_A_TOKEN = "give the agent a token (byleave agents token NAME) and have it sent"  # noqa: S105 -- advice


class RefusedCaller(Struct, frozen=True):
    """Why a request is not taken, with the status and, for 401, the header that says what would help."""

    status: int
    why: str
    kind: str
    fields: bytes = b""


class Identity:
    """Everything by which callers are known. `bound`: agents (or globs) that no caller may merely claim to be."""

    def __init__(
        self,
        *,
        tokens: Mapping[str, tuple[str, ...]],
        bound: Collection[str] = (),
        require: bool = False,
        jwt: JwtReader | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self.jwt = jwt
        self._proxies = Proxies() if proxies is None else proxies
        self._require = require
        self._tokens = _by_digest(tokens)
        self._bound = frozenset([*bound, *[agent for agent, digests in tokens.items() if digests]])
        self._globs = tuple([name for name in self._bound if not _GLOB.isdisjoint(name)])

    @property
    def is_configured(self) -> bool:
        """Whether there is any way to prove who one is."""
        return bool(self._tokens) or self.jwt is not None

    def who(self, head: RequestHead, connection: Connection) -> Caller | RefusedCaller | None:
        """Return who sent a request; None if the keys of a JWT's issuer have to be looked at first."""
        fields = head.fields
        if is_foreign(fields):
            return FOREIGN_PAGE
        authorization = fields.get("authorization")
        if authorization is not None:
            return self._proven(authorization)
        if self._require:
            return _unproven("a token is required", NO_TOKEN)
        stranger = self._stranger(head, connection)
        if stranger is not None:
            kind, why = stranger
            return _unproven(f"without a token, {why}", kind) if self.is_configured else RefusedCaller(403, why, kind)
        return self._claimed(fields.get(AGENT))

    def may_claim(self, agent: str) -> bool:
        """Whether a caller without a token may say that it is this agent."""
        return not self._require and not self.is_bound(agent)

    def is_bound(self, agent: str) -> bool:
        """Whether this agent has a way to prove who it is."""
        return agent in self._bound or any(fnmatchcase(agent, name) for name in self._globs)

    def _proven(self, authorization: str) -> Caller | RefusedCaller | None:
        scheme, _blank, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return _unproven("the Authorization header holds no bearer token", WRONG_TOKEN)
        # What is compared is a hash: how long that takes betrays nothing of any token.
        known = self._tokens.get(sha256(token.encode()).digest())
        if known is not None:
            return known
        if self.jwt is None or token.count(".") != 2:
            return _wrong("the token is unknown")
        found = self.jwt.read(token)
        if isinstance(found, Rejected):
            return _wrong(found.why)
        return None if found is None else Caller(found.agent, "verified", found.principal)

    def _claimed(self, agent: str | None) -> Caller | RefusedCaller:
        if agent is None:
            return _UNNAMED
        if not agent.isascii() or not is_name(agent):
            return RefusedCaller(400, "the X-Byleave-Agent header names no agent", AGENT_NAME)
        if self.is_bound(agent):
            return _unproven(f"the agent {quoted(agent)} has to prove itself by its token", AGENT_NAME)
        return Caller(agent, "claimed", USER)

    def _stranger(self, head: RequestHead, connection: Connection) -> tuple[str, str] | None:
        """Return why a caller without a token is not the user of this machine: the kind of it, and a sentence."""
        if head.passed_on:
            field = shown(head.passed_on)
            said = f"a request must not come through a proxy, and this one has {field} in its head: {_USE_A_TOKEN}"
            return PROXY, said
        local, remote = connection.local, connection.remote
        if self._proxies.has(remote.host):
            return PROXY, f"{remote.host} is only believed as a proxy (trusted_proxies): {_USE_A_TOKEN}"
        if not names_us(head.fields.get("host", ""), local.host, local.port):
            said = f"the Host header must name this machine, and the port of the gateway; else {_USE_A_TOKEN}"
            return HOST, said
        if not connection.is_ours:
            return OTHER_USER, ANOTHER_USER
        return None


FOREIGN_PAGE = RefusedCaller(403, "the request comes from a page of another origin", ORIGIN)
ANOTHER_USER = f"the connection must be one of the user who runs the gateway; else {_USE_A_TOKEN}"

UNKNOWN_KEY = "the token was signed with an unknown key"


def unknown_key() -> RefusedCaller:
    """Return the answer to a token whose key is not among the newest ones either."""
    return _wrong(UNKNOWN_KEY)


def _by_digest(tokens: Mapping[str, tuple[str, ...]]) -> dict[bytes, Caller]:
    found: dict[bytes, Caller] = {}
    for agent, digests in tokens.items():
        for digest in digests:
            key = bytes.fromhex(digest.removeprefix("sha256:"))
            if found.setdefault(key, Caller(agent, "verified", f"token:{agent}")).agent != agent:
                raise ConfigError(
                    f"the agents {quoted(found[key].agent or '')} and {quoted(agent)} have the same token",
                    hint="give each its own: byleave agents token NAME",
                )
    return found


def _unproven(why: str, kind: str) -> RefusedCaller:
    return RefusedCaller(401, why, kind, _ASK)


def _wrong(why: str) -> RefusedCaller:
    said = why.replace("\\", "").replace('"', "").encode("ascii", "replace")
    return RefusedCaller(
        401, why, WRONG_TOKEN, _ASK[:-2] + b', error="invalid_token", error_description="%b"\r\n' % said
    )
