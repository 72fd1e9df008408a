"""Whatever byleave accepts, h11 reads in the same way; the table of the decision record is the real one."""

import pytest

from protocol.smuggling import RECORD, REQUESTS, ours, theirs, with_table


def test_the_table_of_the_record_is_what_both_readers_say() -> None:
    text = RECORD.read_text()
    assert with_table(text) == text, "run .venv/bin/python tests/protocol/smuggling.py"


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_read_at_all_is_read_as_h11_reads_it(name: str) -> None:
    mine, other = ours(REQUESTS[name]), theirs(REQUESTS[name])
    assert mine.startswith("refused: ") or mine == other
