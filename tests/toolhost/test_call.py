"""`byleave call`, as people use it: modes, questions, answers, what a tool sees, what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from command import at_terminal, byleave
from toolhost.workshop import LOOK_AROUND, Workshop

ECHO = {"command": ["printf", "%s", "{{tool}}"]}
WRITE = {"command": ["sh", "-c", "echo x > made; echo done"]}
ASKING = """#!/bin/sh
read -r line
case "$line" in
  *'"answers":{"sure":"yes"}'*) echo '{"content": "did it"}' ;;
  *'"answers":{"sure":"again"}'*) echo '{"content": [{"type": "question", "id": "sure", "text": "Again?"}]}' ;;
  *) echo '{"content": [{"type": "text", "text": "before"}, {"type": "question", "id": "sure", "text": "Really?"}]}' ;;
esac
"""
READER = {"runtime": "vfs", "command": ["byleave-tool", "fs_read_file"]}


def test_a_plain_tool_gets_its_arguments_and_its_words_are_the_result(tmp_path: Path) -> None:
    done = Workshop.build(tmp_path, {"t": ECHO}, {}).call("t", '{"a": "b c"}')
    assert json.loads(done.out) == {"name": "t", "arguments": {"a": "b c"}, "answers": {}, "options": {}}


def test_options_and_answers_reach_the_tool(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {**ECHO, "options": {"style": "short"}}}, {})
    told = json.loads(shop.call("t", "--answer", "sure=yes", "--answer", "n=a=b").out)
    assert (told["options"], told["answers"]) == ({"style": "short"}, {"sure": "yes", "n": "a=b"})


def test_a_mediated_tool_sees_nothing_of_the_workspace_but_its_own_files(tmp_path: Path) -> None:
    looked = ["a.txt", ".", "src", "tools", "tools/look.py", "tools/other.py"]
    tool = {"runtime": "vfs", "command": ["python3", "tools/look.py", json.dumps(looked)]}
    files = {"tools/look.py": LOOK_AROUND, "tools/other.py": "secret", "a.txt": "secret", "src/b": "secret"}
    shop = Workshop.build(tmp_path, {"t": tool}, files)
    outcome = shop.outcome("t")
    seen = json.loads(outcome["content"][0]["text"])
    assert seen["tools/look.py"] == LOOK_AROUND
    assert {seen[name] for name in ("a.txt", "tools/other.py")} <= {"PermissionError", "FileNotFoundError"}
    assert "secret" not in json.dumps([value for name, value in seen.items() if name != "tools/look.py"])


def test_a_script_outside_the_workspace_that_the_command_names_can_be_run(tmp_path: Path) -> None:
    script = tmp_path / "look.py"
    script.write_text(LOOK_AROUND)
    tool = {"runtime": "vfs", "command": ["python3", str(script), json.dumps([str(tmp_path)])]}
    shop = Workshop.build(tmp_path, {"t": tool}, {})
    (tmp_path / "beside").write_text("secret")
    seen = json.loads(shop.outcome("t")["content"][0]["text"])
    assert "beside" not in seen[str(tmp_path)]


def test_a_mediated_tool_gets_the_variables_that_a_rule_lets_it_read_and_no_others(tmp_path: Path) -> None:
    script = LOOK_AROUND.replace("for name in json.loads(sys.argv[1]):", "seen = dict(os.environ)\nfor name in []:")
    rules = [{"name": "SHOWN", "read": True}, {"name": "USED", "substitute": True}]
    tool = {"runtime": "vfs", "command": ["python3", "t.py"], "access": {"env": rules}}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": script})
    outcome = shop.outcome("t", env={"SHOWN": "1", "USED": "2", "HIDDEN": "3"})
    seen = json.loads(outcome["content"][0]["text"])
    assert {name: seen.get(name) for name in ("SHOWN", "USED", "HIDDEN")} == {
        "SHOWN": "1",
        "USED": None,
        "HIDDEN": None,
    }


def test_a_question_without_anybody_to_ask_is_an_outcome(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["./ask.sh"]}}, {"ask.sh": ASKING})
    done = shop.call("t", "--json")
    before = [{"type": "text", "text": "before"}]
    assert json.loads(done.out) == {
        "outcome": "needs_input",
        "question": {"id": "sure", "text": "Really?"},
        "content": before,
    }
    assert done.code == 10


def test_an_answer_given_beforehand_is_used(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["./ask.sh"]}}, {"ask.sh": ASKING})
    assert shop.call("t", "--answer", "sure=yes").out == "did it\n"


def test_a_tool_that_asks_what_was_answered_does_not_go_in_circles(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["./ask.sh"]}}, {"ask.sh": ASKING})
    assert shop.call("t", "--answer", "sure=again").code == 10


def test_at_a_terminal_the_person_answers_and_the_tool_is_run_again(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["./ask.sh"]}}, {"ask.sh": ASKING})
    with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("Really?")
        terminal.type(b"yes\n")
        assert terminal.ends() == 0
    assert "did it" in terminal.seen


def test_a_tool_that_is_asked_about_runs_after_a_yes_and_not_without(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {**WRITE, "run": "ask"}}, {})
    assert shop.call("t").code == 1
    assert not (shop.root / "made").exists()
    for keys, code in ((b"n\n", 1), (b"o\n", 0)):
        with at_terminal("call", "t", '{"why": "because"}', *shop.flags, cwd=shop.root) as terminal:
            terminal.wait_for("or [N]o?")
            terminal.type(keys)
            assert terminal.ends() == code
        assert "because" in terminal.seen
        assert (shop.root / "made").exists() == (code == 0)


def test_a_yes_for_the_session_is_remembered(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {**WRITE, "run": "ask"}}, {})
    with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("or [N]o?")
        terminal.type(b"s\n")
        assert terminal.ends() == 0
    assert shop.call("t").code == 0
    assert shop.call("t", '{"other": 1}').code == 1


def test_the_tool_says_itself_what_a_call_would_do_before_anybody_agrees(tmp_path: Path) -> None:
    tool = {
        "runtime": "vfs",
        "run": "ask",
        "command": ["byleave-tool", "fs_delete_file"],
        "access": {"fs": [{"path": ".", "read": True, "write": True}]},
    }
    shop = Workshop.build(tmp_path, {"t": tool}, {"a.txt": "x"})
    with at_terminal("call", "t", '{"path": "a.txt"}', *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("in the tool's own words:")
        terminal.wait_for("or [N]o?")
        assert (shop.root / "a.txt").exists()
        terminal.type(b"o\n")
        assert terminal.ends() == 0
    assert not (shop.root / "a.txt").exists()


@pytest.mark.parametrize("runtime", ["vfs", "stdio"])
def test_a_tool_that_describes_a_call_can_change_nothing(runtime: str, tmp_path: Path) -> None:
    script = """
