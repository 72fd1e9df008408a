"""What byleave says about itself and about the policy: doctor, policy show, schema, version, help."""

import json
import os
import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import byleave as package
from byleave.cli.arguments import CommandSpec
from byleave.cli.commands import ROOT
from byleave.cli.doctor_command import _refuse_unwritable, own_code
from byleave.errors import StateError
from byleave.policy.dirs import CONFIG_FILE
from byleave.policy.load import Workspace
from byleave.service.client import FIELDS
from command import byleave

POLICY = """\
[tools.t]
source = "local"
run = "ask"
command = ["ls", "-l"]
[[tools.t.access.fs]]
path = "src"
read = true
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "byleave.toml").write_text(POLICY)
    return tmp_path


def test_the_doctor_finds_everything_well(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    done = byleave("doctor", cwd=project)
    assert (done.code, done.err) == (0, "")
    assert {line.split()[0] for line in done.out.splitlines()} <= {"ok", "note"}
    assert "1 tool from byleave.toml (project)" in done.out


@pytest.mark.skipif(sys.platform != "linux", reason="the OS sandbox is for Linux")
def test_the_doctor_says_what_enforces_the_policy(project: Path) -> None:
    findings = {each["what"]: each for each in json.loads(byleave("doctor", "--json", cwd=project).out)["findings"]}
    expected = ("kernel", "Landlock", "launcher", "namespaces", "bwrap", "Landlock alone", "OS sandbox")
    assert [what for what in findings if what in expected] == list(expected)
    assert "not part of this version" not in findings["OS sandbox"]["text"]
    works = findings["namespaces"]["text"] == "works"
    assert (findings["OS sandbox"]["state"] == "ok") == works


CLOSED = """\
[[rules]]
deny = { path = ["**/.env", "**/*.pem"] }
"""


@pytest.mark.parametrize(
    ("number", "state", "text"),
    [
        (10, None, ""),
        (
            600,
            "note",
            "601 files are covered one by one, so that every confined run starts later: **/*.pem matches 600",
        ),
        (
            3000,
            "bad",
            "rules close 3001 files to reading, and a sandbox covers at most 3000: **/*.pem matches 3000 and",
        ),
    ],
)
def test_the_doctor_says_how_many_files_each_pattern_closes(
    number: int, state: str | None, text: str, project: Path
) -> None:
    (project / "byleave.toml").write_text(POLICY + CLOSED)
    (project / "src" / ".env").touch()
    for each in range(number):
        (project / "src" / f"{each}.pem").touch()
    findings = {each["what"]: each for each in json.loads(byleave("doctor", "--json", cwd=project).out)["findings"]}
    found = findings.get("closed files")
    assert (found and found["state"]) == state
    assert found is None or text in found["text"]


def test_the_doctor_speaks_json(project: Path) -> None:
    report = json.loads(byleave("doctor", "--json", cwd=project).out)
    findings = report["findings"]
    assert {frozenset(finding) for finding in findings} == {frozenset({"state", "what", "text"})}
    assert report["service"].keys() == set(FIELDS)
    assert json.loads(byleave("doctor", "--json", "-q", cwd=project).out)["service"] == report["service"]
    assert [finding["state"] for finding in findings if "not trusted" in finding["text"]] == ["note"]


def test_the_doctor_is_brief_if_asked_to(project: Path) -> None:
    done = byleave("doctor", "-q", cwd=project)
    assert [line.split()[0] for line in done.out.splitlines()] == ["note"] * len(done.out.splitlines())


ILLS = {
    "a policy that is not TOML": ("[tools", {}, [], "byleave.toml:1"),
    "a root that is not there": (POLICY, {}, ["--root", "/does/not/exist"], "it does not exist"),
    "a home that others can write to": (POLICY, {"BYLEAVE_HOME": "shared"}, [], "every user can exchange what lies in"),
    "a session name that is none": (POLICY, {}, ["--session", "../x"], "is no session name"),
}


@pytest.mark.parametrize(("policy", "env", "words", "said"), ILLS.values(), ids=ILLS.keys())
def test_the_doctor_says_what_is_bad(
    policy: str, env: dict[str, str], words: list[str], said: str, project: Path
) -> None:
    (project / "byleave.toml").write_text(policy)
    (project / "shared").mkdir()
    (project / "shared").chmod(0o777)
    env = {name: str(project / value) for name, value in env.items()}
    done = byleave("doctor", *words, cwd=project, env=env)
    assert (done.code, "Traceback" in done.err) == (1, False)
    assert [line for line in done.out.splitlines() if line.startswith("bad ")]
    assert said in done.out
    as_json = byleave("doctor", "--json", *words, cwd=project, env=env)
    assert (as_json.code, "bad" in {finding["state"] for finding in json.loads(as_json.out)["findings"]}) == (1, True)


def test_the_doctor_says_that_nothing_can_be_kept_where_others_may_exchange_it(project: Path) -> None:
    home = project / "everyone/home"
    home.mkdir(parents=True)
    (project / "everyone").chmod(0o777)
    done = byleave("doctor", "--json", cwd=project, env={"BYLEAVE_HOME": str(home)})
    (state,) = [finding for finding in json.loads(done.out)["findings"] if finding["what"] == "state"]
    assert state["state"] == "bad"
    assert "every user can exchange" in state["text"]
    done = byleave("run", "--", "true", cwd=project, env={"BYLEAVE_HOME": str(home)})
    assert done.code == 20
    assert "could not be recorded" in done.err
    assert "hint: `byleave doctor` says what is wrong" in done.err


def test_the_doctor_says_that_the_place_of_the_state_cannot_be_written(
    project: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    with pytest.raises(StateError) as caught:
        _refuse_unwritable(str(own_home / "not/there/yet"))
    assert caught.value.problem.startswith(f'"{own_home}" cannot be written')
    monkeypatch.undo()
    _refuse_unwritable(str(project / "not/there/yet"))


def test_without_any_configuration_the_doctor_points_at_init(tmp_path: Path) -> None:
    done = byleave("doctor", cwd=tmp_path)
    assert done.code == 0
    assert "no configuration was found; `byleave setup`" in done.out


def test_the_policy_is_shown_with_the_origin_of_each_rule(project: Path) -> None:
    byleave("trust", "--yes", cwd=project)
    lines = byleave("policy", "show", cwd=project).out.splitlines()
    assert lines[:3] == [f"workspace: {project.resolve()}", "layers, weakest first:", "  project  byleave.toml"]
    assert "tools.t  local, stdio, run = ask, command: ls -l  (byleave.toml:1)" in lines
    assert [line.split() for line in lines if line.startswith("  fs ")] == [["fs", "src:", "read", "byleave.toml:5"]]


def test_the_policy_is_shown_as_json(project: Path) -> None:
    tree = json.loads(byleave("policy", "show", "--json", cwd=project).out)
    assert tree["root"] == str(project.resolve())
    assert tree["layers"] == [{"name": "project", "file": "byleave.toml", "trusted": False}]
    assert (tree["tools"], len(tree["warnings"])) == ({}, 1)
    byleave("trust", "--yes", cwd=project)
    tree = json.loads(byleave("policy", "show", "--json", cwd=project).out)
    unused = {"hits": 0, "last": None}
    assert tree["tools"]["t"]["access"]["fs"] == [{"rule": "src: read", "source": "byleave.toml:5", **unused}]
    assert tree["warnings"] == []


def test_a_broken_policy_cannot_be_shown(project: Path) -> None:
    (project / "byleave.toml").write_text("[tools")
    done = byleave("policy", "show", cwd=project)
    assert (done.code, done.out) == (2, "")


def test_the_schema_is_json(tmp_path: Path) -> None:
    done = byleave("schema", "-v")
    assert "$schema" in json.loads(done.out)
    assert done.err.endswith("byleave.schema.json\n")


def test_the_version_is_told() -> None:
    assert byleave("--version").out == f"byleave {package.__version__}\n"


EXTRAS = {"jwt": "jwt", "otel": "opentelemetry", "postgres": "psycopg", "uvloop": "uvloop"}


def test_the_version_for_programs_says_what_is_compiled_in() -> None:
    found = json.loads(byleave("--version", "--json").out)
    assert found == {
        "version": package.__version__,
        "python": {"version": platform.python_version(), "implementation": sys.implementation.name},
        "platform": "linux",
        "architecture": os.uname().machine,
        "libc": found["libc"],
        "compiled": {"launcher": found["compiled"]["launcher"], "front": found["compiled"]["front"]},
        "extras": {name: bool(find_spec(of)) for name, of in EXTRAS.items()},
    }
    assert json.loads(byleave("--json", "--version").out) == found
    assert byleave("check", "--version").code == 0


def leaves(command: CommandSpec = ROOT, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    return [path, *(found for child in command.subcommands for found in leaves(child, (*path, child.name)))]


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]) -> None:
    done = byleave(*path, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"usage: {' '.join(('byleave', *path))}")
    assert (done.out == byleave("-h", *path).out) is True


LOOSENED = {
    "observe mode": ("defaults", "mode", "observe"),
    "silence": ("hooks", "silent", "agent"),
}


@pytest.mark.parametrize(("table", "key", "value"), LOOSENED.values(), ids=LOOSENED.keys())
def test_doctor_and_policy_show_say_what_is_left_to_the_agent(table: str, key: str, value: str, project: Path) -> None:
    plain = json.loads(byleave("policy", "show", "--json", cwd=project).out)
    assert (plain["mode"], plain["silent"]) == ("enforce", "ask")
    assert "decisions" not in byleave("doctor", cwd=project).out
    file = Path(Workspace(str(project)).homes.config) / CONFIG_FILE
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    named = f'{key} = "{value}"'
    file.write_text(f"[{table}]\n{named}\n")
    file.chmod(0o600)
    found = {one["what"]: one for one in json.loads(byleave("doctor", "--json", cwd=project).out)["findings"]}
    assert (found["decisions"]["state"], named in found["decisions"]["text"]) == ("note", True)
    assert named in byleave("policy", "show", cwd=project).out
    assert json.loads(byleave("policy", "show", "--json", cwd=project).out)[key] == value


def test_a_project_cannot_have_less_decided_and_is_not_said_to(project: Path) -> None:
    (project / "byleave.toml").write_text('[defaults]\nmode = "observe"\n')
    assert byleave("trust", "--yes", cwd=project).code == 0
    assert json.loads(byleave("policy", "show", "--json", cwd=project).out)["mode"] == "enforce"
    assert "note  decisions" not in byleave("doctor", cwd=project).out


def test_help_says_where_the_pages_are_that_it_names() -> None:
    for command in ("run", "outside", "acp", "mcp", "audit"):
        done = byleave(command, "--help").out
        place = done.splitlines()[-1].removeprefix("docs/ is in ")
        named = re.findall(r"docs/[a-z-]+\.md", done)
        assert named
        assert all((Path(place) / page).is_file() for page in named)
    assert "docs/ is in" not in byleave("completion", "--help").out


def test_every_page_that_a_command_names_is_there() -> None:
    root = Path(package.__file__).parents[2]
    sources = "".join(file.read_text() for file in (root / "src" / "byleave").rglob("*.py"))
    named = set(re.findall(r"docs/[a-z-]+\.md", sources))
    assert named
    assert [page for page in sorted(named) if not (root / page).is_file()] == []


MISTAKEN = (
    '[[rules]]\nallow = { command = "git", options = "any" }\n\n[[rules]]\ndeny = { path = "a/**", command = "ls" }\n'
)


def test_the_doctor_counts_mistakes_in_the_rules_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text(MISTAKEN)
    done = byleave("doctor", cwd=tmp_path)
    (line,) = [line for line in done.out.splitlines() if "policy lint" in line]
    assert line.split(None, 2) == [
        "note",
        "rules",
        "at least 1 warning in what is written; `byleave policy lint` names them",
    ]
    named = json.loads(byleave("policy", "lint", "--json", cwd=tmp_path).out)["findings"]
    assert [each["code"] for each in named if each["severity"] == "warning"] >= ["no_effect"]


def test_the_doctor_says_nothing_of_rules_without_mistakes(project: Path) -> None:
    assert "policy lint" not in byleave("doctor", cwd=project).out
    (project / "byleave.toml").unlink()
    byleave("init", "--yes", cwd=project)
    assert "policy lint" not in byleave("doctor", cwd=project).out


def test_at_home_the_doctor_asks_for_a_project_and_for_no_other_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path)
    monkeypatch.setattr(sys, "prefix", f"{home}/.local/pipx/venvs/byleave")
    monkeypatch.setenv("HOME", home)
    workspace = Workspace(home)
    (found,) = own_code(workspace)
    assert found.text == "this is your home directory, and byleave is installed in it: run byleave in a project"
