"""What a tool's processes may use at most. Pure.

How many processes, how much memory, how large a file, how many open files, how long. Whoever starts the processes
enforces it; here is only what was asked for, and how a size is written.
"""

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SIZES = ("memory", "file_size", "max_file_size")
HOST_LIMITS = ("request_timeout", "cancel_timeout", "max_file_size")  # what the host of a tool keeps to
LARGEST = (1 << 63) - 1  # a signed number of 64 bits, as the kernel and Python's `resource` take
_DIGITS = frozenset("0123456789")
_MOST_DIGITS = 20  # LARGEST has 19
# A megabyte is 2^20 bytes, as everywhere in byleave.
_UNITS = {"b": 1} | {
    f"{prefix}{ending}": 1 << 10 * power for power, prefix in enumerate("kmgt", start=1) for ending in ("b", "ib")
}


class Limits(Record):
    """What the processes of one tool may use: sizes in bytes, time in seconds. None: the user sets no limit."""

    processes: int | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    wall_time: float | None = None


def limits_of(table: "Mapping[str, Any]") -> Limits:
    """Return the limits of a `limits` table, in its configured or its normal form, that was found to be right."""
    values = {name: table[name] for name in Limits.field_names() if name in table}
    values |= {name: parse_size(values[name]) for name in SIZES if name in values}
    if "wall_time" in values:
        values["wall_time"] = float(values["wall_time"])
    return Limits(**values)


def parse_size(size: int | str) -> int | None:
    """Return a size in bytes: a number of them, or text such as "512 MB" or "1.5 GiB". None if it is no size."""
    found = _parse_text(size) if isinstance(size, str) else size
    return found if found is not None and 1 <= found <= LARGEST else None


def _parse_text(text: str) -> int | None:
    """Read a number and its unit. Whole numbers all the way: a float would lose bytes."""
    number = text.rstrip("bkmgtiBKMGTI")
    factor = _UNITS.get(text[len(number) :].lower())
    whole, dot, part = number.rstrip(" ").partition(".")
    digits = whole + part
    if (
        factor is None
        or not whole
        or (dot and not part)
        or len(digits) > _MOST_DIGITS
        or not _DIGITS.issuperset(digits)
    ):
        return None
    divisor: int = 10 ** len(part)
    return int(digits) * factor // divisor
