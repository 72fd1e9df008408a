"""After a run, it is said what changed that other programs run by themselves later."""

import os
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest

from amounts import some
from byleave.core.protected import Protected
from byleave.sandbox.tamper_check import TamperReport, find_appeared, start_time
from command import COMMAND, Done, environment
from sandbox.machine import needs_sandbox


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "ws"
    made.mkdir()
    return made


def run(root: Path, script: str, *flags: str) -> Done:
    home = {"BYLEAVE_HOME": str(root.parent / "byleave"), "HOME": str(root.parent / "home")}
    done = subprocess.run(
        [*COMMAND, "run", *flags, "--", "sh", "-c", script],
        cwd=root,
        env=environment(home),
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def found(root: Path, since: float = 0.0, **bounds: float) -> TamperReport:
    return find_appeared(str(root), since, Protected([]), could_write=lambda _path: True, **bounds)  # type: ignore[arg-type]


TOLD = "byleave: warning: while it ran, files changed that other programs run or obey by themselves: {}; look at them\n"


@needs_sandbox
def test_a_run_tells_what_appeared(root: Path) -> None:
    script = (
        "git init -q sub && mkdir -p a/.vscode && echo > a/.vscode/tasks.json && echo > a/.envrc && echo > Makefile"
    )
    told = run(root, script)
    assert (told.code, told.out, told.err) == (0, "", TOLD.format("a/.envrc, a/.vscode and sub/.git"))


@needs_sandbox
def test_a_run_that_leaves_nothing_such_tells_nothing(root: Path) -> None:
    make(root, "old/.envrc", "old/.git/config")
    told = run(root, "echo > Makefile; mkdir src; echo > src/conftest.py; echo > old/.git/index; cat old/.envrc")
    assert (told.code, told.err) == (0, "")


@needs_sandbox
def test_a_run_tells_what_was_made_whatever_its_time_says(root: Path) -> None:
    told = run(root, "mkdir a; echo evil > a/.envrc; touch -d 2001-01-01 a/.envrc a")
    assert told.err == TOLD.format("a/.envrc")


@needs_sandbox
def test_the_code_of_the_program_stays(root: Path) -> None:
    told = run(root, "mkdir a; echo > a/.npmrc; exit 7")
    assert (told.code, told.err) == (7, TOLD.format("a/.npmrc"))


@needs_sandbox
def test_a_quiet_run_tells_nothing(root: Path) -> None:
    assert run(root, "mkdir a; echo > a/.npmrc", "-q").err == ""


NAMED = [
    ("a repository", ["sub/.git/HEAD", "sub/.git/config"], ["sub/.git"]),
    ("a hook of a repository", ["sub/.git/hooks/pre-commit"], ["sub/.git"]),
    ("a file that names a repository", ["sub/.git"], ["sub/.git"]),
    ("a repository with another name", ["bare/HEAD", "bare/config", "bare/objects/x", "bare/refs/x"], ["bare"]),
    ("a repository without a configuration", ["bare/HEAD", "bare/hooks/x", "bare/objects/x", "bare/refs/x"], ["bare"]),
    ("a repository that is elsewhere", ["bare/HEAD", "bare/commondir"], ["bare"]),
    ("the root itself", ["HEAD", "config", "objects/x", "refs/x"], ["HEAD"]),
    ("a rebase to be continued", ["a/.git/rebase-merge/git-rebase-todo"], ["a/.git/rebase-merge/git-rebase-todo"]),
    ("an editor's tasks", ["a/.vscode/tasks.json", "b/.idea/workspace.xml"], ["a/.vscode", "b/.idea"]),
    ("what a shell reads", ["a/.envrc", "a/.bashrc", "a/.zshenv"], ["a/.bashrc", "a/.envrc", "a/.zshenv"]),
    ("a package manager's settings", ["a/.npmrc", "a/.yarnrc.yml"], ["a/.npmrc", "a/.yarnrc.yml"]),
    (
        "hooks of git, by other programs",
        [".pre-commit-config.yaml", "a/.husky/pre-push"],
        [".pre-commit-config.yaml", "a/.husky"],
    ),
    (
        "configuration of byleave below the root",
        ["a/byleave.toml", "b/.byleave/config.toml"],
        ["a/byleave.toml", "b/.byleave"],
    ),
    ("what Python loads at its start", ["a/sitecustomize.py"], ["a/sitecustomize.py"]),
    ("what Python loads from an environment", ["v/site-packages/x.pth", "x.pth"], ["v/site-packages/x.pth"]),
    ("a name in another case", ["a/.EnvRC"], ["a/.EnvRC"]),
    ("what runs only when it is asked for", ["Makefile", "package.json", "conftest.py", "a/.git/index"], []),
    ("what packages bring along", ["node_modules/x/.npmrc", "node_modules/x/.vscode/y"], []),
]


@pytest.mark.parametrize(("names", "expected"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_finds_what_other_programs_run(root: Path, names: list[str], expected: list[str]) -> None:
    make(root, *names)
    assert found(root) == TamperReport(tuple(expected))


def test_only_what_changed_since_then_counts(root: Path) -> None:
    make(root, "a/.envrc")
    assert found(root, since=os.lstat(root / "a/.envrc").st_ctime + 1) == TamperReport(())


def test_a_hook_of_a_bare_repository_that_was_changed_in_place_counts(root: Path) -> None:
    make(root, "bare/HEAD", "bare/config", "bare/hooks/update", "bare/objects/x", "bare/refs/x")
    time.sleep(0.05)
    since = start_time()
    time.sleep(0.05)
    assert found(root, since) == TamperReport(())
    (root / "bare/hooks/update").write_text("changed")
    assert found(root, since) == TamperReport(("bare",))


def test_what_was_changed_right_after_the_start_counts(root: Path) -> None:
    since = start_time()
    make(root, "a/.envrc")
    assert found(root, since) == TamperReport(("a/.envrc",))


def test_where_nothing_could_be_written_nothing_is_told(root: Path) -> None:
    make(root, ".claude/settings.json")
    assert find_appeared(str(root), 0.0, Protected([]), could_write=lambda _path: False) == TamperReport(())


def test_what_was_held_is_not_entered(root: Path) -> None:
    make(root, ".claude/settings.json", ".vscode/tasks.json")
    held = {f"{root}/.claude"}
    told = find_appeared(str(root), 0.0, Protected([]), could_write=lambda path: path not in held, held=held)
    assert told == TamperReport((".vscode",))


def test_a_walk_that_is_cut_short_says_so(root: Path) -> None:
    make(root, ".envrc", *[f"a/{number}" for number in range(30)])
    assert (found(root, most_entries=20), found(root, seconds=-1.0)) == (
        TamperReport((".envrc",), complete=False),
        TamperReport((), complete=False),
    )


LINKED = """
git init -q node_modules/x && cd node_modules/x && git -c user.name=x -c user.email=x commit -q --allow-empty -m x
made=$(git rev-parse HEAD) && cd ../..
git update-index --index-version {version} --add --cacheinfo "160000,$made,node_modules/x"
"""


@needs_sandbox
@pytest.mark.parametrize(("kind", "version"), some(list(product(("sha1", "sha256"), (2, 3, 4))), every=2))
def test_a_repository_that_git_enters_from_the_root_is_named_wherever_it_is(
    root: Path, kind: str, version: int
) -> None:
    """A plain `git status` in the root runs what its configuration names, ignored or not."""
    subprocess.run(["git", "init", "-q", f"--object-format={kind}"], cwd=root, check=True)
    make(root, ".gitignore", *(f"a/{'long' * number}x" for number in range(40)))
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    script = LINKED.format(version=version).replace("git init -q", f"git init -q --object-format={kind}")
    assert run(root, script).err == TOLD.format("node_modules/x/.git")
    assert run(root, "git status").err == ""
    assert run(root, "git -C node_modules/x config core.fsmonitor ./x").err == TOLD.format("node_modules/x/.git")


@needs_sandbox
def test_a_repository_behind_a_pointer_that_git_enters_is_named(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    script = LINKED.format(version=2) + "mv node_modules/x/.git node_modules/y; echo gitdir: ../y > node_modules/x/.git"
    assert run(root, script).err == TOLD.format("node_modules/x/.git")
    assert run(root, "echo >> node_modules/y/config").err == TOLD.format("node_modules/x/.git")


@needs_sandbox
def test_an_index_that_links_and_cannot_be_read_is_named(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    script = "printf 'DIRC\\0\\0\\0\\7\\0\\0\\340\\0' > .git/index"
    assert run(root, script).err == TOLD.format(".git/index")
    assert run(root, "truncate -s 80M .git/index").err == TOLD.format(".git/index")
    assert run(root, "true").err == ""
