"""From the name of a host to the addresses that may be dialled for it, and why one could not be.

A name is looked up once; what passed `dialable` is what is dialled, so that a name cannot lead elsewhere in between.
The sandbox's proxy and both HTTP clients look names up here. The system's resolver blocks and cannot be interrupted:
an event loop asks it in a thread (`in_thread`).
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from ipaddress import ip_address
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from byleave.core.net_rules import may_dial
from byleave.text import sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from byleave.core.net_rules import NetRule

Result = TypeVar("Result")

MOST_ADDRESSES = 16


def is_address(host: str) -> bool:
    """Whether the host of a place is an address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of `host`, best first; OSError if there are none. Blocks as long as the resolver does."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise OSError("it is no name") from None
    return list(dict.fromkeys([str(entry[4][0]) for entry in entries]))


async def in_thread(work: Callable[[], Result], seconds: float | None) -> Result:
    """Do blocking `work` in a thread of its own; a TimeoutError if it takes longer, and the thread is left alone."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(set_: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_(value)

    def run() -> None:
        set_: Callable[[Any], None] = done.set_result
        try:
            value: Any = work()
        except BaseException as problem:  # noqa: BLE001 -- the caller gets it
            set_, value = done.set_exception, problem
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, set_, value)

    Thread(target=run, name="byleave-blocking", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


def dialable(rules: Sequence[NetRule | None], found: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses that every one of the rules lets a connection go to; without a rule there are none."""
    usable = [address for address in found if rules and all(may_dial(rule, address) for rule in rules)]
    return tuple(usable[:MOST_ADDRESSES])


def not_dialable(host: str, found: Sequence[str]) -> str:
    """Return why none of the addresses of a host is dialled."""
    leads = "is" if is_address(host) else f"leads to {sentence_list(list(found))}, which is"
    return (
        f"{shown(host)} {leads} in a private range, or not an address that may be dialled; "
        "a rule opens it by naming that very address, or with private = true"
    )


def why(problem: OSError) -> str:
    """Return what went wrong in the system's own words, without file names."""
    if isinstance(problem, socket.gaierror) or problem.errno is None:
        return problem.strerror or str(problem)
    return os.strerror(problem.errno)
