"""`byleave policy lint`: findings with place and fix, exit codes, and `--fix`, which changes no decision."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from amounts import of, some
from byleave.analysis.findings import CODES, SEVERITIES
from command import at_terminal, byleave

CHECKOUT = Path(__file__).resolve().parents[2]
SAMPLES = CHECKOUT / "tests/samples"

EVERYTHING = """\
# Rules with every fault.
[[rules]]
allow = { command = "git" }

# Pushing is not meant to be allowed.
[[rules]]
deny = { command = "git", subcommand = "push" }

[[rules]]
allow = { command = "git", subcommand = "status" }   # never asked

# The same again.
[[rules]]
allow = { command = "git" }

[[rules]]
deny = { command = "git" }

[[rules]]
deny = { command = "rm" }

[[rules]]
allow = { command = ["find", "pyhton"], options = "any" }

[[rules]]
allow = { any_command = true }

[[rules]]
allow = { command = [] }

[[rules]]
allow = { path = "**" }

[[rules]]
allow = { path = "/srv/shared/**", ops = ["read"] }

[tools.t]
source = "local"
command = ["true"]

[[tools.t.access.fs]]
path = "."
read = true

[[tools.t.access.fs]]   # as above
path = "src"
read = true

[[tools.t.access.fs]]
path = "Docs"

[[tools.t.access.net]]
host = "api.example.org"
scheme = "http"
allow = true

