"""The record of a request through the proxy says what happened to it."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave import open_guard
from byleave.core.decision import ALLOW, ASK
from byleave.net.proxy import open_proxy
from byleave.policy.load import Workspace
from byleave.protocol.http_head import HttpRequestHead, read_request, request_head
from sandbox.proxy_scene import HOST, Client, Origin, Replies, loopback

RULE = {"host": HOST, "port": 80, "allow": True}


class Room:
    """A proxy of a tool under a policy, and what was recorded."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.actions: list[tuple[str, str | None]] = []
        self.reasons: list[str] = []

    def ask(self, data: bytes, *, method: str = "GET") -> int:
        with Client(self.port) as client:
            client.send(data)
            return client.answer(method)[0]


@contextlib.contextmanager
def room(
    root: Path, net: list[dict[str, Any]], rules: "list[dict[str, Any]] | None" = None, *, approved: bool = False
) -> Iterator[Room]:
    tree = {"tools": {"t": {"source": "local", "runtime": "stdio", "access": {"net": net}}}, "rules": rules or []}
    policy = Workspace(str(root)).compile_tree(tree)
    listener = socket.create_server(("127.0.0.1", 0))
    made = Room(listener.getsockname()[1])

    def decide(action: dict[str, Any]) -> Any:
        verdict = policy.decide(action)
        if approved and verdict.decision is ASK:  # as the guard does where an approval holds
            verdict = verdict.replace(decision=ALLOW)
        made.actions.append((verdict.decision.word, action.get("method")))
        made.reasons.append(verdict.reason)
        return verdict

    proxy = open_proxy(policy, "t", decide, resolve=loopback)
    proxy.start(listener)
    try:
        yield made
    finally:
        proxy.close()


def get(port: int, path: str = "/", method: str = "GET", host: str = HOST) -> bytes:
    return f"{method} http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 0\r\n\r\n".encode()


def connect(port: int) -> bytes:
    return f"CONNECT {HOST}:{port} HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode()


def test_a_refused_address_is_recorded_as_denied(tmp_path: Path) -> None:
    with room(tmp_path, [RULE]) as made:
        status = made.ask(get(80))
    assert (status, made.actions) == (403, [("deny", "GET")])
    assert "127.0.0.1" in made.reasons[0]
    assert "private range" in made.reasons[0]


def test_a_refused_address_of_a_tunnel_is_recorded_as_denied(tmp_path: Path) -> None:
    with room(tmp_path, [RULE]) as made:
        status = made.ask(connect(80), method="CONNECT")
    assert (status, made.actions) == (403, [("deny", "CONNECT")])


def test_an_allowed_request_is_recorded_once(tmp_path: Path) -> None:
    with Origin(Replies()) as origin, room(tmp_path, [{**RULE, "port": origin.port, "private": True}]) as made:
        status = made.ask(get(origin.port))
    assert (status, made.actions) == (200, [("allow", "GET")])


def test_a_request_that_the_policy_denies_is_recorded_once(tmp_path: Path) -> None:
    with room(tmp_path, [RULE]) as made:
        status = made.ask(get(80, host="other.test"))
    assert (status, made.actions) == (403, [("deny", "GET")])


