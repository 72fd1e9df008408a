"""Names that are held while sandboxes run: nothing of them is left, and nothing of the user's is lost."""

import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import amounts
from byleave.errors import StateError
from byleave.policy.dirs import find_root, is_held
from byleave.sandbox import placeholders
from byleave.sandbox.placeholders import Hold, Placeholder, Placeholders

ORDINARY_USER = 65534  # nobody
WANTED = (
    Placeholder(".claude"),
    Placeholder(".config"),
    Placeholder(".config/fish"),
    Placeholder(".envrc"),
    Placeholder(".git/commondir", b"../.git\n"),
    Placeholder(".git/config.worktree", b""),
)
NAMES = [wanted.path for wanted in WANTED]


class Scene:
    """A workspace with a `.git` and a file, and the private directory of its state."""

    def __init__(self, base: Path) -> None:
        self.root = base / "ws"
        self.state = base / "state"
        (self.root / ".git").mkdir(parents=True)
        (self.root / "main.py").write_text("pass\n")
        self.before = self.names()

    @property
    def places(self) -> Placeholders:
        """The placeholders as a new process would see them."""
        return Placeholders(str(self.state), str(self.root))

    def hold(self, *wanted: Placeholder) -> Hold:
        return self.places.hold(wanted or WANTED)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*"))

    @property
    def added(self) -> list[str]:
        return sorted(set(self.names()) - set(self.before))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def in_child(act: Callable[[], object]) -> int:
    """Run `act` in a forked child, and return its process id; the child ends with 0 if nothing was raised."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return child


def code_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_while_holding(scene: Scene, *wanted: Placeholder) -> None:
    def act() -> None:
        scene.hold(*wanted)
        os.kill(os.getpid(), signal.SIGKILL)

    assert code_of(in_child(act)) == -signal.SIGKILL


def test_missing_names_are_held_and_then_gone(scene: Scene) -> None:
    with scene.hold() as hold:
        assert (hold.held, hold.present, hold.skipped) == (WANTED, (), ())
        assert scene.added == NAMES
        assert [(scene.root / name).read_bytes() for name in NAMES[4:]] == [b"../.git\n", b""]
        assert stat.S_IMODE((scene.root / ".git/commondir").stat().st_mode) & 0o222 == 0
    assert scene.added == []
    assert not (scene.state / "placeholders.json").exists()


def test_git_does_not_see_what_is_held(scene: Scene) -> None:
    (scene.root / ".git").rmdir()
    git = ["git", "-C", str(scene.root), "-c", "safe.directory=*"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    before = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout
    with scene.hold(*WANTED[:4]):
        assert subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True).stdout == before


def test_a_name_that_is_only_held_is_known_as_such(scene: Scene) -> None:
    (scene.root / ".git").rmdir()
    (scene.root / "sub").mkdir()
    wanted = [Placeholder(f"sub/{name}") for name in (".byleave", ".git", "byleave.toml")]
    (scene.root / "byleave.toml").touch()
    with scene.hold(*wanted, Placeholder("sub/.git/config", b"")):
        assert [is_held(str(scene.root / each.path)) for each in wanted] == [True] * 3
        assert find_root(str(scene.root / "sub")) == str(scene.root)


def link(path: Path) -> None:
    path.symlink_to("nowhere")


def directory(path: Path) -> None:
    path.mkdir(mode=0o1755)


def same_file(path: Path) -> None:
    path.touch(0o444)


@pytest.mark.parametrize("make", [Path.touch, directory, link, os.mkfifo, same_file], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", [".envrc", ".git/config.worktree"])
def test_a_name_that_exists_is_not_ours(make: Callable[[Path], None], name: str, scene: Scene) -> None:
    make(scene.root / name)
    before = (scene.root / name).lstat()
    for _ in range(2):
        with scene.hold() as hold:
            assert (hold.present, name in [each.path for each in hold.held]) == ((name,), False)
        assert (scene.root / name).lstat() == before
    killed_while_holding(scene)
    assert name not in scene.places.recover()
    assert scene.added == [name]


def test_a_name_without_a_directory_is_skipped_with_a_reason(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (scene.root / "link").symlink_to(tmp_path / "outside")
    (scene.root / "inner").symlink_to(".git")
    before = scene.names()
    names = ["link/x", "inner/x", "gone/x", "gone/deeper/x", "main.py/x", "link/.git/x"]
    with scene.hold(*map(Placeholder, names)) as hold:
        assert (hold.held, hold.present) == ((), ())
        assert hold.skipped == (
            ("gone/deeper/x", '"gone/deeper" does not exist'),
            ("gone/x", '"gone" does not exist'),
            ("inner/x", '"inner" is a symbolic link, or lies behind one'),
            ("link/.git/x", '"link/.git" is a symbolic link, or lies behind one'),
            ("link/x", '"link" is a symbolic link, or lies behind one'),
            ("main.py/x", '"main.py" is no directory'),
        )
        assert (scene.names(), list((tmp_path / "outside").iterdir())) == (before, [])


def test_a_root_behind_a_link_is_refused(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(scene.root)
    with pytest.raises(StateError, match="cannot be held"):
        Placeholders(str(scene.state), str(tmp_path / "link")).hold(WANTED)
    assert scene.added == []


@pytest.mark.parametrize("path", ["", ".", "..", "../x", "/x", "a//b", "a/./b", "a/../b", "a/", "a\0b"])
def test_only_a_canonical_path_can_be_held(path: str, scene: Scene) -> None:
    with pytest.raises(ValueError, match="canonical"):
        scene.hold(Placeholder(path))


def test_odd_names_can_be_held(scene: Scene) -> None:
    names = ("new\nline", "café", os.fsdecode(b"caf\xe9"), "-rf", "a b", "x" * 255)
    with scene.hold(*map(Placeholder, names)) as hold:
        assert len(hold.held) == len(names)
    killed_while_holding(scene, *map(Placeholder, names))
    assert len(scene.places.recover()) == len(names)
    assert scene.added == []


def test_the_last_one_out_removes_the_names(scene: Scene) -> None:
    first, second = scene.hold(), scene.hold()
    assert second.held == WANTED
    first.release()
    assert scene.added == NAMES
    second.close()
    assert scene.added == []


def test_names_of_several_holders_join(scene: Scene) -> None:
    first = scene.hold(*WANTED[:2])
    second = scene.hold(*WANTED)
    first.release()
    assert scene.added == NAMES
    third = scene.hold(Placeholder(".git/commondir", b"something else"))
    assert third.held == (Placeholder(".git/commondir", b"../.git\n"),)
    second.release()
    third.release()
    assert scene.added == []


def test_a_holder_that_wants_nothing_keeps_the_names_of_others(scene: Scene) -> None:
    first, second = scene.hold(), scene.places.hold(())
    first.release()
    assert scene.added == NAMES
    second.release()
    assert scene.added == []


def test_a_name_that_was_removed_is_held_anew(scene: Scene) -> None:
    first = scene.hold()
    (scene.root / ".claude").rmdir()
    second = scene.hold()
    assert (second.present, scene.added) == ((), NAMES)
    first.release()
    second.release()
    assert scene.added == []


def test_releasing_twice_does_nothing(scene: Scene) -> None:
    hold = scene.hold()
    other = scene.hold()
    hold.release()
    hold.release()
    assert (hold.descriptor, scene.added) == (-1, NAMES)
    other.release()


def test_names_that_are_only_held_are_told(scene: Scene) -> None:
    assert scene.places.names() == frozenset()
    assert not scene.state.exists()
    (scene.root / ".envrc").touch()
    with scene.hold(), scene.places.hold(()):
        assert scene.places.names() == {*NAMES} - {".envrc"}
        (scene.root / ".claude/settings.json").touch()
        (scene.root / ".config/git").mkdir()
        (scene.root / ".git/commondir").unlink()
        assert scene.places.names() == {".config/fish", ".git/config.worktree"}
    assert scene.places.names() == frozenset()


def test_what_a_crash_left_is_only_held_until_somebody_arrives(scene: Scene) -> None:
    killed_while_holding(scene)
    assert scene.places.names() == set(NAMES)
    with scene.places.hold(()):
        assert (scene.places.names(), scene.added) == (frozenset(), [])


def test_what_no_lock_vouches_for_is_not_only_held(scene: Scene) -> None:
    with scene.hold():
        (scene.state / "placeholders.lock").unlink()
        assert scene.places.names() == frozenset()
        (scene.state / "placeholders.lock").touch()
        assert scene.places.names() == frozenset()


# What somebody makes of a name while it is held, and what is there in the end.


def fill(root: Path) -> None:
    (root / ".claude/settings.json").write_text("{}")


def fill_below(root: Path) -> None:
    (root / ".config/fish/config.fish").touch()


def replace_directory(root: Path) -> None:
    (root / ".claude").rmdir()
    (root / ".claude").mkdir()


def replace_by_file(root: Path) -> None:
    (root / ".envrc").rmdir()
    (root / ".envrc").write_text("export A=1")


def replace_by_link(root: Path) -> None:
    (root / ".envrc").rmdir()
    (root / ".envrc").symlink_to(".git")


def change_file(root: Path) -> None:
    (root / ".git/commondir").chmod(0o644)
    (root / ".git/commondir").write_text("elsewhere")


def append_to_file(root: Path) -> None:
    (root / ".git/commondir").chmod(0o644)
    with (root / ".git/commondir").open("a") as file:
        file.write("more")
    (root / ".git/commondir").chmod(0o444)


def replace_file(root: Path) -> None:
    fresh = root / ".git/fresh"
    fresh.write_bytes(b"../.git\n")
    fresh.chmod(0o444)
    fresh.replace(root / ".git/commondir")


def link_file(root: Path) -> None:
    os.link(root / ".git/commondir", root / "second")


def make_a_directory_a_link(root: Path) -> None:
    (root / ".git").rename(root / "moved")
    (root / ".git").symlink_to("moved")


CHANGES: list[tuple[Callable[[Path], None], list[str]]] = [
    (fill, [".claude", ".claude/settings.json"]),
    (fill_below, [".config", ".config/fish", ".config/fish/config.fish"]),
    (replace_directory, [".claude"]),
    (replace_by_file, [".envrc"]),
    (replace_by_link, [".envrc"]),
    (change_file, [".git/commondir"]),
    (append_to_file, [".git/commondir"]),
    (replace_file, [".git/commondir"]),
    (link_file, [".git/commondir", "second"]),
    (make_a_directory_a_link, ["moved", "moved/commondir", "moved/config.worktree"]),
]


def leaves(scene: Scene, change: Callable[[Path], None]) -> None:
    with scene.hold():
        change(scene.root)


def crashes(scene: Scene, change: Callable[[Path], None]) -> None:
    killed_while_holding(scene)
    change(scene.root)
    scene.places.recover()


@pytest.mark.parametrize("end", [leaves, crashes])
@pytest.mark.parametrize(("change", "expect"), CHANGES, ids=lambda value: getattr(value, "__name__", None))
def test_what_has_become_somebodys_stays(
    change: Callable[[Path], None],
    expect: list[str],
    end: Callable[[Scene, Callable[[Path], None]], None],
    scene: Scene,
) -> None:
    end(scene, change)
    assert scene.added == expect
    kept = [(scene.root / name).lstat() for name in expect]
    assert not any(found.st_mode & stat.S_ISVTX for found in kept if stat.S_ISDIR(found.st_mode))
    scene.hold().release()
    assert scene.added == expect


# Crashes


def test_the_next_one_removes_what_a_crash_left(scene: Scene) -> None:
    killed_while_holding(scene)
    assert scene.added == NAMES
    assert scene.places.recover() == NAMES
    assert (scene.added, scene.places.recover()) == ([], [])
    killed_while_holding(scene)
    scene.hold(Placeholder(".other")).release()
    assert scene.added == []


def test_nothing_is_recovered_while_somebody_holds(scene: Scene) -> None:
    killed_while_holding(scene)
    with scene.hold(*WANTED[:1]):
        assert scene.places.recover() == []
        assert scene.added == NAMES[:1]


def test_there_is_nothing_to_recover_where_nothing_was_held(scene: Scene) -> None:
    assert scene.places.recover() == []
    assert not scene.state.exists()


@pytest.fixture
def sleeper() -> Iterator[Callable[[int], subprocess.Popen[bytes]]]:
    """Start processes that inherit a descriptor and stay until their standard input ends, as launchers do."""
    started: list[subprocess.Popen[bytes]] = []

    def start(descriptor: int) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(descriptor,)))
        return started[-1]

    yield start
    for process in started:
        process.communicate()


def test_names_are_held_as_long_as_a_process_that_inherited_the_lock_lives(
    scene: Scene, sleeper: Callable[[int], subprocess.Popen[bytes]]
) -> None:
    hold = scene.hold()
    process = sleeper(hold.descriptor)
    hold.release()
    with scene.hold() as second:
        assert second.held == WANTED
    assert (scene.places.recover(), scene.added) == ([], NAMES)
    process.communicate()
    assert (scene.places.recover(), scene.added) == (NAMES, [])


def test_names_are_held_by_the_child_of_a_killed_process(scene: Scene) -> None:
    read, write = os.pipe()

    def act() -> None:
        hold = scene.hold()
        os.close(write)
        subprocess.Popen(["cat"], stdin=read, stdout=subprocess.DEVNULL, pass_fds=(hold.descriptor,))
        os.kill(os.getpid(), signal.SIGKILL)

    assert code_of(in_child(act)) == -signal.SIGKILL
    os.close(read)
    assert (scene.places.recover(), scene.added) == ([], NAMES)
    os.close(write)
    assert eventually(scene.places.recover) == NAMES
    assert scene.added == []


def eventually(ask: Callable[[], list[str]]) -> list[str]:
    """Return the first answer that is not empty; the process we wait for is no child of ours."""
    until = time.monotonic() + 30
    while not (answer := ask()) and time.monotonic() < until:
        time.sleep(0.005)
    return answer


def test_a_program_that_does_not_inherit_the_lock_does_not_hold_the_names(scene: Scene) -> None:
    with scene.hold():
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert scene.added == []
    process.communicate()


def dies_at(call: int, act: Callable[[], object]) -> bool:
    """Run `act` in a child that is gone right before its n-th system call; say whether it came so far."""

    def run() -> None:
        left = [call]

        def see(_frame: object, event: str, called: object) -> None:
            if event == "c_call" and getattr(called, "__module__", None) in ("posix", "fcntl"):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(see)
        act()
        sys.setprofile(None)

    return code_of(in_child(run)) != 0


STEP = amounts.of(1, 5)  # from one moment that is tried to the next


def test_a_process_may_die_at_any_moment(scene: Scene) -> None:
    act = lambda: scene.hold().release()  # noqa: E731 -- what the child does, in one line
    call = 1
    while dies_at(call, act):
        left = scene.added
        removed = scene.places.recover()
        assert (set(removed), scene.added) == (set(left), []), call
        call += STEP
    assert call > 100  # it did die until there was no moment left
    assert scene.added == []


def test_a_process_may_die_while_others_hold_and_while_it_recovers(scene: Scene) -> None:
    first, last = WANTED[:2], WANTED[2:]

    def act() -> None:
        with scene.hold(*first, *last):
            pass

    call = 1
    alive = True
    while alive:
        with scene.hold(*first) as hold:
            alive = dies_at(call, act)
            assert set(NAMES[:2]) <= set(scene.added)
            assert hold.held == first
        assert scene.added == [], call
        call += amounts.of(7, 19)
    killed_while_holding(scene)
    call = 1
    while dies_at(call, scene.places.recover):
        scene.hold().release()
        assert scene.added == [], call
        killed_while_holding(scene)
        call += amounts.of(5, 11)
    assert scene.added == []


INTERRUPTED = 3


def is_interrupted_at(call: int, act: Callable[[], object]) -> bool:
    """Run `act` in a child that is interrupted right after its n-th system call; say whether it came so far."""

    def run() -> None:
        left = [call]

        def see(_frame: object, event: str, called: object) -> None:
            if event == "c_return" and getattr(called, "__module__", None) in ("posix", "fcntl"):
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt

        try:
            sys.setprofile(see)
            act()
        except KeyboardInterrupt:
            os._exit(INTERRUPTED)
        finally:
            sys.setprofile(None)

    code = code_of(in_child(run))
    assert code in (0, INTERRUPTED)
    return code == INTERRUPTED


def test_a_process_may_be_interrupted_at_any_moment(scene: Scene) -> None:
    call = 1
    while is_interrupted_at(call, lambda: scene.hold().release()):
        scene.places.recover()
        assert scene.added == [], call
        call += STEP
    assert call > 100


def failing(real: Callable[..., object], fails: Callable[[], bool]) -> Callable[..., object]:
    def call(*words: object, **named: object) -> object:
        if fails():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*words, **named)

    return call


@pytest.mark.parametrize("number", range(6))  # the journal, four directories, the journal again
def test_a_full_disk_leaves_nothing_behind(number: int, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.hold().release()
    calls = count()
    for name in ("mkdir", "replace"):
        monkeypatch.setattr(os, name, failing(getattr(os, name), lambda: next(calls) == number))
    with pytest.raises(StateError, match="No space left on device"):
        scene.hold()
    assert (scene.added, scene.places.recover()) == ([], [])
    monkeypatch.undo()
    scene.hold().release()
    assert scene.added == []


def test_a_file_is_made_also_where_the_kernel_knows_no_files_without_a_name(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(os.link, lambda: True))
    with scene.hold() as hold:
        assert hold.held == WANTED
        assert (scene.root / ".git/commondir").read_bytes() == b"../.git\n"
    assert scene.added == []


def test_a_file_that_was_not_finished_is_removed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> None:
        monkeypatch.setattr(os, "link", failing(os.link, lambda: True))
        written = count()
        real = os.write

        def stopping(descriptor: int, data: bytes) -> int:
            if data == b"../.git\n" and next(written) == 1:  # the one without a name comes first
                real(descriptor, data[:3])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(descriptor, data)

        monkeypatch.setattr(os, "write", stopping)
        scene.hold()

    assert code_of(in_child(act)) == -signal.SIGKILL
    assert (scene.root / ".git/commondir").read_bytes() == b"../"
    assert ".git/commondir" in scene.places.recover()
    assert scene.added == []


def test_threads_take_turns_as_well(scene: Scene) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda seed: works(scene, 4, seed), range(16)))
    assert scene.added == []


def works(scene: Scene, turns: int, seed: int) -> None:
    """Hold and release, again and again, and look that every name stands all the while."""
    chance = random.Random(seed)  # noqa: S311 -- a test
    for _ in range(turns):
        wanted = chance.sample(WANTED, chance.randint(0, len(WANTED)))
        wanted = [each for each in wanted if each.path != ".config/fish" or WANTED[1] in wanted]
        with scene.places.hold(wanted) as hold:
            assert not hold.present
            assert not hold.skipped
            for _look in range(chance.randint(1, 4)):
                time.sleep(chance.random() / 500)
                assert {each.path for each in wanted} <= set(scene.added)


def test_two_dozen_hold_at_once(scene: Scene) -> None:
    children = [in_child(lambda seed=seed: works(scene, 8, seed)) for seed in range(24)]  # type: ignore[misc]
    assert [code_of(child) for child in children] == [0] * 24
    assert scene.added == []
    assert not (scene.state / "placeholders.json").exists()


def test_two_dozen_hold_at_once_and_some_are_killed(scene: Scene) -> None:
    chance = random.Random(1)  # noqa: S311 -- a test
    for _round in range(amounts.of(3, 1)):
        children = [in_child(lambda seed=seed: works(scene, 8, seed)) for seed in range(24)]  # type: ignore[misc]
        doomed = chance.sample(children, 12)
        for child in doomed:
            time.sleep(chance.random() / 100)
            os.kill(child, signal.SIGKILL)
        codes = {child: code_of(child) for child in children}
        assert {codes[child] for child in children if child not in doomed} == {0}
        scene.places.recover()
        assert scene.added == []
    assert sorted(path.name for path in scene.state.iterdir() if path.name != "placeholders.json") == [
        "placeholders.lock",
        "placeholders.turn",
    ]


# The private directory


def test_names_are_left_alone_when_the_lock_file_was_removed(scene: Scene) -> None:
    """Whoever holds the old lock cannot be seen any more, and may be in the middle of its work."""
    hold = scene.hold()
    (scene.state / "placeholders.lock").unlink()
    with scene.hold() as second:
        assert second.present == tuple(NAMES)
    assert scene.places.recover() == []
    assert scene.added == NAMES
    hold.release()
    assert scene.added == NAMES


def test_a_turn_that_was_removed_is_made_anew(scene: Scene) -> None:
    with scene.hold():
        (scene.state / "placeholders.turn").unlink()
        scene.hold().release()
    assert scene.added == []


def test_names_are_left_alone_when_the_whole_state_was_removed(scene: Scene) -> None:
    hold = scene.hold()
    for path in scene.state.iterdir():
        path.unlink()
    scene.state.rmdir()
    hold.release()
    assert scene.added == NAMES


JOURNALS = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b"\xff\xfe",
    b'{"lock": 1, "names": []}',
    *(
        b'{"lock": LOCK, "names": [%b]}' % entry
        for entry in (
            b'["../outside", null, null]',
            b'["/etc", null, null]',
            b'["", null, null]',
            b'["a\\u0000b", null, null]',
            b'["main.py", "\\u1234", null]',
            b'["main.py", 5, null]',
            b"[5, null, null]",
            b'["main.py", "pass\\n", [1, 2]]',
            b'["main.py", "pass\\n", ["1", 2, 3]]',
            b'["main.py", "pass\\n", null]',
            b'["main.py", "pass\\n", [1, 33188, 0]]',
            b'["empty", null, null]',
            b'["empty", null, [1, 16877, 0]]'[:-2] + b"1]]",
        )
    ),
]


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda journal: journal[:60].decode("latin-1"))
def test_a_journal_that_is_damaged_or_wrong_removes_nothing(journal: bytes, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir(mode=0o1755)
    (scene.root / "empty").mkdir()
    scene.hold().release()
    lock = str((scene.state / "placeholders.lock").stat().st_ino).encode()
    (scene.state / "placeholders.json").write_bytes(journal.replace(b"LOCK", lock))
    (scene.state / "placeholders.json").chmod(0o600)
    assert scene.places.recover() == []
    with scene.hold() as hold:
        assert hold.held == WANTED
    assert scene.added == ["empty"]
    assert (tmp_path / "outside").exists()


def test_a_journal_says_what_it_lists_and_whose_it_is(scene: Scene) -> None:
    with scene.hold(WANTED[4]):
        tree = json.loads((scene.state / "placeholders.json").read_bytes())
        made = (scene.root / ".git/commondir").stat()
        assert tree == {
            "lock": (scene.state / "placeholders.lock").stat().st_ino,
            "names": [[".git/commondir", "../.git\n", [made.st_ino, made.st_mode, made.st_uid]]],
        }


def test_a_state_that_others_can_write_to_is_refused(scene: Scene) -> None:
    scene.state.mkdir()
    scene.state.chmod(0o777)
    with pytest.raises(StateError, match="can be written by others"):
        scene.hold()
    assert scene.added == []


def test_a_lock_that_nobody_lets_go_of_is_said_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    hold = scene.hold()
    monkeypatch.setattr(placeholders, "_LONGEST_WAIT", 0.02)
    with (scene.state / "placeholders.turn").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        with pytest.raises(StateError, match="locked by another process for too long"):
            scene.hold()
        hold.release()
    assert scene.added == NAMES
    assert scene.places.recover() == NAMES


def test_a_child_that_is_forked_in_the_midst_of_a_turn_does_not_keep_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    children: list[int] = []
    mkdir = os.mkdir

    def wait() -> None:
        os.close(write)
        os.read(read, 1)

    def forking(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if not children:
            children.append(in_child(wait))
        mkdir(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", forking)
    monkeypatch.setattr(placeholders, "_LONGEST_WAIT", 5)
    first = scene.hold()
    scene.hold().release()
    os.close(write)
    assert code_of(children[0]) == 0
    os.close(read)
    first.release()
    assert scene.added == []


# Ordinary users, and places that cannot be written to


@pytest.fixture
def reachable() -> Iterator[Scene]:
    """A scene that belongs to an ordinary user: pytest keeps its own directories to itself."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as base:
        Path(base).chmod(0o755)
        scene = Scene(Path(base).resolve())
        scene.state.mkdir(mode=0o700)
        if os.geteuid() == 0:
            for path in (scene.root, scene.root / ".git", scene.state):
                os.chown(path, ORDINARY_USER, ORDINARY_USER)
        yield scene