import json, os, sys
first = json.loads(sys.stdin.readline())
def say(tree): sys.stdout.write(json.dumps(tree) + "\\n"); sys.stdout.flush()
try:
    open("made-directly", "w").close()
except OSError:
    pass
if "jsonrpc" in first:
    say({"jsonrpc": "2.0", "id": 1, "method": "fs.write", "params": {"path": "made", "content": "x"}})
    answer = json.loads(sys.stdin.readline())
    say({"jsonrpc": "2.0", "method": "result", "params": {"content": "described " + str(answer["error"]["code"])}})
else:
    say({"content": "described " + first["context"]["action"]})
"""
    tool = {
        "runtime": runtime,
        "run": "ask",
        "command": ["python3", "t.py"],
        "format_arguments": True,
        "access": {"fs": [{"path": ".", "read": True, "write": True}]},
    }
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": script})
    with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("or [N]o?")
        terminal.type(b"n\n")
        assert terminal.ends() == 1
    assert ("described -32001" if runtime == "vfs" else "described format_arguments") in terminal.seen
    assert sorted(os.listdir(shop.root)) == ["t.py"]


def test_a_tool_that_is_skipped_does_not_run(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {**WRITE, "run": "skip"}}, {})
    outcome = shop.outcome("t")
    assert outcome["outcome"] == "completed"
    assert "skipped" in outcome["content"][0]["text"]
    assert not (shop.root / "made").exists()


def test_arguments_can_be_edited_before_the_call(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {**ECHO, "run": "edit"}}, {})
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\necho \'{"edited": true}\' > "$1"\n')
    editor.chmod(0o755)
    with at_terminal("call", "t", "{}", *shop.flags, cwd=shop.root, env={"EDITOR": str(editor)}) as terminal:
        assert terminal.ends() == 0
    assert '"edited":true' in terminal.seen
    assert "call it at a terminal" in shop.call("t").err


def test_modes_may_depend_on_the_arguments(tmp_path: Path) -> None:
    run = [{"arg": "/path", "prefix": "docs/", "mode": "unattended"}]
    shop = Workshop.build(tmp_path, {"t": {**ECHO, "run": run}}, {})
    assert [shop.call("t", json.dumps({"path": path})).code for path in ("docs/a", "src/a")] == [0, 1]


def test_a_rule_speaks_about_calls_of_local_tools_too(tmp_path: Path) -> None:
    rules = [{"deny": {"call": {"server": "local", "tool": "t", "arg": "/sql", "regex": "(?i)drop"}}}]
    shop = Workshop.build(tmp_path, {"t": ECHO}, {}, rules=rules)
    assert [shop.call("t", json.dumps({"sql": sql})).code for sql in ("select", "DROP")] == [0, 1]


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no such tool": (("nobody",), "no tool named"),
    "a disabled tool": (("off",), "is disabled"),
    "a tool of a server": (("theirs",), "its source is"),
    "arguments that are no JSON": (("t", "{"), "not JSON"),
    "arguments that are a list": (("t", "[]"), "not a JSON object"),
    "an answer without a name": (("t", "--answer", "=x"), "is not an answer"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_called_is_said(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    tools: dict[str, Any] = {
        "t": ECHO,
        "off": {**ECHO, "enable": False},
        "theirs": {"source": "mcp.github"},
    }
    done = Workshop.build(tmp_path, tools, {}).call(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_program_that_is_not_there_is_an_outcome(tmp_path: Path) -> None:
    tools: dict[str, Any] = {
        "vfs": {"runtime": "vfs", "command": ["no-such-program"]},
        "stdio": {"command": ["no-such-program"]},
    }
    shop = Workshop.build(tmp_path, tools, {})
    for name in tools:
        assert "was not found" in shop.outcome(name)["message"]


def test_arguments_too_long_for_a_command_line_are_said(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": ECHO}, {})
    done = shop.call("t", "--keep", feed=json.dumps({"a": "x" * 200_000}).encode())
    assert "too long" in json.loads(done.out)["message"]


def test_kept_calls_are_answered_line_by_line(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["echo", "hi"]}}, {})
    done = shop.call("t", "{}", "--keep", feed=b"{}\nnot json\n[]\n\n{}")
    hi = {"outcome": "completed", "content": [{"type": "text", "text": "hi\n"}]}
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [answers[number] for number in (0, 1, 4)] == [hi, hi, hi]
    assert [answers[number]["outcome"] for number in (2, 3)] == ["error", "error"]


def test_without_a_sandbox_tools_run_and_that_is_said(tmp_path: Path) -> None:
    tools: dict[str, Any] = {"r": READER, "e": ECHO}
    shop = Workshop.build(tmp_path, tools, {"a.txt": "hello\n"}, defaults={"os_sandbox": "off"})
    done = shop.call("r", '{"path": "a.txt"}')
    assert done.out.startswith("hello\n")
    assert "os_sandbox is off" in done.err
    assert shop.call("e").code == 0


def test_a_mediated_tool_reads_through_a_mount(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("from outside\n")
    shop = Workshop.build(tmp_path, {"r": READER}, {})
    (shop.root / "byleave.toml").write_text((tmp_path / "policy.toml").read_text())
    assert byleave("trust", "--yes", cwd=shop.root).code == 0
    assert byleave("mount", f"r:fork={outside}", "--yes", cwd=shop.root).code == 0
    done = byleave("call", "r", '{"path": "fork/f.txt"}', cwd=shop.root)
    assert done.out.startswith("from outside\n"), done.err


def test_the_schema_of_a_tool_that_stays_has_one_variant_for_each_action(tmp_path: Path) -> None:
    parameters = {"type": "object", "properties": {"mode": {"type": "string"}}}
    tool = {**READER, "stateful": True, "actions": ["spawn", "fetch"], "parameters": parameters}
    schema = json.loads(Workshop.build(tmp_path, {"t": tool}, {}).call("t", "--schema").out)
    assert [variant["properties"]["action"] for variant in schema["oneOf"]] == [{"const": "spawn"}, {"const": "fetch"}]
    assert schema["oneOf"][0]["properties"]["args"] == parameters


def test_a_plain_tool_may_start_what_is_listed_for_it(tmp_path: Path) -> None:
    access = {"fs": [{"path": ".", "read": True, "execute": True}], "commands": {"uname": {}}}
    tool = {"command": ["sh", "-c", "uname; id || echo no id"], "access": access}
    assert Workshop.build(tmp_path, {"t": tool}, {}).call("t").out == "Linux\nno id\n"


@pytest.mark.parametrize("command", [["sh", "tools/t.sh"], ["tools/t.sh"]])
def test_a_plain_tool_can_read_its_own_script_and_nothing_beside_it(command: list[str], tmp_path: Path) -> None:
    files = {"tools/t.sh": "#!/bin/sh\ncat tools/other || echo started\n", "tools/other": "secret", "src/a": "a"}
    tool = {"command": command, "access": {"fs": [{"path": "src", "read": True}]}}
    assert Workshop.build(tmp_path, {"t": tool}, files).call("t").out == "started\n"


def test_a_tool_that_waits_gets_the_answer_that_was_given_beforehand(tmp_path: Path) -> None:
    script = """
read -r init
echo '{"jsonrpc": "2.0", "method": "state", "params": {"type": "waiting", "question": {"id": "q", "text": "Sure?"}}}'
read -r answer
case "$answer" in *'"input":"yes"'*) result="did it" ;; *) result="did not" ;; esac
printf '{"jsonrpc": "2.0", "method": "state", "params": {"type": "stopped", "result": "%s"}}\\n' "$result"
"""
    tool = {"runtime": "vfs", "stateful": True, "command": ["sh", "t.sh"]}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.sh": script})
    assert shop.call("t", "--answer", "q=yes").out == "did it\n"
    assert shop.call("t").code == 10


def test_a_mediated_tool_that_only_prints_is_told_apart(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"runtime": "vfs", "command": ["echo", "hello"]}}, {})
    assert 'it wrote a line that is no message: "hello"' in shop.outcome("t")["message"]


def test_a_tool_that_waits_for_trust_is_not_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[tools.t]\nsource = "local"\ncommand = ["true"]\n')
    for words in (("call", "t"), ("run", "--tool", "t", "--", "true")):
        done = byleave(*words, cwd=tmp_path)
        assert (done.code, "which is not trusted" in done.err) == (2, True)