def test_a_request_with_a_user_name_is_recorded_as_denied(tmp_path: Path) -> None:
    with room(tmp_path, [RULE]) as made:
        status = made.ask(f"GET http://me:secret@{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    assert (status, made.actions, "secret" in made.reasons[0]) == (403, [("deny", "GET")], False)


def test_a_tunnel_that_hides_a_path_is_recorded_as_denied(tmp_path: Path) -> None:
    with room(tmp_path, [{**RULE, "port": 443}, {**RULE, "port": 443, "path_prefix": "/a", "allow": False}]) as made:
        status = made.ask(connect(443), method="CONNECT")
    assert (status, made.actions) == (403, [("deny", "CONNECT")])


@pytest.mark.parametrize("closed", [{"path_prefix": "/admin"}, {"method": "POST"}])
def test_a_tunnel_hides_what_ordered_rules_close(tmp_path: Path, closed: dict[str, str]) -> None:
    rules = [{"deny": {"url": {"host": HOST, **closed}}}]
    with room(tmp_path, [{**RULE, "port": 443, "private": True}], rules) as made:
        status = made.ask(connect(443), method="CONNECT")
    assert (status, made.actions) == (403, [("deny", "CONNECT")])


def test_a_request_that_an_approval_allows_goes_through_and_is_recorded_once(tmp_path: Path) -> None:
    with Origin(Replies()) as origin:
        rules = [{"ask": {"url": {"host": HOST, "port": origin.port}}}]
        net = [{**RULE, "port": origin.port, "private": True}]
        with room(tmp_path, net, rules, approved=True) as approved, room(tmp_path, net, rules) as asked:
            answers = (approved.ask(get(origin.port)), asked.ask(get(origin.port)))
    assert (answers, approved.actions, asked.actions) == ((200, 403), [("allow", "GET")], [("ask", "GET")])


def test_a_rule_about_a_method_holds_for_the_proxy(tmp_path: Path) -> None:
    with Origin(Replies()) as origin:
        port = origin.port
        rules = [{"deny": {"url": {"host": HOST, "port": port, "method": "POST"}}}]
        with room(tmp_path, [{**RULE, "port": port, "private": True}], rules) as made:
            answers = [made.ask(get(port, method=method), method=method) for method in ("POST", "GET")]
    assert (answers, made.actions) == ([403, 200], [("deny", "POST"), ("allow", "GET")])


def test_a_greeting_for_another_server_is_recorded_as_denied(tmp_path: Path) -> None:
    with (
        Origin(Replies()) as origin,
        room(tmp_path, [{**RULE, "port": origin.port, "private": True}]) as made,
        Client(made.port) as client,
    ):
        client.send(connect(origin.port))
        status = client.response("CONNECT").status
        client.send(b"this is no TLS greeting\r\n\r\n")
        client.rest()
    assert (status, made.actions) == (200, [("allow", "CONNECT"), ("deny", "CONNECT")])


def test_the_audit_log_holds_the_refusal(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text("")
    with open_guard(str(tmp_path), door="run") as guard:
        verdict = guard.check({"kind": "url", "url": "http://h.test/", "refused": "it leads to 127.0.0.1"}).verdict
    assert (verdict.decision.word, verdict.reason) == (
        "deny",
        "reaching http://h.test is denied: it leads to 127.0.0.1",
    )


ALIASES = [
    "X-Original-URL",
    "X_Original_URL",
    "x_original-url",
    "X.Original.URL",
    "X-Rewrite-URL",
    "X_Rewrite_URL",
    "X-HTTP-Method-Override",
    "X_HTTP_Method_Override",
    "X-Forwarded-Host",
    "X_Forwarded_Host",
    "Forwarded",
    "Proxy",
    "Proxy_Authorization",
    "X_Byleave",
    "Keep_Alive",
]


@pytest.mark.parametrize("name", ALIASES)
def test_a_field_that_leads_elsewhere_is_not_passed_on(name: str) -> None:
    head = f"GET http://h.test/a HTTP/1.1\r\nHost: h.test\r\n{name}: /admin\r\nAccept: x\r\n{name}: /b\r\n\r\n"
    request = read_request(head.encode())
    assert isinstance(request, HttpRequestHead)
    sent = request_head(request, path="/a", authority="h.test")
    assert sent == b"GET /a HTTP/1.1\r\nHost: h.test\r\nAccept: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("name", ["Content_Length", "Content.Length", "Transfer_Encoding", "Transfer~Encoding"])
def test_a_field_that_is_taken_for_where_a_body_ends_is_refused(name: str) -> None:
    head = f"GET http://h.test/a HTTP/1.1\r\nHost: h.test\r\n{name}: 1\r\n\r\n"
    assert not isinstance(read_request(head.encode()), HttpRequestHead)
