"""Change several things together or not at all, also when the process is killed half-way.

Before the first change an intent is written down, durably: what each thing is now and what it will be. It is removed
after the last one, and that commits them all. Whoever finds an intent, and the lock free, knows that its writer died:
every thing that is still exactly as the dead process left it is put back, everything else is left alone.

What is in the workspace is reached name by name without following a link, so nobody can lead us out of it meanwhile.
"""

import os
import stat

from byleave.errors import MountError, StateError
from byleave.private import Lock, make_private_directory, read_private, sweep_unfinished, write_private
from byleave.record import Record
from byleave.text import quoted, sentence_list
from byleave.workspace.openers import HOLD_DIRECTORY, Closing, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from byleave.api import Workspace

# The kinds of things: a directory and a link of the workspace, by relative path; a private directory and a file of the
# user's, by absolute path; an approval, by the path of its rule.
DIRECTORY, LINK, PRIVATE_DIRECTORY, FILE, APPROVAL = "directory", "link", "private directory", "file", "approval"
_THERE = "there"  # all there is to say of a directory
_SOMETHING_ELSE = "\0"  # what no link, file or approval of ours ever holds
_LARGEST = 256 << 20  # an intent holds the session's file twice


class Change(Record):
    """One thing, what it is before (None: not there) and after; of an approval, also when each was given."""

    kind: str
    place: str
    before: str | None
    after: str | None
    times: tuple[str, str] = ("", "")


def made_directory(place: str, *, private: bool = False) -> Change:
    """Return the change that makes a directory."""
    return Change(PRIVATE_DIRECTORY if private else DIRECTORY, place, None, _THERE)


class Journal:
    """Changes things of one workspace, one set of changes at a time; a context manager that holds the lock.

    Entering it puts back what a dead process left half done.
    """

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace
        self._directory = workspace.homes.workspace(workspace.root.path)
        self._intent = os.path.join(self._directory, "mounting.json")
        self._lock = Lock(os.path.join(self._directory, "mounts.lock"))

    def __enter__(self) -> "Self":
        make_private_directory(self._directory)
        try:
            self._lock.__enter__()
        except OSError as error:
            raise _unwritable(self._directory, error) from None
        try:
            self._recover()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        self._lock.__exit__(None, None, None)

    @property
    def is_pending(self) -> bool:
        """Whether an intent lies there: somebody is at work, or died at it."""
        return os.path.lexists(self._intent)

    def carry_out(self, changes: "Sequence[Change]", *, verify: "Callable[[], None]") -> None:
        """Make all the changes, have them verified, and commit; whatever is raised, nothing is left of them."""
        import json

        wanted = [change for change in changes if change.before != change.after]
        intent = json.dumps({"changes": [list(change._values()) for change in wanted]})  # noqa: SLF001 -- a record
        begun: list[Change] = []
        try:
            write_private(self._intent, intent.encode())
            for change in wanted:
                self._require(change)
                begun.append(change)
                self._set(change, change.after, change.times[1])
            verify()
            self._commit()
        except OSError as error:
            self._put_back(begun)
            raise _failed(error) from None
        except BaseException:
            self._put_back(begun)
            raise

    def _recover(self) -> None:
        sweep_unfinished(self._intent)
        content = read_private(self._intent, limit=_LARGEST)
        if content is None:
            return
        changes = list(_read_intent(content, self._intent))
        for change in changes:
            if change.kind == FILE:
                sweep_unfinished(change.place)
        self._put_back(changes)

    def _put_back(self, changes: "Sequence[Change]") -> None:
        """Undo what is still as we left it, the last change first; keep the intent if something resists."""
        stuck = []
        for change in reversed(changes):
            try:
                if self._get(change) == change.after:
                    self._set(change, change.before, change.times[0])
            except (OSError, StateError):
                stuck.append(change.place)
        if stuck:
            raise StateError(
                f"{sentence_list(stuck)} could not be put back as before",
                hint="make room and check permissions; the next `byleave mount --list` tries again",
            )
        try:
            self._commit()
        except OSError as error:
            raise _unwritable(self._intent, error) from None

    def _commit(self) -> None:
        if os.path.lexists(self._intent):
            os.unlink(self._intent)
            _sync(self._directory)

    def _require(self, change: Change) -> None:
        if self._get(change) != change.before:
            raise MountError(
                f"{quoted(change.place)} changed at this very moment", hint="look at it, then try again", code="changed"
            )

    def _get(self, change: Change) -> str | None:
        """Return what a thing is now."""
        match change.kind:
            case "directory" | "link":
                return self._get_inside(change.place)
            case "private directory":
                return _THERE if os.path.isdir(change.place) else None
            case "file":
                content = read_private(change.place, limit=_LARGEST, links=True)
                return None if content is None else content.decode("utf-8", "surrogateescape")
            case _:
                self._workspace.approvals.refresh()
                return self._workspace.approvals.mount_target(change.place)

    def _set(self, change: Change, value: str | None, time: str) -> None:
        """Make a thing what it is to be."""
        match change.kind:
            case "directory" | "link":
                self._set_inside(change, value)
            case "private directory":
                _set_private_directory(change.place, wanted=value is not None)
            case "file":
                _set_file(change.place, value)
            case _ if value is None:
                self._workspace.approvals.forget_mount(change.place, target=change.after)
            case _:
                self._workspace.approvals.approve_mount(change.place, value, now=time)

    def _get_inside(self, relative: str) -> str | None:
        try:
            with self._parent(relative) as parent:
                name = relative.rpartition("/")[2]
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    return os.readlink(name, dir_fd=parent)
                return _THERE if stat.S_ISDIR(mode) else _SOMETHING_ELSE
        except FileNotFoundError:
            return None
        except OSError:  # a parent is a link or a file by now: nothing in there is ours
            return _SOMETHING_ELSE

    def _set_inside(self, change: Change, value: str | None) -> None:
        with self._parent(change.place) as parent:
            name = change.place.rpartition("/")[2]
            if change.kind == DIRECTORY:
                if value is None:
                    _remove_if_empty(name, parent)
                else:
                    os.mkdir(name, dir_fd=parent)
            elif value is None:
                os.unlink(name, dir_fd=parent)
            else:
                os.symlink(value, name, dir_fd=parent)
            _sync(".", parent)

    def _parent(self, relative: str) -> Closing:
        """Open the directory that holds a name of the workspace, on a way without links."""
        above = relative.rpartition("/")[0]
        root = os.open(self._workspace.root.path, HOLD_DIRECTORY | os.O_NOFOLLOW)
        if not above:
            return Closing(root)
        with Closing(root):
            return Closing(walk(root, above, HOLD_DIRECTORY))


