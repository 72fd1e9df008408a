"""Items of lists are cut out of a TOML file, and nothing else changes."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.policy.toml_removal import without_items

FILE = """\
# head
[[rules]]   # first
allow = { command = "a" }

# about b
[[rules]]
# inside
allow = { command = [
    "b",
] }

[[rules]]
[rules.allow]
command = "c"   # with a table of its own

[agents.x]
allow.servers = ["p", "q",   "r"]
deny.servers = [
    "s",  # one
    # two
    "t",
    "u"
]
"""


def test_a_table_goes_and_comments_on_their_own_lines_stay() -> None:
    changed = without_items(FILE, [("rules", 1)])
    gone = '[[rules]]\n# inside\nallow = { command = [\n    "b",\n] }\n\n'
    assert changed == FILE.replace(gone, "# inside\n\n")
    assert without_items(FILE, [("rules", 2)]) == FILE.replace(
        '[[rules]]\n[rules.allow]\ncommand = "c"   # with a table of its own\n\n', ""
    )


@pytest.mark.parametrize(
    ("number", "left"),
    [(0, '["q",   "r"]'), (1, '["p", "r"]'), (2, '["p", "q"]')],
)
def test_a_value_goes_with_its_comma(number: int, left: str) -> None:
    assert without_items(FILE, [("agents", "x", "allow", "servers", number)]) == FILE.replace('["p", "q",   "r"]', left)


def test_a_list_is_not_emptied_and_an_unknown_place_changes_nothing() -> None:
    assert without_items('[[rules]]\nallow = { command = "a" }\n', [("rules", 0)]) is None
    assert without_items('a = ["x"]\n', [("a", 0)]) is None
    assert without_items(FILE, [("rules", 9)]) is None
    assert without_items(FILE, [("tools", "t", "access", "fs", 0)]) is None


PLACES = [
    *(("rules", number) for number in range(3)),
    *(("agents", "x", side, "servers", number) for side in ("allow", "deny") for number in range(3)),
]


@given(st.sets(st.sampled_from(PLACES), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_whatever_is_removed_the_rest_of_the_tree_is_the_same(places: set[tuple[str | int, ...]], end: str) -> None:
    text = FILE.replace("\n", end)
    changed = without_items(text, sorted(places, key=str))
    if changed is None:  # a list would be empty
        assert any(sum(place[:-1] == known[:-1] for known in places) == 3 for place in places)
        return
    kept = tomllib.loads(changed)
    assert len(kept["rules"]) == 3 - sum(place[0] == "rules" for place in places)
    own = [line.strip() for line in text.split(end) if line.strip().startswith("#")]
    assert [line.strip() for line in changed.split(end) if line.strip().startswith("#")] == own
