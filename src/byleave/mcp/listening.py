"""Those who hear what belongs to no request: stateless clients that listen, and the standing stream of a session."""

from byleave.mcp.aside import Aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.mcp.ends import Sink


class Listener:
    """A stateless client that listens: what it wants to hear of, on a stream of its own."""

    def __init__(self, wanted: "Mapping[str, Any]", meta: "Mapping[str, Any]", sink: "Sink") -> None:
        self.wanted = wanted
        self.meta = meta
        self.aside = Aside()
        self.aside.attach(sink)


class Standing:
    """The standing stream, as a place where a question is put."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    async def send(self, *parts: bytes) -> bool:
        self._aside.put(b"".join(parts))
        return True

    async def answer(self, *_parts: bytes, status: int = 200) -> None:
        raise AssertionError(f"nothing is answered here ({status})")

    def is_open(self) -> bool:
        return self._aside.is_open
