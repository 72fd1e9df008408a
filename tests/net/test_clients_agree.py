"""The blocking client, the client on an event loop and the sandbox's proxy accept and refuse the same responses."""

import asyncio
from http.client import HTTPException
from time import monotonic

import pytest

from byleave.core.net_rules import NetRule
from byleave.errors import RequestError
from byleave.net.endpoints import Endpoint
from byleave.net.http_async_client import AsyncHttpClient
from byleave.net.http_client import HttpClient, HttpRequest
from byleave.protocol.http_head import HttpResponseHead
from protocol.odd_responses import ODD_RESPONSES, Odd
from sandbox.proxy_scene import HOST, PATIENCE, Origin, Replies, allow, get, proxied

Seen = tuple[int, bytes] | None  # status and body; None: refused


def by_the_blocking_client(origin: Origin, method: str) -> Seen:
    with HttpClient(resolve=lambda _host, _port: ["127.0.0.1"]) as client:
        rules = (NetRule(HOST, port=origin.port, allow=True, private=True),)
        try:
            request = HttpRequest(method, f"http://{HOST}:{origin.port}/")
            response = client.fetch(request, rules, deadline=monotonic() + PATIENCE)
        except RequestError as error:
            return None if "gave no response that can be used" in error.problem else (0, error.problem.encode())
        return response.status, response.body


class Listener:
    """Collects one response."""

    def __init__(self) -> None:
        self.over: asyncio.Future[Seen] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._body = b""

    def head(self, response: HttpResponseHead) -> None:
        assert not self._status
        self._status = response.status

    def piece(self, data: bytes) -> None:
        self._body += data

    def end(self) -> None:
        self.over.set_result((self._status, self._body))

    def broke(self, why: str, *, unheard: bool) -> None:
        assert why
        assert not unheard
        self.over.set_result(None)


def by_the_client_of_the_gateway(origin: Origin, method: str) -> Seen:
    async def exchange() -> Seen:
        client = AsyncHttpClient()
        try:
            connection = await client.connection(Endpoint("http", "127.0.0.1", origin.port))
            listener = Listener()
            connection.send(f"{method} / HTTP/1.1\r\nHost: h\r\n\r\n".encode(), method, listener)
            async with asyncio.timeout(PATIENCE):
                return await listener.over
        finally:
            await client.close()

    return asyncio.run(exchange())


def by_the_proxy(origin: Origin, method: str) -> Seen:
    """A response that breaks off after its head is seen to break; one that is refused before is a 502."""
    with proxied(allow(origin)) as scene, scene.client() as client:
        client.send(get(origin, "/", "Connection: close", method=method))
        try:
            with client.response(method) as response:
                body = response.read()
        except (OSError, HTTPException):
            return None
        return None if response.status == 502 else (response.status, body)


@pytest.mark.parametrize("seen_by", [by_the_blocking_client, by_the_client_of_the_gateway, by_the_proxy])
@pytest.mark.parametrize("odd", ODD_RESPONSES.values(), ids=ODD_RESPONSES)
def test_all_clients_make_the_same_of_a_response(odd: Odd, seen_by: object) -> None:
    assert callable(seen_by)
    with Origin(Replies(odd.sent)) as origin:
        seen = seen_by(origin, odd.method)
    assert seen == (None if odd.status is None else (odd.status, odd.body))
