"""`byleave policy test` finds the cases of a project, tries them, and says what is not as expected."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from byleave.cli.output import width_of
from command import COMMAND, at_terminal, byleave, environment

POLICY = """\
[[rules]]
deny = { command = "git", subcommand = "push", flags = ["--force"] }
match = ["git push -f"]
not_match = ["git push"]

[[rules]]
allow = { command = "git", subcommand = ["push", "status"] }
"""
PASSING = '[[case]]\nname = "force"\ncommand = "git push --force"\ndecision = "deny"\n'
FAILING = '\n[[case]]\nname = "status"\ncommand = "git status"\ndecision = "deny"\nrule = "deny *"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "byleave.toml").write_text(POLICY)
    (tmp_path / "a.policy-test.toml").write_text(PASSING)
    return tmp_path


def tried(root: Path, *words: str, code: int = 0) -> dict[str, Any]:
    done = byleave("policy", "test", "--json", *words, cwd=root)
    assert (done.code, done.err) == (code, ""), done
    tree: dict[str, Any] = json.loads(done.out)
    return tree


def test_the_result_has_every_case_and_the_rules_that_decided_none(project: Path) -> None:
    assert tried(project) == {
        "passed": 3,
        "failed": 0,
        "cases": [
            {
                "name": "force",
                "file": "a.policy-test.toml",
                "line": 1,
                "ok": True,
                "expected": "deny",
                "decision": "deny",
                "because": [{"rule": "deny git push --force", "source": "byleave.toml:1", "decision": "deny"}],
            },
            {
                "name": 'match "git push -f"',
                "file": "byleave.toml",
                "line": 3,
                "ok": True,
                "expected": "deny",
                "decision": "deny",
                "because": [{"rule": "deny git push --force", "source": "byleave.toml:1", "decision": "deny"}],
            },
            {
                "name": 'not_match "git push"',
                "file": "byleave.toml",
                "line": 4,
                "ok": True,
                "expected": None,
                "decision": "allow",
                "because": [{"rule": "allow git push|status", "source": "byleave.toml:6", "decision": "allow"}],
            },
        ],
        "coverage": {"rules": 2, "touched": 2, "untouched": []},
    }


def test_a_case_that_fails_shows_what_was_expected_what_was_found_and_the_rule(project: Path) -> None:
    (project / "a.policy-test.toml").write_text(PASSING + FAILING)
    done = byleave("policy", "test", cwd=project)
    assert done.code == 1
    lines = [line.strip() for line in done.out.splitlines()]
    for wanted in (
        "FAIL  status  (a.policy-test.toml:6)",
        "command git status",
        "- decision: deny",
        "+ decision: allow",
        "- rule: deny *",
        "+ rule: allow git push|status (byleave.toml:6)",
        "3 passed, 1 failed; 2 of 2 rules decided a case (100 %)",
    ):
        assert wanted in lines
    tree = tried(project, code=1)
    assert (tree["passed"], tree["failed"]) == (3, 1)
    failed = next(case for case in tree["cases"] if not case["ok"])
    assert (failed["expected"], failed["decision"]) == ("deny", "allow")
    assert [problem["key"] for problem in failed["problems"]] == ["decision", "rule"]


def test_untrusted_project_files_are_read_as_they_are_written(project: Path) -> None:
    (project / "b.policy-test.toml").write_text('[[case]]\ncommand = "git status"\ndecision = "allow"\n')
    assert byleave("check", "command", "git status", "-q", cwd=project).code == 10
    assert tried(project)["failed"] == 0


def test_too_little_coverage_fails_and_says_so(project: Path) -> None:
    (project / "byleave.toml").write_text(POLICY.replace('not_match = ["git push"]\n', ""))
    tree = tried(project, "--min-coverage", "51", code=1)
    assert tree["coverage"]["untouched"] == [{"rule": "allow git push|status", "source": "byleave.toml:5"}]
    assert tried(project, "--min-coverage=50%")["failed"] == 0
    done = byleave("policy", "test", "--min-coverage", "51", cwd=project)
    assert done.code == 1
    assert "--min-coverage wants 51 %, and this is 50.0 %" in done.out


@pytest.mark.parametrize("word", ["-1", "101", "x", "", "1e2", "9" * 20, "."])
def test_a_percentage_that_is_none_is_refused(project: Path, word: str) -> None:
    assert byleave("policy", "test", f"--min-coverage={word}", cwd=project).code == 2


def test_rules_of_the_user_decide_and_are_not_counted_beside_those_of_a_project(project: Path, own_home: Path) -> None:
    (own_home / "config.toml").write_text('[[rules]]\nallow = { command = "make" }\n')
    (project / "b.policy-test.toml").write_text('[[case]]\ncommand = "make"\ndecision = "allow"\n')
    tree = tried(project)
    assert (tree["failed"], tree["coverage"]["rules"]) == (0, 2)


def test_every_broken_file_is_named_and_nothing_passes(project: Path) -> None:
    (project / "b.policy-test.toml").write_text('[[case]]\ncomand = "x"\ndecision = "deny"\n')
    (project / "c.policy-test.toml").write_text('[[case]]\nread = "x"\n')
    done = byleave("policy", "test", cwd=project)
    assert (done.code, done.out) == (2, "")
    assert 'b.policy-test.toml:2: unknown key "comand"' in done.err
    assert "    comand = " in done.err
    assert "    ^^^^^^" in done.err
    assert 'c.policy-test.toml:1: missing key "decision"' in done.err
    assert json.loads(byleave("policy", "test", "--json", cwd=project).out)["error"]["code"] == "config"


def test_a_file_that_is_named_and_not_there_is_an_error(project: Path) -> None:
    assert byleave("policy", "test", "nope.toml", cwd=project).code == 2


def test_files_that_are_named_are_tried_alone_from_the_working_directory(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "other.toml").write_text('[[case]]\ncommand = "git status"\ndecision = "allow"\n')
    done = byleave("policy", "test", "--json", "other.toml", cwd=project / "sub")
    assert json.loads(done.out)["cases"][0]["file"] == "other.toml"


def names_found(root: Path) -> list[str]:
    return sorted({case["file"] for case in tried(root)["cases"]} - {"byleave.toml"})


@pytest.mark.parametrize("with_git", [True, False])
def test_case_files_are_found_below_the_root_but_not_through_links(project: Path, with_git: bool) -> None:  # noqa: FBT001 -- of parametrize
    if with_git:
        subprocess.run(["git", "init", "-q", str(project)], check=True)
        (project / ".gitignore").write_text("ignored/\n")
    for name in ("deep/er/x.policy-test.toml", "ignored/y.policy-test.toml", "odd\x1bname/z.policy-test.toml"):
        (project / name).parent.mkdir(parents=True)
        (project / name).write_text(PASSING)
    (project / "loop").symlink_to(project)
    (project / "link.policy-test.toml").symlink_to(project / "a.policy-test.toml")
    (project / "dir.policy-test.toml").mkdir()
    found = ["a.policy-test.toml", "deep/er/x.policy-test.toml", "odd\x1bname/z.policy-test.toml"]
    assert names_found(project) == sorted(found if with_git else [*found, "ignored/y.policy-test.toml"])
    assert "\x1b" not in byleave("policy", "test", "-v", cwd=project).out


def test_a_program_named_git_in_the_workspace_is_not_started(project: Path) -> None:
    own = project / "bin" / "git"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\ntouch started\n")
    own.chmod(0o755)
    path = f"{own.parent}:{os.environ['PATH']}"
    assert byleave("policy", "test", cwd=project, env={"PATH": path}).code == 0
    assert not (project / "started").exists()


def test_without_any_case_it_says_how_to_begin(tmp_path: Path) -> None:
    done = byleave("policy", "test", "--root", str(tmp_path))
    assert done.code == 0
    assert "byleave init" in done.out


def test_the_junit_report_has_every_case_and_control_characters_are_written_out(project: Path) -> None:
    odd = '[[case]]\nname = "<odd> & \\u001b[31m \\u202e"\ncommand = "git status"\ndecision = "deny"\n'
    (project / "b.policy-test.toml").write_text(odd)
    assert byleave("policy", "test", "--junit", "out.xml", "-q", cwd=project).code == 1
    suites = ET.fromstring((project / "out.xml").read_text())  # noqa: S314 -- our own
    assert (suites.get("tests"), suites.get("failures")) == ("4", "1")
    cases = {case.get("name"): case for case in suites.iter("testcase")}
    failed = cases["<odd> & \\x1b[31m \\u202e"].find("failure")
    assert failed is not None
    assert failed.get("message") == "decision: expected deny, found allow"


def test_a_link_in_the_place_of_the_report_is_replaced_and_not_followed(project: Path) -> None:
    precious = project / "precious"
    precious.write_text("precious")
    (project / "out.xml").symlink_to(precious)
    assert byleave("policy", "test", "--junit", "out.xml", cwd=project).code == 0
    assert (precious.read_text(), (project / "out.xml").is_symlink()) == ("precious", False)


def test_a_report_that_cannot_be_written_is_an_error(project: Path) -> None:
    done = byleave("policy", "test", "--junit", "no/such/out.xml", cwd=project)
    assert done.code == 1
    assert "cannot be written" in done.err
    assert not [name for name in os.listdir(project) if name.startswith(".junit-")]


def test_no_agent_may_run_it(project: Path) -> None:
    done = byleave("check", "command", "byleave policy test", "--json", cwd=project)
    assert json.loads(done.out)["decision"] == "deny"


def test_watching_tries_again_when_a_file_changes_and_ends_with_an_interrupt(project: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "policy", "test", "--watch", "--json"],
        cwd=project,
        env=environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        try:
            assert json.loads(started.stdout.readline())["failed"] == 0
            (project / "a.policy-test.toml").write_text(PASSING + FAILING)
            _until(started, lambda tree: tree.get("failed") == 1)
            (project / "a.policy-test.toml").write_text("[[case]]\n")
            _until(started, lambda tree: "error" in tree)
            (project / "a.policy-test.toml").write_text(PASSING)
            _until(started, lambda tree: tree.get("passed") == 3)
            (project / "byleave.toml").write_text(POLICY.replace("allow =", "ask ="))
            _until(started, lambda tree: tree["cases"][-1]["decision"] == "ask")
            (project / "new.policy-test.toml").write_text(PASSING)
            _until(started, lambda tree: tree.get("passed") == 4)
            started.send_signal(signal.SIGINT)
            assert started.wait(timeout=20) == 0
            assert started.stderr.read() == ""
        finally:
            started.kill()


def _until(started: "subprocess.Popen[str]", wanted: Any) -> None:
    assert started.stdout is not None
    deadline = time.monotonic() + 20
    while not wanted(json.loads(started.stdout.readline())):
        assert time.monotonic() < deadline


def test_a_reader_that_goes_away_ends_watching(project: Path) -> None:
    program = f"{sys.executable} -m byleave policy test --watch | head -1"
    done = subprocess.run(
        ["sh", "-c", program], cwd=project, env=environment(None), capture_output=True, timeout=30, check=True
    )
    assert (done.stderr, len(done.stdout.splitlines())) == (b"", 1)


def test_long_and_wide_names_of_cases_fit_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\nallow = { command = "ls" }\n')
    cases = [("deny", "長い" * 40), ("allow", "many words " * 20)]
    lines = [f'[[case]]\nname = "{name}"\ncommand = "ls"\ndecision = "{decision}"' for decision, name in cases]
    (tmp_path / "a.policy-test.toml").write_text("\n".join(lines))
    with at_terminal("policy", "test", "-v", cwd=tmp_path, columns=80, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.ends() == 1
    rows = terminal.seen.replace("\r", "").split("\n")
    assert "FAIL" in terminal.seen
    assert [row for row in rows if width_of(row) > 80 and not row.startswith("byleave: ")] == []


def test_without_rules_no_share_of_them_is_claimed(tmp_path: Path) -> None:
    done = byleave("policy", "test", cwd=tmp_path)
    assert done.out.splitlines()[-1] == "0 passed, none failed; there are no rules"
