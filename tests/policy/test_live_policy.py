"""A judge lives long, and the workspace changes under it."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from byleave.core.action import Action, CommandAction, FileAction, UrlAction
from byleave.errors import ConfigErrors, InputError
from byleave.policy.live_policy import REVALIDATE_AFTER, LivePolicy
from scene import TOOL, Scene

RULES = """
[[tools.t.access.fs]]
path = "."
read = true
write = true
[[tools.t.access.fs]]
path = "private"
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene.build(tmp_path)
    made.say("user", TOOL + RULES)
    (made.root / "private").mkdir()
    (made.root / "private/x").touch()
    return made


def ask(policy: LivePolicy, kind: str = "read", **fields: Any) -> str:
    return policy.decide({"kind": kind, "tool": "t", **fields}).decision.word


def test_a_denied_directory_that_was_moved_behind_a_link_stays_denied(scene: Scene) -> None:
    policy = scene.load()
    before = ask(policy, path="private/x")
    (scene.root / "private").rename(scene.root / "moved")
    (scene.root / "private").symlink_to("moved")
    policy.expire()
    assert (before, ask(policy, path="moved/x"), ask(policy, path="private/x")) == ("deny", "deny", "deny")


def test_a_moved_path_is_noticed_without_being_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("byleave.policy.live_policy.monotonic", lambda: clock[0])
    policy = scene.load()
    (scene.root / "private").rename(scene.root / "moved")
    (scene.root / "private").symlink_to("moved")
    clock[0] += REVALIDATE_AFTER
    assert ask(policy, path="moved/x") == "deny"


def test_a_rule_that_now_escapes_is_an_error_and_never_an_allow(scene: Scene) -> None:
    policy = scene.load()
    (scene.root / "private/x").unlink()
    (scene.root / "private").rmdir()
    (scene.root / "private").symlink_to("/usr")
    policy.expire()
    for path in ("private/share", "elsewhere", "private"):
        with pytest.raises(ConfigErrors) as caught:
            ask(policy, path=path)
        assert 'config.toml:9: the path "private" leads outside the workspace' in str(caught.value)


def test_the_error_ends_when_the_path_is_mended(scene: Scene) -> None:
    policy = scene.load()
    (scene.root / "private").rename(scene.root / "kept")
    (scene.root / "private").symlink_to("/usr")
    policy.expire()
    with pytest.raises(ConfigErrors):
        ask(policy, path="elsewhere")
    (scene.root / "private").unlink()
    (scene.root / "kept").rename(scene.root / "private")
    assert (ask(policy, path="elsewhere"), ask(policy, path="private/x")) == ("allow", "deny")


def test_a_protected_place_that_was_moved_behind_a_link_stays_protected(scene: Scene) -> None:
    (scene.root / ".git/hooks").mkdir(parents=True)
    policy = scene.load()
    before = ask(policy, "create", path=".git/hooks/post-commit")
    (scene.root / ".git").rename(scene.root / "store")
    (scene.root / ".git").symlink_to("store")
    policy.expire()
    assert (before, ask(policy, "create", path="store/hooks/post-commit")) == ("deny", "deny")


def test_an_approval_that_was_revoked_ends_with_the_next_compile(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "ext").mkdir()
    (scene.root / "ext").symlink_to(tmp_path / "ext")
    scene.say("user", TOOL + '[[tools.t.access.fs]]\npath = "ext"\nexternal = true\nread = true\n' + RULES)
    state = Path(scene.homes.workspace(str(scene.root)))
    state.mkdir(parents=True, mode=0o700)
    approvals = state / "approvals.json"
    approvals.write_text(json.dumps({"mounts": [{"rule_path": "ext", "canonical_target": str(tmp_path / "ext")}]}))
    approvals.chmod(0o600)
    policy = scene.load()
    before = ask(policy, path="ext/x")
    approvals.write_text("{}")
    (scene.root / "private/x").unlink()
    (scene.root / "private").rmdir()
    (scene.root / "private").symlink_to("elsewhere")
    policy.expire()
    assert (before, ask(policy, path="ext/x")) == ("allow", "deny")


def test_an_unchanged_workspace_is_not_compiled_again(scene: Scene) -> None:
    policy = scene.load()
    compiled = policy.compiled
    (scene.root / "new").mkdir()
    policy.expire()
    ask(policy, path="new/x")
    assert policy.compiled is compiled


ACTIONS: list[Mapping[str, Any]] = [
    {"kind": "read", "path": "src", "tool": "t"},
    MappingProxyType({"kind": "read", "path": "src", "tool": "t"}),
]


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_may_be_any_mapping(action: Mapping[str, Any], scene: Scene) -> None:
    assert scene.load().decide(action).decision.word == "allow"


def test_an_action_may_be_a_record(scene: Scene) -> None:
    policy = scene.load()
    actions: list[Action] = [FileAction("read", "src", "t"), UrlAction("https://a.example/", tool="t")]
    assert [policy.decide(action).decision.word for action in actions] == ["allow", "deny"]


