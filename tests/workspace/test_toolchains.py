"""What is installed below a home directory, and what of it may be shown: no secret, nothing that a link adds."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from byleave.launch.toolchain_view import Disk
from byleave.workspace.toolchains import (
    INSTALLATIONS,
    PACKAGE_MANAGERS,
    Surroundings,
    find_installed,
    find_managers,
    prefix_parts,
    program_prefix,
)


def make(top: Path, *names: str) -> None:
    for name in names:
        path = top / name.rstrip("/")
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text("x")


def installed(top: Path, environ: Mapping[str, str] | None = None, *, project: Sequence[str] = ()) -> list[str]:
    """Return what is shown of the home directory `top/home`, by names in it."""
    top = top.resolve()
    (top / "root").mkdir(exist_ok=True)
    make(top / "root", *project)
    around = Surroundings(f"{top}/root", f"{top}/home", (f"{top}/cache",))
    found = find_installed(around, find_managers(around.root, Disk()), environ or {}, Disk())
    return [os.path.relpath(path, top / "home") for path in found.shown]


MARKERS = [(manager.name, marker) for manager in PACKAGE_MANAGERS for marker in manager.markers]


@pytest.mark.parametrize(("name", "marker"), MARKERS, ids=[f"{name} {marker}" for name, marker in MARKERS])
@pytest.mark.parametrize("place", ["", "backend/", "services/api/"])
def test_a_package_manager_is_found_by_its_files(name: str, marker: str, place: str, tmp_path: Path) -> None:
    make(tmp_path, f"{place}{marker}")
    assert name in [manager.name for manager in find_managers(str(tmp_path), Disk())]


def test_files_of_packages_and_what_lies_deep_find_nothing(tmp_path: Path) -> None:
    make(tmp_path, "node_modules/x/package.json", "vendor/y/go.mod", "a/b/c/Cargo.toml", ".cache/pom.xml")
    assert find_managers(str(tmp_path), Disk()) == ()


def test_a_large_project_is_not_searched_without_end(tmp_path: Path) -> None:
    make(tmp_path, *[f"p{number}/x" for number in range(400)], "package.json")
    assert [manager.name for manager in find_managers(str(tmp_path), Disk())] == ["npm"]


SHOWN = {
    "nvm": ".nvm/versions/node",
    "fnm": ".local/share/fnm/node-versions",
    "volta": ".volta/tools",
    "pyenv": ".pyenv/shims",
    "asdf": ".asdf/installs",
    "mise": ".local/share/mise/installs",
    "rustup": ".rustup/toolchains",
    "cargo": ".cargo/bin",
    "sdkman": ".sdkman/candidates",
    "rbenv": ".rbenv/versions",
    "programs of the user": ".local/bin",
    "go": "go/bin",
    "uv": ".local/share/uv/python",
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_manager_of_versions_installed_is_shown(name: str, tmp_path: Path) -> None:
    make(tmp_path / "home", f"{SHOWN[name]}/")
    assert installed(tmp_path) == [SHOWN[name]]
    assert name in [each.name for each in INSTALLATIONS]


SECRETS = (
    *(".npmrc", ".cargo/credentials.toml", ".cargo/credentials", ".m2/settings.xml", ".gem/credentials", ".netrc"),
    *(".config/pip/pip.conf", ".docker/config.json", ".ssh/id_rsa", ".aws/credentials", ".gradle/gradle.properties"),
    *(
        ".nvm/versions/node/v1/etc/npmrc",
        ".pyenv/versions/3.12/pip.conf",
        ".sdkman/candidates/maven/3/conf/settings.xml",
    ),
    *(".composer/auth.json", ".local/share/uv/credentials", ".config/mise/config.toml", ".bundle/config", ".pypirc"),
    *(".pyenv/versions/3.12/envs/app/pip.conf", ".local/share/uv/tools/x/pip.conf", ".rustup/credentials.toml"),
)


def test_no_secret_is_shown_of_what_lies_beside_programs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make(home, *SECRETS)
    make(home, ".cargo/bin/cargo", ".gem/ruby/x", ".nvm/versions/node/v1/bin/node", ".nvm/versions/node/v2/bin/node")
    make(home, ".pyenv/versions/3.12/bin/python", ".pyenv/versions/3.12/envs/app/bin/x", ".pyenv/versions/3.13/bin/x")
    make(home, ".sdkman/candidates/maven/3/bin/mvn", ".local/bin/x", ".local/share/uv/tools/x/bin/y")
    shown = installed(tmp_path, project=["package.json", "pom.xml", "Cargo.toml", "Gemfile", "composer.json"])
    seen = [name for name in SECRETS if any(name == place or name.startswith(f"{place}/") for place in shown)]
    assert seen == []
    for program in (".nvm/versions/node/v1/bin", ".pyenv/versions/3.12/envs/app/bin", ".cargo/bin", ".local/bin"):
        assert any(program == place or program.startswith(f"{place}/") for place in shown), program


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (".cargo/bin", "../.ssh"),
        (".cargo/bin", "../private"),
        (".pyenv/versions", "../.."),
        (".rustup/toolchains", "../.aws"),
        (".local/bin", "/"),
        (".local/bin", "../"),
        ("go/bin", "../../root"),
        (".nvm/versions/node", "../../../.."),
    ],
)
def test_a_link_shows_nothing_but_its_own_toolchain(link: str, target: str, tmp_path: Path) -> None:
    make(tmp_path / "home", ".ssh/id_rsa", ".aws/credentials", "private/letter")
    (tmp_path / "home" / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "home" / link).symlink_to(target)
    assert installed(tmp_path) == []


def test_an_installation_that_was_moved_elsewhere_is_found_through_its_link(tmp_path: Path) -> None:
    make(tmp_path / "data", "nvm/versions/node/v1/bin/node", "nvm/letters/x")
    make(tmp_path / "home", "x")
    (tmp_path / "home/.nvm").symlink_to(tmp_path / "data/nvm")
    assert installed(tmp_path) == [".nvm/versions/node"]


def test_an_installation_is_found_where_its_variable_says(tmp_path: Path) -> None:
    make(tmp_path / "home", "tools/py/shims/python", ".pyenv/shims/python")
    assert installed(tmp_path, {"PYENV_ROOT": str(tmp_path.resolve() / "home/tools/py")}) == ["tools/py/shims"]
    assert installed(tmp_path, {"PYENV_ROOT": "tools/py"}) == [".pyenv/shims"]
    assert installed(tmp_path, {"PYENV_ROOT": "/"}) == [".pyenv/shims"]


def test_what_lies_in_the_workspace_is_left_to_its_rules(tmp_path: Path) -> None:
    make(tmp_path, "home/.cargo/bin/cargo", "home/.nvm/versions/node/v1/bin/node")
    for root in (tmp_path, tmp_path / "home"):
        around = Surroundings(str(root.resolve()), str(tmp_path.resolve() / "home"))
        assert find_installed(around, (), {}, Disk()).shown == ()


def test_without_a_home_nothing_is_shown(tmp_path: Path) -> None:
    assert find_installed(Surroundings(str(tmp_path), ""), (), {}, Disk()).shown == ()


def test_of_a_prefix_only_what_belongs_to_programs_is_shown(tmp_path: Path) -> None:
    make(
        tmp_path, "tools/x/bin/p", "tools/x/lib/l", "tools/x/etc/npmrc", "tools/x/conf/settings.xml", "tools/x/conf/log"
    )
    make(tmp_path, "tools/x/notes.txt", "tools/x/secret/key", "root/")
    prefix = program_prefix(f"{tmp_path.resolve()}/tools/x/bin")
    assert prefix is not None
    around = Surroundings(f"{tmp_path.resolve()}/root", "")
    names = [os.path.relpath(path, prefix) for path in prefix_parts(prefix, around, Disk())]
    assert names == ["bin", "lib", "conf/log"]
    assert program_prefix(f"{tmp_path}/work") is None
