"""`process.run` of a tool: what may be started, with which variables, what comes back, and that nothing is left."""

import base64
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import amounts
from byleave.core.decision import ALLOW
from byleave.core.redact import Redactor, SecretFilter
from byleave.errors import RequestError, SandboxError
from byleave.guard.evaluation import NO, ONCE, Who
from byleave.guard.guard import Guard
from byleave.launch.start import ProgramStart, start_confined
from byleave.protocol.jsonrpc import (
    ACCESS_DENIED,
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    TIMED_OUT,
)
from byleave.sandbox.confinement import Confinement
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.process_methods import ProcessMethods
from fakes.asking import MemoryLog, Person
from sandbox.machine import alive, needs_sandbox
from sandbox.proxy_scene import PATIENCE
from scene import Scene

pytestmark = needs_sandbox

TOKEN = "hunter2-4711"
WHO = Who("claude", "verified")
TOOL = '[tools.t]\nsource = "local"\nruntime = "vfs"\ncommand = ["x"]\n'
OPEN = '[[tools.t.access.fs]]\npath = "."\nread = true\nwrite = true\nexecute = true\n'
COMMANDS = """\
[tools.t.access.commands]
printenv = { envs = ["CASE_TOKEN", "MANY_*", "NOT_MINE"] }
env = {}
false = {}
sh = {}
git = { args = [["--version"]] }
no-such-program = {}
"""
ENVS = {"printenv": ("CASE_TOKEN", "MANY_*", "NOT_MINE")}
MAY_USE = frozenset({"CASE_TOKEN", "MANY_A", "UNSET", "MANY_UNSET", "UNLISTED"})
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nowhere",
    "CASE_TOKEN": TOKEN,
    "MANY_A": "another-secret",
    "NOT_MINE": "private-value",
    "UNLISTED": "unlisted-value",
    "LD_PRELOAD_NOT": "x",
}


class Stage:
    """A tool's programs, and everything that was recorded."""

    def __init__(self, scene: Scene, rules: str = TOOL + OPEN + COMMANDS) -> None:
        scene.say("user", rules)
        self.scene = scene
        self.log = MemoryLog()
        self.person = Person()
        self.limit = 10 << 20
        self.environment = ENVIRONMENT
        self.made: list[Confinement] = []
        self.confinement: Callable[[], Confinement] = self.make
        workspace = scene.workspace
        self.policy = workspace.load()
        self.workspace = workspace
        self._processes: ProcessMethods | None = None

    def make(self) -> Confinement:
        if not self.made:
            self.made.append(Confinement(self.workspace, self.policy, "t"))
        return self.made[0]

    @property
    def processes(self) -> ProcessMethods:
        if self._processes is None:
            guard = Guard(
                self.policy,
                self.workspace.approvals,
                self.log,
                door="call",
                now=lambda: "2026-01-01T00:00:00Z",
                mask=Redactor(),
                client_approves=None,
                asker=self.person,
            )
            self._processes = ProcessMethods(
                guard,
                "t",
                self.confinement,
                self.environment,
                SecretFilter(),
                may_use=MAY_USE.__contains__,
                envs_of=ENVS.get,
                limit=self.limit,
                who=WHO,
            )
        return self._processes

    def run(self, program: str, *args: str, turn: Deadline | None = None, **params: Any) -> dict[str, Any]:
        given = {"program": program, "args": list(args), **params}
        return self.processes.serve(
            "process.run", given, turn if turn is not None else Deadline(monotonic() + PATIENCE)
        )

    def sh(self, script: str, **params: Any) -> dict[str, Any]:
        return self.run("sh", "-c", script, **params)

    def refused(self, program: Any, *args: str, **params: Any) -> tuple[int, str]:
        with pytest.raises(RequestError) as caught:
            self.run(program, *args, **params)
        assert TOKEN not in f"{caught.value} {caught.value.data}"
        return caught.value.number, caught.value.problem

    @property
    def recorded(self) -> list[tuple[str, list[str], str]]:
        return [
            (record["action"]["program"], record["action"].get("args", []), said)
            for record in self.log.records
            for said in (record.get("outcome") or record["verdict"]["decision"],)
        ]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(Scene.build(tmp_path.resolve()))
    yield made
    for box in made.made:
        box.close()


def staged(stage: Stage, rules: str) -> Stage:
    """Return the same stage under other rules."""
    stage.scene.say("user", rules)
    stage.policy = stage.workspace.load()
    return stage


# What may be started


def test_a_program_says_what_it_says_and_how_it_ended(stage: Stage) -> None:
    script = "pwd; echo trouble >&2; exit 3"
    root = stage.scene.root
    assert stage.sh(script) == {"stdout": f"{root}\n", "stderr": "trouble\n", "exit_code": 3}
    assert stage.recorded == [("sh", ["-c", script], "allow"), ("sh", ["-c", script], "done")]
    assert {record["agent"] for record in stage.log.records} == {"claude"}


