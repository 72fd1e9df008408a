"""Exchange pairs of names as fast as the kernel can, until killed, for at most a minute.

    python swapper.py ONE OTHER [ONE OTHER ...]

Says "ready" once every pair has been exchanged, and "atomic" or "by renaming" for how it does it.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable

EXCHANGE = 2  # linux/fs.h: RENAME_EXCHANGE
HERE = -100  # fcntl.h: AT_FDCWD


def exchange_atomically(one: bytes, other: bytes) -> None:
    if LIBC.renameat2(HERE, one, HERE, other, EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "the names cannot be exchanged")


def exchange_by_renaming(one: bytes, other: bytes) -> None:
    os.rename(one, one + b".aside")
    os.rename(other, one)
    os.rename(one + b".aside", other)


LIBC = ctypes.CDLL(None, use_errno=True)
Exchange = Callable[[bytes, bytes], None]


def choose(one: bytes, other: bytes) -> tuple[str, Exchange]:
    try:
        exchange_atomically(one, other)
    except (AttributeError, OSError):
        return "by renaming", exchange_by_renaming
    return "atomic", exchange_atomically


def main(names: list[bytes]) -> None:
    pairs = list(zip(names[::2], names[1::2], strict=True))
    way, exchange = choose(*pairs[0])
    for pair in pairs:
        exchange(*pair)
    sys.stdout.write(f"ready {way}\n")
    sys.stdout.flush()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for pair in pairs:
            exchange(*pair)


if __name__ == "__main__":
    main([os.fsencode(name) for name in sys.argv[1:]])
