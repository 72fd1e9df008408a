"""Where does a path really lead? The one resolver: rule paths, tool input and the SDK all go through it.

A path is joined to the root, collapsed by its text, then walked name by name with `lstat`, following every symlink,
also one whose target is missing: a dangling link is never a missing name, or a create could escape through it.
Nothing here opens anything; what acts on a resolved path later uses `opening`.

The links of a process (`/proc/self/cwd`, `/dev/stdin`) lead elsewhere for an agent than for us: they are refused.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.core.paths import collapse, is_process_name, names_process_link, refuse_input, refuse_name
from byleave.errors import InputError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_LINKS = 40  # as the kernel's own limit
_MADE_UP_SIZES = (0, 64)  # what procfs says of a link that is none; elsewhere the size is the length of the text


class Root:
    """A workspace root: a canonical directory, and the resolution of paths below it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._prefix = path if path.endswith("/") else f"{path}/"

    @classmethod
    def at(cls, path: str) -> Root:
        """Return the root at `path`, canonical; an error for people if it is not a directory we can use."""
        try:
            if not path or "\0" in path:  # an empty path would be the working directory
                raise NotADirectoryError
            canonical = os.path.realpath(path, strict=True)
            if not stat.S_ISDIR(os.stat(canonical).st_mode):
                raise NotADirectoryError
        except (OSError, UnicodeEncodeError) as error:
            why = "it does not exist" if isinstance(error, FileNotFoundError) else "it is not a directory we can read"
            raise InputError(
                f"the workspace root {quoted(path)} cannot be used: {why}",
                hint="give an existing directory with --root",
            ) from None
        return cls(canonical)

    def resolve_input(self, text: str) -> FsTarget | RefusedPath:
        """Resolve what a tool passed: relative to the root, never absolute, never climbing out."""
        refused = refuse_input(text)
        if refused is not None:
            return refused
        lexical = collapse(text)
        if lexical is None:
            return RefusedPath("input_escape", f"{quoted(text)} climbs out of the workspace")
        return self._walk(self.path, lexical, ends_as_directory=_wants_directory(text))

    def resolve_entry(self, text: str) -> FsTarget | RefusedPath:
        """Resolve what a tool passed to remove or to move: a link at its end is meant itself, not what it leads to.

        With a slash at its end a path names what is behind the link, as everywhere.
        """
        lexical = collapse(text) if refuse_input(text) is None else None
        if not lexical or _wants_directory(text):
            return self.resolve_input(text)
        above, _, name = lexical.rpartition("/")
        parent = self._walk(self.path, above, ends_as_directory=True)
        if not isinstance(parent, FsTarget) or not parent.exists:
            return self.resolve_input(text)
        place = f"{parent.canonical.rstrip('/')}/{name}"
        if not self._is_link(place) or names_process_link(place) or is_process_name(place):
            return self.resolve_input(text)
        door = None if parent.door is None else f"{parent.door}/{name}"
        return FsTarget(place, self.relative(place), door, link=True)

    def link_named(self, text: str, *, home: str | None = None) -> FsTarget | None:
        """Return the link that a path of an agent's own tool names at its end; None if it names something else."""
        above, _, name = text.rpartition("/")
        if name in ("", ".", "..", "~"):
            return None
        parent = self.resolve_any(above or ("/" if text.startswith("/") else "."), home=home)
        if not isinstance(parent, FsTarget):
            return None
        place = f"{parent.canonical.rstrip('/')}/{name}"
        return FsTarget(place, self.relative(place), link=True) if self._is_link(place) else None

    def links_on(self, text: str) -> list[str]:
        """Return the links that the resolution of a path goes through, by their own canonical paths."""
        walk = _Walk(self)
        try:  # noqa: SIM105 -- every path comes by here
            walk.run("/", os.path.join(self.path, text).lstrip("/"), ends_as_directory=False)
        except (OSError, ValueError):  # what was followed until then was followed
            pass
        return walk.followed

    @staticmethod
    def _is_link(place: str) -> bool:
        try:
            return stat.S_ISLNK(os.lstat(place).st_mode)
        except (OSError, ValueError):
            return False

    def resolve_any(self, text: str, cwd: str | None = None, *, home: str | None = None) -> FsTarget | RefusedPath:
        """Resolve a path that an agent's own tool named: absolute, or relative to `cwd`, inside or outside.

        With `home`, a leading `~` means it, as it does for a program that expands the path.
        """
        refused = refuse_name(text.removeprefix(self._prefix))  # the root itself may be spelled as oddly as it likes
        if refused is not None:
            return refused
        if home is not None and (text == "~" or text.startswith("~/")):
            text = f"{home}{text[1:]}"
        joined = os.path.join(cwd or self.path, text).lstrip("/")
        wants_directory = _wants_directory(text)
        physical = self._walk("/", joined, ends_as_directory=wants_directory)
        if ".." not in joined or isinstance(physical, RefusedPath):
            return physical
        lexical = collapse(joined)
        by_text = None if lexical is None else self._walk("/", lexical, ends_as_directory=wants_directory)
        if by_text != physical:  # the kernel and an editor that tidies paths up would touch different files
            return RefusedPath("escape", f"{quoted(text)} climbs out of a symbolic link, and may be read in two ways")
        return physical

    def resolve_place(self, text: str, base: str) -> FsTarget | RefusedPath:
        """Resolve a path as the kernel does for a process in `base`: links before `..`."""
        refused = refuse_name(text.removeprefix(self._prefix))
        if refused is not None:
            return refused
        joined = os.path.join(base, text)
        return self._walk("/", joined.lstrip("/"), ends_as_directory=_wants_directory(text))

    def resolve_rule(self, path: str) -> FsTarget | RefusedPath:
        """Resolve the path of a rule, by the same steps as a tool's input."""
        return self.resolve_input(path)

    def relative(self, canonical: str) -> str | None:
        """Return the workspace-relative form of a canonical path; None if it lies outside."""
        if canonical.startswith(self._prefix):
            return canonical[len(self._prefix) :]
        return "" if canonical == self.path else None

    def _walk(self, start: str, lexical: str, *, ends_as_directory: bool) -> FsTarget | RefusedPath:
        try:
            return _Walk(self).run(start, lexical, ends_as_directory=ends_as_directory)
        except OSError as error:
            why = shown(error.strerror or "cannot be examined")
            return RefusedPath("io", f"{quoted(lexical)} cannot be resolved: {why}")
        except (UnicodeEncodeError, ValueError):
            return RefusedPath("denied", f"{quoted(lexical)} is not a name a file can have")


