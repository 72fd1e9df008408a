"""What the editor reads for an agent is what the policy decided about, however names on the way are exchanged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakes.acp_talk import Talk, answer

SWAPPER = Path(__file__).parents[1] / "swapper.py"
POLICY = """
[shell]
[[rules]]
deny = { path = "closed/**" }
[[rules]]
allow = { path = "**" }
"""


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    made = Talk(tmp_path, POLICY, strict=True)
    root = Path(made.root)
    (root / "src").mkdir()
    (root / "src" / "file").write_text("open\nlines\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("secret\n")
    (root / "other").symlink_to(tmp_path / "out")
    return made


def reads(talk: Talk, id_: Any = 5, name: str = "src/file", **params: Any) -> dict[str, Any]:
    given = {"sessionId": "s", "path": f"{talk.root}/{name}", **params}
    return {"jsonrpc": "2.0", "id": id_, "method": "fs/read_text_file", "params": given}


def writes(talk: Talk, content: str, id_: Any = 6, name: str = "src/file") -> dict[str, Any]:
    given = {"sessionId": "s", "path": f"{talk.root}/{name}", "content": content}
    return {"jsonrpc": "2.0", "id": id_, "method": "fs/write_text_file", "params": given}


def content(text: str, id_: Any = 5) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": {"content": text}}


def exchange(talk: Talk, *, back: bool = True) -> None:
    """Do what a confined process can do: put a link in the place of a directory, and take it back."""
    root = Path(talk.root)
    (root / "src").rename(root / "aside")
    (root / "src").symlink_to(root / "other")
    if back:
        (root / "src").unlink()
        (root / "aside").rename(root / "src")


def test_what_is_read_while_nothing_changes_passes_byte_for_byte(talk: Talk) -> None:
    request = (
        b'{"jsonrpc":"2.0",  "id":5,"method":"fs/read_text_file","params":'
        + json.dumps(reads(talk)["params"]).encode()
        + b"}\n"
    )
    talk.agent(request)
    assert talk.heard["client"] == [request]
    reply = b'{"jsonrpc":"2.0","id":5,   "result":{"content":"not saved yet"}}\n'
    talk.client(reply)
    assert talk.heard["agent"][-1] == reply


@pytest.mark.parametrize("back", [True, False])
def test_what_may_come_from_another_file_does_not_reach_the_agent(talk: Talk, *, back: bool) -> None:
    talk.agent(reads(talk))
    exchange(talk, back=back)
    talk.forget()
    talk.client(content("secret\n"))
    [reply] = talk.to_agent()
    assert (reply["id"], "content" in json.dumps(reply["error"].get("data", ""))) == (5, False)
    assert "secret" not in json.dumps(reply)
    assert "read it again" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("params", "text"),
    [({}, "open\nlines\n"), ({"line": 2, "limit": 1}, "lines"), ({"line": 1, "limit": 1}, "open\n"), ({"line": 9}, "")],
)
def test_what_stands_at_the_decided_place_passes_though_the_way_changed(
    talk: Talk, params: dict[str, Any], text: str
) -> None:
    talk.agent(reads(talk, **params))
    exchange(talk)
    talk.forget()
    talk.client(content(text))
    assert talk.to_agent() == [content(text)]


def test_an_error_of_the_editor_passes_and_an_answer_is_looked_at_once(talk: Talk) -> None:
    talk.agent(reads(talk))
    exchange(talk)
    talk.forget()
    error = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32002, "message": "not found"}}
    talk.client(error)
    talk.client(content("later"))
    assert talk.to_agent() == [error, content("later")]


def test_an_id_that_is_open_cannot_be_used_for_something_else(talk: Talk) -> None:
    talk.agent(reads(talk))
    talk.forget()
    for method in ("terminal/output", "_x/y", "fs/read_text_file", "session/request_permission"):
        talk.agent({"jsonrpc": "2.0", "id": 5, "method": method, "params": reads(talk)["params"]})
        assert "still open" in talk.to_agent()[0]["error"]["message"]
    assert talk.to_client() == []


def test_after_a_change_during_a_write_byleave_writes_at_the_decided_place(talk: Talk) -> None:
    request = writes(talk, "one")
    talk.agent(request)
    assert talk.to_client() == [request]
    exchange(talk)
    talk.client({"jsonrpc": "2.0", "id": 6, "result": {}})
    assert talk.to_agent() == [{"jsonrpc": "2.0", "id": 6, "result": {}}]
    assert any("byleave writes files itself" in notice for notice in talk.relay.notices())
    talk.agent(writes(talk, "two é\n"))
    talk.agent(writes(talk, "three", id_=7, name="new/deep/file"))
    assert talk.to_client() == []
    assert [reply["result"] for reply in talk.to_agent()] == [{}, {}]
    assert (Path(talk.root) / "src" / "file").read_text() == "two é\n"
    assert (Path(talk.root) / "new" / "deep" / "file").read_text() == "three"
    talk.wait(61)
    talk.agent(writes(talk, "four", id_=8))
    assert len(talk.to_client()) == 1


def test_what_byleave_writes_itself_follows_no_link(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    talk.agent(writes(talk, "one"))
    exchange(talk)
    talk.client({"jsonrpc": "2.0", "id": 6, "result": {}})
    talk.forget()

    from byleave.acp import open_files

    write = open_files._write  # noqa: SLF001 -- the moment between the decision and the opening

    def exchanged_first(*given: Any) -> None:
        exchange(talk, back=False)
        write(*given)

    monkeypatch.setattr(open_files, "_write", exchanged_first)
    talk.agent(writes(talk, "evil"))
    assert "cannot be written" in talk.to_agent()[0]["error"]["message"]
    assert (tmp_path / "out" / "file").read_text() == "secret\n"


def test_without_a_shell_table_every_answer_passes_as_it_did(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\nallow = { path = "**" }\n')
    (Path(talk.root) / "src").mkdir()
    (Path(talk.root) / "other").mkdir()
    talk.agent(reads(talk))
    exchange(talk)
    talk.forget()
    talk.client(content("x"))
    assert talk.to_agent() == [content("x")]


def test_an_agent_in_a_sandbox_reads_through_its_editor_what_the_policy_decided(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[[rules]]\nallow = { path = "**" }\n', sandboxed=True)
    (Path(talk.root) / "src").mkdir()
    (Path(talk.root) / "other").mkdir()
    talk.agent(reads(talk))
    exchange(talk)
    talk.forget()
    talk.client(content("x"))
    assert "error" in talk.to_agent()[0]


def test_a_yes_at_the_editor_is_followed_by_a_look_at_the_way_as_it_is_then(tmp_path: Path) -> None:
    talk = Talk(tmp_path, '[shell]\n[[rules]]\nask = { path = "**" }\n', strict=True)
    root = Path(talk.root)
    (root / "src").mkdir()
    (root / "src" / "file").write_text("open")
    (root / "other").mkdir()
    talk.agent(reads(talk))
    [question] = talk.to_client()
    (root / "unrelated").touch()
    talk.client(answer("allow", question["id"]))
    assert talk.to_client() == [reads(talk)]
    talk.client(content("not saved"))
    assert talk.to_agent() == [content("not saved")]


def test_against_a_process_that_exchanges_names_the_agent_never_reads_what_is_outside(
    talk: Talk, tmp_path: Path
) -> None:
    """An editor that opens the path as it is, beside a process that exchanges a directory and a link all the time."""
    root = Path(talk.root)
    swapper = subprocess.Popen([sys.executable, SWAPPER, root / "src", root / "other"], stdout=subprocess.PIPE)
    assert swapper.stdout is not None
    leaked = 0
    with swapper:
        swapper.stdout.readline()
        for number in range(150):
            talk.agent(reads(talk, id_=number))
            for request in [each for each in talk.to_client() if each["method"] == "fs/read_text_file"]:
                text = Path(request["params"]["path"]).read_text()
                talk.client(content(text, request["id"]))
            leaked += "secret" in json.dumps(talk.to_agent())
        for number in range(150):
            talk.agent(writes(talk, "written by the agent\n", id_=1000 + number))
            talk.forget()
        swapper.kill()
    assert leaked == 0
    assert (tmp_path / "out" / "file").read_text() == "secret\n"
    assert os.path.lexists(root / "src")
