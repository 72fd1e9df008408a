"""`--mount` and `--no-mount` on `run`: the session's mounts with a tool, a mount for one run without."""

from pathlib import Path

import pytest

from command import Done, byleave

POLICY = """
[tools.editor]
source = "local"
runtime = "stdio"

[[tools.editor.access.fs]]
path = "."
read = true
write = true

[[tools.editor.access.fs]]
path = "fork/.env"
external = true
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    base = tmp_path.resolve() / "ws"
    base.mkdir()
    (base.parent / "elsewhere").mkdir()
    (base.parent / "elsewhere" / "f").write_text("found\n")
    (base / "byleave.toml").write_text(POLICY)
    assert byleave("trust", "--yes", cwd=base).code == 0
    return base


def inside(root: Path, *words: str, script: str = "cat fork/f") -> Done:
    return byleave("run", "-q", *words, "--", "/bin/sh", "-c", script, cwd=root)


def test_a_tool_s_mount_needs_consent(root: Path) -> None:
    assert inside(root, "--tool", "editor", "--mount", "editor:fork=../elsewhere").code == 10
    assert not (root / "fork").exists()


def test_a_tool_s_mount_stays_until_it_is_taken_away(root: Path) -> None:
    mounted = inside(root, "--tool", "editor", "--mount", "editor:fork=../elsewhere", "--yes")
    assert (mounted.code, mounted.out) == (0, "found\n"), mounted
    assert inside(root, "--tool", "editor").out == "found\n"
    assert inside(root, "--tool", "editor", "--no-mount=fork").code == 10
    assert inside(root, "--tool", "editor", "--no-mount=fork", "--yes").code != 0
    assert not (root / "fork").is_symlink()


def test_a_denied_name_that_is_missing_in_a_mount_keeps_nothing_from_running(root: Path) -> None:
    words = ("--tool", "editor", "--mount", "editor:fork=../elsewhere:rw", "--yes")
    done = inside(root, *words, script="echo new > fork/new && cat fork/new")
    assert (done.code, done.out) == (0, "new\n"), done


def test_without_a_tool_a_mount_holds_for_one_run_and_asks_nothing(root: Path) -> None:
    assert inside(root, "--mount", "fork=../elsewhere").out == "found\n"
    assert inside(root).code != 0
    assert sorted(path.name for path in root.iterdir()) == ["byleave.toml"]


def test_a_mount_that_makes_no_sense_is_an_error_and_runs_nothing(root: Path) -> None:
    for spec in ("nonsense", "fork=../nowhere", "fork=..", "../out=../elsewhere"):
        assert inside(root, "--mount", spec, script="echo ran > ran").code == 2, spec
    assert not (root / "ran").exists()
