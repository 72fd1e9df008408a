"""The completion scripts offer what the command line takes, in the shells themselves."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from byleave.cli.commands import CHECK_KINDS, COMMON, ROOT
from command import PATIENCE, byleave, environment

COMMANDS = sorted(command.name for command in ROOT.subcommands)
COMMON_NAMES = sorted(name for option in COMMON for name in option.names)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "my file.txt").touch()
    (tmp_path / "myself").mkdir()
    (tmp_path / "check").touch()
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / f".complete.{shell}").write_text(byleave("completion", shell).out)
    return tmp_path


def in_bash(place: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    script = """
        source .complete.bash
        COMP_WORDS=(byleave "$@"); COMP_CWORD=$#
        _byleave
        [[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-u", "-c", script, "bash", *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return sorted(done.stdout.splitlines())


OFFERS = {
    "commands first": ([""], COMMANDS),
    "commands by their beginning": (["unt"], ["untrust"]),
    "kinds of checks": (["check", ""], sorted(CHECK_KINDS)),
    "flags behind a dash": (["check", "read", "-"], sorted(["--tool", "--agent", "--add", "--yes", *COMMON_NAMES])),
    "flags of the command alone": (["check", "--b"], ["--batch"]),
    "common flags before the command": (["--po"], ["--policy"]),
    "files where a path is wanted": (["check", "read", "my"], ["my file.txt", "myself"]),
    "files where a file is wanted": (["--policy", "my"], ["my file.txt", "myself"]),
    "files behind an equals sign": (["--policy", "=", "my"], ["my file.txt", "myself"]),
    "nothing where only the user knows": (["check", "read", "--tool", "m"], []),
    "no files where none is wanted": (["check", "env", "my"], []),
    "choices": (["completion", ""], ["bash", "fish", "zsh"]),
    "commands behind a flag with a value": (["--root", "check", "unt"], ["untrust"]),
    "commands behind a flag": (["--json", "check", "sp"], ["spawn"]),
    "files behind dashes": (["check", "spawn", "--", "my"], ["my file.txt", "myself"]),
    "a path named like a command": (["check", "move", "read", "my"], ["my file.txt", "myself"]),
    "subcommands": (["policy", ""], ["diff", "groups", "import", "learn", "lint", "replay", "show", "test"]),
}


@pytest.mark.parametrize(("words", "offered"), OFFERS.values(), ids=OFFERS.keys())
def test_bash_offers_what_can_stand_there(words: list[str], offered: list[str], place: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert in_bash(place, *words) == offered


FISH_OFFERS = {
    "commands first": ("byleave ", COMMANDS),
    "kinds of checks": ("byleave check ", sorted(CHECK_KINDS)),
    "flags": ("byleave check read --to", ["--tool"]),
    "common flags": ("byleave --po", ["--policy"]),
    "choices": ("byleave completion ", ["bash", "fish", "zsh"]),
    "files where a path is wanted": ("byleave check read my", ["my file.txt", "myself/"]),
    "no files where none is wanted": ("byleave check env my", []),
}


@pytest.mark.parametrize(("line", "offered"), FISH_OFFERS.values(), ids=FISH_OFFERS.keys())
def test_fish_offers_what_can_stand_there(line: str, offered: list[str], place: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    done = subprocess.run(
        [fish, "--no-config", "-c", f"source .complete.fish; complete -C '{line}'"],
        cwd=place,
        env=environment({"HOME": str(place)}),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    found = [row.split("\t")[0] for row in done.stdout.splitlines()]
    assert (sorted(found), done.stderr) == (offered, "")


def test_zsh_takes_the_script_and_offers_commands(place: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh is not installed")
    # What zsh offers is seen through `compadd`, which its completion functions call with the matches.
    script = """
        source .complete.zsh
        compadd() { print -rl -- "${(@)argv}" }
        words=(byleave check re); CURRENT=3; PREFIX=re; SUFFIX=
        _bash_complete -F _byleave 2>&1
    """
    done = subprocess.run(
        [zsh, "-f", "-c", script],
        cwd=place,
        env=environment({"HOME": str(place)}),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert "read" in done.stdout.split(), (done.stdout, done.stderr)


def test_a_script_is_sourced_without_a_word(place: Path) -> None:
    for shell, options in (("bash", ["--norc"]), ("zsh", ["-f"]), ("fish", ["--no-config"])):
        if shutil.which(shell) is not None:
            argv = [shell, *options, "-c", f"source .complete.{shell}"]
            env = environment({"HOME": str(place), "PATH": os.environ["PATH"]})
            done = subprocess.run(argv, cwd=place, env=env, capture_output=True, check=False, timeout=PATIENCE)
            assert (shell, done.returncode, done.stdout, done.stderr) == (shell, 0, b"", b"")
