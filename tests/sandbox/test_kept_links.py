"""Links that decide where a protected or closed name leads: nobody inside removes, renames or replaces them."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

import pytest

from command import COMMAND, Done, byleave, environment
from sandbox.machine import NO_PERSON, access_file, as_nobody, inside, needs_sandbox
from sandbox.without_namespaces import needs_bwrap, needs_unshare, on_such_a_machine

PROTECTED = {
    ".git": "store/git",
    ".vscode": "conf/vscode",
    ".claude": "conf/claude",
    ".envrc": "conf/envrc",
    "byleave.toml": "conf/policy.toml",
    "sub/.envrc": "../conf/envrc",
    "sub/.vscode": "../conf/vscode",
    "sub/byleave.toml": "../conf/policy.toml",
}
REPLACE = """\
for name; do
  mkdir -p other
  rm "$name" && echo "removed $name"
  mv "$name" "$name.moved" && echo "moved $name"
  ln -sfn other "$name" && echo "turned $name"
  ln -s other instead 2>/dev/null; mv -T instead "$name" && echo "replaced $name"
done 2>/dev/null
true
"""


def fill(base: Path) -> Path:
    for name in ("store/git/hooks", "store/git/objects", "store/git/refs", "conf/vscode", "conf/claude", "sub"):
        (base / name).mkdir(parents=True)
    (base / "store/git/HEAD").write_text("ref: refs/heads/main\n")
    (base / "store/git/config").write_text("[core]\n\trepositoryformatversion = 0\n")
    (base / "conf/envrc").write_text("an envrc\n")
    (base / "conf/policy.toml").write_text('[[rules]]\ndeny = { path = "closed" }\n')
    for name, target in PROTECTED.items():
        (base / name).symlink_to(target)
    return base


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fill(tmp_path.resolve() / "ws")


def run(words: list[str], *, cwd: Path, env: Mapping[str, str]) -> Done:
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=120)
    return Done(done.returncode, done.stdout, done.stderr)


def replaced(done: Done) -> list[str]:
    assert done.code == 0, done
    return done.out.splitlines()


def links(root: Path) -> dict[str, str | None]:
    return {name: os.readlink(root / name) if (root / name).is_symlink() else None for name in PROTECTED}


@needs_sandbox
def test_a_link_at_a_protected_name_stays_where_it_leads(root: Path) -> None:
    done = inside(root, "/bin/sh", "-c", REPLACE, "sh", *PROTECTED)
    assert replaced(done) == []
    assert links(root) == PROTECTED


@needs_sandbox
def test_it_stays_for_an_ordinary_user() -> None:
    place = Path(tempfile.mkdtemp(prefix="byleave-test-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        words, variables = as_nobody(place / "home")
        root = fill(place / "ws")
        for directory, names, files in os.walk(root):
            for name in (".", *names, *files):
                os.chown(Path(directory) / name, NO_PERSON, NO_PERSON, follow_symlinks=False)
        start = [*words, "-m", "byleave", "run", "-q", "--root", str(root), "--", "/bin/sh", "-c", REPLACE, "sh"]
        assert replaced(run([*start, *PROTECTED], env=variables, cwd=root)) == []
        assert links(root) == PROTECTED
    finally:
        shutil.rmtree(place)


@needs_sandbox
def test_such_a_link_can_still_be_followed(root: Path) -> None:
    done = inside(root, "/bin/sh", "-c", "cat .envrc sub/.envrc; readlink .git; cat .git/HEAD; ls sub/.vscode")
    assert done.out == "an envrc\nan envrc\nstore/git\nref: refs/heads/main\n"


@needs_sandbox
def test_an_ordinary_link_is_an_ordinary_name(root: Path) -> None:
    (root / "sub/plain").symlink_to("../conf")
    (root / "latest").symlink_to("sub")
    done = inside(root, "/bin/sh", "-c", REPLACE, "sh", "sub/plain", "latest")
    assert "removed sub/plain" in replaced(done)
    assert "removed latest" in replaced(done)


@needs_sandbox
def test_a_link_on_the_way_to_a_directory_of_programs_stays(root: Path) -> None:
    (root / "tools/bin").mkdir(parents=True)
    (root / "current").symlink_to("tools")
    path = f"{root}/current/bin:{os.environ['PATH']}"
    done = inside(root, "/bin/sh", "-c", REPLACE, "sh", "current", env={"PATH": path})
    assert replaced(done) == []


@needs_sandbox
def test_a_link_on_the_way_to_what_a_rule_closes_stays(root: Path) -> None:
    (root / "vault").mkdir()
    (root / "vault/key").write_text("secret")
    (root / "way").symlink_to("vault")
    text = '[[access.fs]]\npath = "."\nread = true\nwrite = true\n[[access.fs]]\npath = "way/key"\n'
    options = access_file(root.parent, text)
    assert replaced(inside(root, "/bin/sh", "-c", REPLACE, "sh", "way", options=options)) == []
    assert inside(root, "cat", "vault/key", options=options).code != 0


@needs_sandbox
def test_a_link_in_front_of_a_pattern_that_closes_something_stays(root: Path) -> None:
    (root / "vault/deep").mkdir(parents=True)
    (root / "vault/deep/a.key").write_text("secret")
    (root / "way").symlink_to("vault")
    (root / "conf/policy.toml").write_text('[[rules]]\ndeny = { path = "way/**/*.key" }\n')
    assert replaced(inside(root, "/bin/sh", "-c", REPLACE, "sh", "way")) == []
    assert inside(root, "cat", "vault/deep/a.key").code != 0


@needs_sandbox
def test_a_link_behind_a_link_stays_at_its_own_place(root: Path) -> None:
    (root / "vault/deep").mkdir(parents=True)
    (root / "vault/deep/key").write_text("secret")
    (root / "vault/inner").symlink_to("deep")
    (root / "way").symlink_to("vault")
    (root / "conf/vscode/tasks.json").write_text("{}")
    (root / "store/git/hooks").rmdir()
    (root / "store/hooks").mkdir()
    (root / "store/git/hooks").symlink_to("../hooks")  # behind .git, which is one
    text = '[[access.fs]]\npath = "."\nread = true\nwrite = true\n[[access.fs]]\npath = "way/inner/key"\n'
    options = access_file(root.parent, text)
    names = ("way", "vault/inner", "store/git/hooks", ".git")
    assert replaced(inside(root, "/bin/sh", "-c", REPLACE, "sh", *names, options=options)) == []


@needs_sandbox
def test_links_in_what_every_sandbox_may_write_and_in_mounts_stay(root: Path, tmp_path: Path) -> None:
    other = tmp_path.resolve() / "other"
    (other / "real/hooks").mkdir(parents=True)
    (other / ".git").symlink_to("real")
    done = inside(root, "/bin/sh", "-c", REPLACE, "sh", "fork/.git", options=["--mount", f"fork={other}:rw"])
    assert replaced(done) == []
    home = tmp_path / "home"
    (home / ".config/byleave").mkdir(parents=True)
    (home / ".config/byleave/config.toml").write_text(f'[sandbox]\nwrite = ["{other}"]\n')
    variables = {"HOME": str(home), "BYLEAVE_HOME": None}
    done = inside(root, "/bin/sh", "-c", REPLACE, "sh", f"{other}/.git", env=variables)
    assert replaced(done) == []
    assert os.readlink(other / ".git") == "real"


@needs_sandbox
def test_what_somebody_outside_puts_in_its_place_is_held_too(root: Path) -> None:
    script = "echo ready; read x; rm .envrc && echo removed; echo mine > .envrc && echo written; cat .envrc"
    words = [*COMMAND, "run", "--root", str(root), "--no-input", "--", "/bin/sh", "-c", script]
    with subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=root, env=environment({})) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"ready\n"
        (root / "new").write_text("new")
        (root / "new").rename(root / ".envrc")
        time.sleep(0.5)
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b"new"


@needs_unshare
def test_landlock_alone_keeps_them_as_well(root: Path, tmp_path: Path) -> None:
    start = on_such_a_machine(bwrap=False, place=tmp_path)
    words = [*start, *COMMAND, "run", "-q", "--root", str(root), "--", "/bin/sh", "-c", REPLACE, "sh", *PROTECTED]
    assert replaced(run(words, env=environment({}), cwd=root)) == []
    assert links(root) == PROTECTED


@needs_unshare
@needs_bwrap
def test_bwrap_says_which_links_it_does_not_keep(root: Path, tmp_path: Path) -> None:
    start = on_such_a_machine(bwrap=True, place=tmp_path)
    words = [*start, *COMMAND, "run", "-q", "--root", str(root), "--explain", "--json", "--", "true"]
    plan = json.loads(run(words, env=environment({}), cwd=root).out)
    said = {each["path"] for each in plan["approximate"] if "bwrap mounts nothing on a link" in each["why"]}
    assert said >= set(PROTECTED)
    with_namespaces = json.loads(byleave("run", "--root", str(root), "--explain", "--json", "--", "true", cwd=root).out)
    assert not [each for each in with_namespaces["approximate"] if "link" in each["why"]]
