"""`byleave run` through the service: the program is the front's child, and what surrounds it is the caller's."""

import os
import resource
import signal
import time
from pathlib import Path

import pytest

from byleave.policy.dirs import find_homes
from byleave.store.live_runs import live_runs
from command import byleave
from hooks.hook_scene import HookScene
from sandbox.machine import needs_sandbox
from sandbox.session_scene import eventually
from service.served import PythonFront, TestService, capturing, run_served, service, variables

pytestmark = needs_sandbox

RULES = """
[shell]
confine = "auto"

[[rules]]
deny = { command = "touch", args = ["denied"] }

[[rules]]
deny = { path = "src/secret.txt" }

[[rules]]
allow = { any_command = true }
sandbox = true
"""


@pytest.fixture
def scene(tmp_path: Path) -> HookScene:
    scene = HookScene.build(tmp_path.resolve(), RULES)
    (scene.root / "src" / "secret.txt").write_text("SECRET")
    return scene


COMMANDS = (
    ("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"),
    ("run", "--", "cat"),
    ("run", "--", "/nowhere/program"),
    ("run", "--", "sh", "-c", "kill -9 $$"),
    ("run",),
    ("run", "--shell", "cat src/secret.txt"),
    ("run", "--shell", "touch denied"),
    ("run", "--shell", "pwd; umask; echo $0; exit 7"),
    ("run", "--shell", "echo x > /etc/byleave-was-here"),
    ("run", "--shell", "curl -s http://example.org/"),
    ("run", "--ticket", "0" * 32, "--shell", "true"),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_ends_as_it_does_by_itself(words: tuple[str, ...], running: TestService, scene: HookScene) -> None:
    env = variables(scene)
    where = scene.root / "src"
    before = os.umask(0o022)
    try:
        alone = byleave(*words, cwd=where, env={**dict.fromkeys(os.environ), **env}, feed=b"input")
    finally:
        os.umask(before)
    served = run_served(running, *running.cold(*words), cwd=where, env=env, feed=b"input")
    assert (served.code, served.out, served.err) == (alone.code, alone.out, alone.err)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "locale",
    [{}, {"LANG": "C"}, {"LC_CTYPE": "POSIX"}, {"LANG": "xx_XX.UTF-8"}, {"LC_ALL": "C"}, {"LC_ALL": "xx_XX.UTF-8"}],
    ids=str,
)
def test_a_program_gets_the_locale_that_it_gets_without_the_service(
    locale: dict[str, str], running: TestService, scene: HookScene
) -> None:
    """Python replaces a plain locale, and one that is not installed."""
    env = {"HOME": str(scene.home), "PATH": os.environ["PATH"], **locale}
    words = ("run", "--", "sh", "-c", "env | grep ^L | sort")
    alone = byleave(*words, cwd=scene.root, env={**dict.fromkeys(os.environ), **env})
    served = run_served(running, *running.cold(*words), cwd=scene.root, env=env)
    assert (served.code, served.out, served.err) == (alone.code, alone.out, alone.err)


def test_the_program_is_a_child_of_the_caller_with_its_limits(running: TestService, scene: HookScene) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        words = running.cold("run", "--shell", "ulimit -n; sleep 60")
        with capturing(b"") as (streams, taken):
            front = PythonFront(running, words, cwd=scene.root, env=variables(scene), streams=streams)
            resource.setrlimit(resource.RLIMIT_NOFILE, (456, hard))  # only now, else it is not served
            assert front.start() is None
            eventually(lambda: taken()[0] != "")
            assert taken()[0] == "456\n"
            parent = Path(f"/proc/{front.child}/stat").read_text().rpartition(")")[2].split()[1]
            assert int(parent) == os.getpid()
            os.kill(front.child, signal.SIGTERM)
            assert front.ends() == 128 + signal.SIGTERM
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_everything_ends_with_the_front(running: TestService, scene: HookScene) -> None:
    words = running.cold("run", "--shell", "echo begun; (while :; do date > src/beat; sleep 0.05; done) & sleep 60")
    with capturing(b"") as (streams, _taken):
        front = PythonFront(running, words, cwd=scene.root, env=variables(scene), streams=streams)
        assert front.start() is None
        eventually((scene.root / "src" / "beat").exists)
        front.close()
        assert os.waitpid(front.child, 0)[0] == front.child
    state = find_homes({"HOME": str(scene.home)}).workspace(str(scene.root))
    eventually(lambda: [alive for _path, _root, alive in live_runs(f"{state}/runs") if alive] == [])
    eventually(lambda: not (scene.root / ".git").exists())  # no name is held any more
    before = (scene.root / "src" / "beat").stat().st_mtime_ns
    time.sleep(0.3)
    assert (scene.root / "src" / "beat").stat().st_mtime_ns == before


def test_a_command_goes_on_when_the_service_ends(tmp_path: Path, scene: HookScene) -> None:
    with service(tmp_path / "place") as started, capturing(b"") as (streams, taken):
        words = started.cold("run", "--shell", "echo begun; cat; echo ended; exit 5")
        reading, writing = os.pipe()
        given = [reading, *streams[1:]]
        front = PythonFront(started, words, cwd=scene.root, env=variables(scene), streams=given)
        assert front.start() is None
        eventually(lambda: taken()[0] == "begun\n")
        started.process.kill()
        started.process.wait()
        os.write(writing, b"input\n")
        os.close(writing)
        assert front.ends() == 5
        assert taken()[0] == "begun\ninput\nended\n"
        os.close(reading)


def test_a_command_that_takes_too_long_is_ended(running: TestService, scene: HookScene) -> None:
    (scene.root / "byleave.toml").write_text(
        '[tools.slow]\nsource = "local"\nruntime = "stdio"\ncommand = ["sleep"]\n[tools.slow.limits]\nwall_time = 1\n'
    )
    env = variables(scene)
    assert byleave("trust", "--yes", cwd=scene.root, env={**dict.fromkeys(os.environ), **env}).code == 0
    words = running.cold("run", "--tool", "slow", "--", "sleep", "60")
    done = run_served(running, *words, cwd=scene.root, env=env)
    assert done.code == 124
    assert "longer than 1 seconds" in done.err
