"""A verdict names what decided first, whatever made it stricter, and a denied file action says where it is granted."""

import json
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.decision import verdict_tree
from command import byleave as byleave_command
from stage import load_cases

ALLOW_GIT = {"allow": {"command": "git"}}
# The rules, the action, and the beginning of what decides first.
CAUTIONS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "a variable that changes what runs": (
        [ALLOW_GIT],
        {"kind": "command", "command": "LD_PRELOAD=/tmp/e.so git status"},
        "caution: the variable LD_PRELOAD",
    ),
    "an option that is not known to be harmless": (
        [ALLOW_GIT],
        {"kind": "command", "command": "git -c core.pager=evil log"},
        "caution: no rule names -c",
    ),
    "a command that may be what a rule denies": (
        [{"deny": {"command": "rm"}}, {"allow": {"operation": "execute"}}],
        {"kind": "command", "command": '"$X" -rf src'},
        "deny rm",
    ),
    "a line that is not understood": (
        [{"allow": {"operation": "execute"}}],
        {"kind": "command", "command": "git status 'x"},
        "a command that is not understood needs approval",
    ),
    "a protected place that a command writes": (
        [{"allow": {"command": "cp"}}],
        {"kind": "command", "command": "cp a .git/config"},
        "protected place .git/config",
    ),
    "a protected place behind a redirection": (
        [{"allow": {"command": "echo"}}, {"allow": {"path": "**"}}],
        {"kind": "command", "command": "echo x > .git/config"},
        "protected place .git/config",
    ),
    "a name known only at run time": (
        [{"allow": {"command": "cp"}}],
        {"kind": "command", "command": "cp -- a $(date)"},
        "names known only at run time",
    ),
    "a protected file": (
        [{"allow": {"path": "**"}}],
        {"kind": "update", "path": ".git/config"},
        "protected place .git/config",
    ),
    "byleave's own command": (
        [{"allow": {"operation": "execute"}}],
        {"kind": "command", "command": "byleave trust"},
        "byleave guards itself",
    ),
    "a rule that holds only in a confined run": (
        [{"allow": {"command": "make"}, "sandbox": True}],
        {"kind": "command", "command": "make"},
        "a command that is allowed confined needs approval elsewhere",
    ),
}


