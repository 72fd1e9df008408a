"""With `access.commands` only listed programs run, judged one by one, and there is no way round."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from command import COMMAND, PATIENCE, Done, at_terminal, byleave, environment
from sandbox import commands_attempts
from sandbox.machine import NO_PERSON, PYTHON, access_file, alive, as_nobody, inside, needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")]

ACCESS = """\
[[access.env]]
name = "MY_*"
read = true

[access.commands.sh]
[access.commands.sleep]
[access.commands.cat]
[access.commands.ls]
args = [["-d", "**"]]

[access.commands.printenv]
envs = ["MY_WORD", "MY_OTHER_*", "HIDDEN"]

[access.commands.git]
args = [["--version"], ["hash-object", "--stdin"], ["init", "**"]]
"""
TRIAL = f"""\
[access.commands."{PYTHON}"]
[access.commands.git]
args = [["--version"]]

[access.commands.sleep]
"""
USUAL = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with nothing in it."""
    place = tmp_path / "ws"
    place.mkdir()
    return place


def in_shell(root: Path, script: str, *, access: str = ACCESS, feed: bytes = b"", **variables: str) -> Done:
    """Run a script by a shell that may start what is listed."""
    options = access_file(root.parent, access)
    return inside(root, "sh", "-c", script, options=options, feed=feed, env={**USUAL, **variables})


# What is listed, and what is not


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git --version", 0),
        ("git --version --build-options", 126),
        ("git status", 126),
        ("git", 126),
        ("git init -q a", 0),
        ("ls -d .", 0),
        ("ls .", 126),
        ("id", 127),
        ("/usr/bin/git --version", 127),
        ("/usr/bin/id", 127),
        ("./script", 126),
        ("/bin/ls -d .", 127),
        ("exec git --version", 0),
        ("exec git status", 126),
    ],
)
def test_only_what_is_listed_runs_with_the_words_that_are_listed(root: Path, line: str, expected: int) -> None:
    (root / "script").write_text("#!/bin/sh\n")
    (root / "script").chmod(0o755)
    assert in_shell(root, line).code == expected


def test_a_denied_program_says_why(root: Path) -> None:
    done = in_shell(root, "git push --force 'origin\x1b[31m'")
    rule = "commands git: --version | hash-object --stdin | init **"
    said = f"starting git is denied: its arguments do not match the rule `{rule}`"
    assert (done.code, done.err) == (126, f"byleave: git: {said}\n")


def test_a_denied_program_at_the_start_is_never_started(root: Path) -> None:
    options = access_file(root.parent, ACCESS)
    assert inside(root, "git", "status", options=options, env=USUAL).code == 20
    assert inside(root, "id", options=options, env=USUAL).code == 20
    assert inside(root, "git", "--version", options=options, env=USUAL).code == 0


def test_what_an_interpreter_starts_is_judged_as_well(root: Path) -> None:
    done = in_shell(root, "sh -c 'git --version && id'; sh -c 'sh -c \"git status\"'; /bin/sh -c 'id'")
    assert (done.code, done.out.count("git version"), done.err.count("id: not found")) == (127, 1, 2)
    assert "byleave: git: starting git is denied" in done.err


def test_an_empty_list_lets_nothing_start(root: Path) -> None:
    options = access_file(root.parent, "[access.commands]\n")
    assert inside(root, "sh", "-c", "exit 0", options=options, env=USUAL).code == 20


def test_a_program_that_is_listed_by_its_path_is_called_by_it(root: Path) -> None:
    access = '[access.commands.sh]\n[access.commands."/bin/cat"]\n[access.commands."./cat"]\n'
    script = "echo a | /bin/cat; echo $?; echo b | cat; echo $?; echo c | /usr/bin/cat; echo $?; ./cat; echo $?"
    done = in_shell(root, script, access=access)
    assert done.out.split() == ["a", "0", "126", "126", "127"], done  # a search along PATH finds it by another path


