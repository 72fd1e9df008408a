"""An HTTP application that replies with what it was sent: a server can be tested without MCP."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from byleave.net.http_admission import ServerLimits
from byleave.net.http_server import HttpServer
from byleave.net.http_server_exchange import BadRequest, CallerConnection, ServerExchange, ServerRequestHead

if TYPE_CHECKING:
    from byleave.net.http_server_exchange import Work


def serving(echo: "Echo", limits: ServerLimits) -> HttpServer[ServerRequestHead]:
    return HttpServer(echo, limits, lambda _text: None)


class Echo:
    """Replies with method, path and body; `/late` replies in a task, `/fail` fails."""

    def __init__(self) -> None:
        self.problems: list[BadRequest] = []
        self.handled: list[tuple[str, str, bytes]] = []

    def read_head(self, head: ServerRequestHead, repeated: Sequence[str]) -> ServerRequestHead | BadRequest:
        return BadRequest(f"{repeated[0]} twice", code=7) if "x-once" in map(str.lower, repeated) else head

    def admit(self, connection: CallerConnection) -> BadRequest | None:
        connection.peer = connection.remote.host
        return None

    def screen(self, exchange: ServerExchange[ServerRequestHead], _length: int | None) -> None:
        if exchange.head.path == "/screened":
            exchange.refuse(403, 0, "not even read")

    def handle(self, exchange: ServerExchange[ServerRequestHead]) -> "Work | None":
        head = exchange.head
        self.handled.append((head.method, head.path, exchange.body))
        if head.path == "/fail":
            raise RuntimeError("a secret")
        exchange.connection.belongs_to("a caller")

        async def reply() -> None:
            exchange.reply(200, head.method.encode(), b" ", head.path.encode(), b" ", exchange.body)

        if head.path == "/late":
            return reply
        exchange.reply(200, head.method.encode(), b" ", head.path.encode(), b" ", exchange.body)
        return None

    def error_parts(self, problem: BadRequest, id_: bytes) -> Sequence[bytes]:
        return (f"{problem.code} {problem.problem} ".encode(), id_)

    def failure(self) -> BadRequest:
        return BadRequest("it failed", status=500, code=9)

    def refused(self, problem: BadRequest) -> None:
        self.problems.append(problem)

    def tick(self, now: float) -> None:
        """Do nothing."""
