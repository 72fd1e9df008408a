"""Trust is given by a person at a terminal, or by a script's `--yes`: never by an agent, never by accident."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from command import COMMAND, PATIENCE, at_terminal, byleave, environment

POLICY = """\
[tools.t]
source = "local"
command = ["./run.sh", "--fast"]
run = "unattended"
[[tools.t.access.fs]]
path = "src"
read = true
[[tools.t.access.env]]
name = "TOKEN_*"
read = true
[[tools.t.access.net]]
host = "api.example.org"
allow = true
[tools.t.access.commands.git]
args = [["status", "**"]]
"""
LOCAL = '[tools.mine]\nsource = "local"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "byleave.toml").write_text(POLICY)
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    return tmp_path


def is_trusted(project: Path) -> bool:
    return byleave("check", "read", "src/x", "--tool", "t", "-q", cwd=project).code == 0


LISTED = (
    "[tools.t] ",
    'command = ["./run.sh", "--fast"]',
    'run = "unattended"',
    'fs: path = "src", read = true',
    'env: name = "TOKEN_*", read = true',
    'net: host = "api.example.org", allow = true',
    'commands: git with args = [["status", "**"]]',
    'the script "run.sh" (sha256 ',
)


def test_a_person_sees_what_becomes_active_and_agrees(project: Path) -> None:
    with at_terminal("trust", cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        assert [line for line in LISTED if line not in terminal.seen] == []
        terminal.type(b"y\n")
        assert terminal.ends() == 0
        assert "trusted: byleave.toml" in terminal.seen
    assert is_trusted(project)


NOES = {"no": b"n\n", "No": b"NO\n", "nothing": b"\n", "Ctrl-C": b"\x03", "end of input": b"\x04"}


@pytest.mark.parametrize("keys", NOES.values(), ids=NOES.keys())
def test_everything_but_a_clear_yes_is_a_no(keys: bytes, project: Path) -> None:
    with at_terminal("trust", cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(keys)
        assert terminal.ends() == 1
        assert "nothing was changed" in terminal.seen
    assert not is_trusted(project)


def test_a_slip_is_asked_about_again(project: Path) -> None:
    with at_terminal("trust", cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(b"yy\n")
        terminal.wait_for("Please type y or n.")
        terminal.type(b"y\n")
        assert terminal.ends() == 0
    assert is_trusted(project)


def test_slips_without_end_are_no_yes(project: Path) -> None:
    with at_terminal("trust", cwd=project) as terminal:
        for number in range(3):
            terminal.wait_for("Please type y or n.\r\n" if number else "[y/N] ")
            terminal.seen = ""
            terminal.type(b"yes please\n")
        assert terminal.ends() == 1
    assert not is_trusted(project)


def test_the_person_sees_the_list_even_if_standard_output_leads_elsewhere(project: Path) -> None:
    with at_terminal("trust", "-q", cwd=project, stdout=subprocess.DEVNULL) as terminal:
        terminal.wait_for("[y/N] ")
        assert [line for line in LISTED if line not in terminal.seen] == []
        terminal.type(b"yes\n")
        assert terminal.ends() == 0


def test_a_file_that_changes_while_the_question_is_open_is_not_trusted(project: Path) -> None:
    with at_terminal("trust", cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        with (project / "byleave.toml").open("a") as file:
            file.write('[[tools.t.access.fs]]\npath = "."\nread = true\n')
        terminal.type(b"y\n")
        assert terminal.ends() == 0
    assert not is_trusted(project)


def test_without_a_terminal_nobody_can_agree(project: Path) -> None:
    done = byleave("trust", cwd=project, feed=b"y\ny\n")
    assert done.code == 2
    assert "this needs your consent at a terminal" in done.err
    assert [line for line in LISTED if line not in done.out] == []
    assert not is_trusted(project)


def test_no_input_stops_where_consent_is_needed(project: Path) -> None:
    with at_terminal("trust", "--no-input", cwd=project) as terminal:
        assert terminal.ends() == 2
        assert "with --no-input you are not asked" in terminal.seen
    assert not is_trusted(project)


def test_a_script_consents_with_yes(project: Path) -> None:
    assert byleave("trust", "--yes", cwd=project).code == 0
    assert is_trusted(project)


def below_a_door(*words: str) -> list[str]:
    """Return an argument vector whose process is named like one of byleave's doors, and runs the words as a child."""
    return ["byleave", "-c", '"$@"; exit $?', "acp", *words]


