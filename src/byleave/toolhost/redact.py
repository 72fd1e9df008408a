"""Take the secrets that were used for a tool out of everything that flows back to it.

It is the second line: a value that a server or a program was given may come back in its answer, as it is or spelled as
JSON, URLs, base64 or hex do. Whoever wants to betray it finds a spelling that is not known here.
"""

from __future__ import annotations

from binascii import b2a_base64
from threading import Lock
from typing import TYPE_CHECKING

from byleave.core.redact import SHORTEST, Redactor, cores_of, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SHORTEST_CODED = 2 * SHORTEST  # characters; shorter ones occur by chance
_SHORTEST_LINE = 8  # characters; shorter lines, and rulers, say little
_TO_URL_SAFE = str.maketrans("+/", "-_")


class SecretFilter:
    """The values that were forwarded or substituted for one tool so far. Any thread may ask and add."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: frozenset[str] = frozenset()
        self._mask: Redactor | None = None

    def uses(self, value: str) -> None:
        """Hide `value` from now on. One that is too short, or gives nothing away, is not hidden."""
        cores = {core for core in cores_of(value) if is_secret(core)}
        if cores <= self._values:
            return
        with self._lock:
            self._values |= {*cores, *_lines_of(value)}
            self._mask = Redactor(form for each in self._values for form in (each, *_coded(each)))

    @property
    def forms(self) -> tuple[str, ...]:
        """Every spelling that is hidden by now."""
        return () if self._mask is None else self._mask.forms

    def text(self, text: str) -> str:
        """Return `text` without the values."""
        return text if self._mask is None else self._mask.values(text)

    def data(self, data: bytes) -> bytes:
        """Return `data` without the values, whatever else it holds."""
        if self._mask is None:
            return data
        return self._mask.values(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def tree(self, tree: Any) -> Any:
        """Return a JSON tree without the values."""
        return tree if self._mask is None else self._mask.values_tree(tree)


def _lines_of(value: str) -> list[str]:
    """Return the lines of a value that has several: a search, or a program that numbers lines, shows one by one."""
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if len(line) >= _SHORTEST_LINE] if len(lines) > 1 else []


def _coded(value: str) -> Iterator[str]:
    """Yield what a value looks like inside of something that was encoded as a whole: `user:value`, for one."""
    plain = value.encode("utf-8", "surrogateescape")
    forms = [plain.hex(), plain.hex().upper()]
    for before in range(3):  # base64 takes three bytes at a time; what they share with their neighbours differs
        whole = b2a_base64(b"\0" * before + plain, newline=False).decode()
        forms.append(whole[(8 * before + 5) // 6 : 8 * (before + len(plain)) // 6])
    for form in forms:
        if len(form) >= _SHORTEST_CODED:
            yield form
            yield form.translate(_TO_URL_SAFE)
