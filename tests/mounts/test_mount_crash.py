"""A mount is everything or nothing, whenever its process is killed, whatever fails, and whoever else is at work."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import amounts
from byleave.errors import StateError
from byleave.mounts.journal import recover
from command import PATIENCE, Done, environment, python
from mount_scene import MountScene

# Runs the command line, but at the n-th call that changes the disk the process dies before or after it, or it fails.
FAULTY = """
import errno, os, signal, sys
number, fault = int(sys.argv[1]), sys.argv[2]
calls = 0

def faulty(real):
    def call(*args, **named):
        global calls
        calls += 1
        if calls == number and fault == "killed before":
            os.kill(os.getpid(), signal.SIGKILL)
        if calls == number and fault == "fails":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(args[0]))
        result = real(*args, **named)
        if calls == number and fault == "killed after":
            os.kill(os.getpid(), signal.SIGKILL)
        if calls == number and fault == "interrupted":
            raise KeyboardInterrupt
        return result
    return call

for name in ("mkdir", "symlink", "replace", "unlink", "rmdir", "fsync"):
    setattr(os, name, faulty(getattr(os, name)))
from byleave.cli.main import main
code = main(sys.argv[3:])
sys.stdout.flush()
os._exit(code if calls >= number else 99)
"""
NEVER_REACHED = 99
FAULTS = ("killed before", "killed after", "fails", "interrupted")
MOST_CALLS = 120
STEP = amounts.of(1, 3)  # from one call at which it ends to the next; each fault begins at another call


def run_faulty(scene: MountScene, number: int, fault: str, *words: str) -> Done:
    return python(FAULTY, str(number), fault, *words, cwd=scene.root)


def fresh(base: Path, home: Path, prepared: tuple[tuple[str, ...], ...]) -> MountScene:
    shutil.rmtree(base, ignore_errors=True)
    shutil.rmtree(home / "workspaces", ignore_errors=True)
    base.mkdir()
    scene = MountScene.build(base, home)
    for words in prepared:
        assert scene.run(*filled(scene, words)).code == 0
    return scene


def filled(scene: MountScene, words: tuple[str, ...]) -> list[str]:
    known = {"$EXT": str(scene.ext), "$EVIL": str(scene.evil)}
    if "$ID" in words:
        known["$ID"] = next(one.id for one in scene.workspace.approvals.all() if one.kind == "mount")
    for name, text in known.items():
        words = tuple(word.replace(name, text) for word in words)
    return list(words)


MOUNT = ("mount", "--yes", "fork=$EXT")
DEEP = ("mount", "--yes", "fs_modify_file:deep/er/fork=$EVIL:rw")
WIDER = ("mount", "--yes", "fs_modify_file:fork=$EXT:rw")
UNMOUNT = ("unmount", "--yes")
REVOKE = ("approvals", "revoke", "--yes", "$ID")
JOURNEYS = {
    "the first mount": ((), MOUNT),
    "a mount in new directories beside another": ((MOUNT,), DEEP),
    "a mount that becomes wider": ((MOUNT,), WIDER),
    "a mount of what was taken back": ((MOUNT, REVOKE), MOUNT),
    "an unmount of two": ((MOUNT, DEEP), UNMOUNT),
}


# Whoever is killed after a call leaves the disk as whoever is killed before the next: one of them for every change.
ENDS = [
    pytest.param(
        *journey, fault, id=f"{name}-{fault}", marks=amounts.slow if fault == "killed after" and journey[0] else ()
    )
    for name, journey in JOURNEYS.items()
    for fault in FAULTS
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("prepared", "words", "fault"), ENDS)
def test_whenever_it_ends_it_is_everything_or_nothing(
    prepared: tuple[tuple[str, ...], ...], words: tuple[str, ...], fault: str, tmp_path: Path, own_home: Path
) -> None:
    base = tmp_path / "base"
    scene = fresh(base, own_home, prepared)
    nothing, granted = scene.picture(), scene.in_force()
    assert scene.run(*filled(scene, words)).code == 0
    everything = scene.picture()
    outcomes = set()
    for number in range(1 + FAULTS.index(fault) % STEP, MOST_CALLS, STEP):
        if scene.picture() != nothing:
            scene = fresh(base, own_home, prepared)
        done = run_faulty(scene, number, fault, *filled(scene, words))
        if fault in ("fails", "interrupted"):
            assert intents(scene) == [], (number, done)
        found = scene.in_force()  # whatever is left of it, other commands work
        if "mounting.json" in intents(scene):  # it was not committed
            assert found <= granted, (number, done)
        recover(scene.workspace)
        picture = scene.picture()
        assert picture in (nothing, everything), (number, done)
        if done.code in (0, NEVER_REACHED) or "mounted" in done.out:
            assert picture == everything, (number, done)
        if done.code in (1, 2, 130):
            assert picture == nothing, (number, done)
        outcomes.add(picture == everything)
        assert intents(scene) == []
        if done.code == NEVER_REACHED:
            break
    else:
        pytest.fail(f"there are more than {MOST_CALLS} calls")
    assert outcomes == {True, False}


def intents(scene: MountScene) -> list[str]:
    return sorted(path.name for path in scene.state.glob("mounting*"))


def test_a_mount_that_died_does_not_stand_in_the_way_of_the_next(tmp_path: Path, own_home: Path) -> None:
    scene = died_with_its_link_made(tmp_path / "base", own_home)
    answer = scene.answer("mount", "--yes", f"deep/fork={scene.evil}")
    assert (answer["target"], answer["changed"]) == (str(scene.evil), True)
    assert (scene.root / "deep/fork").readlink() == scene.evil


def test_a_mount_that_died_after_its_commit_is_finished_by_the_next_command(tmp_path: Path, own_home: Path) -> None:
    for words in (("mount", "--list"), ("mount", "--yes", "fork=$EXT")):
        scene = fresh(tmp_path / "base", own_home, ())
        number = 1
        while "mounting-committed.json" not in intents(scene):
            scene = fresh(tmp_path / "base", own_home, ())
            run_faulty(scene, number, "killed after", *filled(scene, MOUNT))
            number += 1
        assert scene.in_force() == set()
        assert scene.run(*filled(scene, words)).code == 0
        assert scene.in_force() == {(tool, "fs fork (external): read") for tool in ("fs_modify_file", "fs_read_file")}
        assert intents(scene) == []


def test_a_mount_that_died_is_undone_by_the_next_command_about_mounts(tmp_path: Path, own_home: Path) -> None:
    for words in (("mount", "--list"), ("unmount", "--yes"), ("mount", "--yes", "fs_read_file:other=$EVIL")):
        scene = fresh(tmp_path / "base", own_home, ())
        number = 1
        while not (scene.root / "fork").is_symlink():
            run_faulty(scene, number, "killed before", *filled(scene, MOUNT))
            number += 1
        assert (scene.state / "mounting.json").exists()
        assert scene.run(*filled(scene, words)).code == 0
        assert not (scene.root / "fork").is_symlink()
        assert "fork" not in scene.approved()
        assert not (scene.state / "mounting.json").exists()


def died_with_its_link_made(base: Path, home: Path) -> MountScene:
    scene = fresh(base, home, ())
    number = 1
    while not (scene.root / "deep/fork").is_symlink():
        run_faulty(scene, number, "killed before", *filled(scene, ("mount", "--yes", "deep/fork=$EXT")))
        number += 1
    return scene


def test_recovery_takes_nothing_away_that_somebody_changed_meanwhile(tmp_path: Path, own_home: Path) -> None:
    scene = died_with_its_link_made(tmp_path / "base", own_home)
    (scene.root / "deep/fork").unlink()
    (scene.root / "deep/fork").write_text("mine")
    recover(scene.workspace)
    assert (scene.root / "deep/fork").read_text() == "mine"
    scene = died_with_its_link_made(tmp_path / "base", own_home)
    (scene.root / "deep/fork").unlink()
    (scene.root / "deep/fork").symlink_to(scene.evil)
    recover(scene.workspace)
    assert (scene.root / "deep/fork").readlink() == scene.evil


def test_recovery_follows_no_link_that_was_put_in_its_way(tmp_path: Path, own_home: Path) -> None:
    scene = died_with_its_link_made(tmp_path / "base", own_home)
    (scene.root / "deep").rename(scene.evil / "deep")
    (scene.root / "deep").symlink_to(scene.evil / "deep")
    recover(scene.workspace)
    assert (scene.evil / "deep/fork").is_symlink()
    assert (scene.root / "deep").is_symlink()


def change(*values: object) -> str:
    return json.dumps({"changes": [], "granting": [values]})


DAMAGED = [
    "",
    "[]",
    "{" * 5000,
    '{"changes": []}',
    '{"changes": 5, "granting": []}',
    change(1),
    change("nothing known", "q", "/etc", None, ["", ""], []),
    change("approval", "q", None, 5, ["", ""], []),
    change("approval", 5, None, "/etc", ["", ""], []),
    change("approval", "q", None, "/etc", ["", "", ""], []),
    change("approval", "q", None, "/etc", "ab", []),
    change("approval", "q", None, "/etc", ["", ""], ["/etc"]),
    change("link", "../q", "/etc", None, ["", ""], []),
    change("link", "/q", "/etc", None, ["", ""], []),
    change("link", "a\0b", "/etc", None, ["", ""], []),
    change(["link"], "q", "/etc", None, ["", ""], []),
    change("file", "q", ["a"], None, ["", ""], []),
]


def test_a_damaged_intent_stops_mounting_and_says_so(tmp_path: Path, own_home: Path) -> None:
    scene = fresh(tmp_path / "base", own_home, (MOUNT,))
    before = scene.picture()
    for name in ("mounting.json", "mounting-committed.json"):
        for text in DAMAGED:
            (scene.state / name).write_text(text)
            (scene.state / name).chmod(0o600)
            with pytest.raises(StateError, match="is damaged"):
                recover(scene.workspace)
        assert scene.run("mount", "--yes", f"other={scene.evil}").code == 2
        listed = scene.run("mount", "--list")
        assert (listed.code, "fork" in listed.out, "is damaged" in listed.err) == (0, True, True)
        (scene.state / name).unlink()
    assert scene.picture() == before


# Runs the command line with files that cannot grow beyond a number of bytes.
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from byleave.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def limited(scene: MountScene, size: int, *words: str) -> int:
    return python(LIMITED, str(size), *words, cwd=scene.root).code


LESS = amounts.of(97, 151)  # bytes from one size to the next


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("prepared", "words"), JOURNEYS.values(), ids=JOURNEYS.keys())
def test_a_full_disk_leaves_no_trace(
    prepared: tuple[tuple[str, ...], ...], words: tuple[str, ...], tmp_path: Path, own_home: Path
) -> None:
    scene = fresh(tmp_path / "base", own_home, prepared)
    before = scene.picture()
    size = 0
    while (code := limited(scene, size, *filled(scene, words))) != 0:
        assert (code, scene.picture()) == (2, before)
        assert intents(scene) == []
        size += LESS
    assert size > LESS
    assert scene.picture() != before


COUNT = amounts.of(50, 6)  # mounts of each; every one reads all that are there
ADD = """
import os, sys
from byleave.policy.load import Workspace
from byleave.mounts.apply import mount
from byleave.mounts.plan import MountRequest, plan_mounts
for number in range(int(sys.argv[2])):
    workspace = Workspace(os.getcwd())
    request = MountRequest((f"{sys.argv[1]}/{number}={sys.argv[3]}",), os.getcwd())
    mount(workspace, plan_mounts(workspace, request), now="now")
