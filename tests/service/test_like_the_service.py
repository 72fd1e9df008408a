"""What makes a caller another process than the service is: what it may see and do, and its share of the machine."""

import ctypes
import os
from collections.abc import Callable

import pytest

from byleave.service.directory import facts_of, share_of

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change this")

_LIBRARY = ctypes.CDLL(None, use_errno=True)
_IO_PRIORITY = {"x86_64": 251, "aarch64": 30}  # ioprio_set
_DROP_FROM_BOUNDING_SET, _NET_RAW = 24, 13


def _unshare(flag: int) -> Callable[[], None]:
    def change() -> None:
        if _LIBRARY.unshare(flag) != 0:
            raise OSError(ctypes.get_errno(), "unshare")

    return change


def _drop_capability() -> None:
    assert _LIBRARY.prctl(_DROP_FROM_BOUNDING_SET, _NET_RAW, 0, 0, 0) == 0


def _have_disks_last() -> None:
    assert _LIBRARY.syscall(_IO_PRIORITY[os.uname().machine], 1, 0, 3 << 13) == 0


def _have_real_time(priority: int) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


OTHER_FACTS = {
    "ipc": _unshare(0x08000000),
    "uts": _unshare(0x04000000),
    "cgroup": _unshare(0x02000000),
    "time of children": _unshare(0x00000080),
    "pid of children": _unshare(0x20000000),
    "mounts": _unshare(0x00020000),
    "bounding set": _drop_capability,
}
OTHER_SHARES: dict[str, Callable[[], object]] = {
    "nice": lambda: os.nice(1),
    "disks": _have_disks_last,
    "batch": lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
}


def seen_in_child(change: Callable[[], object], look: Callable[[int], object]) -> object:
    """Return what `look` says of a child that has changed something about itself."""
    reading, writing = os.pipe()
    stop, going = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            change()
            os.write(writing, b"x")
            os.close(going)
            os.read(stop, 1)
        finally:
            os._exit(0)
    try:
        os.close(writing)
        if not os.read(reading, 1):
            pytest.skip("this may not be changed here")
        return look(child)
    finally:
        for descriptor in (reading, stop, going):
            os.close(descriptor)
        os.waitpid(child, 0)


def test_a_child_that_has_changed_nothing_is_alike() -> None:
    assert seen_in_child(lambda: None, facts_of) == facts_of()
    assert seen_in_child(lambda: None, share_of) == share_of()


@as_root
@pytest.mark.parametrize("name", OTHER_FACTS)
def test_a_process_in_another_namespace_or_with_fewer_rights_is_another(name: str) -> None:
    assert seen_in_child(OTHER_FACTS[name], facts_of) != facts_of()


@as_root
@pytest.mark.parametrize("name", OTHER_SHARES)
def test_a_process_with_another_priority_has_another_share(name: str) -> None:
    assert seen_in_child(OTHER_SHARES[name], share_of) != share_of()


@as_root
def test_a_higher_priority_in_real_time_is_another_share() -> None:
    low = seen_in_child(lambda: _have_real_time(5), share_of)
    assert low != seen_in_child(lambda: _have_real_time(6), share_of)
