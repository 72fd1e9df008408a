"""`http.*` of a tool: what it may ask, what is filled in for it, where redirects lead, and what comes back."""

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from byleave.core.net_rules import USERINFO
from byleave.core.redact import Redactor, SecretFilter
from byleave.errors import RequestError
from byleave.guard.evaluation import NO, ONCE, Who
from byleave.guard.guard import Guard
from byleave.net.http_client import HttpClient
from byleave.protocol.jsonrpc import (
    ACCESS_DENIED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    TIMED_OUT,
)
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.http_methods import MOST, HttpMethods
from fakes.asking import MemoryLog, Person
from sandbox.proxy_scene import PATIENCE, Origin, read_message
from scene import Scene

TOOL = '[tools.t]\nsource = "local"\nruntime = "vfs"\ncommand = ["x"]\n'
TOKEN = "hunter2-4711"
VARIABLES = {
    "CASE_TOKEN": TOKEN,
    "BROKEN": f"{TOKEN}\r\nX-More: 1",
    "HIDDEN": "not-for-tools",
    "UMLAUT": "gr\u00fc\u00dfe-{}",
}
USABLE = frozenset({"CASE_TOKEN", "BROKEN", "UNSET", "UMLAUT"})
WHO = Who("claude", "verified")
Handler = Callable[[str, dict[str, str], bytes], bytes]


