"""What the launcher does at once or only once for the sake of a quick start: the result is the same."""

import errno
import os
from pathlib import Path

import pytest

from byleave.sandbox import Sandbox
from byleave.sandbox.linux.program import DIRECTORY, step, write_program
from byleave.sandbox.linux.steps import NODEV, NOEXEC, NOSUID
from byleave.sandbox.native.build import FULL, LEAN, build, find_compiler
from byleave.sandbox.process import DEVNULL, PIPE, Process
from sandbox.machine import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.sampled(2)]

NETWORK = 0x40000000
OTHERS = 0x7E020000 & ~NETWORK
ATTRIBUTES = NOSUID | NODEV
ROOT = step("root", "/mnt", b"mode=0755\0")


@pytest.fixture(scope="module", params=[LEAN, FULL])
def launcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    target = str(tmp_path_factory.mktemp("launcher") / request.param)
    build(compiler, target, request.param)
    return (target,)


def played(launcher: tuple[str, ...], kinds: int, *steps: object) -> tuple[int, str]:
    """Have a launcher do some steps; return its exit code, and what it said of the first that failed."""
    ids = [f"{number} {number} 1" for number in (os.geteuid(), os.getegid())]
    program = write_program([step("namespaces", kinds, *ids, 0), *steps])  # type: ignore[list-item]
    with Process(launcher, program, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        code = process.wait(timeout=30)
        return code, "" if process.problem is None else str(process.problem)


def test_a_plan_that_never_enters_the_network_that_is_made_does_not_start(launcher: tuple[str, ...]) -> None:
    code, said = played(launcher, OTHERS | NETWORK << 32, step("fork"), ROOT, step("pivot", ATTRIBUTES))
    assert code == 125
    assert os.strerror(errno.EBADMSG).lower() in said
    assert "namespaces" in said


def test_a_network_that_no_keeper_makes_is_not_entered(launcher: tuple[str, ...]) -> None:
    assert played(launcher, OTHERS | NETWORK << 32, step("network"))[0] == 125
    assert played(launcher, OTHERS, step("fork"), ROOT, step("network"))[0] == 125


def test_a_network_that_cannot_be_made_is_an_error_of_the_namespaces(launcher: tuple[str, ...]) -> None:
    unknown = 1  # a kind that no kernel knows
    code, said = played(launcher, OTHERS | unknown << 32, step("fork"), ROOT, step("network"))
    assert code == 125
    assert "namespaces" in said


def test_an_init_that_ends_before_it_has_its_network_is_no_error_of_the_namespaces(launcher: tuple[str, ...]) -> None:
    ended = step("exec", "/bin/true", "/", [b"true"], [])
    for _ in range(5):
        assert played(launcher, OTHERS | NETWORK << 32, step("fork"), ended) == (0, "")


def test_what_is_made_below_a_mount_is_made_in_the_mount(launcher: tuple[str, ...], tmp_path: Path) -> None:
    """The directory that was looked up last is another one when something is mounted upon it, or above it."""
    (tmp_path / "one" / "two").mkdir(parents=True)
    shown = (step("directory", "/ws", 0o755), step("bind", str(tmp_path), "/ws", ATTRIBUTES, DIRECTORY))
    code, said = played(
        launcher,
        OTHERS | NETWORK << 32,
        step("fork"),
        ROOT,
        *shown,
        step("file", "/ws/one/two/before", 0o600, b""),
        step("mount", "tmpfs", "/ws/one", b"mode=0755\0", ATTRIBUTES | NOEXEC),
        step("directory", "/ws/one/two", 0o755),
        step("file", "/ws/one/two/behind", 0o600, b""),
        step("mount", "tmpfs", "/ws/one/two", b"mode=0755\0", ATTRIBUTES | NOEXEC),
        step("file", "/ws/one/two/behind", 0o600, b""),  # there is none in the new one
        step("network"),
        step("pivot", ATTRIBUTES),
    )
    assert "program" in said, (code, said)  # it came to the end
    assert os.listdir(tmp_path / "one" / "two") == ["before"]


def test_a_program_has_a_network_of_its_own_with_nothing_but_loopback(tmp_path: Path) -> None:
    rules = {"fs": [{"path": ".", "read": True, "execute": True}]}
    settings = "/proc/sys/net/core/bpf_jit_harden"  # of the host's network alone
    script = f"readlink /proc/self/ns/net; cat /proc/net/dev; test ! -e {settings}"
    with (
        Sandbox(rules, root=str(tmp_path.resolve())) as sandbox,
        sandbox.spawn(["/bin/sh", "-c", script], cwd=str(tmp_path), env={"PATH": "/usr/bin:/bin"}, stdout=PIPE) as run,
    ):
        assert run.stdout is not None
        own, *table = run.stdout.read().decode().splitlines()
        assert run.wait(timeout=30) == 0, run.problem
    assert own != os.readlink("/proc/self/ns/net")
    assert [line.split(":")[0].strip() for line in table if ":" in line] == ["lo"]
