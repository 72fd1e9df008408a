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
        for name, value in zip(self.field_names(), (action, places, verdict), strict=True):
            object.__setattr__(self, name, value)
