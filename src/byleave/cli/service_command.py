"""`byleave service`: show the resident service, and have it end or start anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.cli.output import local_time, say, say_json
from byleave.errors import StateError
from byleave.service.client import service_status, stop_service
from byleave.service.start import start_service

if TYPE_CHECKING:
    from typing import Any

    from byleave.cli.arguments import ParsedArguments

_MEGABYTE = 1 << 20


def run(given: ParsedArguments) -> int:
    """Do what the verb says, and show the state that the service is in then."""
    verb = given.command.name
    if verb in ("stop", "restart"):
        stop_service()
    if verb == "restart" and not start_service():
        raise StateError(
            "the service does not start", hint="see docs/service.md: where it does not, commands run alone"
        )
    state = service_status()
    if given.flag("json"):
        say_json(state)
    elif not given.flag("quiet"):
        say(service_sentence(state))
    return 0


def service_sentence(state: dict[str, Any]) -> str:
    """Say what state the service is in."""
    if not state["running"]:
        return "not running: the next hook, check or run starts it"
    places = "1 directory" if state["workspaces"] == 1 else f"{state['workspaces']} directories"
    calls = "1 call" if state["calls"] == 1 else f"{state['calls']:,} calls"
    return (
        f"running since {local_time(state['since'])}, process {state['pid']}, version {state['version']}: "
        f"{calls} answered, {places}, {state['memory'] / _MEGABYTE:.0f} MB"
    )
