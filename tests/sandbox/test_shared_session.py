"""Runs of one agent session share /tmp and loopback and nothing else, and end with the agent."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from byleave.sandbox.session import end_session, is_open, process_of
from sandbox.machine import NO_PERSON, alive, as_nobody, needs_sandbox
from sandbox.session_scene import OPEN, Agent, eventually

pytestmark = [needs_sandbox, pytest.mark.sampled(2)]  # as we are by turns, and as an ordinary user

SERVER = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &"
READY = (
    "i=0; until curl -s -o /dev/null http://127.0.0.1:8123/; do i=$((i+1)); [ $i -lt 200 ] || exit 9; sleep 0.05; done;"
)


@pytest.fixture(params=["as we are", "as an ordinary user"])
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    """An agent in a workspace of its own, in a place that an ordinary user reaches."""
    with tempfile.TemporaryDirectory(prefix="byleave-session-", dir="/var/tmp") as directory:
        place = Path(directory)
        place.chmod(0o755)
        root = place / "workspace"
        root.mkdir()
        found = Agent(root)
        if request.param == "as an ordinary user":
            words, environment = as_nobody(place / "home")
            os.chown(root, NO_PERSON, NO_PERSON)
            found.become(words, environment)
        yield found
        found.end()
        eventually(lambda: not alive(str(root)))


@pytest.fixture
def nap() -> str:
    """A number of seconds that no other test sleeps."""
    return f"4711.{int.from_bytes(os.urandom(6), 'big')}"


def test_a_server_of_one_run_answers_the_next(agent: Agent) -> None:
    assert agent.run(f"{SERVER} {READY} echo up")[1] == "up\n"
    assert agent.run("curl -sS -o /dev/null -w '%{http_code}' http://127.0.0.1:8123/") == (0, "200")


def test_files_in_tmp_are_seen_by_the_next_run(agent: Agent) -> None:
    assert agent.run("echo kept > /tmp/a; exit 7") == (7, "")
    assert agent.run("cat /tmp/a; stat -c %a /tmp") == (0, "kept\n1777\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["another", "-"])
def test_no_other_run_sees_any_of_it(agent: Agent, name: str) -> None:
    agent.run(f"echo kept > /tmp/a; {SERVER} {READY}")
    code, said = agent.run("ls -A /tmp | grep -c '^a$'; curl -s http://127.0.0.1:8123/ >/dev/null; echo $?", name)
    assert (code, said) == (0, "0\n7\n")  # curl's own word for: nothing listens there


def test_nothing_else_is_shared(agent: Agent) -> None:
    script = (
        "for n in user mnt pid ipc uts cgroup net; do readlink /proc/self/ns/$n; done; ls -A $HOME /dev/shm /var/tmp"
    )
    first = agent.run(f"{script}; touch $HOME/x /dev/shm/x /var/tmp/x; sleep 300 >/dev/null 2>&1 &")[1].split()
    second = agent.run(f"{script}; ps -e -o args= | grep -c 'sleep 30[0]'")[1].split()
    assert "x" not in second
    assert second[-1] == "0"
    assert [one == other for one, other in zip(first[:7], second[:7], strict=True)] == [False] * 6 + [True]


def test_a_command_returns_when_its_shell_has_ended_and_what_it_left_goes_on(agent: Agent) -> None:
    begun = time.monotonic()
    code, said = agent.run("(sleep 1; echo late > later; sleep 300) >/dev/null 2>&1 & exit 5")
    assert (code, said) == (5, "")
    assert time.monotonic() - begun < 200
    eventually((agent.root / "later").exists)
    assert agent.run("cat later") == (0, "late\n")


def test_what_a_command_leaves_running_stays_confined(agent: Agent) -> None:
    outside, secret = agent.root.parent / "outside", agent.root.parent / "secret"
    secret.write_text("secret")
    outside.touch(0o666)
    agent.run(f"(sleep 1; echo x > {outside}; cat {secret} > seen; touch done) >/dev/null 2>&1 &")
    eventually((agent.root / "done").exists)
    assert outside.read_text() == ""
    assert (agent.root / "seen").read_text() == ""


def test_a_session_ends_with_the_agents_process(nap: str, agent: Agent) -> None:
    session = agent.session()
    agent.run(f"sleep {nap} >/dev/null 2>&1 & sleep {nap} >/dev/null 2>&1 & true")
    assert len(alive(nap)) >= 2
    agent.end()
    eventually(lambda: not alive(nap))
    eventually(lambda: not is_open(session) if os.getuid() else True)
    eventually(lambda: not alive(str(agent.root)))
    assert os.listdir(agent.root) == []


def test_a_session_can_be_ended(nap: str, tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    try:
        assert not end_session(agent.session())
        agent.run(f"echo kept > /tmp/a; sleep {nap} >/dev/null 2>&1 & true")
        assert is_open(agent.session())
        assert end_session(agent.session())
        eventually(lambda: not alive(nap))
        assert not is_open(agent.session())
        assert agent.run("cat /tmp/a")[0] == 1  # a new one begins
    finally:
        agent.end()


def test_without_its_agent_no_session_begins(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    words = agent.words("echo ran")
    session = agent.session()
    agent.end()
    assert process_of(session.process.pid) is None
    assert subprocess.run(words, capture_output=True, check=False).stdout == b""


def test_of_two_first_runs_at_once_both_are_in_the_same_session(agent: Agent) -> None:
    runs = [agent.begin(f"touch /tmp/{number}; readlink /proc/self/ns/net") for number in range(4)]
    networks = {run.communicate(timeout=60) for run in runs}
    assert len(networks) == 1, networks
    assert agent.run("ls /tmp | tr -d '\\n' | grep -o 0123")[1] == "0123\n"


def sleeping(seconds: str) -> int:
    """Return the process that sleeps so long: no process of ours, whose words hold the script."""
    return next(pid for pid in alive(seconds) if Path(f"/proc/{pid}/comm").read_text() == "sleep\n")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def holder_of(network: str) -> int:
    """Return the process that holds a session, by its network; a keeper has made a namespace of processes."""
    ours = os.readlink("/proc/self/ns/pid")
    for pid in alive("launcher-"):
        with suppress(OSError):
            kinds = [os.readlink(f"/proc/{pid}/ns/{kind}") for kind in ("net", "pid", "pid_for_children")]
            if kinds == [network, ours, ours]:
                return pid
    raise AssertionError("there is none")


def test_when_the_holder_is_killed_everything_of_the_session_ends(nap: str, agent: Agent) -> None:
    network = agent.run(f"echo kept > /tmp/a; sleep {nap} >/dev/null 2>&1 & readlink /proc/self/ns/net")[1].strip()
    os.kill(holder_of(network), signal.SIGKILL)
    eventually(lambda: not alive(nap))
    assert agent.run("cat /tmp/a")[0] == 1  # a new one begins


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_process_that_the_agent_started_reaches_the_command(agent: Agent, number: int) -> None:
    run = agent.begin("trap 'echo got; exit 3' TERM INT HUP; echo ready; while :; do sleep 0.05; done")
    assert run.stdout is not None
    assert run.stdout.readline() == b"ready\n"
    run.send_signal(number)
    assert run.stdout.readline() == b"got\n"
    assert run.wait(30) == 3
    run.communicate()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("at", [0.0, 0.15, 0.3, 0.6])
def test_killing_the_agents_process_group_at_any_moment_ends_the_run(nap: str, agent: Agent, at: float) -> None:
    """As agents do when a command takes too long."""
    run = agent.begin(f"sleep {nap} >/dev/null 2>&1 & sleep {nap}; echo done")
    time.sleep(at)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate(timeout=30)
    eventually(lambda: not alive(nap))
    assert agent.run("echo fine") == (0, "fine\n")
    eventually(lambda: not os.listdir(agent.root))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("which", ["behind", "keeper", "init"])
def test_killing_any_process_of_ours_ends_what_it_served(nap: str, agent: Agent, which: str) -> None:
    agent.run(f"sleep {nap} >/dev/null 2>&1 & true")
    parents = [sleeping(nap)]
    while len(parents) < 4:
        parents.append(parent_of(parents[-1]))
    os.kill(parents[{"init": 1, "keeper": 2, "behind": 3}[which]], signal.SIGKILL)
    eventually(lambda: not alive(nap))
    assert agent.run("echo fine") == (0, "fine\n")
    eventually(lambda: not os.listdir(agent.root))


def test_a_stopped_launcher_does_not_outlive_its_session(nap: str, tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    try:
        agent.run(f"sleep {nap} >/dev/null 2>&1 & true")
        os.kill(parent_of(parent_of(sleeping(nap))), signal.SIGSTOP)  # the keeper
    finally:
        agent.end()
    eventually(lambda: not alive(nap))


def test_the_proxy_serves_what_a_command_left_running(agent: Agent) -> None:
    import http.server

    class Server(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            return

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    try:
        port = served.server_address[1]
        net = [{"host": "127.0.0.1", "port": port, "scheme": "http", "allow": True}]
        access = {"fs": [{"path": ".", "read": True, "write": True, "execute": True}], "net": net}
        ask = f"curl -s -o /dev/null -w '%{{http_code}}\\n' http://127.0.0.1:{port}/"
        assert agent.run(
            f"(until [ -e go ]; do sleep 0.05; done; {ask} > late) >/dev/null 2>&1 & {ask}", access=access
        ) == (
            0,
            "204\n",
        )
        assert agent.run(f"touch go; {ask}", access=access) == (0, "204\n")  # a proxy of its own, beside the first
        eventually(lambda: (agent.root / "late").exists() and (agent.root / "late").read_text() == "204\n")
        assert agent.run(f"{ask}")[1] == "000\n"  # no rule, no proxy
    finally:
        served.shutdown()
        served.server_close()


def test_a_link_planted_in_tmp_leads_no_later_run_astray(tmp_path: Path) -> None:
    """The workspace lies below /tmp here: the way to it is in what runs share."""
    agent = Agent(tmp_path)
    try:
        agent.run(f"mv /tmp/{tmp_path.parts[2]} /tmp/moved && ln -s /etc /tmp/{tmp_path.parts[2]}")
        code, said = agent.run("echo inside > made; ls /tmp")
        assert code == 125 or (tmp_path / "made").exists(), said
    finally:
        agent.end()


SWAPPING = """
import ctypes, os, time
renameat2 = ctypes.CDLL(None).renameat2
root, closed = {root!r}, {closed!r}
top = "/".join(root.split("/")[:3])
os.rename(top, "/tmp/before")
for name in (top, "/tmp/other"):
    os.makedirs(root.replace(top, name, 1))
    for line in open("/proc/self/mountinfo"):
        place = line.split()[4]
        if place.startswith(f"/tmp/before{{root[len(top):]}}/"):
            copy = place.replace("/tmp/before", name, 1)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            open(copy, "x").close() if os.path.basename(place) in closed else os.makedirs(copy, exist_ok=True)
