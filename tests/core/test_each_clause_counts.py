"""Each clause of a decision counts: without it, what is denied or asked about here would be allowed, or the reverse.

Found by `make mutants`: a change of the clause went unnoticed by every other test.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.access import COOPERATIVE, SERVER, STDIO, VFS, Access, with_defaults
from byleave.core.action import parse_action
from byleave.core.command_rules import CommandRule, CommandTable
from byleave.core.decide import decide
from byleave.core.decision import Verdict
from byleave.core.env_rules import EnvRule, EnvTable
from byleave.core.fs_rules import FsRule, FsTable, FsTarget, RefusedPath, is_under
from byleave.core.net_rules import NetRule, NetTable, may_dial
from byleave.core.policy import CompiledPolicy, PolicyView, ToolPolicy
from byleave.core.protected import Protected, Protection, builtin_places, is_place, next_steps, resolved_places
from byleave.errors import InputError
from byleave.workspace.resolve import Root
from stage import Stage

Build = Callable[[dict[str, Any] | None], Stage]
READ_WRITE = {"path": ".", "read": True, "write": True}
NO_PLACES = Protected(builtin_places())


def tool(access: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tools": {"t": {"source": "local", "command": ["true"], "runtime": "stdio", "access": access, **more}}}


RULES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "a rule that denies a host holds for a tool that may reach it",
        {**tool({"net": [{"host": "h.com", "allow": True}]}), "rules": [{"deny": {"url": {"host": "h.com"}}}]},
        {"kind": "url", "url": "https://h.com/", "tool": "t"},
        "deny",
    ),
    (
        "a rule that denies a path holds for a tool that may read it",
        {**tool({"fs": [READ_WRITE]}), "rules": [{"deny": {"path": "x"}}]},
        {"kind": "read", "path": "x", "tool": "t"},
        "deny",
    ),
    (
        "a rule that denies an operation holds for a tool that may do it",
        {**tool({"fs": [READ_WRITE]}), "rules": [{"deny": {"operation": "edit"}}]},
        {"kind": "update", "path": "x", "tool": "t"},
        "deny",
    ),
    (
        "a rule that denies to search holds for a tool that may read",
        {**tool({"fs": [READ_WRITE]}), "rules": [{"deny": {"operation": "search"}}]},
        {"kind": "search", "path": ".", "tool": "t"},
        "deny",
    ),
    (
        "a rule that denies to move holds where the parts of a move are allowed",
        {**tool({"fs": [READ_WRITE]}), "rules": [{"deny": {"operation": "move"}}]},
        {"kind": "move", "path": "x", "to": "y", "tool": "t"},
        "deny",
    ),
    (
        "a rule that denies to think is obeyed",
        {"rules": [{"deny": {"operation": "think"}}]},
        {"kind": "other", "name": "think"},
        "deny",
    ),
    (
        "a rule for every path does not open a protected place",
        {"rules": [{"allow": {"path": "**"}}]},
        {"kind": "update", "path": ".git/hooks/x"},
        "ask",
    ),
    (
        "a variable without a name is denied, whatever the rules say",
        tool({"env": [{"name": "*", "read": True}]}),
        {"kind": "env", "name": "", "tool": "t"},
        "deny",
    ),
    (
        "a variable with a null character is denied, whatever the rules say",
        tool({"env": [{"name": "A*", "read": True}]}),
        {"kind": "env", "name": "A\0B", "tool": "t"},
        "deny",
    ),
    (
        "a directory may be read whose content may not be deleted",
        tool({"fs": [READ_WRITE, {"path": "src/keep", "read": True}]}),
        {"kind": "read", "path": "src", "tool": "t"},
        "allow",
    ),
    (
        "a directory whose content may not be deleted is not deleted",
        tool({"fs": [READ_WRITE, {"path": "src/keep", "read": True}]}),
        {"kind": "delete", "path": "src", "tool": "t"},
        "deny",
    ),
    (
        "a move from what is no path is denied",
        tool({"fs": [READ_WRITE]}),
        {"kind": "move", "path": "a\x1b", "to": "y", "tool": "t"},
        "deny",
    ),
]


@pytest.mark.parametrize(("tree", "action", "expected"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_the_strictest_of_tool_and_rules_decides(
    tree: dict[str, Any], action: dict[str, Any], expected: str, stage: Build
) -> None:
    scene = stage({"files": {"src/keep/x": "x", "x": "x"}})
    verdict = byleave.compile_policy(tree, root=str(scene.root)).decide(action)
    assert verdict.decision.word == expected, byleave.explain(verdict)


@pytest.mark.parametrize(
    ("strict", "kind", "links", "expected"),
    [
        (True, "update", 2, "ask"),
        (True, "delete", 2, "ask"),
        (True, "update", 1, "allow"),
        (True, "read", 2, "allow"),
        (False, "update", 2, "allow"),
    ],
)
def test_a_file_with_several_names_is_asked_about_before_it_is_written(
    *, strict: bool, kind: str, links: int, expected: str
) -> None:
    policy = CompiledPolicy(
        (PolicyView("v", {"t": ToolPolicy("t", with_defaults(STDIO))}),), NO_PLACES, strict_links=strict
    )
    place = FsTarget("/ws/x", "x", links=links)
    assert decide(policy, parse_action({"kind": kind, "path": "x", "tool": "t"}), (place,)).decision.word == expected


MOUNT = FsRule("m", external=True, approved_target="/ext", read=True, create=True, update=True, delete=True)
INSIDE = FsRule("", read=True, create=True, update=True, delete=True)


@pytest.mark.parametrize(
    ("action", "places"),
    [
        ({"kind": "delete", "path": "m"}, (FsTarget("/ext", None, door="m", directory=True),)),
        (
            {"kind": "move", "path": "m", "to": "y"},
            (FsTarget("/ext", None, door="m"), FsTarget("/ws/y", "y", exists=False)),
        ),
        ({"kind": "move", "path": "x", "to": "m"}, (FsTarget("/ws/x", "x"), FsTarget("/ext", None, door="m"))),
    ],
    ids=["delete", "move it away", "move over it"],
)
def test_a_mount_itself_is_neither_deleted_nor_moved_nor_replaced(
    action: dict[str, Any], places: tuple[FsTarget, ...]
) -> None:
    verdict = answered(action, places, with_defaults(STDIO, fs=FsTable([INSIDE, MOUNT])))
    assert (verdict.decision.word, "it is a mount" in verdict.reason) == ("deny", True)


def test_what_lies_in_a_mount_may_be_deleted() -> None:
    place = FsTarget("/ext/f", None, door="m/f")
    access = with_defaults(STDIO, fs=FsTable([INSIDE, MOUNT]))
    assert answered({"kind": "delete", "path": "m/f"}, (place,), access).decision.word == "allow"


def answered(
    action: dict[str, Any], places: tuple[FsTarget | RefusedPath, ...], own: Access, managed: Access | None = None
) -> Verdict:
    """Return the verdict for a tool with this access, beside a managed layer of which only denials count."""
    views = [PolicyView("own", {"t": ToolPolicy("t", own)})]
    if managed is not None:
        views.append(PolicyView("managed", {"t": ToolPolicy("t", managed)}, denies_only=True))
    return decide(CompiledPolicy(tuple(views), NO_PLACES), parse_action({**action, "tool": "t"}), places)


def test_a_tool_without_rules_for_files_does_not_open_a_protected_place() -> None:
    place = FsTarget("/ws/.git/hooks/x", ".git/hooks/x", exists=False)
    assert answered({"kind": "create", "path": "x"}, (place,), COOPERATIVE).decision.word == "deny"


def test_a_tool_that_is_not_configured_is_an_input_error_even_for_what_is_no_path() -> None:
    policy = CompiledPolicy((PolicyView("v", {}),), NO_PLACES)
    with pytest.raises(InputError, match="no tool named"):
        decide(policy, parse_action({"kind": "read", "path": "x", "tool": "t"}), (RefusedPath("escape", "no path"),))


PUBLIC = [
    ({"url": "https://h.com/"}, "allow"),
    ({"url": "https://h.com/", "address": "93.184.216.34"}, "allow"),
    ({"url": "https://h.com/", "address": "10.0.0.1"}, "deny"),
    ({"url": "https://10.0.0.1/"}, "deny"),
    ({"url": "http://localhost/"}, "deny"),
]


@pytest.mark.parametrize(("asked", "expected"), PUBLIC, ids=[str(asked) for asked, _ in PUBLIC])
def test_a_server_without_access_reaches_public_addresses_only(asked: dict[str, Any], expected: str) -> None:
    assert answered({"kind": "url", **asked}, (), SERVER).decision.word == expected


def test_a_default_without_network_is_not_the_one_for_public_addresses() -> None:
    assert answered({"kind": "url", "url": "http://10.0.0.1/"}, (), COOPERATIVE).decision.word == "allow"


def net(*rules: NetRule) -> Access:
    return with_defaults(STDIO, net=NetTable(rules))


def env(*rules: EnvRule) -> Access:
    return with_defaults(STDIO, env=EnvTable(rules))


def commands(*rules: CommandRule) -> Access:
    return with_defaults(STDIO, commands=CommandTable(rules))


URL, ENV, SPAWN = {"kind": "url", "url": "https://h.com/"}, {"kind": "env", "name": "A"}, {"kind": "spawn"}
GIT = {**SPAWN, "program": "git", "args": ["push"]}
MANAGED: list[tuple[str, dict[str, Any], Access, Access, str]] = [
    ("a host that is denied", URL, net(NetRule("h.com", allow=True)), net(NetRule("h.com")), "deny"),
    ("a host that is not named", URL, net(NetRule("h.com", allow=True)), net(NetRule("x.com")), "allow"),
    ("a variable that is denied", ENV, env(EnvRule("A", read=True)), env(EnvRule("A")), "deny"),
    ("a variable that is not named", ENV, env(EnvRule("A", read=True)), env(EnvRule("B")), "allow"),
    ("arguments that are denied", GIT, commands(CommandRule("git")), commands(CommandRule("git", (("x",),))), "deny"),
    ("a program that is not named", GIT, commands(CommandRule("git")), commands(CommandRule("ls")), "allow"),
    ("a default for hosts", URL, net(NetRule("h.com", allow=True)), STDIO, "allow"),
    ("a default for variables", ENV, env(EnvRule("A", read=True)), VFS, "allow"),
    ("a default for programs", GIT, commands(CommandRule("git")), VFS, "allow"),
]


@pytest.mark.parametrize(
    ("action", "own", "managed", "expected"), [row[1:] for row in MANAGED], ids=[row[0] for row in MANAGED]
)
def test_what_the_managed_layer_denies_by_a_rule_is_denied_and_its_silence_is_not(
    action: dict[str, Any], own: Access, managed: Access, expected: str
) -> None:
    assert answered(action, (), own, managed).decision.word == expected


SAID: list[tuple[dict[str, Any], Access, str, str, str]] = [
    (URL, net(NetRule("h.com")), "denied", "the rule `deny h.com` matches it", "deny h.com"),
    (URL, net(NetRule("x.com")), "denied", "no network rule of this tool covers it", "no access.net rule covers it"),
    (URL, net(NetRule("h.com", allow=True)), "ok", "allowed by the rule `allow h.com`", "allow h.com"),
    (ENV, env(EnvRule("A")), "denied", "the rule `env A: nothing` does not grant it", "env A: nothing"),
    (ENV, env(EnvRule("A", read=True)), "ok", "allowed by the rule `env A: read`", "env A: read"),
    (GIT, commands(CommandRule("git")), "ok", "allowed by the rule `commands git: any", "commands git: any arguments"),
    (GIT, commands(CommandRule("ls")), "denied", "is not listed for this tool", "no access.commands entry lists it"),
    ({**URL, "url": "https://h.com:x/"}, STDIO, "bad_url", "", "how URLs are read"),
    (
        {**URL, "address": "10.0.0.1"},
        net(NetRule("h.com", allow=True)),
        "denied",
        "not a public address",
        "private addresses (allow h.com)",
    ),
]


@pytest.mark.parametrize(("action", "access", "code", "reason", "rule"), SAID, ids=[row[2] + row[4] for row in SAID])
def test_a_verdict_has_its_code_and_names_its_rule(
    action: dict[str, Any], access: Access, code: str, reason: str, rule: str
) -> None:
    verdict = answered(action, (), access)
    assert (verdict.code, verdict.because[0].rule, reason in verdict.reason) == (code, rule, True)


@pytest.mark.parametrize("action", [URL, ENV, GIT], ids=["url", "env", "spawn"])
def test_what_is_allowed_needs_no_suggestion(action: dict[str, Any]) -> None:
    verdict = answered(action, (), COOPERATIVE)
    assert (verdict.decision.word, verdict.suggestion) == ("allow", None)


def test_an_allowed_move_needs_no_suggestion_and_an_allowed_delete_no_rule() -> None:
    places = (FsTarget("/ws/x", "x"), FsTarget("/ws/y", "y", exists=False))
    move = answered({"kind": "move", "path": "x", "to": "y"}, places, COOPERATIVE)
    delete = answered({"kind": "delete", "path": "x"}, places[:1], COOPERATIVE)
    assert [(each.decision.word, each.suggestion) for each in (move, delete)] == [("allow", None)] * 2


@pytest.mark.parametrize("path", ["/a/%2e/x", "/a/x/../y", "/a//x"])
def test_a_denied_path_holds_though_what_follows_its_question_mark_climbs_above_the_root(path: str) -> None:
    rules = [NetRule("h.com", allow=True), NetRule("h.com", path_prefix="/a?/../../b")]
    asked = {"kind": "url", "url": f"https://h.com{path}"}
    assert answered(asked, (), with_defaults(STDIO, net=NetTable(rules))).decision.word == "deny"


NEIGHBOURS = [
    *("1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
    *("169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0"),
    *("192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
    *("198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"),
    *("2001:200::", "2001:db7:ffff::", "2001:db9::", "3ffe:ffff::", "3fff:1000::"),
]


@pytest.mark.parametrize("address", NEIGHBOURS)
def test_an_address_beside_a_network_that_is_not_public_is_public(address: str) -> None:
    assert may_dial(NetRule("h.com", allow=True), address)


def test_a_tree_is_withheld_by_a_rule_below_and_by_no_other() -> None:
    table = FsTable([INSIDE, FsRule("zz", read=True)])
    found = [table.denying_below(path, "delete") for path in ("", "z", "a")]
    assert [rule and rule.path for rule in found] == ["zz", None, None]


def test_a_rule_that_opens_all_of_the_machine_is_not_below_the_root() -> None:
    table = FsTable([FsRule("m", external=True, approved_target="/", read=True)])
    assert table.withheld_below(FsTarget("/", None, directory=True), "delete") is None


def test_everything_is_below_the_root() -> None:
    assert [is_under(path, "/") for path in ("/", "/a", "/a/b")] == [True, True, True]


@pytest.fixture
def places() -> Protected:
    return Protected(
        [Protection("tools", "a/b/tools", final=False), Protection("x", "a/x", final=True)],
        ["/own", "/ws/own"],
        [Protection("bin", "/home/u/bin", final=False)],
    )


@pytest.mark.parametrize(
    ("target", "subtree", "expected"),
    [
        (FsTarget("/ws/a/b", "a/b", directory=True), True, "tools"),
        (FsTarget("/ws/a/b", "a/b", directory=True), False, None),
        (FsTarget("/ext/y", None, door="a/b/tools/y"), False, "tools"),
        (FsTarget("/home/u", None, directory=True), True, "bin"),
    ],
    ids=["a tree around it", "the directory around it", "through a link out of the workspace", "around one outside"],
)
def test_a_place_that_was_found_is_protected_from_above_and_by_its_name(
    places: Protected, target: FsTarget, *, subtree: bool, expected: str | None
) -> None:
    protection = places.of(target, subtree=subtree)
    assert (protection and protection.place) == expected


def test_places_are_known_by_where_they_are(places: Protected) -> None:
    assert {place.path for place in places.outside()} == {"/own", "/ws/own", "/home/u/bin"}
    assert {place.path for place in places.inside()} == {"a/b/tools", "a/x"}


def test_of_two_places_of_one_name_the_final_one_counts() -> None:
    final, plain = (Protection("x", "x", final=final) for final in (True, False))
    found = [Protected(both).of(FsTarget("/ws/x", "x"), subtree=False) for both in ([final, plain], [plain, final])]
    assert found == [final, final]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (FsTarget("/ws", "", directory=True), {"/ws/own", "/ws/a/x"}),
        (FsTarget("/ws/a", "a", directory=True), {"/ws/a/x"}),
        (FsTarget("/ws/b", "b", directory=True), set()),
        (FsTarget("/ws/.git", ".git", directory=True), set()),
        (FsTarget("/", None, directory=True), {"/own", "/ws/own"}),
        (FsTarget("/home/u/.claude", None, directory=True), {"/home/u/.claude/settings.json"}),
    ],
    ids=lambda each: each.canonical if isinstance(each, FsTarget) else "",
)
def test_the_paths_that_no_rule_opens_are_those_below_a_directory(
    places: Protected, target: FsTarget, expected: set[str]
) -> None:
    found = set(places.final_below(target))
    assert found & {"/own", "/ws/own", "/ws/a/x", "/home/u/bin", "/ws/a/b/tools"} == expected - {
        "/home/u/.claude/settings.json"
    }
    assert expected <= found
    assert not [path for path in found if path.endswith("hooks")]  # protected, but a rule can open them


@pytest.mark.parametrize(
    ("path", "expected"), [(".git/hooks", True), (".git", False), ("src", False), ("a/.vscode", True)]
)
def test_a_name_is_a_place_where_it_ends_a_pattern(path: str, *, expected: bool) -> None:
    steps: Any = ()
    for name in path.split("/"):
        steps = next_steps(steps, name)
    assert is_place(steps) is expected


def test_a_rule_for_names_at_every_depth_names_a_place_of_several_names() -> None:
    place = Protection("sub/.git/hooks", "sub/.git/hooks", final=False, name=".git/hooks")
    assert [place.named_anywhere_by(names) for names in ((".git", "hooks"), (".git",), ("hooks",))] == [
        True,
        False,
        False,
    ]


def test_a_place_that_leads_to_the_workspace_itself_does_not_protect_all_of_it(stage: Build) -> None:
    root = Root(str(stage({"files": {"x": "x"}, "symlinks": {".claude": "."}}).root))
    protected = Protected(resolved_places(root.resolve_rule))
    assert protected.of(FsTarget(f"{root.path}/x", "x"), subtree=False) is None


def test_a_workspace_whose_name_ends_like_a_place_is_not_one() -> None:
    target = FsTarget("/home/u/my.code-workspace", "", directory=True)
    assert NO_PLACES.of(target, subtree=False) is None


@pytest.mark.parametrize("kind", ["read", "update"])
def test_what_one_view_alone_allows_is_asked_about(kind: str, tmp_path: Path) -> None:
    rules = byleave.compile_policy({"rules": [{"allow": {"path": "**"}}]}, root=str(tmp_path)).compiled.policy.views[0]
    silent = PolicyView("user", {}, rules=None)
    place, action = FsTarget("/ws/x", "x"), parse_action({"kind": kind, "path": "x"})
    both, alone = (CompiledPolicy(views, NO_PLACES) for views in ((silent, rules), (rules,)))
    assert [decide(policy, action, (place,)).decision.word for policy in (both, alone)] == ["ask", "allow"]
