"""What is said of a configuration that cannot be used: every word of it, with its place and with what to do about it.

The cases: `refused_configurations.toml`.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from byleave.errors import ConfigErrors
from byleave.policy.compile import compile_layers
from byleave.policy.context import CompileContext
from byleave.policy.layers import COMMAND_LINE, Layer
from byleave.policy.parse import parse_file
from byleave.workspace.resolve import Root
from scene import Scene

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("refused_configurations.toml").read_text())["case"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A workspace with a directory, and with links to elsewhere, to what holds the workspace and to byleave's files."""
    base = tmp_path_factory.mktemp("refused")
    scene = Scene.build(base)
    (scene.root / "src").mkdir()
    for name, target in (("out", base / "etc"), ("above", base), ("ours", scene.home)):
        (scene.root / name).symlink_to(target)
    return scene


def told(scene: Scene, text: str, *, home: bool = True) -> str:
    """Return what is said of a file with this text that is given on the command line."""
    homes = scene.homes if home else scene.homes.replace(user="")
    with pytest.raises(ConfigErrors) as caught:
        compile_file(text.encode(), CompileContext(Root(str(scene.root)), homes=homes))
    return str(caught.value)


def compile_file(content: bytes, context: CompileContext) -> None:
    layer = Layer(COMMAND_LINE, parse_file(content, "policy.toml"), "policy.toml", content)
    compile_layers([layer], context)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_cannot_be_used_is_said_with_its_place_and_a_hint(case: dict[str, Any], scene: Scene) -> None:
    assert told(scene, case["text"], home=case.get("home", True)) == case["told"].rstrip("\n")


@pytest.mark.parametrize(
    ("path", "relative"), [("$ROOT/src/", "src"), ("$ROOT/a/b", "a/b"), ("$ROOT/X/aX", "X/aX"), ("$ROOT", ".")]
)
def test_an_absolute_path_in_the_workspace_is_refused_with_its_relative_form(
    path: str, relative: str, scene: Scene
) -> None:
    path = path.replace("$ROOT", str(scene.root))
    said = told(scene, f'[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "{path}"\n')
    assert f'the path of a rule cannot be used: "{path}" is absolute' in said
    assert said.endswith(f'\n  hint: write the relative form: path = "{relative}"')


def test_a_path_that_climbs_out_of_the_whole_machine_is_no_absolute_one() -> None:
    text = b'[tools.t]\nsource = "local"\n[[tools.t.access.fs]]\npath = "../x"\n'
    with pytest.raises(ConfigErrors) as caught:
        compile_file(text, CompileContext(Root("/")))
    assert str(caught.value).endswith("\n  hint: write a path relative to the workspace root")


@pytest.mark.parametrize(
    ("key", "path", "whose"),
    [
        ("read", "~", "byleave keeps to itself"),
        ("write", "~/x", "no sandbox may change"),
    ],
)
def test_a_path_of_the_sandbox_that_reaches_byleave_s_files_is_refused_by_the_place(
    key: str, path: str, whose: str, scene: Scene
) -> None:
    said = told(scene, f'[sandbox]\n{key} = ["{path}"]\n')
    assert f'"{path}" reaches "{scene.home}", which {whose}' in said
    assert said.endswith("\n  hint: name a path that neither holds it nor lies in it")