def reply(body: bytes | str = b"", status: int = 200, **headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    fields = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", *fields, "", ""]).encode() + data


class Site:
    """A server that answers by path, and remembers what it heard."""

    def __init__(self, pages: dict[str, bytes | Handler] | None = None) -> None:
        self.pages = pages or {}
        self.heard: list[tuple[str, str, dict[str, str], bytes]] = []
        self.port = 0

    def __call__(self, connection: socket.socket) -> None:
        while message := read_message(connection):
            head, _end, body = message.partition(b"\r\n\r\n")
            line, *fields = head.decode().split("\r\n")
            method, path, _version = line.split(" ")
            headers = {
                name.lower(): value.strip() for name, _colon, value in (field.partition(":") for field in fields)
            }
            self.heard.append((method, path, headers, body))
            page = self.pages.get(path, reply(status=404))
            connection.sendall(page if isinstance(page, bytes) else page(method, headers, body))

    @property
    def asked(self) -> list[str]:
        return [f"{method} {path}" for method, path, _headers, _body in self.heard]


class Stage:
    """A tool's web: two sites, the rules that open them, and everything that was recorded."""

    def __init__(self, scene: Scene, here: Site, there: Site) -> None:
        self.scene = scene
        self.here = here
        self.there = there
        self.log = MemoryLog()
        self.person = Person()
        self.scrub = SecretFilter()
        self.client = HttpClient(resolve=self._resolve)
        self.limit = 10 << 20
        self.may_use: Callable[[str], bool] = USABLE.__contains__
        self.looked_up: list[str] = []
        self.leads: dict[str, list[str]] = {}
        self.rules(
            ("localhost", here.port, "/", True),
            ("localhost", here.port, "/admin", False),
            ("127.0.0.1", there.port, "/", True),
            ("private.test", there.port, "/", True),
        )

    def rules(self, *rules: tuple[str, int, str, bool]) -> None:
        tables = [
            f'[[tools.t.access.net]]\nhost = "{host}"\nport = {port}\n'
            f'path_prefix = "{path}"\nallow = {str(allow).lower()}\n'
            for host, port, path, allow in rules
        ]
        self.scene.say("user", TOOL + "".join(tables))

    def _resolve(self, host: str, _port: int) -> list[str]:
        self.looked_up.append(host)
        return self.leads.get(host, ["127.0.0.1"])

    @property
    def web(self) -> HttpMethods:
        workspace = self.scene.workspace
        guard = Guard(
            workspace.load(),
            workspace.approvals,
            self.log,
            door="call",
            now=lambda: "2026-01-01T00:00:00Z",
            mask=Redactor(),
            client_approves=None,
            asker=self.person,
        )
        return HttpMethods(
            guard, "t", self.client, VARIABLES, self.scrub, may_use=self.may_use, limit=self.limit, who=WHO
        )

    def url(self, path: str) -> str:
        return f"http://localhost:{self.here.port}{path}"

    def other(self, path: str) -> str:
        return f"http://127.0.0.1:{self.there.port}{path}"

    def get(
        self, path: str = "/", method: str = "http.get", turn: Deadline | None = None, **params: Any
    ) -> dict[str, Any]:
        given = {"url": self.url(path), **params}
        return self.web.serve(method, given, turn if turn is not None else Deadline())

    def refused(self, path: str = "/", method: str = "http.get", **params: Any) -> tuple[int, str]:
        with pytest.raises(RequestError) as caught:
            self.get(path, method, **params)
        text = f"{caught.value} {caught.value.data}"
        assert TOKEN not in text
        return caught.value.number, caught.value.problem

    @property
    def recorded(self) -> list[tuple[str, str, str]]:
        return [
            (
                record["action"]["method"],
                record["action"]["url"],
                record.get("outcome") or record["verdict"]["decision"],
            )
            for record in self.log.records
        ]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    here, there = Site(), Site()
    with Origin(here) as first, Origin(there) as second:
        here.port, there.port = first.port, second.port
        made = Stage(Scene.build(tmp_path.resolve()), here, there)
        with made.client:
            yield made


def echo(_method: str, headers: dict[str, str], body: bytes) -> bytes:
    return reply(headers.get("authorization", "nobody").encode() + body)


BEARER = [{"name": "Authorization", "value": "Bearer ${CASE_TOKEN}"}]


# Asking


def test_a_tool_gets_what_the_server_said(stage: Stage) -> None:
    stage.here.pages["/a?b=c"] = reply("h\u00e9llo", Set_Cookie="a=b")
    assert stage.get("/a?b=c") == {
        "status": 200,
        "body": "h\u00e9llo",
        "headers": [{"name": "Content-Length", "value": "6"}, {"name": "Set-Cookie", "value": "a=b"}],
        "url": stage.url("/a?b=c"),
    }
    assert stage.recorded == [("GET", stage.url("/a?b=c"), "allow"), ("GET", stage.url("/a?b=c"), "done")]
    assert {record["agent"] for record in stage.log.records} == {"claude"}


def test_a_body_that_is_no_text_comes_in_base64(stage: Stage) -> None:
    stage.here.pages["/"] = reply(b"\xff\x00")
    result = stage.get()
    assert (result["body"], result["encoding"]) == (base64.b64encode(b"\xff\x00").decode(), "base64")


METHODS = {
    "http.post": ("POST", b"x"),
    "http.put": ("PUT", b"x"),
    "http.patch": ("PATCH", b"x"),
    "http.delete": ("DELETE", b"x"),
    "http.get": ("GET", b""),
    "http.head": ("HEAD", b""),
}


@pytest.mark.parametrize(("method", "sent"), METHODS.items(), ids=METHODS.keys())
def test_every_method_is_served_under_its_own_name(stage: Stage, method: str, sent: tuple[str, bytes]) -> None:
    stage.here.pages["/"] = reply() if method != "http.head" else b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    body = {"body": "x"} if sent[1] else {"body": None}
    assert stage.get("/", method, **body)["status"] == 200
    assert [(heard[0], heard[3]) for heard in stage.here.heard] == [sent]
    assert stage.recorded[0][0] == sent[0]


def test_a_body_may_be_given_in_base64(stage: Stage) -> None:
    stage.get("/", "http.post", body=base64.b64encode(b"\xff\x00").decode(), encoding="base64")
    assert stage.here.heard[0][3] == b"\xff\x00"


def test_headers_may_be_a_list_or_an_object_and_unknown_fields_are_ignored(stage: Stage) -> None:
    stage.get("/", headers=[{"name": "X-A", "value": "1", "more": 2}], more=3)
    stage.get("/", headers={"X-A": "2", "accept-encoding": "br"})
    heard = [heard[2] for heard in stage.here.heard]
    assert [(one["x-a"], one["accept-encoding"]) for one in heard] == [("1", "identity"), ("2", "identity")]


NOT_FOR_TOOLS = (
    *("Host", "Content-Length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Expect", "Keep-Alive"),
    *("Proxy-Authorization", "Content_Length", "X-Original-URL", "X-HTTP-Method-Override"),
    *("x-amz-copy-source", "X-Copy-From", "X_Ms_Rename_Source", "Destination"),
)
BAD_PARAMS: dict[str, dict[str, Any]] = {
    "no url": {"url": None},
    "a url that is a number": {"url": 1},
    "headers that are a text": {"headers": "X: 1"},
    "headers that are numbers": {"headers": [1]},
    "a header without a value": {"headers": [{"name": "X"}]},
    "a header with a number": {"headers": {"X": 1}},
    "a header without a name": {"headers": {"": "1"}},
    "a name with a space": {"headers": {"X A": "1"}},
    "a name with a line": {"headers": {"X\r\nY": "1"}},
    "a name with a variable": {"headers": {"X-${CASE_TOKEN}": "1"}},
    "a value with a line": {"headers": {"X": "1\r\nY: 2"}},
    "a value with a newline": {"headers": {"X": "1\nY: 2"}},
    "a value with NUL": {"headers": {"X": "1\0"}},
    "a value with half a character": {"headers": {"X": "\ud800"}},
    "a variable with a line": {"headers": {"X": "${BROKEN}"}},
    "a body for get": {"body": "x"},
    "a body that is a number": {"body": 1},
    "an encoding nobody knows": {"body": "x", "encoding": "rot13"},
    "a body that is no base64": {"body": "%", "encoding": "base64"},
    "too many headers": {"headers": {f"X-{number}": "1" for number in range(201)}},
    **{f"the header {name}": {"headers": {name: "1"}} for name in NOT_FOR_TOOLS},
}


@pytest.mark.parametrize("params", BAD_PARAMS.values(), ids=BAD_PARAMS.keys())
def test_wrong_parameters_are_told_and_nothing_is_asked(stage: Stage, params: dict[str, Any]) -> None:
    assert stage.refused("/", **params)[0] == INVALID_PARAMS
    assert (stage.here.heard, stage.log.records) == ([], [])


def test_a_method_that_is_not_served_is_told_so(stage: Stage) -> None:
    assert stage.refused("/", "http.trace")[0] == METHOD_NOT_FOUND


# What is denied


def test_what_the_policy_denies_is_neither_asked_nor_looked_up(stage: Stage) -> None:
    number, said = stage.refused("/admin/x")
    assert (number, "is denied" in said) == (ACCESS_DENIED, True)
    assert stage.refused("/", url="http://secret-words.evil.test/")[0] == ACCESS_DENIED
    assert (stage.here.heard, stage.looked_up) == ([], [])
    assert [outcome for _method, _url, outcome in stage.recorded] == ["deny", "deny"]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "data:text/plain,x", "nonsense", "http://", "http://h\\x/", "//h"]
)
def test_what_names_no_place_is_denied(stage: Stage, url: str) -> None:
    assert stage.refused("/", url=url)[0] == ACCESS_DENIED
    assert stage.log.records[0]["verdict"]["decision"] == "deny"


