"""The files that become layers: those of the project, and those of the directories around the workspace."""

import os
from pathlib import Path

import pytest

from byleave.errors import ConfigErrors
from byleave.policy import dirs, layers
from byleave.policy.layers import (
    ENCLOSING,
    LARGEST_PROJECT_FILE,
    LOCAL,
    MOST_MARKS,
    PROJECT,
    Problems,
    enclosing_directories,
    inline_layer,
)
from byleave.policy.load import Workspace
from scene import Scene

DENY_RM, DENY_MAKE = (f'[[rules]]\ndeny = {{ command = "{name}" }}\n' for name in ("rm", "make"))
SERVERS = '{"mcpServers": {"s": {"command": "x"}}}'


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path.resolve())


def inside(scene: Scene) -> Workspace:
    """Return a workspace in the directory `sub` of the project."""
    (scene.root / "sub").mkdir(exist_ok=True)
    return Workspace(str(scene.root / "sub"), homes=scene.homes)


def test_what_stands_around_a_workspace_is_never_trusted_and_brings_no_servers(scene: Scene) -> None:
    local = scene.say("project-local", DENY_MAKE)
    project = scene.say("project", DENY_RM)
    scene.trust()
    (scene.root / ".mcp.json").write_text(SERVERS)
    (scene.root / "sub").mkdir()
    (scene.root / "sub/.mcp.json").write_text(SERVERS)
    found = [(layer.name, layer.file, layer.path, layer.trusted) for layer in inside(scene).load().compiled.layers]
    assert found == [
        (ENCLOSING, str(project), str(project), False),
        (ENCLOSING, str(local), str(local), False),
        (PROJECT, ".mcp.json", str(scene.root / "sub/.mcp.json"), False),
    ]
    assert [layer.name for layer in scene.load().compiled.layers] == [PROJECT, PROJECT, LOCAL]


def test_the_nearest_directory_around_comes_first(scene: Scene) -> None:
    (scene.root / "a/b/c").mkdir(parents=True)
    for name in ("a/b", "", "a"):
        (scene.root / name / "byleave.toml").write_text(DENY_RM)
    (scene.root / "a/b/c/byleave.toml").write_text("")
    around = list(enclosing_directories(str(scene.root / "a/b/c"), scene.homes))
    assert around == [str(scene.root / name) for name in ("a/b", "a")] + [str(scene.root)]


def test_a_file_around_that_another_user_owns_says_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.say("project", DENY_RM)
    workspace = inside(scene)
    theirs = str(scene.root / "byleave.toml")
    owner = dirs._owner  # noqa: SLF001 -- what the kernel says, for all files but one
    monkeypatch.setattr(dirs, "_owner", lambda path: 0xFFFFFFF0 if path == theirs else owner(path))
    assert list(workspace.load().compiled.layers) == []


def test_a_file_around_that_cannot_be_used_any_more_says_what_it_said_before(scene: Scene) -> None:
    file = scene.say("project", '[[rules]]\ndeny = { path = ["sub/k/**", "**/l"] }\n')
    workspace = inside(scene)
    policy = workspace.load()
    before = [(layer.name, layer.file, layer.tree, layer.trusted) for layer in policy.compiled.layers]
    file.write_text("[[rules")
    policy.expire()
    asked = policy.decide({"kind": "read", "path": "k/x"}).decision.word
    after = [(layer.name, layer.file, layer.tree, layer.trusted) for layer in policy.compiled.layers]
    assert (asked, after) == ("deny", before)
    (warning,) = policy.warnings
    assert warning.startswith(f"{file} cannot be used any more; what it said before still holds:\n")


def test_a_file_that_appears_and_cannot_be_used_is_an_error_in_a_running_program(scene: Scene) -> None:
    scene.say("user", DENY_RM)
    policy = scene.load()
    scene.say("project", "[[rules")
    policy.expire()
    with pytest.raises(ConfigErrors) as caught:
        policy.decide({"kind": "command", "command": "rm x"})
    assert str(caught.value).startswith("byleave.toml:1: the brackets of this table are not closed")


def test_a_second_load_takes_a_file_as_it_is_also_while_it_changes(scene: Scene) -> None:
    workspace = scene.workspace
    for text, denied in ((DENY_RM, "rm"), (DENY_MAKE, "make"), (DENY_RM + DENY_MAKE, "rm")):
        scene.say("user", text)
        policy = workspace.load()
        assert policy.decide({"kind": "command", "command": f"{denied} x"}).decision.word == "deny"


