"""What one replica of the gateway writes to another when it passes a request on: an envelope with a MAC. Pure.

A client may come to any replica, and its session lives in one. That one gets the request with who is calling, proven
where the request came in: the proof is either a token, which must not travel further, or the connection itself, which
only the first replica sees.

Replicas know each other by a key that no client has. Both ends of a connection choose a random number first, and the
owner of the session shows that it has the key before anything is sent to it. The MAC of each request is over both
numbers, the owner's name, how many requests came before it on this connection, and the whole envelope, which holds the
digest of the body. So what was recorded is worth nothing on another connection, or a second time on the same one, and
no clock is needed. Nothing else in the head of such a request is read.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from byleave.gateway.interfaces import Caller  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from byleave.store.store_key import StoreKey

NONCE, ENVELOPE, MAC = "x-byleave-nonce", "x-byleave-envelope", "x-byleave-mac"
_NONCE_BYTES = 16
_LONGEST_NONCE = 64


class PassedRequest(Struct, frozen=True):
    """One request of a client, without its body, as the replica that it came to read it."""

    method: str
    path: str
    query: str
    fields: dict[str, str]  # those of MCP, by lower-case names
    caller: Caller
    body: str  # the digest of it


_READER = msgspec.json.Decoder(PassedRequest)


class HelloReply(Struct, frozen=True):
    """What the owner of a session answers to the first request on a connection."""

    nonce: str
    mac: str


def digest(body: bytes) -> str:
    """Return what stands for a body in an envelope."""
    return sha256(body).hexdigest()


def new_nonce() -> str:
    """Return a number that is used once."""
    return secrets.token_hex(_NONCE_BYTES)


def is_nonce(text: str) -> bool:
    """Whether the other end may have chosen this as its number."""
    return 2 * _NONCE_BYTES <= len(text) <= _LONGEST_NONCE and text.isascii() and text.isalnum()


def pack(request: PassedRequest) -> str:
    """Return an envelope as the text of a header."""
    return base64.urlsafe_b64encode(msgspec.json.encode(request)).decode()


def unpack(envelope: str) -> PassedRequest | None:
    """Return what an envelope holds; None if it is none. Its MAC was looked at before."""
    try:
        return _READER.decode(base64.urlsafe_b64decode(envelope.encode("ascii")))
    except (ValueError, msgspec.MsgspecError):
        return None


class ReplicaChannel:
    """One connection between two replicas: the numbers that both ends chose, and how many requests it has carried."""

    __slots__ = ("_asked", "_count", "_key", "_owner", "nonce")

    def __init__(self, key: StoreKey, owner: str, asked: str, nonce: str) -> None:
        """`asked` is the number of the replica that passes requests on, `nonce` that of the owner."""
        self.nonce = nonce
        self._key = key
        self._owner = owner
        self._asked = asked
        self._count = 0

    def proof(self) -> str:
        """Return what shows that the owner has the key."""
        return self._key.mac("owner", self._owner, self._asked, self.nonce).hex()

    def is_proof(self, mac: str) -> bool:
        """Whether the other end is the owner."""
        return _is_same(mac, self.proof())

    def seal(self, envelope: str) -> str:
        """Return the MAC of the next request."""
        mac = self._mac(envelope)
        self._count += 1
        return mac

    def opens(self, envelope: str, mac: str) -> bool:
        """Whether this is the next request of a replica; each is taken once."""
        if not _is_same(mac, self._mac(envelope)):
            return False
        self._count += 1
        return True

    def _mac(self, envelope: str) -> str:
        return self._key.mac("request", self._owner, self._asked, self.nonce, str(self._count), envelope).hex()


def _is_same(given: str, mac: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), mac.encode())
