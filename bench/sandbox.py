"""What a start in the sandbox costs, beside a plain one, measured in turns.

.venv/bin/python bench/sandbox.py
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from byleave.sandbox import Sandbox
from byleave.sandbox.linux.program import step, write_program
from byleave.sandbox.linux.steps import LaunchedProgram, exec_step
from byleave.sandbox.process import Process

STARTS = 200
MASKS = 500
LARGE = 1 << 30
TRUE = "/bin/true"
EVERYTHING: dict[str, Any] = {"path": ".", "read": True, "write": True, "execute": True}
READING: dict[str, Any] = {"path": ".", "read": True, "execute": True}


def main() -> None:
    for what, figure, ratio in sandbox_figures():
        print(f"  {what:<58} {figure:>16}   {ratio}", flush=True)


def sandbox_figures() -> Iterator[tuple[str, str, str]]:
    """Yield what was measured, the figure, and how it compares to a plain start."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve() / "workspace"
        root.mkdir()
        yield from starts(root)
        yield from large_parent(root)
        yield from masks(root)


def starts(root: Path) -> Iterator[tuple[str, str, str]]:
    with box(root, [READING]) as reading, box(root, [EVERYTHING]) as writing:
        ways: dict[str, Callable[[], None]] = {
            "plain": plain,
            "Landlock and seccomp": partial(bare, reading),
            "everything, a workspace that is only read": partial(start, reading, root),
            "everything, a workspace that is written": partial(start, writing, root),
        }
        figures = in_turns(ways)
    usual = figures["plain"]
    for what, took in figures.items():
        ratio = "" if what == "plain" else f"{took / usual:.2f}x of a plain start"
        yield f"start of {TRUE}: {what}", f"{took * 1e6:.0f} µs", ratio


def large_parent(root: Path) -> Iterator[tuple[str, str, str]]:
    with box(root, [EVERYTHING]) as writing:
        small = in_turns({"": partial(start, writing, root)})[""]
        ballast = bytearray(LARGE)
        ballast[::4096] = b"x" * len(ballast[::4096])  # so that it is really there
        large = in_turns({"": partial(start, writing, root)})[""]
    yield f"the same from a parent with {len(ballast) >> 30} GB", f"{large * 1e6:.0f} µs", f"{large / small:.2f}x"


def masks(root: Path) -> Iterator[tuple[str, str, str]]:
    for number in range(MASKS):
        (root / f"denied{number}").write_text("x")
    rules = [EVERYTHING, *({"path": f"denied{number}"} for number in range(MASKS))]
    with box(root, rules) as masked:
        took = in_turns({"": partial(start, masked, root)}, starts=50)[""]
    yield f"a start with {MASKS} denied files", f"{took * 1e6:.0f} µs", f"{took / MASKS * 1e6:.1f} µs for each"


def box(root: Path, rules: list[dict[str, Any]]) -> Sandbox:
    return Sandbox({"fs": rules}, root=str(root))


def plain() -> None:
    os.waitpid(os.posix_spawn(TRUE, [TRUE], {}), 0)


def start(sandbox: Sandbox, root: Path) -> None:
    with sandbox.spawn([TRUE], cwd=str(root), env={"PATH": "/usr/bin:/bin"}) as process:
        assert process.wait() == 0, process.problem


def bare(sandbox: Sandbox) -> None:
    """Start with Landlock and seccomp alone: the steps of the program itself, without any namespace."""
    program = BARE.get(sandbox)
    if program is None:
        program = BARE[sandbox] = _bare_program(sandbox)
    with Process((sandbox.confinement.launcher().path,), program) as process:
        assert process.wait() == 0, process.problem


BARE: dict[Sandbox, bytes] = {}


def _bare_program(sandbox: Sandbox) -> bytes:
    from byleave.sandbox.linux.seccomp import FilterOptions, make_filter
    from byleave.sandbox.linux.steps import arrange, view_steps

    plan = sandbox.confinement.prepare(TRUE, "/usr/bin:/bin").plan
    filtering = make_filter(os.uname().machine, FilterOptions(sockets=False))
    steps = list(view_steps(plan, arrange(plan), sandbox.confinement.host, filtering))
    inner = steps[[name for name, _fields in steps].index("spawn") + 1 :]
    there = [(name, fields) for name, fields in inner if name != "grant" or os.path.isdir(os.fsdecode(fields[0]))]  # type: ignore[arg-type]  # a path
    assert step("drop") in there
    return write_program([*there, exec_step(LaunchedProgram(TRUE, "/", (TRUE,), ()))])


def in_turns(ways: dict[str, Callable[[], None]], starts: int = STARTS) -> dict[str, float]:
    """Return the tenth part of the sorted times of each: what it takes when nothing gets in the way."""
    times: dict[str, list[float]] = {what: [] for what in ways}
    for _ in range(starts):
        for what, way in ways.items():
            began = time.perf_counter()
            way()
            times[what].append(time.perf_counter() - began)
    return {what: sorted(taken)[len(taken) // 10] for what, taken in times.items()}


if __name__ == "__main__":
    main()
