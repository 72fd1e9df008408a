"""Who gets an answer from the dashboard: the browser that opened the one-time address, and no other program."""

import json
import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from byleave.core.self_protection import changes_trust
from byleave.dashboard.access import Access
from byleave.dashboard.socket_holders import Process, holders_of, holds
from byleave.net.peers import address_of, owner_of
from command import byleave
from dashboard.dashboard_scene import Room

PAGES = ("/", "/live", "/approvals", "/activity", "/policy", "/try")
PATHS = (*PAGES, "/api/pending", "/api/decisions?after=0", "/api/summary", "/style.css", "/app.js")


def test_nothing_is_served_without_a_cookie_or_a_token(served: Room) -> None:
    assert {path: served.ask("GET", path).status for path in PATHS} == dict.fromkeys(PATHS, 401)
    for path in ("/api/try", "/api/pending/abc"):
        assert served.ask("POST", path, {"answer": "once"}).status == 401
    assert served.ask("GET", "/?token=wrong").status == 401


def test_the_token_is_good_once_and_leaves_the_address(served: Room) -> None:
    where = urlsplit(served.url)
    first = served.ask("GET", f"/?{where.query}")
    assert (first.status, first.fields["location"]) == (303, "/")
    cookie = first.fields["set-cookie"]
    assert cookie.startswith(f"byleave-{where.port}=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert served.ask("GET", f"/?{where.query}").status == 401


def test_a_token_in_a_programs_words_is_good_for_a_short_time() -> None:
    now = [0.0]
    access = Access("127.0.0.1", 1, lambda: now[0])
    address = urlsplit(access.new_address(5.0))
    now[0] = 6.0
    assert access.redeem(address.query, frozenset) is None


def test_the_printed_address_is_good_for_ten_minutes() -> None:
    now = [0.0]
    access = Access("127.0.0.1", 1, lambda: now[0])
    first, second = urlsplit(access.new_address()), urlsplit(access.new_address())
    now[0] = 599.0
    assert access.redeem(first.query, frozenset) is not None
    now[0] = 601.0
    assert access.redeem(second.query, frozenset) is None


@pytest.mark.parametrize("more", ["&a=1" * 9, "&a=1" * 5000, "%ff" * 100, "&token=" + "x" * 4000])
def test_no_query_of_a_sign_in_makes_the_dashboard_fail(served: Room, more: str) -> None:
    assert 400 <= served.ask("GET", f"/?token=x{more}").status < 500


def test_every_page_is_served_to_the_browser_that_signed_in(board: Room) -> None:
    assert {path: board.ask("GET", path).status for path in PATHS} == dict.fromkeys(PATHS, 200)
    policy = board.ask("GET", "/").fields["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert {word for each in policy.split("; ") for word in each.split(" ")[1:]} == {"'none'", "'self'"}
    assert not any(name.startswith("access-control") for name in board.ask("GET", "/").fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"Host": "evil.example"},
        {"Host": "localhost"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": ""},
    ],
    ids=str,
)
def test_a_request_of_another_page_is_refused(board: Room, fields: dict[str, str]) -> None:
    assert board.ask("GET", "/api/pending", fields=fields).status == 403
    assert board.ask("POST", "/api/try", {"text": "ls"}, fields=fields).status == 403


@pytest.mark.parametrize(
    "fields", [{"X-Byleave-Token": None}, {"X-Byleave-Token": "x"}, {"Origin": None}, {"Origin": "null"}], ids=str
)
def test_a_post_needs_the_pages_token_and_our_origin(board: Room, fields: dict[str, str | None]) -> None:
    board.command("npm ci")
    (question,) = board.pending()
    assert board.ask("POST", f"/api/pending/{question['id']}", {"answer": "once"}, fields=fields).status == 403
    assert [each["status"] for each in board.pending()] == ["pending"]


def test_a_get_changes_nothing_and_other_methods_are_refused(board: Room) -> None:
    board.command("npm ci")
    (question,) = board.pending()
    assert board.ask("GET", f"/api/pending/{question['id']}?answer=once").status == 405
    assert {method: board.ask(method, "/api/pending").status for method in ("PUT", "DELETE", "OPTIONS", "HEAD")} == (
        dict.fromkeys(("PUT", "DELETE", "OPTIONS", "HEAD"), 405)
    )
    found = {path: board.ask("GET", path).status for path in ("/x", "/../etc/passwd", "/api", "/style.css/..")}
    assert set(found.values()) == {404}
    assert board.ask("POST", "/api/pending", {"answer": "once"}).status == 405
    assert len(board.pending()) == 1


def test_the_dashboard_listens_on_an_address_of_its_own(served: Room) -> None:
    host = urlsplit(served.url).hostname or ""
    assert host.startswith("127.")
    assert host != "127.0.0.1"


STEAL = """
import http.client, json, re, sys
host, port, cookie, token, id_ = sys.argv[1:]
found = []
for method, path, more in [
    *[("GET", path, {}) for path in ("/", "/approvals", "/app.js", "/api/pending", "/?token=x")],
    ("POST", f"/api/pending/{id_}", {"X-Byleave-Token": token, "Origin": f"http://{host}:{port}"}),
]:
    line = http.client.HTTPConnection(host, int(port), timeout=20)
    line.request(method, path, '{"answer": "once"}' if method == "POST" else None, {"Cookie": cookie, **more})
    reply = line.getresponse()
    found.append([reply.status, token in reply.read().decode()])
print(json.dumps(found))
"""


def test_a_stolen_cookie_gets_nothing_from_another_process(board: Room) -> None:
    """Browsers send a cookie to every port of an address, so a server of an agent's at another port may learn it."""
    board.command("npm ci")
    (question,) = board.pending()
    where = urlsplit(board.url)
    words = [str(where.hostname), str(where.port), board.cookie, board.token, question["id"]]
    done = subprocess.run([sys.executable, "-c", STEAL, *words], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [[401, False]] * 6
    assert [each["status"] for each in board.pending()] == ["pending"]


def test_a_process_keeps_its_sign_in_over_connections_and_hands_it_on_by_fork(board: Room) -> None:
    where = urlsplit(board.url)
    line = socket.create_connection((str(where.hostname), where.port or 0), timeout=20)
    asked = f"GET /api/summary HTTP/1.1\r\nHost: {where.netloc}\r\nCookie: {board.cookie}\r\n\r\n"
    send = f"import socket; socket.socket(fileno={line.fileno()}).sendall({asked.encode()!r})"
    subprocess.run([sys.executable, "-c", send], check=True, timeout=20, pass_fds=[line.fileno()])
    with line:
        assert line.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_each_sign_in_has_a_token_of_its_own(board: Room) -> None:
    other = Room(board.root, board.home, board.dashboard.access.new_address(), board.dashboard).sign_in()
    assert other.token not in ("", board.token)
    assert other.ask("POST", "/api/try", {"text": "ls"}).status == 200
    assert other.ask("POST", "/api/try", {"text": "ls"}, fields={"X-Byleave-Token": board.token}).status == 403


def test_an_unknown_process_gets_the_token_in_its_first_page_only(
    served: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.dashboard.server.holders_of", lambda _inode: frozenset())
    board = served.sign_in()
    assert board.token
    assert 'name="byleave-token" content="" data-keep' in board.ask("GET", "/approvals").body.decode()
    assert board.ask("POST", "/api/try", {"text": "ls"}).status == 200


def test_the_process_at_the_other_end_is_found_by_its_socket() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        name = server.getsockname()
        code = f"import socket, sys; line = socket.create_connection({name!r}); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as client:
            line, peer = server.accept()
            with line:
                owner = owner_of(address_of(peer), address_of(name))
                assert owner is not None
                found = holders_of(owner.inode)
                assert [each.pid for each in found] == [client.pid]
                (one,) = found
                assert holds(one, owner.inode)
                assert not holds(Process(one.pid, one.started + 1), owner.inode)
                assert not holds(Process(os.getpid(), one.started), owner.inode)
                assert holders_of(0) == frozenset()
            client.communicate(b"", timeout=20)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gets_nothing(board: Room) -> None:
    where, nobody = urlsplit(board.url), pwd.getpwnam("nobody")
    code = (
        "import encodings.idna, os, socket\n"
        f"os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})\n"
        f"line = socket.create_connection(({where.hostname!r}, {where.port}))\n"
        f"line.sendall(b'GET / HTTP/1.1\\r\\nHost: {where.netloc}\\r\\nCookie: {board.cookie}\\r\\n\\r\\n')\n"
        "print(line.recv(4096).split(b' ')[1].decode())"
    )
    done = subprocess.run(["/usr/bin/env", sys.executable, "-c", code], capture_output=True, check=False, cwd="/")
    if done.returncode and b"Permission" in done.stderr:
        pytest.skip("this Python cannot be read by another user")
    assert done.stdout.strip() == b"403", done.stderr


def test_the_dashboard_is_kept_from_agents() -> None:
    assert changes_trust(["byleave", "dashboard"])
    assert changes_trust(["python", "-m", "byleave", "dashboard", "--no-open"])


def test_the_dashboard_does_not_start_below_an_agent(tmp_path: Path) -> None:
    inner = [sys.executable, "-m", "byleave", "dashboard", "--json", "--no-open"]
    # A process whose words are those of byleave's hook, and whose child is the dashboard.
    script = f"import subprocess, sys; sys.exit(subprocess.run({inner!r}).returncode)"
    words = ["-c", 'exec -a byleave "$0" -c "$1" hook', sys.executable, script]
    done = subprocess.run(["bash", *words], capture_output=True, check=False, cwd=tmp_path, timeout=30, text=True)
    assert done.returncode != 0
    assert "agent" in json.loads(done.stdout)["error"]["message"]


def test_what_cannot_be_a_port_is_refused(tmp_path: Path) -> None:
    for port in ("0", "70000", "x"):
        assert byleave("dashboard", "--port", port, cwd=tmp_path).code == 2