[agents.a]
allow.servers = ["db", "db"]
allow.tools.db = []
"""


@pytest.fixture
def project(own_home: Path, tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "byleave.toml").write_text(EVERYTHING)
    (root / ".env").write_text("TOKEN=x\n")
    (root / "docs").mkdir()
    (root / "out").symlink_to("/usr")
    return root


def findings(root: Path, *words: str) -> list[dict[str, Any]]:
    done = byleave("policy", "lint", "--json", *words, cwd=root)
    assert done.code in (0, 1), done.err
    found: list[dict[str, Any]] = json.loads(done.out)["findings"]
    return found


def test_every_fault_is_found_with_its_place_and_a_way_to_mend_it(project: Path) -> None:
    found = findings(project)
    assert {each["code"] for each in found} == set(CODES)
    keys = {"code", "severity", "rule", "source", "message", "fix", "fixable"}
    assert all(set(each) == keys and each["fix"] and each["message"] for each in found)
    assert [each["severity"] for each in found] == sorted(
        (each["severity"] for each in found), key=SEVERITIES[::-1].index
    )
    by_code = {each["code"]: each["source"] for each in reversed(found)}
    assert by_code["duplicate"] == "byleave.toml:13"
    assert by_code["contradicts"] == "byleave.toml:16"
    assert by_code["plain_http"] == "byleave.toml:52"


def test_an_untrusted_file_is_read_as_it_is_written(project: Path) -> None:
    untrusted = findings(project)
    assert byleave("trust", "--yes", cwd=project).code == 0
    assert findings(project) == untrusted


def test_the_exit_code_follows_the_severity(own_home: Path, tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\nallow = { path = "**" }\n')
    codes = {word: byleave("policy", "lint", "--fail-on", word, cwd=tmp_path).code for word in SEVERITIES}
    assert codes == {"note": 1, "warning": 0, "error": 0}
    assert byleave("policy", "lint", cwd=tmp_path).code == 0
    assert byleave("policy", "lint", "--fail-on", "fatal", cwd=tmp_path).code == 2
    (tmp_path / "byleave.toml").write_text("[[rules]]\nallow = {}\n")
    assert byleave("policy", "lint", cwd=tmp_path).code == 2


def test_without_a_terminal_nothing_is_removed(project: Path) -> None:
    done = byleave("policy", "lint", "--fix", cwd=project)
    assert (done.code, (project / "byleave.toml").read_text()) == (10, EVERYTHING)
    assert '-allow = { command = "git", subcommand = "status" }' in done.out


def test_fix_removes_what_has_no_effect_and_keeps_every_other_byte(project: Path) -> None:
    (project / "byleave.toml").chmod(0o640)
    done = byleave("policy", "lint", "--fix", "--yes", "--json", cwd=project)
    fixed = json.loads(done.out)["fixed"]
    assert {each["code"] for each in fixed} == {"shadowed", "duplicate", "no_effect"}
    after = (project / "byleave.toml").read_text()
    expected = EVERYTHING
    for gone in (
        '[[rules]]\nallow = { command = "git", subcommand = "status" }   # never asked\n\n',
        '[[tools.t.access.fs]]   # as above\npath = "src"\nread = true\n\n',
        '"db", ',
        "[[rules]]\nallow = { command = [] }\n\n",
    ):
        expected = expected.replace(gone, "")
    again = "# The same again.\n"
    expected = expected.replace(f'{again}[[rules]]\nallow = {{ command = "git" }}\n', again)
    assert after == expected
    assert (project / "byleave.toml").stat().st_mode & 0o777 == 0o640
    assert json.loads(byleave("policy", "lint", "--fix", "--yes", "--json", cwd=project).out)["fixed"] == []


def test_fix_asks_at_a_terminal_and_a_no_changes_nothing(project: Path) -> None:
    with at_terminal("policy", "lint", "--fix", cwd=project) as terminal:
        terminal.wait_for("Remove these rules?")
        terminal.type(b"n\r")
        assert terminal.ends() == 1
    assert (project / "byleave.toml").read_text() == EVERYTHING


def test_an_agent_cannot_run_it(project: Path) -> None:
    assert byleave("check", "command", "byleave policy lint --fix --yes", cwd=project).code == 20


VARIANTS = [(), ("--strict",), ("--for", "claude-code")]
KINDS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
WRITTEN = some(
    [(kind, flags) for flags in VARIANTS for kind in KINDS], every=len(VARIANTS)
)  # each kind, and each variant


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sample", "flags"), WRITTEN, ids=lambda each: each if isinstance(each, str) else " ".join(each)
)
def test_what_init_writes_has_nothing_worse_than_notes(
    sample: str, flags: tuple[str, ...], own_home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "sample"
    shutil.copytree(SAMPLES / sample, root)
    (root / ".env").write_text("TOKEN=x\n")
    assert byleave("init", *flags, cwd=root).code == 0
    assert [each for each in findings(root) if each["severity"] != "note"] == []


def test_the_policies_of_the_pages_have_nothing_worse_than_notes(own_home: Path, tmp_path: Path) -> None:
    tried = 0
    for page in [*sorted((CHECKOUT / "docs").glob("*.md")), CHECKOUT / "README.md"]:
        if page.name == "policy-tools.md":  # it shows what lint finds
            continue
        for block in some(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL), every=4):
            root = tmp_path / f"block{tried}"
            root.mkdir(exist_ok=True)
            (root / "byleave.toml").write_text(block)
            done = byleave("policy", "lint", "--json", cwd=root)
            if done.code == 2:  # a part of a file
                continue
            tried += 1
            grave = [each for each in json.loads(done.out)["findings"] if each["severity"] != "note"]
            assert grave == [], (page.name, block)
    assert tried >= of(10, 5)


def test_names_that_mislead_are_shown_escaped(own_home: Path, tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[[rules]]\ndeny = { command = "r\\u202em\\u001b[2J" }\n')
    os.symlink("/usr", tmp_path / "a\u202eb\x1b[2J")
    done = byleave("policy", "lint", cwd=tmp_path)
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "\x1b" not in byleave("policy", "lint", "--json", cwd=tmp_path).out


def test_a_closed_pipe_and_nothing_configured_do_no_harm(own_home: Path, tmp_path: Path) -> None:
    done = byleave("policy", "lint", cwd=tmp_path)
    assert (done.code, "byleave setup" in done.out) == (0, True)