"""


def test_two_who_mount_at_once_lose_nothing(tmp_path: Path, own_home: Path) -> None:
    scene = MountScene.build(tmp_path, own_home)
    running = [
        subprocess.Popen([sys.executable, "-c", ADD, name, str(COUNT), str(scene.ext)], cwd=scene.root) for name in "ab"
    ]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    names = {f"{name}/{number}" for name in "ab" for number in range(COUNT)}
    assert set(scene.approved()) == names
    listed = scene.answer("mount", "--list")
    assert {(each["name"], each["state"]) for each in listed} == {(name, "in force") for name in names}
    assert all(len(each["tools"]) == 2 for each in listed)
    rules = scene.workspace.load().compiled.tools["fs_read_file"].lists["fs"].items
    assert sorted(item.tree["path"] for item in rules) == sorted([".", *names])


ORDINARY_USER = 65534
# Runs the commands twice in one process: as it is, elsewhere, so that everything is loaded, and then as somebody who
# may not be able to read the interpreter's own files.
AS_ORDINARY_USER = """
import json, os, sys, tempfile
from byleave.cli.main import main
commands, root, home = json.loads(sys.argv[1]), os.getcwd(), os.environ["BYLEAVE_HOME"]
with tempfile.TemporaryDirectory() as other:
    os.environ["BYLEAVE_HOME"] = f"{other}/home"
    os.makedirs(f"{other}/ws/.git")
    os.mkdir(f"{other}/home", 0o700)
    os.chdir(f"{other}/ws")
    with open(f"{home}/config.toml") as here, open(f"{other}/home/config.toml", "w") as there:
        there.write(here.read())
    for words in commands:
        main(words)
    main(["mount", "--yes", "no=where"])
    os.chdir(root)
