"""What is known of a command, for tests of what rules make of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from byleave.core.match_context import Knowledge


@dataclass(frozen=True)
class Known:
    """What is known of a command, said beforehand."""

    texts: tuple[str | None, ...] = ("git",)
    subcommand: bool | None = False
    version: bool = False
    flag: bool | None = False
    operands: bool | None = False
    exact: bool | None = False
    loose: bool = False
    option: str | None = None
    named: tuple[str, ...] = ()  # options that are harmless where a rule names them
    spelled: frozenset[str] = frozenset()
    starts: tuple["Known", ...] = ()  # what its words spell from a name on
    asked: list[object] = field(default_factory=list, compare=False)

    def is_subcommand(self, expected: str) -> bool | None:
        self.asked.append(expected)
        return self.subcommand

    def asks_for_version(self) -> bool:
        return self.version

    def has_flag(self, flag: str) -> bool | None:
        self.asked.append(flag)
        return self.flag

    def has_operands(self, *, most: int, behind: bool) -> bool | None:
        self.asked.append((most, behind))
        return self.operands

    def args_match(self, expected: tuple[str, ...]) -> bool | None:
        self.asked.append(expected)
        return self.exact

    def may_be_args(self, expected: tuple[str, ...]) -> bool:
        self.asked.append(expected)
        return self.loose

    def started_as(self, name: str) -> Iterator[Knowledge]:
        self.asked.append(name)
        yield from self.starts

    def uncovered(self, flags: tuple[str, ...], args: tuple[str, ...]) -> str | None:
        return None if self.option in (*flags, *args) else self.option
