"""The harness: the real policy, methods and bytes, with files in memory, and servers and programs that are made up."""

from typing import Any

import pytest

from byleave.core.action import CommandAction
from byleave.core.decision import DENY
from byleave.net.http_client import HttpRequest
from byleave.protocol.json_codec import PLAIN
from byleave.sdk import vfs
from byleave.sdk.testing import Harness, HarnessHost, Outcome, RecordedRequest, World
from byleave.sdk.vfs import Host
from byleave.toolhost.codec import TOOLS
from byleave.workspace.in_memory import ProjectInMemory
from protocol.vfs_cases import Case, load_conversations

FILES: dict[str, str | bytes] = {"src/a.rs": "fn main() {}\n", "img.bin": b"\xff\x00", ".env": "TOKEN=x\n"}


def text_of(harness: Harness, function: Any, **options: Any) -> str:
    return harness.call(function, **options).text


def refused(function: Any) -> Any:
    """Return a tool that says how it was refused."""

    def tool(host: Host) -> str:
        with pytest.raises(vfs.VfsError) as caught:
            function(host)
        return f"{type(caught.value).__name__}: {caught.value}"

    return tool


def test_without_access_a_tool_reads_and_does_nothing_else() -> None:
    harness = Harness(FILES)
    assert text_of(harness, lambda host: host.read("src/a.rs")) == "fn main() {}\n"
    for change in (
        lambda host: host.write("new", "x"),
        lambda host: host.delete("src/a.rs"),
        lambda host: host.rename("src/a.rs", "b"),
        lambda host: host.run("ls"),
        lambda host: host.http.get("https://example.com/"),
    ):
        assert text_of(harness, refused(change)).startswith("AccessDenied: ")
    assert harness.files == FILES


def test_with_all_access_a_tool_changes_files_and_they_stay_changed() -> None:
    harness = Harness(FILES, access="all")

    def change(host: Host) -> str:
        host.write("deep/er/new.txt", "x", exclusive=True)
        host.rename("src/a.rs", "b.rs")
        host.delete(".env")
        return str(host.list_dir().entries)

    harness.call(change)
    assert harness.files == {"b.rs": "fn main() {}\n", "deep/er/new.txt": "x", "img.bin": b"\xff\x00"}
    assert text_of(harness, lambda host: host.read("deep/er/new.txt")) == "x"


def test_access_is_judged_by_the_real_rules() -> None:
    rules = [{"path": ".", "read": True, "write": True}, {"path": ".env"}, {"path": "src", "read": True}]
    harness = Harness(FILES, access={"fs": rules})
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.read(".env")))
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.write("src/a.rs", "x")))
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.read("../outside")))
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.write(".git/hooks/x", "x")))
    listed = harness.call(lambda host: repr(host.list_dir(".")))
    assert listed.text == repr(vfs.Listing((vfs.Entry("img.bin", "file"), vfs.Entry("src", "dir")), 1))


def test_what_needs_approval_is_refused_as_no_person_ever_replies() -> None:
    world = World(ProjectInMemory({}), None, {}, {}, {})
    guard = HarnessHost(world, {"name": "t"}, "call", (), None).guard
    evaluation = guard.check(CommandAction("git push"))
    assert (evaluation.verdict.decision, evaluation.allowed, guard.troubles) == (DENY, False, [])


def test_access_that_no_configuration_could_hold_is_an_error_of_the_test() -> None:
    with pytest.raises(ExceptionGroup):
        Harness(access={"fs": [{"path": "/etc"}]}).call(lambda host: host.read("x"))
    with pytest.raises(ValueError, match='"all"'):
        Harness(access="everything")


def test_errors_have_the_codes_of_the_real_host() -> None:
    harness = Harness(FILES, access="all")
    assert "NotFound" in text_of(harness, refused(lambda host: host.read("none")))
    assert "AlreadyExists" in text_of(harness, refused(lambda host: host.write("img.bin", "", exclusive=True)))
    assert "NotText" in text_of(harness, refused(lambda host: host.read("img.bin")))
    assert "InvalidParams" in text_of(harness, refused(lambda host: host.grep("(")))
    assert "MethodNotFound" in text_of(harness, refused(lambda host: host.call(("fs.explode", {}))))
    assert "TooLarge" in text_of(harness, refused(lambda host: host.write("x", "y" * (11 << 20))))


def test_requests_are_kept_as_they_were_made() -> None:
    harness = Harness(FILES)
    harness.call(lambda host: str(host.exists("x")) + host.read("src/a.rs"))
    assert harness.requests == [
        RecordedRequest("fs.exists", {"path": "x"}),
        RecordedRequest("fs.read", {"path": "src/a.rs"}),
    ]