def test_every_start_is_recorded(root: Path, tmp_path: Path) -> None:
    in_shell(root, "git --version; git status; sh -c 'git init -q b'", BYLEAVE_HOME=str(tmp_path / "home"))
    listed = byleave("audit", "export", "--json", "--root", str(root), env={"BYLEAVE_HOME": str(tmp_path / "home")})
    records = [json.loads(line) for line in listed.out.splitlines()]
    spawned = [
        (each["action"]["program"], each["action"]["args"][:1], each["verdict"]["decision"])
        for each in records
        if each["action"]["kind"] == "spawn"
    ]
    assert spawned == [
        ("sh", ["-c"], "allow"),
        ("git", ["--version"], "allow"),
        ("git", ["status"], "deny"),
        ("sh", ["-c"], "allow"),
        ("git", ["init"], "allow"),
    ]


# Ways round


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """What became of all attempts, in one run."""
    place = tmp_path_factory.mktemp("tried")
    (place / "ws").mkdir()
    shutil.copy(commands_attempts.__file__, place / "ws/attempts.py")
    env = {**USUAL, "BYLEAVE_HOME": str(place / "byleave")}  # made once, before any test has a home of its own
    done = inside(place / "ws", PYTHON, "attempts.py", options=access_file(place, TRIAL), env=env)
    assert done.code == 0, done
    told = json.loads(done.out)
    assert told["was run for us"]
    tried: dict[str, list[object]] = told["tried"]
    return tried


@pytest.mark.parametrize("name", sorted(commands_attempts.ATTEMPTS))
def test_there_is_no_way_round(tried: dict[str, list[object]], name: str) -> None:
    worked, said = tried[name]
    assert not worked, said


def test_there_is_no_way_round_for_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(prefix="byleave-test-", dir="/var/tmp") as name:
        place = Path(name)
        place.chmod(0o755)
        words, variables = as_nobody(place / "home")
        (place / "ws").mkdir()
        shutil.copy(commands_attempts.__file__, place / "ws/attempts.py")
        os.chown(place / "ws", NO_PERSON, NO_PERSON)
        options = access_file(place, TRIAL)
        command = [*words, "-m", "byleave", "run", "--root", str(place / "ws"), "--no-input", *options]
        done = subprocess.run(
            [*command, "--", PYTHON, "attempts.py"],
            env=variables,
            cwd=place / "ws",
            capture_output=True,
            check=False,
            timeout=2 * PATIENCE,
        )
        assert done.returncode == 0, done
        told = json.loads(done.stdout)
        assert told["was run for us"]
        assert [name for name, (worked, _said) in told["tried"].items() if worked] == []


# As it is without a sandbox


def test_streams_go_through(root: Path) -> None:
    done = in_shell(
        root, "printf x | git hash-object --stdin; cat | cat | sh -c 'cat; echo problem >&2'", feed=b"fed\n"
    )
    assert (done.code, done.out, done.err) == (0, "c1b0730e0133447badcfd47fd144e254807b06e1\nfed\n", "problem\n")


def test_much_goes_through(root: Path) -> None:
    done = in_shell(root, "cat | cat | cat", feed=b"0123456789abcdef" * 100_000)
    assert (done.code, len(done.out)) == (0, 1_600_000)


def test_closed_streams_are_no_trouble(root: Path) -> None:
    assert in_shell(root, "git --version <&- >&- 2>&-; cat <&- ; sh -c 'exit 3' <&- >&- 2>&-").code == 3


def test_the_working_directory_and_the_mask_go_along(root: Path) -> None:
    (root / "sub dir").mkdir()
    done = in_shell(root, "umask 077; cd 'sub dir'; sh -c 'pwd; umask; : > made'; cd /; ls -d .; sh -c pwd")
    assert done.out.split("\n")[:4] == [f"{root}/sub dir", "0077", ".", "/"]
    assert (root / "sub dir/made").stat().st_mode & 0o777 == 0o600


def test_a_directory_that_is_gone_is_an_answer(root: Path) -> None:
    (root / "gone").mkdir()
    access = "[access.commands.sh]\n[access.commands.rmdir]\n[access.commands.ls]\n"
    done = in_shell(root, "cd gone; rmdir ../gone; ls; echo $?", access=access)
    assert (done.out.split()[-1:], "its working directory is gone" in done.err) == (["126"], True)


