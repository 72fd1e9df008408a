"""What the gateway needs of a tracer of its calls. `telemetry` is one; where nothing is sent there is none.

A caller of these looks whether there is one (`is None`), and does nothing else where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from types import TracebackType
    from typing import Any, Protocol, Self

    from msgspec import Raw

    from byleave.core.decision import Verdict

    class UpstreamSpan(Protocol):
        """The span of one request to a server. Used by `with`."""

        outcome: str

        @property
        def context(self) -> Mapping[str, str]:
            """What goes along in `_meta`, so that the server's spans are children of this one."""

        def __enter__(self) -> Self: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
        ) -> None: ...

    class LocalSpan(Protocol):
        """The span of one run of a tool of this workspace. Used by `with`."""

        outcome: str

        def __enter__(self) -> Self: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
        ) -> None: ...

    class CallSpan(Protocol):
        """The span of one request of a client, and what belongs to it. Used by `with`."""

        outcome: str

        def __enter__(self) -> Self: ...

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
        ) -> None: ...

        def decided(self, verdict: Verdict) -> None:
            """Note the verdict."""

        async def asked(self, asking: Coroutine[Any, Any, Any]) -> Any:
            """Return what comes of a question to a person, which has a span of its own."""

        def upstream(self, revision: str, transport: str) -> UpstreamSpan:
            """Begin the span of a request to the server, which speaks this revision over this transport."""

        def local(self) -> LocalSpan:
            """Begin the span of one run of a tool of this workspace."""

        def answered(self, result: Raw | None, error: Raw | None) -> None:
            """Note the size of a server's result, or the number of its error."""

    class Tracer(Protocol):
        """Begins spans. Its methods are called in the event loop, and never wait."""

        def begin_call(self, call: TracedCall) -> CallSpan:
            """Begin the span of a request."""

        def refused(self, why: str, status: int) -> str:
            """Send a span of a request that was refused before it was read; return its trace, empty if it has none."""

        async def close(self) -> None:
            """Send what is there, for a few seconds at most."""


class TracedCall(Struct, frozen=True):
    """What there is to say of a request that is about a server: a tool, a prompt, or a resource of it.

    All but the method, the revision and the transport is as the caller says it: what of it may be sent is the tracer's
    to decide. `lists`: whether the server lists what is named.
    """

    method: str
    server: str
    kind: str
    name: str
    agent: str | None
    identity: str
    revision: str
    over_pipe: bool
    meta: Mapping[str, Any]
    headers: Mapping[str, str]
    lists: Callable[[str, str, str], bool]
