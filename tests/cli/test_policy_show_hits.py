"""`byleave policy show` says how often each rule decided something, and when it did last."""

import json
from pathlib import Path
from typing import Any

from byleave.core.action import parse_action
from byleave.guard.evaluation import Who
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from command import byleave

POLICY = """\
[[rules]]
allow = { command = "git", subcommand = "status" }

[[rules]]
deny = { command = "rm" }

[tools.reader]
source = "local"
runtime = "vfs"

[[tools.reader.access.fs]]
path = "src"
read = true

[agents.backend]
allow.servers = ["db", "web"]

[servers.db]
command = ["db-server"]

[servers.web]
command = ["web-server"]
"""


def in_effect(root: Path, text: str = POLICY) -> None:
    (root / "byleave.toml").write_text(text)
    assert byleave("trust", "--yes", "-q", cwd=root).code == 0


def decide(root: Path, *actions: dict[str, Any]) -> None:
    with guard_for(Workspace(str(root)), "hook", client_approves=None) as guard:
        for action in actions:
            guard.check(parse_action(action), Who(action.get("agent"), "verified"))


def shown(root: Path) -> dict[str, Any]:
    done = byleave("policy", "show", "--json", cwd=root)
    assert (done.code, done.err) == (0, "")
    tree: dict[str, Any] = json.loads(done.out)
    return tree


def test_every_rule_has_its_hits_and_the_time_of_the_last(tmp_path: Path) -> None:
    in_effect(tmp_path)
    status = {"kind": "command", "command": "git status"}
    decide(tmp_path, status, status, {"kind": "read", "path": "src/a", "tool": "reader"})
    decide(tmp_path, {"kind": "call", "server": "db", "tool": "q", "agent": "backend"})
    tree = shown(tmp_path)
    assert [(rule["rule"], rule["hits"]) for rule in tree["rules"]] == [("allow git status", 2), ("deny rm", 0)]
    assert tree["rules"][0]["last"].endswith("Z")
    assert tree["rules"][1]["last"] is None
    assert [(rule["rule"], rule["hits"]) for rule in tree["tools"]["reader"]["access"]["fs"]] == [("src: read", 1)]
    entries = [(entry["rule"].rpartition(" ")[2], entry["hits"]) for entry in tree["agents"]["backend"]["entries"]]
    assert entries == [('"db"', 1), ('"web"', 0)]


def test_hits_stay_with_a_rule_that_has_moved(tmp_path: Path) -> None:
    in_effect(tmp_path)
    decide(tmp_path, {"kind": "command", "command": "git status"})
    in_effect(tmp_path, "# more lines\n\n" + POLICY)
    rule = shown(tmp_path)["rules"][0]
    assert (rule["source"], rule["hits"]) == ("byleave.toml:3", 1)


def test_what_was_never_used_stands_out_once_anything_was_decided(tmp_path: Path) -> None:
    in_effect(tmp_path)
    assert "never used" not in byleave("policy", "show", cwd=tmp_path).out
    decide(tmp_path, {"kind": "command", "command": "git status"})
    lines = byleave("policy", "show", cwd=tmp_path).out.splitlines()
    assert any(line.endswith("never used") for line in lines if "deny rm" in line)
    assert any("used once, last 20" in line for line in lines if "allow git status" in line)


def test_a_damaged_log_does_not_hide_the_policy(tmp_path: Path, own_home: Path) -> None:
    in_effect(tmp_path)
    decide(tmp_path, {"kind": "command", "command": "git status"})
    byleave("audit", "list", cwd=tmp_path)
    (table,) = own_home.glob("workspaces/*/audit.db")
    table.write_bytes(b"x" * 5000)
    done = byleave("policy", "show", cwd=tmp_path)
    assert done.code == 0
    assert "deny rm" in done.out
    assert "warning" in done.err
