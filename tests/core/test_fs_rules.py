"""File rules: the index answers as a plain reading of the seed does, at a cost that does not grow with the rules."""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.access import COOPERATIVE, with_defaults
from byleave.core.decision import ALLOW, DENY
from byleave.core.fs_rules import CAPABILITIES, TOOL_CAPABILITIES, FsRule, FsTable, FsTarget, fold, fs_rule, is_under

Answer = tuple[str, str]
NAMES = ("a", "A", "b", "b.", "\u00e9", "e\u0301", "\u00c9")
PLACES = ("/x", "/x/a", "/x/a/b", "/y")
paths = st.lists(st.sampled_from(NAMES), max_size=3).map("/".join)
flags = st.fixed_dictionaries(
    {name: st.sampled_from([None, True, False]) for name in ("read", "write", "create", "update", "delete", "execute")}
)


@st.composite
def rules(draw: st.DrawFn) -> FsRule:
    rule = fs_rule(draw(flags), path=draw(paths))
    target = draw(st.sampled_from([None, None, None, *PLACES]))
    if target is None or not rule.path:
        return rule
    external: FsRule = rule.replace(external=True, approved_target=target)
    dropped: FsRule = rule.replace(external=True, dropped="its target is not approved")
    return dropped if draw(st.booleans()) else external


@st.composite
def targets(draw: st.DrawFn) -> FsTarget:
    inside = draw(paths)
    if draw(st.booleans()):
        return FsTarget(f"/ws/{inside}".rstrip("/"), inside)
    outside = f"{draw(st.sampled_from(PLACES))}/{draw(paths)}".rstrip("/")
    return FsTarget(outside, None, door=draw(st.none() | paths.filter(bool)))


def parts(path: str) -> list[str]:
    return path.split("/") if path else []


def reaches(rule_path: str, path: str) -> bool:
    """Matching is component-aware: `src` reaches `src/lib.rs`, not `src_generated`."""
    return parts(path)[: len(parts(rule_path))] == parts(rule_path)


def plain_fold(path: str) -> str:
    return "/".join(normalize("NFC", normalize("NFC", name).casefold()).rstrip(".") for name in parts(path))


def winner(rules: Sequence[FsRule], path: str) -> FsRule | None:
    """More components are more specific; of equals, the last rule in the list wins."""
    ranked = [(len(parts(rule.path)), place, rule) for place, rule in enumerate(rules) if reaches(rule.path, path)]
    return max(ranked, key=lambda entry: entry[:2])[2] if ranked else None


def effective(rules: Sequence[FsRule]) -> list[FsRule]:
    return [rule for place, rule in enumerate(rules) if rule.path not in [later.path for later in rules[place + 1 :]]]


def folded_deny(rules: Sequence[FsRule], path: str, capability: str, than: FsRule) -> bool:
    return any(
        len(parts(rule.path)) > len(parts(than.path)) and reaches(plain_fold(rule.path), plain_fold(path))
        for rule in effective(rules)
        if not rule.grants(capability)
    )


def plain_inside(rules: Sequence[FsRule], path: str, capability: str) -> Answer:
    rule = winner(rules, path)
    withheld = rule is None or rule.external or not rule.grants(capability)
    if rule is None or withheld or folded_deny(rules, path, capability, rule):
        return "deny", "denied"
    return "allow", "ok"


def plain_outside(rules: Sequence[FsRule], name: str, canonical: str, capability: str) -> Answer:
    rule = winner(rules, name)
    if rule is None or not rule.external:
        return "deny", "escape"
    if rule.dropped:
        return "deny", "denied"
    if not reaches(str(rule.approved_target), canonical):
        return "deny", "escape"
    if not rule.grants(capability) or folded_deny(rules, name, capability, rule):
        return "deny", "denied"
    return "allow", "ok"


def plain_judge(rules: Sequence[FsRule], target: FsTarget, capability: str) -> Answer:
    """Judge as the texts say, rule by rule: the canonical place, by every name the workspace has for it."""
    if target.relative is not None:
        return plain_inside(rules, target.relative, capability)
    mounts = [(rule.path, rule.approved_target) for rule in rules if rule.approved_target]
    names = [target.door or target.canonical] + [
        "/".join([*parts(path), *parts(target.canonical)[len(parts(place)) :]])
        for path, place in sorted(mounts, key=lambda mount: -len(mount[1]))
        if reaches(place, target.canonical)
    ]
    answers = [plain_outside(rules, name, target.canonical, capability) for name in names]
    return next((answer for answer in answers if answer[0] == "deny"), answers[0])


