"""`byleave trust` shows what a new version of a trusted file changes."""

import os
from pathlib import Path

import pytest

from byleave.store.trusted_texts import LARGEST_TEXT
from command import Done, byleave

OLD = '[[rules]]\nallow = { command = "git", subcommand = "status" }\n'
NEW = OLD + '\n[[rules]]\nallow = { path = "docs/**", ops = ["read"] }\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "byleave.toml").write_text(OLD)
    assert trust(root).code == 0
    return root


def trust(root: Path) -> Done:
    return byleave("trust", "--yes", "--root", str(root))


def test_a_changed_file_is_shown_as_what_it_changes(project: Path) -> None:
    (project / "byleave.toml").write_text(NEW)
    text = trust(project).out
    assert "was trusted before; this version changes:" in text
    assert '+ rule: allow = {path = "docs/**", ops = ["read"]}' in text
    assert "ask -> allow  read docs" in text
    assert "git" not in text
    assert "is trusted already" in trust(project).out


def test_every_line_that_differs_is_shown_even_if_no_witness_shows_it(project: Path) -> None:
    (project / "byleave.toml").write_text(OLD.replace("status", "gc"))
    text = trust(project).out
    assert '- rule: allow = {command = "git", subcommand = "status"}' in text
    assert '+ rule: allow = {command = "git", subcommand = "gc"}' in text


@pytest.mark.parametrize("damage", ["gone", "other", "large"])
def test_the_whole_file_is_shown_where_the_trusted_text_is_not_known(damage: str, project: Path) -> None:
    (kept,) = find_kept()
    if damage == "gone":
        kept.unlink()
    elif damage == "other":
        kept.write_text(NEW)
    else:
        (project / "byleave.toml").write_text(OLD + f"# {'x' * LARGEST_TEXT}\n")
        assert trust(project).code == 0
    (project / "byleave.toml").write_text(NEW)
    text = trust(project).out
    assert "makes active:" in text
    assert 'subcommand = "status"' in text


def find_kept() -> list[Path]:
    return list(Path(os.environ["BYLEAVE_HOME"]).rglob("trusted/*"))


def test_the_kept_text_is_private_and_goes_with_the_trust(project: Path) -> None:
    (kept,) = find_kept()
    assert kept.stat().st_mode & 0o077 == 0
    assert byleave("untrust", "--yes", "--root", str(project)).code == 0
    assert find_kept() == []


def test_a_script_is_named_whenever_the_file_is_trusted_again(project: Path) -> None:
    (project / "run.sh").write_text("echo\n")
    (project / "byleave.toml").write_text(OLD + '[tools.t]\nsource = "local"\ncommand = ["sh", "run.sh"]\n')
    trust(project)
    (project / "byleave.toml").write_text(NEW + '[tools.t]\nsource = "local"\ncommand = ["sh", "run.sh"]\n')
    (project / "run.sh").write_text("echo other\n")
    assert 'the script "run.sh"' in trust(project).out
