"""Command rules: which programs a tool may spawn, with which first arguments.

A program is matched as it was written: `cargo` is neither `./cargo` nor `/x/cargo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import BUILT_IN, DENY, INLINE, RuleRef, ref_to
from byleave.record import Record, Sealed, frozen_mapping
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

ANYTHING = "**"


class CommandRule(Record):
    """One program: the argument lists it may get (None: any), and the variables that reach it."""

    program: str
    args: tuple[tuple[str, ...], ...] | None = None
    envs: tuple[str, ...] = ()
    source: str = INLINE

    @property
    def text(self) -> str:
        """The rule in a few words."""
        if self.args is None:
            return f"commands {shown(self.program)}: any arguments"
        lists = " | ".join(" ".join(shown(word) for word in words) or "(none)" for words in self.args[:4])
        more = f" | and {len(self.args) - 4} more" if len(self.args) > 4 else ""
        return f"commands {shown(self.program)}: {lists or '(no arguments)'}{more}"


class CommandTable(Sealed):
    """All command rules of one tool. The cost of a match is the number of arguments, not of rules."""

    def __init__(self, rules: Sequence[CommandRule]) -> None:
        self.rules = frozen_mapping({rule.program: rule for rule in rules})
        self._programs = {rule.program: _Arguments(rule) for rule in rules}

    def match(self, program: str, args: Sequence[str]) -> tuple[CommandRule | None, bool]:
        """Return the rule of the program, if it is listed, and whether its arguments are allowed."""
        known = self._programs.get(program)
        if known is None:
            return None, False
        return known.rule, known.allow(tuple(args))

    @staticmethod
    def ref(rule: CommandRule | None, *, allowed: bool) -> RuleRef:
        """Return the reference to `rule` that a verdict carries; None stands for default-deny."""
        return ref_to(rule, allowed=allowed, missing=NO_COMMAND_RULE)


class _Arguments(Sealed):
    """The argument lists of one program, as sets: whole lists, and prefixes by their length."""

    def __init__(self, rule: CommandRule) -> None:
        self.rule = rule
        lists = rule.args if rule.args is not None else ((ANYTHING,),)
        self._whole = {words for words in lists if words[-1:] != (ANYTHING,)} or ({()} if not lists else set())
        self._prefixes = {words[:-1] for words in lists if words[-1:] == (ANYTHING,)}
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def allow(self, args: tuple[str, ...]) -> bool:
        if args in self._whole:
            return True
        return any(args[:length] in self._prefixes for length in self._lengths if length <= len(args))


NO_COMMAND_RULE = RuleRef("no access.commands entry lists it", BUILT_IN, DENY)


def args_problem(args: Sequence[Sequence[str]]) -> str | None:
    """Say what is wrong with the argument lists of a command rule, or None."""
    for words in args:
        if ANYTHING in words[:-1]:
            return f'"**" may only be the last word, not as in [{", ".join(shown(word) for word in words)}]'
    return None
