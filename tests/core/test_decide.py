"""From an action to a verdict: whatever is asked is answered, the strictest answer wins, and its reason is told."""

import json
import os
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import byleave
from byleave.core.access import COOPERATIVE, STDIO, VFS, with_defaults
from byleave.core.action import KINDS, SUBSTITUTE, EnvAction, FileAction, UrlAction, parse_action
from byleave.core.decide import decide
from byleave.core.decision import ALLOW, DENY, Verdict, verdict_tree
from byleave.core.env_rules import EnvRule, EnvTable
from byleave.core.file_decision import decide_part_of_move, decide_reading_all
from byleave.core.fs_rules import FsRule, FsTable, FsTarget
from byleave.core.net_rules import NetRule, NetTable
from byleave.core.policy import CompiledPolicy, PolicyView, ToolPolicy
from byleave.core.protected import Protected, builtin_places
from byleave.policy.load import Workspace
from stage import CASES, Stage

Build = Callable[[dict[str, Any] | None], Stage]
ESCAPES = tomllib.loads((CASES / "escapes.toml").read_text())["case"]


def approve(root: Path, mounts: dict[str, str]) -> None:
    """Remember the user's yes to these targets, as `byleave mount` does."""
    workspace = Workspace(str(root))
    directory = workspace.homes.workspace(workspace.root.path)
    os.makedirs(directory, mode=0o700)
    entries = [{"rule_path": path, "canonical_target": target} for path, target in mounts.items()]
    file = os.open(f"{directory}/approvals.json", os.O_WRONLY | os.O_CREAT, 0o600)
    with open(file, "w") as opened:
        json.dump({"mounts": entries}, opened)


def tool(access: dict[str, Any] | None = None, runtime: str = "stdio") -> dict[str, Any]:
    declared = {} if access is None else {"access": access}
    return {"tools": {"t": {"source": "local", "command": ["true"], "runtime": runtime, **declared}}}


@pytest.mark.parametrize("case", ESCAPES, ids=lambda case: case["name"])
def test_no_way_around_the_rules_is_open(case: dict[str, Any], stage: Build, own_home: Path) -> None:
    case = json.loads(json.dumps(case).replace("$HOME", str(own_home)))
    scene = stage(case.get("setup"))
    case = scene.fill(case)
    approve(scene.root, case.get("mounts", {}))
    tree = {**tool(case.get("access"), case.get("runtime", "stdio")), **case.get("policy", {})}
    action = case.get("action") or json.loads(case["action_json"])
    asked = action if case.get("no_tool") else {**action, "tool": "t"}
    verdict = byleave.compile_policy(tree, root=str(scene.root)).decide(asked)
    assert verdict.decision.word == case["expect"], byleave.explain(verdict)
    assert case.get("code", verdict.code) == verdict.code
    assert case.get("says", "") in verdict.reason
    json.dumps(verdict_tree(verdict), ensure_ascii=False).encode()  # every verdict can be sent