def test_a_program_has_nothing_to_read_on_its_input(stage: Stage) -> None:
    assert stage.sh("read line; echo $?") == {"stdout": "1\n", "stderr": "", "exit_code": 0}


def test_a_signal_is_an_exit_code_above_128(stage: Stage) -> None:
    assert stage.sh("kill -9 $$")["exit_code"] == 137
    assert stage.sh("kill -15 $$")["exit_code"] == 143
    assert stage.run("false")["exit_code"] == 1


def test_what_the_policy_denies_is_not_started(stage: Stage) -> None:
    number, said = stage.refused("git", "--version", "x")
    assert (number, "its arguments do not match" in said) == (ACCESS_DENIED, True)
    assert stage.refused("cat", "/etc/passwd")[0] == ACCESS_DENIED
    assert [outcome for _program, _args, outcome in stage.recorded] == ["deny", "deny"]
    assert stage.made == []


@pytest.mark.parametrize("program", ["/bin/sh", "./sh", "sh/", "../bin/sh"])
def test_a_path_is_no_program(stage: Stage, program: str) -> None:
    assert stage.refused(program)[0] == ACCESS_DENIED
    assert stage.made == []


def test_a_program_that_is_allowed_and_not_there_is_not_found(stage: Stage) -> None:
    assert stage.refused("no-such-program")[0] == NOT_FOUND


def test_a_program_that_cannot_be_executed_is_denied(stage: Stage, tmp_path: Path) -> None:
    """It is found, and the kernel does not start it: in a sandbox that is a question of leave."""
    other = tmp_path / "bin"
    other.mkdir()
    (other / "no-such-program").write_bytes(b"\x7fELF nonsense")
    (other / "no-such-program").chmod(0o755)
    stage.environment = {**ENVIRONMENT, "PATH": f"{other}:/usr/bin:/bin"}
    assert stage.refused("no-such-program")[0] == ACCESS_DENIED


BAD_PARAMS: dict[str, dict[str, Any]] = {
    "no program": {"program": None},
    "a program that is a number": {"program": 1},
    "an empty program": {"program": ""},
    "a program with NUL": {"program": "sh\0"},
    "arguments that are a text": {"args": "x"},
    "arguments that are numbers": {"args": [1]},
    "an argument with NUL": {"args": ["a\0b"]},
    "an argument with half a character": {"args": ["\ud800"]},
    "variables that are a text": {"envs": "CASE_TOKEN"},
    "variables with values": {"envs": {"A": "b"}},
}