def test_below_a_door_yes_does_not_count(project: Path) -> None:
    done = subprocess.run(
        below_a_door(*COMMAND, "trust", "--yes"),
        executable="/bin/sh",
        cwd=project,
        env=environment(None),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "an agent or tool may have started this command" in done.stderr
    assert not is_trusted(project)


def test_below_a_door_a_terminal_of_the_agents_own_does_not_count_either(project: Path, tmp_path: Path) -> None:
    # `exec -a` is bash's; it gives the shell that waits for our command the name of a door.
    door = ("/bin/bash", "-c", 'exec -a byleave /bin/bash -c \'"$@"; exit $?\' acp "$@"', "bash")
    with at_terminal("trust", cwd=project, before=door) as terminal:
        assert terminal.ends() == 2
        assert "an agent or tool may have started this command" in terminal.seen
    assert not is_trusted(project)


HOSTILE = """\
[tools."t\\u001b[2J\\u202e"]
source = "local"
command = ["sh", "-c", "echo \\u001b]0;owned\\u0007\\nfs: path = harmless"]
[[tools."t\\u001b[2J\\u202e".access.fs]]
path = "a, read = false\\u3164"
write = true
[tools."t\\u001b[2J\\u202e".access.commands."x\\u009b31m"]
"""


def test_names_that_would_act_on_the_terminal_are_written_out(project: Path) -> None:
    (project / "byleave.toml").write_text(HOSTILE)
    done = byleave("trust", cwd=project)
    assert [char for char in done.out + done.err if not char.isprintable() and char != "\n"] == []
    assert '[tools."t\\u001b[2J\\u202e"]' in done.out
    assert '\\u0007\\u000afs: path = harmless"]' in done.out
    assert 'path = "a, read = false\\u3164", write = true' in done.out
    assert 'commands: "x\\u009b31m" with any arguments' in done.out


def test_trusting_again_changes_nothing_and_asks_nothing(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    again = byleave("trust", cwd=project)
    assert (again.code, again.out) == (0, "byleave.toml is trusted already, as it is now\nnothing was changed\n")


def test_a_changed_file_has_to_be_trusted_again(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    with (project / "byleave.toml").open("a") as file:
        file.write("# changed\n")
    assert not is_trusted(project)


def test_a_changed_script_has_to_be_trusted_again(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    (project / "run.sh").write_text("#!/bin/sh\nrm -rf .\n")
    assert not is_trusted(project)


def test_trust_is_taken_back(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    assert byleave("untrust", cwd=project).code == 2
    assert is_trusted(project)
    done = byleave("untrust", "--yes", cwd=project)
    assert (done.code, done.out) == (0, "untrusted: byleave.toml\n")
    assert not is_trusted(project)
    again = byleave("untrust", "--yes", cwd=project)
    assert (again.code, again.out) == (0, "byleave.toml was not trusted\nnothing was changed\n")


def test_trust_in_a_file_that_is_gone_can_be_taken_back(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    (project / "byleave.toml").rename(project / "kept")
    assert byleave("untrust", "byleave.toml", "--yes", cwd=project).out == "untrusted: byleave.toml\n"
    (project / "kept").rename(project / "byleave.toml")
    assert not is_trusted(project)


def test_two_at_once_lose_nothing(project: Path) -> None:
    (project / ".byleave").mkdir()
    (project / ".byleave" / "local.toml").write_text(LOCAL)
    words = [[*COMMAND, "trust", "--yes", "-q", name] for name in ("byleave.toml", ".byleave/local.toml")] * 4
    running = [subprocess.Popen(line, cwd=project, env=environment(None)) for line in words]
    assert [process.wait(timeout=PATIENCE) for process in running] == [0] * len(words)
    layers = json.loads(byleave("policy", "show", "--json", cwd=project).out)["layers"]
    assert [(layer["file"], layer["trusted"]) for layer in layers] == [
        ("byleave.toml", True),
        (".byleave/local.toml", True),
    ]


def test_answers_for_programs_are_json(project: Path) -> None:
    assert json.loads(byleave("trust", "--yes", "--json", cwd=project).out) == {"trusted": ["byleave.toml"]}
    assert json.loads(byleave("trust", "--yes", "--json", cwd=project).out) == {"trusted": []}
    assert json.loads(byleave("untrust", "--yes", "--json", cwd=project).out) == {"untrusted": ["byleave.toml"]}
    refused = byleave("trust", "--json", cwd=project)
    assert (refused.code, json.loads(refused.out)["error"]["code"]) == (2, "state")


@pytest.mark.parametrize(
    ("name", "code"),
    {"byleave.toml": 0, "./byleave.toml": 0, "../byleave.toml": 0, "src/x": 2, "/etc/passwd": 2, "\x1b[2J": 2}.items(),
)
def test_only_project_files_can_be_trusted(name: str, code: int, project: Path) -> None:
    done = byleave("trust", name, "--yes", "-q", cwd=project / "src")
    assert done.code == code
    assert (("is not a project file" in done.err) if code else not done.err) is True
    assert "\x1b" not in done.err


def test_a_file_that_cannot_be_read_as_configuration_cannot_be_trusted(project: Path) -> None:
    (project / "byleave.toml").write_text("[tools.t\n")
    done = byleave("trust", "--yes", cwd=project)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("byleave: byleave.toml:1: ")


def test_without_a_project_file_there_is_nothing_to_trust(tmp_path: Path) -> None:
    done = byleave("trust", "--yes", cwd=tmp_path)
    assert done.code == 2
    assert "`byleave init` writes one" in done.err


COLOURS: dict[str, tuple[dict[str, str | None], bool]] = {
    "a terminal": ({"NO_COLOR": None, "TERM": "xterm"}, True),
    "NO_COLOR": ({"NO_COLOR": "1", "TERM": "xterm"}, False),
    "an empty NO_COLOR": ({"NO_COLOR": "", "TERM": "xterm"}, True),
    "a dumb terminal": ({"NO_COLOR": None, "TERM": "dumb"}, False),
}


@pytest.mark.parametrize(("env", "coloured"), COLOURS.values(), ids=COLOURS.keys())
def test_colour_is_for_terminals_that_want_it(env: dict[str, str | None], coloured: bool, project: Path) -> None:  # noqa: FBT001 -- a column of the table
    with at_terminal("check", "read", "x", cwd=project, env=env) as terminal:
        assert terminal.ends() == 10
    assert ("\x1b[33mask\x1b[0m: " in terminal.seen) == coloured
    assert ("\x1b[33mbyleave: warning:\x1b[0m " in terminal.seen) == coloured
    assert coloured or "\x1b" not in terminal.seen


def test_a_pipe_gets_no_colour(project: Path) -> None:
    done = byleave("check", "read", "x", cwd=project, env={"NO_COLOR": None, "TERM": "xterm"})
    assert "\x1b" not in done.out + done.err


def test_a_terminal_gets_errors_without_escape_sequences_of_others(project: Path) -> None:
    env = {"NO_COLOR": None, "TERM": "xterm"}
    with at_terminal("check", "read", "\x1b]0;owned\x07\u202e", "--tool", "\x9b2J", cwd=project, env=env) as terminal:
        assert terminal.ends() == 2
    plain = terminal.seen.replace("\x1b[33m", "").replace("\x1b[0m", "")
    assert [char for char in plain if not char.isprintable() and char not in "\r\n"] == []


def test_a_home_that_cannot_be_written_is_an_error_with_a_hint(project: Path) -> None:
    done = byleave("trust", "--yes", cwd=project, env={"BYLEAVE_HOME": "/dev/null/x"})
    assert done.code == 2
    assert "hint: " in done.err
    assert not os.path.exists("/dev/null/x")


@pytest.mark.parametrize("flag", ["--json", "-q"])
def test_a_person_sees_the_list_even_if_standard_output_is_kept_for_programs(flag: str, project: Path) -> None:
    with at_terminal("trust", flag, cwd=project) as terminal:
        terminal.wait_for("[y/N] ")
        assert [line for line in LISTED if line not in terminal.seen] == []
        terminal.type(b"n\n")
        assert terminal.ends() == 1


def test_what_is_wrong_with_a_server_is_shown_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[servers.gone]\ncommand = ["/nowhere/to/be/found", "a", "b"]\n')
    with at_terminal("mcp", "--check", cwd=tmp_path, columns=80, env={"TERM": "xterm", "NO_COLOR": None}) as terminal:
        assert terminal.ends() == 1
    assert "byleave.toml is not trusted yet" in terminal.seen
    said = terminal.seen.replace("\r", "").partition("no server is in effect")
    assert "\n  hint: byleave trust\n" in said[2]  # the warning, which the log writes, may stand before or behind it
    with at_terminal("check", "read", "x", cwd=tmp_path, columns=80, env={"TERM": "dumb"}) as terminal:
        terminal.ends()
    assert "byleave: warning:" in terminal.seen
    assert max(map(len, terminal.seen.replace("\r", "").split("\n"))) <= 80

    assert byleave("trust", "--yes", cwd=tmp_path).code == 0
    with at_terminal("mcp", "--check", cwd=tmp_path, columns=80, env={"TERM": "xterm", "NO_COLOR": None}) as terminal:
        assert terminal.ends() == 1
    assert "\x1b[31mcannot be used\x1b[0m" in terminal.seen
    assert "internal error" not in terminal.seen


def test_what_a_file_makes_active_stands_further_in_however_long_it_is(tmp_path: Path) -> None:
    words = f"{'x' * 40} {'y' * 40} Trust"
    (tmp_path / "byleave.toml").write_text(f'[servers.long]\ncommand = ["{words}"]\n')
    with at_terminal("trust", cwd=tmp_path, columns=80) as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type(b"\n")
        assert terminal.ends() == 1
    rows = terminal.seen.replace("\r", "").split("\n")
    shown = rows[1 : next(number for number, row in enumerate(rows) if row.startswith("Trust byleave.toml"))]
    assert [row for row in shown if not row.startswith("  ")] == []
    assert max(map(len, shown)) <= 80
    assert "Trust" in "".join(shown)
