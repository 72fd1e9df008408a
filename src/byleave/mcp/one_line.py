"""One message on one line: what a server may spread over several, and what stands for nothing.

A message goes on to clients that read lines. One with a line end inside could be taken for several messages, of which
nobody has judged the second, so it is written anew.
"""

import msgspec

from byleave.text import shown
from byleave.wire.members import leading_members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "[REDACTED]"
_BLANKS = b" \t\r\n"
_LARGE = 1 << 16
_BEGINNING = 512


def one_line(message: bytes) -> bytes | None:
    """Return a JSON text without line ends; None if it has some and is no JSON."""
    if b"\n" not in message and b"\r" not in message:
        return message
    message = message.strip(_BLANKS)
    if b"\n" not in message and b"\r" not in message:
        return message
    try:
        return msgspec.json.format(message, indent=-1)
    except (msgspec.MsgspecError, RecursionError):
        return None


class _Envelope(msgspec.Struct):
    """As much of a message as tells an answer from a request."""

    id: msgspec.Raw = msgspec.Raw()
    method: msgspec.Raw = msgspec.Raw()


_ENVELOPES = msgspec.json.Decoder(_Envelope)


def answers(message: bytes, id_: str) -> bool:
    """Whether a message is the answer to our request of that id. Of a large one, no more is read than it takes."""
    if len(message) > _LARGE:
        known = dict(leading_members(message[:_BEGINNING].decode(errors="ignore")))
        if "id" in known or "method" in known:
            return known.get("id") == id_ and "method" not in known
    try:
        found = _ENVELOPES.decode(message)
        return bool(found.id) and not found.method and msgspec.json.decode(found.id) == id_
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False


def excerpt(said: bytes, secrets: "Iterable[str]", *, most: int) -> str:
    """Return the end of what a server said on the side, in one line that people can be shown."""
    return shown(_last_lines(hide(said.decode(errors="replace"), secrets), most))


def _last_lines(text: str, most: int) -> str:
    """Return as many whole lines of the end as fit; of one that does not, its beginning."""
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        words = " ".join(line.split())
        if not words:
            continue
        if len(words) + sum(len(each) + 3 for each in kept) > most:
            return " / ".join(reversed(kept)) if kept else words[:most]
        kept.append(words)
    return " / ".join(reversed(kept))


def hide(text: str, secrets: "Iterable[str]") -> str:
    """Return a text of a server without what was sent to it: it may say that back, and agents read errors."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN) if secret else text
    return text
