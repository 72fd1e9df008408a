"""What every sandbox sees of the machine: whose word counts, how paths are written, what is never opened."""

import os
from pathlib import Path

import pytest

from byleave.errors import ConfigErrors
from byleave.policy.dirs import UserDirs
from byleave.policy.layers import Layer
from byleave.policy.load import Workspace
from byleave.policy.sandbox_settings import access_layer
from scene import TOOL, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def away(scene: Scene, user: str = "/u") -> Workspace:
    """Return a workspace whose user's home holds none of byleave's own places."""
    home = str(scene.home)
    homes = UserDirs(config=home, state=home, memory=f"{home}/cache", managed=str(scene.managed), user=user)
    return Workspace(str(scene.root), homes=homes)


def seen(scene: Scene, *files: Path, user: str = "/u") -> dict[str, list[str]]:
    paths: dict[str, list[str]] = (
        away(scene, user).load(files=[str(file) for file in files]).compiled.settings["sandbox"]
    )
    return paths


def told(scene: Scene, user: str = "/u") -> str:
    with pytest.raises(ConfigErrors) as caught:
        seen(scene, user=user)
    return str(caught.value)


def test_without_a_word_a_sandbox_sees_nothing_more(scene: Scene) -> None:
    assert seen(scene) == {"read": [], "write": []}
    assert scene.workspace.compile_tree({}).compiled.settings["sandbox"] == {"read": [], "write": []}


WRITTEN = {
    "/opt": "/opt",
    "/opt/": "/opt",
    "//opt//./x/.": "/opt/x",
    "~": "/u",
    "~/": "/u",
    "~/.cargo": "/u/.cargo",
    "~/a": "/u/a",
    "/opt/a:b": "/opt/a:b",
    "/opt/...": "/opt/...",
    "/opt/é \u00a0x": "/opt/é \u00a0x",
    "/nowhere/at/all": "/nowhere/at/all",
}


@pytest.mark.parametrize(("text", "expect"), WRITTEN.items())
def test_a_path_is_read_from_the_root_or_from_home(text: str, expect: str, scene: Scene) -> None:
    scene.say("user", f"[sandbox]\nread = ['{text}']")
    assert seen(scene) == {"read": [expect], "write": []}


def test_every_trusted_layer_adds_to_the_list(scene: Scene) -> None:
    scene.say("user", "[sandbox]\nread = ['/user']")
    scene.say("project", "[sandbox]\nread = ['/project']\nwrite = ['/project-write']")
    scene.trust()
    scene.say("managed", "[sandbox]\nread = ['/managed']")
    assert seen(scene) == {"read": ["/user", "/project", "/managed"], "write": ["/project-write"]}


def test_files_on_the_command_line_are_heard(scene: Scene) -> None:
    scene.say("user", "[sandbox]\nread = ['/user']")
    given = scene.say("command line", "[sandbox]\nread = ['/given']")
    assert seen(scene, given) == {"read": ["/given"], "write": []}


def test_an_untrusted_project_opens_nothing_and_breaks_nothing(scene: Scene) -> None:
    scene.say("user", TOOL + "[sandbox]\nread = ['/user']")
    scene.say("project", "[sandbox]\nread = {strategy = 'replace', value = ['/theirs', 'relative']}\nwrite = ['/']")
    assert seen(scene) == {"read": ["/user"], "write": []}
    (warning,) = away(scene).load().warnings
    assert warning.startswith("byleave.toml is not trusted yet: it can only tighten, and its settings are ignored")
    scene.trust()
    assert '"relative" is not absolute' in told(scene)


STRATEGIES = {
    "append": ["/a", "/both", "/both", "/b"],
    "prepend": ["/both", "/b", "/a", "/both"],
    "replace": ["/both", "/b"],
    "dedup": ["/a", "/both", "/b"],
}


@pytest.mark.parametrize(("strategy", "expect"), STRATEGIES.items())
def test_a_stronger_layer_says_how_its_list_joins(strategy: str, expect: list[str], scene: Scene) -> None:
    scene.say("user", "[sandbox]\nread = ['/a', '/both']")
    scene.say("managed", f"[sandbox]\nread = {{strategy = '{strategy}', value = ['/both/.', '/b']}}")
    assert seen(scene)["read"] == expect


