"""Every issuer whose tokens count. A token is read by the one that it names, with the keys of that one alone.

What a token says of its issuer is not proven when it is used to choose the reader: the reader then checks the signature
with its own keys, and the issuer again. So a token that names another issuer than the one that signed it is good
nowhere, whatever key id it has. Each issuer has its own keys, its own memory and its own pauses: one that is slow, or
that is named in a flood of tokens, keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

from byleave.gateway.jwt_reader import JwtReader
from byleave.gateway.token_claims import LONGEST_TOKEN, MALFORMED, Rejected, take_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from byleave.gateway.jwt_reader import Settings, Verified
    from byleave.gateway.token_claims import AgentRule


class Issuers:
    """The readers of all issuers, by what their tokens say as `iss`."""

    def __init__(self, readers: Sequence[JwtReader] = ()) -> None:
        self._readers = {reader.issuer: reader for reader in readers}

    def __bool__(self) -> bool:
        return bool(self._readers)

    def __iter__(self) -> Iterator[JwtReader]:
        return iter(self._readers.values())

    def renewed(
        self,
        worded: Settings | None,
        listed: Sequence[Settings],
        *,
        subjects: Mapping[str, str],
        rules: Sequence[AgentRule],
        own: Iterable[str] = (),
    ) -> Issuers:
        """Return the issuers of new settings; a reader whose settings are the same stays, with the keys that it has.

        `worded` is the one whose tokens may mean agents by a word of theirs, `subjects`, or name any other. `own` are
        agents with a token of ours, which no token of those that are `listed` can simply name.
        """
        bound = frozenset(subjects.values())
        nothing: Mapping[str, str] = {}
        requested = [(worded, subjects, bound)] if worded is not None else []
        requested += [(each, nothing, bound.union(own)) for each in listed]
        readers: list[JwtReader] = []
        for settings, words, kept_from in requested:
            known = self._readers.get(settings.issuer)
            if known is None or not known.is_for(settings, words, rules, kept_from):
                keys = None if known is None else known.keys_for(settings)
                known = JwtReader(settings, subjects=words, rules=rules, bound=kept_from)
                if keys is not None:
                    known.begin_with(*keys)
            readers.append(known)
        return Issuers(readers)

    async def open(self) -> None:
        """Get the keys of those that are new. A ConfigError if they are in a file that cannot be used."""
        await asyncio.gather(*[reader.begin() for reader in self])

    def read(self, token: str) -> Verified | Rejected | None:
        """Return what a token says; None if its key is not known yet, and `refresh` may help."""
        if len(token) > LONGEST_TOKEN:
            return Rejected("the token is too long")
        digest = sha256(token.encode()).digest()
        for reader in self:
            known = reader.recall(digest)
            if known is not None:
                return known
        parts = take_apart(token)
        if parts is None:
            return MALFORMED
        named = self._named(parts.claims.get("iss"))
        return Rejected("the token is of another issuer") if named is None else named.verify(token, digest, parts)

    async def refresh(self, token: str) -> None:
        """Look for new keys of the issuer that a token names, and of no other."""
        parts = take_apart(token)
        named = None if parts is None else self._named(parts.claims.get("iss"))
        if named is not None:
            await named.refresh()

    def keep_fresh(self) -> None:
        """Begin to look for new keys where the ones at hand are old; to be called from time to time."""
        for reader in self:
            reader.keep_fresh()

    def _named(self, issuer: object) -> JwtReader | None:
        return self._readers.get(issuer) if isinstance(issuer, str) else None
