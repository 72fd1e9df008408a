"""In `rules`, a host that is denied or asked about is so on every port; `access.net` keeps the default port."""

from pathlib import Path
from typing import Any

import pytest

from byleave.policy.load import Workspace


def _decide(tmp_path: Path, outcome: str, host: dict[str, Any], url: str) -> str:
    rules = [{outcome: {"url": host}}, {"allow": {"operation": "fetch"}}]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": rules})
    return policy.decide({"kind": "url", "url": url}).decision.word


URLS = [
    "https://pastebin.com/x",
    "http://pastebin.com/x",
    "https://pastebin.com:8443/x",
    "http://pastebin.com:8080/",
    "https://pastebin.com:80/x",
    "https://PASTEBIN.com.:8443/x",
    "wss://pastebin.com:9000/x",
    "ftp://pastebin.com:2121/x",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("outcome", ["deny", "ask"])
def test_a_closed_host_is_closed_on_every_port(url: str, outcome: str, tmp_path: Path) -> None:
    assert _decide(tmp_path, outcome, {"host": "pastebin.com"}, url) == outcome


def test_a_deny_with_a_port_is_for_that_port(tmp_path: Path) -> None:
    deny = {"host": "pastebin.com", "port": 8443}
    answers = [_decide(tmp_path, "deny", deny, f"https://pastebin.com{port}/x") for port in ("", ":8443", ":9000")]
    assert answers == ["allow", "deny", "allow"]


def test_a_denied_path_is_denied_on_every_port(tmp_path: Path) -> None:
    deny = {"host": "a.example", "path_prefix": "/admin"}
    answers = [_decide(tmp_path, "deny", deny, f"https://a.example:8443/{path}") for path in ("admin/x", "open")]
    assert answers == ["deny", "allow"]


def test_an_allowed_host_is_allowed_on_its_default_port_only(tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"allow": {"url": {"host": "a.example"}}}]})
    answers = [
        policy.decide({"kind": "url", "url": f"https://a.example{port}/"}).decision.word for port in ("", ":8443")
    ]
    assert answers == ["allow", "ask"]


def test_what_is_not_an_allowed_host_is_closed_on_its_other_ports_too(tmp_path: Path) -> None:
    rules = [{"deny": {"not": {"url": {"host": "a.example"}}}}, {"allow": {"operation": "fetch"}}]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": rules})
    answers = [
        policy.decide({"kind": "url", "url": f"https://a.example{port}/"}).decision.word for port in ("", ":8443")
    ]
    assert answers == ["allow", "deny"]


def test_the_network_of_a_tool_keeps_the_default_port(tmp_path: Path) -> None:
    net = [{"host": "a.example", "allow": True}, {"host": "a.example", "port": 8443, "allow": True}]
    tree = {"tools": {"t": {"source": "local", "command": ["t"], "access": {"net": net}}}}
    policy = Workspace(str(tmp_path)).compile_tree(tree)
    ports = ("", ":8443", ":9000")
    answers = [
        policy.decide({"kind": "url", "url": f"https://a.example{p}/", "tool": "t"}).decision.word for p in ports
    ]
    assert answers == ["allow", "allow", "deny"]
