"""When tokens were last used: written at most once a minute, and shown."""

from collections.abc import Collection
from pathlib import Path

import pytest

from byleave.errors import StateError
from byleave.store.token_uses import PERIOD, OwnTokenUses, UsedTokens

ONE, OTHER = b"\1" * 32, b"\2" * 32


def test_a_token_is_written_once_a_minute_however_often_it_is_used(tmp_path: Path) -> None:
    time, writes = [0.0], list[list[str]]()
    used = UsedTokens(lambda: time[0])

    class Uses(OwnTokenUses):
        def write(self, digests: Collection[str]) -> None:
            writes.append(sorted(digests))

    uses = Uses(str(tmp_path), lambda: "")
    for _ in range(1000):
        time[0] += 0.1
        used.note(ONE)
        used.write_to(uses)
    assert len(writes) == 2
    time[0] += PERIOD
    used.note(ONE)
    used.note(OTHER)
    used.write_to(uses)
    assert writes[2:] == [[ONE.hex(), OTHER.hex()]]


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    used = UsedTokens()
    used.note(ONE)
    (tmp_path / "state").write_text("no directory")
    with pytest.raises(StateError):
        used.write_to(OwnTokenUses(str(tmp_path / "state"), lambda: "now"))
    assert used
    uses = OwnTokenUses(str(tmp_path / "own"), lambda: "now")
    used.write_to(uses)
    assert (uses.all(), bool(used)) == ({ONE.hex(): "now"}, False)
    (tmp_path / "own/token-uses.json").write_text("{")
    assert uses.all() == {}
