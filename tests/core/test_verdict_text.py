"""A verdict as people and other programs see it: all of its reasons, and no place outside of the workspace."""

import pytest

from byleave.core.decision import (
    ALLOW,
    ASK,
    DENY,
    FileTouch,
    PartVerdict,
    RuleRef,
    Verdict,
    explain,
    named_path,
    shared_tree,
)
from byleave.core.observing import built_in_decision, is_silence
from byleave.core.policy import NO_RULE

REF = RuleRef("deny rm", "byleave.toml:3", DENY)
OWN = RuleRef("self-protection", "built-in", ASK)


def test_an_explanation_names_the_decision_its_rules_and_what_would_help() -> None:
    verdict = Verdict(
        ASK, "it needs your approval", "no_match", (REF,), "[[rules]]\n\nallow = 1", grants=("src", "docs")
    )
    lines = explain(verdict).splitlines()
    assert lines[0] == "ask: it needs your approval"
    assert lines[1] == "  because: deny rm (deny, byleave.toml:3)"
    assert lines[2] == "  granted at: src and docs"
    assert lines[-3:] == ["    [[rules]]", "", "    allow = 1"]


@pytest.mark.parametrize(
    ("sandbox", "expected"),
    [((True, True), "it must run confined"), ((True, False), "it runs confined"), ((False, False), None)],
)
def test_an_explanation_says_whether_it_runs_confined(sandbox: tuple[bool, bool], expected: str | None) -> None:
    text = explain(Verdict(ALLOW, "yes", "ok", (), "a rule", sandbox=sandbox, grants=()))
    assert ("sandbox" in text) == (expected is not None)
    assert (expected or "yes") in text
    assert "granted at: nowhere" in text
    assert "a rule" not in text  # what is allowed needs no rule


@pytest.mark.parametrize(("path", "expected"), [("a\udcff", b"/w=="), ("a\ud800", None), ("caf\u00e9", None)])
def test_a_name_that_is_no_text_is_sent_in_its_bytes(path: str, expected: bytes | None) -> None:
    tree = named_path("path", path)
    assert all(value.encode() for value in tree.values())
    assert tree.get("path_b64") == ("Yf8=" if expected else None)


@pytest.mark.parametrize("place", ["/home/someone/secret", "/ws-other/x"])
def test_no_place_outside_of_the_workspace_is_shared(place: str) -> None:
    tree = shared_tree(Verdict(ASK, "it asks", "no_match", (REF,), f'path = "{place}"', place), "/ws")
    assert place not in str(tree)
    kept = shared_tree(Verdict(ASK, "it asks", "no_match", (REF,), "a rule", place), "/ws")
    assert kept["suggestion"] == "a rule"


def test_no_file_outside_of_the_workspace_is_shared() -> None:
    files = (FileTouch("/home/someone/secret", "read", DENY), FileTouch("src/a", "read", DENY))
    verdict = Verdict(DENY, "it is denied", "denied", (REF,), parts=(PartVerdict("cat", DENY, "why", REF, files),))
    assert "someone" not in str(shared_tree(verdict, "/ws"))
    assert "src/a" in str(shared_tree(verdict, "/ws"))


def test_what_byleave_decides_by_itself_is_told_from_what_rules_do_not_name() -> None:
    silent = Verdict(ASK, "it asks", "no_match", (NO_RULE,))
    assert (is_silence(silent), built_in_decision(silent)) == (True, None)
    own = Verdict(ASK, "it asks", "no_match", (NO_RULE, OWN))
    assert (is_silence(own), built_in_decision(own)) == (False, ASK)
    denied = Verdict(DENY, "no", "denied", (REF,))
    assert (is_silence(denied), built_in_decision(denied)) == (False, None)


def test_the_parts_of_a_line_stand_in_columns_and_a_long_one_is_cut() -> None:
    parts = (
        PartVerdict("ls", ALLOW, "the rule `allow ls` matches it", REF),
        PartVerdict("r" * 60, ASK, "no rule", REF),
    )
    lines = explain(Verdict(ASK, "it asks", "no_match", (REF,), parts=parts)).splitlines()
    assert lines[1] == f"  allow  {'ls':<48}  the rule `allow ls` matches it"
    assert lines[2] == f"  ask    {'r' * 45}...  no rule"
    assert explain(Verdict(ASK, "it asks", "no_match", (REF,), parts=parts[:1])).splitlines()[1].startswith("  because")


def test_a_decision_is_shown_by_its_name() -> None:
    assert (repr(DENY), str(DENY)) == ("Decision.DENY", "deny")
