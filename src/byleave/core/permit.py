"""The permit of an allowed action: an effect takes a `Permit` and nothing else, so no caller can skip the decision."""

from byleave.core.decision import ALLOW
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from byleave.core.action import Action
    from byleave.core.decision import Verdict
    from byleave.core.fs_rules import FsTarget, RefusedPath


class Permit(Record):
    """An action, where its paths led when it was decided, and the verdict that allowed it."""

    action: "Action"
    places: "tuple[FsTarget | RefusedPath, ...]"
    verdict: "Verdict"

    def __init__(self, action: "Action", places: "tuple[FsTarget | RefusedPath, ...]", verdict: "Verdict") -> None:
        if verdict.decision is not ALLOW:
            raise PermissionError(f"no permit without an allowed verdict: {verdict.reason}")
        # A permit is for the action that was decided, once and here: it can be neither changed nor sent elsewhere.
        _set_action(self, action)
        _set_places(self, places)
        _set_verdict(self, verdict)

    def replace(self, **_changes: object) -> "NoReturn":
        """Refuse: another action needs a permit of its own."""
        raise PermissionError("a permit cannot be changed: ask again")

    def __reduce__(self) -> "NoReturn":
        raise PermissionError("a permit cannot be copied or sent: ask again")


# A record's fields cannot be assigned; these are the slots themselves.
_set_action, _set_places, _set_verdict = [getattr(Permit, name).__set__ for name in Permit.field_names()]
