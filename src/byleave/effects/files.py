"""Do to files what was allowed, to the very file that was judged.

Each takes a permit and acts on the place the permit holds, never on the path as it was written: a link that was laid in
the way since then is an `UnsafePathError`, not another file.
"""

from byleave.core.action import FileAction
from byleave.core.fs import FsTarget
from byleave.errors import UnsafePathError
from byleave.text import quoted
from byleave.workspace.opening import Anchor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.core.permit import Permit

LARGEST_FILE = 10 << 20  # `max_file_size` of a tool


def read_file(permit: "Permit", *, limit: int = LARGEST_FILE) -> bytes:
    """Return the content of the file that may be read."""
    place = _place(permit, "read")
    with _Naming(permit), Anchor.open("/") as anchor:
        return anchor.read_bytes(place, limit=limit)


def write_file(permit: "Permit", data: bytes) -> None:
    """Make `data` the content of the file that may be created, or of the one that may be changed."""
    place = _place(permit, "create", "update")
    creates = isinstance(permit.action, FileAction) and permit.action.kind == "create"
    with _Naming(permit), Anchor.open("/") as anchor:
        anchor.write_bytes(place, data, create=creates, update=not creates)


class _Naming:
    """Has errors name the file as whoever asked named it: where a mount leads is not for tools and agents."""

    def __init__(self, permit: "Permit") -> None:
        self._asked = permit.action.path if isinstance(permit.action, FileAction) else ""
        self._places = [place.canonical for place in permit.places if isinstance(place, FsTarget)]

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UnsafePathError):
            problem = error.problem
            for place in self._places:
                problem = problem.replace(quoted(place), quoted(self._asked))
            raise UnsafePathError(problem, hint=error.hint) from None
        if isinstance(error, OSError) and error.filename is not None:
            raise type(error)(error.errno, error.strerror, self._asked) from None


def _place(permit: "Permit", *kinds: str) -> str:
    """Return the judged place, relative to /; a permit for something else is none."""
    action = permit.action
    if not isinstance(action, FileAction) or action.kind not in kinds or len(permit.places) != 1:
        raise PermissionError(f"this permit is not for {' or '.join(kinds)}")
    (place,) = permit.places
    if not isinstance(place, FsTarget):
        raise PermissionError("this permit names no place")
    return place.canonical.strip("/") or "."
