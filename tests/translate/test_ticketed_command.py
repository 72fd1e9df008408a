"""What an agent runs in the place of a command starts byleave with exactly the words that are meant, in any shell."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amounts import some
from byleave.translate.ticketed_command import fits, ticket_in, ticketed_text

TICKET = "0123456789abcdef" * 2
SHELLS = [path for name in ("bash", "zsh", "sh") if (path := shutil.which(name)) is not None]
BOTH = [path for path in SHELLS if not path.endswith("/sh")]
ODD = (
    "ls",
    "",
    " ",
    "it's",
    "-v",
    "--",
    'echo "$HOME" `id` $(id) \\ !! {a,b} *',
    "cat <<'END'\nit's\nEND\n",
    "make # a comment",
    "sleep 1 &",
    "a\tb\x01\x7f\u00fc\u2028\U0001f600",
    "'\"'\"'",
    "x\r\ny\\\n",
)


def program(place: Path, code: int = 0) -> Path:
    """Return a program that writes down its arguments, and with --cwd-file a directory."""
    path = place / "a program"
    path.write_text(
        "#!/usr/bin/env python3\nimport json, sys\n"
        f"open({str(place / 'said')!r}, 'w').write(json.dumps(sys.argv[1:]))\n"
        "if '--cwd-file' in sys.argv:\n"
        f"    open(sys.argv[sys.argv.index('--cwd-file') + 1], 'w').write({str(place / 'there')!r})\n"
        f"sys.exit({code})\n"
    )
    path.chmod(0o700)
    (place / "there").mkdir(exist_ok=True)
    return path


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("text", "shell"), some([(text, shell) for text in ODD for shell in SHELLS], every=2))
def test_every_shell_starts_byleave_with_the_very_text(shell: str, text: str, tmp_path: Path) -> None:
    made = ticketed_text([str(program(tmp_path))], TICKET, ["--root", "/a b"], text)
    assert subprocess.run([shell, "-c", made], check=False).returncode == 0
    assert json.loads((tmp_path / "said").read_text()) == [
        "run",
        "--ticket",
        TICKET,
        "--root",
        "/a b",
        f"--shell={text}",
    ]


@pytest.mark.parametrize("shell", BOTH)
@pytest.mark.parametrize("code", [0, 7])
def test_the_shell_follows_a_command_that_succeeded_and_keeps_its_exit_code(
    shell: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "its").mkdir()
    file = tmp_path / "its" / "cwd file"
    made = ticketed_text([str(program(tmp_path, code))], TICKET, [], "cd there", cwd_file=str(file))
    done = subprocess.run(
        [shell, "-c", f"eval {_quoted(made)} < /dev/null; code=$?; pwd -P; echo $code"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    where = tmp_path / "there" if code == 0 else tmp_path
    assert (done.stdout, done.stderr) == (f"{where}\n{code}\n", "")


@pytest.mark.parametrize("shell", BOTH)
def test_a_directory_that_is_gone_leaves_the_exit_code_as_it_is(shell: str, tmp_path: Path) -> None:
    made = ticketed_text([str(program(tmp_path))], TICKET, [], "x", cwd_file=str(tmp_path / "cwd"))
    (tmp_path / "there").rmdir()
    done = subprocess.run([shell, "-c", made], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", BOTH)
def test_aliases_functions_and_variables_of_the_agents_shell_change_nothing(shell: str, tmp_path: Path) -> None:
    made = ticketed_text([str(program(tmp_path))], TICKET, [], "x", cwd_file=str(tmp_path / "cwd"))
    before = "cd() { echo cd; }; true() { echo true; }; CDPATH=/; set -u; "
    done = subprocess.run(
        [shell, "-c", f"{before}set > before; {made}; builtin cd {tmp_path}; set > after"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout == ""
    names = [
        {line.partition("=")[0] for line in (tmp_path / file).read_text(errors="replace").splitlines()}
        for file in ("before", "after")
    ]
    assert names[1] - names[0] <= {"OLDPWD", "_", "PIPESTATUS"}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


@given(st.text())
def test_the_ticket_is_found_in_the_text_again(text: str) -> None:
    assert ticket_in(ticketed_text(["/bin/python", "-I"], TICKET, ["--root", "/w"], text)) == TICKET
    assert ticket_in(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "echo run --ticket x",
        f"a\nb run --ticket {TICKET} --root",
        f"run --ticket {TICKET}",
        f"x run --ticket {TICKET}0 -",
    ],
)
def test_no_other_text_has_a_ticket(text: str) -> None:
    assert ticket_in(text) is None


def test_what_a_shell_could_not_take_does_not_fit() -> None:
    assert [fits(text) for text in ("x", "x" * 90_000, "x" * 110_000, "'" * 10_000, "\ud800", "a\0b")] == [
        *(True, True, False, False, False, False)
    ]
