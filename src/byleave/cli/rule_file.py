"""Change a configuration file: the change is shown, the user consents, and exactly that is written, or nothing.

A file that would have an error, that has changed meanwhile, or whose name leads elsewhere meanwhile, is left alone.
`policy learn` and `policy import` add rules here, and `policy lint --fix` removes some. What the user's own file gets
goes through `guard.persist_rule`, as a yes for good at a question does: there is one lock for it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING

from byleave.cli.output import say
from byleave.cli.terminal import consents, may_ask, record_answers
from byleave.errors import ConfigErrors, StateError
from byleave.guard.persist_rule import PersistentRule, appended
from byleave.policy.layers import LARGEST_FILE
from byleave.text import hidden_in, quoted, sentence_list, shown
from byleave.user_files import read_all
from byleave.workspace.replacing import DirectoryEntry, put_new, replace_content, write_in_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace

REFUSED = 1
NEEDS_CONSENT = 10
_ELSEWHERE = "write elsewhere"


class RuleFile:
    """A file as it is when a change is shown: where its name really leads, in which directory, and what it says."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.real = os.path.realpath(path)
        self._directory = _identity(os.path.dirname(self.real))
        self._content = _content_of(self.real)

    @property
    def content(self) -> bytes:
        """What it says, nothing if it is not there."""
        return self._content or b""

    @property
    def shown(self) -> str:
        """Its name for people, with where it leads if that is elsewhere."""
        leads = self.real != os.path.normpath(self.path)
        return f"{shown(self.path)} (which is {shown(self.real)})" if leads else shown(self.path)

    def refuse_changed(self) -> None:
        """Raise a StateError if the file is not any more what it was when it was shown."""
        same_place = os.path.realpath(self.path) == self.real
        if not same_place or _identity(os.path.dirname(self.real)) != self._directory:
            raise _changed(self.path)
        if _content_of(self.real) != self._content:
            raise _changed(self.path)

    def write(self, after: bytes) -> None:
        """Replace its content as a whole, if it still is what it was; its owner and its mode stay."""
        if len(after) > LARGEST_FILE:
            raise StateError(f"{quoted(self.path)} would be too large", hint=_ELSEWHERE)
        self.refuse_changed()
        directory, name = os.path.split(self.real)
        try:
            if self._directory is None:
                os.makedirs(directory, mode=0o700)
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with DirectoryEntry(held, name, self.real) as place:
                fcntl.flock(held, fcntl.LOCK_EX)  # one writer of byleave's at a time
                if self._directory is not None and _identity(held) != self._directory:
                    raise _changed(self.path)
                self._put(place, after)
        except FileExistsError:
            raise _changed(self.path) from None
        except OSError as error:
            hint = "check the permissions there; nothing of this file was changed"
            raise StateError(f"{quoted(self.path)} cannot be written: {error.strerror}", hint=hint) from None

    def _put(self, place: DirectoryEntry, after: bytes) -> None:
        if self._content is None:
            put_new(place, after)
            return
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(place.name, flags, dir_fd=place.directory)
        try:
            if read_all(descriptor, len(self._content) + 1) != self._content:
                raise _changed(self.path)
            if not replace_content(place, descriptor, after):
                write_in_place(descriptor, after)
        finally:
            os.close(descriptor)


def add_to_file(
    given: ParsedArguments, workspace: Workspace, path: str, toml: str, *, subject: str, notes: Sequence[str] = ()
) -> int:
    """Add `toml` to a file behind what it says already, if the user agrees; return the exit code.

    `notes` are lines that are shown below the change. `subject` is what the record of the consent says.
    """
    file = RuleFile(path)
    after = with_block(file.content, toml)
    if not toml or after == file.content:
        return 0
    hidden = hidden_in(toml)
    if hidden:
        unseen = sentence_list(hidden)
        raise StateError(f"these rules hold what cannot be seen: {unseen}", hint="add by hand what you mean")
    _check_content(given, workspace, path, after)
    lines = [f"{file.shown} would get:", *[f"  {line}".rstrip() for line in toml.rstrip("\n").split("\n")], *notes]
    if not given.flag("json") and not given.flag("quiet"):
        for line in lines:
            say(line)
    if not given.flag("yes") and not may_ask(given):
        return NEEDS_CONSENT
    if not consents(given, "Write this?", about=lines):
        return REFUSED
    write_shown(given, workspace, file, after)
    record_answers(given, workspace, [subject])
    if not given.flag("json") and not given.flag("quiet"):
        say(f"wrote {file.shown}")
    return 0


def write_shown(given: ParsedArguments, workspace: Workspace, file: RuleFile, after: bytes) -> None:
    """Write what was shown; the user's own file under the lock that every writer of it takes."""
    own = PersistentRule(workspace, given.one("session") or "default")
    if file.real != own.path:
        file.write(after)
        return

    def changed(now: bytes) -> bytes:
        if now != file.content:
            raise _changed(file.path)
        return after

    own.change(changed)


def _check_content(given: ParsedArguments, workspace: Workspace, path: str, content: bytes) -> None:
    """Raise a StateError if a file with this content could not be used."""
    try:
        workspace.try_user_file(content, given.one("session") or "default")
    except ConfigErrors as error:
        raise StateError(f"{quoted(path)} would have an error: {error}", hint="add the rules by hand") from None


def with_block(content: bytes, text: str) -> bytes:
    """Return a configuration file with more tables behind all others; those that it has already are not added."""
    added = text.encode()
    unix = content.replace(b"\r\n", b"\n")
    if unix.startswith(added) or b"\n" + added in unix:
        return content
    return appended(content, text)


def _changed(path: str) -> StateError:
    return StateError(f"{quoted(path)} has changed meanwhile", hint="try again")


def _identity(directory: str | int) -> tuple[int, int] | None:
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _content_of(path: str) -> bytes | None:
    """Return what a file says, None if it is not there; a StateError if it is no plain file, or too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be read: {error.strerror}", hint=_ELSEWHERE) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StateError(f"{quoted(path)} is not a plain file", hint=_ELSEWHERE)
        content = read_all(descriptor, LARGEST_FILE + 1)
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be read: {error.strerror}", hint=_ELSEWHERE) from None
    finally:
        os.close(descriptor)
    if len(content) > LARGEST_FILE:
        raise StateError(f"{quoted(path)} is larger than {LARGEST_FILE >> 20} MB", hint=_ELSEWHERE)
    return content