def test_only_named_variables_reach_a_program(root: Path) -> None:
    access = ACCESS + "[access.commands.env]\n"
    variables: dict[str, Any] = {"MY_WORD": "1", "MY_OTHER_WORD": "2", "MY_OWN": "3", "HIDDEN": "4"}
    script = 'echo "$MY_OWN"; MY_WORD=changed HIDDEN=5 LD_PRELOAD=/x BAD=1 printenv; echo; env'
    done = in_shell(root, script, access=access, **variables)
    own, *lines = done.out.split("\n")
    listed, others = "\n".join(lines).split("\n\n")
    shown = {line.partition("=")[0] for line in listed.split("\n")}
    assert own == "3"
    assert {"MY_WORD=changed", "MY_OTHER_WORD=2", f"PATH={USUAL['PATH']}"} <= set(listed.split("\n"))
    assert shown & {"HIDDEN", "MY_OWN", "LD_PRELOAD", "BAD"} == set()
    assert "MY_" not in others


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sh -c 'exit 7'", 7),
        ("sh -c 'exit 255'", 255),
        ("sh -c 'kill -TERM $$'", 143),
        ("sh -c 'kill -KILL $$'", 137),
        ("sh -c 'kill -SEGV $$'", 139),
        ("exec sh -c 'kill -INT $$'", 130),
    ],
)
def test_a_program_ends_as_it_ended(root: Path, line: str, expected: int) -> None:
    assert in_shell(root, line).code == expected


def test_signals_are_passed_on(root: Path) -> None:
    script = """
        sh -c 'trap "echo got TERM; exit 9" TERM; echo ready; while :; do sleep 0.05; done' &
        until kill -0 $!; do :; done
        sleep 0.5; kill -TERM $!; wait $!; echo $?
    """
    assert in_shell(root, script).out.split("\n")[:3] == ["ready", "got TERM", "9"]


def test_ignored_signals_stay_ignored(root: Path) -> None:
    done = in_shell(
        root, "trap '' TERM; sh -c 'kill -TERM $$; echo alive'; sleep 0.5 & kill -TERM $!; wait $!; echo $?"
    )
    assert done.out.split() == ["alive", "0"], done


def test_what_runs_for_a_stand_in_ends_with_it(root: Path) -> None:
    token = f"3{os.getpid()}1"
    script = f"""
        sleep {token} & sleep 0.5; kill -KILL $!; wait $!; echo $?; sleep 0.3
        for each in /proc/[0-9]*; do
            case $(cat $each/comm) in sleep) echo $each;; esac
        done
    """
    done = in_shell(root, script)
    assert done.out.split() == ["137"]


def test_nothing_is_left_behind(root: Path) -> None:
    token = f"4{os.getpid()}2"
    assert in_shell(root, f"sleep {token} & sh -c 'sleep {token}' & sleep 0.5; exit 5").code == 5
    assert alive(token) == []