REASONS: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    (
        "an allow names its rule",
        tool({"fs": [{"path": "src", "read": True}]}),
        {"kind": "read", "path": "src/lib.rs", "tool": "t"},
        'read on "src/lib.rs" is granted by the rule `fs src: read`',
        "fs src: read",
    ),
    (
        "a denial names the rule that withholds",
        tool({"fs": [{"path": ".", "read": True, "write": True}, {"path": "src", "read": True}]}),
        {"kind": "update", "path": "src/lib.rs", "tool": "t"},
        'update on "src/lib.rs" is denied: the rule `fs src: read` does not grant it',
        "fs src: read",
    ),
    (
        "a denial by a rule spelled otherwise names that rule",
        tool({"fs": [{"path": ".", "read": True}, {"path": "secret"}]}),
        {"kind": "read", "path": "SECRET/x", "tool": "t"},
        'read on "SECRET/x" is denied: the rule `fs secret: nothing` does not grant it',
        "fs secret: nothing",
    ),
    (
        "a denial of a tree names the rule below",
        tool({"fs": [{"path": ".", "read": True, "write": True}, {"path": "src/keep", "read": True}]}),
        {"kind": "delete", "path": "src", "tool": "t"},
        'delete on "src" is denied: the rule `fs src/keep: read` does not grant it',
        "fs src/keep: read",
    ),
    (
        "where no rule reaches, that is said",
        tool({"fs": [{"path": "src", "read": True}]}),
        {"kind": "read", "path": "x", "tool": "t"},
        'read on "x" is denied: no access.fs rule covers it',
        "no access.fs rule covers it",
    ),
    (
        "a link that leads out is named as it was asked for",
        tool({"fs": [{"path": ".", "read": True}]}),
        {"kind": "read", "path": "out/x", "tool": "t"},
        '"out/x" leads outside the workspace; a link out of it needs `external = true` and your approval',
        "fs .: read",
    ),
    (
        "a protected place says so",
        tool(),
        {"kind": "create", "path": ".git/hooks/x", "tool": "t"},
        'create on ".git/hooks/x" is denied: .git/hooks is protected, and no rule names it',
        "protected place .git/hooks",
    ),
    (
        "a move is denied by the part that is",
        tool({"fs": [{"path": ".", "read": True, "write": True}, {"path": "src", "read": True}]}),
        {"kind": "move", "path": "x", "to": "src/x", "tool": "t"},
        'create on "src/x" is denied: the rule `fs src: read` does not grant it',
        "fs src: read",
    ),
    (
        "a variable is named with its rule",
        tool({"env": [{"name": "AWS_*", "read": True}, {"name": "AWS_SECRET"}]}),
        {"kind": "env", "name": "AWS_SECRET", "tool": "t"},
        'reading the variable "AWS_SECRET" is denied: the rule `env AWS_SECRET: nothing` does not grant it',
        "env AWS_SECRET: nothing",
    ),
    (
        "arguments that are not listed are told with those that are",
        tool({"commands": {"cargo": {"args": [["check", "**"]]}}}),
        {"kind": "spawn", "program": "cargo", "args": ["run"], "tool": "t"},
        "starting cargo is denied: its arguments do not match the rule `commands cargo: check **`",
        "commands cargo: check **",
    ),
    (
        "a path that cannot be one says why",
        tool(),
        {"kind": "read", "path": "a\x1b[2J", "tool": "t"},
        '"a\\x1b[2J" contains a control character',
        "how paths are resolved",
    ),
    (
        "without a tool and without a rule, that is said",
        tool(),
        {"kind": "read", "path": "x"},
        'read on "x" needs your approval: no rule matches it',
        "no rule matches",
    ),
]


@pytest.mark.parametrize(
    ("tree", "action", "reason", "rule"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS]
)
def test_the_reason_names_the_deciding_rule_and_it_comes_first(
    tree: dict[str, Any], action: dict[str, Any], reason: str, rule: str, stage: Build
) -> None:
    scene = stage({"files": {"src/keep/x": "x", "x": "x"}, "symlinks": {"out": "$EXT"}})
    verdict = byleave.compile_policy(tree, root=str(scene.root)).decide(action)
    assert (verdict.reason, verdict.because[0].rule) == (reason, rule)
    assert verdict.because[0].decision is verdict.decision


@pytest.mark.parametrize("decision", ["deny", "ask", "allow"])
def test_every_rule_that_had_a_say_in_a_move_is_told(decision: str, stage: Build) -> None:
    rules = {"deny": [{"path": "a", "delete": True}, {"path": "b"}], "allow": [{"path": ".", "write": True}]}
    tree = tool({"fs": rules[decision]} if decision in rules else {"net": [{"host": "h.com"}]}, "vfs")
    verdict = byleave.compile_policy(tree, root=str(stage(None).root)).decide(
        {"kind": "move", "path": "a", "to": "b", "tool": "t"}
    )
    told = {
        "deny": [("fs b: nothing", "deny"), ("fs a: delete", "allow")],
        "ask": [("a vfs tool that declares other access, but none of this type, needs approval", "ask")],
        "allow": [("fs .: create+update+delete", "allow")],
    }
    assert [(ref.rule, ref.decision.word) for ref in verdict.because] == told[decision]
    assert verdict.decision.word == decision


def policy_of(*views: PolicyView) -> CompiledPolicy:
    return CompiledPolicy(views, Protected(builtin_places()))


def view(rules: list[FsRule], *, denies_only: bool = False) -> PolicyView:
    access = with_defaults(STDIO, fs=FsTable(rules))
    return PolicyView("v", {"t": ToolPolicy("t", access)}, denies_only)


