"""Places that usually hold secrets are pointed out when a grant reaches them, and never opened or closed by that."""

import os
from pathlib import Path

import pytest

from byleave.core.sensitive_places import Sensitive
from byleave.guard.warnings import ReachableSecret, sensitive_reaches
from command import byleave
from scene import TOOL, Scene

LIST = Sensitive(["**/*.pem", "deploy/keys", "~/.netrc"], home="/home/me", root="/home/me/ws")
PLACES = {
    "/home/me/.ssh": "~/.ssh",
    "/home/me/.ssh/id_ed25519": "~/.ssh",
    "/home/me/.SSH/id": "~/.ssh",
    "/home/me/.sshx": None,
    "/home/me/.gnupg/x": "~/.gnupg",
    "/home/me/.aws/credentials": "~/.aws/credentials",
    "/home/me/.aws/config": None,
    "/home/me/.config/gcloud/a/b": "~/.config/gcloud",
    "/home/me/.kube/config": "~/.kube/config",
    "/home/me/.docker/config.json": "~/.docker/config.json",
    "/home/me/ws/.env": "**/.env",
    "/srv/x/.env": "**/.env",
    "/srv/x/.env.local": "**/.env.*",
    "/srv/x/.environment": None,
    "/home/me/ws/a/b/key.pem": "**/*.pem",
    "/home/me/ws/deploy/keys/1": "deploy/keys",
    "/home/me/.netrc": "~/.netrc",
    "/other/.ssh/id": None,
}


@pytest.mark.parametrize(("place", "entry"), PLACES.items(), ids=PLACES.keys())
def test_a_place_is_sensitive_by_the_list(place: str, entry: str | None) -> None:
    assert LIST.at(place) == entry


def test_what_lies_below_a_directory_is_known_by_name() -> None:
    found = dict(LIST.below("/home/me"))
    assert {"~/.ssh", "~/.gnupg", "deploy/keys"} <= found.keys()
    assert found["~/.ssh"] == "/home/me/.ssh"
    assert dict(LIST.below("/srv")) == {}


def test_without_a_home_directory_the_rest_of_the_list_holds() -> None:
    nobody = Sensitive(home="", root="/ws")
    assert (nobody.at("/.ssh/id"), nobody.at("/ws/.env")) == (None, "**/.env")


def test_a_home_directory_that_is_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    (tmp_path / "real/.ssh").mkdir(parents=True)
    (tmp_path / "home").symlink_to("real")
    known = Sensitive(home=str(tmp_path / "home"), root="/ws", real=os.path.realpath)
    assert [known.at(str(tmp_path / name / ".ssh/id")) for name in ("home", "real")] == ["~/.ssh", "~/.ssh"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path.resolve())


def reaches(scene: Scene) -> list[ReachableSecret]:
    workspace = scene.workspace
    policy = workspace.load()
    return sensitive_reaches(policy, workspace.sensitive(policy.compiled))


def test_a_grant_that_reaches_one_is_named_with_its_tools(scene: Scene) -> None:
    (scene.root / ".env").write_text("KEY=1")
    scene.say("user", f'{TOOL}[tools.u]\nsource = "local"\n[[tools.u.access.fs]]\npath = "src"\nread = true\n')
    assert reaches(scene) == [ReachableSecret("**/.env", ".env", ("t",))]
    assert reaches(scene)[0].sentence == "t may read .env, a sensitive place (**/.env)"


def test_a_place_that_a_rule_closes_is_not_named(scene: Scene) -> None:
    (scene.root / ".env").write_text("KEY=1")
    closed = '[[tools.t.access.fs]]\npath = "."\nread = true\n[[tools.t.access.fs]]\npath = ".env"\n'
    scene.say("user", TOOL + closed)
    assert reaches(scene) == []


def test_a_mount_of_a_sensitive_directory_is_named(scene: Scene) -> None:
    vault = scene.root.parent / "vault"
    vault.mkdir()
    (scene.root / "keys").symlink_to(vault)
    scene.say(
        "user",
        f'sensitive_paths = ["{vault}"]\n{TOOL}[[tools.t.access.fs]]\npath = "keys"\nexternal = true\nread = true\n',
    )
    assert reaches(scene) == []
    scene.workspace.approvals.approve_mount("keys", str(vault), now="2026-01-01T00:00:00Z")
    assert reaches(scene) == [ReachableSecret(str(vault), "keys", ("t",))]


def test_configuration_adds_to_the_list_from_every_layer(scene: Scene) -> None:
    for name in (".env", "a.pem", "b.key"):
        (scene.root / name).write_text("x")
    scene.say("user", f'sensitive_paths = ["**/*.pem"]\n{TOOL}')
    scene.say("managed", 'sensitive_paths = ["*.key"]\n')
    assert [reach.name for reach in reaches(scene)] == [".env", "a.pem", "b.key"]


def test_a_pattern_that_means_nothing_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('sensitive_paths = ["a/../b", "[x"]\n')
    done = byleave("check", "--policy", "p.toml", "read", "x", cwd=tmp_path)
    assert done.code == 2
    assert 'p.toml:1: "a/../b": a pattern cannot contain ".."' in done.err
    assert 'a "[" is not closed' in done.err


def test_the_doctor_names_what_lies_open(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "p.toml").write_text(TOOL)
    done = byleave("doctor", "--policy", "p.toml", cwd=tmp_path)
    assert "t may read .env, a sensitive place (**/.env)" in done.out
