"""`byleave init` writes a file that fits the project, says what it does, and breaks nothing."""

import json
import os
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from byleave.cli.init_command import KINDS
from command import byleave

MARKERS = [(kind.name, kind.program, marker) for kind in KINDS for marker in kind.markers]


@pytest.mark.parametrize(("name", "program", "marker"), MARKERS, ids=[marker for _, _, marker in MARKERS])
def test_each_kind_of_project_is_found(name: str, program: str, marker: str, tmp_path: Path) -> None:
    (tmp_path / marker).touch()
    done = byleave("init", "--json", cwd=tmp_path)
    assert (done.code, json.loads(done.out)["found"]) == (0, [name])
    tree = tomllib.loads((tmp_path / "byleave.toml").read_text())
    assert list(tree["tools"]["builder"]["access"]["commands"]) == [program]


def project(root: Path) -> Path:
    """Build a project in which everything is found."""
    for kind in KINDS:
        (root / kind.markers[0]).touch()
    for name in ("src", "lib", "tests", "docs", "secrets"):
        (root / name).mkdir()
    (root / ".env").write_text("KEY=1")
    return root


def test_the_file_loads_without_a_warning_once_it_is_trusted(tmp_path: Path) -> None:
    project(tmp_path)
    assert byleave("init", cwd=tmp_path).code == 0
    untrusted = byleave("policy", "show", cwd=tmp_path)
    assert "not trusted" in untrusted.err
    assert byleave("trust", "--yes", cwd=tmp_path).code == 0
    shown = byleave("policy", "show", "--json", cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert list(json.loads(shown.out)["tools"]) == ["reader", "editor", "builder"]


def test_the_commands_in_the_comments_work(tmp_path: Path) -> None:
    project(tmp_path)
    byleave("init", cwd=tmp_path)
    byleave("trust", "--yes", cwd=tmp_path)
    comments = (tmp_path / "byleave.toml").read_text().splitlines()
    written = [line.lstrip("# ").split("   ")[0] for line in comments if line.startswith("#   byleave ")]
    codes = {line: byleave(*shlex.split(line)[1:], "--no-input", cwd=tmp_path).code for line in written}
    assert codes == {
        "byleave trust": 0,
        "byleave policy show": 0,
        "byleave check update README.md --tool editor": 20,
    }


def test_the_example_in_the_comments_opens_the_host_it_names(tmp_path: Path) -> None:
    (project(tmp_path) / "x").touch()
    byleave("init", cwd=tmp_path)
    file = tmp_path / "byleave.toml"
    head, _, example = file.read_text().partition("# To open a host:\n")
    file.write_text(head + example.replace("# ", ""))
    byleave("trust", "--yes", cwd=tmp_path)
    done = byleave("check", "url", "https://registry.example.org/x", "--tool", "builder", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")


ANSWERS = {
    "reading a source": (["read", "src/x", "--tool", "reader"], 0),
    "reading a secret": (["read", ".env", "--tool", "reader"], 20),
    "reading a directory of secrets": (["read", "secrets/key", "--tool", "reader"], 20),
    "changing a source": (["update", "src/x", "--tool", "editor"], 0),
    "changing a secret": (["update", ".env", "--tool", "editor"], 20),
    "changing the policy": (["update", "byleave.toml", "--tool", "editor"], 20),
    "a build": (["spawn", "--tool", "builder", "--", "cargo", "build", "--release"], 0),
    "a push": (["spawn", "--tool", "builder", "--", "git", "push"], 20),
    "the network": (["url", "https://example.com", "--tool", "builder"], 20),
}


def test_the_file_means_what_it_says(tmp_path: Path) -> None:
    project(tmp_path)
    byleave("init", cwd=tmp_path)
    byleave("trust", "--yes", cwd=tmp_path)
    codes = {name: byleave("check", *words, cwd=tmp_path).code for name, (words, _code) in ANSWERS.items()}
    assert codes == {name: code for name, (_words, code) in ANSWERS.items()}


def test_the_file_names_a_schema_that_is_there(tmp_path: Path) -> None:
    byleave("init", cwd=tmp_path)
    name = (tmp_path / "byleave.toml").read_text().splitlines()[0].removeprefix("#:schema ")
    assert json.loads((tmp_path / name).read_text()) == json.loads(byleave("schema").out)


@pytest.mark.parametrize("name", ["byleave.toml", ".byleave/config.toml"])
def test_a_file_that_is_there_is_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("# mine\n")
    done = byleave("init", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"{name} exists already" in done.err
    assert (tmp_path / name).read_text() == "# mine\n"


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "byleave.toml").symlink_to(tmp_path / "elsewhere.toml")
    assert byleave("init", cwd=tmp_path / "ws").code == 2
    assert not (tmp_path / "elsewhere.toml").exists()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_stands_in_the_place_of_our_directory_is_refused(kind: str, tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "ws", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    if kind == "link":
        (workspace / ".byleave").symlink_to(elsewhere)
    else:
        (workspace / ".byleave").touch()
    done = byleave("init", cwd=workspace)
    assert (done.code, done.err.splitlines()[0]) == (2, "byleave: .byleave is not a directory")
    assert list(elsewhere.iterdir()) == []
    assert not (workspace / "byleave.toml").exists()


def test_files_beside_it_that_are_there_already_are_kept_and_not_claimed(tmp_path: Path) -> None:
    (tmp_path / ".byleave").mkdir()
    (tmp_path / ".byleave" / ".gitignore").write_text("mine\n")
    done = byleave("init", "--json", cwd=tmp_path)
    assert json.loads(done.out)["written"] == ["byleave.toml", ".byleave/schema.json"]
    assert (tmp_path / ".byleave" / ".gitignore").read_text() == "mine\n"


def test_where_one_may_not_write_the_error_says_so() -> None:
    if not os.path.isdir("/proc/self"):
        pytest.skip("there is no /proc, in which nobody may create a file")
    done = byleave("init", "--root", "/proc/self")
    assert (done.code, done.out) == (1, "")
    assert '/byleave.toml" cannot be written: ' in done.err
    assert "hint: " in done.err


def test_below_a_repository_a_note_says_what_the_file_holds_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "part").mkdir()
    done = byleave("init", cwd=tmp_path / "part")
    assert f"holds for {tmp_path.resolve()}/part only" in done.out
    assert "note" not in byleave("init", cwd=tmp_path).out


def test_the_root_may_be_named(tmp_path: Path) -> None:
    done = byleave("init", "--root", str(tmp_path), "-v", cwd=sys.prefix)
    assert f"wrote {tmp_path.resolve()}/byleave.toml" in done.err
    assert (tmp_path / "byleave.toml").exists()
