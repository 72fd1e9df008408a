"""What a line touches beside its operands: open descriptors, exported variables, places known only at run time."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.action import CommandAction
from byleave.policy.load import Workspace
from scene import Scene

ALL = {"allow": {"any_command": True, "options": "any"}}
RULES: list[dict[str, Any]] = [
    {"deny": {"path": "secrets/**"}},
    {"deny": {"path": "kept", "ops": ["update"]}},
    {"allow": {"path": "**"}},
    ALL,
]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene.build(tmp_path)
    for name in ("src/secrets", "src/.claude", "secrets", "plain"):
        (made.root / name).mkdir(parents=True)
    for name in ("src/secrets/k", "secrets/k", "plain/a", "kept", "file"):
        (made.root / name).touch()
    return made


def decide(scene: Scene, line: str, *, rules: list[dict[str, Any]] = RULES) -> str:
    return scene.workspace.compile_tree({"rules": rules}).decide({"kind": "command", "command": line}).decision.word


# A directory that is open can be reached by the name of its descriptor, with all that lies in it.
DIRECTORIES = [
    "grep -r x /dev/fd/3 3<.",
    "grep -r x /dev/stdin <.",
    "find -H /dev/fd/3 -delete 3<.",
    "cp -r src/secrets /dev/fd/3 3<.",
    "cp -r -t /dev/fd/3 src/secrets 3<.",
    "cp --target-directory=/dev/fd/3 -r src/secrets 3<.",
    "install -t /proc/self/fd/3 src/secrets/k 3<.",
    "exec 3<.; rsync -a src/secrets /dev/fd/3",
    "sh -c 'cp -r src/secrets /dev/fd/3' 3<.",
    "anything --directory=/dev/fd/3 3<.",
]


@pytest.mark.parametrize("line", DIRECTORIES)
def test_what_lies_in_a_directory_is_not_reached_by_the_name_of_its_descriptor(scene: Scene, line: str) -> None:
    assert decide(scene, line) == "ask"


def test_a_protected_place_is_not_written_by_the_name_of_a_descriptor(scene: Scene) -> None:
    assert decide(scene, "cp -r src/.claude /dev/fd/3 3<.", rules=[{"allow": {"path": "**"}}, ALL]) == "ask"


# A file that is open for reading can be written by the name of its descriptor, wherever in a word that stands.
FILES = [
    ("dd if=file of=/dev/fd/3 3<kept", "deny"),
    ("sort --output=/dev/fd/3 file 3<kept", "deny"),
    ("sort -o/dev/fd/3 file 3<kept", "deny"),
    ("curl -o/dev/stdin https://x.example/ <kept", "deny"),
    ("tee /dev/fd/3 3<kept", "deny"),
    ("echo x > /dev/fd/3 3<kept", "deny"),
    ("sort -o/dev/fd/3 file 3<file", "allow"),
    ("sort /dev/stdin <kept", "allow"),
    ("exec 3<.; ls", "allow"),
    ("cat /dev/null", "allow"),
]


@pytest.mark.parametrize(("line", "expected"), FILES)
def test_a_file_that_is_open_for_reading_is_not_written_by_the_name_of_its_descriptor(
    scene: Scene, line: str, expected: str
) -> None:
    assert decide(scene, line) == expected


SURE = [
    ('cd "$X" && echo x > "$F"', "ask"),
    ('cd "$X"; F=out; [ a ] && F=b; echo x > $F', "ask"),
    ("cd /proc/self/fd/3; cat file", "ask"),
    ('cd "$X"; cat *.txt', "ask"),
    ("rm file/x", "ask"),
    ("rm /proc/self/fd/3/x", "ask"),
    ("ln -s x /proc/self/fd/3/z", "ask"),
    ("for i in a b c; do for j in a b c; do for k in a b c; do cat $i $j $k; done; done; done", "ask"),
    ("cat file", "allow"),
]


@pytest.mark.parametrize(("line", "expected"), SURE)
def test_a_file_that_is_known_only_at_run_time_is_asked_about(scene: Scene, line: str, expected: str) -> None:
    assert decide(scene, line) == expected


LOST = [
    ("anything secrets/k", "deny"),
    ("anything plain/a", "allow"),
    ("cat secrets/k", "ask"),
    ("cat /opt/x", "allow"),
]


@pytest.mark.parametrize("cwd", ["gone", "/proc/self/cwd"])
@pytest.mark.parametrize(("line", "expected"), LOST)
def test_what_a_program_may_name_stays_closed_where_its_directory_is_not_known(
    scene: Scene, line: str, expected: str, cwd: str
) -> None:
    policy = scene.workspace.compile_tree({"rules": RULES})
    assert policy.decide({"kind": "command", "command": line, "cwd": cwd}).decision.word == expected


def test_what_comes_behind_too_many_words_is_not_known(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "cat {a,b}{1,2}{x,y}; cat {file,plain/a}"
    asked = [decide(scene, line)]
    monkeypatch.setattr("byleave.policy.named_files.MOST_WORDS", 8)
    assert [*asked, decide(scene, line)] == ["allow", "ask"]


VARIABLES = [
    ('declare A="x y"', "allow"),
    ('readonly A="x y"', "allow"),
    ('declare -x A="x y"', "ask"),
    ('declare -gx A="x y"', "ask"),
    ('typeset -x A="x y"', "ask"),
    ('export A="x y"', "ask"),
    ("declare LD_PRELOAD=./x.so", "ask"),
]


@pytest.mark.parametrize(("line", "expected"), VARIABLES)
def test_a_variable_of_the_shell_is_asked_about_where_programs_get_it(scene: Scene, line: str, expected: str) -> None:
    assert decide(scene, line) == expected


def test_every_command_knows_the_wrapper_that_starts_it(scene: Scene) -> None:
    reader = scene.workspace.compile_tree({}).compiled.read_line
    assert reader is not None
    parts = reader.read("find . -exec ls {} ';' -exec sudo make {} ';' && timeout 5 ls").parts
    assert [(part.name, part.parent) for part in parts] == [
        ("find", None),
        ("ls", 0),
        ("sudo", 0),
        ("make", 2),
        ("timeout", None),
        ("ls", None),
    ]


def test_a_directory_that_is_gone_when_a_line_is_decided_once_more_guards_nothing(scene: Scene) -> None:
    (scene.root / "plain/.vscode").mkdir()
    (scene.root / "plain/.vscode/settings.json").touch()
    policy = scene.workspace.compile_tree({"rules": RULES})
    assert policy.compiled.read_line is not None
    line, action = policy.compiled.read_line.read("prettier --write plain"), CommandAction("prettier --write plain")
    before = policy.decide_both(action, line)
    for name in (".vscode/settings.json", "a"):
        (scene.root / "plain" / name).unlink()
    (scene.root / "plain/.vscode").rmdir()
    (scene.root / "plain").rmdir()
    after = policy.decide_both(action, line)
    assert [said.decision.word for said in (*before, *after)] == ["ask", "ask", "allow", "allow"]


@pytest.fixture
def homeless(scene: Scene) -> Workspace:
    """The workspace of a user of whom the system knows no home directory."""
    return Workspace(str(scene.root), homes=scene.homes.replace(user=""))


@pytest.mark.parametrize("line", ["cat ~/x", "cd; cat x", "cd ~/x && cat y", "echo x > ~/x"])
def test_without_a_home_directory_what_a_command_names_in_it_is_not_known(homeless: Workspace, line: str) -> None:
    policy = homeless.compile_tree({"rules": RULES})
    assert policy.decide({"kind": "command", "command": line}).decision.word == "ask"
