"""A confined command reaches the editor as a changed `terminal/create`, and never as a plain one."""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from byleave.acp.confined_terminal import TerminalConfiner, for_eyes
from byleave.errors import StateError
from byleave.policy.dirs import own_command
from byleave.store.tickets import Ticket, issue, new_id, redeem
from byleave.translate.ticketed_command import ticketed_text
from fakes.acp_talk import Talk, answer

POLICY = """
[shell]
[[rules]]
deny = { command = "rm" }
[[rules]]
allow = { command = "ls" }
sandbox = false
[[rules]]
ask = { command = "make" }
[[rules]]
allow = { any_command = true, options = "any" }
sandbox = true
"""


class Confined(Talk):
    """A conversation in which terminals can be confined."""

    def __init__(self, base: Path, policy: str = POLICY, *, problem: str = "", **named: Any) -> None:
        self.environ = named.pop("environ", {"HOME": "/home/u", "BYLEAVE_HOME": "/state"})
        self.problem = problem
        self.start = named.pop("start", ["/usr/bin/python3", "-I", "-S", "/x/byleave/cli/__main__.py"])
        self.base = base
        super().__init__(base, policy, confiner=Later(self), **named)

    def confiner(self) -> TerminalConfiner:
        return TerminalConfiner(
            self.scene.workspace.homes,
            agent="acp",
            profile=None,
            environ=self.environ,
            machine_problem=lambda _policy: self.problem,
            start=self.start,
        )

    def terminal(self, command: str, id_: Any = 1, **params: Any) -> dict[str, Any]:
        given = {"sessionId": "s", "command": command, "cwd": self.root, **params}
        return {"jsonrpc": "2.0", "id": id_, "method": "terminal/create", "params": given}

    def ticket(self, message: dict[str, Any]) -> Ticket:
        words = message["params"]["args"]
        return redeem(self.scene.workspace.homes.workspace(self.root), words[words.index("--ticket") + 1])


class Later:
    """The confiner, once the scene is there that it works in."""

    def __init__(self, talk: Confined) -> None:
        self._talk = talk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._talk.confiner(), name)


@pytest.fixture
def talk(tmp_path: Path) -> Confined:
    return Confined(tmp_path)


def test_a_confined_allow_starts_byleave_with_a_ticket_for_the_text(talk: Confined) -> None:
    request = talk.terminal("npm", args=["run", "a b"], outputByteLimit=1000, _meta={"x": [1.5, None]})
    talk.agent(request)
    [sent] = talk.to_client()
    params = sent["params"]
    assert (sent["id"], sent["method"], params["command"]) == (1, "terminal/create", "/usr/bin/python3")
    assert params["args"][:6] == ["-I", "-S", "/x/byleave/cli/__main__.py", "run", "--root", talk.root]
    assert params["args"][6::2] == ["--ticket", "--shell"]
    kept = {name: params[name] for name in ("sessionId", "cwd", "outputByteLimit", "_meta")}
    assert kept == {name: request["params"][name] for name in kept}
    ticket = talk.ticket(sent)
    assert (ticket.text, ticket.cwd, ticket.root) == ("npm run 'a b'", talk.root, talk.root)
    assert (ticket.session, ticket.agent) == ("s", "acp")
    [record] = talk.records()
    assert record["action"]["command"] == "npm run 'a b'"
    assert record["verdict"]["sandbox"] == {"table": "shell", "required": True}
    assert record["sequence"] == ticket.sequence


def test_a_ticket_is_redeemed_once(talk: Confined) -> None:
    talk.agent(talk.terminal("npm test"))
    [sent] = talk.to_client()
    assert talk.ticket(sent).text == "npm test"
    with pytest.raises(StateError):
        talk.ticket(sent)


def test_a_plain_allow_and_a_policy_without_a_shell_table_change_no_byte(talk: Confined, tmp_path: Path) -> None:
    line = b'{ "jsonrpc":"2.0", "id" : 1,"method":"terminal/create","params":{"sessionId":"s","command":"ls"} }\n'
    talk.agent(line)
    assert talk.heard["client"] == [line]
    (tmp_path / "other").mkdir()
    plain = Confined(tmp_path / "other", "[[rules]]\nallow = { any_command = true }\n")
    plain.agent(line)
    assert plain.heard["client"] == [line]


def test_what_is_denied_stays_denied(talk: Confined) -> None:
    talk.agent(talk.terminal("bash", args=["-c", "ls; rm x"]))
    assert talk.to_client() == []
    assert talk.to_agent()[0]["error"]["code"] == -32001


def test_what_nobody_was_asked_about_runs_confined_all_the_same(talk: Confined) -> None:
    talk.agent(talk.terminal("make"))
    [sent] = talk.to_client()
    assert talk.ticket(sent).text == "make"


def test_after_a_yes_it_runs_confined_and_after_a_no_not_at_all(tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True)
    talk.agent(talk.terminal("make", id_="a"))
    [question] = talk.to_client()
    talk.client(answer("allow", question["id"]))
    [sent] = talk.to_client()
    assert (sent["id"], talk.ticket(sent).text) == ("a", "make")
    talk.agent(talk.terminal("make", id_="b"))
    [question] = talk.to_client()
    talk.client(answer("reject", question["id"]))
    assert talk.to_client() == []


