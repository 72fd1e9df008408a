"""What the relay hands back to whoever moves the bytes."""

from byleave.record import Record

TO_AGENT, TO_CLIENT = "agent", "client"


class Send(Record):
    """Bytes that go to one of the two, whole lines with their ends."""

    to: str
    data: bytes
