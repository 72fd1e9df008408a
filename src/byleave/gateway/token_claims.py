"""What a JSON Web Token says: its parts, whether it is an access token, its scopes, and which agent it means. Pure.

A token is read as strictly as a message: a member that is given twice, or a text that is no plain base64, has more than
one reading, so the token is refused. A claim that is not of the type that it must be says nothing.

`take_apart` proves nothing: it is good for choosing the issuer whose keys have to prove the rest.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from byleave.core.patterns import name_matches
from byleave.protocol.json_fast import FAST
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Protocol

    ClaimValue = str | bool

    class AgentRule(Protocol):
        """One of `[[gateway.identities]]`, compiled."""

        @property
        def agent(self) -> str: ...
        @property
        def match(self) -> tuple[tuple[str, ClaimValue], ...]: ...
        @property
        def issuer(self) -> str | None: ...


LONGEST_TOKEN = 1 << 14
_LONGEST_NAME = 256
_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})  # RFC 9068, section 2.1
_ACCESS = frozenset({"at+jwt", "application/at+jwt"})
_OF_ID_TOKENS = ("at_hash", "c_hash", "s_hash")  # OpenID Connect: claims about what came along with an ID token
_OTHER_KINDS = {"token_use": frozenset({"id"}), "typ": frozenset({"id", "refresh", "offline", "logout"})}


class Rejected(Struct, frozen=True):
    """Why a token is not taken: a few words that give nothing away."""

    why: str


MALFORMED = Rejected("the token is malformed")


class UnprovenToken(Struct, frozen=True):
    """The two readable parts of a token, which nothing vouches for yet."""

    header: dict[str, Any]
    claims: dict[str, Any]


def take_apart(token: str) -> UnprovenToken | None:
    """Return what a token says; None if it is malformed, or could be read in two ways."""
    found = _PARTS.fullmatch(token) if len(token) <= LONGEST_TOKEN else None
    if found is None:
        return None
    try:
        header, claims = (FAST.decode(_decoded(part)) for part in found.groups()[:2])
    except (ValueError, RecursionError):
        return None
    return UnprovenToken(header, claims) if type(header) is dict and type(claims) is dict else None


def _decoded(part: str) -> bytes:
    try:
        content = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise ValueError("this is no base64") from None
    content.decode()  # msgspec looks at texts only
    return content


def why_no_access_token(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str | None:
    """Return why a token is not one to call with: an ID token is for a client, about its user, and opens nothing.

    What an issuer marks as an access token is one. Else the marks of the other kinds count. `nonce` alone is none where
    there are scopes: some issuers put it into both, but ID tokens have no scopes.
    """
    kind, bound = header.get("typ", "jwt"), claims.get("cnf")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        return "the token is not an access token"
    if bound is not None and (
        not isinstance(bound, dict) or "jkt" in bound
    ):  # RFC 9449: as a bearer token it is stolen
        return "the token is bound to a key of its client (DPoP), and came without a proof of that"
    if kind.lower() in _ACCESS:
        return None
    marked = any(name in claims for name in _OF_ID_TOKENS) or any(
        isinstance(claims.get(name), str) and claims[name].lower() in kinds for name, kinds in _OTHER_KINDS.items()
    )
    if marked or ("nonce" in claims and "scope" not in claims and "scp" not in claims):
        return "the token is not an access token"
    return None


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of a token: `scope` (RFC 8693), else `scp`; words with blanks between, or a list of words."""
    said = claims["scope"] if "scope" in claims else claims.get("scp")
    if isinstance(said, str):
        return frozenset(said.split(" ")) - {""}
    if isinstance(said, list) and all(isinstance(each, str) for each in said):
        return frozenset(said) - {""}
    return frozenset()


class TokenAgents:
    """Which agent the tokens of one issuer mean: by `rules`, the first that matches; else by the agent claim.

    `subjects`: agents by what the claim says, where it is no name. `bound`: agents that are meant by a rule or by
    such a word only, so that no claim can simply name them.
    """

    def __init__(
        self,
        issuer: str,
        claim: str | None,
        *,
        subjects: Mapping[str, str],
        rules: Sequence[AgentRule] = (),
        bound: frozenset[str] = frozenset(),
    ) -> None:
        self._claim = claim
        self._subjects = subjects
        self._rules = [rule for rule in rules if rule.issuer in (None, issuer)]
        self._bound = bound.union(subjects.values(), [rule.agent for rule in rules])

    def agent_of(self, claims: Mapping[str, Any]) -> str | Rejected:
        """Return the agent that these claims mean."""
        for rule in self._rules:
            held = [_holds(claims, path, expected) for path, expected in rule.match]
            if None in held:
                return Rejected("the token can be read in two ways")
            if all(held):
                return rule.agent
        if self._claim is None:
            return Rejected("the token does not speak of an agent")
        said = self.said(claims)
        if not is_name(said):
            return Rejected(f"the token has no text as {shown(self._claim)}")
        agent = self._subjects.get(said)
        if agent is None and said in self._bound:  # the name of an agent that goes by another word
            return Rejected("the token does not speak of an agent")
        return said if agent is None else agent

    def said(self, claims: Mapping[str, Any]) -> str:
        """Return what the agent claim says; empty if it is no text, or there is none."""
        said = None if self._claim is None else claims.get(self._claim)
        return said if isinstance(said, str) else ""


def _holds(claims: Mapping[str, Any], path: str, expected: ClaimValue) -> bool | None:
    """Whether the claim at a path is, or as a list has, what is expected; None if the path leads to several claims."""
    found = list(_at(claims, path.split(".")))
    if len(found) > 1:
        return None
    values = found[0] if found and isinstance(found[0], list) else found
    return any(_is(value, expected) for value in values)


def _at(tree: Any, names: list[str]) -> Iterator[Any]:
    """Yield what is at a path; a name may have dots of its own, so that a path can be read in several ways."""
    if not names:
        yield tree
    elif isinstance(tree, dict):
        for count in range(1, len(names) + 1):
            name = ".".join(names[:count])
            if name in tree:
                yield from _at(tree[name], names[count:])


def _is(value: Any, expected: ClaimValue) -> bool:
    if isinstance(expected, bool):
        return value is expected
    return isinstance(value, str) and name_matches(expected, value)


def is_name(text: str) -> bool:
    """Whether a text can name an agent: not empty, not endless, nothing in it that cannot be seen."""
    return 0 < len(text) <= _LONGEST_NAME and shown(text) == text
