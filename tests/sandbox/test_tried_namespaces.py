"""Namespaces that have worked for one process of the service need not be tried out by the next: if nothing changed."""

import pytest

from byleave.sandbox.host import Base, this_host
from byleave.sandbox.linux import backends
from byleave.sandbox.linux.backends import BWRAP, NAMESPACES, Machine, Probe, doubt_namespaces, keep_tried, probe
from byleave.sandbox.linux.backends import take_tried as take
from byleave.sandbox.machine_stamp import machine_stamp
from byleave.sandbox.native.build import Launcher

PATH = "/some/launcher"
MACHINE = Machine(this_host(namespaces=True), Base((), ()), Launcher(PATH, "test"))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was tried out: everything works."""
    done: list[str] = []

    def works(backend: str, _machine: Machine) -> Probe:
        done.append(backend)
        return Probe(works=True)

    monkeypatch.setattr(backends, "_try_out", works)
    for name, empty in (("_probed", {}), ("_worked", {}), ("_tried", [])):
        monkeypatch.setattr(backends, name, empty)
    return done


def test_what_has_worked_is_not_tried_out_again(tried: list[str]) -> None:
    keep_tried(PATH, machine_stamp())
    assert probe(NAMESPACES, MACHINE).works
    assert (tried, take()) == ([], [])


@pytest.mark.parametrize("stamp", ["", "of another machine"])
def test_where_something_has_changed_it_is_tried_out(tried: list[str], stamp: str) -> None:
    keep_tried(PATH, stamp)
    assert probe(NAMESPACES, MACHINE).works
    assert (tried, take()) == ([NAMESPACES], [(PATH, machine_stamp())])


def test_only_namespaces_are_known_from_before(tried: list[str]) -> None:
    keep_tried(PATH, machine_stamp())
    assert probe(BWRAP, MACHINE).works
    assert (tried, take()) == ([BWRAP], [])


def test_namespaces_that_do_not_work_are_not_kept(tried: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_try_out", lambda _backend, _machine: Probe(works=False, why="no"))
    assert not probe(NAMESPACES, MACHINE).works
    assert (tried, take()) == ([], [])


def test_after_a_start_that_failed_they_are_tried_out_again(tried: list[str]) -> None:
    keep_tried(PATH, machine_stamp())
    doubt_namespaces(PATH)
    for launcher, stamp in take():
        keep_tried(launcher, stamp)
    assert probe(NAMESPACES, MACHINE).works
    assert tried == [NAMESPACES]