@pytest.mark.parametrize(
    "url", ["http://u:passw0rd@localhost/", "http://u:pass/w0rd@localhost/", "http://pass w0rd@h/"]
)
def test_a_password_in_a_url_is_refused_and_recorded_nowhere(stage: Stage, url: str) -> None:
    number, said = stage.refused("/", url=url)
    assert number == ACCESS_DENIED
    assert "w0rd" not in f"{said} {stage.log.records}"
    assert stage.here.heard == []


def test_the_sentence_about_a_password_says_what_is_wrong(stage: Stage) -> None:
    assert stage.refused("/", url=f"http://u:p@localhost:{stage.here.port}/")[1] == USERINFO


def test_a_private_address_behind_a_public_name_is_not_dialled(stage: Stage) -> None:
    number, said = stage.refused("/", url=f"http://private.test:{stage.there.port}/")
    assert (number, "private range" in said, stage.there.heard) == (ACCESS_DENIED, True, [])
    assert stage.recorded[-1][2] == "failed: RequestError: request"


def test_a_name_that_leads_elsewhere_the_second_time_is_judged_again(stage: Stage) -> None:
    stage.get("/")
    stage.client.close()
    stage.leads["localhost"] = ["169.254.169.254"]
    assert stage.refused("/")[0] == ACCESS_DENIED