class OneLook:
    """Which of many paths still lead where they led before, at one moment: what lies above several is looked at once.

    A yes is what `Root.resolve_any` says. A no means that it has to be asked: a link or something odd is on the way.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, int] = {"": _DIRECTORY}

    def leads_to(self, path: str, known: str | None) -> bool:
        """Whether a path whose canonical form was `known` still has that form: none of its names is a link."""
        if known is None or known == "/" or known.startswith(_PROCESS_LINKS) or known.count("/") > _DEEPEST:
            return False
        return os.path.join(self._root, path) == known and self._kind(known) != _ODD

    def _kind(self, place: str) -> int:
        found = self._seen.get(place)
        if found is None:
            above = self._kind(place.rpartition("/")[0])
            found = self._seen[place] = _look(place) if above == _DIRECTORY else _MISSING if above == _MISSING else _ODD
        return found


_MISSING, _DIRECTORY, _FILE, _ODD = range(4)
_PROCESS_LINKS = ("/proc/", "/dev/")
_DEEPEST = 100  # names; what is deeper is resolved


def _look(place: str) -> int:
    try:
        mode = os.lstat(place).st_mode
    except FileNotFoundError:
        return _MISSING
    except (OSError, ValueError):
        return _ODD
    return _DIRECTORY if stat.S_ISDIR(mode) else _ODD if stat.S_ISLNK(mode) else _FILE


class _Walk:
    """One resolution: the place reached so far, and the names still ahead."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self.followed: list[str] = []  # links, by their own places
        self._door: str | None = None

    def run(self, start: str, lexical: str, *, ends_as_directory: bool) -> FsTarget | RefusedPath:
        here = start
        ahead = lexical.split("/")[::-1] if lexical else []
        found: os.stat_result | None = None
        lstat: Callable[[str], os.stat_result] = os.lstat
        while ahead:
            name = ahead.pop()
            if name == "..":  # only ever from a link's target; `here` holds no links, so this is the real parent
                here, found = os.path.dirname(here), None
                continue
            if not name or name == ".":
                continue
            place = f"{here}/{name}" if here != "/" else f"/{name}"
            if place.startswith(("/proc/", "/dev/")) and names_process_link(place):
                return _led_by_process(start, lexical)
            try:
                found = lstat(place)
            except FileNotFoundError:
                return self._missing(place, ahead, lexical if start != "/" else f"/{lexical}")
            mode = found.st_mode
            if stat.S_ISLNK(mode) and not is_process_name(place):
                self.followed.append(place)
                if len(self.followed) > MOST_LINKS:
                    return RefusedPath("io", f"{quoted(lexical)} leads through too many symbolic links")
                if found.st_size in _MADE_UP_SIZES and _is_made_up(os.readlink(place), found.st_size):
                    return _led_by_process(start, lexical)
                here = self._follow(here, place, ahead)
                found = None
                continue
            if not stat.S_ISDIR(mode) and not is_process_name(place) and (ahead or ends_as_directory):
                return self._not_a_directory(place, lexical)
            here = place
        found = found if found is not None else lstat(here)
        if ends_as_directory and not stat.S_ISDIR(found.st_mode):
            return self._not_a_directory(here, lexical)
        return self._reached(here, found)

    def _follow(self, here: str, place: str, ahead: list[str]) -> str:
        """Put the link's target ahead of what remains; note where the workspace was left, if it was."""
        inside = self._root.relative(place)
        target = os.readlink(place)
        rest = [name for name in reversed(ahead) if name and name != "."]
        ahead.extend(target.split("/")[::-1])
        if inside is not None:
            # A later link back into the workspace replaces this name; only the last one can lead outside. What climbs
            # out of a link's target is no name for what lies in it: then the name of that link is kept.
            self._door = "/".join([inside, *rest]) if ".." not in rest else self._door or inside
        return "/" if target.startswith("/") else here

    def _missing(self, place: str, ahead: list[str], lexical: str) -> FsTarget | RefusedPath:
        """Nothing is there: what remains is a name that may be created, unless it tries to climb."""
        rest = [name for name in reversed(ahead) if name and name != "."]
        if ".." in rest:
            return RefusedPath("io", f"{self._name(place, lexical)} does not exist, and a link climbs out of it")
        if names_process_link(whole := "/".join([place, *rest])):
            return _led_by_process("", lexical)
        return self._target(whole, exists=False)

    def _reached(self, place: str, found: os.stat_result) -> FsTarget:
        directory = stat.S_ISDIR(found.st_mode)
        return self._target(place, directory=directory, links=1 if directory else found.st_nlink)

    def _target(self, place: str, *, exists: bool = True, directory: bool = False, links: int = 1) -> FsTarget:
        relative = self._root.relative(place)
        door = self._door if relative is None else None
        return FsTarget(place, relative, door, exists, directory, links)

    def _not_a_directory(self, place: str, lexical: str) -> RefusedPath:
        return RefusedPath("not_a_directory", f"{self._name(place, lexical)} is a file, not a directory")

    def _name(self, place: str, lexical: str) -> str:
        """Name a place as the workspace does, else as it was asked for: where a link leads is not said."""
        inside = self._root.relative(place)
        return quoted(inside if inside is not None else self._door or lexical)


def _is_made_up(text: str, size: int) -> bool:
    """Whether the text of a link only describes where it leads (`/proc/1/cwd`, `pipe:[7]`), wherever procfs is mounted.

    The links of sysfs have no size either, but are relative.
    """
    return len(os.fsencode(text)) != size and (text.startswith("/") or ":[" in text)


def _led_by_process(start: str, lexical: str) -> RefusedPath:
    problem = "goes through a link of a running process, which leads elsewhere for each process"
    return RefusedPath("escape", f"{quoted(f'/{lexical}' if start == '/' else lexical)} {problem}")


def _wants_directory(text: str) -> bool:
    return text.endswith(("/", "/."))
