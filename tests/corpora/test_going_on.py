"""What goes on in the background takes nothing away from the commands that follow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corpora.room import Ended, Room, why_no_room

pytestmark = pytest.mark.skipif(why_no_room() is not None, reason=str(why_no_room()))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room.build(tmp_path, "mixed")
    yield room
    room.close()


def _run(room: Room, command: str) -> Ended:
    answer = room.hook(command)
    assert answer.changed is not None
    return room.run(["bash", "-c", answer.changed])


def test_beside_a_background_process_every_directory_can_be_made_and_written(room: Room) -> None:
    """Each run once took the names that another one holds for parts of a repository, and then held more of them."""
    _run(room, "(sleep 100 >/dev/null 2>&1 &); echo started")
    for _ in range(4):
        _run(room, "true")
    names = "config hooks info objects"
    ended = _run(room, f"for name in {names}; do mkdir $name && echo x > $name/file && cat $name/file; done")
    assert (ended.code, ended.out, ended.err) == (0, "x\n" * 4, "")
    assert not (room.root / "HEAD").exists()


def test_a_repository_cannot_be_made_of_the_root_beside_a_background_process(room: Room) -> None:
    _run(room, "(sleep 100 >/dev/null 2>&1 &); echo started")
    _run(room, "mkdir -m 1755 refs; mkdir refs/heads; rm -rf refs; mkdir objects; echo 'ref: x' > HEAD")
    assert not (room.root / "refs" / "heads").exists()
    room.end_others()
    _run(room, "true")  # the next one takes away what those before could not
    assert not (room.root / "refs").exists()
