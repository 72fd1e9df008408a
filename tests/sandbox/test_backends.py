"""Where namespaces are not allowed: bwrap, else Landlock alone, else nothing is run; and always it is said."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from byleave.cli.main import run as run_command_line
from byleave.core.fs_rules import CAPABILITIES, is_under
from byleave.errors import SandboxError
from byleave.sandbox.host import Base
from byleave.sandbox.linux import backends, landlock
from byleave.sandbox.linux.backends import BWRAP, LANDLOCK, NAMESPACES, Machine, choose, probe
from byleave.sandbox.linux.steps import Arrangement, MachineFacts, arrange, rights_of
from byleave.sandbox.native.build import Launcher
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    EVERYTHING,
    FILE,
    NOTHING,
    PRIVATE,
    PROXY,
    READING,
    PathGrant,
    SandboxPlan,
    in_order,
)
from command import COMMAND, Done, environment
from sandbox.escapes.trial import HERE, from_json
from sandbox.machine import PYTHON, REPOSITORY, access_file, alive, needs_sandbox
from sandbox.without_namespaces import needs_bwrap, needs_unshare, on_such_a_machine

TESTS = str(Path(__file__).parents[1])
LIVE = [pytest.param(BWRAP, marks=needs_bwrap), LANDLOCK]
HOST = MachineFacts("x86_64", 7, namespaces=True, uid=1000, gid=1000)
# What even a tool that is held exactly elsewhere may do there: `approximate` says so, see below.
KNOWN = {BWRAP: {"exec-ldso"}, LANDLOCK: {"exec-ldso"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    (place / "sub").mkdir(parents=True)
    (place / "file").write_text("old")
    return place


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"BYLEAVE_HOME": str(tmp_path / "byleave"), "HOME": str(tmp_path / "home")}


def there(backend: str, place: Path, *words: str, env: dict[str, str], timeout: float = 60) -> Done:
    """Run byleave on a machine on which this backend is the best that works."""
    before = on_such_a_machine(bwrap=backend == BWRAP, place=place.parent)
    done = subprocess.run(
        [*before, *COMMAND, *words],
        cwd=place,
        env=environment(env),
        capture_output=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


# The choice


class Works:
    """Stands for probes: what works is given."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __call__(self, backend: str, _machine: Machine) -> backends.Probe:
        return (
            backends.Probe(works=True) if backend in self._names else backends.Probe(works=False, why="it is refused")
        )


MACHINE = Machine(HOST, Base((), ()), Launcher("/launcher", "test"))
PLAN = SandboxPlan("/ws", (PathGrant("/ws", EVERYTHING, DIRECTORY, "x"),))
CHOICES = [
    (PLAN, (NAMESPACES, BWRAP, LANDLOCK), False, NAMESPACES),
    (PLAN, (BWRAP, LANDLOCK), False, BWRAP),
    (PLAN, (NAMESPACES,), True, NAMESPACES),
    (PLAN, (BWRAP, LANDLOCK), True, None),
    (PLAN, (LANDLOCK,), False, LANDLOCK),
    (PLAN, (LANDLOCK,), True, None),
    (PLAN, (), False, None),
    (structs.replace(PLAN, network=PROXY), (BWRAP, LANDLOCK), False, BWRAP),
    (structs.replace(PLAN, network=PROXY), (LANDLOCK,), False, None),
]


@pytest.mark.parametrize(("plan", "works", "exact", "expected"), CHOICES)
def test_the_best_that_works_and_can_hold_the_plan_is_taken(
    plan: SandboxPlan,
    works: tuple[str, ...],
    exact: bool,  # noqa: FBT001 -- a column of the table
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backends, "probe", Works(*works))
    if expected is None:
        with pytest.raises(SandboxError) as raised:
            choose(plan, MACHINE, exact=exact)
        assert (raised.value.exit_code, raised.value.step) == (125, backends.LACKING)
        assert all(word in raised.value.problem for word in ("namespaces: ", "bwrap: ", "Landlock alone: "))
    else:
        assert choose(plan, MACHINE, exact=exact) == expected


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_old_landlock_holds_nothing_alone(version: int) -> None:
    assert "version 3 of Landlock is needed" in str(landlock.obstacle(PLAN, structs.replace(HOST, landlock=version)))
    assert landlock.obstacle(PLAN, structs.replace(HOST, landlock=3)) is None


