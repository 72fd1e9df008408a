"""What tools tried, or could have tried, to get more than they may. Every hole that was found stays here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command import COMMAND, at_terminal, byleave
from toolhost.workshop import ASKS, LOOK_AROUND, Workshop, asker, told

WRITES = {"path": ".", "read": True, "write": True}
DENIED = -32001


def codes(answers: list[Any]) -> list[int | None]:
    return [answer.get("code") for answer in answers]


def test_a_directory_is_not_moved_away_from_around_a_file_that_a_rule_closes(tmp_path: Path) -> None:
    files = {"ask.py": ASKS, "conf/secret.txt": "TOP", "free/a": "a"}
    rules = [{"deny": {"path": "conf/secret.txt"}}]
    shop = Workshop.build(tmp_path, {"t": asker({"fs": [WRITES]})}, files, rules=rules)
    answers = told(
        shop,
        ("fs.rename", {"from": "conf", "to": "conf2"}),
        ("fs.rename", {"from": "free", "to": "free2"}),
        ("fs.rename", {"from": "free2", "to": "conf/secret.txt/x"}),
    )
    assert codes(answers) == [DENIED, None, DENIED]
    assert sorted(os.listdir(shop.root)) == ["ask.py", "conf", "free2"]


def test_files_are_not_put_below_a_place_that_a_rule_closes_by_moving_their_directory(tmp_path: Path) -> None:
    rules = [{"deny": {"path": "docs/locked/**"}}]
    files = {"ask.py": ASKS, "new/locked/x": "x"}
    shop = Workshop.build(tmp_path, {"t": asker({"fs": [WRITES]})}, files, rules=rules)
    assert codes(told(shop, ("fs.rename", {"from": "new", "to": "docs"}))) == [DENIED]


def test_a_mount_itself_is_neither_moved_nor_replaced(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "target"
    outside.mkdir(parents=True)
    (outside / "f").write_text("x")
    shop = Workshop.build(tmp_path, {"t": asker({"fs": [WRITES]})}, {"ask.py": ASKS, "a": "a"})
    (shop.root / "byleave.toml").write_text((tmp_path / "policy.toml").read_text())
    assert byleave("trust", "--yes", cwd=shop.root).code == 0
    assert byleave("mount", f"t:mnt={outside}:rw", "--yes", cwd=shop.root).code == 0
    do = [("fs.rename", {"from": "mnt", "to": "stolen"}), ("fs.rename", {"from": "mnt/f", "to": "mnt/g"})]
    done = byleave("call", "t", json.dumps({"do": do}), "--json", cwd=shop.root)
    assert codes(json.loads(json.loads(done.out)["content"][0]["text"])) == [DENIED, None]
    assert os.listdir(outside) == ["g"]


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_program_that_the_tool_put_on_the_path_is_not_the_one_that_was_meant(sandbox: str, tmp_path: Path) -> None:
    access = {"fs": [{**WRITES, "execute": True}], "commands": {"uname": {"args": [["-s"]]}}}
    files = {"ask.py": ASKS, "planted": "#!/bin/sh\necho PLANTED\n", "bin/keep": ""}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, files, defaults={"os_sandbox": sandbox})
    path = f"{shop.root}/bin:.::{os.environ['PATH']}"
    answers = told(
        shop,
        ("fs.rename", {"from": "planted", "to": "bin/uname"}),
        ("process.run", {"program": "uname", "args": ["-s"]}),
        env={"PATH": path},
    )
    assert answers[1]["stdout"] == "Linux\n"


def test_an_agent_cannot_bring_a_policy_along(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {}, {}, rules=[{"allow": {"any_command": True}}])
    for command in (
        "byleave call x --policy evil.toml",
        "byleave --policy=evil.toml run -- sh",
        "byleave run --access a -- x",
    ):
        assert byleave("check", "command", command, *shop.flags).code == 20, command
    assert byleave("check", "command", "byleave call t '{}'", *shop.flags).code == 0


def test_below_a_door_nobody_called_it_by_hand(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["echo", "hi"]}}, {})
    words = [*COMMAND, "call", "t", "--json", *shop.flags]
    # A process whose command line is that of a door, and which starts the call.
    door = f"import subprocess; print(subprocess.run({words!r}, capture_output=True, text=True).stdout)"
    script = tmp_path / "byleave"
    script.write_text(door)
    done = subprocess.run([sys.executable, str(script), "acp"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["outcome"] == "error"
    assert shop.call("t").code == 0


@pytest.mark.parametrize("runtime", ["vfs", "stdio"])
def test_what_every_sandbox_may_write_a_mediated_or_describing_tool_may_not(runtime: str, tmp_path: Path) -> None:
    outside = tmp_path / "cache"
    outside.mkdir()
    script = LOOK_AROUND.replace(
        "seen = {}", f"seen = {{}}\ntry: open({str(outside / 'made')!r}, 'w')\nexcept OSError: pass"
    )
    tool = {"runtime": runtime, "command": ["python3", "t.py", "[]"], "format_arguments": True, "run": "ask"}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": script}, sandbox={"write": [str(outside)]})
    with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("or [N]o?")
        terminal.type(b"n\n")
        terminal.ends()
    if runtime == "vfs":
        with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
            terminal.wait_for("or [N]o?")
            terminal.type(b"o\n")
            assert terminal.ends() == 0
    assert os.listdir(outside) == []


def test_without_a_sandbox_no_tool_describes_a_call(tmp_path: Path) -> None:
    tool = {"runtime": "vfs", "command": ["sh", "-c", "echo > made"], "format_arguments": True, "run": "ask"}
    shop = Workshop.build(tmp_path, {"t": tool}, {}, defaults={"os_sandbox": "off"})
    with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("or [N]o?")
        terminal.type(b"n\n")
        terminal.ends()
    assert os.listdir(shop.root) == []


def test_a_call_of_a_tool_that_stays_is_judged_alike_however_it_is_written(tmp_path: Path) -> None:
    run = [{"arg": "/args/path", "prefix": "docs/", "mode": "unattended"}]
    shop = Workshop.build(tmp_path, {"t": asker(stateful=True, run=run)}, {"ask.py": ASKS})
    decoy = shop.outcome("t", json.dumps({"do": [], "args": {"path": "docs/a"}}), "--no-input")
    assert "its run mode is ask" in decoy["message"]
    both = shop.outcome("t", json.dumps({"action": "spawn", "id": "h", "args": {"path": "docs/a"}, "path": "x"}))
    assert "not" in both["message"]


def test_what_is_handed_to_a_tool_that_stays_is_judged_and_recorded(tmp_path: Path) -> None:
    rules = [{"deny": {"call": {"server": "local", "tool": "t", "arg": "/input", "equals": "y"}}}]
    shop = Workshop.build(
        tmp_path, {"t": {"runtime": "vfs", "command": ["sleep", "60"], "stateful": True}}, {}, rules=rules
    )
    asks = [{"action": "spawn", "id": "h"}, {"action": "apply", "id": "h", "input": "y"}]
    done = shop.call("t", "--keep", "--no-input", feed="\n".join(map(json.dumps, asks)).encode())
    assert [json.loads(line)["outcome"] for line in done.out.splitlines()] == ["state", "error"]
    kept = byleave("audit", "export", "--json", "--root", str(shop.root)).out
    decisions = [json.loads(line)["verdict"]["decision"] for line in kept.splitlines()]
    assert decisions == ["allow", "deny"]


def test_a_yes_for_the_session_is_for_the_tool_as_it_was(tmp_path: Path) -> None:
    shop = Workshop.build(
        tmp_path, {"t": {"command": ["./t.sh"], "run": "ask"}}, {"t.sh": "#!/bin/sh\necho harmless\n"}
    )
    with at_terminal("call", "t", *shop.flags, cwd=shop.root) as terminal:
        terminal.wait_for("or [N]o?")
        terminal.type(b"s\n")
        assert terminal.ends() == 0
    assert shop.call("t").out == "harmless\n"
    (shop.root / "t.sh").write_text("#!/bin/sh\necho changed\n")
    assert shop.call("t").code == 1


def test_a_mode_that_has_changed_holds_for_the_next_call(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": {"command": ["sh", "-c", "echo > made"]}}, {})
    policy = tmp_path / "policy.toml"
    process = subprocess.Popen(
        [*COMMAND, "call", "t", "--keep", *shop.flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for change in ("", '"run" = "skip", '):
            policy.write_text(policy.read_text().replace('"source"', f'{change}"source"'))
            process.stdin.write(b"{}\n")
            process.stdin.flush()
            process.stdout.readline()
            if not change:
                (shop.root / "made").unlink()
        process.stdin.close()
    assert os.listdir(shop.root) == []


def test_a_repository_cannot_choose_what_its_tool_sees_by_laying_links(tmp_path: Path) -> None:
    look = ["priv/k", ".env", "linked"]
    tool = {"runtime": "vfs", "command": ["python3", "t.py", json.dumps(look), "linked"]}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": LOOK_AROUND, "priv/k": "SECRET", ".env": "SECRET"})
    (shop.root / "linked").symlink_to("priv/k")
    assert "SECRET" not in json.dumps(shop.outcome("t"))


def test_a_repository_cannot_pass_for_a_virtual_environment(tmp_path: Path) -> None:
    tool = {"runtime": "vfs", "command": [".venv/bin/python3", "t.py", '["priv/k"]']}
    files = {"t.py": LOOK_AROUND, "priv/k": "SECRET", "pyvenv.cfg": "home = /usr/bin\n"}
    shop = Workshop.build(tmp_path, {"t": tool}, files)
    (shop.root / ".venv").symlink_to(".")
    (shop.root / "bin").mkdir()
    (shop.root / "bin" / "python3").symlink_to("/usr/bin/python3")
    assert "SECRET" not in json.dumps(shop.outcome("t"))


def test_a_tool_of_a_virtual_environment_in_the_workspace_runs(tmp_path: Path) -> None:
    tool = {"runtime": "vfs", "command": [".venv/bin/python3", "t.py", '[".venv/pyvenv.cfg"]']}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": LOOK_AROUND})
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(shop.root / ".venv")], check=True)
    assert "home =" in shop.outcome("t")["content"][0]["text"]


def test_what_may_not_be_read_does_not_become_readable_by_moving_it(tmp_path: Path) -> None:
    access = {"fs": [WRITES, {"path": "box", "write": True}]}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, {"ask.py": ASKS, "box/k": "SECRET"})
    answers = told(
        shop,
        ("fs.rename", {"from": "box/k", "to": "k"}),
        ("fs.rename", {"from": "box", "to": "open"}),
        ("fs.rename", {"from": "box/k", "to": "box/l"}),
    )
    assert codes(answers) == [DENIED, DENIED, None]


def test_a_tool_learns_nothing_about_what_it_may_not_read(tmp_path: Path) -> None:
    access = {"fs": [WRITES, {"path": "priv"}, {"path": "key"}, {"path": "nay"}]}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, {"ask.py": ASKS, "priv/key": "SECRET", "key": "SECRET"})
    links = {"all": "/", "to-key": "priv/key", "to-nay": "priv/nay", "out-key": "/etc/passwd", "out-nay": "/etc/nay"}
    for name, leads in links.items():
        (shop.root / name).symlink_to(leads)
    questions = [
        [(method, {**params, name: path}) for path in pair]
        for method, name, params in (
            ("fs.exists", "path", {}),
            ("fs.read", "path", {}),
            ("fs.write", "path", {"content": ""}),
            ("fs.delete", "path", {}),
            ("fs.metadata", "path", {}),
            ("fs.list_dir", "path", {}),
            ("fs.rename", "from", {"to": "x"}),
            ("fs.rename", "to", {"from": "ask.py"}),
        )
        for pair in (
            ("priv/key", "priv/nay"),
            ("priv/key/x", "priv/nay/x"),
            ("all/etc/passwd/x", "all/etc/nay/x"),
            ("all/etc/passwd", "all/etc/nay"),
            *((f"{start}key/{end}", f"{start}nay/{end}") for start in ("", "to-", "out-") for end in ("", "x")),
        )
    ]
    answers = told(shop, *(question for pair in questions for question in pair))
    for (there, nay), pair in zip(zip(answers[::2], answers[1::2], strict=True), questions, strict=True):
        names = [json.dumps(params) for _method, params in pair]
        assert _without(there, names) == _without(nay, names), pair


def test_a_name_that_is_refused_by_its_text_is_refused_for_that(tmp_path: Path) -> None:
    shop = Workshop.build(tmp_path, {"t": asker({"fs": [WRITES]})}, {"ask.py": ASKS})
    names = {
        "a:b": "contains a colon",
        "con": "names a device",
        "a\tb": "control character",
        "n" * 256: "is longer than",
    }
    for method, more in (("fs.write", {"content": ""}), ("fs.read", {}), ("fs.delete", {})):
        answers = told(shop, *((method, {"path": name, **more}) for name in names))
        assert codes(answers) == [DENIED] * len(names)
        for answer, why in zip(answers, names.values(), strict=True):
            assert why in answer["message"], answer
            assert answer["data"]["grants"] == ["."]


def _without(answer: Any, names: list[str]) -> str:
    text = json.dumps(answer)
    for word in ("passwd", "key", "nay"):
        text = text.replace(word, "NAME")
    return text


def test_a_secret_of_several_lines_is_hidden_line_by_line(tmp_path: Path) -> None:
    key = "-----BEGIN KEY-----\nAAAABBBBCCCCDDDD\nEEEEFFFFGGGGHHHH\n-----END KEY-----"
    access = {
        "fs": [{**WRITES, "execute": True}],
        "env": [{"name": "KEY", "substitute": True}],
        "commands": {"sh": {"envs": ["KEY"]}},
    }
    shop = Workshop.build(tmp_path, {"t": asker(access)}, {"ask.py": ASKS})
    answers = told(
        shop,
        (
            "process.run",
            {"program": "sh", "args": ["-c", 'echo "$KEY" > k; echo x > "f-AAAABBBBCCCCDDDD"'], "envs": ["KEY"]},
        ),
        ("fs.grep", {"pattern": "A|E|x"}),
        ("fs.list_dir", {}),
        env={"KEY": key},
    )
    assert "AAAABBBB" not in json.dumps(answers)
    assert "EEEEFFFF" not in json.dumps(answers)


def test_names_that_are_held_for_a_program_are_gone_when_it_is(tmp_path: Path) -> None:
    access = {"fs": [{**WRITES, "execute": True}], "commands": {"true": {}}}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, {"ask.py": ASKS})
    answers = told(shop, ("process.run", {"program": "true"}), ("fs.list_dir", {}))
    assert [entry["path"] for entry in answers[1]["entries"]] == ["ask.py"]


def test_a_file_of_our_own_that_a_command_names_is_not_shown(tmp_path: Path, own_home: Path) -> None:
    state = own_home / "workspaces"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state / "kept").write_text("SECRET")
    tool = {"runtime": "vfs", "command": ["python3", "t.py", json.dumps([str(state / "kept")]), str(state / "kept")]}
    shop = Workshop.build(tmp_path, {"t": tool}, {"t.py": LOOK_AROUND})
    assert "SECRET" not in json.dumps(shop.outcome("t"))


def test_what_a_rule_closes_for_reading_does_not_become_readable_by_moving_its_directory(tmp_path: Path) -> None:
    rules = [{"deny": {"path": "src/in/k.txt", "ops": ["read"]}}]
    files = {"ask.py": ASKS, "src/in/k.txt": "SECRET"}
    shop = Workshop.build(tmp_path, {"t": asker({"fs": [WRITES]})}, files, rules=rules)
    assert codes(told(shop, ("fs.rename", {"from": "src/in", "to": "src/out"}))) == [DENIED]


def test_a_program_behind_a_link_that_the_tool_may_change_is_not_started(tmp_path: Path) -> None:
    access = {
        "fs": [
            {"path": ".", "read": True, "execute": True},
            {"path": "lib", "read": True, "write": True, "execute": True},
        ],
        "commands": {"foo": {}, "bar": {}},
    }
    files = {"ask.py": ASKS, "lib/foo": "#!/bin/sh\necho real\n", "bin/bar": "#!/bin/sh\necho bar\n"}
    shop = Workshop.build(tmp_path, {"t": asker(access)}, files)
    (shop.root / "bin" / "foo").symlink_to("../lib/foo")
    answers = told(
        shop,
        ("process.run", {"program": "foo"}),
        ("process.run", {"program": "bar"}),
        env={"PATH": f"{shop.root}/bin:{os.environ['PATH']}"},
    )
    assert (answers[0]["code"], "where the tool itself may write" in answers[0]["message"]) == (-32002, True)
    assert answers[1]["stdout"] == "bar\n"
