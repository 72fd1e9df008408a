"""Completion offers the names that a workspace has, in the shells themselves; it never fails, and runs nothing else."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amounts
from byleave.cli.commands import HOOKED
from byleave.policy.load import Workspace
from byleave.store.approvals import APPROVED, PENDING
from command import COMMAND, PATIENCE, byleave, environment

POLICY = """
[tools.builder]
source = "local"
command = ["make"]
[tools.browser]
source = "local"
command = ["lynx"]
[servers.github]
command = ["github-mcp"]
[agents.reviewer]
allow.servers = ["github"]
"""
ODD = """
[tools."$(touch ran)"]
source = "local"
[tools."`touch ran`"]
source = "local"
[tools."a b"]
source = "local"
[tools."-x"]
source = "local"
[tools."a;b"]
source = "local"
[tools.plain]
source = "local"
"""


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """Return the script for each shell, which is the same in every workspace."""
    return {shell: byleave("completion", shell).out for shell in ("bash", "zsh", "fish")}


@pytest.fixture
def place(tmp_path: Path, scripts: dict[str, str]) -> Path:
    """Return a workspace with a byleave on its PATH, and with scripts for each shell."""
    root = tmp_path / "work"
    (root / "bin").mkdir(parents=True)
    (root / "byleave.toml").write_text(POLICY)
    assert byleave("trust", "--yes", cwd=root).code == 0
    approvals = Workspace(str(root)).approvals
    stamp = "2026-06-01T22:30:00Z"
    approvals.remember("k1", kind="action", subject="make x", session="default", status=PENDING, now=stamp)
    approvals.remember("k2", kind="action", subject="make y", session="default", status=APPROVED, now=stamp)
    program = root / "bin" / "byleave"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {" ".join(COMMAND[1:])} "$@"\n')
    program.chmod(0o755)
    for shell, script in scripts.items():
        (root / f".complete.{shell}").write_text(script)
    return root


def variables(place: Path) -> dict[str, str]:
    return environment({"PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": os.environ["HOME"]})


def in_shell(shell: str, place: Path, *words: str) -> list[str]:
    """Return what a shell offers for the last word."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, *SCRIPTS[shell], *words],
        cwd=place,
        env=variables(place),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return sorted({row.split("\t")[0] for row in done.stdout.splitlines()})


_BASH = """
source .complete.bash
COMP_WORDS=(byleave "$@"); COMP_CWORD=$#
_byleave
[[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\\n' "${COMPREPLY[@]}"
"""
# What zsh offers is seen through `compadd`, which its completion functions call with the matches behind options.
_ZSH = """
source .complete.zsh
compadd() { local first=$(( ${argv[(i)-]} + 1 )); (( first <= $# )) && print -rl -- "${(@)argv[first,-1]}" }
words=(byleave "$@"); CURRENT=$#words; PREFIX=${words[-1]}; SUFFIX=
_bash_complete -F _byleave
true
"""
_FISH = """
source .complete.fish
complete -C "byleave $(string join ' ' -- $argv)"
"""
SCRIPTS = {
    "bash": ["--norc", "-u", "-c", _BASH, "bash"],
    "zsh": ["-f", "-c", _ZSH, "zsh"],
    "fish": ["--no-config", "-c", _FISH, "--"],
}
SHELLS = sorted(SCRIPTS)
OFFERS = {
    "tools after --tool": (["check", "read", "--tool", "b"], ["browser", "builder"]),
    "tools to call": (["call", "bu"], ["builder"]),
    "nothing where arguments stand": (["call", "builder", "b"], []),
    "servers": (["check", "call", "g"], ["github"]),
    "agents of the policy": (["check", "read", "--agent", "rev"], ["reviewer"]),
    "agents with hooks": (["hook", "--install", "cl"], ["claude-code", "cline"]),
    "an agent that sends events": (["hook", "co"], ["codex", "copilot"]),
    "decisions": (["audit", "list", "--decision", "a"], ["allow", "ask"]),
    "integrations": (["audit", "list", "--door", "c"], ["call", "cli"]),
    "kinds": (["audit", "list", "--kind", "e"], ["env", "exec"]),
    "formats": (["audit", "export", "--format", "c"], ["csv"]),
    "sessions": (["--session", "d"], ["default"]),
    "editors": (["acp", "--setup", "z"], ["zed"]),
    "nothing after a ticket": (["run", "--ticket", "b"], []),
}


# What is offered comes from byleave, whatever shell asks: usually each is asked for by one of them.
ASKED = list(itertools.product(OFFERS, SHELLS) if amounts.SLOW else zip(OFFERS, itertools.cycle(SHELLS), strict=False))


@pytest.mark.parametrize(("kind", "shell"), ASKED)
def test_a_shell_offers_what_the_workspace_has(kind: str, shell: str, place: Path) -> None:
    words, offered = OFFERS[kind]
    assert in_shell(shell, place, *words) == offered


@pytest.mark.parametrize("shell", SHELLS)
def test_ids_are_those_that_the_command_takes(shell: str, place: Path) -> None:
    known = {one.status: one.id for one in Workspace(str(place)).approvals.all()}
    assert in_shell(shell, place, "approvals", "approve", known[PENDING][:2]) == [known[PENDING]]
    assert in_shell(shell, place, "approvals", "revoke", known[APPROVED][:2]) == [known[APPROVED]]


@pytest.mark.parametrize("shell", SHELLS)
def test_names_come_from_the_workspace_that_the_line_names(shell: str, place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "byleave.toml").write_text('[tools.bend]\nsource = "local"\ncommand = ["x"]\n')
    assert byleave("trust", "--yes", cwd=other).code == 0
    assert in_shell(shell, place, "--root", str(other), "call", "b") == ["bend"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_name_that_a_shell_would_run_is_not_offered(shell: str, place: Path) -> None:
    (place / "byleave.toml").write_text(ODD)
    assert byleave("trust", "--yes", cwd=place).code == 0
    assert in_shell(shell, place, "check", "read", "--tool", "p") == ["plain"]
    assert in_shell(shell, place, "check", "read", "--tool", "") == ["plain"]
    assert in_shell(shell, place, "--root", "$(touch ran)", "call", "") == []
    assert not (place / "ran").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_byleave_of_the_project_is_not_run_for_it(shell: str, place: Path) -> None:
    """`./byleave TAB` is completed, too, by the byleave on the PATH."""
    trap = place / "byleave"
    trap.write_text("#!/bin/sh\ntouch ran\n")
    trap.chmod(0o755)
    assert in_shell(shell, place, "call", "bu") == ["builder"]
    assert not (place / "ran").exists()


BROKEN = {"no TOML": "[tools", "another form": 'tools = "x"', "bytes": "\udcff"}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_no_error_here(content: str, tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text(content, errors="surrogateescape")
    for what in ("tools", "servers", "sessions", "mounts", "pending", "approved"):
        done = byleave("completion", "--values", what, "-q", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
    assert set(byleave("completion", "--values", "agents", "-q", cwd=tmp_path).out.split()) >= set(HOOKED)


def test_no_workspace_is_no_error_here(tmp_path: Path) -> None:
    done = byleave("completion", "--values", "tools", f"--root={tmp_path}/missing", cwd=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_shell_or_values_are_named() -> None:
    missing, both = byleave("completion"), byleave("completion", "bash", "--values", "tools")
    assert (missing.code, "SHELL is missing" in missing.err) == (2, True)
    assert (both.code, "--values needs no SHELL" in both.err) == (2, True)
