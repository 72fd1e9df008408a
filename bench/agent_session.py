"""What an agent session adds to a confined command, by part.

    python bench/agent_session.py [ROUNDS]

The least of all rounds, in turns: other work on the machine only adds.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable

from byleave.launch.agent_session import AgentSession, end_session, in_front, process_of
from byleave.policy.load import Workspace
from byleave.sandbox.confinement import Confinement, SandboxOptions
from byleave.sandbox.sandbox import ToolSandbox


def main(rounds: int) -> None:
    """Measure, and print one line for each part."""
    with tempfile.TemporaryDirectory(prefix="byleave-bench-", dir="/var/tmp") as place:
        os.environ["BYLEAVE_HOME"] = os.path.join(place, "home")
        root = os.path.join(place, "workspace")
        os.mkdir(root)
        process = process_of(os.getpid())
        if process is None:
            raise SystemExit("this process has no entry in /proc")
        session = AgentSession(root=root, agent="bench", name="one", process=process)
        workspace = Workspace(root)
        policy = workspace.compile_tree({"tools": {"t": {"source": "local", "runtime": "stdio"}}})
        with (
            Confinement(workspace, policy, "t") as fresh,
            Confinement(workspace, policy, "t", SandboxOptions(session=session)) as joined,
        ):

            def begin() -> None:
                end_session(session)
                joined.join(joined.prepare("/bin/true", "/usr/bin:/bin")).close()  # type: ignore[union-attr]

            parts: dict[str, Callable[[], object]] = {
                "true, confined, without a session": lambda: _run(ToolSandbox(fresh, policy.decide)),
                "the same in a session": lambda: _run(ToolSandbox(joined, policy.decide)),
                "beginning a session": begin,
                "a process in front": lambda: in_front(lambda _front: 0),
            }
            found = {name: [_time(part) for _ in range(2)] for name, part in parts.items()}
            for _ in range(rounds):
                for name, part in parts.items():
                    found[name].append(_time(part))
        end_session(session)
    for name, times in found.items():
        sys.stdout.write(f"{name:36} {min(times) * 1000:6.2f} ms\n")


def _run(sandbox: ToolSandbox) -> None:
    with sandbox.spawn(["/bin/true"]) as process:
        process.wait()


def _time(part: Callable[[], object]) -> float:
    begun = time.perf_counter()
    part()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 40)
