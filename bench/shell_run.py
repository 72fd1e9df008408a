"""What a confined `true` costs above a plain one, by part. Run it on a quiet machine: `python bench/shell_run.py`.

Each figure is the tenth percentile of many rounds, of the processor time of a command and everything it starts: other
work on the machine counts little.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 20


def tenth(values: list[float]) -> float:
    """Return the tenth percentile, in milliseconds."""
    return sorted(values)[len(values) // 10] * 1000


def spent() -> float:
    """Return the processor time that this process and its children have used, in seconds."""
    return sum(
        each.ru_utime + each.ru_stime
        for each in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def timed(words: list[str], cwd: str) -> float:
    """Return the processor time of a command."""
    began = spent()
    subprocess.run(words, cwd=cwd, check=True, stdin=subprocess.DEVNULL)
    return spent() - began


def parts(root: str) -> dict[str, float]:
    """Return how long each part of one run takes, in this process, which has everything loaded."""
    from byleave.launch.shell_run import ShellCommand, shell_confinement, shell_start, surroundings
    from byleave.launch.start import start_confined
    from byleave.policy.load import Workspace
    from byleave.policy.sandbox_settings import shell_layer
    from byleave.sandbox.plan import private_files

    private_files._looks.clear()  # noqa: SLF001 -- what a process of its own has to find out
    marks = [spent()]
    workspace = Workspace(root)
    policy = workspace.load(extra=[shell_layer()])
    command = ShellCommand(text="true", cwd=root)
    policy.decide(command.action, confines=True)
    marks.append(spent())
    around = surroundings(workspace, os.environ)
    marks.append(spent())
    with shell_confinement(workspace, policy, command, around) as confinement:
        start = shell_start(confinement, command, around)
        confinement.prepare("/usr/bin/bash", around.environment["PATH"])
        marks.append(spent())
        with start_confined(confinement, start, decide=policy.decide) as process:
            process.wait()
        marks.append(spent())
    marks.append(spent())
    names = ("policy and decision", "toolchains and identity", "plan", "launch and run", "teardown")
    return {name: end - begin for name, begin, end in zip(names, marks[:-1], marks[1:], strict=True)}


def shell_figures() -> Iterator[tuple[str, str, str]]:
    """Yield what a confined command line costs, by part, beside a plain one."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        root = os.path.realpath(place)
        open(os.path.join(root, "byleave.toml"), "w").close()
        inside = [sys.executable, "-m", "byleave", "run", "--shell", "true"]
        rows = {
            "plain: bash -c true": tenth([timed(["bash", "-c", "true"], root) for _ in range(ROUNDS)]),
            "confined: byleave run --shell true": tenth([timed(inside, root) for _ in range(ROUNDS)]),
            "of that, Python itself": tenth([timed([sys.executable, "-c", ""], root) for _ in range(ROUNDS)]),
        }
        rounds = [parts(root) for _ in range(ROUNDS)]
        rows |= {f"of that, {name}": tenth([each[name] for each in rounds]) for name in rounds[0]}
    whole = rows["confined: byleave run --shell true"]
    rows["the rest: loading modules, records"] = whole - sum(rows[name] for name in rows if name.startswith("of that"))
    for name, value in rows.items():
        yield name, f"{value:.1f} ms", f"{value / whole:.0%}"


if __name__ == "__main__":
    for row in shell_figures():
        print("| " + " | ".join(row) + " |")
