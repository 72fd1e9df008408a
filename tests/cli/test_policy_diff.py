"""`byleave policy diff`: files, directories and revisions; which actions change; what a hostile repository can do."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from command import byleave

OLD = """
[[rules]]
deny = { path = "**/.env" }

[[rules]]
allow = { command = "git", subcommand = "status" }

[tools.t]
source = "local"

[[tools.t.access.fs]]
path = "src"
read = true
"""


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a committed policy."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    (root / "byleave.toml").write_text(OLD)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def diff(root: Path, *words: str, code: int = 0) -> dict[str, Any]:
    done = byleave("policy", "diff", "--json", "--root", str(root), *words)
    assert (done.code, done.err) == (code, "")
    tree: dict[str, Any] = json.loads(done.out)
    return tree


def seen(tree: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(each["family"], each["witness"]["kind"], each["old"], each["new"]) for each in tree["changes"]]


def test_nothing_changes_without_a_change(project: Path) -> None:
    tree = diff(project, "--fail-on", "any")
    assert (tree["changes"], tree["settings"], tree["loosened"], tree["tightened"]) == ([], [], 0, 0)
    assert tree["exact"] == {"fs": True, "net": True, "env": True, "agents": True, "commands": False, "rules": False}
    assert byleave("policy", "diff", "--root", str(project)).out.startswith("nothing changes\n")


def test_the_working_tree_is_compared_with_the_last_commit(project: Path) -> None:
    (project / "byleave.toml").write_text(OLD.replace("read = true", "read = true\nwrite = true"))
    tree = diff(project, "--fail-on", "loosened", code=1)
    kinds = {kind for family, kind, old, new in seen(tree) if (family, old, new) == ("fs", "deny", "allow")}
    assert {"create", "update", "delete", "move"} <= kinds
    assert all(each["witness"]["tool"] == "t" for each in tree["changes"])
    first = next(each for each in tree["changes"] if each["new"] == "allow")
    assert first["old_rule"]["source"] == "git:HEAD:byleave.toml:11"
    assert first["new_rule"] == {
        "rule": "fs src: read+create+update+delete",
        "source": "byleave.toml:11",
        "decision": "allow",
    }


def test_ask_to_allow_comes_first_and_tightened_last(project: Path) -> None:
    rules = '[[rules]]\nallow = { path = "docs/**" }\n' + OLD.replace("**/.env", "**/.env*").replace("read = true", "")
    (project / "byleave.toml").write_text(rules)
    found = seen(diff(project))
    assert found[0][2:] == ("ask", "allow")
    loosened = [("ask", "allow"), ("deny", "ask"), ("deny", "allow")]
    words = [pair[2:] in loosened for pair in found]
    assert words == sorted(words, reverse=True)
    assert ("fs", "read", "allow", "deny") in found


def test_a_command_is_found_by_the_words_of_its_rule(project: Path) -> None:
    (project / "byleave.toml").write_text(OLD.replace('"status"', '["status", "frobnicate"]'))
    tree = diff(project)
    changes = [each for each in tree["changes"] if each["family"] == "rules"]
    assert [(each["witness"]["command"], each["old"], each["new"]) for each in changes] == [
        ("git frobnicate", "ask", "allow")
    ]
    assert tree["exact"]["rules"] is False


def test_a_plain_allow_is_looser_than_a_confined_one(project: Path, tmp_path: Path) -> None:
    shell = '\n[shell]\nconfine = "auto"\n'
    confined, plain = tmp_path / "confined.toml", tmp_path / "plain.toml"
    rule = '[[rules]]\nallow = { command = "make" }\nsandbox = true\n'
    confined.write_text(rule + shell)
    plain.write_text(rule.replace("true", "false") + shell)
    (change, *_) = [each for each in diff(project, str(confined), str(plain))["changes"] if each["family"] == "rules"]
    assert (change["old"], change["new"], change["loosened"]) == ("allow", "allow", True)
    assert change["sandbox"] == {"old": True, "new": False}


LOCAL = '[tools.x]\nsource = "local"\n'
AGENT = '[agents.a]\nallow.servers = ["s"]\n'
SETTINGS: list[tuple[str, str, str, str]] = [
    ('[shell]\nconfine = "require"\n', '[shell]\nconfine = "off"\n', "shell.confine", "yes"),
    ('[shell]\nconfine = "off"\n', "[shell]\n", "shell.confine", "no"),
    ("", '[defaults]\nos_sandbox = "off"\n', "defaults.os_sandbox", "yes"),
    ("strict_links = true\n", "", "strict_links", "yes"),
    ("", '[sandbox]\nread = ["/opt/data"]\n', "sandbox.read", "yes"),
    ('[servers.s]\ncommand = ["a"]\n', '[servers.s]\ncommand = ["b"]\n', "servers.s.command", "perhaps"),
    (f'{LOCAL}run = "ask"\n', f'{LOCAL}run = "unattended"\n', "tools.x.run", "perhaps"),
    ("", "[gateway]\npin_tools = false\n", "gateway.pin_tools", "yes"),
    (AGENT, f'{AGENT}allow.resources.s = ["x"]\n', "agents.a.allow.resources.s", "perhaps"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("old", "new", "name", "loosens"), SETTINGS, ids=[name for _, _, name, _ in SETTINGS])
def test_a_setting_that_loosens_fails_a_check_too(old: str, new: str, name: str, loosens: str, tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(old)
    (tmp_path / "new.toml").write_text(new)
    sides = (str(tmp_path / "old.toml"), str(tmp_path / "new.toml"))
    done = byleave("policy", "diff", "--json", *sides, "--root", str(tmp_path), "--fail-on", "loosened")
    tree = json.loads(done.out)
    expected = {"yes": True, "no": False, "perhaps": None}[loosens]
    assert [(each["setting"], each["loosens"]) for each in tree["settings"]] == [(name, expected)]
    assert done.code == int(tree["loosened"] > 0 or loosens != "no")


def test_a_quiet_check_says_nothing(tmp_path: Path) -> None:
    old, new, _name, _loosens = SETTINGS[0]
    (tmp_path / "old.toml").write_text(old)
    (tmp_path / "new.toml").write_text(new)
    for sides, code in ((("old.toml", "new.toml"), 1), (("new.toml", "old.toml"), 0)):
        paths = [str(tmp_path / name) for name in sides]
        done = byleave("policy", "diff", *paths, "--root", str(tmp_path), "--fail-on", "loosened", "-q")
        assert (done.code, done.out) == (code, "")


def test_a_revision_without_a_policy_is_an_empty_one(project: Path) -> None:
    git(project, "rm", "-q", "--cached", "byleave.toml")
    git(project, "commit", "-qm", "no policy")
    found = seen(diff(project, "git:HEAD", "git:HEAD~1"))
    assert ("fs", "read", "ask", "deny") in found


def test_a_workspace_below_the_top_of_the_repository_is_found_there(project: Path) -> None:
    inner = project / "packages" / "a"
    inner.mkdir(parents=True)
    (inner / "byleave.toml").write_text(OLD)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "inner")
    assert diff(inner)["changes"] == []
    (inner / "byleave.toml").write_text("")
    assert diff(inner)["changes"] != []


def test_two_directories_are_compared_in_one_workspace(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "byleave.toml").write_text(OLD.replace("deny", "ask"))
    assert ("fs", "read", "deny", "ask") in seen(diff(project, str(project), str(other)))


@pytest.mark.parametrize(
    "revision", ["", "-h", "--help", "--output=x", "no-such", "HEAD:byleave.toml", "a\nb", "x" * 999]
)
def test_what_is_no_revision_is_refused(revision: str, project: Path) -> None:
    done = byleave("policy", "diff", f"git:{revision}", "--root", str(project))
    assert (done.code, done.out) == (2, "")
    assert not (project / "x").exists()


def test_a_link_or_a_directory_in_a_revision_is_refused(project: Path) -> None:
    (project / "byleave.toml").unlink()
    (project / "byleave.toml").symlink_to("/etc/passwd")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "link")
    done = byleave("policy", "diff", "git:HEAD", "git:HEAD~1", "--root", str(project))
    assert (done.code, "not a plain file" in done.err) == (2, True)


def test_a_repository_runs_nothing_of_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = project / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {project}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.x.textconv", "filter.x.smudge", "core.editor"):
        git(project, "config", key, str(trap))
    git(project, "config", "core.hooksPath", str(project))
    git(project, "config", "alias.cat-file", f"!{trap}")
    git(project, "config", "remote.origin.url", f"ext::{trap}")
    git(project, "config", "remote.origin.promisor", "true")
    git(project, "config", "core.repositoryFormatVersion", "1")
    git(project, "config", "extensions.partialClone", "origin")
    (project / ".gitattributes").write_text("* diff=x filter=x\n")
    (project / "git").write_text(trap.read_text())
    (project / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{project}:.:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_DIR", str(project / "nowhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap))
    assert diff(project)["changes"] == []
    number = subprocess.run(
        ["git", "rev-parse", "HEAD:byleave.toml"],
        cwd=project, capture_output=True, text=True, check=True,
        env={"PATH": os.defpath, "HOME": str(project)},
    ).stdout.strip()  # fmt: skip
    (project / ".git" / "objects" / number[:2] / number[2:]).unlink()
    assert byleave("policy", "diff", "--root", str(project)).code == 2
    assert not (project / "sprung").exists()


def test_names_from_a_policy_are_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text("")
    (tmp_path / "new.toml").write_text('[[rules]]\nallow = { path = "\\u202Egpj.exe/**" }\n')
    done = byleave("policy", "diff", str(tmp_path / "old.toml"), str(tmp_path / "new.toml"), "--root", str(tmp_path))
    assert (done.code, "\u202e" in done.out, "\\u202e" in done.out.lower()) == (0, False, True)
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_file_that_is_not_there_is_said(project: Path) -> None:
    done = byleave("policy", "diff", "nowhere.toml", "--root", str(project))
    assert (done.code, 'there is no "nowhere.toml"' in done.err) == (2, True)


def test_outside_of_a_repository_a_file_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    done = byleave("policy", "diff", "--root", str(tmp_path))
    assert (done.code, "git:HEAD cannot be read" in done.err) == (2, True)


def test_every_witness_is_decided_here_as_it_says(project: Path, tmp_path: Path) -> None:
    """The disk has directories and links where rules speak of them."""
    for name in ("src/deep", "docs/guide"):
        (project / name).mkdir(parents=True)
    (project / "src" / "link").symlink_to("../docs")
    (project / "file.txt").write_text("")
    new = OLD.replace("read = true", "write = true") + '[[rules]]\nallow = { path = "docs/**" }\n'
    (tmp_path / "new.toml").write_text(new)
    (tmp_path / "old.toml").write_text(OLD)
    sides = [tmp_path / "old.toml", tmp_path / "new.toml"]
    tree = diff(project, *map(str, sides))
    assert tree["loosened"] > 0
    for change in tree["changes"]:
        if "supposes" in change:
            continue
        for side, expected in zip(sides, (change["old"], change["new"]), strict=True):
            line = json.dumps({"id": 1, "root": str(project), "action": change["witness"]})
            done = byleave("check", "--batch", "--policy", str(side), feed=f"{line}\n".encode())
            assert json.loads(done.out)["verdict"]["decision"] == expected, change
