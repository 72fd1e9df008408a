"""A byleave.toml or .byleave that appears below a project moves the root, and takes nothing of the policy away."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from byleave.policy.dirs import UserDirs, find_root
from byleave.policy.load import Workspace
from byleave.store.approvals import now

POLICY = """
[[rules]]
deny = { command = "rm" }
[[rules]]
ask = { command = "git", subcommand = "push" }
[[rules]]
allow = { command = ["git", "ls", "rm"] }
[[rules]]
deny = { path = "secrets/**" }
[[rules]]
deny = { path = "sub/keys/**" }
[[rules]]
deny = { path = "**/.env" }
[[rules]]
allow = { path = "**" }
"""
USER = """
[[rules]]
allow = { any_command = true, options = "any" }
[[rules]]
allow = { path = "**" }
[[rules]]
allow = { path = "/**" }
"""


def homes_in(tmp_path: Path) -> UserDirs:
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / "config/config.toml").write_text(USER)
    (home / "config/config.toml").chmod(0o600)
    return UserDirs(
        str(home / "config"), str(home / "state"), str(home / "cache"), str(home / "managed"), user=str(home / "user")
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "byleave.toml").write_text(POLICY)
    return root


MARKERS = ["sub/.byleave/", "sub/byleave.toml", "sub/.byleave/config.toml"]


def plant(project: Path, marker: str) -> None:
    path = project / marker
    path.parent.mkdir(exist_ok=True)
    if marker.endswith("/"):
        path.mkdir(exist_ok=True)
    else:
        path.write_text("")


@pytest.mark.parametrize("marker", MARKERS)
def test_a_planted_marker_switches_no_deny_and_no_ask_off(marker: str, project: Path, tmp_path: Path) -> None:
    plant(project, marker)
    homes = homes_in(tmp_path)
    root = find_root(str(project / "sub"), homes)
    policy = Workspace(root, homes=homes).load()
    actions = {
        "rm x": {"kind": "command", "command": "rm x"},
        "git push": {"kind": "command", "command": "git push"},
        "git status": {"kind": "command", "command": "git status"},
        "keys": {"kind": "read", "path": "keys/a"},
        "secrets": {"kind": "read", "path": str(project / "secrets/a")},
        ".env": {"kind": "read", "path": "deep/.env"},
        ".env above": {"kind": "read", "path": str(project / ".env")},
        "plain": {"kind": "read", "path": "plain"},
    }
    answers = {name: policy.decide(action).decision.word for name, action in actions.items()}
    assert (root, answers) == (
        str(project / "sub"),
        {
            "rm x": "deny",
            "git push": "ask",
            "git status": "allow",
            "keys": "deny",
            "secrets": "deny",
            ".env": "deny",
            ".env above": "deny",
            "plain": "allow",
        },
    )


def test_a_file_inside_that_the_user_trusts_cannot_undo_what_the_one_around_it_denies(
    project: Path, tmp_path: Path
) -> None:
    (project / "sub/byleave.toml").write_text('[[rules]]\nallow = { command = ["rm", "make"] }\n')
    homes = homes_in(tmp_path)
    (tmp_path / "home/config/config.toml").write_text("")
    workspace = Workspace(str(project / "sub"), homes=homes)
    layer = workspace.files.parse_project_file("byleave.toml", (project / "sub/byleave.toml").read_bytes())
    workspace.approvals.trust(workspace.print_of("byleave.toml", layer.content, layer.tree), now=now())
    policy = workspace.load()
    answers = [policy.decide({"kind": "command", "command": text}).decision.word for text in ("rm x", "make")]
    assert answers == ["deny", "allow"]


def test_what_a_project_closes_to_a_tool_stays_closed_below(project: Path, tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    (tmp_path / "home/config/config.toml").write_text(
        '[tools.t]\nsource = "local"\ncommand = ["true"]\n'
        '[[tools.t.access.fs]]\npath = "."\nread = true\nwrite = true\n'
    )
    (project / "byleave.toml").write_text(
        '[[tools.t.access.fs]]\npath = "."\nread = true\n[[tools.t.access.fs]]\npath = "sub/open"\nwrite = true\n'
        '[[tools.t.access.fs]]\npath = "sub/shut"\n'
    )
    plant(project, "sub/.byleave/")
    policy = Workspace(str(project / "sub"), homes=homes).load()
    asked = [("read", "a"), ("create", "a"), ("create", "open/a"), ("read", "open/a"), ("read", "shut/a")]
    answers = [policy.decide({"kind": kind, "path": path, "tool": "t"}).decision.word for kind, path in asked]
    assert answers == ["allow", "deny", "allow", "deny", "deny"]


def test_a_change_of_the_file_around_is_seen_while_a_policy_is_in_use(project: Path, tmp_path: Path) -> None:
    plant(project, "sub/.byleave/")
    policy = Workspace(str(project / "sub"), homes=homes_in(tmp_path)).load()
    before = policy.decide({"kind": "command", "command": "ls"}).decision.word
    (project / "byleave.toml").write_text('[[rules]]\ndeny = { command = "ls" }\n')
    policy.expire()
    after = policy.decide({"kind": "command", "command": "ls"}).decision.word
    assert (before, after) == ("allow", "deny")


def test_a_hook_that_is_called_in_the_subdirectory_still_denies(project: Path, tmp_path: Path) -> None:
    plant(project, "sub/.byleave/")
    home = tmp_path / "home2"
    home.mkdir()
    event = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "rm x"},
        "cwd": str(project / "sub"),
        "session_id": "s",
    }
    done = subprocess.run(
        [sys.executable, "-m", "byleave", "hook", "claude-code", "--home", str(home)],
        input=json.dumps(event),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize("marker", [".byleave", ".git", "byleave.toml"])
def test_the_home_directory_is_never_found_as_a_root(marker: str, tmp_path: Path) -> None:
    home = tmp_path / "user"
    (home / "work/deep").mkdir(parents=True)
    (home / marker).mkdir() if marker != "byleave.toml" else (home / marker).write_text("")
    homes = UserDirs(str(home / ".byleave"), str(home / ".byleave"), str(home / ".byleave/cache"), user=str(home))
    assert find_root(str(home / "work/deep"), homes) == str(home / "work/deep")


def test_byleaves_own_home_is_no_mark_of_a_project(tmp_path: Path) -> None:
    (tmp_path / "x/.byleave/workspaces").mkdir(parents=True)
    (tmp_path / "x/work").mkdir()
    own = str(tmp_path / "x/.byleave")
    assert find_root(str(tmp_path / "x/work"), UserDirs(own, own, f"{own}/cache", user="/nowhere")) == str(
        tmp_path / "x/work"
    )


def test_a_project_that_holds_byleaves_own_home_is_still_found(tmp_path: Path) -> None:
    base = tmp_path.resolve() / "x"
    (base / ".byleave").mkdir(parents=True)
    (base / "work").mkdir()
    (base / "byleave.toml").write_text("")
    own = str(base / ".byleave")
    assert find_root(str(base / "work"), UserDirs(own, own, f"{own}/cache", user="/nowhere")) == str(base)


def test_files_in_and_above_the_home_directory_say_nothing_about_projects(tmp_path: Path) -> None:
    home = tmp_path / "around/user"
    (home / "work").mkdir(parents=True)
    for place in (home, home.parent):
        (place / "byleave.toml").write_text("[[rules]]\ndeny = { any_command = true }\n")
    homes = homes_in(tmp_path).replace(user=str(home))
    policy = Workspace(str(home / "work"), homes=homes).load()
    assert policy.decide({"kind": "command", "command": "ls"}).decision.word == "allow"


def test_what_a_project_says_of_other_places_closes_this_one_to_its_tools(project: Path, tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    open_ = '[[tools.{0}.access.fs]]\npath = "."\nread = true\n'
    tools = "".join(f'[tools.{name}]\nsource = "local"\n{open_.format(name)}' for name in ("closed", "free"))
    (tmp_path / "home/config/config.toml").write_text(tools)
    (project / "byleave.toml").write_text(
        '[[tools.closed.access.fs]]\npath = "docs"\nread = true\n[[tools.closed.access.fs]]\npath = "../up"\n'
        '[[tools.free.access.env]]\nname = "A"\n'
    )
    plant(project, "sub/.byleave/")
    policy = Workspace(str(project / "sub"), homes=homes).load()
    answers = [policy.decide({"kind": "read", "path": "a", "tool": name}).decision.word for name in ("closed", "free")]
    assert answers == ["deny", "allow"]


def test_what_a_project_denies_its_agents_is_denied_below(project: Path, tmp_path: Path) -> None:
    homes = homes_in(tmp_path)
    (tmp_path / "home/config/config.toml").write_text('[agents.a]\nallow.servers = ["*"]\n')
    (project / "byleave.toml").write_text('[agents.a]\nallow.servers = ["*"]\ndeny.servers = ["db"]\n')
    plant(project, "sub/.byleave/")
    policy = Workspace(str(project / "sub"), homes=homes).load()
    assert [policy.could_call("a", name, None) for name in ("db", "wiki")] == [False, True]
