"""Puts the proxy's parts together: a workspace becomes a relay that judges."""

from time import monotonic

from byleave.acp.judging import Judging
from byleave.acp.relay import Relay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from byleave.api import Workspace
    from byleave.guard.asking import Who


def make_relay(
    workspace: "Workspace",
    *,
    who: "Who",
    files: "Sequence[str]" = (),
    session: str = "default",
    fixed: bool = False,
    strict: bool = False,
    log: "Callable[[dict[str, Any]], None] | None" = None,
    now: "Callable[[], float]" = monotonic,
) -> Relay:
    """Return a relay for an agent in this workspace.

    Unless the workspace is `fixed`, a session that works elsewhere is judged by the policy of its own workspace. `log`
    is given an object for every request that was judged.
    """
    judging = Judging(workspace, files=files, session=session, who=who, fixed=fixed)
    return Relay(judging, strict=strict, log=log, now=now)