def recover(workspace: "Workspace") -> None:
    """Put back what a mount or unmount that died had begun; costs one look if there is nothing to do."""
    journal = Journal(workspace)
    if journal.is_pending:
        with journal:
            return


def _read_intent(content: bytes, path: str) -> "Iterator[Change]":
    import json

    try:
        for kind, place, before, after, times in json.loads(content)["changes"]:
            yield Change(str(kind), str(place), before, after, (str(times[0]), str(times[1])))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        hint = "`byleave mount --list` and the links in the workspace show what is there; then remove the file"
        raise StateError(f"{quoted(path)} is damaged: what it began cannot be undone", hint=hint) from None


def _set_private_directory(path: str, *, wanted: bool) -> None:
    if wanted:
        make_private_directory(path)
    else:
        _remove_if_empty(path)


def _set_file(path: str, content: str | None) -> None:
    if content is None:
        os.unlink(path)
        _sync(os.path.dirname(path))
    else:
        write_private(path, content.encode("utf-8", "surrogateescape"))


def _remove_if_empty(name: str, parent: int | None = None) -> None:
    import errno

    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def _sync(path: str, parent: int | None = None) -> None:
    """Bring a directory to disk, as far as it can be opened and its file system knows how."""
    try:
        with Closing(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)) as directory:
            os.fsync(directory)
    except OSError:
        return


def _failed(error: OSError) -> StateError:
    place = f"{quoted(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
    return StateError(f"nothing was changed: {place}{error.strerror or error}", hint="mend that, then try again")


def _unwritable(path: str, error: OSError) -> StateError:
    return StateError(f"{quoted(path)} cannot be written: {error.strerror or error}", hint="check its permissions")
