"""Many calls in one host: memory, descriptors, threads and files stay what they are."""

import gc
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import amounts
from byleave.policy.load import Workspace
from sandbox.machine import needs_sandbox
from soak import MEGABYTE, Soak
from toolhost.hosting import House, Kept, descriptors, ended, eventually, said

pytestmark = needs_sandbox

CALLS = amounts.of(10_000, 120)
WARM = amounts.of(CALLS // 4, 60)  # calls until the audit log has folded its journal a few times
GROWTH = 16 * MEGABYTE  # what folding a large journal takes for a while; two kilobytes a call are more
OBJECTS = 500

# As small as a tool can be: it reads what it is to do, asks for one file, and says that it has it.
TINY = r"""
#include <string.h>
#include <unistd.h>
static void line(void) { char c = 0; while (read(0, &c, 1) == 1 && c != '\n') ; }
static void say(const char *text) { if (write(1, text, strlen(text)) < 0) _exit(1); }
int main(void)
{
	line();
	say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fs.read\",\"params\":{\"path\":\"a.txt\"}}\n");
	line();
	say("{\"jsonrpc\":\"2.0\",\"method\":\"result\",\"params\":{\"content\":\"done\"}}\n");
	return 0;
}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> dict[str, Any]:
    source, program = tmp_path / "freestanding.c", tmp_path / "tiny"
    source.write_text(TINY)
    made = subprocess.run(["cc", "-O1", "-static", "-o", str(program), str(source)], check=False, capture_output=True)
    if made.returncode:
        pytest.skip(f"there is no C compiler that links statically: {made.stderr.decode()[-200:]}")
    access = {"fs": [{"path": ".", "read": True}]}
    return {"source": "local", "runtime": "vfs", "command": [str(program)], "access": access, "run": "unattended"}


def state_files(house: House) -> set[str]:
    """Return the names of what byleave keeps for a workspace; the audit log, which folds when it likes, is its own."""
    state = Path(Workspace(str(house.root)).homes.workspace(str(house.root)))
    return {path.name for path in state.rglob("*") if not path.name.startswith("audit")}


def held() -> list[str]:
    """Return where our descriptors lead, but for those of the audit log."""
    return [name for name in descriptors() if "/audit" not in name]


def test_a_host_stays_as_small_as_it_is(tmp_path: Path, tiny: dict[str, Any]) -> None:
    house = House.build(tmp_path, {"t": tiny})
    soak = Soak("a tool host", os.getpid(), warm=WARM, rounds=CALLS)
    with house.host() as hosting:
        for _ in soak.warm():
            assert hosting.call("t") == said("done")
        gc.collect()
        before, objects = (held(), threading.active_count(), state_files(house)), len(gc.get_objects())
        for _ in soak.rounds():
            assert hosting.call("t") == said("done")
        gc.collect()
        # A thread that folds the audit log holds its directory for a moment.
        eventually(lambda: (held(), threading.active_count(), state_files(house)) == before)
        soak.ends(GROWTH)
        eventually(lambda: gc.collect() >= 0 and len(gc.get_objects()) < objects + OBJECTS)


@amounts.slow
def test_a_kept_call_stays_as_small_as_it_is(tmp_path: Path, tiny: dict[str, Any]) -> None:
    house = House.build(tmp_path, {"t": tiny})
    with ended(house.start("t", "--keep", "-q")) as process:
        kept = Kept(process)
        soak = Soak("a tool that is kept", process.pid, warm=WARM, rounds=CALLS)
        for _ in soak.warm():
            assert kept.ask() == said("done")
        for _ in soak.rounds():
            assert kept.ask() == said("done")
        soak.ends(GROWTH)
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < 40