def test_ending_the_sandbox_ends_what_the_broker_runs(root: Path) -> None:
    token = f"5{os.getpid()}3"
    options = access_file(root.parent, ACCESS)
    words = ["run", "--root", str(root), *options, "--", "sh", "-c", f"sleep {token} & echo ready; wait"]
    with subprocess.Popen([*COMMAND, *words], cwd=root, env=environment(USUAL), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + PATIENCE
        while len(alive(token)) < 2 and time.monotonic() < deadline:  # the shell's words, and the program itself
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
    assert alive(token) == []


def test_the_terminal_interrupts_what_the_broker_runs(root: Path) -> None:
    options = access_file(root.parent, ACCESS)
    script = "trap 'echo interrupted' INT; echo ready; sleep 1000; echo $?"
    with at_terminal("run", "--root", str(root), *options, "--", "sh", "-c", script, cwd=root, env=USUAL) as terminal:
        terminal.wait_for("ready")
        time.sleep(0.5)
        terminal.type(b"\x03")
        assert terminal.ends() == 0
        assert "interrupted" in terminal.seen
        assert "130" in terminal.seen


def test_many_run_at_once(root: Path) -> None:
    code = """
import subprocess
many = [subprocess.Popen(["sh", "-c", "git --version; exit 3"], stdout=-1) for _ in range(50)]
print(sorted({(each.communicate()[0], each.returncode) for each in many}))
many = [subprocess.Popen(["sleep", "0.3"]) for _ in range(200)]
print({each.wait() for each in many})
"""
    access = f'{ACCESS}[access.commands."{PYTHON}"]\n'
    done = inside(root, PYTHON, "-c", code, options=access_file(root.parent, access), env=USUAL)
    first, second = done.out.splitlines()
    assert (first.count("git version"), first.endswith(", 3)]"), second) == (1, True, "{0}"), done


def test_those_who_leave_in_the_middle_hold_nobody_up(root: Path) -> None:
    code = """
import subprocess, time
for _ in range(10):
    many = [subprocess.Popen(["git", "--version"], stdout=-3, stderr=-3) for _ in range(20)]
    for number, each in enumerate(many):
        time.sleep(number / 5000)
        each.kill()
    codes = {each.wait() for each in many}
print(subprocess.call(["git", "--version"]))
"""
    access = f'{ACCESS}[access.commands."{PYTHON}"]\n'
    done = inside(root, PYTHON, "-c", code, options=access_file(root.parent, access), env=USUAL)
    assert done.out.split()[-1] == "0", done


def test_what_the_program_removes_keeps_nobody_from_starting(root: Path) -> None:
    (root / "part").mkdir()
    access = """
[[access.fs]]
path = "."
read = true
create = true
delete = true

[[access.fs]]
path = "part"
read = true
write = true

[access.commands.sh]
[access.commands.rmdir]
"""
    done = in_shell(root, "rmdir part; sh -c 'exit 3'; echo $?", access=access)
    assert done.out.split() == ["3"], done


def test_long_words_go_along(root: Path) -> None:
    code = """
import subprocess
words = [str(number) * 10 for number in range(20000)]
print(subprocess.check_output(["sh", "-c", 'echo $#', *words]))
"""
    access = f'{ACCESS}[access.commands."{PYTHON}"]\n'
    done = inside(root, PYTHON, "-c", code, options=access_file(root.parent, access), env=USUAL)
    assert done.out == "b'19999\\n'\n", done


# What is the program


def test_a_script_is_started_by_its_interpreter(root: Path) -> None:
    (root / "tool").write_text(
        '#!/usr/bin/env python3\nimport os, sys\nprint(sys.argv[1:], os.system("git --version"))\n'
    )
    (root / "tool").chmod(0o755)
    access = '[access.commands."./tool"]\n[access.commands.git]\n'
    done = inside(root, "./tool", "a", "b", options=access_file(root.parent, access), env=USUAL)
    assert done.code == 0, done
    assert done.out.startswith("['a', 'b']")
    assert "git version" not in done.out  # os.system needs /bin/sh, which is not listed


def test_a_program_of_the_workspace_may_be_run(root: Path) -> None:
    shutil.copy("/bin/sleep", root / "nap")
    access = '[access.commands."./nap"]\n'
    assert inside(root, "./nap", "0", options=access_file(root.parent, access), env=USUAL).code == 0


def test_the_plan_says_what_it_cannot_hold(root: Path) -> None:
    options = access_file(root.parent, ACCESS + '[access.commands."./x"]\n')
    done = inside(root, "sh", options=["--explain", "--json", *options], env=USUAL)
    plan = json.loads(done.out)
    assert plan["commands"] == ["./x", "cat", "git", "ls", "printenv", "sh", "sleep"]
    assert plan["broker"]["stand_ins"] == ["cat", "git", "ls", "printenv", "sh", "sleep"]
    assert "/usr/bin" in plan["broker"]["covered"]
    noted = Counter(each["op"] for each in plan["approximate"] if each["op"] in ("spawn", "exec"))
    assert (noted["spawn"], noted["exec"] >= 2) == (8, True)
