"""Files that not everybody may read are not there inside, also where root runs byleave and owns them all."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE
from time import sleep

import pytest

from byleave.sandbox import Sandbox
from byleave.sandbox.confinement import Confinement, Prepared
from byleave.sandbox.linux.backends import BWRAP, LANDLOCK, NAMESPACES
from byleave.sandbox.plan.plan import DIRECTORY, EVERYTHING, FILE, NOTHING, READING, PathGrant
from byleave.sandbox.plan.private_files import (
    NOT_FOR_EVERY_USER,
    kernel_secrets,
    prefix_secrets,
    started_among,
    without_chosen,
)
from command import COMMAND, Done, environment
from sandbox.machine import PYTHON, needs_sandbox
from sandbox.without_namespaces import needs_bwrap, needs_unshare, on_such_a_machine

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root owns what is root's")
LIVE = [
    pytest.param(NAMESPACES, marks=needs_sandbox),
    pytest.param(BWRAP, marks=[needs_bwrap, needs_unshare]),
    pytest.param(LANDLOCK, marks=needs_unshare),
]
# What only root may read of the machine's own. The kernel keeps more of it from whoever has no capability.
ROOTS = """
import os, stat, sys
found = []
skipped = ("/proc/sys/net", "/proc/net", "/proc/self", "/proc/thread-self")
for top, directories, files in os.walk("/proc"):
    directories[:] = [name for name in directories if not (top == "/proc" and name.isdigit())
                      and not os.path.join(top, name).startswith(skipped)]
    for name in files:
        path = os.path.join(top, name)
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and (not mode & 4 or name in ("keys", "key-users")):
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                os.read(descriptor, 64)
                found.append(path)
        except OSError:
            pass
print(sorted(found))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "ws"
    place.mkdir()
    return place


