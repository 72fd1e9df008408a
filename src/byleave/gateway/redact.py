"""Take the secrets that servers were given out of what they answer, before a client sees it. Pure.

An answer is JSON as bytes, and nearly none holds a secret: one search shows that, and such an answer goes on as
it came. Else its texts, names and numbers are looked at one by one, as what they mean and not as they are spelled, and
those that hold a secret are written anew; what was JSON stays JSON.

It is the second line, as `core.redact` is, which knows the spellings: the value itself however JSON escapes it,
JSON inside of JSON up to two levels deep as encoders write it, URLs, HTML, base64 and base64url at any offset, hex. A
value that a server cuts into pieces, reverses or encrypts is not found: a server that means to betray it finds a way.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from byleave.core.redact import REDACTED, SecretFilter
from byleave.text import shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from re import Match

    from byleave.gateway.interfaces import Receiver

# A shorter value occurs in answers by chance, and hiding it would spoil them; worse, a caller that can have a server
# say words of its choice would learn from what is hidden what the secret is, a short one in no time.
SHORTEST = 8
_SHORTEST_LEAF = 16  # characters of a text inside of a secret that is JSON itself; shorter ones are mostly no secrets
_HIDDEN = json.dumps(REDACTED).encode()
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|[^u])", re.DOTALL)
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,64}m")


class ResultScrub:
    """Hides the values that were forwarded to one server."""

    def __init__(self, values: Iterable[str]) -> None:
        self._scrub = SecretFilter()
        for secret in {part for value in values for part in (value, *_leaves(value))}:
            if len(secret) >= SHORTEST:
                self._scrub.uses(secret)
        forms = list(_shortest(self._scrub.forms))
        self._finds = _searcher([re.escape(form) for form in forms])
        self._may_disguise = _searcher(list(_escapes(forms)))
        self._hides = bool(forms)

    def message(self, message: bytes) -> bytes:
        """Return a message without the values: the very same, if it holds none."""
        if not self._hides:
            return message
        plain = self._plainly(message)
        return message if self._finds(plain) is None else _TOKENS.sub(self._token, plain)

    def text(self, text: str) -> str:
        """Return a text that is no JSON without the values, such as what a server writes on standard error."""
        return self._scrub.text(text)

    def _plainly(self, message: bytes) -> bytes:
        """Return a message that says the same, and spells the characters of the values in one way only."""
        if b"\\u" not in message and b"\\/" not in message:
            return message
        if self._may_disguise(message) is None:
            return message
        return _ESCAPES.sub(_respelled, message)

    def _token(self, found: Match[bytes]) -> bytes:
        """Return one text, name or number without the values; as it is written, if it holds none."""
        token = found[0]
        if self._finds(token) is None:
            return token
        is_text = token[:1] == b'"'
        try:
            value = token.decode()  # by us: the parser would guess the encoding
            value = json.loads(value, strict=False) if is_text else value
        except ValueError:  # it is no JSON: it is not known what it would be taken for
            return _HIDDEN
        hidden = self._scrub.text(value)
        if hidden == value:
            return token
        return json.dumps(hidden).encode() if is_text else _HIDDEN


class RedactingReceiver:
    """Hears a server without the secrets that we gave it: whatever it sends, they reach no client."""

    def __init__(self, receiver: Receiver, scrub: ResultScrub) -> None:
        self._receiver = receiver
        self._scrub = scrub

    def received(self, message: bytes, about: str | None) -> bool | None:
        return self._receiver.received(self._scrub.message(message), about)

    def lost(self, id_: str | None, why: str, public: str = "") -> None:
        self._receiver.lost(id_, self._scrub.text(why), self._scrub.text(public))


def _shortest(forms: Iterable[str]) -> Iterator[str]:
    """Yield the forms that hold no other: where a longer one is, the shorter one is found.

    A form with a byte that was not UTF-8 is none that JSON could have; its escaped spelling is another form.
    """
    written = [form for form in forms if form.encode("utf-8", "ignore").decode() == form]
    for form in written:
        if not any(other in form for other in written if other != form):
            yield form


def _searcher(words: list[str]) -> Callable[[bytes], object]:
    """Return what looks for all these patterns at once; it is made when it is first needed."""
    made: list[Callable[[bytes], object]] = []

    def search(message: bytes) -> object:
        if not made:
            import re2  # type: ignore[import-untyped]

            made.append(re2.compile("|".join(words).encode()).search)
        return made[0](message)

    return search


def _escapes(forms: Iterable[str]) -> Iterator[str]:
    r"""Yield patterns for the escapes by which JSON may write a character of the forms otherwise.

    `\n` and its like are among the forms already; left are `\/` and the numbers of characters.
    """
    yield r"\\/"
    for number in {char.encode("utf-16-be")[:2].hex() for form in forms for char in form}:
        yield rf"\\u(?i:{number})"


def _respelled(found: Match[bytes]) -> bytes:
    return _respell(found[0])


@lru_cache(maxsize=4096)
def _respell(escape: bytes) -> bytes:
    try:
        text = json.loads(b'"%b"' % escape)
        return json.dumps(text, ensure_ascii=False)[1:-1].encode()
    except ValueError:  # half of a character, or no escape at all
        return escape


def _leaves(value: str) -> Iterator[str]:
    """Yield the texts in a secret that is JSON itself: a server that reads it may send them one by one."""
    if value.lstrip()[:1] not in ("{", "["):
        return
    try:
        waiting = [json.loads(value)]
    except (ValueError, RecursionError):
        return
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, str) and len(tree) >= _SHORTEST_LEAF:
            yield tree
        elif isinstance(tree, dict | list):
            waiting += tree.values() if isinstance(tree, dict) else tree


def without_escapes(text: str) -> str:
    """Return a text from outside as people may see it: no colours, and what could act on a terminal written out.

    Nothing else is left out: what a person is not shown, they have not agreed to.
    """
    return shown_lines(_COLOURS.sub("", text))
