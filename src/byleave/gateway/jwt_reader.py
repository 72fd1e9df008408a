"""Read the JSON Web Tokens of one issuer: who signed them, for whom, until when, and what they say.

Signatures are checked by PyJWT (the extra `byleave[jwt]`), with the keys of this issuer and of no other. A token never
brings its own key: of its header only `typ`, `alg` and `kid` are read, and `kid` is a word to look up, nothing more.

Start at `JwtReader.read`. A token under an unknown key is worth one look at the newest keys: `JwtReader.refresh`. Where
the keys come from: `issuer_keys`. Several issuers: `issuers`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from byleave.errors import ByleaveError, ConfigError, InputError
from byleave.gateway import issuer_keys
from byleave.gateway.issuer_keys import ALGORITHMS, Key, is_url, usable_keys
from byleave.gateway.token_claims import (
    LONGEST_TOKEN,
    MALFORMED,
    Rejected,
    TokenAgents,
    UnprovenToken,
    scopes_of,
    take_apart,
    why_no_access_token,
)
from byleave.net.endpoints import in_thread
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from byleave.gateway.token_claims import AgentRule

    class Settings(Protocol):
        """`[gateway.jwt]`, or one of `[[gateway.issuers]]`, compiled."""

        @property
        def issuer(self) -> str: ...
        @property
        def audience(self) -> str | tuple[str, ...]: ...
        @property
        def jwks(self) -> str: ...
        @property
        def agent_claim(self) -> str | None: ...
        @property
        def algorithms(self) -> tuple[str, ...]: ...


_LEEWAY = 30.0  # seconds by which clocks may differ
_PAUSE = 60.0  # seconds between two looks for new keys
_FRESH = 600.0  # seconds after which keys are looked for again, while the old ones still serve
_MOST_REMEMBERED = 1024
_NO_SCOPES: frozenset[str] = frozenset()


class Verified(Struct, frozen=True):
    """A good token: the agent it means, to which principal its sessions belong, until when it is good, its scopes."""

    agent: str
    principal: str
    expires: float
    scopes: frozenset[str] = _NO_SCOPES


class JwtReader:
    """Reads tokens of one issuer for one audience.

    `subjects`: agents by what the claim says, where it is no name. `rules`: agents by other claims. `bound`: agents
    that rules or words for other issuers mean, so that no token of this one can simply name them.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        subjects: Mapping[str, str],
        rules: Sequence[AgentRule] = (),
        bound: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._library = _library()
        self._settings = settings
        self._made_of = (settings, dict(subjects), tuple(rules), bound)
        self._algorithms = _asymmetric(settings.algorithms)
        self._audience = [settings.audience] if isinstance(settings.audience, str) else list(settings.audience)
        self._agents = TokenAgents(settings.issuer, settings.agent_claim, subjects=subjects, rules=rules, bound=bound)
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._looked = -_PAUSE
        self._looking: asyncio.Task[None] | None = None
        self._remembered: OrderedDict[bytes, Verified] = OrderedDict()

    @property
    def issuer(self) -> str:
        return self._settings.issuer

    def is_for(
        self, settings: Settings, subjects: Mapping[str, str], rules: Sequence[AgentRule], bound: object
    ) -> bool:
        """Whether a reader made of these would be the same, but for the keys that this one has already."""
        return bool(self._keys) and self._made_of == (settings, dict(subjects), tuple(rules), bound)

    def keys_for(self, settings: Settings) -> tuple[tuple[Key, ...], float] | None:
        """Return the keys and when they were looked for, if other settings have them from the same place."""
        mine = self._settings
        same = (mine.issuer, mine.jwks, mine.algorithms) == (settings.issuer, settings.jwks, settings.algorithms)
        return (self._keys, self._looked) if same and self._keys else None

    def begin_with(self, keys: tuple[Key, ...], looked: float) -> None:
        """Use the keys of a reader that was there before, as old as they are: no token has to wait for new ones."""
        self._keys, self._looked = keys, looked

    async def open(self) -> None:
        """Get the keys for the first time. A ConfigError if they are in a file that cannot be used."""
        try:
            await self._look()
        except ByleaveError as problem:
            if not is_url(self._settings.jwks):
                whose = f"the keys of the issuer {quoted(self.issuer)}"
                raise ConfigError(f"{whose}: {problem.problem}", hint=problem.hint) from None

    async def begin(self) -> None:
        """Do as `open`, once; where the keys come from elsewhere only begin: a slow issuer keeps no client waiting."""
        if self._looking is not None or self._looked >= 0:
            return
        if is_url(self._settings.jwks):
            self._looking = asyncio.create_task(self._look_quietly())
        else:
            await self.open()

    def read(self, token: str) -> Verified | Rejected | None:
        """Return what a token says; None if its key is not known yet, and `refresh` may help."""
        if len(token) > LONGEST_TOKEN:
            return Rejected("the token is too long")
        digest = sha256(token.encode()).digest()
        known = self.recall(digest)
        if known is not None:
            return known
        parts = take_apart(token)
        return MALFORMED if parts is None else self.verify(token, digest, parts)

    def recall(self, digest: bytes) -> Verified | None:
        """Return what was found of a token before, by its SHA-256, if it has not expired since."""
        known = self._remembered.get(digest)
        return known if known is not None and known.expires > self._clock() else None

    def verify(self, token: str, digest: bytes, parts: UnprovenToken) -> Verified | Rejected | None:
        """Do as `read`, with a token that was taken apart."""
        found = self._read(token, parts)
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
            content = await in_thread(lambda: issuer_keys.keys_of(self._settings), issuer_keys.PATIENCE)
        except TimeoutError:
            raise InputError("the keys did not come in time", hint="see whether the issuer is up") from None
        try:
            self._keys = usable_keys(content, self._algorithms, self._library)
        except (ValueError, TypeError, RecursionError):
            raise ConfigError(
                f"{quoted(self._settings.jwks or self.issuer)} holds no set of keys",
                hint='it must be JSON: {"keys": [...]} (RFC 7517)',
            ) from None
        self._remembered.clear()  # tokens under a key that was withdrawn are rejected

    def _read(self, token: str, parts: UnprovenToken) -> Verified | Rejected | None:
        header = parts.header
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(kid, str | None):
            return MALFORMED
        if algorithm not in self._algorithms or "crit" in header or "b64" in header:
            return Rejected("the token is not signed in a way that is taken here")
        fitting = [key for key in self._keys if algorithm in key.algorithms and kid in (None, key.kid)]
        if len(fitting) != 1:
            return None if kid is not None or not fitting else Rejected("the token does not say which key signed it")
        return self._claims(token, algorithm, fitting[0], header)

    def _claims(self, token: str, algorithm: str, key: Key, header: Mapping[str, Any]) -> Verified | Rejected:
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
        why = why_no_access_token(header, claims)
        return self._who(claims) if why is None else Rejected(why)

    def _who(self, claims: dict[str, Any]) -> Verified | Rejected:
        subject = claims.get("sub", "")
        agent = self._agents.agent_of(claims)
        if isinstance(agent, Rejected):
            return agent
        said = self._agents.said(claims)
        if not isinstance(subject, str) or not (subject or said):  # else all such tokens would own the same sessions
            return Rejected("the token has no text as sub")
        owner = [f"{len(each)}:{each}" for each in (self.issuer, subject, said)]  # no two can be written alike
        principal = f"jwt:{':'.join(owner)}:{agent}"
        expires = claims["exp"]
        if type(expires) not in (int, float):  # the library takes a text for a number, too
            return Rejected("the token does not say when it expires")
        try:
            return Verified(agent, principal, float(expires) + _LEEWAY, scopes_of(claims))
        except OverflowError:
            return Rejected("the token does not say when it expires")


def _asymmetric(names: tuple[str, ...]) -> frozenset[str]:
    wrong = [name for name in names if name not in ALGORITHMS]
    if wrong:
        raise ConfigError(
            f"{quoted(wrong[0])} is no signature that is taken here", hint=f"choose from {', '.join(ALGORITHMS)}"
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
            "an issuer of tokens is configured, and what checks signatures is not installed",
            hint="install it: pip install 'byleave[jwt]'",
        )
    return jwt
