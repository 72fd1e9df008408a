"""Over the cases of the suite, the service answers exactly as a command that starts by itself."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import amounts
from command import byleave
from service.served import TestService
from stage import Stage, load_cases

FILES = (
    "access.jsonl",
    "access_more.jsonl",
    "command_benign.jsonl",
    "command_bypasses.jsonl",
    "rules.jsonl",
    "context.jsonl",
)
CASES = [case for name in FILES for case in load_cases(name) if "policy" in case and "action" in case]
LINES = [case["command"] for name in ("everyday.jsonl", "harm.jsonl") for case in load_cases(name)]
PLACES = ("read", "create", "update", "delete", "exec")
RULES = """
[shell]
confine = "auto"

[[rules]]
deny = { path = ["**/.env*", "**/*.pem", "~/.ssh/**"] }

[[rules]]
allow = { group = "read_only_git" }

[[rules]]
ask = { group = "remote" }

[[rules]]
allow = { any_command = true }
sandbox = true
"""


def toml(tree: Any) -> str:
    """Return a value as TOML writes it in one line."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(value)}" for name, value in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(toml(each) for each in tree) + "]"
    return json.dumps(tree)


def words_of(action: dict[str, Any]) -> list[str] | None:
    """Return the words that ask about an action; None if they cannot say it."""
    known = {name: action[name] for name in ("tool", "agent", "cwd", "method", "address") if name in action}
    options = [word for name, value in known.items() for word in (f"--{name}", value)]
    said = {"kind", *known}
    match action:
        case {"kind": "command", "command": str(text), **rest} if not rest.keys() - said:
            words = ["command", *options, "--", text]
        case {"kind": "url", "url": str(text), **rest} if not rest.keys() - said:
            words = ["url", *options, "--", text]
        case {"kind": "env", "name": str(text), **rest} if not rest.keys() - said:
            words = ["env", *options, "--", text]
        case {"kind": str(kind), "path": str(text), **rest} if kind in PLACES and not rest.keys() - said:
            words = [kind, *options, "--", text]
        case _:
            return None
    return words if all("\0" not in word and word.isprintable() for word in words) else None


def answers(running: TestService, words: list[str], root: Path) -> tuple[object, object]:
    env = {"HOME": str(root.parent), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    alone = byleave(*words, cwd=root, env={**dict.fromkeys(os.environ), **env})
    served = running.ask(*running.cold(*words), cwd=root, env=env)
    return (served.code, served.out, served.err), (alone.code, alone.out, alone.err)


@pytest.mark.parametrize("part", range(5))
def test_every_case_is_answered_the_same(part: int, running: TestService, tmp_path: Path) -> None:
    chosen = amounts.some(CASES[part::5], every=25)
    asked = 0
    for number, case in enumerate(chosen):
        (tmp_path / str(number)).mkdir()
        scene = Stage.build(tmp_path / str(number), case.get("root_setup") or {})
        filled = scene.fill(case)
        words = words_of(filled["action"])
        if words is None:
            continue
        policy = tmp_path / f"{number}.toml"
        policy.write_text("".join(f"{json.dumps(name)} = {toml(value)}\n" for name, value in filled["policy"].items()))
        served, alone = answers(running, ["check", "--json", "--policy", str(policy), *words], scene.root)
        assert served == alone, case["id"]
        asked += 1
    assert asked > 0


def test_lines_of_agents_are_answered_the_same_by_a_policy_that_is_kept(running: TestService, tmp_path: Path) -> None:
    root = (tmp_path / "ws").resolve()
    config = tmp_path / ".config" / "byleave"
    for directory in (config.parent, config, root, root / "src"):
        directory.mkdir(mode=0o700)
    (config / "config.toml").write_text(RULES)
    (root / ".env").write_text("KEY=1")
    for line in amounts.some(LINES, every=20):
        if "\0" not in line:
            served, alone = answers(running, ["check", "--json", "command", "--", line], root)
            if "/proc/*" not in line:  # what is said of that names whichever processes there are
                assert served == alone, line
