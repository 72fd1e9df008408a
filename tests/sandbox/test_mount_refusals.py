"""`--mount` for one run refuses what `byleave mount` refuses: byleave's own files, and settings of hooks."""

from pathlib import Path

import pytest

from command import byleave

NO_HOMES = dict.fromkeys(("BYLEAVE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"))
REFUSED = [
    "fork=$HOME/.claude",
    "fork=$HOME/.claude:rw",
    "fork=$HOME/.claude/settings.json:rw",
    "fork=$HOME/.config/byleave:ro",
    "fork=$HOME",
    "fork=$OTHER/.byleave:rw",
    "fork=$OTHER/byleave.toml:rw",
    ".byleave=$OTHER:rw",
    "sub/.claude/settings.json=$OTHER/f",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    base = tmp_path.resolve() / "ws"
    (base / "sub").mkdir(parents=True)
    other = tmp_path.resolve() / "other"
    (other / ".byleave").mkdir(parents=True)
    (other / "byleave.toml").write_text("")
    (other / "f").write_text("found\n")
    home = tmp_path.resolve() / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_text("{}")
    (home / ".config/byleave").mkdir(parents=True, mode=0o700)
    return base


@pytest.mark.parametrize("command", ["run", "acp --sandbox"])
@pytest.mark.parametrize("spec", REFUSED)
def test_what_steers_byleave_and_the_agents_is_not_mounted_for_a_run(spec: str, command: str, root: Path) -> None:
    home = str(root.parent / "home")
    text = spec.replace("$HOME", home).replace("$OTHER", str(root.parent / "other"))
    done = byleave(*command.split(), "--mount", text, "--", "/bin/true", cwd=root, env={**NO_HOMES, "HOME": home})
    assert done.code == 2, done
    assert "reaches" in done.err or "would change" in done.err


@pytest.mark.parametrize("path", ["/proc", "/proc/self/fd", "/sys/kernel", "/dev", "/dev/shm"])
def test_what_the_kernel_shows_of_the_machine_is_not_mounted(path: str, root: Path) -> None:
    done = byleave("run", "--mount", f"fork={path}", "--", "/bin/true", cwd=root)
    assert done.code == 2
    assert "which is the kernel's" in done.err


def test_another_directory_is_mounted_for_a_run(root: Path) -> None:
    done = byleave("run", "-q", "--mount", "fork=../other:ro", "--", "cat", "fork/f", cwd=root)
    assert (done.code, done.out) == (0, "found\n"), done
