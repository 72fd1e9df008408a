"""What can go wrong between a mediated tool and its host, one class for each.

    VfsError                what happened; `code` is the protocol's number, None where the protocol has none
    |-- InvalidRequest      a message that is no request
    |-- MethodNotFound      this host does not serve that method
    |-- InvalidParams       a parameter is missing, or wrong
    |   `-- TooLarge        a file or a message is larger than `limit` bytes
    |-- AccessDenied        the policy, or a person, said no
    |-- NotFound            there is no such file, directory or program
    |-- AlreadyExists       something is there already, and must not be replaced
    |-- TimedOut            it took too long, for the host or for us
    |-- Cancelled           the host wants the tool to stop, or a request was given up
    |-- NotText             the file is not UTF-8: read its bytes
    |-- ProtocolError       the host said something that the protocol does not have, or the tool is over already
    `-- HostGone            the host has closed the connection

They are no `ByleaveError`s: those are for people who run byleave, these for programs that run under it.
"""

from byleave.protocol import jsonrpc
from byleave.text import sentence_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class VfsError(Exception):
    """A request was not done. `message` is the host's sentence, fit to be shown."""

    def __init__(self, message: str, *, code: int | None = None, data: "Any" = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data


class InvalidRequest(VfsError): ...  # noqa: N818 -- named as the protocol names them


class MethodNotFound(VfsError): ...  # noqa: N818


class InvalidParams(VfsError): ...  # noqa: N818


class TooLarge(InvalidParams):
    """A file or a message is larger than the host carries."""

    @property
    def limit(self) -> int:
        """How many bytes would do."""
        return int(self.data["limit"])


class AccessDenied(VfsError):  # noqa: N818
    """The policy, or a person, said no. As a text: what was denied, and where it would be granted."""

    @property
    def capability(self) -> str | None:
        """What the tool may not do there, as rules call it; None where the host did not say."""
        named = self.data.get("capability") if isinstance(self.data, dict) else None
        return named if isinstance(named, str) else None

    @property
    def grants(self) -> tuple[str, ...] | None:
        """The paths at which rules grant it; None where no rules of that kind are configured."""
        listed = self.data.get("grants") if isinstance(self.data, dict) else None
        return tuple(str(path) for path in listed) if isinstance(listed, list) else None

    def __str__(self) -> str:
        if self.capability is None or self.grants is None:
            return self.message
        if not self.grants:
            return f"{self.message}; no rule grants {self.capability}"
        return f"{self.message}; {self.capability} is granted at {sentence_list(self.grants)}"


class NotFound(VfsError): ...  # noqa: N818


class AlreadyExists(VfsError): ...  # noqa: N818


class TimedOut(VfsError): ...  # noqa: N818


class Cancelled(VfsError): ...  # noqa: N818


class NotText(VfsError): ...  # noqa: N818


class ProtocolError(VfsError): ...


class HostGone(VfsError): ...  # noqa: N818


_CLASSES: "dict[int, type[VfsError]]" = {
    jsonrpc.PARSE_ERROR: InvalidRequest,
    jsonrpc.INVALID_REQUEST: InvalidRequest,
    jsonrpc.METHOD_NOT_FOUND: MethodNotFound,
    jsonrpc.INVALID_PARAMS: InvalidParams,
    jsonrpc.ACCESS_DENIED: AccessDenied,
    jsonrpc.NOT_FOUND: NotFound,
    jsonrpc.ALREADY_EXISTS: AlreadyExists,
    jsonrpc.TIMED_OUT: TimedOut,
    jsonrpc.CANCELLED: Cancelled,
}


def error_for(code: int, message: str, data: "Any" = None) -> VfsError:
    """Return the error that a refusal of the host's is; one with a number we do not know is a plain VfsError."""
    kind = _CLASSES.get(code, VfsError)
    if kind is InvalidParams and isinstance(data, dict) and type(data.get("limit")) is int:
        kind = TooLarge
    return kind(message, code=code, data=data)


class QuestionAsked(SystemExit):
    """The call ended with a question to the user; the tool is started again when there is an answer.

    Not an `Exception`: a tool that catches those must still end. Uncaught, it ends the program with success.
    """

    def __init__(self, id_: str) -> None:
        super().__init__(0)
        self.id = id_