def test_an_unknown_processor_has_no_sandbox() -> None:
    with pytest.raises(SandboxError, match="no filter of system calls for riscv64"):
        choose(PLAN, structs.replace(MACHINE, host=structs.replace(HOST, machine="riscv64")), exact=False)


@needs_sandbox
def test_a_launcher_that_does_nothing_is_no_sandbox() -> None:
    machine = structs.replace(MACHINE, launcher=Launcher("/bin/true", "test"), host=HOST)
    assert [probe(name, machine).works for name in (NAMESPACES, LANDLOCK)] == [False, False]


# Grants alone, as values: files in a tree that is a dictionary

TREE = {"/ws": DIRECTORY}
for _above in ("a", "b", "c"):
    TREE[f"/ws/{_above}"] = DIRECTORY
    TREE |= {f"/ws/{_above}/{_name}": DIRECTORY for _name in ("a", "b")}
    TREE |= {f"/ws/{_above}/{_name}/f": FILE for _name in ("a", "b")}
    TREE[f"/ws/{_above}/f"] = FILE


def names(path: str, most: int) -> list[tuple[str, str]] | None:
    found = [(each[len(path) + 1 :], kind) for each, kind in TREE.items() if each.startswith(f"{path}/")]
    direct = [(name, kind) for name, kind in found if "/" not in name]
    return direct if len(direct) <= most else None


def granted(arrangement: Arrangement, path: str) -> int:
    rights = 0
    for place, given_here, _kind in arrangement.grants:
        if is_under(path, place):
            rights |= given_here
    return rights


PLACES = st.builds(
    lambda path, capabilities: PathGrant(path, capabilities, TREE[path], "x"),
    st.sampled_from(sorted(TREE)),
    st.frozensets(st.sampled_from(CAPABILITIES)),
)


@given(st.lists(PLACES, max_size=6))
def test_grants_never_say_more_than_the_plan_and_less_only_where_it_is_noted(places: list[PathGrant]) -> None:
    plan = SandboxPlan("/ws", in_order(places))
    arrangement = landlock.hold(plan, HOST, TREE.get, names)
    noted = {(each.path, each.op) for each in arrangement.approximate}
    for path, kind in TREE.items():
        holds = plan.at(path)
        capabilities = holds.capabilities if holds is not None else NOTHING
        wanted = rights_of(capabilities, kind)
        given_here = granted(arrangement, path)
        own = given_here if kind == DIRECTORY else given_here & rights_of(CAPABILITIES, FILE)
        assert own & ~wanted == 0, path
        lost = {op for op in capabilities if rights_of((op,), kind) & ~own} - {"update", "execute"}
        name = path.removeprefix("/ws").strip("/") or "."
        assert kind == DIRECTORY or not lost, path
        assert lost <= {op for where, op in noted if where == name}, path


def test_what_is_not_there_is_not_granted_and_its_name_cannot_be_made() -> None:
    places = [PathGrant("/ws", EVERYTHING, DIRECTORY, "x"), PathGrant("/ws/.git", READING, DIRECTORY, "x")]
    arrangement = landlock.hold(SandboxPlan("/ws", in_order(places)), HOST, TREE.get, names)
    paths = [path for path, _rights, _kind in arrangement.grants]
    assert paths == ["/ws", "/ws/a", "/ws/b", "/ws/c"]
    assert arrangement.grants[0][1] == rights_of(READING, DIRECTORY)
    assert (".", "create") in {(each.path, each.op) for each in arrangement.approximate}


