"""Mounts stand on names of the host's. When somebody outside exchanges what has such a name, it is mounted again."""

import os
import shutil
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

[[access.fs]]
path = "conf/secret"

[[access.fs]]
path = "later"
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
    (base / "conf").mkdir()
    (base / "conf" / "secret").write_text("SECRET")
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


def test_a_directory_that_is_made_anew_outside_is_watched_again(root: Path) -> None:
    process = inside(root, "cat conf/secret 2>/dev/null || echo closed")
    shutil.rmtree(root / "conf")
    time.sleep(0.2)
    (root / "conf").mkdir()
    time.sleep(0.2)
    (root / "conf" / "secret").write_text("SECRET")
    assert said(process, root) == "closed\n"


def test_a_secret_that_takes_a_held_name_is_not_read_under_another(root: Path) -> None:
    process = inside(root, "cat later* .later* later.* 2>/dev/null; echo done")
    (root / "later").rmdir()
    (root / "later").write_text("SECRET")
    time.sleep(0.2)
    assert said(process, root) == "done\n"
    assert (root / "later").read_text() == "SECRET"


def test_names_that_are_taken_beforehand_do_not_keep_an_intruder_in_place(root: Path) -> None:
    taken = "i=0; while [ $i -lt 40 ]; do : > .envrc.refused-by-byleave-$i; i=$((i+1)); done; "
    process = inside(root, f"{taken} echo evil > .envrc; sleep 0.3")
    (root / ".envrc").rmdir()
    said(process, root)
    assert not (root / ".envrc").is_file()


def test_where_commands_are_listed_the_sandbox_ends_when_a_closed_place_is_exchanged(root: Path) -> None:
    access = root.parent / "access.toml"
    access.write_text(f"{access.read_text()}\n[access.commands.sh]\n[access.commands.sleep]\n[access.commands.cat]\n")
    words = [*COMMAND, "run", "--access", str(access), "--", "sh", "-c", "echo up > up; sleep 9; cat .env"]
    process = subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 20
    while not (root / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    replace(root / ".env", "SECRET=2")
    out, err = process.communicate(timeout=8)
    assert (process.returncode, out) == (125, "")
    assert "was replaced from outside" in err


def test_a_fifo_keeps_nobody_waiting(root: Path) -> None:
    os.mkfifo(root / "f")
    (root / "f").chmod(0o755)
    (root / "s").write_text(f"#!{root}/f\n")
    (root / "s").chmod(0o755)
    for name in ("./s", "./f"):
        done = subprocess.run([*COMMAND, "run", "--", name], cwd=root, capture_output=True, check=False, timeout=20)
        assert done.returncode in (126, 127)


def test_a_script_of_the_workspace_does_not_open_somebody_s_directory(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "alice"
    (home / "bin").mkdir(parents=True)
    shutil.copy("/bin/cat", home / "bin" / "tool")
    (home / "id").write_text("SECRET")
    (root / "s").write_text(f"#!{home}/bin/tool {home}/id\n")
    (root / "s").chmod(0o755)
    done = subprocess.run([*COMMAND, "run", "--", "./s"], cwd=root, capture_output=True, check=False, timeout=20)
    assert b"SECRET" not in done.stdout