RW = {"read": True, "create": True, "update": True, "delete": True}
FORK = FsTarget("/ext/f", None, door="fork/f")
VOICES: list[tuple[str, list[FsRule], list[FsRule], str, FsTarget, str]] = [
    (
        "a managed deny holds against a longer rule",
        [FsRule("", read=True), FsRule("etc/open", read=True)],
        [FsRule("etc")],
        "read",
        FsTarget("/ws/etc/open", "etc/open"),
        "deny",
    ),
    (
        "a managed grant takes no mount away",
        [FsRule("fork", external=True, approved_target="/ext", read=True)],
        [FsRule("", read=True)],
        "read",
        FORK,
        "allow",
    ),
    (
        "a managed deny of everything takes mounts away too",
        [FsRule("fork", external=True, approved_target="/ext", read=True)],
        [FsRule("")],
        "read",
        FORK,
        "deny",
    ),
    (
        "a managed grant does not shut a place that the user's rule names",
        [FsRule(".vscode", **RW)],  # type: ignore[arg-type]
        [FsRule("", **RW)],  # type: ignore[arg-type]
        "create",
        FsTarget("/ws/.vscode/x", ".vscode/x", exists=False),
        "allow",
    ),
    (
        "a managed deny shuts a place that the user's rule names",
        [FsRule(".vscode", **RW)],  # type: ignore[arg-type]
        [FsRule(".vscode", read=True)],
        "create",
        FsTarget("/ws/.vscode/x", ".vscode/x", exists=False),
        "deny",
    ),
]


@pytest.mark.parametrize(
    ("own", "managed", "kind", "place", "expected"), [row[1:] for row in VOICES], ids=[row[0] for row in VOICES]
)
def test_only_denials_of_the_managed_layer_are_judged_apart(
    own: list[FsRule], managed: list[FsRule], kind: str, place: FsTarget, expected: str
) -> None:
    policy = policy_of(view(own), view(managed, denies_only=True))
    verdict = decide(policy, parse_action({"kind": kind, "path": "x", "tool": "t"}), (place,))
    assert (verdict.decision.word, verdict.suggestion) == (expected, None)


def test_what_another_voice_denies_is_not_to_be_had_by_a_rule_of_the_users() -> None:
    place = FsTarget("/ws/x", "x")
    asked = parse_action({"kind": "update", "path": "x", "tool": "t"})
    alone = decide(policy_of(view([FsRule("", read=True)])), asked, (place,))
    joined = decide(policy_of(view([FsRule("", read=True)]), view([FsRule("x")])), asked, (place,))
    assert (alone.suggestion is None, joined.decision, joined.suggestion) == (False, DENY, None)


json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
odd_words = (
    st.text(max_size=12)
    | st.text(alphabet="\0\n\x1b\u202e\u2066\u200b\ud800\udcff/.:\\~*a\"'", max_size=8)
    | st.sampled_from(["", "x", "t", "src", ".git/hooks", "https://h.com/a", "HOME", "byleave", "none", "127.0.0.1"])
)
FIELDS = ("path", "to", "path_b64", "to_b64", "tool", "agent", "url", "method", "address", "name", "program", "args")
fields = st.sampled_from([*FIELDS, "command", "cwd", "server", "arguments", "title", "query"])
actions = st.tuples(
    st.sampled_from(KINDS) | odd_words,
    st.dictionaries(fields, odd_words | st.lists(odd_words, max_size=3) | json_trees, max_size=6),
).map(lambda both: {**both[1], "kind": both[0]})


@given(json_trees | actions)
def test_any_tree_is_an_action_or_an_input_error(tree: Any) -> None:
    said = outcome(lambda: type(parse_action(tree)).__name__)
    assert said.endswith("Action") or ("\n  hint: " in said and is_harmless(said))


HOSTILE = {
    "tools": {
        "t": {
            "source": "local",
            "access": {
                "fs": [
                    {"path": "a\u202eb", "read": True},
                    {"path": "\u200b", "write": True},
                    {"path": "src", "read": True},
                ],
                "env": [{"name": "\x1b[2J\u202e*", "read": True}, {"name": "a", "read": True}],
                "net": [{"host": "h.com", "path_prefix": "/a", "allow": True}],
                "commands": {"\x1b\u202e": {"args": [["\u2066"]]}, "x": {}},
            },
        },
        "v\u202e\x1b": {"source": "local", "runtime": "vfs"},
        "\ud800": {"source": "local", "runtime": "stdio"},
    }
}


def outcome(work: Callable[[], str]) -> str:
    """Return what `work` says, or the text of its input error; any other error is the test's failure."""
    try:
        return work()
    except byleave.InputError as error:
        return str(error)


def is_harmless(text: str) -> bool:
    """Whether a terminal would show the text and do nothing else."""
    text.encode()
    return all(char == "\n" or char.isprintable() for char in text)