def test_a_machine_that_cannot_confine_asks_where_the_rule_requires_it(tmp_path: Path) -> None:
    talk = Confined(tmp_path, problem="no namespaces", strict=True)
    talk.agent(talk.terminal("npm test"))
    [question] = talk.to_client()
    assert question["method"] == "session/request_permission"
    assert "allowed only in a confined run" in json.dumps(question)


def test_a_permission_request_of_an_agent_that_runs_commands_itself_is_not_answered_by_a_confined_allow(
    talk: Confined,
) -> None:
    request = talk.command("npm test")
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([request], [])


def test_a_directory_outside_of_the_workspace_is_not_confined(tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True)
    for elsewhere in ("/", str(tmp_path), f"{talk.root}/.."):
        talk.agent(talk.terminal("npm test", cwd=elsewhere))
        [question] = talk.to_client()
        assert question["method"] == "session/request_permission"
        talk.client(answer("reject", question["id"]))
        talk.forget()


def test_a_link_out_of_the_workspace_is_no_directory_inside_of_it(tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True)
    (Path(talk.root) / "out").symlink_to("/")
    talk.agent(talk.terminal("npm test", cwd=f"{talk.root}/out"))
    assert talk.to_client()[0]["method"] == "session/request_permission"


def test_variables_reach_the_command_by_the_ticket_and_byleave_only_where_they_change_nothing(talk: Confined) -> None:
    env = {
        "CI": "1",
        "LD_PRELOAD": "./evil.so",
        "PYTHONPATH": "src",
        "BYLEAVE_HOME": "/evil",
        "HOME": "/evil",
        "PATH": "/evil:it's",
        "BASH_ENV": "./evil.sh",
        "ZDOTDIR": "/evil",
    }
    given = [{"name": name, "value": value} for name, value in env.items()]
    talk.agent(talk.terminal("npm", args=["test"], env=given))
    [sent] = talk.to_client()
    kept = {each["name"]: each["value"] for each in sent["params"]["env"]}
    assert kept == {"CI": "1", "HOME": "/home/u", "BYLEAVE_HOME": "/state"}
    text = talk.ticket(sent).text
    assert text.endswith("; npm test")
    assert shlex.split(text.removesuffix("; npm test")) == ["export", *(f"{name}={env[name]}" for name in env)]


@pytest.mark.parametrize(
    "env",
    [
        [{"name": "A B", "value": "1"}],
        [{"name": "x;id", "value": "1"}],
        [{"name": "A", "value": 1}],
        [{"name": "A"}],
        ["A=1"],
        {"A": "1"},
        "A=1",
    ],
)
def test_variables_that_no_shell_can_export_are_not_confined_and_so_not_allowed(env: Any, tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True)
    talk.agent(talk.terminal("npm test", env=env))
    assert all(sent["method"] != "terminal/create" for sent in talk.to_client())


@pytest.mark.parametrize("args", ["-c x", [1], [["a"]], {"a": 1}, 7])
def test_arguments_of_another_shape_are_not_confined_and_so_not_allowed(args: Any, tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True)
    talk.agent(talk.terminal("npm", args=args))
    assert all(sent["method"] != "terminal/create" for sent in talk.to_client())


ODD = [
    "echo 'it''s' \"$HOME\" `id`; curl x | sh",
    "a\\'; touch pwned; '",
    "x\n touch pwned\n",
    "$(touch pwned) `touch pwned` <(touch pwned)",
    "é 中 \u202e !! %d {a,b} ~ * ? [x] # && || & > pwned",
    "'" * 50 + ";touch pwned;",
    "\\" * 51 + "'; touch pwned #",
    "\u2018; touch pwned; \u2019",
]


@pytest.mark.parametrize("text", ODD)
def test_no_editor_that_joins_words_for_a_shell_runs_a_part_of_the_command(text: str, tmp_path: Path) -> None:
    talk = Confined(tmp_path, start=[sys.executable, "-I", "-S"])
    talk.scene.say(
        "user", '[shell]\n[[rules]]\nallow = { any_command = true, options = "any" }\nsandbox = true\nunread = true\n'
    )
    talk.agent(talk.terminal(text))
    [sent] = talk.to_client()
    assert talk.ticket(sent).text == text
    for shell in ("sh", "bash", "zsh", "fish", "dash"):
        words = f"{sys.executable} -c 'import sys; print(len(sys.argv) - 1)' {' '.join(sent['params']['args'])}"
        try:
            done = subprocess.run([shell, "-c", words], capture_output=True, text=True, check=False, cwd=tmp_path)
        except FileNotFoundError:
            continue
        assert done.stdout == f"{len(sent['params']['args'])}\n"
        assert not (tmp_path / "pwned").exists()


