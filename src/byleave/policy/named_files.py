"""Where do the names in a command lead? Words are expanded as the shell would, then resolved where the command runs.

Looks at the disk. What cannot be expanded exactly stays unknown; it is never dropped.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.fs_rules import FsTarget, RefusedPath, is_under
from byleave.core.match_context import HELD, NEW, NamedFile
from byleave.shell.knowledge.named_files import can_be_moved, moving_values, named_files
from byleave.shell.knowledge.possible_files import DELETE, READ, WRITE
from byleave.shell.state import located
from byleave.shell.syntax.redirects import is_descriptor_file
from byleave.shell.syntax.tree import Piece, Word
from byleave.shell.word_expansion import expanded
from byleave.workspace.globbing import glob_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.shell.knowledge.possible_files import PossibleFile
    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command
    from byleave.workspace.resolve import Root

    Form = tuple[Piece, ...]
    Forms = tuple[Form, ...]

MOST_VARIANTS = 16  # of one command, for variables that may have several values
MOST_EACH = 256  # of one command, for the words of a loop
MOST_FILES = 2_000  # named by one command; more are not looked at one by one
MOST_WORDS = 8_000  # that all the words of one line may become; what comes behind is unknown
# Any of these makes a directory a repository for git, or the work tree of one, if the rest is there.
REPOSITORY_PARTS = frozenset([".git", "HEAD", "commondir"])
# A later name in the same line may lead through a link that these make.
MAKES_LINKS = frozenset(["ln", "link", "tar", "gtar", "bsdtar", "unzip", "cpio", "7z", "7za", "7zr", "mount"])

_OWN_DIRECTORIES: dict[tuple[str, ...], str] = {
    ("proc", "self", "cwd"): ".",
    ("proc", "self", "root"): "",
    ("proc", "thread-self", "cwd"): ".",
    ("proc", "thread-self", "root"): "",
}


def own_place(text: str) -> str | None:
    """Return what a name means that goes through a program's own working directory or root; None for any other.

    The program works where the shell starts it, as far as the text says. `/dev/fd` is a link to `/proc/self/fd`.
    """
    if not text.startswith("/"):
        return None
    names: list[str] = []
    rest = text.split("/")
    for number, name in enumerate(rest):
        if name == ".." and names:
            names.pop()
        elif name not in ("", ".", ".."):
            names.append(name)
        if names == ["dev", "fd"]:
            names = ["proc", "self", "fd"]
        end = _OWN_DIRECTORIES.get(tuple(names)) if len(names) == 3 else None
        if end is not None:
            return f"{end}/{'/'.join(rest[number + 1 :])}"
    return None


class FileFinder:
    """Finds the files that the commands of one line name, in one workspace."""

    def __init__(self, root: Root, programs: ProgramTables, home: str | None, start: str | None = None) -> None:
        self._root = root
        self._start = start
        self._programs = programs
        self._home = home
        self._words_left = MOST_WORDS
        self._succeeds = True
        self._lost = False
        self._globs: dict[tuple[tuple[str, ...], str], tuple[list[str], bool] | None] = {}

    def find(self, command: Command, start: str | None, *, links: bool, shopt: bool) -> tuple[NamedFile, ...]:
        """Return the files that a command names. `links`: the line makes links; `shopt`: it changes how patterns work.

        `start` is where the line starts, canonical.
        """
        found: dict[NamedFile, None] = {}
        for variant in self._variants(command, start, shopt=shopt):
            for named in named_files(variant, self._programs):
                for file in self._resolved(variant, named, start):
                    if links and isinstance(file.place, FsTarget) and not file.place.exists:
                        file = file.replace(place=None)  # noqa: PLW2901 -- the same file, of which less is known
                    found[file] = None
                    if len(found) > MOST_FILES:
                        return (*found, NamedFile("...", READ, None), NamedFile("...", WRITE, None))
        return tuple(found)

    def moved_out(self, command: Command, start: str | None) -> str | None:
        """Return the option that has the program work outside the workspace, or perhaps; None without one."""
        for option, value in moving_values(command, self._programs):
            if value is None:
                return option
            for base in self.bases(command.starts_in, start) or (None,):
                if base is None and not value.startswith("/"):
                    return option
                if base is not None and not os.path.isdir(base):  # not made yet: `mkdir build && cd build && cmake ..`
                    value, base = os.path.normpath(os.path.join(base, value)), "/"  # noqa: PLW2901 -- the same place
                place = self._root.resolve_place(value, base or "/")
                if not isinstance(place, FsTarget) or place.relative is None:
                    return option
        return None

    def look_at_moves(self, commands: Sequence[Command], start: str | None) -> None:
        """Note whether every `cd` of the line surely succeeds, and whether one leads to a place not known yet."""
        for command in commands:
            if command.program not in ("cd", "chdir", "pushd") or len(command.words) != 2:
                continue
            target = command.words[1].text
            self._lost = self._lost or target is None
            bases = self.bases(command.starts_in, start)
            if target is None or not bases or not os.path.isdir(os.path.join(bases[0], target)):
                self._succeeds = False

    def left(self, command: Command, start: str | None) -> str | None:
        """Return `cd` where that has a program work outside the workspace which an option could move as well."""
        if not can_be_moved(command):
            return None
        if command.starts_in == (".",):  # where the agent has it start
            return "cd" if start is not None and self._root.relative(start) is None else None
        bases = self.bases(command.starts_in, start)
        if not bases:
            return "cd" if self._lost or not self._succeeds else None
        if self._succeeds:  # the first place is the one that all these lead to
            bases = bases[:1]
        return "cd" if any(self._root.relative(base) is None for base in bases) else None

    def other_repository(self, command: Command, start: str | None, *, makes: bool) -> str | None:
        """Return where git would obey the configuration of another repository than the workspace's own; else None.

        That configuration names programs that git runs, and anything that may write the workspace can make one, under
        any name. `makes`: the line itself may, before git runs.
        """
        if command.program != "git":
            return None
        for base in self.bases(command.works_in, start) or ():
            inside = self._root.relative(base)
            if inside and (makes or any(_may_be_repository(each) for each in _upwards(base, self._root.path))):
                return inside
        return None

    def targets(self, forms: Forms, base: str, *, shopt: bool) -> list[str] | None:
        """Return the words that a word may become in the directory `base`; None where that is not known."""
        found = [self._made(form, base, shopt=shopt) for form in forms]
        if not forms or None in found:
            return None
        return list(dict.fromkeys([text for ways in found for words in ways or () for text in words]))

    def _made(self, form: Form, base: str, *, shopt: bool) -> list[list[str]] | None:
        """Return the words that a form becomes; another way for patterns that stay as they are without a match."""
        if any(piece.kind == "below" for piece in form):
            return [[piece.text for piece in form]]
        if self._words_left <= 0:
            return None
        if any(piece.kind == "here" and piece.text for piece in form):
            form = tuple([self._where(piece) for piece in form])
        made = expanded(form, self._home, base)
        if made is None:
            return None
        words: list[str] = []
        exact = True
        for each in made:
            found = ([each.text], True)
            if each.pattern:
                matches = None if shopt else self._matches(each.pattern, base)
                if matches is None:
                    return None
                found = matches
            words.extend(found[0])
            exact = exact and found[1]
        self._words_left -= len(words)
        return [words] if exact else [words, [each.text for each in made]]

    def _where(self, piece: Piece) -> Piece:
        """Return the working directory that a variable holds as text; unknown where it cannot be said."""
        if piece.kind != "here" or not piece.text:
            return piece
        bases = self.bases((piece.text,), self._start)
        return Piece("unknown") if bases is None else Piece("literal", bases[0])

    def _matches(self, pattern: tuple[str, ...], base: str) -> tuple[list[str], bool] | None:
        """Look for what a pattern matches, once in each line."""
        if (pattern, base) not in self._globs:
            self._globs[pattern, base] = glob_paths(pattern, base)
        return self._globs[pattern, base]

    def bases(self, places: tuple[str, ...] | None, start: str | None) -> tuple[str, ...] | None:
        """Return the directories of a command, canonical; one that is not there yet by the name it would have."""
        if places is None or start is None:
            return None
        found: list[str] = []
        for each in places:
            place = located(each, self._home)
            if place is None:
                return None
            place = own_place(place) or place
            target = self._root.resolve_place(place, start) if place != "." else None
            if isinstance(target, RefusedPath):
                return None
            found.append(start if target is None else target.canonical)
        return tuple(found)

    def _variants(self, command: Command, start: str | None, *, shopt: bool) -> list[Command]:
        """Return the command with its words expanded; several where a variable may have several values."""
        if all(word.text is not None or not word.forms for word in command.words):
            return [command]
        bases = self.bases(command.starts_in, start)
        variants: list[list[Word]] = [[]]
        for word in command.words:
            choices = [[word]]
            if word.text is None and word.forms:
                choices = list(self._choices(word, bases, shopt=shopt))
                if bases is None and start is not None:  # not known where: perhaps where the line starts
                    choices = [*choices, *self._choices(word, (start,), shopt=shopt)]
            ways = len(variants) * len(choices)
            most = MOST_EACH if len(variants) == 1 else MOST_VARIANTS
            if ways > most or (ways > 1 and ways * len(command.words) > MOST_WORDS):
                choices = [[word.replace(forms=())]]
            if len(choices) == 1:
                for made in variants:
                    made.extend(choices[0])
            else:
                variants = [[*made, *choice] for made in variants for choice in choices]
        return [command.replace(words=tuple(words)) for words in variants]

    def _choices(self, word: Word, bases: Sequence[str] | None, *, shopt: bool) -> Iterator[list[Word]]:
        if any(piece.kind == "process" for form in word.forms for piece in form):
            yield [word]
            return
        if bases is None:
            bases = ("/",) if _is_absolute(word.forms) else ()
        if not bases:
            yield [word.replace(forms=())]
        for base in bases:
            for form in word.forms:
                below = (form,) if form[0].kind == "below" else ()
                ways = self._made(form, base, shopt=shopt)
                if ways is None:
                    yield [word.replace(forms=())]
                for texts in ways or ():
                    words = [Word(text, text, word.start, word.end, quoted=True, forms=below) for text in texts]
                    yield words
                    if any(piece.kind == "each" for piece in form) and 1 < len(words) <= MOST_EACH:
                        yield from [[each] for each in words[:-1]]  # one at a time, as the last operand too

    def _resolved(self, command: Command, named: PossibleFile, start: str | None) -> Iterator[NamedFile]:
        text, op = named.text, named.op
        if text is None:
            yield NamedFile("...", op, None, tree=named.tree)
            return
        if not text or is_descriptor_file(text):
            return
        bases = self.bases(command.starts_in if named.started else command.works_in, start)
        if (
            named.perhaps and command.works_in != command.starts_in
        ):  # where an option moves the program, or where it starts
            bases = (*(bases or ()), *(self.bases(command.starts_in, start) or ())) or None
        if named.top:
            bases = (self._root.path, *(bases or ()))
        if command.elsewhere:
            bases = None if start is None else (start,)
        if named.beside is not None and bases is not None:
            bases = tuple(self._beside(named.beside, base) for base in bases)
        if named.at_home:
            bases = None if self._home is None else (self._home,)
        if bases is None and named.perhaps:  # where it runs is not known: perhaps where it starts, or in the root
            bases = (start or self._root.path,)
        if bases is None and not text.startswith("/"):
            yield NamedFile(text, op, None, tree=named.tree)
            return
        for base in bases or ("/",):
            yield from self._at(named, base)

    def _beside(self, other: str, base: str) -> str:
        place = self._root.resolve_place(other, base)
        if not isinstance(place, FsTarget):
            return base
        return place.canonical if place.directory else os.path.dirname(place.canonical)

    def _at(self, named: PossibleFile, base: str) -> Iterator[NamedFile]:
        text, op = named.text or "", named.op
        if text.startswith("~/") and self._home is not None and named.perhaps:  # a program may expand it by itself
            yield from self._at(named.replace(text=f"{self._home}{text[1:]}"), base)
        if named.perhaps and op == READ and _is_pattern(text):
            ways = self._made((Piece("raw", text),), base, shopt=False) or []
            for each in dict.fromkeys([made for way in ways for made in way if made != text]):
                yield from self._at(named.replace(text=each), base)
        own = own_place(text)
        if own is not None:
            yield from self._at(named.replace(text=own), base)
        place = self._place(text, base, op)
        if isinstance(place, FsTarget) and place.directory and named.names:
            for name in named.names:
                whole = name in ("", ".", "..")  # `cp -r src/. there`: what lies in it is put there
                inner = place if whole else self._root.resolve_place(name, place.canonical)
                yield NamedFile(text, op, inner, tree=named.tree or whole, perhaps=named.perhaps)
            return
        if named.perhaps and isinstance(place, RefusedPath):
            return
        likely = named.perhaps and op == WRITE and "/" in text and _could_be_made(place)
        gone = named.gone and not named.perhaps and isinstance(place, FsTarget)
        all_held = gone and isinstance(place, FsTarget) and self._holds_all(place.canonical)
        whole = all_held and isinstance(place, FsTarget) and is_under(self._root.path, place.canonical)
        gone = gone and not all_held
        yield NamedFile(text, op, place, tree=named.tree, perhaps=named.perhaps, likely=likely, gone=gone).replace(
            kinds=named.kinds,
            skips=named.skips,
            whole=whole,
            repository=_repository_at(place) if named.repository else "",
        )

    def _holds_all(self, path: str) -> bool:
        """Whether a directory is above the workspace or the home: what is lost with it is more than one place."""
        return any(is_under(own, path) and own != path for own in (self._root.path, self._home or self._root.path))

    def _place(self, text: str, base: str, op: str) -> FsTarget | RefusedPath:
        """Resolve a name; what is deleted is the name itself, not what a link of that name leads to."""
        last = text.rpartition("/")[2]
        if op != DELETE or last in ("", ".", ".."):
            return self._root.resolve_place(text, base)
        parent = self._root.resolve_place(text[: -len(last)] or ".", base)
        if not isinstance(parent, FsTarget):
            return parent
        path = f"{parent.canonical.rstrip('/')}/{last}"
        if not os.path.islink(path):
            return self._root.resolve_place(text, base)
        door = f"{parent.door}/{last}" if parent.door is not None else None
        return FsTarget(path, self._root.relative(path), door)


_OF_EXPRESSIONS = frozenset("()|^$+\\{} \t\n")
LEAST_OF_PATTERN = 2  # letters and dots: fewer say nothing of which files are meant


def _is_pattern(text: str) -> bool:
    """Whether a text in code may be a pattern that the program expands by itself: `glob(".e*")`."""
    if not any(char in text for char in "*?[") or not _OF_EXPRESSIONS.isdisjoint(text):
        return False
    outside = "".join([piece.rpartition("]")[2] for piece in text.split("[")])
    return len([char for char in outside if char.isalnum() or char == "."]) >= LEAST_OF_PATTERN


def _upwards(path: str, top: str) -> Iterator[str]:
    """Yield a directory and those above it, up to `top`, which is left out."""
    while is_under(path, top) and path != top:
        yield path
        path = os.path.dirname(path)


def _may_be_repository(path: str) -> bool:
    """Whether git may take a directory for a repository, or for the work tree of one."""
    named = any(os.path.lexists(os.path.join(path, name)) for name in REPOSITORY_PARTS)
    return named or all(os.path.lexists(os.path.join(path, name)) for name in ("objects", "refs"))


def _repository_at(place: FsTarget | RefusedPath) -> str:
    """Return whether a confined run can make a repository there; "" outside of the workspace."""
    if not isinstance(place, FsTarget) or place.relative is None:
        return ""
    return HELD if not place.relative or os.path.lexists(os.path.join(place.canonical, ".git")) else NEW


def _could_be_made(place: FsTarget | RefusedPath) -> bool:
    """Whether there is no such file, in a directory that exists."""
    return isinstance(place, FsTarget) and not place.exists and os.path.isdir(os.path.dirname(place.canonical))


def makes_links(command: Command) -> bool:
    """Whether later names in the line may lead through a link that this command makes."""
    if command.program not in MAKES_LINKS:
        return False
    packs = (command.program or "").endswith("tar") and not any(
        "x" in (word.text or "x").partition("=")[0] for word in command.words[1:2]
    )
    return not (packs and not any(word.text is None or "extract" in word.text for word in command.words))


def _is_absolute(forms: Forms) -> bool:
    """Whether every form starts at the root or at home, so that the working directory does not matter."""
    firsts = [
        next((piece for piece in form if piece.kind != "each" and (piece.text or piece.kind != "literal")), None)
        for form in forms
    ]
    if any(piece.kind == "here" for form in forms for piece in form):
        return False
    return all(
        first is not None
        and (
            first.kind == "home" or first.text.startswith("/") or (first.kind == "raw" and first.text.startswith("~/"))
        )
        for first in firsts
    )
