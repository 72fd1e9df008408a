"""How a tool is told what came of a request: data as JSON holds it, a denial, whatever went wrong, by its number."""

from byleave.core.verdict import named_path
from byleave.errors import ByleaveError, RequestError, TooLargeError, UnsafePathError
from byleave.text import quoted
from byleave.wire.codes import ACCESS_DENIED, ALREADY_EXISTS, INTERNAL_ERROR, INVALID_PARAMS, NOT_FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from byleave.core.verdict import Verdict

_HINT = "see docs/protocol.md"
_MOST_GRANTS = 20


class Troubles:
    """Turns what goes wrong with files into the protocol's numbers."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, RequestError) or not isinstance(error, OSError | ByleaveError):
            return
        if isinstance(error, TooLargeError):
            raise RequestError(
                error.problem, hint=error.hint, number=INVALID_PARAMS, data={"limit": error.limit}
            ) from None
        if isinstance(error, ByleaveError):
            number = ACCESS_DENIED if isinstance(error, UnsafePathError) else INTERNAL_ERROR
            raise RequestError(error.problem, hint=error.hint, number=number) from None
        raise _told(error) from None


_NUMBERS: "tuple[tuple[type[OSError], int, str], ...]" = (
    (FileNotFoundError, NOT_FOUND, "does not exist"),
    (FileExistsError, ALREADY_EXISTS, "exists already"),
    (IsADirectoryError, INVALID_PARAMS, "is a directory"),
    (NotADirectoryError, INVALID_PARAMS, "is no directory"),
    (PermissionError, ACCESS_DENIED, "is not ours to touch: the system refuses it"),
)


def _told(error: OSError) -> RequestError:
    name = quoted(str(error.filename)) if error.filename is not None else "it"
    for kind, number, said in _NUMBERS:
        if isinstance(error, kind):
            return RequestError(f"{name} {said}", hint=_HINT, number=number)
    return RequestError(f"{name}: {error.strerror or 'failed'}", hint=_HINT, number=INTERNAL_ERROR)


def told_grants(grants: "tuple[str, ...]") -> list[str]:
    """Return where something is granted, as far as anybody wants to read."""
    return [named_path("path", path)["path"] for path in grants[:_MOST_GRANTS]]


def denied(verdict: "Verdict") -> RequestError:
    """Return how a tool is told that it may not."""
    number = NOT_FOUND if verdict.code == "not_a_directory" else ACCESS_DENIED
    data: dict[str, Any] = {"code": verdict.code}
    if verdict.grants is not None:
        data["grants"] = told_grants(verdict.grants)
    return RequestError(verdict.reason, hint="ask the user for a rule", number=number, data=data)


def content_fields(name: str, data: bytes) -> dict[str, str]:
    """Return data as JSON holds it: as text if it is UTF-8, else in base64 with a word that says so."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        from binascii import b2a_base64

        return {name: b2a_base64(data, newline=False).decode(), "encoding": "base64"}
