"""An `__init__` that is compiled ahead does what the one that is compiled on use does."""

import pytest

from byleave.record import Record, compile_initialisers


def test_records_are_made_and_refused_as_before() -> None:
    class Pair(Record):
        left: int
        right: str = "r"

    class Triple(Pair):
        third: tuple[int, ...] = ()

    before = [Pair(1), Pair(1, right="x"), Triple(1, "x", (2,))]
    compile_initialisers()
    assert [Pair(1), Pair(1, right="x"), Triple(1, "x", (2,))] == before
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Pair()  # type: ignore[call-arg]
    compile_initialisers()
    assert Pair(1) == before[0]


def test_a_record_with_an_initialiser_of_its_own_keeps_it() -> None:
    class Own(Record):
        doubled: int

        def __init__(self, number: int) -> None:
            object.__setattr__(self, "doubled", 2 * number)

    compile_initialisers()
    assert Own(3).doubled == 6
