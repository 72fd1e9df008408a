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


COMMONDIR = ".git/commondir"  # held by a file that git reads as if there were none


def beside(root: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run another program in a sandbox of its own."""
    words = [*COMMAND, "run", "-q", "--access", str(root.parent / "access.toml"), "--", "/bin/sh", "-c", script]
    return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=20)


def names_of(root: Path) -> set[str]:
    return {path.name for path in (root / ".git").iterdir()}


def test_a_name_that_a_later_run_holds_again_is_not_put_aside(root: Path) -> None:
    before = names_of(root)
    process = inside(root, f"echo evil > {COMMONDIR} || echo refused; cat {COMMONDIR}")
    (root / COMMONDIR).unlink()
    time.sleep(0.2)
    for _ in range(2):
        done = beside(root, f"echo evil > {COMMONDIR} || echo refused; sleep 0.2; cat {COMMONDIR}")
        assert (done.returncode, done.stdout) == (0, "refused\n.\n"), done.stderr
    assert {name for name in names_of(root) if name.startswith("commondir")} == {"commondir"}
    assert said(process, root) == "refused\n.\n"
    assert names_of(root) == before


LOOK_ALIKE = """
import os, time
path, how = "{path}", "{how}"
made = os.open(".git/ready", os.O_RDWR | os.O_CREAT, 0o444)
os.write(made, b".\\n")
kept = os.open(".git/ready", os.O_PATH)
if how != "written":
    os.close(made)
while os.path.exists(path):
    pass
os.rename(".git/ready", path)
time.sleep(0.5)
mounted = not os.access(path, os.W_OK, effective_ids=True) and os.statvfs(path).f_flag & os.ST_RDONLY
print("held" if mounted else "open", flush=True)
try:
    if how != "written":
        os.chmod(f"/proc/self/fd/{{kept}}", 0o644)
        made = os.open(f"/proc/self/fd/{{kept}}", os.O_RDWR)
    os.pwrite(made, b"/evil\\n", 0)
    print("changed", flush=True)
except OSError as error:
    print(error, flush=True)
time.sleep(0.5)
"""


@pytest.mark.parametrize("how", ["written", "opened again"])
def test_a_look_alike_that_the_program_has_open_is_put_aside_when_it_changes(root: Path, how: str) -> None:
    (root / "look_alike.py").write_text(LOOK_ALIKE.format(path=COMMONDIR, how=how))
    process = inside(root, "/usr/bin/python3 look_alike.py")
    (root / "go").touch()
    time.sleep(0.8)
    (root / COMMONDIR).unlink()
    out = said(process, root)
    assert out == "held\nchanged\n"
    assert not (root / COMMONDIR).exists()


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