@given(st.lists(rules(), max_size=7), targets(), st.sampled_from(CAPABILITIES))
def test_the_index_answers_as_a_plain_reading_of_the_rules_does(
    given_rules: list[FsRule], target: FsTarget, capability: str
) -> None:
    answer = FsTable(given_rules).decide(target, capability)
    assert answer.decision.word == plain_judge(given_rules, target, capability)[0]
    if target.relative is not None:
        assert answer.code == plain_judge(given_rules, target, capability)[1]


@given(st.lists(rules(), max_size=7), paths)
def test_the_longest_prefix_decides_and_of_equals_the_last(given_rules: list[FsRule], path: str) -> None:
    assert FsTable(given_rules).match(path) == winner(given_rules, path)


@given(flags)
def test_write_is_the_default_of_create_update_and_delete_and_of_nothing_else(given_flags: dict[str, Any]) -> None:
    rule = fs_rule(given_flags, path="x")
    write = given_flags["write"] or False
    expected = {
        name: write if given_flags[name] is None and name in ("create", "update", "delete") else bool(given_flags[name])
        for name in CAPABILITIES
    }
    assert {name: rule.grants(name) for name in CAPABILITIES} == expected


@given(st.lists(rules(), max_size=6), paths, st.integers(0, 6), targets(), st.sampled_from(CAPABILITIES))
def test_adding_a_deny_never_loosens_an_answer(
    given_rules: list[FsRule], path: str, place: int, target: FsTarget, capability: str
) -> None:
    before = FsTable(given_rules).decide(target, capability).decision
    after = FsTable([*given_rules[:place], FsRule(path), *given_rules[place:]]).decide(target, capability).decision
    assert after >= before


@given(st.lists(rules(), max_size=6), targets(), st.sampled_from(CAPABILITIES))
def test_nothing_outside_is_allowed_but_below_an_approved_target(
    given_rules: list[FsRule], target: FsTarget, capability: str
) -> None:
    if FsTable(given_rules).decide(target, capability).decision is ALLOW and target.relative is None:
        assert any(reaches(rule.approved_target or "/none", target.canonical) for rule in given_rules)


@given(st.lists(rules(), max_size=6), targets(), st.sampled_from(CAPABILITIES))
def test_a_whole_tree_is_allowed_only_if_every_rule_below_it_agrees(
    given_rules: list[FsRule], target: FsTarget, capability: str
) -> None:
    access = with_defaults(COOPERATIVE, fs=FsTable(given_rules))
    allowed = access.decide_file(target, capability, below=capability).decision is ALLOW
    name = target.relative if target.relative is not None else target.door
    disagree = [
        rule
        for rule in effective(given_rules)
        if not rule.grants(capability) and (lies_below(rule, name) or opens_below(rule, target))
    ]
    assert not (allowed and disagree)


def lies_below(rule: FsRule, name: str | None) -> bool:
    return name is not None and reaches(plain_fold(name), plain_fold(rule.path)) and deeper(rule.path, name)


def deeper(path: str, than: str) -> bool:
    return len(parts(path)) > len(parts(than))