open("/tmp/ready", "x").close()
while True:
    renameat2(-100, top.encode(), -100, b"/tmp/other", 2)
    time.sleep(0.0004)
"""
LOOKING = """
import os, sys, time
until = time.monotonic() + 0.1
while time.monotonic() < until:
    for top in {tops!r}:
        for name in {closed!r}:
            try:
                sys.exit(open(f"{{top}}/{{name}}").read() or None)
            except OSError:
                pass
"""


def test_a_run_that_exchanges_directories_of_tmp_opens_nothing_in_a_workspace_below_it() -> None:
    """Else what a later run covers would be something in /tmp, and the closed file of the workspace would be open."""
    with tempfile.TemporaryDirectory(prefix="byleave-exchanged-", dir="/tmp") as directory:
        root = Path(directory) / "workspace"
        closed = [f"closed{number}" for number in range(40)]
        root.mkdir()
        for name in closed:
            (root / name).write_text("secret")
        access = {"fs": [*OPEN["fs"], *({"path": name} for name in closed)]}
        agent = Agent(root)
        begun = f"cat > /tmp/swap.py <<'END'\n{SWAPPING.format(root=str(root), closed=closed)}\nEND\n"
        begun += "cd /; python3 /tmp/swap.py >/tmp/log 2>&1 & "
        begun += "while [ ! -e /tmp/ready ]; do sleep 0.05; [ ! -s /tmp/log ] || { cat /tmp/log; exit 9; }; done"
        tops = [str(root), str(root).replace(directory, "/tmp/other")]
        try:
            assert agent.run(begun, access=access) == (0, "")
            for _attempt in range(4):
                look = f"python3 - <<'END'\n{LOOKING.format(tops=tops, closed=closed)}\nEND\n"
                assert agent.run(look, access=access) == (0, "")
        finally:
            agent.end()
            eventually(lambda: not alive(str(root)))


def test_what_commands_leave_running_does_not_keep_git_from_its_head(agent: Agent) -> None:
    """A directory HEAD in the root would make `git diff HEAD` ambiguous: all runs keep the same other part free."""
    subprocess.run(["git", "init", "-q"], cwd=agent.root, check=True)
    subprocess.run(["chown", "-R", f"--reference={agent.root}", agent.root / ".git"], check=True)
    for _run in range(3):
        assert agent.run("sleep 300 >/dev/null 2>&1 &") == (0, "")
    held = {name for name in ("HEAD", "refs", "objects") if (agent.root / name).exists()}
    assert held == {"refs"}
    assert agent.run("ls; mkdir refs/heads 2>/dev/null; echo $?") == (0, "1\n")
