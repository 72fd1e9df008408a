"""What the kernel holds of protected places: those that exist at any depth, git's metadata, byleave's own code."""

import subprocess
import sys
from pathlib import Path

import pytest

from byleave.sandbox.plan.protected_paths import Remembered, protected_below
from command import COMMAND, byleave, environment
from sandbox.without_namespaces import needs_unshare, on_such_a_machine

DEEP = [
    "sub/byleave.toml",
    "sub/.claude/settings.json",
    "sub/.vscode/tasks.json",
    "sub/.git/config",
    "sub/.git/hooks/post-checkout",
    "sub/.git/commondir",
    "sub/.git/config.worktree",
    ".pre-commit-config.yaml",
    ".git/worktrees/w/commondir",
    ".git/worktrees/w/config.worktree",
    ".git/modules/m/config",
    ".git/modules/m/hooks/post-checkout",
    ".git/modules/m/commondir",
    ".git/modules/a/b/config",
    ".git/info/attributes",
    "gitdir/hooks/x",
    "shared/hooks/pre-commit",
    "extra.gitconfig",
    "worktree/.git",
]
OPEN = ["sub/plain", "sub/.git/index", ".git/worktrees/w/index", ".git/modules/m/index", "Makefile", "sub/.gitignore"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    base = tmp_path.resolve() / "ws"
    directories = (
        *("sub/.claude", "sub/.vscode", "sub/.git/hooks", ".git/hooks", ".git/worktrees/w", ".git/info"),
        *(".git/modules/m/hooks", ".git/modules/a/b", "shared/hooks", "gitdir/hooks", "node_modules/x/.vscode"),
    )
    for name in directories:
        (base / name).mkdir(parents=True)
    for name in (
        *("sub/byleave.toml", "sub/.claude/settings.json", "sub/.git/config", ".pre-commit-config.yaml"),
        *(".git/worktrees/w/commondir", ".git/modules/m/config", ".git/modules/a/b/config", ".git/info/attributes"),
        *(".git/HEAD", ".git/modules/m/HEAD", ".git/modules/a/b/HEAD", ".git/worktrees/w/HEAD", "extra.gitconfig"),
    ):
        (base / name).write_text("")
    (base / ".git/config").write_text("[core]\n\thooksPath = shared/hooks\n[include]\n\tpath = ../extra.gitconfig\n")
    (base / "worktree").mkdir()
    (base / "worktree/.git").write_text(f"gitdir: {base}/.git/worktrees/w\n")
    return base


def write(root: Path, *names: str) -> list[str]:
    """Try to write each name inside the sandbox; return those that could be written."""
    make = 'case $name in */*) mkdir -p "${name%/*}" 2>/dev/null;; esac'
    script = f'for name; do {make}; (echo x >> "$name") 2>/dev/null && echo "$name"; done'
    done = byleave("run", "-q", "--", "/bin/sh", "-c", script, "sh", *names, cwd=root)
    assert done.code in (0, 1), done
    return done.out.splitlines()


def test_the_walk_finds_what_exists_at_any_depth_and_what_git_would_obey(root: Path) -> None:
    found = protected_below(str(root))
    assert found.complete
    assert {
        *("sub/byleave.toml", "sub/.claude", "sub/.claude/settings.json", "sub/.vscode", "sub/.git/hooks"),
        *("sub/.git/commondir", ".git/modules/m/commondir", ".git/modules/a/b/config", ".git/worktrees/w/commondir"),
        *(".pre-commit-config.yaml", ".git/info/attributes"),
    } <= set(found.names)
    assert not any("node_modules" in name for name in found.names)


def test_the_walk_ends_when_it_has_seen_enough(root: Path) -> None:
    found = protected_below(str(root), most_found=3)
    assert (len(found.names), found.complete) == (3, False)
    assert not protected_below(str(root), most_entries=5).complete


def test_no_protected_place_that_exists_can_be_written_and_everything_else_can(root: Path) -> None:
    names = [name for name in DEEP if not name.startswith("gitdir/")]
    assert write(root, *names, *OPEN) == OPEN


@needs_unshare
@pytest.mark.parametrize("bwrap", [True, False], ids=["bwrap", "landlock"])
def test_no_protected_place_can_be_written_where_namespaces_are_not_allowed(root: Path, *, bwrap: bool) -> None:
    names = [name for name in DEEP if not name.startswith("gitdir/")]
    script = 'for name; do (echo x >> "$name") 2>/dev/null && echo "$name"; done; true'
    done = subprocess.run(
        [
            *on_such_a_machine(bwrap=bwrap, place=root.parent),
            *COMMAND,
            "run",
            "-q",
            "--",
            "sh",
            "-c",
            script,
            "sh",
            *names,
        ],
        cwd=root,
        env=environment({"BYLEAVE_HOME": str(root.parent / "byleave")}),
        capture_output=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (0, b""), done


def test_a_git_that_is_a_file_protects_the_directory_it_names(root: Path) -> None:
    for path in sorted((root / ".git").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (root / ".git").rmdir()
    (root / ".git").write_text("gitdir: gitdir\n")
    (root / "gitdir/config").write_text("")
    closed = ["gitdir/hooks/x", "gitdir/config", "gitdir/commondir", ".git"]
    assert write(root, *closed, "gitdir/index") == ["gitdir/index"]
    answers = [byleave("check", "update", name, cwd=root).code for name in closed]
    assert answers == [10, 10, 10, 10]


def test_a_root_without_a_repository_does_not_become_a_bare_one(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    assert write(root, "HEAD", "refs/x", "objects/x") == ["refs/x", "objects/x"]
    assert not (root / "HEAD").exists()


BARE = """\
rm -f .git/HEAD
mkdir -p refs objects hooks elsewhere/refs elsewhere/objects
echo "ref: refs/heads/main" > HEAD
printf '[core]\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = "touch run-by-git; false"\\n' > config
cp config elsewhere
rmdir commondir
echo elsewhere > commondir
echo done
"""


@pytest.mark.parametrize("there", [(), ("refs",), ("refs", "objects")])
def test_a_root_with_a_repository_does_not_become_a_bare_one_when_that_is_broken(
    tmp_path: Path, there: tuple[str, ...]
) -> None:
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    for name in there:
        (root / name).mkdir()
        (root / name / "x").write_text("")
    words = [*COMMAND, "run", "-q", "--", "/bin/sh", "-c", f"{BARE} read x"]
    with subprocess.Popen(
        words, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment({})
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False)  # while it runs
        process.communicate(b"\n")
    subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False)
    assert not (root / ".git/HEAD").exists()
    assert not (root / "run-by-git").exists()
    assert not (root / "commondir").exists()


def test_the_parts_that_are_kept_free_do_not_get_in_the_way_of_git(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
    identity = "git -c user.name=n -c user.email=n@example.org"
    script = f"echo a > f; git add -A; {identity} commit -qm 1; echo b > f; git diff --stat HEAD; git status --short"
    done = byleave("run", "-q", "--", "/bin/sh", "-euc", script, cwd=root)
    assert (done.code, done.out.splitlines()[0], done.out.splitlines()[-1]) == (0, " f | 2 +-", " M f"), done


def test_what_an_included_configuration_of_git_starts_is_not_exchanged(root: Path) -> None:
    (root / "extra.gitconfig").write_text('[filter "x"]\n\tclean = tools/clean.sh\n')
    (root / "tools").mkdir()
    (root / "tools/clean.sh").write_text("")
    assert write(root, "tools/clean.sh", "tools/other.sh") == ["tools/other.sh"]


def test_a_directory_of_programs_that_path_names_from_here_is_not_exchanged(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "ws"
    (root / "tools").mkdir(parents=True)
    done = byleave(
        "run", "-q", "--", "/bin/sh", "-c", "echo x > tools/git", cwd=root, env={"PATH": "./tools:/usr/bin:/bin"}
    )
    assert done.code != 0
    assert (
        byleave("run", "-q", "--", "/bin/sh", "-c", "echo x > f", cwd=root, env={"PATH": ".::/usr/bin:/bin"}).code == 0
    )


def test_the_metadata_of_a_bare_repository_at_the_root_is_protected(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "ws"
    for name in ("objects", "refs", "hooks"):
        (root / name).mkdir(parents=True)
    for name in ("HEAD", "config"):
        (root / name).write_text("")
    assert write(root, "config", "hooks/x", "commondir", "refs/x") == ["refs/x"]


def test_programs_that_path_finds_in_the_workspace_are_not_exchanged_unless_a_rule_names_them(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "ws"
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/pyvenv.cfg").write_text("")
    (root / ".venv/bin/tool").write_text("#!/bin/sh\n")
    env = {"PATH": f"{root}/.venv/bin:/usr/bin:/bin"}
    access = root.parent / "access.toml"
    tries = ["run", "-q", "--access", str(access), "--", "/bin/sh", "-c", "echo x >> .venv/bin/tool"]
    whole = '[[access.fs]]\npath = "."\nread = true\nwrite = true\nexecute = true\n'
    access.write_text(whole)
    closed = byleave(*tries, cwd=root, env=env).code
    access.write_text(whole + whole.replace('"."', '".venv"'))
    named = byleave(*tries, cwd=root, env=env).code
    assert (closed != 0, named) == (True, 0)


def test_a_directory_of_programs_in_what_every_sandbox_may_write_stays_as_it_is(tmp_path: Path) -> None:
    root, home = tmp_path.resolve() / "ws", tmp_path.resolve() / "home"
    root.mkdir()
    (home / ".cargo/bin").mkdir(parents=True)
    (home / ".cargo/bin/cargo").write_text("")
    (home / ".cargo/config.toml").write_text("")
    (home / ".config/byleave").mkdir(parents=True, mode=0o700)
    config = home / ".config/byleave/config.toml"
    no_homes = dict.fromkeys(("BYLEAVE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"))
    env = {**no_homes, "HOME": str(home), "PATH": f"{home}/.cargo/bin:/usr/bin:/bin"}
    each = "for f in bin/cargo bin/new config.toml registry; do (echo x >> $f) 2>/dev/null && echo $f; done; true"
    script = f"cd {home}/.cargo && {each}"

    def written() -> list[str]:
        done = byleave("run", "-q", "--", "/bin/sh", "-c", script, cwd=root, env=env)
        assert done.code == 0, done
        return done.out.splitlines()

    config.write_text('[sandbox]\nwrite = ["~/.cargo"]\n')
    config.chmod(0o600)
    recipe = written()
    config.write_text('[sandbox]\nwrite = ["~/.cargo", "~/.cargo/bin"]\n')
    assert (recipe, written()) == (["registry"], ["bin/cargo", "bin/new", "registry"])


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="byleave is not installed in a virtual environment here")
def test_byleaves_own_code_is_final_where_its_environment_lies_in_the_workspace(tmp_path: Path) -> None:
    prefix = Path(sys.prefix)
    packages = next(path for path in (prefix / "lib").glob("python*/site-packages"))
    names = [
        "pyvenv.cfg",
        f"bin/{Path(sys.executable).name}",
        "bin/byleave",
        str(next(packages.glob("*byleave*.pth")).relative_to(prefix)),
        str((packages / "msgspec/__init__.py").relative_to(prefix)),
        str(next(packages.glob("byleave-*.dist-info")).relative_to(prefix) / "RECORD"),
    ]
    env = {"BYLEAVE_HOME": str(tmp_path / "home")}
    tried = [byleave("--root", str(prefix), "check", "update", name, env=env) for name in names]
    assert [(done.code, "no rule allows that" in done.out) for done in tried] == [(20, True)] * len(names), tried
    new = byleave("--root", str(prefix), "check", "create", str((packages / "evil.pth").relative_to(prefix)), env=env)
    assert new.code == 10
    above = str(
        prefix.parent
    )  # of an environment in a workspace all is kept: links such as lib64 decide what is loaded
    for name in ("lib64", "new", "lib/new"):
        assert byleave("--root", above, "check", "create", f"{prefix.name}/{name}", env=env).code == 10, name


def test_a_directory_with_very_many_names_is_not_read_to_its_end(root: Path) -> None:
    for number in range(300):
        (root / f"file{number}").write_text("")
    assert not protected_below(str(root), most_entries=100).complete
    assert protected_below(str(root), most_entries=1000).complete


def test_what_was_found_once_is_not_hidden_by_filling_the_workspace(root: Path) -> None:
    state = str(root.parent / "state/protected-names")
    Remembered(str(root), state)(str(root))
    for number in range(300):
        (root / f"file{number}").write_text("")
    flooded = Remembered(str(root), state, lambda directory: protected_below(directory, most_entries=100))(str(root))
    assert not flooded.complete
    assert {"sub/.vscode", ".git/modules/m/config", "worktree/.git"} <= set(flooded.names)
