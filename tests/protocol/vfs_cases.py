"""The recorded conversations of tests/cases/vfs: who says what, and what comes of it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

PLACE = Path(__file__).parent.parent / "cases" / "vfs"


class Case(NamedTuple):
    """One conversation. `said` are the messages in order: to whom, and the line."""

    name: str
    about: dict[str, Any]
    said: list[tuple[str, Any]]
    outcome: dict[str, Any] | None

    def bytes_to(self, whom: str) -> bytes:
        """Return everything that goes one way, as it is on the wire."""
        return b"".join(_line(line) for to, line in self.said if to == whom)


def _line(line: Any) -> bytes:
    text = line if isinstance(line, str) else json.dumps(line, separators=(",", ":"))
    return text.encode() + b"\n"


def load_conversations() -> list[Case]:
    """Return all of them."""
    return [_case(file) for file in sorted(PLACE.glob("*.ndjson"))]


def _case(file: Path) -> Case:
    about, *rest = [json.loads(line) for line in file.read_text().splitlines()]
    said = [(entry["to"], entry["line"]) for entry in rest if "to" in entry]
    return Case(file.stem, about, said, rest[-1].get("outcome"))