WRONG = {
    "": "the path is empty",
    "opt": '"opt" is not absolute',
    "./opt": '"./opt" is not absolute',
    "~root/x": '"~root/x" is not absolute',
    "$HOME/x": '"$HOME/x" is not absolute',
    "/opt/../etc": '"/opt/../etc" climbs with ..',
    "..": '".." climbs with ..',
    "~/..": '"~/.." climbs with ..',
    "/": '"/" is the whole machine',
    "//": '"//" is the whole machine',
    "/.": '"/." is the whole machine',
    "/a\\u0000b": '"/a\\x00b" contains a control character',
    "/a\\nb": '"/a\\nb" contains a control character',
    "/a\\u0085b": '"/a\\u0085b" contains a control character',
}


@pytest.mark.parametrize("key", ["read", "write"])
@pytest.mark.parametrize(("text", "problem"), WRONG.items())
def test_a_path_that_cannot_be_meant_is_told(text: str, problem: str, key: str, scene: Scene) -> None:
    scene.say("user", f'[sandbox]\n{key} = ["/fine", "{text}"]')
    assert f"config.toml:2: {problem}" in told(scene)


def test_half_a_character_is_no_path(scene: Scene) -> None:
    with pytest.raises(ConfigErrors, match="configuration"):
        scene.workspace.compile_tree({"sandbox": {"read": ["/a\udc80"]}})


def test_every_wrong_path_is_told_with_its_place(scene: Scene) -> None:
    file = scene.say("user", "[sandbox]\nread = [\n  '/fine',\n  'x',\n]\nwrite = {strategy = 'append', value = ['y']}")
    assert told(scene) == (
        f"{file}:4: \"x\" is not absolute\n      'x',\n      ^^^\n"
        '  hint: write the whole path, from / on, or "~/..." for what lies in your home directory\n'
        f"{file}:6: \"y\" is not absolute\n    write = {{strategy = 'append', value = ['y']}}\n"
        f"{' ' * 43}^^^\n"
        '  hint: write the whole path, from / on, or "~/..." for what lies in your home directory'
    )


def test_without_a_home_nothing_lies_in_it(scene: Scene) -> None:
    scene.say("user", "[sandbox]\nread = ['~/x']")
    assert '"~/x" is not absolute' in told(scene, user="")


CLOSED = {"read": "which byleave keeps to itself", "write": "which no sandbox may change"}


@pytest.mark.parametrize("key", CLOSED)
@pytest.mark.parametrize("name", ["home", "home/config.toml", "home/workspaces/x", "home/cache", "etc", "etc/x", "."])
def test_what_byleave_keeps_to_itself_is_opened_to_nobody(name: str, key: str, scene: Scene) -> None:
    scene.say("user", f"[sandbox]\n{key} = ['{os.path.normpath(scene.home.parent / name)}']")
    assert CLOSED[key] in told(scene)


