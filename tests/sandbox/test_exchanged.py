"""Mounts stand on names of the host's. When somebody outside exchanges what has such a name, it is mounted again."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from command import COMMAND

RULES = """
[[access.fs]]
path = "."
read = true
write = true

[[access.fs]]
path = ".env"

[[access.fs]]
path = "keys"
"""
WAIT = "while [ ! -e {go} ]; do sleep 0.01; done; sleep 0.3; "


def replace(path: Path, text: str) -> None:
    """Save as editors and git do."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    base = tmp_path / "ws"
    (base / ".git" / "hooks").mkdir(parents=True)
    (base / ".git" / "config").write_text("[core]\n")
    (base / ".env").write_text("SECRET=1")
    (base / "keys").mkdir()
    (base / "keys" / "k").write_text("SECRET")
    (tmp_path / "access.toml").write_text(RULES)
    return base


def inside(root: Path, script: str) -> "subprocess.Popen[str]":
    words = [*COMMAND, "run", "--access", str(root.parent / "access.toml"), "--", "/bin/sh", "-c"]
    process = subprocess.Popen(
        [*words, f"echo up > up; {WAIT.format(go='go')}{script}"], cwd=root, stdout=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 20
    while not (root / "up").exists():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    return process


def said(process: "subprocess.Popen[str]", root: Path) -> str:
    (root / "go").write_text("")
    out, _err = process.communicate(timeout=20)
    return out


def test_a_denied_file_that_is_saved_outside_stays_denied(root: Path) -> None:
    process = inside(root, "cat .env 2>/dev/null || echo closed")
    replace(root / ".env", "SECRET=2")
    assert said(process, root) == "closed\n"


def test_a_denied_directory_that_is_exchanged_outside_stays_denied(root: Path) -> None:
    process = inside(root, "cat keys/k 2>/dev/null || echo closed")
    (root / "keys").rename(root / "older")
    (root / "keys").mkdir()
    (root / "keys" / "k").write_text("SECRET")
    assert said(process, root) == "closed\n"


def test_a_protected_file_that_git_writes_outside_stays_protected(root: Path) -> None:
    process = inside(root, "echo evil >> .git/config || echo refused; cat .git/config")
    replace(root / ".git" / "config", "[new]\n")
    assert said(process, root) == "refused\n[new]\n"
    assert (root / ".git" / "config").read_text() == "[new]\n"


def test_a_repository_that_is_made_anew_outside_is_protected_too(root: Path) -> None:
    process = inside(root, "echo evil > .git/hooks/pre-commit || echo refused; echo ok > .git/index && echo written")
    (root / ".git").rename(root / "older")
    (root / ".git" / "hooks").mkdir(parents=True)
    time.sleep(0.2)
    assert said(process, root) == "refused\nwritten\n"


def test_saving_many_times_ends_with_it_closed(root: Path) -> None:
    process = inside(root, "cat .env 2>/dev/null || echo closed")
    for number in range(300):
        replace(root / ".env", f"SECRET={number}")
    assert said(process, root) == "closed\n"
