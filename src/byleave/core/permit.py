"""The permit of an allowed action: an effect takes a `Permit` and nothing else, so no caller can skip the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from byleave.core.decision import ALLOW
from byleave.record import Record

if TYPE_CHECKING:
    from byleave.core.action import Action
    from byleave.core.decision import Verdict
    from byleave.core.fs_rules import FsTarget, RefusedPath


class Permit(Record):
    """An action, where its paths led when it was decided, and the verdict that allowed it.

    It is for the action that was decided, once and here: it can be neither changed nor sent elsewhere.
    """

    action: Action
    places: tuple[FsTarget | RefusedPath, ...]
    verdict: Verdict

    def __post_init__(self) -> None:
        if self.verdict.decision is not ALLOW:
            raise PermissionError(f"no permit without an allowed verdict: {self.verdict.reason}")

    def replace(self, **_changes: object) -> NoReturn:
        """Refuse: another action needs a permit of its own."""
        raise PermissionError("a permit cannot be changed: ask again")

    __replace__ = replace

    def __reduce__(self) -> NoReturn:
        raise PermissionError("a permit cannot be copied or sent: ask again")

    def __copy__(self) -> NoReturn:
        raise PermissionError("a permit cannot be copied or sent: ask again")
