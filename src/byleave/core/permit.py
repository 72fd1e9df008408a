"""An allowed action. Effects take nothing else, so that nobody can forget to ask."""

from byleave.core.verdict import ALLOW
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from byleave.core.action import Action
    from byleave.core.fs import FsTarget, Refused
    from byleave.core.verdict import Verdict


class Permit(Record):
    """An action, where its paths led when it was judged, and the verdict that allowed it: without one there is none."""

    action: "Action"
    places: "tuple[FsTarget | Refused, ...]"
    verdict: "Verdict"

    def __init__(self, action: "Action", places: "tuple[FsTarget | Refused, ...]", verdict: "Verdict") -> None:
        if verdict.decision is not ALLOW:
            raise PermissionError(f"no permit without an allowed verdict: {verdict.reason}")
        # A permit is for what was judged, once and here: it can be neither changed nor sent elsewhere.
        _set_action(self, action)
        _set_places(self, places)
        _set_verdict(self, verdict)

    def replace(self, **_changes: object) -> "NoReturn":
        """Refuse: what is not what was judged needs a permit of its own."""
        raise PermissionError("a permit cannot be changed: ask again")

    def __reduce__(self) -> "NoReturn":
        raise PermissionError("a permit cannot be copied or sent: ask again")


# A record's fields cannot be assigned; these are the slots themselves.
_set_action, _set_places, _set_verdict = [getattr(Permit, name).__set__ for name in Permit.field_names()]