def test_too_many_names_are_granted_nothing() -> None:
    places = [PathGrant("/ws", EVERYTHING, DIRECTORY, "x"), PathGrant("/ws/a", READING, DIRECTORY, "x")]
    arrangement = landlock.hold(SandboxPlan("/ws", in_order(places)), HOST, TREE.get, lambda _path, _most: None)
    assert [path for path, _rights, _kind in arrangement.grants] == ["/ws", "/ws/a"]
    assert {each.op for each in arrangement.approximate if each.path == "."} == {"create", "update", "delete"}


def test_the_words_for_bwrap_build_the_view_from_the_outside_in() -> None:
    places = [
        PathGrant("/tmp", EVERYTHING, PRIVATE, "x"),
        PathGrant("/usr", READING, DIRECTORY, "x"),
        PathGrant("/ws", EVERYTHING, DIRECTORY, "x"),
        PathGrant("/ws/a/secret", NOTHING, DIRECTORY, "x"),
        PathGrant("/ws/key", NOTHING, FILE, "x"),
        PathGrant("/ws/ro", READING, DIRECTORY, "x"),
    ]
    plan = SandboxPlan("/ws", in_order(places))
    words = backends.wrapping("/usr/bin/bwrap", plan, arrange(plan), "/l")
    view = " ".join(words[words.index("/proc") + 1 :])
    assert view == (
        "--perms 1777 --tmpfs /tmp --ro-bind /usr /usr --bind /ws /ws --bind /ws/a /ws/a"
        " --perms 0000 --tmpfs /ws/a/secret --remount-ro /ws/a/secret --ro-bind /dev/null /ws/key"
        " --ro-bind /ws/ro /ws/ro --ro-bind /l /.byleave/launcher --remount-ro / --chdir / -- /.byleave/launcher"
    )


# On such machines

pytestmark = needs_sandbox


@needs_unshare
@pytest.mark.parametrize("backend", LIVE)
def test_the_plan_and_the_doctor_say_what_holds_the_program(backend: str, root: Path, home: dict[str, str]) -> None:
    plan = json.loads(there(backend, root, "run", "--explain", "--json", "--", "true", env=home).out)
    assert plan["backend"] == backend
    assert bool(plan["namespaces"]) == (backend == BWRAP)
    report = json.loads(there(backend, root, "doctor", "--json", env=home).out)
    findings = {each["what"]: each for each in report["findings"]}
    assert findings["namespaces"]["state"] == "note"
    assert "this machine does not allow new namespaces" in findings["namespaces"]["text"]
    assert findings["OS sandbox"]["state"] == "note"
    assert {"Landlock", "kernel", "launcher", "bwrap"} <= findings.keys()


@needs_unshare
@pytest.mark.parametrize("backend", LIVE)
def test_ordinary_work_is_done(backend: str, root: Path, home: dict[str, str]) -> None:
    script = 'echo new > file; echo x > sub/x; cat file sub/x; mktemp > sub/t; touch "$HOME/h"; ls sub; (exit 3)'
    done = there(backend, root, "run", "-q", "--", "/bin/sh", "-c", script, env=home)
    assert (done.code, done.out) == (3, "new\nx\nt\nx\n"), done
    assert (root / "file").read_text() == "new\n"
    assert sorted(path.name for path in root.iterdir()) == ["file", "sub"]
    assert not (Path(home["HOME"]) / "h").exists()


@needs_unshare
@pytest.mark.parametrize("backend", LIVE)
def test_nobody_gets_out_but_as_it_is_said(backend: str, tmp_path: Path) -> None:
    ids = [json.loads(line)["id"] for line in (HERE / "given.jsonl").read_text().splitlines() if line]
    before = " ".join(f"'{word}'" for word in on_such_a_machine(bwrap=backend == BWRAP, place=tmp_path))
    launcher = f"{before} {' '.join(COMMAND)} run -q --root $WS --access $POLICY --no-input --"
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.escapes", "--json", "--launcher", launcher, *ids],
        env=environment({"PYTHONPATH": os.pathsep.join([TESTS, *filter(None, sys.path)])}),
        capture_output=True,
        check=False,
        start_new_session=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    outcomes, broken = from_json(done.stdout.decode())
    assert {one.id for one in outcomes if one.word in ("ESCAPED", "NO ANSWER")} <= KNOWN[backend]
    assert len([one for one in outcomes if one.counts]) > 50
    # Landlock alone makes no new names in a directory that holds protected places.
    assert [each.split(":")[0] for each in broken] == ([] if backend == BWRAP else ["given _write"])