def as_ordinary_user(act: Callable[[], object]) -> int:
    def become() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(ORDINARY_USER)
            os.setuid(ORDINARY_USER)
        act()

    return code_of(in_child(become))


def test_an_ordinary_user_holds_names_as_well(reachable: Scene) -> None:
    def act() -> None:
        with reachable.hold() as hold:
            assert (hold.held, reachable.added) == (WANTED, NAMES)
        assert reachable.added == []
        killed_while_holding(reachable)
        assert reachable.places.recover() == NAMES

    assert as_ordinary_user(act) == 0


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
def test_whatever_is_masked_the_names_go_again(umask: int, reachable: Scene) -> None:
    def act() -> None:
        os.umask(umask)
        killed_while_holding(reachable)
        assert reachable.places.recover() == NAMES
        with reachable.hold() as hold:
            assert hold.held == WANTED
        assert reachable.added == []

    assert as_ordinary_user(act) == 0


@pytest.mark.parametrize("closed", [".", ".git"])
def test_a_workspace_that_cannot_be_written_to_is_said_so_and_nothing_is_left(closed: str, reachable: Scene) -> None:
    (reachable.root / closed).chmod(0o555)

    def act() -> None:
        with pytest.raises(StateError) as caught:
            reachable.hold()
        name = ".claude" if closed == "." else ".git/commondir"
        assert str(caught.value) == (
            f'"{name}" cannot be held while the sandbox runs: Permission denied\n'
            "  hint: check the permissions there, and the free space on the disk"
        )
        assert (reachable.added, list(reachable.state.glob("*.json"))) == ([], [])

    assert as_ordinary_user(act) == 0


def test_names_that_cannot_be_removed_now_are_removed_later(reachable: Scene) -> None:
    def act() -> None:
        hold = reachable.hold()
        (reachable.root / ".git").chmod(0o555)
        hold.release()
        assert reachable.added == NAMES[4:]
        assert reachable.places.recover() == []
        (reachable.root / ".git").chmod(0o755)
        assert reachable.places.recover() == NAMES[4:]

    assert as_ordinary_user(act) == 0


def test_a_workspace_that_is_gone_is_said_so(scene: Scene) -> None:
    hold = scene.hold()
    scene.root.rename(scene.root.parent / "moved")
    hold.release()
    with pytest.raises(StateError, match="cannot be held"):
        scene.hold()
    (scene.root.parent / "moved").rename(scene.root)
    assert scene.places.recover() == NAMES
