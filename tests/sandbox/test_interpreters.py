"""Programs that execute what they are told are known by their names, and so are the files that links lead to."""

import os
import shutil
from pathlib import Path

import pytest

from byleave.sandbox.broker import BrokerRequest, parse_request
from byleave.sandbox.programs import interprets
from sandbox.machine import access_file, inside, needs_sandbox

STARTERS = """
    bash bash-static busybox chroot chrt dash env find flock gdb i386 ionice ld.so ld-linux-x86-64.so.2 linux32 linux64
    nice nohup nsenter perl perl5.36-x86_64-linux-gnu prlimit python3 python3.11 run-parts runuser script setarch
    setpriv setsid sg sh ssh-agent start-stop-daemon stdbuf strace su systemd-run taskset time timeout toybox unshare
    watch x86_64 xargs zsh5 pipesz setpgid lckdo ccache bear coreutils run0 direnv hyperfine socat
"""
OTHERS = ("cat", "cargo", "gcc-12", "git", "ls", "make", "python3-config", "sleep", "tar", "uname")
USUAL = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
WAYS = {
    "flock": ("/dev/null", "id"),
    "prlimit": ("id",),
    "setarch": ("id",),
    "linux64": ("id",),
    "setpriv": ("id",),
    "nice": ("id",),
    "timeout": ("5", "id"),
    "chrt": ("-o", "0", "id"),
    "ionice": ("id",),
    "taskset": ("1", "id"),
    "stdbuf": ("-o0", "id"),
    "choom": ("-n", "1000", "--", "id"),
}


@pytest.mark.parametrize("name", STARTERS.split())
def test_what_executes_its_words_is_known(name: str) -> None:
    assert interprets(f"/nowhere/{name}")


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_its_own_work_is_none(name: str) -> None:
    assert not interprets(f"/nowhere/{name}")


def test_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "setarch").touch()
    (tmp_path / "mine").symlink_to("setarch")
    assert interprets(str(tmp_path / "mine"))


def test_the_first_word_of_a_request_is_the_name_that_is_judged() -> None:
    content = b"/.byleave/bin/git\0/ws\x002\0git-init\0--version\0A=b\0"
    assert parse_request(content) == BrokerRequest("git", "/ws", ("git", "--version"), (("A", "b"),))
    assert parse_request(b"/.byleave/bin/git\0/ws\x000\0") == BrokerRequest("git", "/ws", ("git",), ())


@needs_sandbox
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_program_runs_under_its_own_name_whatever_the_tool_calls_it(tmp_path: Path) -> None:
    """`git-init` as the first word makes git run `init`, which nothing allows."""
    root = tmp_path / "ws"
    root.mkdir()
    options = access_file(tmp_path, '[access.commands."/usr/bin/python3"]\n[access.commands.git]\nargs = [["made"]]\n')
    program = 'import os; os.execv("/.byleave/bin/git", ["git-init", "made"])'
    done = inside(root, "/usr/bin/python3", "-c", program, options=options, env=USUAL)
    assert (done.code, os.path.exists(root / "made")) == (1, False), done


@pytest.mark.sampled(3)
@needs_sandbox
@pytest.mark.parametrize("name", [name for name in WAYS if shutil.which(name, path=USUAL["PATH"])])
def test_what_such_a_program_starts_is_judged(tmp_path: Path, name: str) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    options = access_file(tmp_path, f"[access.commands.sh]\n[access.commands.{name}]\n")
    words = " ".join([name, *WAYS[name]])
    done = inside(root, "sh", "-c", words, options=options, env=USUAL)
    assert done.code != 0, done
    assert "uid=" not in done.out
