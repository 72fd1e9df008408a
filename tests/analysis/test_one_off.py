"""Words of one occasion are told from words that come again."""

from pathlib import Path

import pytest

from byleave.analysis.one_off import VaryingNumbers, is_one_off, one_off_places
from byleave.workspace.listing import files_below

ONCE = [
    *("a message", "3f78685", "3f786850e387550fdab836ed7e6dc881de23001b", "550e8400-e29b-41d4-a716-446655440000"),
    *(
        "2026-05-01",
        "backup-20260501.tar",
        "12:30:05",
        "/tmp/x",
        "out=/tmp/x",
        "tmp.Xa81k2",
        "tmpab12cd_x",
        "1716900000",
        "x" * 81,
    ),
    *("a\x1bb", "line\nline"),
]
AGAIN = [
    "test",
    "origin",
    "feature",
    "8080",
    "src/main.py",
    "--release",
    "v1.2.3",
    "HEAD~1",
    "template.html",
    "face",
    "deadbeef",
]


@pytest.mark.parametrize("word", ONCE, ids=repr)
def test_what_is_made_up_for_one_occasion_is_found(word: str) -> None:
    assert is_one_off(word)


@pytest.mark.parametrize("word", AGAIN)
def test_what_comes_again_is_kept(word: str) -> None:
    assert not is_one_off(word)


def test_the_value_of_an_option_for_texts_is_of_one_occasion() -> None:
    assert one_off_places(["git", "commit", "-m", "fix"]) == {3}
    assert one_off_places(["gh", "pr", "create", "--title=fix", "--body", "x"]) == {3, 5}


def test_numbers_vary_only_where_another_one_stands_in_the_same_place() -> None:
    numbers = VaryingNumbers([["gh", "view", "12"], ["gh", "view", "15"], ["head", "-n", "5"]])
    assert (numbers.places(["gh", "view", "12"]), numbers.places(["head", "-n", "5"])) == ({2}, set())


def test_files_are_listed_without_links_and_without_what_others_made(tmp_path: Path) -> None:

    root = tmp_path
    for name in ("a.py", "src/b.py", "node_modules/c.js", ".git/config"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    (root / "link").symlink_to("/etc")
    assert (files_below(str(root)), files_below(str(root), most=1)) == (["a.py", "src/b.py"], ["a.py"])
    assert files_below(str(root / "none")) == []
