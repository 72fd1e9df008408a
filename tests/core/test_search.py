"""A search is a read of every file that its pattern and its place can select."""

import os
from pathlib import Path
from typing import Any

import pytest

from byleave import compile_policy
from byleave.core.closed_places import ClosedPlaces, Covered
from byleave.core.fs_rules import FsTarget
from byleave.core.search import SearchedFiles, decide_selected
from byleave.core.selection import Selection
from byleave.policy.live_policy import LivePolicy
from byleave.translate.call import ToolCall, Where
from byleave.translate.translate import translate

RULES: list[dict[str, Any]] = [
    {"deny": {"path": ["**/.env", "secrets/**"]}},
    {"allow": {"path": "**", "ops": ["read"]}},
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    for name in (".env", "app/.env", "app/main.py", "secrets/key.pem", "src/a.py", "src/deep/b.ts"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("TOKEN=1\n")
    return made


def policy_at(root: Path, rules: list[dict[str, Any]] | None = None) -> LivePolicy:
    return compile_policy({"rules": RULES if rules is None else rules}, root=str(root))


def judged(root: Path, kind: str, tool: str | None, raw: dict[str, Any], cwd: str = ".") -> tuple[str, str]:
    """Return the strictest decision on what a call of an agent amounts to, and its reason."""
    policy = policy_at(root)
    found = translate(
        ToolCall(kind, tool=tool, raw=raw), Where(str(root), os.path.normpath(root / cwd), os.path.exists)
    )
    verdicts = [policy.decide(action) for action in found.actions]
    strictest = max(verdicts, key=lambda verdict: verdict.decision)
    assert found.understood
    return strictest.decision.word, strictest.reason


# The searches of every agent whose tools are known: by content with a pattern for names, without one, and by names.
AGENTS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "claude-code": {
        "closed": ("Grep", {"pattern": "TOKEN", "glob": ".env"}),
        "open": ("Grep", {"pattern": "TOKEN", "glob": "*.py", "output_mode": "content"}),
        "all": ("Grep", {"pattern": "TOKEN"}),
        "names": ("Glob", {"pattern": "secrets/*"}),
    },
    "gemini": {
        "closed": ("search_file_content", {"pattern": "TOKEN", "include": "**/.env"}),
        "open": ("search_file_content", {"pattern": "TOKEN", "include": "*.{py,ts}"}),
        "all": ("grep_search", {"pattern": "TOKEN", "dir_path": "."}),
        "names": ("glob", {"pattern": "secrets/**"}),
    },
    "cursor": {
        "closed": ("Grep", {"pattern": "TOKEN", "glob": "**/.env"}),
        "open": ("Grep", {"pattern": "TOKEN", "path": "src"}),
        "all": ("SemanticSearch", {"query": "where is the token"}),
        "names": ("Glob", {"glob_pattern": "secrets/*.pem"}),
    },
    "opencode": {
        "closed": ("grep", {"pattern": "TOKEN", "include": ".env"}),
        "open": ("grep", {"pattern": "TOKEN", "include": "*.ts"}),
        "all": ("grep", {"pattern": "TOKEN", "path": "."}),
        "names": ("glob", {"pattern": "secrets/*"}),
    },
    "qwen": {
        "closed": ("grep_search", {"pattern": "TOKEN", "glob": ".env"}),
        "open": ("grep_search", {"pattern": "TOKEN", "glob": "src/**/*.ts"}),
        "all": ("grep_search", {"pattern": "TOKEN"}),
        "names": ("glob", {"pattern": "**/.env"}),
    },
    "kimi": {
        "closed": ("Grep", {"pattern": "TOKEN", "path": ".", "glob": ".env"}),
        "open": ("Grep", {"pattern": "TOKEN", "path": "src", "glob": "*.py"}),
        "all": ("Grep", {"pattern": "TOKEN", "path": "."}),
        "names": ("Glob", {"pattern": "*.pem", "directory": "secrets"}),
    },
    "vibe": {
        "closed": ("grep", {"pattern": "TOKEN", "path": ".env"}),
        "open": ("grep", {"pattern": "TOKEN", "path": "src"}),
        "all": ("grep", {"pattern": "TOKEN", "path": "."}),
        "names": ("grep", {"pattern": "TOKEN", "path": "secrets"}),
    },
}
DECISIONS = {"closed": "deny", "open": "allow", "all": "ask", "names": "deny"}


@pytest.mark.parametrize("which", DECISIONS)
@pytest.mark.parametrize("agent", AGENTS)
def test_searches_of_agents_are_held_to_path_rules(root: Path, agent: str, which: str) -> None:
    tool, raw = AGENTS[agent][which]
    assert judged(root, "search", tool, raw)[0] == DECISIONS[which]


def test_the_question_names_the_closed_places(root: Path) -> None:
    places = '".env", "secrets" and "app/.env", which the rule `deny path **/.env or path secrets/**` closes'
    told = f'searching "." needs your approval: it can read {places}'
    assert judged(root, "search", "Grep", {"pattern": "TOKEN"}) == ("ask", told)


SPELLINGS = [
    ("the name itself", {"glob": ".env"}, "deny"),
    ("at any depth", {"glob": "**/.env"}, "deny"),
    ("from the start", {"glob": "/.env"}, "deny"),
    ("in another case", {"glob": ".ENV"}, "deny"),
    ("below a place without any", {"glob": ".env", "path": "src"}, "deny"),
    ("braces with only closed names", {"glob": "{.env,secrets/*}"}, "deny"),
    ("braces with an open name", {"glob": "{*.py,.env}"}, "ask"),
    ("braces in braces", {"glob": "*{.py,{.env,.ts}}"}, "ask"),
    ("several in one text, by blanks", {"glob": "*.py .env"}, "ask"),
    ("several in one text, by commas", {"glob": "*.py,.env"}, "ask"),
    ("a class of characters", {"glob": ".en[v]"}, "ask"),
    ("a class that excludes", {"glob": ".en[^x]"}, "ask"),
    ("a wildcard", {"glob": ".e*"}, "ask"),
    ("one character", {"glob": ".en?"}, "ask"),
    ("two stars in front of a name", {"glob": "**.env"}, "ask"),
    ("a group", {"glob": "@(.env)"}, "ask"),
    ("everything but something, as a group", {"glob": "!(*.py)"}, "ask"),
    ("an escape", {"glob": "\\.env"}, "ask"),
    ("a pattern that counts from the working directory", {"glob": "app/.env", "path": "app"}, "deny"),
    ("a wildcard that counts from the working directory", {"glob": "*/.env", "path": "app"}, "deny"),
    ("everything but another name", {"glob": "!*.py"}, "ask"),
    ("everything but the closed names, one of two", {"glob": "!.env"}, "ask"),
    ("an exclusion from elsewhere", {"glob": "!app/**", "path": "app"}, "ask"),
    ("an empty pattern", {"glob": ""}, "ask"),
    ("the name of a directory", {"glob": "app"}, "ask"),
    ("a list of patterns", {"glob": ["*.py", ".env"]}, "deny"),
    ("a place that is closed", {"path": "secrets"}, "deny"),
    ("a place that climbs to a closed one", {"path": "src/../secrets"}, "deny"),
    ("a file that is closed", {"path": "app/.env"}, "deny"),
    ("an open place", {"path": "src"}, "allow"),
    ("an open ending", {"glob": "*.py"}, "allow"),
    ("an open ending in a directory", {"glob": "src/**/*.ts"}, "allow"),
    ("an open file in a place with closed ones", {"path": "app", "glob": "*.py"}, "allow"),
    ("the only closed name below a place is excluded", {"path": "app", "glob": "!.env"}, "allow"),
    ("the only closed name below a place is excluded at any depth", {"path": "app", "glob": "!**/.env"}, "allow"),
]


@pytest.mark.parametrize(("raw", "decision"), [row[1:] for row in SPELLINGS], ids=[row[0] for row in SPELLINGS])
def test_a_spelling_never_decides(root: Path, raw: dict[str, Any], decision: str) -> None:
    assert judged(root, "search", "Grep", {"pattern": "TOKEN", **raw})[0] == decision


def test_a_pattern_of_a_tool_that_is_not_known_may_be_looked_for_in_all_files(root: Path) -> None:
    assert judged(root, "search", None, {"pattern": "src/*"})[0] == "ask"


def test_a_search_below_the_working_directory_is_judged_there(root: Path) -> None:
    assert (
        judged(root, "search", "Grep", {"pattern": "TOKEN"}, cwd="src")[0],
        judged(root, "search", "Grep", {"pattern": "TOKEN"}, cwd="app")[0],
    ) == ("allow", "ask")


def test_a_search_from_above_the_workspace_reaches_into_it(root: Path) -> None:
    rules: list[dict[str, Any]] = [
        {"deny": {"path": "**/.env"}},
        {"allow": {"path": f"{root.parent}/**", "ops": ["read"]}},
    ]
    verdict = policy_at(root, rules).decide({"kind": "search", "path": str(root.parent)})
    assert (verdict.decision.word, '".env"' in verdict.reason) == ("ask", True)


def test_a_tool_that_reads_whole_directories_is_judged_as_a_search(root: Path) -> None:
    assert (
        judged(root, "read", "read_many_files", {"paths": ["app"]})[0],
        judged(root, "read", "read_many_files", {"paths": ["src"]})[0],
    ) == ("ask", "allow")


def test_listing_names_is_not_reading(root: Path) -> None:
    assert judged(root, "search", "LS", {"path": "app"})[0] == "allow"


def test_where_nothing_closed_exists_a_search_is_allowed(root: Path) -> None:
    for name in (".env", "app/.env", "secrets/key.pem"):
        (root / name).unlink()
    (root / "secrets").rmdir()
    assert policy_at(root).decide({"kind": "search"}).decision.word == "allow"


def test_an_ask_about_reading_holds_for_searches(root: Path) -> None:
    rules: list[dict[str, Any]] = [{"ask": {"path": "secrets/**"}}, {"allow": {"path": "**", "ops": ["read"]}}]
    policy = policy_at(root, rules)
    asked = [
        policy.decide({"kind": "search", **more}).decision.word for more in ({}, {"glob": "secrets/*"}, {"path": "src"})
    ]
    assert asked == ["ask", "ask", "allow"]


def test_a_rule_about_writing_closes_no_search(root: Path) -> None:
    rules: list[dict[str, Any]] = [
        {"deny": {"path": "**/.env", "ops": ["update"]}},
        {"allow": {"path": "**", "ops": ["read"]}},
    ]
    assert policy_at(root, rules).decide({"kind": "search"}).decision.word == "allow"


def test_an_earlier_allow_of_searching_stands(root: Path) -> None:
    rules: list[dict[str, Any]] = [{"allow": {"operation": "search"}}, *RULES]
    assert policy_at(root, rules).decide({"kind": "search"}).decision.word == "allow"


def test_a_link_to_a_closed_file_counts(root: Path) -> None:
    (root / "src/settings.py").symlink_to("../.env")
    assert policy_at(root).decide({"kind": "search", "path": "src", "glob": "*.py"}).decision.word == "ask"


def test_a_search_that_is_allowed_by_no_rule_still_says_what_it_would_read(root: Path) -> None:
    verdict = policy_at(root, RULES[:1]).decide({"kind": "search"})
    assert (verdict.decision.word, '".env"' in verdict.reason) == ("ask", True)


ENDS = [
    ("*.py", ".env", False),
    ("*", ".env", True),
    (".e*", ".env", True),
    ("*.py", "*.pem", False),
    ("k*", "*.pem", True),
]


@pytest.mark.parametrize(("glob", "pattern", "expected"), ENDS)
def test_a_pattern_that_ends_otherwise_selects_no_such_name(glob: str, pattern: str, expected: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert Selection(glob).may_end_like(pattern) is expected


MAY_SELECT = [
    ("*.ts", "a/b.ts", True),
    ("src/*.ts", "lib/src/a.ts", True),
    ("src/*.ts", "src/deep/a.ts", False),
    ("src/**/*.ts", "src/deep/er/a.ts", True),
    ("src/**", "src/a", True),
    ("app", "app/deep/.env", True),
    ("src/app/", "src/app/.env", True),
    ("main.py", "app/.env", False),
    ("{1..9}.txt", "5.txt", True),
    ("{a", "b", True),
    ("../x", "b", True),
    ("a**b", "b", True),
    ("[[:alpha:]]", "b", True),
    ("$HOME/x", "b", True),
    (" ", "b", True),
    ("!secrets/**", "secrets/a", False),
    ("!secrets/**", "a/secrets/b", True),
    ("!**/secrets/**", "a/secrets/b", False),
    ("!a b", "a", True),
    ("!{a,b}", "a", True),
    ("!*.py", ".env", True),
]


@pytest.mark.parametrize(("glob", "path", "expected"), MAY_SELECT)
def test_a_pattern_selects_what_some_tool_may_take_it_for(glob: str, path: str, expected: bool) -> None:  # noqa: FBT001 -- a column of the table
    assert Selection(glob).may_select(path) is expected


EXAMPLES = [
    ("*.py", True),
    ("a{1,2}/x", True),
    ("!*.py", False),
    ("{a", False),
    ("a}b", False),
    ("{a,b{1..3}}", False),
    ("../x", False),
    ("]a[", False),
    ("{a,b}{c", False),
    ("{a,b}" * 6, True),
    ("{a,b}" * 7, False),
]


@pytest.mark.parametrize(("glob", "clear"), EXAMPLES)
def test_only_a_clear_pattern_has_examples_that_stand_for_all_that_it_selects(*, glob: str, clear: bool) -> None:
    assert (Selection(glob).examples() is not None) is clear


@pytest.mark.parametrize(("glob", "selected"), [("a{1,2}{3,}", ("a13", "a1", "a23", "a2")), ("x{y,z{1,2}}", ("xz2",))])
def test_braces_beside_and_inside_braces_select_every_alternative(glob: str, selected: tuple[str, ...]) -> None:
    selection = Selection(glob)
    assert [selection.may_select(name) for name in (*selected, "other")] == [*[True] * len(selected), False]


def test_a_closed_pattern_with_a_class_of_characters_may_be_any_ending() -> None:
    assert Selection("*.py").may_end_like("*.p[ey]m")


def test_a_search_through_more_files_than_can_be_looked_at_asks(root: Path) -> None:
    policy = policy_at(root).compiled.policy
    closed = ClosedPlaces(policy, "read", root=str(root))
    looked = SearchedFiles(closed, Selection("*.py"), Covered((), complete=False))
    verdict = decide_selected(looked, FsTarget(str(root), "", directory=True), "searching")
    assert verdict is not None
    assert (verdict.decision.word, "too many files to look through" in verdict.reason) == ("ask", True)
    assert [ref.rule for ref in verdict.because] == [rule.ref.rule for rule in closed.rules]
