"""`byleave check ... --add` writes the rule that it suggests: shown first, after consent, and only if it decides."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from byleave.policy.load import compile_policy
from byleave.service.protocol import is_served
from command import at_terminal, byleave, environment


def rules(home: Path) -> str:
    file = home / "config.toml"
    return file.read_text() if file.exists() else ""


def test_the_rule_is_shown_written_and_decides(tmp_path: Path, own_home: Path) -> None:
    done = byleave("check", "command", "make test", "--add", "--yes", cwd=tmp_path)
    assert done.code == 0
    assert f"{own_home}/config.toml would get:" in done.out
    assert '+ allow = { command = "make", args = ["test"] }' in done.out
    assert 'allow = { command = "make", args = ["test"] }' in rules(own_home)
    assert byleave("check", "command", "make test", cwd=tmp_path).code == 0
    assert byleave("check", "command", "make all", cwd=tmp_path).code == 10
    listed = json.loads(byleave("audit", "export", "--json", cwd=tmp_path).out.splitlines()[-1])
    assert (listed["event"], listed["answer"]["by"]) == ("approval", "--yes")


def test_it_is_added_behind_what_the_file_says_already(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('# mine\n[[rules]]\ndeny = { command = "rm" }')
    assert byleave("check", "read", "a.txt", "--add", "--yes", cwd=tmp_path).code == 0
    added = '[[rules]]\nallow = { path = "a.txt", ops = ["read"] }\n'
    assert rules(own_home) == f'# mine\n[[rules]]\ndeny = {{ command = "rm" }}\n\n{added}'


@pytest.mark.parametrize("words", [(), ("--json",), ("--no-input",)])
def test_without_consent_nothing_is_written(words: tuple[str, ...], tmp_path: Path, own_home: Path) -> None:
    done = byleave("check", "command", "make test", "--add", *words, cwd=tmp_path)
    assert (done.code, rules(own_home)) == (10, "")


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_a_person_is_asked_at_the_terminal(typed: bytes, code: int, tmp_path: Path, own_home: Path) -> None:
    with at_terminal("check", "command", "make test", "--add", cwd=tmp_path) as terminal:
        terminal.wait_for("Add this rule? [y/N]")
        terminal.type(typed)
        assert terminal.ends() == code
    assert ("make" in rules(own_home)) is (code == 0)


def test_programs_are_told_what_was_added(tmp_path: Path, own_home: Path) -> None:
    tree = json.loads(byleave("check", "command", "make test", "--add", "--yes", "--json", cwd=tmp_path).out)
    assert (tree["decision"], tree["added"]["file"]) == ("ask", f"{own_home}/config.toml")
    assert tree["added"]["rule"] == tree["suggestion"]
    again = json.loads(byleave("check", "command", "make test", "--add", "--yes", "--json", cwd=tmp_path).out)
    assert (again["decision"], again["added"]) == ("allow", None)
    assert rules(own_home).count("make") == 1


def test_a_rule_that_would_not_decide_is_not_written_and_that_is_said(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\nask = { command = "make" }\n')
    done = byleave("check", "command", "make test", "--add", "--yes", cwd=tmp_path)
    assert (done.code, rules(own_home)) == (10, "")
    assert "nothing is written: " in done.out


def test_what_runs_a_script_gets_no_rule(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "x.sh").write_text("ls\n")
    done = byleave("check", "command", "sh x.sh", "--add", "--yes", cwd=tmp_path)
    assert (done.code, rules(own_home)) == (10, "")
    assert "a rule does not know what is in that" in " ".join(done.out.split())


def test_a_deny_stays_a_deny(tmp_path: Path, own_home: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\ndeny = { command = "make" }\n')
    done = byleave("check", "command", "make test", "--add", "--yes", cwd=tmp_path)
    assert (done.code, rules(own_home)) == (20, "")


def test_a_file_with_an_error_is_left_as_it_is(tmp_path: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text("[[rules]\n")
    done = byleave("check", "command", "make test", "--add", "--yes", cwd=tmp_path)
    assert (done.code, rules(own_home)) == (2, "[[rules]\n")


def test_it_goes_neither_with_a_batch_nor_with_files_that_leave_out_the_own_one(tmp_path: Path) -> None:
    assert byleave("check", "--batch", "--add", cwd=tmp_path).code == 2
    (tmp_path / "p.toml").write_text("")
    done = byleave("check", "command", "ls", "--add", "--yes", "--policy", "p.toml", cwd=tmp_path)
    assert done.code == 2


@pytest.mark.parametrize(
    "line",
    [
        "byleave check command 'make test' --add --yes",
        "byleave check read x --add",
        "env byleave check read x --add --yes",
        "sh -c 'byleave check read x --add --yes'",
        "byleave check $X",
        "byleave check read x --add <<(",
    ],
)
def test_no_agent_has_a_rule_added(line: str, tmp_path: Path) -> None:
    policy = compile_policy({"rules": [{"allow": {"any_command": True, "options": "any"}}]}, root=str(tmp_path))
    assert policy.decide({"kind": "command", "command": line}).decision.word == "deny"
    assert policy.decide({"kind": "command", "command": "byleave check read x --address 1"}).allowed


def test_below_a_hook_or_a_sandbox_there_is_no_consent(tmp_path: Path, own_home: Path) -> None:
    inner = f"{sys.executable} -m byleave check command ls --add --yes"
    script = tmp_path / "byleave"
    script.write_text(f"import subprocess, sys\nsys.exit(subprocess.call({inner.split()!r}))\n")
    done = subprocess.run(
        [sys.executable, str(script), "hook"], cwd=tmp_path, env=environment(None), capture_output=True, check=False
    )
    assert (done.returncode, rules(own_home)) == (2, "")
    assert b"an agent or tool may have started this command" in done.stderr


def test_the_service_does_not_answer_it() -> None:
    assert not is_served(["check", "command", "ls", "--add", "--yes"])
    assert is_served(["check", "url", "https://x", "--address", "127.0.0.1"])


def test_an_ask_names_the_rule_that_is_nearest_to_allowing_it(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('[[rules]]\nallow = { command = "git", subcommand = "log" }\n')
    words = ("check", "command", "git log --output=x", "--policy", "p.toml")
    done = byleave(*words, cwd=tmp_path)
    assert done.code == 10
    assert "  nearest: `allow git log` (p.toml:1) would allow it, but it has --output\n" in done.out
    tree = json.loads(byleave(*words, "--json", cwd=tmp_path).out)
    assert tree["nearest"] == {"rule": "allow git log", "source": "p.toml:1", "but": "it has --output"}
    other = json.loads(byleave("check", "command", "ls", "--policy", "p.toml", "--json", cwd=tmp_path).out)
    assert other["nearest"] is None
    allowed = json.loads(byleave("check", "command", "git log", "--policy", "p.toml", "--json", cwd=tmp_path).out)
    assert "nearest" not in allowed