def opens_below(rule: FsRule, target: FsTarget) -> bool:
    opened = rule.approved_target if target.relative is None else None
    return opened is not None and opened.startswith(f"{target.canonical}/")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("secret", "SECRET"),
        ("caf\u00e9", "cafe\u0301"),
        ("stra\u00dfe", "STRASSE"),
        (".git", ".g\u200cit"),
        (".git", ".git\ufeff"),
        (".git", ".git. ."),
        (".git/hooks", ".git /hooks"),
        ("a/.../b", "A/.../B"),
    ],
)
def test_names_that_some_file_system_takes_for_one_fold_to_one(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(("one", "other"), [("secret", "secrets"), ("a/b", "ab"), ("...", "..."), (".git", "git")])
def test_other_names_stay_what_they_are(one: str, other: str) -> None:
    assert (fold(one) == fold(other)) is (one == other)
    assert fold(one).count("/") == one.count("/")


SEED_RULES = [
    {"path": ".", "read": True, "write": True},
    {"path": "src", "read": True},
    {"path": "src/generated", "read": True, "write": True},
]
SEED_ANSWERS = [
    ("README.md", "read create update delete"),
    ("src/lib.rs", "read"),
    ("src", "read"),
    ("src/generated/schema.rs", "read create update delete"),
    ("src/generated", "read create update delete"),
    ("src_generated/foo.rs", "read create update delete"),
    ("tests/main.rs", "read create update delete"),
]
SEED_ALIASES: list[tuple[dict[str, bool], str]] = [
    ({"write": True}, "create update delete"),
    ({"write": True, "delete": False}, "create update"),
    ({"create": True}, "create"),
    ({"write": False, "update": True}, "update"),
    ({"read": True}, "read"),
    ({"execute": True}, "execute"),
    ({}, ""),
]
SEED_TABLE = {
    "fs_read_file": ("read",),
    "fs_list_files": ("read",),
    "fs_grep_files": ("read",),
    "fs_create_file": ("create", "update"),
    "fs_modify_file": ("update",),
    "fs_delete_file": ("delete",),
    "fs_move_file": ("delete", "create", "update"),
}


def table_of(trees: Sequence[dict[str, Any]]) -> FsTable:
    return FsTable([fs_rule(tree, path="" if tree["path"] == "." else tree["path"]) for tree in trees])


def granted(table: FsTable, path: str) -> str:
    place = FsTarget(f"/ws/{path}", path)
    return " ".join(name for name in CAPABILITIES if table.decide(place, name).decision is ALLOW)


@pytest.mark.parametrize("order", [1, -1], ids=["as written", "reversed"])
@pytest.mark.parametrize(("path", "expected"), SEED_ANSWERS)
def test_the_longest_prefix_example_of_the_seed_holds(path: str, expected: str, order: int) -> None:
    assert granted(table_of(SEED_RULES[::order]), path) == expected


@pytest.mark.parametrize(("tree", "expected"), SEED_ALIASES)
def test_the_capability_examples_of_the_seed_hold(tree: dict[str, Any], expected: str) -> None:
    assert granted(table_of([{"path": "o", **tree}]), "o/file") == expected


def test_the_tools_ask_for_what_the_seed_says() -> None:
    assert TOOL_CAPABILITIES == SEED_TABLE


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", "read"),
        (".config/jp/tools/a.rs", "read create update delete"),
        (".env", ""),
        (".env.local", "read"),
    ],
)
def test_the_first_example_of_the_seed_holds(path: str, expected: str) -> None:
    tree: list[dict[str, Any]] = [
        {"path": ".", "read": True},
        {"path": ".config/jp/tools", "read": True, "write": True},
        {"path": ".env"},
    ]
    assert granted(table_of(tree), path) == expected


def mount(path: str, target: str, **given_flags: bool) -> FsRule:
    return FsRule(path, external=True, approved_target=target, **given_flags)  # type: ignore[arg-type]


def test_a_rule_is_narrowed_to_what_both_give_and_named_after_the_one_that_says_less() -> None:
    wide = FsRule("a", read=True, update=True, source="wide")
    narrow = FsRule("b", read=True, execute=True, source="narrow")
    assert wide.narrowed_by(narrow) == FsRule("a", read=True, source="wide")
    assert wide.narrowed_by(FsRule("b", read=True, source="narrow")) == FsRule("a", read=True, source="narrow")
    dropped = FsRule("b", external=True, read=True, dropped="why", source="gone")
    assert wide.narrowed_by(dropped) == FsRule("a", dropped="why", source="gone")


def test_a_replaced_rule_still_names_what_it_opened_so_its_successor_is_asked() -> None:
    table = FsTable([mount("b", "/ext", read=True, update=True), mount("fork", "/ext", read=True), FsRule("fork")])
    assert table.decide(FsTarget("/ext/f", None, door="b/f"), "update").decision is DENY


def test_a_tree_outside_is_withheld_where_a_mount_inside_of_it_withholds() -> None:
    rules = [mount("fork", "/ext", read=True, delete=True), mount("keep", "/ext/sub/keep", read=True)]
    access = with_defaults(COOPERATIVE, fs=FsTable(rules))
    place = FsTarget("/ext/sub", None, door="fork/sub", directory=True)
    assert access.decide_file(place, "delete").decision is ALLOW
    assert access.decide_file(place, "delete", below="delete").rule == rules[1]