def judged(root: Path, policy: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
    verdict = byleave.compile_policy(policy, root=str(root)).decide(action)
    tree: dict[str, Any] = json.loads(json.dumps(verdict_tree(verdict)))
    return tree


@pytest.mark.parametrize(("rules", "action", "first"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_a_caution_that_turns_an_allow_into_something_stricter_is_named_first(
    rules: list[dict[str, Any]], action: dict[str, Any], first: str, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    verdict = judged(tmp_path, {"rules": rules}, action)
    because = verdict["because"]
    assert because[0]["rule"].startswith(first)
    assert (because[0]["decision"], verdict["decision"] != "allow") == (verdict["decision"], True)


def cases() -> list[dict[str, Any]]:
    names = ("rules.jsonl", "access.jsonl", "access_more.jsonl", "command_bypasses.jsonl", "command_benign.jsonl")
    return [case for name in names for case in load_cases(name) if isinstance(case.get("policy"), dict)]


@pytest.mark.long
def test_every_verdict_of_the_cases_names_first_what_decided_and_every_denied_file_where_it_is_granted(
    tmp_path: Path,
) -> None:
    wrong, seen = [], 0
    for case in cases():
        try:
            verdict = judged(tmp_path, case["policy"], case["action"])
        except (byleave.ConfigErrors, byleave.ByleaveError):
            continue
        seen += 1
        if verdict["because"][0]["decision"] != verdict["decision"]:
            wrong.append((case.get("id"), verdict["because"]))
        if verdict["decision"] == "deny" and case["action"]["kind"] in FILES and "grants" not in verdict:
            wrong.append((case.get("id"), verdict["reason"]))
    assert (wrong, seen > 300) == ([], True)


FILES = ("read", "create", "update", "delete", "exec", "move", "search")
DENIED: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "read", "path": "other/f", "tool": "t"}, ["src"]),
    ({"kind": "read", "path": "/etc/passwd", "tool": "t"}, ["src"]),
    ({"kind": "read", "path": "../x", "tool": "t"}, ["src"]),
    ({"kind": "read", "path": "src/out/x", "tool": "t"}, ["src"]),
    ({"kind": "read", "path": "src/loop", "tool": "t"}, ["src"]),
    ({"kind": "update", "path": "src/f", "tool": "t"}, []),
    ({"kind": "update", "path": "byleave.toml", "tool": "all"}, []),
    ({"kind": "update", "path": ".git/config", "tool": "all"}, ["."]),
    ({"kind": "move", "path": "src/f", "to": "src/g", "tool": "t"}, []),
    ({"kind": "delete", "path": "way", "tool": "led"}, ["."]),
    ({"kind": "move", "path": "src/f", "to": "way", "tool": "led"}, ["."]),
    ({"kind": "search", "path": "other", "tool": "t"}, ["src"]),
    ({"kind": "read", "path": "src/f", "tool": "off"}, []),
    ({"kind": "read", "path": "secret/f"}, ["src/**", "docs/*.md"]),
    ({"kind": "search", "path": "secret"}, ["src/**", "docs/*.md"]),
    ({"kind": "delete", "path": "secret/f"}, ["src/**"]),
    ({"kind": "update", "path": "byleave.toml"}, []),
    ({"kind": "read", "path": "loop"}, ["src/**", "docs/*.md"]),
]
POLICY: dict[str, Any] = {
    "tools": {
        "t": {"source": "local", "access": {"fs": [{"path": "src", "read": True}]}},
        "all": {"source": "local", "access": {"fs": [{"path": ".", "read": True, "write": True}]}},
        "led": {
            "source": "local",
            "access": {"fs": [{"path": ".", "read": True, "write": True}, {"path": "way/in", "read": True}]},
        },
        "off": {"source": "local", "enable": False, "access": {"fs": [{"path": "src", "read": True}]}},
    },
    "rules": [
        {"deny": {"path": "secret/**"}},
        {"allow": {"path": "src/**"}},
        {"allow": {"path": "docs/*.md", "ops": ["read"]}},
    ],
}


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    for name in ("src", "other", "secret", ".git"):
        (tmp_path / name).mkdir()
    (tmp_path / "src/f").touch()
    (tmp_path / "secret/f").touch()
    (tmp_path / "src/out").symlink_to("/usr")
    (tmp_path / "way").symlink_to("other")
    for name in ("loop", "src/loop"):
        (tmp_path / name).symlink_to("loop")
    return tmp_path


@pytest.mark.parametrize(("action", "grants"), DENIED, ids=lambda value: json.dumps(value)[:60])
def test_a_denied_file_action_names_where_it_is_granted(
    action: dict[str, Any], grants: list[str], ground: Path
) -> None:
    verdict = judged(ground, POLICY, action)
    assert (verdict["decision"], verdict["grants"]) == ("deny", grants)


def test_a_no_of_a_person_and_a_record_that_fails_name_where_it_is_granted_as_well(
    ground: Path, own_home: Path
) -> None:
    (own_home / "config").mkdir()
    (ground / "byleave.toml").write_text('[[rules]]\nallow = { path = "src/**" }\n')
    assert byleave_command("trust", "--yes", "byleave.toml", cwd=ground).code == 0
    with byleave.open_guard(str(ground), door="test") as guard:
        asked = guard.check({"kind": "read", "path": "other/f"})
        assert (asked.verdict.decision.word, asked.verdict.grants) == ("deny", ("src/**",))
        for file in own_home.rglob("audit.*"):
            file.unlink()
        lost = guard.check({"kind": "read", "path": "src/f"})
        assert (lost.verdict.code, lost.verdict.grants) == ("io", ("src/**",))


def test_the_context_of_a_tool_names_where_it_is_granted(ground: Path) -> None:
    from byleave.sdk import Context, FsAccessError

    for access, grants in (({"fs": [{"path": "src", "read": True}]}, ("src",)), (None, (".",))):
        context = Context.from_tree({"root": str(ground), "access": access}) if access else Context(str(ground))
        with pytest.raises(FsAccessError) as raised:
            context.check_read("../x")
        assert raised.value.grants == grants