os.environ["BYLEAVE_HOME"] = home
sys.stdout.write("now as an ordinary user\\n")
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for words in commands:
    sys.stdout.write(f"{main(words)}\\n")
"""


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[MountScene]:
    """A scene that an ordinary user can reach: pytest keeps its own directories to itself."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        base = Path(name).resolve()
        base.chmod(0o755)
        (base / "home").mkdir(mode=0o700)
        monkeypatch.setenv("BYLEAVE_HOME", str(base / "home"))
        monkeypatch.setenv("HOME", str(base / "home"))
        scene = MountScene.build(base, base / "home")
        if os.geteuid() == 0:
            for place in (scene.root, scene.root / "foo", scene.home, scene.home / "config.toml"):
                os.chown(place, ORDINARY_USER, ORDINARY_USER)
        yield scene


def as_ordinary_user(scene: MountScene, *commands: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", AS_ORDINARY_USER, json.dumps(commands)],
        cwd=scene.root,
        env=environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return done.stdout.partition("now as an ordinary user\n")[2].splitlines()


def test_an_ordinary_user_mounts_and_unmounts(reachable: MountScene) -> None:
    check = ["check", "read", "fork/x", "--tool", "fs_modify_file", "-q"]
    spec = f"fs_modify_file:fork={reachable.ext}"
    said = as_ordinary_user(
        reachable, check, ["mount", "--yes", "-q", spec], check, ["unmount", "--yes", "-q", "fork"], check
    )
    assert said == ["deny", "20", "0", "allow", "0", "0", "deny", "20"]


def test_a_directory_that_cannot_be_written_to_leaves_no_trace(reachable: MountScene) -> None:
    for place, spec, failed in (("foo", "foo/new/fork", "foo/new"), (".", "fork", "fork")):
        (reachable.root / place).chmod(0o555)
        before = reachable.picture()
        said = as_ordinary_user(reachable, ["mount", "--yes", f"fs_modify_file:{spec}={reachable.ext}"])
        assert said[-1] == "2"
        assert f'nothing was changed: "{failed}": Permission denied' in said[0]
        assert reachable.picture() == before