@needs_unshare
@pytest.mark.parametrize("backend", LIVE)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_program(backend: str, number: int, root: Path, home: dict[str, str]) -> None:
    script = f"trap 'echo got; exit 9' {signal.Signals(number).name[3:]}; echo ready; while :; do sleep 0.05; done"
    with started(backend, root, home, script) as process:
        assert process.stdout is not None
        process.send_signal(number)
        assert (process.stdout.read(), process.wait(20)) == (b"got\n", 9)


def started(backend: str, root: Path, home: dict[str, str], script: str) -> "subprocess.Popen[bytes]":
    before = on_such_a_machine(bwrap=backend == BWRAP, place=root.parent)
    process = subprocess.Popen(
        [*before, *COMMAND, "run", "-q", "--", "/bin/sh", "-c", script],
        cwd=root,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    if first != b"ready\n":  # a process that is left open would fail another test
        with process:
            process.kill()
    assert first == b"ready\n"
    return process


@pytest.fixture
def mark() -> Iterator[str]:
    """A number of seconds that nobody else sleeps for."""
    yield f"{10_000_000 + os.getpid()}"
    time.sleep(0)


@needs_unshare
@pytest.mark.parametrize("backend", LIVE)
@pytest.mark.parametrize("end", ["itself", "signal", "kill"])
def test_nothing_is_left(backend: str, end: str, root: Path, home: dict[str, str], mark: str) -> None:
    leave = f"(setsid sleep {mark} >/dev/null &); (trap '' TERM HUP; sleep {mark} >/dev/null &); echo ready; "
    with started(backend, root, home, leave + ("" if end == "itself" else f"sleep {mark}")) as process:
        if end != "itself":
            process.send_signal(signal.SIGTERM if end == "signal" else signal.SIGKILL)
        process.wait(20)
    deadline = time.monotonic() + 5
    while alive(f"sleep\0{mark}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(f"sleep\0{mark}") == []


@needs_unshare
def test_a_killed_run_leaves_no_files_for_long(root: Path, home: dict[str, str], mark: str) -> None:
    with started(
        LANDLOCK, root, home, f"echo x > $TMPDIR/x; echo $TMPDIR > sub/where; echo ready; sleep {mark}"
    ) as process:
        left = Path((root / "sub/where").read_text().strip()).parent
        there(LANDLOCK, root, "run", "-q", "--", "true", env=home)
        assert (left / "tmp/x").exists()
        process.kill()
    assert left.exists()
    there(LANDLOCK, root, "run", "-q", "--", "true", env=home)
    assert not left.exists()


@needs_unshare
def test_other_programs_are_out_of_reach_of_grants_alone(root: Path, home: dict[str, str]) -> None:
    victim = subprocess.Popen(["sleep", "60"])
    script = f"""
import ctypes, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
tries = dict(
    kill=lambda: os.kill({victim.pid}, 0) or os.kill({victim.pid}, 9),
    limit=lambda: resource.prlimit({victim.pid}, resource.RLIMIT_CPU, (1, 1)),
    priority=lambda: os.setpriority(os.PRIO_PROCESS, {victim.pid}, 19),
    command=lambda: open("/proc/{victim.pid}/cmdline").read(),
    inet=lambda: socket.socket(),
    unix=lambda: socket.socket(socket.AF_UNIX),
    memory=lambda: libc.shmget(0, 4096, 0o1600) >= 0 or 1 / 0,
    etc=lambda: os.listdir("/tmp"),
    write=lambda: open("/var/tmp/byleave-left", "w"),
)
for name, attempt in tries.items():
    try:
        attempt()
        print(name)
    except (OSError, ZeroDivisionError):
        pass
resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.nice(1); socket.socketpair()
print("done")
"""
    try:
        done = there(LANDLOCK, root, "run", "-q", "--", PYTHON, "-S", "-c", script, env=home)
        assert (done.code, done.out) == (0, "done\n"), done
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@needs_unshare
def test_what_is_not_enforced_is_said_once_in_a_session(root: Path, home: dict[str, str]) -> None:
    said = [there(LANDLOCK, root, "run", "--", "true", env=home).err for _ in range(2)]
    assert "Landlock alone holds the program. Not enforced:" in said[0]
    assert said[1] == ""


@needs_unshare
def test_a_directory_that_cannot_be_listed_for_a_closed_file_in_it_is_named(root: Path, home: dict[str, str]) -> None:
    (root / "byleave.toml").write_text('[[rules]]\ndeny = { path = "private.txt" }\n')
    (root / "private.txt").write_text("x")
    done = there(LANDLOCK, root, "run", "--", "true", env=home)
    assert 'Closed besides: "." cannot be listed, for some names there may not be read' in " ".join(done.err.split())
    assert there(LANDLOCK, root, "run", "-q", "--", "ls", env=home).code != 0


NET = '[[access.net]]\nhost = "example.org"\nallow = true\n'


@needs_unshare
def test_where_nothing_can_hold_the_policy_nothing_is_run(root: Path, home: dict[str, str], tmp_path: Path) -> None:
    done = there(LANDLOCK, root, "run", *access_file(tmp_path, NET), "--", "touch", "sub/ran", env=home)
    assert (done.code, done.out, (root / "sub/ran").exists()) == (125, "", False)
    assert "the network rules need a network of the sandbox's own" in done.err
    policy = tmp_path / "policy.toml"
    policy.write_text('[defaults]\nos_sandbox = "require"\n')
    required = there(LANDLOCK, root, "run", "--policy", str(policy), "--", "touch", "sub/ran", env=home)
    assert (required.code, (root / "sub/ran").exists()) == (125, False)
    assert 'os_sandbox = "require"' in required.err
    doctor = there(LANDLOCK, root, "doctor", "--policy", str(policy), env=home)
    assert doctor.code == 1
    assert "refuses to run anything" in doctor.out


@needs_unshare
@needs_bwrap
def test_the_proxy_is_reached_through_bwrap(root: Path, home: dict[str, str], tmp_path: Path) -> None:
    program = 'import os, socket; print(socket.create_connection(("127.0.0.1", 3128), 5).getpeername()[1])'
    access = access_file(tmp_path, NET)
    done = there(BWRAP, root, "run", *access, "--", PYTHON, "-S", "-c", program, env=home)
    assert (done.code, done.out) == (0, "3128\n"), done


def test_a_sandbox_in_a_sandbox_is_held_by_landlock(root: Path, home: dict[str, str], tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    shown = [str(REPOSITORY / "src"), str(Path(sys.prefix)), *(path for path in sys.path if "site-packages" in path)]
    policy.write_text(f"[sandbox]\nread = {json.dumps(sorted(set(shown)))}\n")
    inner = (
        f"import sys; sys.path[:0] = {shown!r}; from byleave.cli.main import run;"
        "sys.argv = ['byleave', 'run', '--', '/bin/sh', '-c', 'cat file; echo x > sub/x; ls /; ls /usr >/dev/null'];"
        "sys.exit(run())"
    )
    done = subprocess.run(
        [*COMMAND, "run", "--policy", str(policy), "--", sys.executable, "-c", inner],
        cwd=root,
        env=environment(home),
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "old"), done
    assert "Landlock alone holds the program" in done.stderr
    assert "ls: cannot open directory '/'" in done.stderr


@pytest.mark.parametrize("system", ["win32", "darwin", "freebsd14"])
def test_other_systems_are_told_so(
    system: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["byleave", "run", "--root", str(root), "--", "true"])
    monkeypatch.setattr(sys, "platform", system)
    assert run_command_line() == 125
    assert f"there is no sandbox for this system ({system})" in capsys.readouterr().err