def test_servers_are_made_up_and_rules_for_them_are_not() -> None:
    def echo(ask: HttpRequest) -> vfs.HttpReply:
        return vfs.HttpReply(201, f"{ask.method} {dict(ask.headers).get('Authorization')} {ask.body!r}")

    pages: dict[str, Any] = {"https://api.example.com/echo": echo, "https://api.example.com/page": "hello"}
    harness = Harness(http=pages, access="all", env={"API_TOKEN": "hunter2-4711"})
    reply = harness.call(lambda host: repr(host.http.get("https://api.example.com/page")))
    assert "status=200, body='hello'" in reply.text
    headers = {"Authorization": "Bearer ${API_TOKEN}"}
    posted = harness.call(lambda host: str(host.http.post("https://api.example.com/echo", "b", headers).body))
    assert posted.text == "POST Bearer [REDACTED] b'b'"
    elsewhere = text_of(harness, refused(lambda host: host.http.get("https://example.org/")))
    assert elsewhere.startswith("AccessDenied")
    unknown = text_of(harness, refused(lambda host: host.http.get("https://api.example.com/none")))
    assert "the harness has no reply for" in unknown


def test_programs_are_made_up_and_rules_for_them_are_not() -> None:
    programs: dict[str, Any] = {"echo": " ".join, "false": vfs.Completed("", "no", 1), "git": "never"}
    access = {"commands": {"echo": {}, "false": {}, "git": {"args": [["status"]]}}}
    harness = Harness(programs=programs, access=access)
    assert harness.call(lambda host: repr(host.run("echo", ["a", "b"]))).text == repr(vfs.Completed("a b", "", 0))
    assert harness.call(lambda host: repr(host.run("false"))).text == repr(vfs.Completed("", "no", 1))
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.run("git", ["push"])))
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.run("ls")))
    assert "AccessDenied" in text_of(harness, refused(lambda host: host.run("./echo")))


def test_answers_and_options_reach_the_tool_and_a_question_ends_the_call() -> None:
    def tool(host: Host) -> str:
        return f"{host.ask('sure', 'Sure?', default='no')} {host.options['loud']}"

    asked = Harness(options={"loud": True}).call(tool)
    assert asked.tree == {"outcome": "needs_input", "question": {"id": "sure", "text": "Sure?", "default": "no"}}
    assert (asked.kind, asked.question) == ("needs_input", {"id": "sure", "text": "Sure?", "default": "no"})
    assert Harness(options={"loud": True}, answers={"sure": "yes"}).call(tool).text == "yes True"


def test_a_tool_that_waits_for_nothing_fails_the_test_and_does_not_hang() -> None:
    with pytest.raises(AssertionError, match="waits for input that never comes"):
        Harness().call(lambda host: host.next_input())


def test_a_tool_that_ends_without_a_result_has_failed() -> None:
    assert Harness().call(lambda _host: None).tree == {
        "outcome": "error",
        "message": "the tool ended without a result",
        "trace": [],
        "transient": False,
    }


def test_what_a_plain_function_raises_is_raised() -> None:
    with pytest.raises(vfs.NotFound):
        Harness().call(lambda host: host.read("none"))


def test_a_tool_that_is_cancelled_can_tidy_up() -> None:
    harness = Harness({"a": "1"}, access="all")

    def tool(host: Host) -> str:
        try:
            host.write("a", "2")
        except vfs.Cancelled:
            host.write("a", "1")
            return f"put back; {host.cancelled}"
        return "written"

    assert harness.call(tool, cancel_at=1) == Outcome({"outcome": "cancelled"})
    assert harness.files == {"a": "1"}


# The others need real programs, a real server or `byleave call --keep`: tests/toolhost/test_vfs_cases.py plays all.
ALONE = [case for case in load_conversations() if case.name not in ("10-process", "11-http", "15-stateful")]


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.name)
def test_the_recorded_conversations_are_answered_as_recorded(case: Case) -> None:
    """Speak a case's own lines to the host of the harness, and compare what it says, up to what is free."""
    harness = Harness(case.about["files"], access=case.about["access"])
    expected = [line for to, line in case.said if to == "tool"][1:]

    def speak(host: Host) -> None:
        wire = host._talk.wire  # noqa: SLF001 -- the very bytes are what this is about
        wire.send(case.bytes_to("host"))
        for line in expected:
            assert told(TOOLS.decode(wire.receive(0) or b"")) == told(line)

    outcome = harness.call(speak)
    assert outcome.tree == case.outcome
    assert PLAIN.decode(TOOLS.encode(outcome.tree)) == outcome.tree


def told(line: dict[str, Any]) -> Any:
    """Return what is not free in an answer: its id, its code, the values of its result."""
    if "error" in line:
        return line["id"], line["error"]["code"]
    result = dict(line["result"])
    result.pop("modified", None)
    if "entries" in result:
        result["entries"] = sorted(result["entries"], key=lambda entry: str(entry["path"]))
    return line["id"], result