def test_what_is_for_eyes_is_short_and_in_quotes() -> None:
    assert for_eyes("npm test") == "'npm test'"
    assert len(for_eyes("x" * 100_000)) < 1100
    assert frozenset(for_eyes("a'b\\c\nd\x1b\u2019")[1:-1]).isdisjoint("'\\\n\x1b\u2019")


def test_a_way_that_a_shell_would_read_is_not_taken(tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True, start=["/opt/$(id)/python", "-I"])
    talk.agent(talk.terminal("npm test"))
    assert talk.to_client()[0]["method"] == "session/request_permission"


def test_a_ticket_that_cannot_be_kept_lets_nothing_start(talk: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object) -> None:
        raise StateError("the disk is full", hint="make room")

    monkeypatch.setattr("byleave.acp.confined_terminal.issue", fail)
    talk.agent(talk.terminal("npm test"))
    assert talk.to_client() == []
    assert "cannot be confined" in talk.to_agent()[0]["error"]["message"]


@pytest.mark.parametrize("id_", ["x", 0, -1, 12345678901234567890, '\u00e9\\"', 1.5])
def test_the_id_stays_as_the_agent_wrote_it(id_: Any, tmp_path: Path) -> None:
    talk = Confined(tmp_path)
    talk.agent(talk.terminal("npm test", id_=id_))
    sent = [*talk.to_client(), *talk.to_agent()]
    assert [each["id"] for each in sent] in ([id_], [])


def test_byleave_outside_asks_and_is_never_confined(tmp_path: Path) -> None:
    talk = Confined(tmp_path, strict=True)
    request = talk.terminal("byleave", args=["outside", "--", "npm", "install"])
    talk.agent(request)
    [question] = talk.to_client()
    assert "it runs outside of the sandbox" in json.dumps(question)
    talk.client(answer("allow", question["id"]))
    assert talk.to_client() == [request]
    talk.agent(talk.terminal("env", args=["byleave", "outside", "--", "npm", "install"], id_=2))
    assert talk.to_agent()[-1]["error"]["code"] == -32001


# A call that the agent's own hook has changed: the proxy decides the command behind the ticket.


def changed_by_hook(talk: Confined, text: str, cwd: str | None = None) -> str:
    ticket = Ticket(
        id=new_id(),
        text=text,
        cwd=cwd or talk.root,
        root=talk.root,
        shell=None,
        agent="claude-code",
        created=time.time(),
    )
    issue(talk.scene.workspace.homes.workspace(talk.root), ticket)
    home = ["--home", talk.scene.workspace.homes.user]
    return ticketed_text(own_command(), ticket.id, [*home, "--root", talk.root], text)


def test_a_call_with_a_ticket_is_decided_by_the_command_behind_it(talk: Confined) -> None:
    talk.agent(talk.command(changed_by_hook(talk, "npm test")))
    assert talk.to_agent() == [answer("yes")]
    assert talk.records()[-1]["action"]["command"] == "npm test"
    talk.agent(talk.command(changed_by_hook(talk, "rm x"), id_=2))
    assert talk.to_agent() == [answer_no(2)]
    request = talk.command(changed_by_hook(talk, "make"), id_=3)
    talk.agent(request)
    assert (talk.to_client(), talk.to_agent()) == ([request], [])


@pytest.mark.parametrize(
    "more", [{"cmd": "rm x"}, {"cmd": "make"}, {"path": "src/x", "changes": {"src/x": {"delete": 1}}}]
)
def test_a_call_that_does_more_than_to_redeem_its_ticket_is_not_the_command_behind_it(
    talk: Confined, more: dict[str, Any]
) -> None:
    raw = {"command": changed_by_hook(talk, "npm test"), **more}
    talk.agent(talk.permission(1, kind="execute", rawInput=raw))
    assert talk.to_agent() != [answer("yes")]


def answer_no(id_: int) -> Any:
    class _No(dict[str, Any]):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, dict) and other["result"]["outcome"] == answer("no", id_)["result"]["outcome"]

        __hash__ = None

    return _No()


def test_a_call_with_a_ticket_of_nobody_is_denied(talk: Confined) -> None:
    text = ticketed_text(["/usr/bin/python3", "-I", "/x/byleave/cli/__main__.py"], "0" * 32, [], "npm test")
    talk.agent(talk.command(text))
    assert talk.to_agent() == [answer_no(1)]


def test_a_call_with_a_ticket_and_something_else_is_decided_by_all_of_it(talk: Confined) -> None:
    text = changed_by_hook(talk, "npm test")
    evil = text.replace(sys.executable, "/tmp/evil/python")
    packages = text.replace("/site-packages", "/site-packages:/tmp/evil")
    for more in (
        f"rm y; {text}",
        f"{text}; rm y",
        f"{text} && curl x | sh",
        f"{text} > made",
        f"{text}x",
        evil,
        packages,
    ):
        talk.agent(talk.command(more))
        assert talk.to_agent() == [answer_no(1)]


def test_a_ticket_of_another_text_decides_nothing(talk: Confined) -> None:
    text = changed_by_hook(talk, "npm test")
    talk.agent(talk.command(text.replace("npm test", "npm run all")))
    assert talk.to_agent() == [answer_no(1)]
