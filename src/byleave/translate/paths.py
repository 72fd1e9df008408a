"""The paths of an agent in the form that the policy decides on: relative to the root below it, else absolute.

By their text alone. What `..` and links make of them is the resolver's to say. Where agents differ in how they read a
path, every reading is a place of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record

if TYPE_CHECKING:
    from byleave.translate.call import Where

MOST_BASES = 4
_BLANK = "\ufeff"  # what some trim besides white space
# Some agents expand or strip these at the front.
_MENTION = "@"  # some take it off
_EXPANDED = ("~", "$", "%", "'", '"', "`", "@/", "@~", "@.", '["', "['", '{"')


class ToolPath(Record):
    """One reading of a path: as the policy takes it, and absolute where that is known (not below a home)."""

    path: str
    absolute: str | None


class ToolPaths:
    """Reads the paths of one call. `bases` are directories, besides the session's, that relative paths may start in."""

    def __init__(self, where: Where) -> None:
        self._exists = where.exists
        self._root = where.root.rstrip("/")
        self.cwd = where.cwd if where.cwd is not None and where.cwd.startswith("/") else None
        self.bases: list[str] = []

    def read(self, text: str, *, anywhere: bool = False) -> tuple[list[ToolPath], str]:
        """Return every place that a path may mean, and a problem if that may not be all of them."""
        text, problem = _written_plainly(text)
        found = [ToolPath(text, None)] if text == "~" or text.startswith("~/") else []
        starts = [""] if text.startswith("/") else [self.cwd, *self.bases] if anywhere else [self.cwd]
        readings = [text, text[1:]] if text.startswith(_MENTION) and len(text) > 1 else [text]
        for start in starts:
            if start is None:
                problem = problem or "a path is relative, and its base is not known"
                continue
            for each in readings:
                absolute = join(start, each)
                found.append(ToolPath(self.form(absolute), absolute))
        return list(dict.fromkeys(found)), problem

    def directory(self, text: str) -> tuple[str | None, str]:
        """Return where a command would run, absolute; None if it is not known. A home is not known here."""
        text, problem = _written_plainly(text)
        if text.startswith("~"):
            problem = problem or "a working directory may be below a home"
        if text.startswith("/"):
            return join("", text).rstrip("/") or "/", problem
        if self.cwd is None:
            return None, "its working directory is relative, and its base is not known"
        return join(self.cwd, text).rstrip("/") or "/", problem

    def form(self, absolute: str) -> str:
        """Return an absolute path as the policy takes it. Only the root's own text is taken off."""
        if absolute.rstrip("/") == self._root:
            return "."
        if not absolute.startswith(f"{self._root}/"):
            return absolute
        inside = absolute[len(self._root) + 1 :].lstrip("/")
        return f"./{inside}" if inside.startswith("~") else inside  # a name, not a home directory

    def is_there(self, absolute: str) -> bool:
        """Whether something is there; what no file can be called counts as there, and is decided by its name."""
        if "\0" in absolute or "\ufffd" in absolute:
            return True
        try:
            return self._exists(absolute)
        except (OSError, ValueError):
            return True

    def is_directory(self, absolute: str) -> bool:
        return self.is_there(f"{absolute.rstrip('/')}/.")


def join(start: str, text: str) -> str:
    """Join by text, without `.` and doubled slashes; `..` and a slash at the end stay."""
    names = [name for name in text.split("/") if name not in ("", ".")]
    joined = "/".join([start.rstrip("/"), *names])
    return f"{joined}/" if text.endswith(("/", "/.")) and names else joined or "/"


def plain_text(text: str) -> str:
    """Return a text that can be written down: halves of characters become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(["\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text])
    return text


def _written_plainly(text: str) -> tuple[str, str]:
    """Return a path without what only wraps it, and a problem where agents read it in different ways."""
    written = plain_text(text)
    if written.startswith("file://"):
        return _of_uri(written)
    if written != written.strip().strip(_BLANK).strip():
        return written.strip().strip(_BLANK).strip() or ".", "a path begins or ends with a blank, which some take off"
    if "\\" in written:
        return written, "a path holds a backslash, which is read in different ways"
    if written.startswith(_EXPANDED) and written != "~" and not written.startswith("~/"):
        return written, "a path begins with what some expand or take off"
    if written != text or not _is_name(written):
        return written, "a path holds characters that no name should have"
    return written, ""


def _is_name(text: str) -> bool:
    return not any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def _of_uri(uri: str) -> tuple[str, str]:
    rest = uri.removeprefix("file://")
    path = rest.removeprefix("localhost")
    if not path.startswith("/"):
        return "/" + path, "a file: address names another machine, or no path"
    if any(mark in path for mark in "%?#\\"):
        return path, "a file: address is written in a way that is not read"
    return path, ""
