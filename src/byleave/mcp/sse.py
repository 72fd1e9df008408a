"""Events as the streams to clients carry them (text/event-stream). Pure: messages in, pieces of bytes out.

Reading what servers send in this form: `events`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ALIVE = (b": alive\n\n",)  # a comment: it says nothing, and keeps those between us and the client from hanging up
_END = b"\n\n"
_MESSAGE = b"event: message\ndata: "
_ENDPOINT = b"event: endpoint\ndata: "


def message_event(parts: "Iterable[bytes]") -> list[bytes]:
    """Return the pieces of the event that carries one message.

    A line end would end the event's line, and what follows could pass for an event of its own. In JSON it can only
    stand between two values, where a blank does as well.
    """
    return [_MESSAGE, *[_on_one_line(part) for part in parts], _END]


def endpoint_event(path: str) -> list[bytes]:
    """Return the pieces of the event that tells a client of revision 2024-11-05 where to send its messages."""
    return [_ENDPOINT, path.encode("ascii"), _END]


def _on_one_line(part: bytes) -> bytes:
    whole = bytes(part)  # free of cost, but for raw values of msgspec
    return whole.replace(b"\r", b" ").replace(b"\n", b" ") if b"\r" in whole or b"\n" in whole else whole
