"""The key that processes of one gateway share: no package of a database is needed to hold it."""

from __future__ import annotations

import hashlib
import hmac


class StoreKey:
    """The key that replicas share, outside of the database."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mac(self, *parts: str) -> bytes:
        """Return the MAC of some texts: their lengths are part of it, so that no two lists have the same."""
        state = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            state.update(b"%d:" % len(raw) + raw)
        return state.digest()

    def derived(self, purpose: str) -> StoreKey:
        """Return a key for one purpose alone, from which this one cannot be found."""
        return StoreKey(self.mac("derived key", purpose))

    def is_mac(self, mac: bytes, *parts: str) -> bool:
        """Whether this is the MAC of these texts."""
        return hmac.compare_digest(mac, self.mac(*parts))
