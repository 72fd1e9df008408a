"""`byleave policy import`: the permissions of an agent as rules, stricter where they cannot be the same."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from command import byleave

CLAUDE = {
    "permissions": {
        "allow": ["Bash(npm run test:*)", "Bash(git * main)", "WebSearch"],
        "ask": ["Bash(git push:*)"],
        "deny": ["Bash(rm:*)", "Read(./.env)"],
    }
}


@pytest.fixture
def home(own_home: Path) -> Path:
    (own_home / ".claude").mkdir()
    (own_home / ".claude/settings.json").write_text(json.dumps(CLAUDE))
    return own_home


def test_what_is_carried_over_and_what_is_lost_is_said(home: Path, tmp_path: Path) -> None:
    done = byleave("policy", "import", "claude-code", "--json", cwd=tmp_path)
    found = json.loads(done.out)
    assert (done.code, set(found), found["carried"]) == (0, {"toml", "carried", "lost"}, 4)
    assert [(each["text"], set(each)) for each in found["lost"]] == [
        ("Bash(git * main)", {"source", "text", "why"}),
        ("WebSearch", {"source", "text", "why"}),
    ]
    rules = tomllib.loads(found["toml"])["rules"]
    assert [next(iter(rule)) for rule in rules] == ["deny", "deny", "ask", "allow"]
    assert {rule[next(iter(rule))]["agent"] for rule in rules} == {"claude-code"}


def test_the_text_is_a_file_that_byleave_reads(home: Path, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(byleave("policy", "import", "claude-code", cwd=tmp_path).out)
    lines = {"rm x": 20, "npm run test -- -x": 0, "git push": 10, "git checkout main": 10, "cat .env": 20}
    check = ("check", "command", "--policy", "p.toml", "--agent", "claude-code")
    assert {line: byleave(*check, line, cwd=tmp_path).code for line in lines} == lines


def test_a_file_is_read_in_the_place_of_the_users_own(home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"permissions": {"allow": ["Bash(ls:*)"]}}')
    (tmp_path / "b.json").write_text('{"permissions": {"allow": ["Bash(pwd)"]}}')
    done = byleave("policy", "import", "claude-code", "a.json", "b.json", "--json", cwd=tmp_path)
    assert json.loads(done.out)["carried"] == 2
    assert byleave("policy", "import", "claude-code", "c.json", cwd=tmp_path).code == 2
    (tmp_path / "a.json").write_text("{")
    assert byleave("policy", "import", "claude-code", "a.json", cwd=tmp_path).code == 2


def test_writing_keeps_what_is_there_and_needs_consent(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.toml"
    target.write_text('[[rules]]\nallow = { command = "ls" }\n')
    words = ("policy", "import", "claude-code", "--write", "mine.toml")
    unasked = byleave(*words, cwd=tmp_path)
    assert (unasked.code, target.read_text().count("[[rules]]")) == (10, 1)
    assert byleave(*words, "--yes", cwd=tmp_path).code == 0
    written = target.read_text()
    assert (written.startswith('[[rules]]\nallow = { command = "ls" }\n'), written.count("[[rules]]")) == (True, 5)
    assert byleave(*words, "--yes", cwd=tmp_path).code == 0
    assert target.read_text() == written


def test_a_file_that_would_have_an_error_is_left_alone(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.toml"
    target.write_text("rules = []\n")
    done = byleave("policy", "import", "claude-code", "--write", "mine.toml", "--yes", cwd=tmp_path)
    assert (done.code, target.read_text()) == (2, "rules = []\n")


def test_modes_of_codex_are_named_as_lost(own_home: Path, tmp_path: Path) -> None:
    (own_home / ".codex/rules").mkdir(parents=True)
    (own_home / ".codex/config.toml").write_text('approval_policy = "never"\n')
    (own_home / ".codex/rules/a.rules").write_text('prefix_rule(pattern=["rm"], decision="forbidden")\n')
    found = json.loads(byleave("policy", "import", "codex", "--json", cwd=tmp_path).out)
    assert (found["carried"], [each["text"] for each in found["lost"]]) == (1, ["approval_policy = never"])


def test_an_agent_without_permissions_has_none(tmp_path: Path) -> None:
    found = json.loads(byleave("policy", "import", "cursor", "--json", cwd=tmp_path).out)
    assert found == {"toml": "", "carried": 0, "lost": []}


def personal(root: Path) -> Path:
    file = root / ".claude/settings.local.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"permissions": {"allow": ["Bash(ls:*)"]}}')
    return file


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def test_a_personal_file_of_the_project_holds_in_the_project(own_home: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "README").write_text("x")
    git(tmp_path, "add", "README")
    personal(tmp_path)
    rules = tomllib.loads(json.loads(byleave("policy", "import", "claude-code", "--json", cwd=tmp_path).out)["toml"])
    assert rules["rules"][0]["allow"]["within"] == str(tmp_path.resolve())


@pytest.mark.parametrize("how", ["tracked", "packed index", "no repository"])
def test_a_personal_file_that_may_have_come_with_the_project_is_not_imported(
    how: str, own_home: Path, tmp_path: Path
) -> None:
    file = personal(tmp_path)
    if how != "no repository":
        git(tmp_path, "init", "-q")
        git(tmp_path, "add", "-f", str(file))
    if how == "packed index":
        git(tmp_path, "update-index", "--index-version", "4")
    found = json.loads(byleave("policy", "import", "claude-code", "--json", cwd=tmp_path).out)
    assert (found["carried"], len(found["lost"])) == (0, 1)
    named = json.loads(byleave("policy", "import", "claude-code", str(file), "--json", cwd=tmp_path).out)
    assert (named["carried"], "within = " in named["toml"]) == (1, True)


SAMPLES = Path(__file__).resolve().parents[1] / "cases/import"
FORMATS = {
    "claude-code": ["settings.json"],
    "codex": ["default.rules", "config.toml"],
    "gemini": ["settings.json", "policy.toml"],
    "cursor": ["cli-config.json", "permissions.json"],
    "opencode": ["opencode.jsonc"],
    "agent-mcp-gateway": [".mcp-gateway-rules.json", ".mcp.json"],
    "jp": ["config.toml", "local.toml"],
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written_once_and_read_again(name: str, own_home: Path, tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    files = [str(SAMPLES / name / file) for file in FORMATS[name]]
    words = ("policy", "import", name, *files, "--write", "mine.toml")
    unasked = byleave(*words, cwd=root)
    assert (unasked.code, "mine.toml would get:" in unasked.out, (root / "mine.toml").exists()) == (10, True, False)
    assert byleave(*words, "--yes", cwd=root).code == 0
    written = (root / "mine.toml").read_text()
    tree = tomllib.loads(written)
    assert tree.keys() & {"rules", "agents", "tools"}
    assert byleave("policy", "show", "--policy", "mine.toml", cwd=root).code == 0
    assert byleave(*words, "--yes", cwd=root).code == 0
    assert (root / "mine.toml").read_text() == written


@pytest.mark.parametrize("name", FORMATS)
def test_the_text_of_every_format_is_toml_with_comments_that_fit(name: str, own_home: Path, tmp_path: Path) -> None:
    files = [str(SAMPLES / name / file) for file in FORMATS[name]]
    found = json.loads(byleave("policy", "import", name, *files, "--json", cwd=tmp_path).out)
    text = byleave("policy", "import", name, *files, cwd=tmp_path).out
    assert tomllib.loads(text) == tomllib.loads(found["toml"])
    assert [line for line in text.splitlines() if line.startswith("#") and len(line) > 80 and " " in line[10:]] == []
    assert all(each["why"] and each["source"] for each in found["lost"])
    assert all(each["source"].rpartition(":")[2].isdigit() for each in found["lost"] if each["text"])


def test_a_name_that_is_no_format_is_answered_with_the_nearest(tmp_path: Path) -> None:
    done = byleave("policy", "import", "opencod", cwd=tmp_path)
    assert (done.code, "did you mean opencode?" in done.err) == (2, True)


def test_settings_that_cannot_be_read_are_not_written(own_home: Path, tmp_path: Path) -> None:
    (own_home / ".claude").mkdir()
    (own_home / ".claude/settings.json").write_text('{"permissions": {"deny": "Bash"}}')
    done = byleave("policy", "import", "claude-code", "--write", "mine.toml", "--yes", cwd=tmp_path)
    assert (done.code, (tmp_path / "mine.toml").exists()) == (2, False)


def test_what_came_with_a_project_is_named_and_left_out(own_home: Path, tmp_path: Path) -> None:
    (tmp_path / ".mcp-gateway-rules.json").write_text('{"agents": {"a": {"allow": {"servers": ["*"]}}}}')
    found = json.loads(byleave("policy", "import", "agent-mcp-gateway", "--json", cwd=tmp_path).out)
    assert (found["toml"], len(found["lost"])) == ("", 1)