@pytest.mark.parametrize("params", BAD_PARAMS.values(), ids=BAD_PARAMS.keys())
def test_wrong_parameters_are_told_and_nothing_is_started(stage: Stage, params: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        stage.processes.serve("process.run", {"program": "sh", **params}, Deadline())
    assert (caught.value.number, stage.log.records, stage.made) == (INVALID_PARAMS, [], [])


def test_arguments_and_variables_may_be_left_out(stage: Stage) -> None:
    result = stage.processes.serve("process.run", {"program": "false", "more": 1}, Deadline())
    assert result == {"stdout": "", "stderr": "", "exit_code": 1}
    with pytest.raises(RequestError) as caught:
        stage.processes.serve("process.kill", {"program": "false"}, Deadline())
    assert caught.value.number == METHOD_NOT_FOUND


# A person is asked


def test_a_person_is_asked_once_and_what_they_allow_is_run(stage: Stage) -> None:
    stage.person = Person(ONCE, NO)
    staged(stage, TOOL + OPEN)
    assert stage.run("false")["exit_code"] == 1
    number, said = stage.refused("false")
    assert (number, "you said no" in said, len(stage.person.asked)) == (ACCESS_DENIED, True, 2)


def test_what_was_given_up_while_a_person_thought_is_not_started(stage: Stage) -> None:
    turn = Deadline()
    stage.person = Person(ONCE, meanwhile=turn.cancel)
    staged(stage, TOOL + OPEN)
    assert stage.refused("false", turn=turn)[0] == CANCELLED
    assert stage.made == []


def test_everything_else_that_the_sandbox_asks_goes_to_the_guard(stage: Stage) -> None:
    """The program itself is judged once; what it starts is judged as well, from the broker's thread."""
    result = stage.sh("printenv NO; echo $?; git --version >/dev/null; git status 2>/dev/null; sh -c 'echo in'")
    assert result["stdout"].splitlines()[0] == "1"
    assert result["stdout"].splitlines()[-1] == "in"
    asked = [(program, outcome) for program, _args, outcome in stage.recorded]
    assert asked[0] == ("sh", "allow")
    assert asked[1:-1] == [("printenv", "allow"), ("git", "allow"), ("git", "deny"), ("sh", "allow")]
    assert asked[-1] == ("sh", "done")


def test_a_permit_is_for_one_start_by_one_thread(stage: Stage) -> None:
    stage.run("false")
    before = len(stage.log.records)
    decide = stage.processes._decide  # noqa: SLF001 -- what the sandbox was given
    verdict = decide({"kind": "spawn", "program": "false", "args": [], "tool": "t"})
    assert (verdict.decision, len(stage.log.records)) == (ALLOW, before + 1)
    with pytest.raises(SandboxError):
        start_confined(stage.make(), ProgramStart(command=("cat",)), decide=decide)


# Variables


def test_the_environment_is_clean(stage: Stage) -> None:
    names = {line.partition("=")[0] for line in stage.run("env")["stdout"].splitlines()}
    assert names - {"PWD", "SHLVL", "_"} <= {"PATH", "HOME", "USER", "LANG", "TERM", "TZ"}
    assert stage.run("printenv", "CASE_TOKEN") == {"stdout": "", "stderr": "", "exit_code": 1}


def test_a_listed_variable_reaches_the_program_and_never_comes_back(stage: Stage) -> None:
    result = stage.run("printenv", "CASE_TOKEN", envs=["CASE_TOKEN", "MANY_A"])
    assert result == {"stdout": "[REDACTED]\n", "stderr": "", "exit_code": 0}
    assert stage.run("printenv", "MANY_A", envs=["MANY_A"])["stdout"] == "[REDACTED]\n"
    told = stage.run("printenv", envs=["CASE_TOKEN"])["stdout"]
    assert "CASE_TOKEN=[REDACTED]" in told
    assert "MANY_A" not in told


@pytest.mark.parametrize("spelled", ["base64", "od -An -tx1 -v | tr -d ' \\n'", "sed 's/^/\\xff/'"])
def test_a_variable_is_taken_out_of_later_output_in_other_spellings(stage: Stage, spelled: str) -> None:
    stage.run("printenv", envs=["CASE_TOKEN"])
    staged_result = stage.sh(f"printf 'user:{TOKEN} again' | ({spelled}) 2>&1")
    out = staged_result["stdout"]
    data = base64.b64decode(out) if staged_result.get("stdout_encoding") == "base64" else out.encode()
    assert TOKEN.encode() not in data
    assert TOKEN.encode().hex().encode() not in data
    assert base64.b64encode(f"user:{TOKEN} again".encode())[:20] not in data


NOT_ALLOWED = {
    "not usable by the tool": ("printenv", "NOT_MINE"),
    "not listed for the program": ("printenv", "UNLISTED"),
    "not listed for any": ("sh", "CASE_TOKEN"),
    "in the minimal set, but not listed": ("printenv", "HOME"),
    "a glob": ("printenv", "MANY_*"),
    "nothing": ("printenv", ""),
    "with a value": ("printenv", "CASE_TOKEN=x"),
}


@pytest.mark.parametrize(("program", "name"), NOT_ALLOWED.values(), ids=NOT_ALLOWED.keys())
def test_a_variable_that_may_not_be_passed_is_named(stage: Stage, program: str, name: str) -> None:
    number, said = stage.refused(program, envs=["CASE_TOKEN"] * (program == "printenv") + [name])
    assert (number, name in said) == (ACCESS_DENIED, True)
    assert (stage.made, "private-value" in said) == ([], False)


def test_a_variable_that_is_not_set_is_not_passed(stage: Stage) -> None:
    assert stage.run("printenv", "MANY_UNSET", envs=["MANY_UNSET"])["exit_code"] == 1


# Output


def test_output_that_is_no_text_comes_in_base64(stage: Stage) -> None:
    result = stage.sh("printf '\\377\\000'; printf 'plain' >&2")
    assert result == {
        "stdout": base64.b64encode(b"\xff\x00").decode(),
        "stdout_encoding": "base64",
        "stderr": "plain",
        "exit_code": 0,
    }


def test_both_streams_are_heard_at_once(stage: Stage) -> None:
    script = "i=0; while [ $i -lt 3000 ]; do printf '%0100d' 0; printf '%0100d' 1 >&2; i=$((i+1)); done"
    result = stage.sh(script)
    assert (len(result["stdout"]), len(result["stderr"])) == (300_000, 300_000)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_flood_is_ended_and_the_limit_named(stage: Stage, stream: str) -> None:
    stage.limit = 1 << 16
    with pytest.raises(RequestError) as caught:
        stage.sh(f"while :; do printf '%01000d' 0 >&{stream}; done")
    assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": 1 << 16})
    assert stage.recorded[-1][2] == "failed: RequestError: request"
    assert len(stage.sh("printf '%065536d' 0")["stdout"]) == 1 << 16


def test_a_program_that_closes_its_output_is_waited_for(stage: Stage) -> None:
    result = stage.sh("exec >&- 2>&-; echo lost; printf x > said; exit 5")
    assert (result, (stage.scene.root / "said").read_text()) == ({"stdout": "", "stderr": "", "exit_code": 5}, "x")


# Ending


def soon_gone(mark: str) -> bool:
    """Whether what was killed is gone: the kernel takes a moment to end what is in a sandbox."""
    until = monotonic() + PATIENCE
    while alive(mark) and monotonic() < until:
        os.sched_yield()
    return alive(mark) == []


def detached(mark: str) -> str:
    """Return a script that leaves something behind, with the streams open, in a session of its own."""
    return f"(trap '' HUP TERM; exec sh -c 'while :; do read x </dev/zero; done; : {mark}') & "


def test_what_a_program_leaves_behind_ends_with_it(stage: Stage) -> None:
    mark = f"left-{os.getpid()}"
    assert stage.sh(f"{detached(mark)} echo done")["stdout"] == "done\n"
    assert soon_gone(mark)


def test_what_hides_in_a_session_of_its_own_ends_too(stage: Stage) -> None:
    mark = f"hidden-{os.getpid()}"
    stage.person = Person(ONCE)
    staged(stage, TOOL + OPEN)
    assert stage.sh(f"setsid -f sh -c 'setsid -f sleep 1000; sleep 1000; : {mark}'; echo done")["stdout"] == "done\n"
    assert soon_gone(mark)


def test_a_deadline_ends_everything(stage: Stage) -> None:
    mark = f"late-{os.getpid()}"
    started = monotonic()
    stage.run("false")
    number, _said = stage.refused("sh", "-c", f"{detached(mark)} wait", turn=Deadline(monotonic() + 0.3))
    assert (number, monotonic() - started < PATIENCE, soon_gone(mark)) == (TIMED_OUT, True, True)
    assert stage.refused("false", turn=Deadline(0.0))[0] == TIMED_OUT


def test_a_cancelled_turn_ends_everything(stage: Stage) -> None:
    mark, turn = f"given-up-{os.getpid()}", Deadline(monotonic() + PATIENCE)
    fifo = stage.scene.root / "ready"

    def cancel() -> None:
        while not fifo.exists() and not turn.cancelled and monotonic() < (turn.deadline or 0):
            os.sched_yield()
        turn.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    number, _said = stage.refused("sh", "-c", f"{detached(mark)} : > ready; wait", turn=turn)
    canceller.join()
    assert (number, soon_gone(mark)) == (CANCELLED, True)
    turn.cancel()
    assert stage.run("false")["exit_code"] == 1


def test_nothing_is_left_after_many_runs(stage: Stage) -> None:
    stage.run("false")
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(amounts.of(300, 60)):
        stage.run("false")
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (before, threads)


def test_many_threads_may_run_at_once(stage: Stage) -> None:
    said: list[str] = []
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:
            said.extend(stage.sh(f"echo {number}")["stdout"] for _ in range(5))
        except BaseException as error:  # noqa: BLE001 -- told below
            wrong.append(error)

    stage.run("false")
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, sorted(said)) == ([], sorted(f"{number}\n" for number in range(6) for _ in range(5)))
    programs = [outcome for _program, _args, outcome in stage.recorded]
    assert (programs.count("allow"), programs.count("done")) == (31, 31)


