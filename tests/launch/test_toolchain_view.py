"""What a confined run sees of toolchains: programs to read, one directory of its own to write, variables and PATH."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from byleave.errors import StateError
from byleave.launch.link_farm import LinkFarm
from byleave.launch.toolchain_view import ToolchainView, toolchain_view

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def make(top: Path, *names: str) -> None:
    for name in names:
        path = top / name.rstrip("/")
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text("x")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make(tmp_path, "root/", "home/")
    (tmp_path / "cache").mkdir(mode=0o700)
    return tmp_path.resolve()


def view(place: Path, search: str = SYSTEM, environ: Mapping[str, str] | None = None) -> ToolchainView:
    variables = {"PATH": search, **(environ or {})}
    return toolchain_view(f"{place}/root", f"{place}/home", variables, f"{place}/cache")


def test_one_private_directory_of_our_own_is_written_to(place: Path) -> None:
    make(place / "root", "package.json", "pyproject.toml", "Cargo.toml", "go.mod", "build.gradle", "composer.json")
    make(place / "home", ".npm/_cacache/x", ".cargo/registry/x", "go/pkg/mod/x")
    found = view(place)
    (lent,) = found.lent
    assert lent.startswith(f"{place}/cache/toolchains/")
    assert stat.S_IMODE(os.stat(lent).st_mode) == 0o700
    caches = ("npm_config_cache", "UV_CACHE_DIR", "PIP_CACHE_DIR", "CARGO_HOME", "GOCACHE", "GOMODCACHE", "GOPATH")
    for name in (*caches, "GRADLE_USER_HOME", "COMPOSER_HOME", "COMPOSER_CACHE_DIR", "XDG_CACHE_HOME"):
        assert found.variables[name].startswith(f"{lent}/"), name
    assert not any(entry.startswith(lent) for entry in found.path.split(":"))
    assert view(place) == found


def test_two_workspaces_share_no_cache(place: Path) -> None:
    make(place, "other/")
    other = toolchain_view(f"{place}/other", f"{place}/home", {}, f"{place}/cache")
    assert set(other.lent).isdisjoint(view(place).lent)


def test_a_cache_directory_that_others_can_write_to_is_refused(place: Path) -> None:
    make(place / "cache", "toolchains/")
    for name in view(place).lent:
        os.chmod(name, 0o777)  # noqa: S103 -- this is what is refused
    with pytest.raises(StateError):
        view(place)


def test_path_holds_what_is_there_inside_in_the_same_order(place: Path) -> None:
    make(place / "home", ".nvm/versions/node/v1/bin/node", "tools/x/bin/p", "tools/x/lib/l", "notes/p", ".ssh/bin/k")
    make(place / "root", ".venv/bin/python", ".venv/pyvenv.cfg")
    make(place / "cache", "bin/evil")
    home, root = place / "home", place / "root"
    outside = [f"{root}/.venv/bin", f"{home}/.nvm/versions/node/v1/bin", f"{home}/tools/x/bin", "/usr/bin"]
    dropped = [".", "", "bin", f"{home}/notes", f"{home}/.ssh/bin", f"{place}/cache/bin", f"{home}/gone/bin", str(home)]
    found = view(place, ":".join([*dropped, *outside]))
    assert found.path.split(":") == outside
    names = sorted(os.path.relpath(path, home) for path in found.shown)
    assert names == [".nvm/versions/node", "tools/x/bin", "tools/x/lib"]


def test_an_empty_path_becomes_the_systems_own(place: Path) -> None:
    assert view(place, "").path == SYSTEM


def test_a_directory_of_programs_behind_a_link_is_named_by_where_it_is(place: Path) -> None:
    make(place / "home", ".local/share/fnm/node-versions/v1/installation/bin/node")
    make(place, "run/")
    (place / "run/shell-1").symlink_to(place / "home/.local/share/fnm/node-versions/v1/installation")
    found = view(place, f"{place}/run/shell-1/bin:/bin")
    assert found.path == f"{place}/home/.local/share/fnm/node-versions/v1/installation/bin:/bin"


def test_variables_that_name_what_is_there_are_passed_on_and_others_are_not(place: Path) -> None:
    make(place / "home", "jdk/bin/java", "jdk/lib/x", ".ssh/bin/java")
    make(place / "root", ".venv/bin/python")
    given = {"VIRTUAL_ENV": f"{place}/root/.venv", "JAVA_HOME": f"{place}/home/jdk", "RUSTUP_TOOLCHAIN": "nightly"}
    found = view(place, SYSTEM, {**given, "GOROOT": f"{place}/home/.ssh", "NPM_TOKEN": "s", "CONDA_PREFIX": "rel"})
    assert {name: found.variables.get(name) for name in given} == given
    assert not found.variables.keys() & {"GOROOT", "NPM_TOKEN", "CONDA_PREFIX"}
    assert f"{place}/home/jdk/lib" in found.shown


def test_crates_that_the_user_has_are_linked_and_never_written(place: Path) -> None:
    make(place / "root", "Cargo.toml")
    registry = place / "home/.cargo/registry"
    make(registry, "cache/h-1/a-1.crate", "src/h-1/a-1/lib.rs", "index/h-1/.cache/a", "index/h-1/config.json")
    make(place / "home/.cargo", "credentials.toml", "git/db/x-1/HEAD")
    found = view(place)
    own = Path(found.variables["CARGO_HOME"])
    assert os.readlink(own / "registry/cache/h-1/a-1.crate") == str(registry / "cache/h-1/a-1.crate")
    assert (own / "registry/src/h-1/a-1/lib.rs").read_text() == "x"
    assert not (own / "registry/index/h-1/config.json").is_symlink()
    assert os.readlink(own / "git/db/x-1") == str(place / "home/.cargo/git/db/x-1")
    assert not [path for path in found.shown if (place / "home/.cargo/credentials.toml").is_relative_to(path)]
    make(registry, "cache/h-1/b-1.crate")
    view(place)
    assert (own / "registry/cache/h-1/b-1.crate").is_symlink()


def test_go_reads_the_modules_that_the_user_has_as_a_proxy(place: Path) -> None:
    make(place / "root", "go.mod")
    make(place / "home", "go/pkg/mod/cache/download/example.com/")
    (place / "home/.config/go").mkdir(parents=True)
    (place / "home/.config/go/env").write_text("GOPROXY=https://u:p@proxy.example.org\nGOPRIVATE=example.net\n")
    found = view(place, "/nowhere")
    assert found.variables["GOPROXY"] == f"file://{place}/home/go/pkg/mod/cache/download"
    assert found.variables["GOPRIVATE"] == "example.net"
    (place / "home/.config/go/env").write_text("GOPROXY=https://proxy.example.org,direct\n")
    assert view(place, "/nowhere").variables["GOPROXY"].endswith("/download,https://proxy.example.org,direct")


@pytest.mark.parametrize(("version", "options"), [("3.9.6", 3), ("3.10.0", 3), ("4.0.1", 3), ("3.8.7", 1)])
def test_maven_reads_the_users_repository_beside_its_own_where_it_can(version: str, options: int, place: Path) -> None:
    make(place / "root", "pom.xml")
    make(
        place / "home", ".m2/repository/x/y", ".m2/settings.xml", "maven/bin/mvn", f"maven/lib/maven-core-{version}.jar"
    )
    found = view(place, f"{place}/home/maven/bin:/bin")
    assert len(found.variables["MAVEN_OPTS"].split()) == options
    assert f"{place}/home/.m2/repository" in found.shown
    assert not [path for path in found.shown if f"{place}/home/.m2/settings.xml".startswith(path)]


def test_an_environment_of_poetry_is_shown_if_it_is_this_projects(place: Path) -> None:
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    make(place / "root", "poetry.lock")
    key = urlsafe_b64encode(sha256(f"{place}/root".encode()).digest()).decode()[:8]
    places = place / "home/.cache/pypoetry/virtualenvs"
    assert view(place).variables["POETRY_VIRTUALENVS_PATH"].startswith(f"{place}/cache/")
    make(places, f"app-{key}-py3.12/bin/python", "other-AAAAAAAA-py3.12/bin/python")
    found = view(place)
    assert found.variables["POETRY_VIRTUALENVS_PATH"] == str(places)
    assert [path for path in found.shown if path.startswith(str(places))] == [f"{places}/app-{key}-py3.12"]


@pytest.mark.parametrize("root", ["", "home"])
def test_a_home_in_the_workspace_shows_and_breaks_nothing(root: str, place: Path) -> None:
    make(place / "home", ".cargo/bin/cargo", ".cargo/registry/cache/h/a.crate", ".ssh/id_rsa", "Cargo.toml")
    workspace = str(place / root).rstrip("/")
    environ = {"PATH": f"{place}/home/.cargo/bin:/bin"}
    found = toolchain_view(workspace, f"{place}/home", environ, f"{place}/home/.cache/byleave")
    assert found.shown == ()
    assert found.path == f"{place}/home/.cargo/bin:/bin"
    assert found.lent[0].startswith(f"{place}/home/.cache/byleave/toolchains/")


@pytest.mark.parametrize("home", ["", "/"])
def test_without_a_home_there_is_a_view_all_the_same(home: str, place: Path) -> None:
    found = toolchain_view(f"{place}/root", home, {"PATH": SYSTEM}, f"{place}/cache")
    assert (found.shown, found.path) == ((), SYSTEM)


def test_links_are_made_through_no_link_that_a_program_inside_laid(place: Path) -> None:
    make(place, "lent/", "crates/a", "victim/")
    (place / "lent/cargo").symlink_to(place / "victim")
    LinkFarm(str(place / "lent")).link_all("cargo/registry", str(place / "crates"))
    assert list((place / "victim").iterdir()) == []
    (place / "lent/cargo").unlink()
    (place / "lent/cargo").mkdir()
    (place / "lent/cargo/registry").symlink_to(place / "victim")
    LinkFarm(str(place / "lent")).link_all("cargo/registry", str(place / "crates"), copied=("a",))
    assert list((place / "victim").iterdir()) == []


def test_what_a_program_inside_put_in_the_place_of_a_link_is_left_alone(place: Path) -> None:
    make(place, "lent/c/a", "crates/a", "crates/b", "crates/x.lock")
    (place / "lent/c/config").symlink_to(place / "victim")
    make(place, "crates/config")
    LinkFarm(str(place / "lent")).link_all("c", str(place / "crates"), copied=("config",))
    assert sorted(os.listdir(place / "lent/c")) == ["a", "b", "config"]
    assert not (place / "victim").exists()


def test_a_link_in_the_workspace_chooses_nothing_that_is_shown(place: Path) -> None:
    """What runs confined can put a link where a variable or PATH names a place in the workspace."""
    make(place, "other/src/private.txt", "other/bin/x", "other/lib/y", "home/link/")
    (place / "home/link").rmdir()
    (place / "root/.venv").symlink_to(place / "other")
    (place / "root/tools").symlink_to(place / "other/bin")
    (place / "home/link").symlink_to(place / "root/.venv")
    for environ in (
        {"VIRTUAL_ENV": f"{place}/root/.venv"},
        {"VIRTUAL_ENV": f"{place}/home/link"},
        {"PYENV_ROOT": f"{place}/root/.venv"},
    ):
        made = view(place, f"{place}/root/.venv/bin:{place}/root/tools:{SYSTEM}", environ)
        assert not [path for path in made.shown if "other" in os.path.realpath(path)]
        assert "other" not in made.path
    (place / "home/link").unlink()
    (place / "home/link").symlink_to(place / "other")
    assert f"{place}/other/lib" in view(place, environ={"VIRTUAL_ENV": f"{place}/home/link"}).shown