def explained(verdict: Verdict) -> str:
    """Return the explanation of a verdict that is whole: it has a reason, a deciding rule, and can be sent."""
    assert verdict.reason
    assert verdict.because[0].decision is verdict.decision
    json.dumps(verdict_tree(verdict), ensure_ascii=False).encode()
    return byleave.explain(verdict)


def answered(policy: byleave.Policy, action: dict[str, Any]) -> str:
    return explained(policy.decide(action))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("hostile")
    (root / "a\u202eb").mkdir()
    (root / "byte").symlink_to(os.fsdecode(b"\xff"))
    os.mkdir(os.fsencode(root) + b"/\xff")
    return str(root)


@given(st.lists(actions, min_size=1, max_size=5), st.sampled_from([None, "t", "v\u202e\x1b", "\ud800"]))
def test_any_action_is_answered_and_explained_in_harmless_words(
    hostile: str, trees: list[dict[str, Any]], name: str | None
) -> None:
    policy = Workspace(hostile).compile_tree(HOSTILE)
    for tree in trees:
        asked = tree if name is None else {**tree, "tool": name}
        assert is_harmless(outcome(partial(answered, policy, asked)))


@pytest.mark.parametrize("thing", [None, 5, "read", ["read"], object()])
def test_what_is_no_action_is_an_input_error(thing: Any) -> None:
    with pytest.raises(byleave.InputError):
        decide(policy_of(view([])), thing)