def test_a_sandbox_that_cannot_be_made_is_an_internal_error(stage: Stage) -> None:
    def broken() -> Confinement:
        raise SandboxError("this machine does not allow new namespaces", hint="ask", exit_code=125)

    stage.confinement = broken
    assert stage.refused("false") == (INTERNAL_ERROR, "this machine does not allow new namespaces")


def test_without_a_sandbox_the_rules_on_programs_and_variables_hold_all_the_same(stage: Stage) -> None:
    staged(stage, '[defaults]\nos_sandbox = "off"\n' + TOOL + OPEN + COMMANDS)
    assert stage.run("printenv", "CASE_TOKEN", envs=["CASE_TOKEN"])["stdout"] == "[REDACTED]\n"
    assert stage.sh("pwd; kill -9 $$") == {"stdout": f"{stage.scene.root}\n", "stderr": "", "exit_code": 137}
    assert stage.run("env")["stdout"] == "PATH=/usr/bin:/bin\nHOME=/nowhere\n"
    mark = f"loose-{os.getpid()}"
    assert stage.refused("sh", "-c", f"{detached(mark)} wait", turn=Deadline(monotonic() + 0.2))[0] == TIMED_OUT
    assert stage.sh(f"{detached(mark)} echo done")["stdout"] == "done\n"
    assert soon_gone(mark)
    assert stage.refused("cat")[0] == ACCESS_DENIED
    assert stage.refused("no-such-program")[0] == NOT_FOUND
