"""Links that a tool or an agent deletes, moves or lays: what a rule leads through stays where it is."""

from pathlib import Path

import pytest

from byleave.core.decision import Verdict
from byleave.policy.live_policy import LivePolicy
from scene import TOOL, Scene

ALL = '[[tools.t.access.fs]]\npath = "."\nread = true\nwrite = true\n'
THROUGH = "a rule leads through this link, or through one in it"
WOULD_LEAD = "a rule names this place, and would lead through the link"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene.build(tmp_path)
    for name in ("d", "src", "lib-1"):
        (made.root / name).mkdir()
    for name in ("f", "src/a", "d/x"):
        (made.root / name).touch()
    (made.root / "d/gen").symlink_to("../src")
    (made.root / "lib").symlink_to("lib-1")
    (made.root / "link").symlink_to("src")
    (made.root / "loop").symlink_to("loop")
    (made.root / "process").symlink_to("/proc/self/cwd/f")
    return made


def moved(policy: LivePolicy, path: str, to: str) -> Verdict:
    return policy.decide({"kind": "move", "path": path, "to": to, "tool": "t"})


def test_a_link_that_a_directory_of_a_rule_leads_through_is_not_removed(scene: Scene) -> None:
    scene.say("user", f'{TOOL}{ALL}[[rules]]\nallow = {{ command = "make", within = "lib" }}\n')
    policy = scene.load()
    said = policy.decide({"kind": "delete", "path": "lib", "tool": "t"})
    assert (said.decision.word, said.reason.endswith(THROUGH)) == ("deny", True)
    assert policy.decide({"kind": "delete", "path": "link", "tool": "t"}).allowed


def test_no_link_is_laid_where_a_rule_would_lead_through_it(scene: Scene) -> None:
    (scene.root / ".vscode").symlink_to(".vscode")  # a protected place that cannot be reached
    closed = '[[tools.t.access.fs]]\npath = "new/gen"\n'
    rules = '[[rules]]\nallow = { command = "make", within = "other/gen" }\n[[rules]]\ndeny = { path = "loop/x/**" }\n'
    scene.say("user", f"{TOOL}{ALL}{closed}{rules}")
    policy = scene.load()
    tried = [
        ("link", "new"),
        ("d", "other"),
        ("link", "other"),
        ("d", "free"),
        ("f", "new"),
        ("f", "src"),
        ("src", "f/x"),
    ]
    answers = [
        (said.decision.word, said.reason.endswith(WOULD_LEAD)) for said in [moved(policy, *each) for each in tried]
    ]
    assert answers == [
        ("deny", True),  # new/gen would be src/gen, which nothing closes
        ("deny", True),  # other/gen would be the link
        ("deny", True),
        ("allow", False),
        ("allow", False),
        ("allow", False),
        ("deny", False),  # below a file
    ]


def test_a_link_that_leads_nowhere_is_deleted_and_one_of_a_process_is_not(scene: Scene) -> None:
    scene.say("user", TOOL + ALL)
    policy = scene.load()
    answers = [policy.decide({"kind": "delete", "path": path, "tool": "t"}) for path in ("loop", "process")]
    assert [(said.decision.word, said.code) for said in answers] == [("allow", "ok"), ("deny", "escape")]


def test_a_link_in_a_closed_directory_is_not_for_an_agent_to_delete_wherever_it_leads(scene: Scene) -> None:
    scene.say("user", '[[rules]]\ndeny = { path = "d/**" }\n[[rules]]\nallow = { path = "**" }\n')
    policy = scene.load()
    tried = [
        ("delete", "d/gen", {}),
        ("move", "d/gen", {"to": "g"}),
        ("move", "link", {"to": "g"}),
        ("delete", "f", {}),
    ]
    answers = [policy.decide({"kind": kind, "path": path, **more}).decision.word for kind, path, more in tried]
    assert answers == ["deny", "deny", "allow", "allow"]


def test_a_protected_place_that_could_not_be_reached_is_looked_at_again(scene: Scene) -> None:
    scene.say("user", '[[rules]]\nallow = { path = "**" }\n')
    (scene.root / ".vscode").symlink_to(".vscode")
    policy = scene.load()
    written = {"kind": "create", "path": "d/tasks.json"}
    before = policy.decide(written).decision.word
    (scene.root / ".vscode").unlink()
    (scene.root / ".vscode").symlink_to("d")
    policy.expire()
    assert (before, policy.decide(written).decision.word) == ("allow", "ask")