@pytest.mark.parametrize("key", CLOSED)
def test_a_link_to_what_byleave_keeps_to_itself_is_followed(key: str, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(scene.home)
    scene.say("user", f"[sandbox]\n{key} = ['{tmp_path}/link/workspaces', '{tmp_path}/link']")
    assert told(scene).count(CLOSED[key]) == 2


def test_a_link_to_the_root_of_all_is_the_whole_machine(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    scene.say("user", f"[sandbox]\nread = ['{tmp_path}/link']")
    assert "is the whole machine" in told(scene)


def test_a_neighbour_of_what_is_ours_is_not_ours(scene: Scene) -> None:
    scene.say("user", f"[sandbox]\nread = ['{scene.home}2', '{scene.home.parent}/hom']")
    assert len(seen(scene)["read"]) == 2


def test_the_settings_of_an_agent_may_be_read_but_not_written(scene: Scene, tmp_path: Path) -> None:
    user = tmp_path / "user"
    scene.say("user", "[sandbox]\nread = ['~/.claude', '~/.codex/config.toml']")
    assert len(seen(scene, user=str(user))["read"]) == 2
    scene.say("user", "[sandbox]\nwrite = ['~/.claude', '~/.codex/config.toml', '~/.claude/projects']")
    assert told(scene, user=str(user)).count(CLOSED["write"]) == 2


def test_a_path_around_the_workspace_is_no_reason_to_refuse_its_project_file(scene: Scene, tmp_path: Path) -> None:
    root = tmp_path / "outer/ws"
    root.mkdir(parents=True)
    (root / "byleave.toml").write_text("")
    scene.say("user", f"[sandbox]\nread = ['{tmp_path}/outer']")
    inner = Scene(root, scene.home, scene.managed)
    assert seen(inner)["read"] == [f"{tmp_path}/outer"]
    scene.say("user", f"[sandbox]\nwrite = ['{root}/byleave.toml']")
    assert CLOSED["write"] in told(inner)


def test_what_trust_would_open_is_listed(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    from byleave.cli.main import main

    (scene.root / "byleave.toml").write_text("[sandbox]\nwrite = ['/opt/cache']\n[tools.t.limits]\nmemory = '1 KB'")
    main(["trust", "--yes", "--root", str(scene.root)])
    said = capsys.readouterr()
    assert 'sandbox = {write = {strategy = "append", value = ["/opt/cache"]}}' in said.out + said.err
    assert "limits = {memory = 1024}" in said.out + said.err


def access(tmp_path: Path, text: str) -> Layer:
    """Read what `byleave run --access mine.toml` reads."""
    (tmp_path / "access.toml").write_text(text)
    return access_layer("run", str(tmp_path / "access.toml"), "mine.toml")


ACCESS = {
    "[acess]\n": 'mine.toml:1: "acess" is no key of this file',
    "[access]\nfs = 7\n": "mine.toml:2: tools.run.access.fs: expected a list of tables or a table, got the number 7",
    '[limits]\nmemory = "many"\n': 'mine.toml:2: "many" is no size',
    "[access\n": "mine.toml:1: the brackets of this table are not closed",
}


@pytest.mark.parametrize(("text", "problem"), ACCESS.items())
def test_what_cannot_be_meant_in_the_access_of_one_run_is_named_with_its_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        access(tmp_path, text)
    assert str(caught.value).startswith(problem)


def test_the_access_of_one_run_holds_for_it_and_its_rules_are_known_by_line(scene: Scene, tmp_path: Path) -> None:
    text = '[limits]\nmemory = "1 GB"\n[[access.fs]]\npath = "src"\nread = true\n'
    policy = scene.workspace.load(extra=[access(tmp_path, text)])
    read = {"kind": "read", "path": "src/a", "tool": "run"}
    verdict = policy.decide(read)
    assert (verdict.decision.word, [ref.source for ref in verdict.because]) == ("allow", ["mine.toml:3"])
    assert policy.compiled.tools["run"].settings["limits"] == {"memory": 1 << 30}
    with pytest.raises(ConfigErrors) as caught:
        scene.workspace.load(extra=[access(tmp_path, text.replace("src", "/etc"))])
    assert str(caught.value).startswith("mine.toml:4: the path of a rule cannot be used")


def test_one_run_without_access_of_its_own_has_what_every_tool_has(scene: Scene) -> None:
    policy = scene.workspace.load(extra=[access_layer("run", None)])
    answers = [policy.decide({"kind": "read", "path": path, "tool": "run"}).decision.word for path in ("a", "/etc/x")]
    assert answers == ["allow", "deny"]


def test_a_path_that_lies_in_byleave_s_places_by_its_text_is_refused_wherever_it_leads(scene: Scene) -> None:
    (scene.home / "link").symlink_to("/opt")
    scene.say("user", f'[sandbox]\nread = ["{scene.home}/link"]\n')
    assert f'reaches "{scene.home}", which byleave keeps to itself' in told(scene)


def test_a_directory_of_the_workspace_that_holds_a_file_of_the_policy_is_not_written_from_a_sandbox(
    scene: Scene,
) -> None:
    file = scene.say("project-local", "")
    scene.say("user", f'[sandbox]\nwrite = ["{scene.root}/.byleave"]\n')
    assert f'reaches "{file}", which no sandbox may change' in told(scene)
    scene.say("user", f'[sandbox]\nread = ["{scene.root}"]\n')
    assert seen(scene)["read"] == [str(scene.root)]


@pytest.mark.parametrize("code", [0, 0x1F, 0x7F, 0x80, 0x9F, 0xD800, 0xDFFF])
def test_a_control_character_in_a_path_is_refused(code: int, scene: Scene) -> None:
    with pytest.raises(ConfigErrors) as caught:
        away(scene).compile_tree({"sandbox": {"read": [f"/a{chr(code)}"]}})
    assert "contains a control character" in str(caught.value)


@pytest.mark.parametrize("char", [" ", "~", "\xa0", "\ud7ff", "\ue000"])
def test_a_letter_beside_the_control_characters_is_taken(char: str, scene: Scene) -> None:
    found = away(scene).compile_tree({"sandbox": {"read": [f"/a{char}b"]}}).compiled.settings["sandbox"]
    assert found == {"read": [f"/a{char}b"], "write": []}


def test_a_file_of_access_is_named_as_the_user_wrote_it_or_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text("[access]\n")
    assert [access_layer("t", str(file), shown).file for shown in ("./access.toml", None)] == [
        "./access.toml",
        str(file),
    ]
