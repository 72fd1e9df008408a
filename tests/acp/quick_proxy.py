"""The proxy with a simple relay: `python quick_proxy.py RELAY -- AGENT...`

With `passes` it has little patience, for agents that have to be ended. With `deaf` it is told to end in vain, and has
all the patience of the world until somebody insists.
"""

import sys
from collections.abc import Callable

from msgspec import structs

from byleave.acp.agent_process import SupervisedAgent
from byleave.acp.proxy import AcpProxy
from byleave.acp.relay import TO_AGENT, TO_CLIENT, Send
from byleave.acp.supervisor import ShutdownTimes

QUICK = ShutdownTimes(
    closed=(0.3, 0.8),
    requested=(0.2, 0.5),
    insisted=(0.0, 0.1),
    left=(0.1, 0.4),
    killed=5.0,
    last_words=0.5,
    unread=0.5,
)


class Passes:
    """Forwards everything."""

    def __init__(self) -> None:
        self.is_waiting = False

    def from_agent(self, _line: bytes) -> list[Send] | None:
        return None

    def from_client(self, _line: bytes) -> list[Send] | None:
        return None

    def tick(self) -> list[Send]:
        return []

    def notices(self) -> list[str]:
        return []

    def close(self) -> None:
        sys.stderr.write("closed\n")


class Answers(Passes):
    """Answers the agent's `ask` and the client's `ping` by itself."""

    def from_agent(self, line: bytes) -> list[Send] | None:
        return [Send(TO_AGENT, b"answer " + line)] if line.startswith(b"ask") else None

    def from_client(self, line: bytes) -> list[Send] | None:
        return [Send(TO_CLIENT, b"pong " + line)] if line.startswith(b"ping") else None


class Ticks(Passes):
    """Waits from the first line on, and then has something to say to both, once."""

    def from_client(self, line: bytes) -> list[Send] | None:
        self.is_waiting = True
        return [Send(TO_AGENT, line)]

    def tick(self) -> list[Send]:
        said = [Send(TO_CLIENT, b"time is up\n"), Send(TO_AGENT, b"for you too\n")] if self.is_waiting else []
        self.is_waiting = False
        return said


class Breaks(Passes):
    """Has a defect that one line brings to light."""

    def from_agent(self, line: bytes) -> list[Send] | None:
        if line.startswith(b"boom"):
            raise RuntimeError("a \x1b[31mdefect")
        return None


class BreaksInTime(Passes):
    """Has a defect in its clock."""

    def tick(self) -> list[Send]:
        raise RuntimeError("a defect in time")


RELAYS: dict[str, Callable[[], Passes]] = {
    "passes": Passes,
    "answers": Answers,
    "ticks": Ticks,
    "breaks": Breaks,
    "breaks_in_time": BreaksInTime,
    "deaf": Passes,
}


def main(relay: str, argv: list[str]) -> int:
    patience = {"passes": QUICK, "deaf": structs.replace(QUICK, requested=(300.0, 300.0))}.get(relay, ShutdownTimes())
    agent = SupervisedAgent(argv, patience)
    agent.start()
    proxy = AcpProxy(agent, RELAYS[relay](), sys.stderr.writelines, patience=patience)
    code = proxy.run()
    agent.close()
    if proxy.problem is not None:
        sys.stderr.write(f"{proxy.problem}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[3:]))
