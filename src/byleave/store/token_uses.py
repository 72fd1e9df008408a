"""When each token of the MCP gateway was last used: known by its hash, written at most once a minute for each.

| own files | `OwnTokenUses`: a file of the user's state                                         |
| shared    | `store.postgres.token_uses.SharedTokenUses`: a table, by the clock of the database |

It is for people who look for tokens that can go. No decision depends on it, so what cannot be written is only noted.
"""

from __future__ import annotations

import json
import os
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from byleave.user_files import read_private, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

PERIOD = 60.0  # seconds between two writes about the same token
_FILE, _LOCK = "token-uses.json", "token-uses.lock"
_LARGEST = 8 << 20


class TokenUses(Protocol):
    """Where it is kept."""

    def write(self, digests: Collection[str]) -> None:
        """Keep that these were used now; a StateError if that is not possible."""
        ...

    def all(self) -> dict[str, str]:
        """Return when each was last used."""
        ...


class OwnTokenUses:
    """The file of one user."""

    def __init__(self, state: str, now: Callable[[], str]) -> None:
        self._path = os.path.join(state, _FILE)
        self._now = now

    def write(self, digests: Collection[str]) -> None:
        def changed() -> bytes:
            return json.dumps({**self.all(), **dict.fromkeys(digests, self._now())}, sort_keys=True).encode()

        rewrite(self._path, _LOCK, changed, limit=_LARGEST)

    def all(self) -> dict[str, str]:
        """Return when each was last used; a file that cannot be read says nothing."""
        raw = read_private(self._path, limit=_LARGEST)
        try:
            tree = json.loads(raw or b"{}")
        except (ValueError, RecursionError):
            return {}
        found = tree if isinstance(tree, dict) else {}
        return {digest: time for digest, time in found.items() if isinstance(time, str)}


class UsedTokens:
    """The tokens that were used since they were last written, for one gateway. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._written: dict[bytes, float] = {}
        self._waiting: set[bytes] = set()
        self._lock = Lock()

    def note(self, digest: bytes) -> None:
        """Note that a token was used. Only tokens of the configuration come here."""
        if self._clock() - self._written.get(digest, -PERIOD) >= PERIOD:
            with self._lock:
                self._written[digest] = self._clock()
                self._waiting.add(digest)

    def write_to(self, uses: TokenUses) -> None:
        """Write what was not written yet; a StateError if that is not possible now, and then it is tried again."""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        if not waiting:
            return
        try:
            uses.write([digest.hex() for digest in waiting])
        except BaseException:
            with self._lock:
                self._waiting |= waiting
            raise

    def __bool__(self) -> bool:
        return bool(self._waiting)
