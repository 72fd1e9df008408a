"""What the proxy says itself, as lines: answers to the agent, questions to the editor."""

import msgspec

from byleave.acp.options import ALLOW_ONCE, REJECT_ONCE
from byleave.acp.wishes import Option
from byleave.core.verdict import shared_tree
from byleave.text import shown
from byleave.wire.codes import ACCESS_DENIED, INVALID_REQUEST
from byleave.wire.jsonrpc import Codec, write_error, write_notification, write_request, write_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.core.verdict import Verdict

CANCELLED_REQUEST = -32800  # as the protocol numbers it
_CODEC = Codec(msgspec.json.decode, msgspec.json.encode)
OUR_OPTIONS = (Option("allow", ALLOW_ONCE, "Allow"), Option("reject", REJECT_ONCE, "Reject"))


def permission(raw_id: "Any", option: Option | None, verdict: "Verdict | None") -> bytes:
    """Return the answer to a request for permission; with a deny, why, where agents that care can find it."""
    outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option.id}
    result: dict[str, Any] = {"outcome": outcome}
    if verdict is not None and not verdict.allowed:
        result["_meta"] = {"byleave": {"decision": "deny", "reason": shown(verdict.reason)}}
    return write_result(_CODEC, raw_id, result)


def denial(raw_id: "Any", verdict: "Verdict", root: str) -> bytes:
    """Return the error that a denied request gets. What would allow it is for the user to hear, not for the agent."""
    told = {name: value for name, value in shared_tree(verdict, root).items() if name != "suggestion"}
    return write_error(_CODEC, raw_id, ACCESS_DENIED, shown(verdict.reason), told)


def refusal(raw_id: "Any", problem: str) -> bytes:
    """Return the error that a request gets which cannot be read for certain."""
    return write_error(_CODEC, raw_id, INVALID_REQUEST, f"byleave refuses this request: {problem}")


def cancelled_request(raw_id: "Any") -> bytes:
    """Return the error that a request gets which was given up."""
    return write_error(_CODEC, raw_id, CANCELLED_REQUEST, "the request was cancelled")


def request(id_: str, method: str, params: "Any") -> bytes:
    """Return the line of a request of ours."""
    return write_request(_CODEC, id_, method, params)


def notification(method: str, params: "Any") -> bytes:
    """Return the line of a notification of ours."""
    return write_notification(_CODEC, method, params)
