"""Confined commands find the toolchains below the home directory, and write to nothing but a cache of their own."""

from pathlib import Path

import pytest

from command import Done, byleave

TOOL = '#!/bin/sh\necho "ran $(basename "$0") of $(basename "$(dirname "$(dirname "$0")")")"\n'
LOOK = """\
import os

for top, inner, names in os.walk("/"):
    inner[:] = [name for name in inner if top != "/" or name not in ("proc", "sys", "usr", "dev", "etc")]
    inner[:] = [name for name in inner if name != "lib" or "/versions/" not in top]  # a library has no secrets of ours
    for name in names:
        try:
            file = os.open(os.path.join(top, name), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if b"canary-" + b"in-a-secret" in os.read(file, 1000):
                print("found", os.path.join(top, name))
        except OSError:
            pass
        os.close(file)
for directory in os.environ["PATH"].split(":"):
    try:
        open(os.path.join(directory, "planted"), "w").close()
        print("writable", directory)
    except OSError:
        pass
print("looked")
"""
SECRETS = (".npmrc", ".cargo/credentials.toml", ".m2/settings.xml", ".ssh/id_rsa", ".nvm/versions/node/v1/etc/npmrc")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("canary-in-a-secret")
    for name in (".nvm/versions/node/v1/bin/node-tool", ".pyenv/shims/py-tool", ".local/bin/own-tool"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(TOOL)
        (home / name).chmod(0o755)
    root = tmp_path / "root"
    root.mkdir()
    (root / "Makefile").write_text("all:\n\t@node-tool\n\t@sh -c py-tool\n\t@own-tool\n")
    (root / "package.json").write_text("{}")
    (root / "byleave.toml").write_text("[shell]\n")
    (root / "look.py").write_text(LOOK)
    return tmp_path.resolve()


def run(place: Path, text: str, root: str = "root") -> Done:
    home = place / "home"
    search = f"{home}/.nvm/versions/node/v1/bin:{home}/.pyenv/shims:{home}/.local/bin:/usr/local/bin:/usr/bin:/bin"
    env = {"HOME": str(home), "PATH": search, "BYLEAVE_HOME": str(place / "state")}
    return byleave("run", "--root", str(place / root), "--shell", text, cwd=place / root, env=env)


def test_programs_below_the_home_directory_work_through_make_and_sh(place: Path) -> None:
    done = run(place, "make; sh -c 'exec node-tool'; ~/.pyenv/shims/py-tool")
    expected = ["ran node-tool of v1", "ran py-tool of .pyenv", "ran own-tool of .local"]
    assert done.out.splitlines() == [*expected, expected[0], expected[1]], done.err


def test_programs_are_found_through_a_link_to_where_they_were_moved(place: Path) -> None:
    (place / "home/.nvm").rename(place / "nvm")
    (place / "home/.nvm").symlink_to(place / "nvm")
    done = run(place, "node-tool; ~/.nvm/versions/node/v1/bin/node-tool; ls ~/.nvm")
    assert done.out.splitlines() == ["ran node-tool of v1", "ran node-tool of v1", "versions"], done.err


def test_no_secret_is_found_and_nothing_on_path_is_written(place: Path) -> None:
    (place / "root/shown").write_text("canary-in-a-secret")
    done = run(place, "/usr/bin/python3 look.py")
    assert done.out == f"found {place}/root/shown\nlooked\n", done.err


def test_a_cache_is_kept_for_the_next_run_of_this_workspace_alone(place: Path) -> None:
    (place / "other").mkdir()
    (place / "other/package.json").write_text("{}")
    write = 'mkdir -p "$npm_config_cache" && echo kept > "$npm_config_cache/x"'
    read = 'cat "$npm_config_cache/x" 2>/dev/null || echo none'
    assert run(place, write).code == 0
    assert run(place, read).out == "kept\n"
    assert run(place, read, "other").out == "none\n"
    assert not (place / "home/.npm").exists()


@pytest.mark.parametrize("around", ["home", "."])
def test_a_workspace_that_is_or_holds_the_home_directory_works(around: str, place: Path) -> None:
    done = run(place, "echo x > made && rm made && own-tool && touch home-x .local/bin/planted 2>/dev/null; ls", around)
    assert "ran own-tool of .local" in done.out, done.err
    assert not (place / "home/.local/bin/planted").exists()