PATHS = ["x", "src", "src/lib.rs", "src/sub/f", "SRC/lib.rs", "link/f", "out/f", ".git/hooks/x", "new/f", ""]
FILES = {
    "files": {"x": "", "src/lib.rs": "", "src/sub/f": "", "real/f": ""},
    "symlinks": {"link": "real", "out": "$EXT"},
}
rule_trees = st.fixed_dictionaries(
    {"path": st.sampled_from([".", "src", "src/sub", "SRC", "link", "real/f", "new", ".git/hooks", "./src/"])},
    optional={name: st.booleans() for name in ("read", "write", "create", "update", "delete", "execute")},
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage.build(tmp_path_factory.mktemp("scene"), FILES)


def answers(scene: Stage, rules: list[dict[str, Any]], runtime: str) -> list[Verdict]:
    policy = Workspace(str(scene.root)).compile_tree(tool({"fs": rules}, runtime))
    kinds = ("read", "create", "update", "delete", "exec")
    single = [{"kind": kind, "path": path, "tool": "t"} for kind in kinds for path in PATHS]
    moves = [{"kind": "move", "path": one, "to": other, "tool": "t"} for one in PATHS[:4] for other in PATHS[:6]]
    return [policy.decide(action) for action in (*single, *moves)]


@pytest.mark.long
@given(
    st.lists(rule_trees, max_size=4),
    st.sampled_from([".", "src", "src/sub", "SRC", "link", "new"]),
    st.integers(0, 4),
    st.sampled_from(["stdio", "vfs"]),
)
def test_adding_a_deny_to_a_policy_never_loosens_an_answer(
    scene: Stage, rules: list[dict[str, Any]], path: str, place: int, runtime: str
) -> None:
    before = answers(scene, rules, runtime)
    after = answers(scene, [*rules[:place], {"path": path}, *rules[place:]], runtime)
    assert [pair for pair in zip(before, after, strict=True) if pair[1].decision < pair[0].decision] == []


@given(st.lists(rule_trees, max_size=4), st.sampled_from(["stdio", "vfs"]))
def test_whatever_a_policy_allows_lies_in_the_workspace(
    scene: Stage, rules: list[dict[str, Any]], runtime: str
) -> None:
    allowed = [verdict for verdict in answers(scene, rules, runtime) if verdict.decision is ALLOW]
    assert [one for one in allowed if not f"{one.canonical}/".startswith(f"{scene.root}/")] == []


@given(
    st.lists(st.tuples(st.sampled_from(["A", "AB", "A*", "*"]), st.booleans()), max_size=4),
    st.sampled_from(["A", "AB", "B"]),
)
def test_adding_a_deny_of_a_variable_never_loosens_an_answer(rules: list[tuple[str, bool]], name: str) -> None:
    for defaults in (STDIO, VFS, COOPERATIVE):
        tables = [
            EnvTable([EnvRule(*rule) for rule in given_rules]) for given_rules in (rules, [*rules, (name, False)])
        ]
        policies = [
            policy_of(
                PolicyView("v", {"t": ToolPolicy("t", with_defaults(defaults, env=table if table.rules else None))})
            )
            for table in tables
        ]
        before, after = [
            decide(policy, parse_action({"kind": "env", "name": name, "tool": "t"})) for policy in policies
        ]
        assert after.decision >= before.decision


WITHOUT_RULES: list[tuple[dict[str, Any], str]] = [
    ({"kind": "env", "name": "HOME"}, 'reading the variable "HOME"'),
    ({"kind": "spawn", "program": "ls", "args": ["x"]}, "starting ls"),
    ({"kind": "url", "url": "https://h.example/"}, "reaching h.example"),
    ({"kind": "other", "name": "deploy"}, "deploy"),
    ({"kind": "other", "name": "switch_mode"}, "switch_mode"),
    ({"kind": "command", "command": "ls"}, "the command"),
]


@pytest.mark.parametrize(("action", "what"), WITHOUT_RULES)
def test_without_a_tool_and_a_rule_every_kind_of_action_asks(action: dict[str, Any], what: str) -> None:
    verdict = decide(policy_of(view([])), parse_action(action))
    assert (verdict.decision.word, verdict.because[0].rule) == ("ask", "no rule matches")
    assert verdict.reason.replace('"', "").startswith(f"{what} needs your approval".replace('"', ""))


def test_what_other_actions_are_is_asked_where_rules_speak_of_something_else(stage: Build) -> None:
    tree = {"rules": [{"allow": {"command": "ls"}}]}
    policy = byleave.compile_policy(tree, root=str(stage(None).root))
    for name, expected in (("deploy", "ask"), ("think", "allow")):
        assert policy.decide({"kind": "other", "name": name}).decision.word == expected


def test_a_substituted_variable_is_asked_about_as_such() -> None:
    verdict = decide(policy_of(view([])), EnvAction("TOKEN", way=SUBSTITUTE))
    assert verdict.reason.startswith("using the variable")


def test_what_the_proxy_refuses_is_denied_whatever_the_rules_allow() -> None:
    access = with_defaults(STDIO, net=NetTable([NetRule("h.example", allow=True)]))
    policy = policy_of(PolicyView("v", {"t": ToolPolicy("t", access)}))
    asked = UrlAction("https://h.example/", tool="t")
    assert decide(policy, asked).decision is ALLOW
    refused = decide(policy, asked.replace(refused="too many connections"))
    assert (refused.decision, refused.because[0].rule) == (DENY, "limits of the proxy")
    assert refused.reason == "reaching https://h.example is denied: too many connections"


def test_a_part_of_a_move_is_denied_with_all_below_it_and_suggests_nothing() -> None:
    policy = policy_of(view([FsRule("", **RW), FsRule("src/keep", read=True)]))  # type: ignore[arg-type]
    place = FsTarget("/ws/src", "src", directory=True)
    alone = decide_part_of_move(policy, place, "delete", tool="t")
    whole = decide_part_of_move(policy, place, "delete", tree=True, tool="t")
    assert (alone.decision, whole.decision, whole.suggestion) == (ALLOW, DENY, None)
    asked = decide_part_of_move(policy, FsTarget("/ext/x", None), "create")
    assert (asked.decision.word, asked.suggestion) == ("ask", None)


def test_reading_a_directory_is_denied_where_a_rule_below_it_withholds() -> None:
    policy = policy_of(view([FsRule("", read=True), FsRule("src/secret")]))
    for path, directory, expected in (("src", True, DENY), ("src", False, ALLOW), ("doc", True, ALLOW)):
        place = FsTarget(f"/ws/{path}", path, directory=directory)
        assert decide_reading_all(policy, path, "t", place).decision is expected


def test_a_denied_file_with_several_names_has_no_suggestion() -> None:
    strict = policy_of(view([FsRule("", read=True)])).replace(strict_links=True)
    asked = FileAction("update", "x", "t")
    one, two = (decide(strict, asked, (FsTarget("/ws/x", "x", links=links),)) for links in (1, 2))
    assert (one.decision, two.decision) == (DENY, DENY)
    assert (one.suggestion is None, two.suggestion) == (False, None)
    opened = policy_of(view([FsRule("", **RW)])).replace(strict_links=True)  # type: ignore[arg-type]
    asks = decide(opened, asked, (FsTarget("/ws/x", "x", links=2),))
    assert (asks.decision.word, asks.because[0].rule) == ("ask", "strict_links")
