"""Whatever byleave accepts, h11 reads in the same way; the tables of the decision record are the real ones."""

import pytest

from protocol.smuggling import RECORD, REQUESTS, ours, theirs, with_table


def test_the_tables_of_the_record_are_what_both_readers_say() -> None:
    text = RECORD.read_text()
    assert with_table(text) == text, "run .venv/bin/python tests/protocol/smuggling.py"
    assert [f"| {name} |" for name in REQUESTS if text.count(f"\n| {name} |") != 1] == []


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_read_at_all_is_read_as_h11_reads_it(name: str) -> None:
    mine, other = ours(REQUESTS[name]), theirs(REQUESTS[name])
    assert mine.startswith("refused: ") or mine == other
