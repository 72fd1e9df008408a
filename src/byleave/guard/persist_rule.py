"""A yes for good is a rule in the user's own file: shown before it is written, and offered only where it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, ConfigErrors, StateError
from byleave.text import shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.policy.live_policy import LivePolicy, ResolvedAction


class PersistentRule:
    """Adds rules to the user's own layer.

    `read` returns that file as it is, `write` exchanges it whole if it is still the same, and `compile_with` returns
    the policy that would hold if it had another content.
    """

    def __init__(
        self,
        read: Callable[[], bytes],
        write: Callable[[bytes, bytes], None],
        compile_with: Callable[[bytes], LivePolicy],
    ) -> None:
        self._read = read
        self._write = write
        self._compile_with = compile_with

    def offer(self, resolved: ResolvedAction) -> str | None:
        """Return the rule that would allow this for good; None if no rule of the user's alone would."""
        rule = resolved.verdict.suggestion
        if resolved.scripts or resolved.wraps:  # a rule knows no content, and names the wrapper instead of what it runs
            return None
        if rule is None or shown_lines(rule) != rule:  # what cannot be shown as it is cannot be agreed to
            return None
        try:
            would_hold = self._compile_with(with_rule(self._read(), rule))
            return rule if would_hold.decide(resolved.action).allowed else None
        except (ByleaveError, ConfigErrors):
            return None

    def keep(self, rule: str) -> None:
        """Write the rule behind what the user's file says already."""
        before = self._read()
        after = with_rule(before, rule)
        try:
            self._compile_with(after)
        except ConfigErrors as error:
            raise StateError(f"your file would no longer be good with it: {error}", hint="add it by hand") from None
        self._write(before, after)


def with_rule(content: bytes, rule: str) -> bytes:
    """Return the content of a configuration file with one more rule behind all others."""
    if content and not content.endswith(b"\n"):
        content += b"\n"
    return content + (b"\n" if content else b"") + rule.encode() + b"\n"
