"""`byleave run --ticket`: the command behind the ticket runs, once and confined, or nothing runs."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from byleave.policy.dirs import find_homes
from byleave.store.tickets import LIFETIME, Ticket, issue, new_id
from command import Done, byleave

ENTRY = Path(__file__).parents[2] / "src/byleave/cli/__main__.py"
RULES = """
[shell]
[[rules]]
allow = { any_command = true }
sandbox = true
"""


class Room:
    """A user's home, a workspace, and what a hook leaves in byleave's state."""

    def __init__(self, base: Path) -> None:
        self.home, self.root = base / "home", base / "ws"
        config = self.home / ".config/byleave"
        for directory in (self.home, config.parent, config, self.root, self.root / "src"):
            directory.mkdir(mode=0o700)
        (config / "config.toml").write_text(RULES)

    @property
    def state(self) -> str:
        return find_homes({"HOME": str(self.home)}).workspace(str(self.root))

    def issue(self, text: str, **fields: object) -> str:
        root = str(self.root)
        usual = Ticket(new_id(), text, root, root, "bash", "claude-code", created=time.time(), sequence=7)
        ticket = usual.replace(**fields)
        issue(self.state, ticket)
        return ticket.id

    def run(self, ticket: str, *more: str, text: str = "true", root: Path | None = None) -> Done:
        words = ("run", "--home", str(self.home), "--root", str(root or self.root), "--ticket", ticket, *more)
        return byleave(*words, f"--shell={text}", cwd=self.root, env={"HOME": "/nowhere"})

    def records(self) -> list[dict[str, object]]:
        done = byleave("audit", "export", cwd=self.root, env={"HOME": str(self.home), "BYLEAVE_HOME": None})
        return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_the_text_behind_the_ticket_runs_in_its_directory_and_is_recorded(room: Room) -> None:
    ticket = room.issue("pwd; touch made; exit 7", cwd=str(room.root / "src"))
    done = room.run(ticket, text="touch other")
    assert (done.code, done.out) == (7, f"{room.root}/src\n")
    assert (room.root / "src/made").exists()
    assert not (room.root / "other").exists()
    (record,) = [each for each in room.records() if each["event"] == "redeemed"]
    assert (record["of"], record["agent"], record["door"]) == (7, "claude-code", "run")
    assert record["action"] == {"kind": "command", "command": "pwd; touch made; exit 7", "cwd": f"{room.root}/src"}


def test_the_run_is_confined(room: Room, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert room.run(room.issue(f"touch {outside}/x || exit 3")).code == 3
    assert not list(outside.iterdir())


def test_the_directory_in_which_it_ended_is_written(room: Room) -> None:
    file = room.home / "cwd"
    assert room.run(room.issue("cd src"), "--cwd-file", str(file)).code == 0
    assert file.read_text().rstrip("\n") == f"{room.root}/src"


@pytest.mark.parametrize("way", ["gone", "link", "closed"])
def test_a_command_runs_in_no_other_directory_than_the_one_it_was_decided_for(room: Room, way: str) -> None:
    """`rm -rf *` in build is not `rm -rf *` at the root."""
    place = room.root / "build"
    if way == "closed":
        place.mkdir()
        config = room.home / ".config/byleave/config.toml"
        config.write_text(config.read_text() + '[[rules]]\ndeny = { path = ["build", "build/**"] }\n')
    elif way == "link":
        place.symlink_to(room.root)
    done = room.run(room.issue("pwd", cwd=str(place)))
    assert done.out == ""
    assert (done.code, "runs in no other" in done.err) == (125, True)


REFUSED = "the command was not run"


def test_a_ticket_is_good_for_one_run(room: Room) -> None:
    ticket = room.issue("echo x >> runs")
    codes = [room.run(ticket).code for _ in range(2)]
    assert (codes, (room.root / "runs").read_text()) == ([0, 125], "x\n")


def test_an_unknown_or_an_old_ticket_runs_nothing(room: Room) -> None:
    old = room.issue("touch made", created=time.time() - LIFETIME - 60)
    for ticket in ("0" * 32, "x", "", old, old):
        done = room.run(ticket, text="touch made")
        assert (done.code, done.out) == (125, "")
        assert REFUSED in done.err
    assert not (room.root / "made").exists()


def test_the_ticket_of_another_workspace_runs_nothing(room: Room, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert room.run(room.issue("touch made"), root=other).code == 125
    assert room.run(room.issue("touch made", root=str(other))).code == 125
    assert not list(other.iterdir())
    assert not (room.root / "made").exists()


def test_what_cannot_be_recorded_does_not_run(room: Room) -> None:
    ticket = room.issue("touch made")
    (Path(room.state) / "audit.journal").mkdir()
    assert room.run(ticket).code == 125
    assert not (room.root / "made").exists()


def test_a_policy_that_cannot_be_used_runs_nothing(room: Room) -> None:
    ticket = room.issue("touch made")
    (room.home / ".config/byleave/config.toml").write_text("this is no TOML")
    assert room.run(ticket).code == 125
    assert not (room.root / "made").exists()


def test_what_the_rules_deny_by_now_does_not_run(room: Room) -> None:
    ticket = room.issue("touch made")
    config = room.home / ".config/byleave/config.toml"
    config.write_text('[[rules]]\ndeny = { command = "touch" }\n' + RULES)
    assert room.run(ticket).code == 20
    assert not (room.root / "made").exists()


@pytest.mark.parametrize(
    "more", [("--access", "x"), ("--tool", "x"), ("--explain",), ("--policy", "x"), ("--mount", "a=b")]
)
def test_a_ticket_takes_no_other_policy(room: Room, more: tuple[str, ...]) -> None:
    assert room.run(room.issue("touch made"), *more).code == 2
    assert not (room.root / "made").exists()


def test_the_entry_that_hooks_name_runs_without_site_and_without_the_workspace(room: Room) -> None:
    (room.root / "json.py").write_text("raise SystemExit(99)")
    packages = [place for place in sys.path if (Path(place) / "msgspec").is_dir()]
    words = [sys.executable, "-I", "-S", str(ENTRY), "--packages", ":".join(packages), "run", "--home", str(room.home)]
    done = subprocess.run(
        [*words, "--root", str(room.root), "--ticket", room.issue("echo ran"), "--shell=x"],
        capture_output=True,
        text=True,
        check=False,
        cwd=room.root,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(room.root)},
    )
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_the_run_warns_of_changed_files_that_other_programs_obey(room: Room) -> None:
    done = room.run(room.issue("echo x > src/.envrc"))
    warned = "byleave: warning: while it ran, files changed that other programs run or obey by themselves: src/.envrc"
    assert (done.code, warned in done.err) == (0, True), done
    assert "warning" not in room.run(room.issue("touch src/other")).err


def test_the_run_says_once_that_not_all_of_the_workspace_was_looked_at(room: Room) -> None:
    """As in a large workspace: more directories than are looked through in the time."""
    for number in range(5000):
        (room.root / f"src/d{number % 70}/e{number}/f").mkdir(parents=True)
    limit = (
        "import sys, byleave.cli.ticket_run as run; run._LONGEST_LOOK = 0.001\n"
        "from byleave.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    said = []
    for _ in range(2):
        words = ["run", "--home", str(room.home), "--root", str(room.root), "--ticket", room.issue("true")]
        done = subprocess.run(
            [sys.executable, "-c", limit, *words, "--shell=true"], cwd=room.root, capture_output=True, check=False
        )
        said.append((done.returncode, done.stderr.count(b"the workspace is too large to be searched after a run")))
    assert said == [(0, 1), (0, 0)]
