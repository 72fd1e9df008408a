"""The services of a user are known by their sockets, and spared where an agent's processes are ended."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from byleave.acp.supervisor import descendants
from byleave.launch import services
from sandbox.session_scene import eventually


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "byleave"
    made.mkdir(mode=0o700)
    monkeypatch.setattr(services, "service_places", lambda: (str(made), str(tmp_path / "missing")))
    return made


def listener(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.bind(str(path))
    line.listen()
    return line


def test_what_listens_in_the_directory_is_a_service(place: Path) -> None:
    assert services.service_processes() == frozenset()
    with listener(place / "key.sock"):
        assert services.service_processes() == {os.getpid()}
    assert services.service_processes() == frozenset()  # the socket of one that has ended is left


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o1777])
def test_a_directory_that_others_may_enter_holds_no_service(mode: int, place: Path) -> None:
    with listener(place / "key.sock"):
        place.chmod(mode)
        assert services.service_processes() == frozenset()


def test_other_files_are_no_services(place: Path) -> None:
    (place / "key.lock").write_text("")
    (place / "other.sock").write_text("")
    with listener(place / "key.socket"):
        assert services.service_processes() == frozenset()


def test_a_service_and_what_is_below_it_is_no_descendant_of_an_agent(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    with subprocess.Popen(["sh", "-c", script]) as spared, subprocess.Popen(["sleep", "60"]) as other:
        eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
        child = int((tmp_path / "child").read_text())
        everything = descendants(os.getpid())
        left = descendants(os.getpid(), frozenset({spared.pid}))
        for pid in (child, spared.pid, other.pid):
            os.kill(pid, 9)
    assert {spared.pid, child, other.pid} <= set(everything)
    assert set(everything) - set(left) == {spared.pid, child}