def test_a_tree_outside_is_withheld_by_a_rule_under_another_name_of_it() -> None:
    dropped = FsRule("b/sub/secret", external=True, dropped="its target is not approved")
    rules = [mount("a", "/ext", delete=True), mount("b", "/ext", delete=True), dropped]
    place = FsTarget("/ext/sub", None, door="a/sub", directory=True)
    answer = with_defaults(COOPERATIVE, fs=FsTable(rules)).decide_file(place, "delete", below="delete")
    assert answer.rule == dropped


def test_a_tree_is_withheld_by_a_rule_below_that_is_spelled_otherwise() -> None:
    rules = [FsRule("", delete=True), FsRule("src/keep", read=True)]
    access = with_defaults(COOPERATIVE, fs=FsTable(rules))
    assert access.decide_file(FsTarget("/ws/SRC", "SRC", directory=True), "delete", below="delete").rule == rules[1]


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "src/../secret", "src//x", "src/", "./src", "src/./x", "src/.."]
)
def test_the_low_level_check_says_no_to_a_path_that_is_not_canonical(path: str) -> None:
    access = with_defaults(COOPERATIVE, fs=table_of([{"path": ".", "read": True}]))
    assert (access.can_read(path), COOPERATIVE.can_read(path)) == (False, False)


@pytest.mark.parametrize("path", ["", ".", "src", "src/lib.rs", "..src", "a/..b"])
def test_the_low_level_check_reads_canonical_paths(path: str) -> None:
    access = with_defaults(COOPERATIVE, fs=table_of([{"path": ".", "read": True}]))
    answers = [getattr(access, f"can_{name}")(path) for name in CAPABILITIES]
    assert answers == [True, False, False, False, False]


def instructions(work: Callable[[], object]) -> int:
    """Count the bytecode instructions that `work` runs: a measure of cost that no busy machine disturbs."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    # Python 3.12 reports opcodes only if a frame has asked for them before `settrace`.
    sys._getframe().f_trace_opcodes = True  # noqa: SLF001
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def costs(size: int) -> list[int]:
    rules = [FsRule("", read=True), *(FsRule(f"d/r{number}", read=number % 2 == 0) for number in range(size))]
    rules += [mount(f"m{number}", f"/ext/{number}", read=True) for number in range(size)]
    table = FsTable(rules)
    access = with_defaults(COOPERATIVE, fs=table)
    questions: list[tuple[FsTarget, str]] = [
        (FsTarget("/ws/d/r1/x", "d/r1/x"), "read"),
        (FsTarget("/ws/d/R1/x", "d/R1/x"), "read"),
        (FsTarget("/ws/other", "other"), "read"),
        (FsTarget("/ws/other", "other"), "update"),
        (FsTarget("/ext/1/x", None, door="m1/x"), "read"),
        (FsTarget("/ext/1/x", None, door="m1/x"), "delete"),
        (FsTarget("/evil", None, door="other"), "read"),
    ]
    counted = []
    for place, capability in questions:

        def ask(place: FsTarget = place, capability: str = capability) -> object:
            table.grants(capability)
            return access.decide_file(place, capability, below=capability)

        for _ in range(40):  # what is computed once is not the cost of an answer: an `__init__` is, for the 31st record
            ask()
        counted.append(min(instructions(ask) for _ in range(5)))  # a collection of garbage may run code of its own
    return counted


def test_an_answer_costs_the_same_however_many_rules_there_are() -> None:
    assert costs(4) == costs(4000)


def test_a_deny_inside_a_mount_holds_for_a_name_that_is_spelled_otherwise() -> None:
    table = FsTable([mount("m", "/x", read=True), mount("m/secret", "/x/secret")])
    named = [table.decide(FsTarget(f"/x/{name}", None, door=f"m/{name}"), "read") for name in ("SECRET/f", "other")]
    assert [(answer.decision, answer.code) for answer in named] == [(DENY, "denied"), (ALLOW, "ok")]
    assert named[0].rule == table.rules[1]


def test_a_place_lies_below_no_target_that_was_not_approved() -> None:
    assert not is_under("/x", None)
    assert [is_under(path, "/x") for path in ("/x", "/x/y", "/xy")] == [True, True, False]
    assert is_under("/x", "/")
    dropped = FsRule("m", external=True, read=True)  # nothing was approved for it
    assert FsTable([dropped]).decide(FsTarget("/x/f", None, door="m/f"), "read").decision is DENY
