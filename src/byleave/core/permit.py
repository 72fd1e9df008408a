"""An allowed action. Effects take nothing else, so that nobody can forget to ask."""

from byleave.core.verdict import ALLOW
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        _set_action(self, action)
        _set_places(self, places)
        _set_verdict(self, verdict)


# A record's fields cannot be assigned; these are the slots themselves.
_set_action, _set_places, _set_verdict = [getattr(Permit, name).__set__ for name in Permit.field_names()]