@pytest.mark.parametrize("action", [None, 5, "read", [], ["kind"], {}, {"kind": 5}, {"kind": "read"}, {"kind": "fly"}])
def test_what_is_no_action_is_an_input_error(action: Any, scene: Scene) -> None:
    with pytest.raises(InputError):
        scene.load().decide(action)


def test_a_tilde_in_an_agents_path_is_the_users_home_and_not_a_name_in_the_workspace(scene: Scene) -> None:
    scene.say("user", TOOL)
    verdict = scene.load().decide({"kind": "update", "path": "~/.bashrc"})
    assert verdict.canonical == str(scene.home / ".bashrc")


def test_a_link_that_a_path_rule_names_is_looked_at_again(scene: Scene) -> None:
    (scene.root / "one").mkdir()
    (scene.root / "two").mkdir()
    (scene.root / "secret").symlink_to("one")
    scene.say("user", '[[rules]]\ndeny = { path = "secret/**" }\n[[rules]]\nallow = { path = "**" }\n')
    policy = scene.load()
    assert str(policy.decide({"kind": "read", "path": "one/x"}).decision) == "deny"
    (scene.root / "secret").unlink()
    (scene.root / "secret").symlink_to("two")
    policy.expire()
    assert str(policy.decide({"kind": "read", "path": "two/x"}).decision) == "deny"


AGENT = '[agents.a]\nallow.servers = ["db"]\n'


def test_what_an_agent_may_call_is_looked_up_again_after_a_while(scene: Scene) -> None:
    scene.say("user", AGENT)
    policy = scene.load()
    asked = [policy.could_call("a", "db", None)]
    scene.say("user", AGENT.replace("db", "wiki"))
    asked.append(policy.could_call("a", "db", None))
    policy.expire()
    asked.append(policy.could_call("a", "db", None))
    assert asked == [True, True, False]


def test_a_policy_that_follows_no_changes_answers_as_before(scene: Scene) -> None:
    policy = scene.workspace.try_user_file(b'[[rules]]\nallow = { command = "make" }\n', "default")
    compiled = policy.compiled
    scene.say("user", '[[rules]]\ndeny = { command = "make" }\n')
    policy.look_again()
    policy.expire()
    assert policy.decide({"kind": "command", "command": "make"}).allowed
    assert policy.compiled is compiled


def test_another_policy_can_be_asked_in_the_same_workspace(scene: Scene) -> None:
    scene.say("user", '[[rules]]\nallow = { command = "make" }\n')
    here = scene.load()
    scene.say("user", '[[rules]]\ndeny = { command = "make" }\n')
    there = here.under(scene.load().compiled.policy)
    make = {"kind": "command", "command": "make"}
    assert [policy.decide(make).decision.word for policy in (here, there)] == ["allow", "deny"]


SECRETS = '[[rules]]\ndeny = { path = "private/**" }\n[[rules]]\nallow = { path = "**" }\n'
SEARCHES = [
    ("", ".", "ask"),  # no rule at all
    (SECRETS, "private/x", "deny"),
    (SECRETS, "plain", "allow"),
    (SECRETS, ".", "ask"),
    (SECRETS, "gone", "allow"),
    (SECRETS, "plain/x", "deny"),
]


@pytest.mark.parametrize(("rules", "path", "expected"), SEARCHES)
def test_a_search_is_decided_by_its_place_and_by_what_is_closed_below(
    scene: Scene, rules: str, path: str, expected: str
) -> None:
    (scene.root / "plain").touch()
    scene.say("user", rules)
    assert scene.load().decide({"kind": "search", "path": path, "query": "x"}).decision.word == expected


def test_one_line_is_decided_for_who_can_confine_it_and_for_who_cannot(scene: Scene) -> None:
    scene.say("user", '[shell]\n[[rules]]\nallow = { command = "make" }\nsandbox = true\n')
    policy = scene.load()
    assert policy.compiled.read_line is not None
    line = policy.compiled.read_line.read("make")
    answers = [policy.decide_both(CommandAction("make"), read) for read in (line, None)]
    assert [tuple(said.decision.word for said in both) for both in answers] == [("allow", "ask"), ("ask", "ask")]


def test_nothing_has_changed_until_a_file_a_path_or_the_repository_has(scene: Scene) -> None:
    (scene.root / ".git").mkdir()
    policy = scene.load()
    policy.decide({"kind": "create", "path": "new"})  # looks at the repository

    def known_by_name(path: str) -> bool:
        return path == "private"

    def never(path: str) -> bool:
        return not path

    same = [policy.is_as_before(never)]
    (scene.root / "private").rename(scene.root / "moved")
    (scene.root / "private").symlink_to("moved")
    same += [policy.is_as_before(known_by_name), policy.is_as_before(never)]
    (scene.root / "private").unlink()
    (scene.root / "moved").rename(scene.root / "private")
    same.append(policy.is_as_before(never))
    (scene.root / ".git/config").touch()
    same.append(policy.is_as_before(never))
    (scene.root / ".git/config").unlink()
    scene.say("project", "")
    same.append(policy.is_as_before(never))
    assert same == [True, True, False, True, False, False]