@pytest.mark.parametrize("link", ["byleave.toml", ".byleave"])
def test_what_is_wrong_in_a_file_behind_a_link_is_not_repeated(link: str, scene: Scene) -> None:
    (scene.root / "secrets").mkdir()
    (scene.root / "secrets/config.toml").write_text('password = "hunter2"\n')
    (scene.root / link).symlink_to("secrets" if link == ".byleave" else "secrets/config.toml")
    name = "byleave.toml" if link == "byleave.toml" else ".byleave/config.toml"
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert str(caught.value) == (
        f"{name} is a link to a file that is no configuration\n"
        "  hint: put the file itself there; `byleave check --policy FILE` says what is wrong with FILE"
    )


def test_a_large_file_of_few_values_is_read_and_one_of_many_is_not(scene: Scene) -> None:
    scene.say("project", "# " + "x" * (MOST_MARKS + 10) + "\n" + DENY_RM)
    assert scene.decide("command", command="rm x").decision.word == "deny"
    assert MOST_MARKS + 10 < LARGEST_PROJECT_FILE
    scene.say("project", "a = [" + "1," * MOST_MARKS + "]\n")
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert str(caught.value).startswith(
        'the configuration "byleave.toml" cannot be read: it holds too many keys and values'
    )


def test_a_problem_is_counted_once_and_those_that_are_not_shown_are_counted_too() -> None:
    problems, layer = Problems(), inline_layer({})
    for number in (*range(200), *range(200)):
        problems.add(layer, f"problem {number}", hint="h", at=("a",))
    assert len(problems) == 200
    for number in (200, 201):
        problems.add(layer, f"problem {number}", hint="h", at=("a",))
    assert len(problems) == 202
    with pytest.raises(ConfigErrors) as caught:
        problems.raise_any()
    assert len(caught.value.exceptions) == 201
    assert str(caught.value.exceptions[-1]) == "there are more than 200 problems\n  hint: fix these first"


@pytest.mark.parametrize(("sign", "count"), [("{", 1000), (",", 1000), (":", 2000), ("[.", 1000)])
def test_each_sign_that_keeps_values_apart_is_counted(
    sign: str, count: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "MOST_MARKS", 1000)
    for number, refused in ((count + 2, True), (count // 2, False)):
        scene.say("project", f'why = "{sign * number}"\n# {"x" * 1000}\n')
        with pytest.raises(ConfigErrors) as caught:
            scene.load()
        assert ("it holds too many keys and values" in str(caught.value)) is refused


def test_a_file_of_the_largest_size_is_read_and_closed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "LARGEST_PROJECT_FILE", 1 << 20)
    before = set(os.listdir("/proc/self/fd"))
    scene.say("project", "#" * (1 << 20))
    assert len(scene.load().compiled.layers) == 1
    scene.say("project", "#" * ((1 << 20) + 1))
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert str(caught.value).startswith('the configuration "byleave.toml" cannot be read: it is larger than 1 MB\n')
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_problem_of_a_tree_names_its_place_in_the_tree(scene: Scene) -> None:
    with pytest.raises(ConfigErrors) as caught:
        scene.workspace.compile_tree({"rules": [{"ask": {"command": "a"}}, {"deny": {"group": "x"}}]})
    assert str(caught.value).startswith('rules[1].deny.group: there is no group "x"')


def test_all_that_a_session_cannot_say_is_told_together(scene: Scene) -> None:
    file = scene.say(
        "session", "strict_links = true\n[tools.t]\nenable = true\naccess.fs = []\n[[rules]]\nask = { command = 'a' }\n"
    )
    with pytest.raises(ConfigErrors) as caught:
        scene.load()
    assert str(caught.value) == (
        f"{file}:1: a session cannot set strict_links\n    strict_links = true\n                   ^^^^\n"
        "  hint: a session holds tools.*.access only\n"
        f"{file}:3: a session cannot set tools.t.enable\n    enable = true\n             ^^^^\n"
        "  hint: a session holds tools.*.access only"
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [("missing", "No such file or directory"), ("a\0b", "it is no path"), (".", "it is not a plain file")],
)
def test_a_file_that_is_given_and_cannot_be_read_is_named_with_the_reason(
    path: str, why: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scene.root)
    with pytest.raises(ConfigErrors) as caught:
        scene.load(path)
    shown = path.replace("\0", "\\x00")
    assert str(caught.value).startswith(f'the configuration "{shown}" cannot be read: {why}\n')
