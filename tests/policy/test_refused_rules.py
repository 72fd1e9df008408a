"""What cannot be meant in a configuration is refused in words, with what to write instead."""

from pathlib import Path

import pytest

from byleave.errors import ConfigErrors
from scene import TOOL, Scene

REFUSED = {
    "a switch that is off": ('[[rules]]\ndeny = { command = "a", piped_to_shell = false }', "= false has no effect"),
    "a text in an allow": ('[[rules]]\nallow = { text = "git push" }', "text only tightens"),
    "an empty text": ('[[rules]]\ndeny = { text = " " }', "the text is empty"),
    "a prefix that no URL has": (
        '[[rules]]\nallow = { url = { host = "a.example", path_prefix = "a?b" } }',
        "no URL can",
    ),
    "no URL at all": ("[[rules]]\nask = { url = {} }", "this matches nothing"),
    "an agent with an open bracket": ('[[rules]]\nask = { command = "a", agent = "[x" }', '"[" is not closed'),
    "an open bracket in sensitive_paths": ('sensitive_paths = ["[a"]', "not closed"),
    "no scheme": (TOOL + '[[tools.t.access.net]]\nhost = "a.example"\nscheme = "https://"', "is no scheme"),
    "a path_prefix that no URL has": (
        TOOL + '[[tools.t.access.net]]\nhost = "a.example"\npath_prefix = "a?b"\nallow = true',
        "no URL can match the path_prefix",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(name: str, tmp_path: Path) -> None:
    text, problem = REFUSED[name]
    scene = Scene.build(tmp_path)
    with pytest.raises(ConfigErrors) as caught:
        scene.load(scene.say("command line", text))
    assert problem in str(caught.value)
    assert "hint: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[defaults]\nask_timeout = 5\n", "defaults.ask_timeout holds only in your own file"),
        ('[store]\nurl = "postgresql://db.example/x"\n', "store holds only in your own file"),
    ],
)
def test_what_only_the_user_says_is_left_out_of_a_project(text: str, said: str, tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    scene.say("project", text)
    scene.trust()
    assert any(said in warning for warning in scene.load().warnings)
