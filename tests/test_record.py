"""Records are values: compared by content and type, never changed, made by position or by name."""

import copy
import pickle

import pytest

from byleave.record import Record, Sealed, frozen_mapping, set_cached


class Pair(Record):
    left: int
    right: str = "r"


class Triple(Pair):
    third: tuple[int, ...] = ()


class Other(Record):
    left: int
    right: str = "r"


class Listing(Record):
    names: list[str] = []


def test_records_are_made_by_position_and_by_name() -> None:
    assert Pair(1) == Pair(left=1, right="r")
    assert Triple(1, "x", (2,)) == Triple(third=(2,), right="x", left=1)
    with pytest.raises(TypeError, match="Missing required argument 'left'"):
        Pair()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="third"):
        Pair(1, third=2)  # type: ignore[call-arg]


def test_records_of_two_types_are_never_equal() -> None:
    assert Pair(1) != Other(1)  # type: ignore[comparison-overlap]
    assert Pair(1) != Triple(1)
    assert len({Pair(1), Other(1), Triple(1), Pair(1)}) == 3


def test_a_record_can_be_neither_changed_nor_extended() -> None:
    pair = Pair(1)
    for name in ("left", "new"):
        with pytest.raises(AttributeError):
            setattr(pair, name, 2)
        with pytest.raises(AttributeError):
            delattr(pair, name)
    assert pair.replace(right="x") == Pair(1, "x")
    assert pair == Pair(1)


def test_a_record_with_a_list_has_no_hash_and_shares_no_default() -> None:
    assert Listing().names is not Listing().names
    with pytest.raises(TypeError, match="unhashable"):
        hash(Listing())


def test_records_say_their_fields_and_can_be_matched_and_sent() -> None:
    assert (Triple.field_names(), Triple.required_names()) == (("left", "right", "third"), ("left",))
    match Triple(1, "x", (2,)):
        case Triple(left, right, third):
            assert (left, right, third) == (1, "x", (2,))
    sent = pickle.loads(pickle.dumps(Pair(1)))  # noqa: S301 -- written one call ago
    assert sent == copy.deepcopy(Pair(1)) == Pair(1)
    assert repr(Pair(1)) == "Pair(left=1, right='r')"


def test_an_attribute_of_a_sealed_table_is_set_once() -> None:
    class Table(Sealed):
        __slots__ = ("rows",)

        def __init__(self) -> None:
            self.rows = (1,)

    table = Table()
    with pytest.raises(AttributeError, match="cannot be changed"):
        table.rows = (2,)
    with pytest.raises(AttributeError, match="cannot be removed"):
        del table.rows
    set_cached(table, "rows", (3,))
    assert table.rows == (3,)


def test_a_frozen_mapping_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        frozen_mapping({"a": 1})["b"] = 2  # type: ignore[index]