def test_a_server_that_cannot_be_reached_is_an_internal_error(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    stage.rules(("127.0.0.1", port, "/", True))
    said = "127.0.0.1 cannot be reached: Connection refused"
    assert stage.refused("/", url=f"http://127.0.0.1:{port}/") == (INTERNAL_ERROR, said)


# A person is asked


ASKS = f'{TOOL}[[tools.t.access.fs]]\npath = "."\nread = true\n'


def test_a_person_decides_where_the_tool_has_no_network_rules(stage: Stage) -> None:
    stage.scene.say("user", ASKS)
    stage.person = Person(ONCE, NO)
    stage.there.pages["/"] = reply("yes")
    assert stage.get("/", url=stage.other("/"))["body"] == "yes"
    number, said = stage.refused("/", url=stage.other("/"))
    assert (number, "you said no" in said) == (ACCESS_DENIED, True)
    assert len(stage.there.heard) == 1


def test_a_yes_for_a_name_opens_no_private_address(stage: Stage) -> None:
    stage.scene.say("user", ASKS)
    stage.person = Person(ONCE)
    assert stage.refused("/", url=f"http://private.test:{stage.there.port}/")[0] == ACCESS_DENIED
    assert stage.there.heard == []


def test_a_request_that_was_given_up_while_a_person_thought_is_not_made(stage: Stage) -> None:
    turn = Deadline()
    stage.scene.say("user", ASKS)
    stage.person = Person(ONCE, meanwhile=turn.cancel)
    with pytest.raises(RequestError) as caught:
        stage.get("/", turn=turn, url=stage.other("/"))
    assert (caught.value.number, stage.there.heard) == (CANCELLED, [])


# Variables


def test_a_variable_is_filled_in_and_never_comes_back(stage: Stage) -> None:
    stage.here.pages["/echo"] = echo
    assert stage.get("/echo", headers=BEARER)["body"] == "Bearer [REDACTED]"
    assert stage.here.heard[0][2]["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in str(stage.log.records)


ECHOES = {
    "in a header": reply("x", X_Echo=f"a {TOKEN} b"),
    "in a cookie": reply("x", Set_Cookie=f"t={TOKEN}"),
    "in the name of a header": reply("x").replace(b"\r\n\r\n", f"\r\nX-{TOKEN}: 1\r\n\r\n".encode()),
    "in JSON": reply(json.dumps({"t": TOKEN})),
    "in base64": reply(base64.b64encode(TOKEN.encode())),
    "in base64 with a user": reply(base64.b64encode(b"user:" + TOKEN.encode())),
    "in bytes": reply(b"\xff" + TOKEN.encode()),
    "in an error": reply(TOKEN, status=401),
    "in a redirect that is denied": reply(status=302, Location=f"http://{TOKEN}.test/{TOKEN}"),
    "in a redirect that is followed": reply(status=302, Location=f"/x?{TOKEN}"),
    "in a redirect to no scheme": reply(status=302, Location=f"{TOKEN}://x/"),
}


@pytest.mark.parametrize("said", ECHOES.values(), ids=ECHOES.keys())
def test_a_value_that_comes_back_is_taken_out_everywhere(stage: Stage, said: bytes) -> None:
    stage.here.pages["/"] = said
    try:
        result = json.dumps(stage.get("/", headers=BEARER))
    except RequestError as error:
        result = f"{error} {error.data}"
    for before in ("", "user:", "\xff"):
        assert base64.b64encode(before.encode("latin-1") + TOKEN.encode()).decode() not in result
    assert TOKEN not in result


def test_what_was_used_once_is_taken_out_of_later_answers_too(stage: Stage) -> None:
    stage.get("/", headers=BEARER)
    stage.here.pages["/"] = reply(f"still {TOKEN}")
    assert stage.get("/")["body"] == "still [REDACTED]"


def test_a_value_that_is_not_ascii_is_sent_in_utf_8(stage: Stage) -> None:
    stage.here.pages["/"] = lambda _method, headers, _body: reply("x", X_Back=headers["x-a"])
    result = stage.get("/", headers={"X-A": "${UMLAUT}"})
    assert stage.here.heard[0][2]["x-a"] == VARIABLES["UMLAUT"]
    assert result["headers"][1] == {"name": "X-Back", "value": "[REDACTED]"}


@pytest.mark.parametrize(
    ("name", "said"), [("HIDDEN", "may not be used"), ("NO_SUCH", "may not be used"), ("UNSET", "is not set")]
)
def test_a_variable_that_may_not_be_used_is_named(stage: Stage, name: str, said: str) -> None:
    number, problem = stage.refused("/", headers={"X": f"a ${{{name}}}"})
    assert (number, problem) == (ACCESS_DENIED, f"the variable {name} {said}")
    assert stage.here.heard == []


def test_a_variable_is_asked_for_once_in_a_request(stage: Stage) -> None:
    """A person may have to be asked each time."""
    used: list[str] = []

    def may_use(name: str) -> bool:
        used.append(name)
        return True

    stage.may_use = may_use
    stage.get("/", headers={"X-A": "${CASE_TOKEN} ${CASE_TOKEN}", "X-B": "${CASE_TOKEN}"})
    assert used == ["CASE_TOKEN"]


def test_only_whole_names_in_values_are_variables(stage: Stage) -> None:
    plain = "$CASE_TOKEN ${} ${1} ${CASE TOKEN} ${CASE_TOKEN $${CASE"
    stage.here.pages["/?${CASE_TOKEN}"] = reply()
    stage.get("/?${CASE_TOKEN}", "http.post", headers={"X-A": plain}, body="${CASE_TOKEN}")
    _method, path, headers, body = stage.here.heard[0]
    assert (path, headers["x-a"], body) == ("/?${CASE_TOKEN}", plain, b"${CASE_TOKEN}")


# Redirects


def test_redirects_are_followed_and_every_hop_is_judged_and_recorded(stage: Stage) -> None:
    stage.here.pages |= {
        "/a": reply(status=301, Location="b/../c?x=1#y"),
        "/c?x=1": reply(status=302, Location=stage.other("/d")),
    }
    stage.there.pages["/d"] = reply("there")
    result = stage.get("/a")
    assert (result["body"], result["url"]) == ("there", stage.other("/d"))
    hops = [stage.url("/a"), f"{stage.url('/c?x=1')}#y", stage.other("/d")]
    assert stage.recorded == [("GET", hop, outcome) for hop in hops for outcome in ("allow", "done")]


DENIED_HOPS = {
    "another host": "http://evil.test/",
    "another port": "http://localhost:1/",
    "a path that is denied": "/admin",
    "a path that is denied, in disguise": "/x/%2e%2e/admin",
    "a private address": "http://10.0.0.1/",
    "where clouds keep credentials": "http://169.254.169.254/latest/meta-data/",
    "a file": "file:///etc/passwd",
    "data": "data:text/plain,x",
    "a script": "javascript:alert(1)",
    "a password": "http://u:p@localhost:{port}/",
    "a backslash": "http:\\\\evil.test\\",
    "another host without a scheme": "//evil.test/",
    "a host that is not ASCII": "http://ex\u00e4mple.test/",
}


@pytest.mark.parametrize("location", DENIED_HOPS.values(), ids=DENIED_HOPS.keys())
def test_a_redirect_to_what_is_denied_ends_there(stage: Stage, location: str) -> None:
    stage.here.pages["/"] = reply(status=302, Location=location.format(port=stage.here.port))
    assert stage.refused("/")[0] == ACCESS_DENIED
    assert stage.here.asked == ["GET /"]
    assert stage.looked_up == ["localhost"]


def test_a_redirect_to_a_name_that_leads_to_a_private_address_is_not_dialled(stage: Stage) -> None:
    stage.here.pages["/"] = reply(status=307, Location=f"http://private.test:{stage.there.port}/")
    assert stage.refused("/")[0] == ACCESS_DENIED
    assert stage.there.heard == []


@pytest.mark.parametrize("location", ["http://[::1", "http://[bad]/"])
def test_a_redirect_to_nonsense_is_an_error(stage: Stage, location: str) -> None:
    stage.here.pages["/"] = reply(status=302, Location=location)
    assert stage.refused("/")[0] in (INTERNAL_ERROR, ACCESS_DENIED)
    assert len(stage.here.heard) == 1


def test_a_loop_of_redirects_ends(stage: Stage) -> None:
    stage.here.pages |= {"/a": reply(status=302, Location="/b"), "/b": reply(status=302, Location="/a")}
    number, said = stage.refused("/a")
    assert (number, said) == (INTERNAL_ERROR, f"the server redirects more than {MOST} times")
    assert len(stage.here.heard) == MOST + 1


def test_a_redirect_that_says_not_where_is_an_answer(stage: Stage) -> None:
    stage.here.pages |= {
        "/": reply("x", status=302),
        "/n": reply(status=304),
        "/m": reply("y", status=300, Location="/"),
    }
    assert [stage.get(path)["status"] for path in ("/", "/n", "/m")] == [302, 304, 300]


AFTER = {
    (301, "POST"): "GET",
    (302, "POST"): "GET",
    (303, "POST"): "GET",
    (307, "POST"): "POST",
    (308, "POST"): "POST",
    (301, "PUT"): "PUT",
    (302, "DELETE"): "DELETE",
    (303, "PUT"): "GET",
    (303, "HEAD"): "HEAD",
    (307, "GET"): "GET",
}


@pytest.mark.parametrize(("status", "method"), AFTER.keys())
def test_the_method_changes_as_in_browsers(stage: Stage, status: int, method: str) -> None:
    redirect = f"HTTP/1.1 {status} X\r\nLocation: /b\r\n{'' if method == 'HEAD' else 'Content-Length: 0'}\r\n"
    stage.here.pages["/a"] = redirect.replace("\r\n\r\n", "\r\n").encode() + b"\r\n"
    stage.here.pages["/b"] = b"HTTP/1.1 204 X\r\n\r\n"
    sends = method in ("POST", "PUT", "DELETE")
    stage.get("/a", f"http.{method.lower()}", headers={"Content-Type": "a/b"}, body="x" if sends else None)
    after, _path, headers, body = stage.here.heard[1]
    assert after == AFTER[status, method]
    kept = after == method
    assert (body, "content-type" in headers) == (b"x" if sends and kept else b"", kept)
    assert stage.recorded[2][0] == after


SECRETS = {"Authorization": "Bearer mine", "Cookie": "a=b", "X-Key": "k ${CASE_TOKEN}", "X-Open": "seen"}


def secrets_of(headers: dict[str, str]) -> list[str]:
    return [name for name in ("authorization", "cookie", "x-key", "x-open") if name in headers]


def test_secrets_stay_with_their_origin(stage: Stage) -> None:
    stage.here.pages |= {"/a": reply(status=307, Location="/b"), "/b": reply(status=307, Location=stage.other("/c"))}
    stage.there.pages["/c"] = reply(status=307, Location=stage.url("/d"))
    stage.get("/a", "http.post", headers=SECRETS, body="x")
    here = [secrets_of(headers) for _method, _path, headers, _body in stage.here.heard]
    everything = ["authorization", "cookie", "x-key", "x-open"]
    assert here == [everything, everything, ["x-open"]]
    assert [secrets_of(headers) for _method, _path, headers, _body in stage.there.heard] == [["x-open"]]


def test_another_port_is_another_origin(stage: Stage) -> None:
    stage.rules(("localhost", stage.here.port, "/", True), ("localhost", stage.there.port, "/", True))
    stage.here.pages["/"] = reply(status=302, Location=f"http://localhost:{stage.there.port}/")
    stage.get("/", headers=SECRETS)
    assert secrets_of(stage.there.heard[0][2]) == ["x-open"]


# Limits


def test_an_answer_that_is_too_large_names_the_limit(stage: Stage) -> None:
    stage.limit = 10
    stage.here.pages["/"] = reply("x" * 11)
    with pytest.raises(RequestError) as caught:
        stage.get("/")
    assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": 10})
    assert stage.refused("/", "http.post", body="x" * 11)[0] == INVALID_PARAMS


def test_a_turn_that_is_over_asks_nothing(stage: Stage) -> None:
    with pytest.raises(RequestError) as caught:
        stage.get("/", turn=Deadline(deadline=0.0))
    assert (caught.value.number, stage.here.heard) == (TIMED_OUT, [])
    cancelled = Deadline()
    cancelled.cancel()
    with pytest.raises(RequestError) as caught:
        stage.get("/", turn=cancelled)
    assert (caught.value.number, stage.here.heard) == (CANCELLED, [])


def test_a_turn_is_cancelled_while_the_server_thinks(stage: Stage) -> None:
    turn, done = Deadline(), threading.Event()

    def think(_method: str, _headers: dict[str, str], _body: bytes) -> bytes:
        turn.cancel()
        done.wait(PATIENCE)
        return reply()

    stage.here.pages["/"] = think
    with pytest.raises(RequestError) as caught:
        stage.get("/", turn=turn)
    done.set()
    assert caught.value.number == CANCELLED
    assert stage.recorded[-1][2] == "failed: RequestError: request"


def test_a_turn_tells_once_and_at_once() -> None:
    turn, told = Deadline(), list[str]()
    turn.on_cancel(lambda: told.append("first"))
    assert not turn.cancelled
    turn.cancel()
    turn.cancel()
    turn.on_cancel(lambda: told.append("late"))
    assert (turn.cancelled, told) == (True, ["first", "late"])