def there(backend: str, root: Path, *words: str, options: tuple[str, ...] = (), state: Path | None = None) -> Done:
    """Run a program on a machine on which this backend is the best that works."""
    state = state or root.parent
    home = {"BYLEAVE_HOME": str(state / "byleave"), "HOME": str(state / "home")}
    before = [] if backend == NAMESPACES else on_such_a_machine(bwrap=backend == BWRAP, place=root.parent)
    done = subprocess.run(
        [*before, *COMMAND, "run", "-q", *options, "--root", str(root), "--", *words],
        cwd=root,
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def among_the_systems(system_files_alone: None) -> Iterator[Path]:
    """A directory in /usr/local with something private in it."""
    if os.geteuid() != 0:
        pytest.skip("only root writes there")
    place = Path(tempfile.mkdtemp(prefix="byleave-test-", dir="/usr/local/share"))
    try:
        place.chmod(0o755)
        for name, mode in (("key", 0o600), ("group", 0o640), ("plain", 0o644)):
            (place / name).write_text("content")
            (place / name).chmod(mode)
        (place / "closed").mkdir(mode=0o700)
        (place / "closed" / "key").write_text("content")
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("backend", LIVE)
def test_roots_private_files_among_the_systems_are_not_read(backend: str, among_the_systems: Path, root: Path) -> None:
    script = (
        f"cd {among_the_systems}; for name in key group closed/key plain; do cat $name 2>/dev/null && echo; done; :"
    )
    done = there(backend, root, "/bin/sh", "-c", script)
    assert (done.code, done.out) == (0, "content\n"), done


@pytest.mark.parametrize("backend", LIVE)
def test_a_rule_against_deleting_opens_nothing_that_root_alone_may_read(
    backend: str, among_the_systems: Path, root: Path
) -> None:
    policy = root.parent / "rules.toml"
    policy.write_text(f'[[rules]]\ndeny = {{ path = "{among_the_systems}/*", ops = ["delete"] }}\n')
    words = ["cat", *(str(among_the_systems / name) for name in ("key", "group", "closed/key", "plain"))]
    done = there(backend, root, *words, options=("--policy", str(policy)))
    assert (done.code, done.out) == (1, "content"), done


@pytest.mark.parametrize("backend", LIVE)
@as_root
def test_roots_own_files_of_the_kernel_are_not_read(backend: str, root: Path) -> None:
    done = there(backend, root, PYTHON, "-S", "-c", ROOTS)
    assert (done.code, done.out) == (0, "[]\n"), done


@pytest.mark.parametrize("backend", LIVE)
def test_what_programs_need_of_the_kernel_is_there(backend: str, root: Path) -> None:
    names = "cpuinfo meminfo stat uptime version loadavg sys/kernel/osrelease sys/kernel/pid_max"
    done = there(backend, root, "/bin/sh", "-c", f"cd /proc && cat {names} >/dev/null && echo all")
    assert (done.code, done.out) == (0, "all\n"), done


def test_a_program_that_only_root_may_read_is_run_if_it_is_named(among_the_systems: Path, root: Path) -> None:
    program = among_the_systems / "closed" / "tool"
    program.write_text("#!/bin/sh\necho ran; cat ${0%tool}key\n")
    program.chmod(0o700)
    done = there(NAMESPACES, root, str(program))
    assert (done.out, "ermission" in done.err or "o such" in done.err) == ("ran\n", True), done


def test_private_files_of_the_workspace_are_the_policys(among_the_systems: Path, tmp_path: Path) -> None:
    done = there(NAMESPACES, among_the_systems, "cat", "key", "closed/key", state=tmp_path)
    assert (done.code, done.out) == (0, "contentcontent"), done


def cover(path: Path | str, kind: str = FILE) -> PathGrant:
    return PathGrant(str(path), NOTHING, kind, NOT_FOR_EVERY_USER)


def test_a_prefix_shows_what_everybody_may_read(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "shut").mkdir(mode=0o700)
    for name, mode in (("open/key", 0o600), ("open/plain", 0o644), ("shut/x", 0o644)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    place = PathGrant(str(tmp_path), READING, DIRECTORY, "the program's own prefix")
    expected = [cover(tmp_path / "shut", DIRECTORY), cover(tmp_path / "open/key")]
    assert list(prefix_secrets([place], "/home/me")) == expected
    assert list(prefix_secrets([place], str(tmp_path))) == []


def test_many_private_files_are_covered_by_their_directory(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir(mode=0o755)
    for number in range(40):
        (tmp_path / "many" / str(number)).touch(mode=0o600)
    place = PathGrant(str(tmp_path), READING, DIRECTORY, "the program's own prefix")
    assert list(prefix_secrets([place], "/home/me")) == [cover(tmp_path / "many", DIRECTORY)]


def test_the_program_itself_is_shown_in_what_is_covered(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.touch()
    shown = PathGrant(str(program), READING, FILE, "the program itself")
    assert list(started_among([cover(tmp_path, DIRECTORY)], [str(program), "/bin/sh"])) == [shown]


def test_what_is_chosen_is_not_covered() -> None:
    chosen = PathGrant("/opt/ws", EVERYTHING, DIRECTORY, "a rule")
    covers = [cover("/opt/ws/key"), cover("/opt/key"), cover("/opt", DIRECTORY)]
    assert without_chosen(covers, [chosen]) == covers[1:]


@as_root
def test_what_the_kernel_tells_root_alone_is_known() -> None:
    found = dict(kernel_secrets(0))
    wanted = ("/proc/slabinfo", "/proc/kmsg", "/proc/vmallocinfo", "/proc/keys")
    assert [path for path in wanted if os.path.exists(path) and path not in found] == []
    public = [path for path, kind in found.items() if kind == FILE and os.stat(path).st_mode & stat.S_IROTH]
    assert set(public) <= {"/proc/keys", "/proc/key-users"}
    assert set(kernel_secrets(1000)) <= {("/proc/keys", FILE), ("/proc/key-users", FILE)}


def test_what_the_kernel_tells_one_user_alone_is_looked_for_once_in_a_while() -> None:
    first = kernel_secrets(os.geteuid())
    assert kernel_secrets(os.geteuid()) is first


@as_root
@needs_sandbox
@pytest.mark.usefixtures("system_files_alone")
def test_a_private_file_that_goes_keeps_nothing_from_starting(root: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="byleave-test-", dir="/usr/local/share"))
    place.chmod(0o755)
    secret = place / "key"
    secret.write_text("k")
    secret.chmod(0o600)
    try:
        with Sandbox(None, root=str(root)) as box:
            assert box.spawn(["/bin/true"]).wait() == 0
            secret.unlink()
            assert box.spawn(["/bin/true"]).wait() == 0
    finally:
        shutil.rmtree(place)


def remove_private(place: Path) -> None:
    shutil.rmtree(place / "closed")
    (place / "key").unlink()


def before_the_launch(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Have something happen between the plan of each sandbox and its launch."""
    prepare = Confinement.prepare

    def prepare_late(confinement: Confinement, program: str | None, search: str) -> Prepared:
        prepared = prepare(confinement, program, search)
        happens()
        return prepared

    monkeypatch.setattr("byleave.sandbox.plan.private_files._FRESH", -1.0)  # what other tests saw does not count
    monkeypatch.setattr(Confinement, "prepare", prepare_late)


OF_THE_WORKSPACE = [{"path": ".", "read": True, "write": True}]
LISTED = {"fs": OF_THE_WORKSPACE, "commands": {"cat": {}, "sh": {}}}


@as_root
@needs_sandbox
@pytest.mark.parametrize("access", [None, LISTED], ids=["any command", "listed"])
def test_a_private_file_that_goes_while_a_sandbox_is_set_up_does_not_keep_it_from_starting(
    root: Path, among_the_systems: Path, monkeypatch: pytest.MonkeyPatch, access: dict[str, object] | None
) -> None:
    before_the_launch(monkeypatch, lambda: remove_private(among_the_systems))
    with Sandbox(access, root=str(root)) as box:
        process = box.spawn(["/bin/cat" if access is None else "cat", str(among_the_systems / "group")], stderr=DEVNULL)
        assert (process.wait(), process.problem) == (1, None)  # it starts, and what is left is still covered


def put_back(place: Path) -> None:
    (place / "closed").mkdir(parents=True)
    (place / "closed").chmod(0o700)
    for name in ("key", "closed/key"):
        (place / name).write_text("content")
        (place / name).chmod(0o600)


def read_after(root: Path, place: Path, access: dict[str, object] | None, happens: Callable[[], None]) -> Done:
    """Return how a sandbox ended and what it read of private files, before which something happened outside.

    Nothing changes in the workspace: whenever a watched directory changes, the launcher looks at every place again.
    """
    script = f"echo up; read -r go; cat {place}/key {place}/closed/key; :"
    with (
        Sandbox(access, root=str(root)) as box,
        box.spawn(["sh", "-c", script], cwd=str(root), stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n", process.problem
        happens()
        sleep(0.3)  # until the launcher has heard of it
        with suppress(BrokenPipeError):
            process.stdin.write(b"go\n")
            process.stdin.close()
        out = process.stdout.read().decode()
        return Done(process.wait(timeout=20), out, str(process.problem or ""))


@as_root
@needs_sandbox
@pytest.mark.parametrize("remove", [remove_private, shutil.rmtree])
@pytest.mark.parametrize("access", [None, LISTED], ids=["any command", "listed"])
def test_a_private_file_that_goes_before_the_launch_and_comes_back_is_not_read(
    root: Path,
    among_the_systems: Path,
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[Path], None],
    access: dict[str, object] | None,
) -> None:
    before_the_launch(monkeypatch, lambda: remove(among_the_systems))
    done = read_after(root, among_the_systems, access, lambda: put_back(among_the_systems))
    ends = access is not None  # where commands are listed, no cover can be made anew
    assert (done.code, done.out) == (125 if ends else 0, ""), done


@as_root
@needs_sandbox
def test_private_files_are_not_read_when_a_directory_around_them_is_exchanged(
    root: Path, among_the_systems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an upgrade does it: the older version is moved away, and the newer one is written."""
    current = among_the_systems / "opt" / "app"

    def install() -> None:
        put_back(current / "lib")
        for open_to_all in (current.parent, current, current / "lib"):
            open_to_all.chmod(0o755)

    def upgrade() -> None:
        current.rename(current.with_name("older"))
        install()

    install()
    before_the_launch(monkeypatch, lambda: None)
    done = read_after(root, current / "lib", None, upgrade)
    assert (done.code, done.out) == (0, ""), done
