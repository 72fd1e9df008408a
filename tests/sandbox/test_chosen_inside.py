"""What a file of the workspace leads to shows no more of the machine than the executable itself."""

import sys
from pathlib import Path

import pytest

from byleave.sandbox.host import needs_of
from byleave.sandbox.plan.plan import DIRECTORY, FILE
from byleave.workspace.grep import find_ripgrep
from command import byleave


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A program with secrets beside it, and a workspace with ways to it."""
    base = tmp_path.resolve()
    for name in (
        "private/bin",
        "private/lib",
        "ws/sub",
        "home/.pyenv/versions/3.12/bin",
        "home/.pyenv/versions/3.12/lib",
    ):
        (base / name).mkdir(parents=True)
    for program in ("private/bin/prog", "home/.pyenv/versions/3.12/bin/python"):
        (base / program).write_text('#!/bin/sh\necho started; cat "${0%/*}/../lib/secret" 2>&1\n')
        (base / program).chmod(0o755)
    (base / "private/lib/secret").write_text("hidden\n")
    (base / "private/pyvenv.cfg").write_text("")
    (base / "ws/link").symlink_to(base / "private/bin/prog")
    (base / "ws/script").write_text(f"#!{base}/private/bin/prog\n")
    (base / "ws/script").chmod(0o755)
    (base / "ws/env-script").write_text("#!/usr/bin/env prog\n")
    (base / "ws/env-script").chmod(0o755)
    (base / "ws/python").symlink_to(base / "home/.pyenv/versions/3.12/bin/python")
    return base


def shown(machine: Path, program: str) -> dict[str, str]:
    """Return what is shown of the machine for a program, where everything in the workspace may be written."""
    needed = needs_of(
        str(machine / program),
        f"{machine}/private/bin",
        ["/usr", "/bin"],
        home=str(machine / "home"),
        kept_out=(str(machine / "ws"),),
        writable=lambda path: path.startswith(f"{machine}/ws/"),
    )
    return {place.path[len(str(machine)) + 1 :]: place.kind for place in needed.places}


@pytest.mark.parametrize("program", ["ws/link", "ws/script", "ws/env-script"])
def test_a_link_or_a_script_that_a_sandbox_may_write_shows_the_executable_alone(program: str, machine: Path) -> None:
    own = {} if program == "ws/link" else {program: FILE}
    assert shown(machine, program) == {**own, "private/bin/prog": FILE}


def test_what_the_user_names_is_shown_with_its_prefix(machine: Path) -> None:
    assert shown(machine, "private/bin/prog") == {"private": DIRECTORY}


def test_what_a_manager_of_versions_installed_can_be_started_through_a_link_of_the_workspace(machine: Path) -> None:
    assert shown(machine, "ws/python") == {
        "home/.pyenv/versions/3.12/bin": DIRECTORY,
        "home/.pyenv/versions/3.12/lib": DIRECTORY,
    }


@pytest.mark.parametrize("program", ["./link", "./script"])
def test_the_secret_beside_a_program_that_the_workspace_chose_is_not_there(program: str, machine: Path) -> None:
    done = byleave("run", "-q", "--", program, cwd=machine / "ws")
    assert "started" in done.out, done
    assert "hidden" not in done.out


def test_a_ripgrep_that_a_sandbox_may_have_written_is_neither_used_nor_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sysconfig

    base = tmp_path.resolve()
    (base / "cargo/bin").mkdir(parents=True)
    (base / "cargo/bin/rg").write_text(f"#!/bin/sh\ntouch {base}/started\necho ripgrep 14.1.0\n")
    (base / "cargo/bin/rg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(base / "nowhere/python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(base / "nowhere"))
    monkeypatch.setenv("PATH", f"{base}/cargo/bin")
    assert find_ripgrep("/nowhere", str(base / "cargo")) is None
    assert not (base / "started").exists()
