"""Clauses of file rules, network rules and protected places that no whole verdict shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.access import COOPERATIVE, with_defaults
from byleave.core.action import parse_action
from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, RuleRef, Verdict
from byleave.core.file_decision import decide_part_of_move, with_grants
from byleave.core.fs_rules import FsRule, FsTable, FsTarget, RefusedPath, fold
from byleave.core.net_rules import NetRule, NetTable, decide_net
from byleave.core.policy import CompiledPolicy, PolicyView, ToolPolicy
from byleave.core.protected import (
    Protected,
    Protection,
    builtin_places,
    leads_on,
    next_steps,
    patterns_after,
    resolved_places,
)
from byleave.core.url import Target, parse_url


def test_a_rule_that_was_dropped_stays_dropped_under_a_narrower_one_and_keeps_all_of_its_names() -> None:
    gone = FsRule("a", read=True, dropped="it leads elsewhere", written=("l",))
    narrowed = gone.narrowed_by(FsRule("b", read=True, written=("m",)))
    assert (narrowed.dropped, narrowed.written) == ("it leads elsewhere", ("l", "m"))


IGNORED = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180f\u200b\u200f\u202a\u202e\u2060\u206f\u3164\ufe00\ufe0f"


@pytest.mark.parametrize("letter", [*IGNORED, "\ufeff", "\uffa0", "\ufff0", "\ufff8", "\U0001bca0", "\U000e0fff"])
def test_a_letter_that_some_file_systems_ignore_makes_no_other_name(letter: str) -> None:
    assert fold(f"sec{letter}ret") == "secret"


@pytest.mark.parametrize("letter", ["\u00ac", "\u00ae", "\u034e", "\u0350", "\u200a", "\u2010", "\u206e0", "\ufff9"])
def test_a_letter_beside_those_makes_another_name(letter: str) -> None:
    assert fold(f"sec{letter}ret") != "secret"


def test_a_tree_is_withheld_by_a_rule_below_the_root_though_the_rule_for_the_root_withholds_it_too() -> None:
    below = FsRule("a", read=True)
    assert FsTable([FsRule("", read=True), below]).denying_below("", "update") == below


@pytest.mark.parametrize(
    ("place", "found"), [("/", True), ("/e", True), ("/e/x", False), ("/e/xX", False), ("/X", False)]
)
def test_a_mount_that_withholds_is_found_below_every_directory_above_its_target(place: str, *, found: bool) -> None:
    mount = FsRule("m", external=True, approved_target="/e/x", read=True)
    withheld = FsTable([mount]).withheld_below(FsTarget(place, None, directory=True), "delete")
    assert withheld == (mount if found else None)


def test_a_mount_that_was_dropped_does_not_close_what_another_mount_opens() -> None:
    rules = [
        FsRule("m", external=True, approved_target="/e", read=True),
        FsRule("n", external=True, approved_target="/e", dropped="it is not approved here"),
    ]
    answers = [FsTable(rules).decide(FsTarget("/e/f", None, door=door), "read").decision for door in ("m/f", "n/f")]
    assert answers == [ALLOW, DENY]


def url(text: str) -> Target:
    target = parse_url(text)
    assert isinstance(target, Target)
    return target


NETWORK: list[tuple[str, Sequence[NetRule], str, str]] = [
    (
        "a prefix that merges to a shorter one counts as the shorter one",
        [NetRule("h.com", scheme="https", path_prefix="/a/b"), NetRule("h.com", path_prefix="/a//b", allow=True)],
        "https://h.com/a//b",
        "deny https://h.com/a/b",
    ),
    (
        "of several rules that allow, the one for the path as it is written is named",
        [NetRule("h.com", path_prefix="/a//b", allow=True), NetRule("h.com", scheme="https", port=443, allow=True)],
        "https://h.com/a//b",
        "allow h.com/a//b",
    ),
    (
        "a scheme without a usual port is matched by a rule without one",
        [NetRule("h.com", scheme="ssh", allow=True), NetRule("h.com", port=22)],
        "ssh://h.com/",
        "allow ssh://h.com",
    ),
    (
        "a port that is given is matched by a rule for it alone",
        [NetRule("h.com", scheme="ssh", allow=True), NetRule("h.com", port=22)],
        "ssh://h.com:22/",
        "deny h.com:22",
    ),
]


@pytest.mark.parametrize(("rules", "text", "named"), [row[1:] for row in NETWORK], ids=[row[0] for row in NETWORK])
def test_the_network_rule_that_decides_is_named(rules: Sequence[NetRule], text: str, named: str) -> None:
    answer = decide_net(NetTable(rules), url(text))
    assert (answer.rule and answer.rule.text, answer.allowed) == (named, named.startswith("allow"))


class Finder:
    """Finds one place, and counts how often it looks."""

    def __init__(self) -> None:
        self.looks = 0

    def find(self) -> Sequence[Protection]:
        self.looks += 1
        return [Protection("hooks", "h", final=False), Protection("/own", "/own", final=True)]


def test_places_are_looked_for_when_the_first_question_comes_and_once() -> None:
    finder = Finder()
    protected = Protected([Protection("other", "other", final=True)], finder=finder)
    assert finder.looks == 0
    places = [FsTarget("/ws/h/x", "h/x"), FsTarget("/own/x", None), FsTarget("/ws/other", "other")]
    found = [protected.of(place, subtree=False) for place in places]
    assert [each and each.place for each in found] == ["hooks", "/own", None]
    assert ([each.path for each in protected.inside()], [each.path for each in protected.outside()]) == (
        ["h"],
        ["/own"],
    )
    assert finder.looks == 1


def test_a_question_for_the_places_inside_alone_has_them_looked_for() -> None:
    assert [each.path for each in Protected(finder=Finder()).inside()] == ["h"]


@pytest.mark.parametrize("protected", [Protected(), Protected(finder=Finder())], ids=["without", "with a finder"])
def test_protected_places_have_no_other_attributes(protected: Protected) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        protected.nothing  # noqa: B018


def test_a_place_of_the_workspace_is_protected_however_short_its_name_is() -> None:
    protected = Protected([Protection("hooks", "h", final=False)])
    assert protected.of(FsTarget("/ws/h", "h"), subtree=False) is not None


def test_where_the_root_of_all_is_byleaves_own_everything_outside_is_guarded() -> None:
    protected = Protected((), ["/"])
    found = [protected.of(FsTarget(place, None), subtree=False) for place in ("/", "/x", "/x/y")]
    assert [each and each.final for each in found] == [True] * 3


@pytest.mark.parametrize("final", [False, True])
def test_of_the_places_below_a_directory_a_final_one_counts_else_the_first(*, final: bool) -> None:
    places = [Protection(f"a/{name}", f"a/{name}", final=final and name == "y") for name in ("x", "y", "z")]
    found = Protected(places).of(FsTarget("/ws/a", "a", directory=True), subtree=True)
    assert found == places[1 if final else 0]


def test_a_guarded_place_in_a_guarded_place_is_named_by_the_outer_one() -> None:
    found = Protected().of(FsTarget("/ws/.byleave/x/byleave.toml", ".byleave/x/byleave.toml"), subtree=False)
    assert found == Protection(".byleave", ".byleave", final=True, name=".byleave")


def test_a_name_leads_on_where_any_name_may_follow() -> None:
    assert leads_on(next_steps(next_steps((), ".git"), "worktrees"))


def test_only_names_at_which_a_pattern_ends_follow_a_directory() -> None:
    assert {name for name, _final in patterns_after(next_steps((), ".git"))} == {
        *("config", "config.worktree", "hooks", "commondir", "info/attributes")
    }


def test_a_place_behind_a_link_is_known_by_its_name_in_the_workspace_and_one_that_leads_nowhere_by_its_own() -> None:
    def resolve(path: str) -> FsTarget | RefusedPath:
        if path == ".git/config":
            return RefusedPath("escape", "it goes round in circles")
        real = path.replace(".git/hooks", "gitdir/hooks")
        return FsTarget(f"/ws/{real}", real)

    found = {place.path for place in resolved_places(resolve)}
    assert found == {place.path for place in builtin_places()} | {"gitdir/hooks"}


RW = FsRule("", read=True, create=True, update=True, delete=True)
PARTS: list[tuple[FsTarget, str, str, str]] = [
    (FsTarget("/ws/x", "x"), "delete", "allow", 'delete on "x"'),
    (FsTarget("/ws/.git/hooks/x", ".git/hooks/x"), "create", "deny", 'create on ".git/hooks/x"'),
    (FsTarget("/ext/x", None), "update", "deny", '"/ext/x" leads outside'),
]


@pytest.mark.parametrize(("place", "kind", "expected", "said"), PARTS, ids=[row[3] for row in PARTS])
def test_a_part_of_a_move_is_named_by_its_place_and_offers_no_rule_of_its_own(
    place: FsTarget, kind: str, expected: str, said: str
) -> None:
    view = PolicyView("v", {"t": ToolPolicy("t", with_defaults(COOPERATIVE, fs=FsTable([RW])))})
    verdict = decide_part_of_move(CompiledPolicy((view,), Protected()), place, kind, tool="t")
    assert (verdict.decision.word, verdict.suggestion) == (expected, None)
    assert verdict.reason.startswith(said)


def test_a_part_of_a_move_is_a_move_to_the_rules(tmp_path: Path) -> None:
    written = {"rules": [{"deny": {"operation": "move"}}, {"allow": {"path": "**"}}]}
    policy = byleave.compile_policy(written, root=str(tmp_path)).compiled.policy
    verdict = decide_part_of_move(policy, FsTarget("/ws/x", "x"), "delete")
    assert (verdict.decision.word, verdict.because[0].rule) == ("deny", "deny operation move")


REFUSED = Verdict(DENY, "no", "denied", (RuleRef("no", BUILT_IN, DENY),))
URL = {"kind": "url", "url": "https://h.com/"}
GRANTED: list[tuple[str, dict[str, Any], Verdict, tuple[str, ...] | None]] = [
    ("a read", {"kind": "read", "path": "x"}, REFUSED, ("r",)),
    ("a search", {"kind": "search", "path": "x"}, REFUSED, ("r",)),
    ("a move", {"kind": "move", "path": "x", "to": "y"}, REFUSED, ("d",)),
    ("an update", {"kind": "update", "path": "x"}, REFUSED, ()),
    ("what has them already", {"kind": "read", "path": "x"}, REFUSED.replace(grants=("z",)), ("z",)),
    ("what is asked about", {"kind": "read", "path": "x"}, REFUSED.replace(decision=ASK), None),
    ("a URL", URL, REFUSED, None),
]


@pytest.mark.parametrize(
    ("action", "verdict", "expected"), [row[1:] for row in GRANTED], ids=[row[0] for row in GRANTED]
)
def test_a_denial_about_files_says_where_it_would_be_granted(
    action: dict[str, Any], verdict: Verdict, expected: tuple[str, ...] | None, tmp_path: Path
) -> None:
    written = [{"allow": {"path": name, "ops": [op]}} for name, op in (("r", "read"), ("d", "delete"))]
    policy = byleave.compile_policy({"rules": written}, root=str(tmp_path)).compiled.policy
    assert with_grants(policy, parse_action(action), verdict) == verdict.replace(grants=expected)
