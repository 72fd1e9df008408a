"""How the operands and options of one command become names of files with roles: what is read, written, deleted, run.

`NamedFiles` reads a program that has an entry in `program_files`; `loose` reads one that has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.shell.knowledge.options import YES, is_taken_back, late_options, may_spell, module_words, scan
from byleave.shell.knowledge.possible_files import (
    DELETE,
    EXECUTE,
    INTERPRETERS,
    READ,
    STANDARD_STREAMS,
    WRITE,
    PossibleFile,
    in_code,
    in_script,
    perhaps,
)
from byleave.shell.syntax.tree import Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.shell.knowledge.options import GivenOption, Scan
    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command

OPS = {
    "read": (READ,),
    "write": (WRITE,),
    "edit": (READ, WRITE),
    "delete": (DELETE,),
    "run": (READ, EXECUTE),
    "data": (),
    "data_file": (),
}


# Where no more is known than that there is a file.
_LIKE = {"bind": "edit", "member": "read", "list": "read", "manifests": "read", "labelled": "read", "joined": "read"}
MANIFESTS = (".yaml", ".yml", ".json")  # of a directory, a client of a cluster takes these
SENT = frozenset(["sent", "encoded", "form", "cookie", "at"])  # text, or a file behind a sign


# What the name of an option says that no table lists, if the word behind it may be a file that is written.
_SAYS_OUTPUT = ("out", "log", "report", "save", "dest", "dump", "write")


def loose(command: Command, programs: ProgramTables) -> Iterator[PossibleFile]:
    """Yield what the words of a program without an entry may name."""
    words: Sequence[Word] = command.words[1:]
    if command.name is None:
        yield from _unknown_program(command)
    given = scan(command, programs).given
    for item in given:
        yield from by_option_table(item)
    if command.wraps is not None:  # its operands are the child, which is listed by itself
        words = [item.value for item in given if isinstance(item.value, Word)]
        words = [*words, *[Word(item.value, item.value) for item in given if isinstance(item.value, str)]]
    code = takes_code(command)
    known = code or programs.table(command.program or "") is not None
    reading = code and any((word.text or "")[:2] in _LOOPS for word in words)
    yield from _unknown_operands(command, programs, code=code)
    for word in words:
        if word.text is None and reading and not is_process(word):  # `perl -pe CODE FILES`
            yield PossibleFile(None, READ)
        if word.text is not None:
            for named in perhaps(word.text):
                if not known or named.op != WRITE or not (named.text or "").startswith(_OF_THE_SYSTEM):
                    yield named
            if code:
                yield from inline(word.text)


def _unknown_program(command: Command) -> Iterator[PossibleFile]:
    """Yield what a program may name that is known only at run time: its words, too, where it stands for several.

    A variable that the line does not set holds a program: `$CC x.c`.
    """
    first = command.words[0]
    several = first.many and not first.forms and "unknown" in [piece.kind for piece in first.pieces]
    if several or any(word.text is None and not word.forms and not is_process(word) for word in command.words[1:]):
        yield from [PossibleFile(None, op) for op in (READ, WRITE)]


def _unknown_operands(command: Command, programs: ProgramTables, *, code: bool) -> Iterator[PossibleFile]:
    """Yield operands known only at run time: the script of an interpreter, what a formatter changes."""
    found = scan(command, programs)
    if command.wraps is not None or found.table is None:
        return
    unknown = [word.text is None and not is_process(word) for word in map(command.words.__getitem__, found.operands)]
    if code and unknown[:1] == [True] and not module_words(command):
        yield PossibleFile(None, READ)
    if found.table.writer and any(unknown) and found.table.dry.isdisjoint([item.name for item in found.given]):
        yield PossibleFile(None, WRITE)


# With these an interpreter reads its operands line by line, and perhaps writes them.
_LOOPS = ("-n", "-p", "-i", "-l")
# Interpreters and compilers read these. Where they write them, the option tables say so.
_OF_THE_SYSTEM = ("/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/etc/", "/nix/")


def takes_code(command: Command) -> bool:
    """Whether the words and the input of a program may be code."""
    name = command.program or ""
    return name in INTERPRETERS or name.rstrip("0123456789.") in INTERPRETERS


# Commands in the languages of databases and editors which name a file in plain words.
_PLAIN_COMMANDS = (".", "\\", ":", "source ", "system ", "tee ", "r ", "w ", "e ", "w! ", "!")


def inline(text: str) -> Iterator[PossibleFile]:
    """Yield what a piece of code may name: its strings, and the words of commands that take no strings."""
    yield from in_code(text)
    for line in text.split("\n"):
        if line.startswith(_PLAIN_COMMANDS) and " " in line:
            yield from in_script(line)
        elif "\\" in line:  # `select 1 \\g FILE`
            yield from in_script(line.partition("\\")[2])


# What the option tables say of values that name files, as (operation, whether a directory is walked).
_TABLE_ROLES = {
    "read": ((READ, False),),
    "write": ((WRITE, False),),
    "exec": ((READ, False), (EXECUTE, False)),
    "read_dir": ((READ, False),),  # what of it is read, other words say: `-I .`
    "write_dir": ((WRITE, True),),
}


def by_option_table(item: GivenOption) -> Iterator[PossibleFile]:
    """Yield the file that the value of an option names, as far as the option tables know it."""
    table = item.table
    use = None if table is None else table.files.get(item.name, "write" if item.name in table.writes else None)
    if use is None or item.value is None or text_of(item.value) in ("", *STANDARD_STREAMS):
        return
    for op, tree in _TABLE_ROLES[use]:
        yield PossibleFile(text_of(item.value), op, tree=tree)


def _sent(word: Word, role: str) -> Iterator[PossibleFile]:
    """Yield the file of `@FILE` (`sent`), `NAME@FILE` (`encoded`), `NAME=@FILE` or `NAME=<FILE` (`form`).

    What is known only at run time is a file unless it surely begins as something else.
    """
    text = word.text
    if text is None:
        text = word.prefix
        if text.startswith("-"):  # the option stands in the same word
            text = text.partition("=")[2] if text.startswith("--") else text[2:]
    if role == "at":
        yield from perhaps(text) if word.text is not None else [PossibleFile(None, READ)] if "@" in text else ()
        return
    if role == "cookie":
        known = word.text is not None
        yield from [] if "=" in text or text in STANDARD_STREAMS else [PossibleFile(text if known else None, READ)]
        return
    if role == "encoded":
        plain, file = "=" in text.partition("@")[0], text.partition("@")[2]
    else:
        value = text if role == "sent" else text.partition("=")[2]
        if role == "form" and value[:1] == "(":  # a part with parts of its own
            value = value.partition("headers=")[2]
        plain, file = value[:1] not in ("@", "<") if value else False, value[1:]
    if plain:
        return
    if word.text is None:
        yield PossibleFile(None, READ)
    elif role == "form":
        yield from perhaps(file)  # `;type=` and other files may follow
    elif file and file not in STANDARD_STREAMS:
        yield from [PossibleFile(file, READ), PossibleFile(file, READ, perhaps=True)]


def _of_kinds(named: PossibleFile, kinds: tuple[str, ...], skips: tuple[str, ...]) -> PossibleFile:
    """Return a name as a program reads it that looks for files of its own languages, and expands patterns itself."""
    text = named.text or ""
    wild = [place for place, char in enumerate(text) if char in "*?[{"]
    if wild:
        top = text[: wild[0]].rpartition("/")[0] or ("/" if text.startswith("/") else ".")
        chosen = text.rpartition("/")[2]
        named = named.replace(text=top)
        kinds = kinds if chosen in ("*", "**") or "." in chosen[1:] else ()
    return named.replace(kinds=kinds, skips=skips)


class NamedFiles:
    """The files of one command whose program has an entry."""

    def __init__(self, command: Command, found: Scan, entry: Mapping[str, Any]) -> None:
        self._command = command
        self._scan = found
        self._whole_entry = entry
        self._words = [command.words[index] for index in found.operands]
        if "sub" in entry:
            subcommand = found.subcommand
            if subcommand is None and self._words and self._words[0].text in entry["sub"]:
                subcommand = self._words.pop(0).text  # no option table says that there are subcommands
            entry = self._for_subcommand(entry, subcommand)
        self._entry = entry
        self._gone: bool | None = None  # whether a directory that is deleted goes away as a whole

    def _for_subcommand(self, entry: Mapping[str, Any], subcommand: str | None) -> Mapping[str, Any]:
        own = entry["sub"].get(subcommand)
        if own is None:
            return entry
        options = {**own.get("options", {})}
        listed = {name for names in options.values() for name in names}
        for role, names in entry.get("options", {}).items():
            kept = [name for name in names if role == "script" or name not in listed]  # `git -c` stands in front
            options[role] = [*options.get(role, ()), *kept]
        return {**own, "options": options}

    def has(self, key: str) -> bool:
        """Whether one of the options that the entry lists under `key` is given, in any spelling that is known."""
        names = self._entry.get(key, ())
        return "*" in names or any(self._is_given(name, letters=key == "tree") for name in names)

    def surely(self, key: str) -> bool:
        """Whether one of the options that the entry lists under `key` holds: nothing takes it back."""
        return self.hold(*self._entry.get(key, ()))

    def hold(self, *options: str) -> bool:
        """Whether one of these options is given for sure, and nothing takes one of them back."""
        plain = [name for name in options if "=" not in name]
        if is_taken_back(plain, self._command.words):
            return False
        if any(_is_sure(item, plain) for item in self._scan.given):
            return True
        for name in options:
            option, equals, start = name.partition("=")
            values = self.value(option) if equals else []
            if values and all((value or "").startswith(start) for value in values):
                return True
        return False

    def _is_given(self, name: str, *, letters: bool) -> bool:
        if letters and len(name) == 2:  # wherever it stands: a table may take the letters behind it for a value
            clusters = [word.text for word in self._command.words[1:] if word.text is not None]
            if any(text[:1] == "-" and text[:2] != "--" and name[1] in text.partition("=")[0] for text in clusters):
                return True
        option, equals, start = name.partition("=")
        if equals:
            return any((value or "").startswith(start) for value in self.value(option))
        return is_given(name, self._scan.given, self._command.words)

    def operands(self, words: Sequence[Word] | None = None) -> Iterator[PossibleFile]:
        """Yield the operands by their roles."""
        entry = self._entry
        roles: tuple[str, ...] = entry["operands"]
        if self.has("instead") and len(roles) > 1:
            roles = roles[1:]
        silent = ("only" in entry and not self.has("only")) or (
            "quiet" in entry and self.surely("quiet") and not self.has("loud")
        )
        verbs = entry.get("verbs", ())
        first = [word.text for word in self._command.words[1:4]]
        words = self._words if words is None else words
        if silent and not self._scan.unknown:
            return
        if silent:  # a word known only at run time may be an option that takes it back
            words = [word for word in words if word.text is not None]
        if verbs and None not in first[:2] and not any(text in verbs for text in first):
            for word in words:
                yield from self.role(word, "other")
            return
        walks = self.has("tree")
        if words and verbs and words[0].text in verbs:
            words = words[1:]
        if entry.get("read_only") and self.surely("read_only"):
            roles = ("read",)
        if entry.get("read_and_write") and self.has("read_and_write"):
            roles = (*roles[:-1], "edit")
        kinds, skips = entry.get("kinds", ()), entry.get("skips", ())
        for number, word in enumerate(words):
            made = self.role(word, roles[min(number, len(roles) - 1)], tree=walks)
            yield from [_of_kinds(named, kinds, skips) for named in made] if kinds else made
            if may_be_several(word):
                yield from self._unexpected(roles[number + 1 :])
        if walks and entry.get("here") and len(words) < len(roles):
            for op in OPS[roles[-1]]:
                yield PossibleFile(".", op, tree=True, kinds=kinds, skips=skips)
        if entry.get("whole") and self.has("whole") and not words:
            yield from [PossibleFile(":/", op, tree=True) for op in OPS[roles[-1]]]

    def _unexpected(self, roles: Sequence[str]) -> Iterator[PossibleFile]:
        """Yield operands behind the one that a word known only at run time was expected to be."""
        for role in dict.fromkeys(roles):
            yield from [PossibleFile(None, op) for op in OPS.get(role, ())]

    def role(self, word: Word, role: str, *, tree: bool = False) -> Iterator[PossibleFile]:
        """Yield what a word is in a role."""
        if role == "other":
            if word.text is not None:
                yield from perhaps(word.text)
            return
        if role in SENT:
            yield from _sent(word, role)
            return
        if role in ("code", "script", "inline"):
            yield from {"code": in_code, "script": in_script, "inline": inline}[role](word.text or "")
            return
        if is_process(word) or word.text in STANDARD_STREAMS:
            return
        if role == "bind":  # `SOURCE:TARGET`: everything in it is read and written elsewhere
            source = None if word.text is None else word.text.partition(":")[0]
            yield from [PossibleFile(source, op, tree=True) for op in (READ, WRITE)]
            return
        if role == "member":  # `[NAME=]PLACE`: of a directory, all files
            source = None if word.text is None else word.text.rpartition("=")[2]
            yield PossibleFile(source, READ, tree=True)
            return
        if role in ("list", "manifests"):
            kinds = MANIFESTS if role == "manifests" else ()
            for text in _several(word, ","):
                yield PossibleFile(text, READ, tree=bool(kinds), kinds=kinds)
            return
        if role == "teed":
            yield from [PossibleFile(text and text.rpartition("]")[2], WRITE) for text in _several(word, "|")]
            return
        if role == "joined":
            yield from [named for text in _several(word, "|") for named in perhaps(text or "")]
            yield PossibleFile(word.text, READ)
            return
        if role == "labelled":
            yield from [PossibleFile(text, READ) for text in _several(word, "#")]
            return
        if role == "delete" and self._gone is None:
            self._gone = "gone" not in self._entry or self.has("gone")
        gone = role == "delete" and bool(self._gone) and not is_below(word)
        for op in OPS[role]:
            yield PossibleFile(word.text, op, tree=tree or is_below(word), gone=gone)
        if OPS[role] and (word.text or "").startswith("@"):  # some read their words from a file of that name
            yield PossibleFile((word.text or "")[1:], READ, perhaps=True)

    def values(self) -> Iterator[PossibleFile]:
        """Yield the files that the values of options name."""
        roles: Mapping[str, Sequence[str]] = self._entry.get("options", {})
        open_ended = "*" not in roles.get("data", ())
        known = {name: role for role, names in roles.items() if role != "data" or open_ended for name in names}
        for item in self._scan.given:
            role = known.get(item.name, "other" if open_ended else "data")
            if item.value is None:
                yield from self._without_value(item, known)
            elif role == "other" and item.table is not None and item.name in item.table.files:
                yield from by_option_table(item)
            else:
                word = item.value if isinstance(item.value, Word) else Word(item.value, item.value)
                yield from self.option_value(word, role)
                if may_be_several(word):
                    yield from self._unexpected(self._entry.get("operands", ()))
        yield from self._half_known(known)

    def _without_value(self, item: GivenOption, known: Mapping[str, str]) -> Iterator[PossibleFile]:
        """Yield what an option names that the option tables do not know to take a value."""
        if item.known:
            return
        name, attached = item.name, None
        if not name.startswith("--") and len(name) > 2 and name not in known:
            name, attached = name[:2], name[2:]
        role = known.get(name)
        following = self._command.words[item.index + 1 : item.index + 2]
        if role in (None, "data"):
            if role is None and "*" not in self._entry.get("options", {}).get("data", ()):
                yield from perhaps(item.name)
                yield from perhaps(self._behind_letter(item))
                if name.startswith("--") and any(mark in name for mark in _SAYS_OUTPUT):
                    yield from [named for word in following for named in perhaps(word.text or "")]
            return
        behind = self._behind_letter(item) if len(name) == 2 and not attached else ""
        if behind:  # the letters behind it are its value, or more letters
            yield from self.option_value(Word(behind, behind), role or "other")
        word = Word(attached, attached) if attached else following[0] if following else None
        if word is not None:
            yield from self.option_value(word, role or "other")

    def _behind_letter(self, item: GivenOption) -> str:
        """Return what stands behind a letter in its word, which may be the value of an option that is not known."""
        text = self._command.words[item.index].text or ""
        return text[1:].partition(item.name[1:])[2] if text[:2] != "--" else ""

    def _half_known(self, known: Mapping[str, str]) -> Iterator[PossibleFile]:
        """Yield what a word that is known only at its start may name, where that is the start of an option."""
        for word in self._command.words[1:]:
            start = word.prefix or (word.pieces[0].text if word.pieces and word.pieces[0].kind == "raw" else "")
            if not start and word.splits and word.glob and not word.pieces:
                start = "-"  # braces around something unknown: an option, for all that is known
            if word.text is not None or not start.startswith("-"):
                continue
            name, equals, _ = start.partition("=")
            if start.startswith("--"):
                roles = [
                    role for option, role in known.items() if (option == name if equals else option.startswith(name))
                ]
            else:
                meant = [known[f"-{letter}"] for letter in start[1:] if f"-{letter}" in known]
                roles = meant[:1] if len(start) > 1 else list(known.values())
            ops = dict.fromkeys([op for role in roles for op in OPS.get(role, ())])
            yield from [PossibleFile(None, op) for op in ops]
            yield from [named for role in roles if role in SENT for named in _sent(word, role)]

    def option_value(self, word: Word, role: str) -> Iterator[PossibleFile]:
        if role == "line":  # of git log -L: a range, then a file
            text = word.text
            yield PossibleFile(text.rpartition(":")[2] if text is not None else None, READ)
        elif role in SENT:
            yield from _sent(word, role)
        elif word.text is None and word.prefix:  # `--name=$value`: only a part is known
            if role != "data":
                yield from [PossibleFile(None, op) for op in OPS.get(_LIKE.get(role, role), ())]
        else:
            yield from self.role(word, role)

    @property
    def words(self) -> list[Word]:
        return self._words

    @property
    def given(self) -> tuple[GivenOption, ...]:
        return self._scan.given

    @property
    def late_options(self) -> bool:
        """Whether something that looks like an option stands where the program takes it for a name."""
        return bool(late_options(self._scan))

    @property
    def command(self) -> Command:
        return self._command

    @property
    def entry(self) -> Mapping[str, Any]:
        return self._entry

    def value(self, *names: str) -> list[str | None]:
        """Return the values of options by these names."""
        return [text_of(item.value) for item in self._scan.given if item.name in names and item.value is not None]


def _several(word: Word, sign: str) -> list[str | None]:
    """Return a word, and its parts between signs."""
    return [None] if word.text is None else [word.text, *(word.text.split(sign) if sign in word.text else ())]


def is_process(word: Word) -> bool:
    """Whether a word is a pipe from or to a process."""
    return len(word.forms) == 1 and len(word.forms[0]) == 1 and word.forms[0][0].kind == "process"


def is_below(word: Word) -> bool:
    """Whether a word stands for everything that was found below it."""
    return word.text is not None and any(piece.kind == "below" for form in word.forms for piece in form)


def may_be_several(word: Word) -> bool:
    """Whether a word known only at run time may become several, of which only the first is the expected one."""
    return word.text is None and word.many and not word.forms


def names_given(names: NamedFiles, *options: str) -> bool:
    """Whether a command has one of these options."""
    return any(is_given(option, names.given, names.command.words) for option in options)


def is_given(name: str, given: Sequence[GivenOption], words: Sequence[Word]) -> bool:
    """Whether an option may be given, in any spelling."""
    for item in given:
        if item.name == name or item.name.startswith(f"{name}="):
            return True
        if item.known:
            if item.table is not None and item.table.canonical.get(name) == item.name:
                return True
        elif item.name[:2] != "--" != name[:2] and name[1:] in item.name[1:]:
            return True
    return any(may_spell(word.text or "", name) for word in words[1:])


def _is_sure(item: GivenOption, names: Sequence[str]) -> bool:
    """Whether an option is one of these, has no value that switches it off, and is no abbreviation of another one."""
    if item.known:
        canonical = {name if item.table is None else item.table.canonical.get(name, name) for name in names}
        return item.sure and item.name in canonical and text_of(item.value) in YES
    if item.name in names:
        return text_of(item.value) in YES
    letters = item.name[1:]
    return item.name[:2] != "--" and letters.isalpha() and any(len(name) == 2 and name[1] in letters for name in names)


def text_of(value: Word | str | None) -> str | None:
    return value if isinstance(value, str) or value is None else value.text


def find_roots(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words that say where `find` starts."""
    for word in words:
        text = word.text
        if text in ("-H", "-L", "-P") or (text or "").startswith(("-O", "-D")):
            continue
        if text is not None and (text[:1] in ("-", "(", "!", ")", ",")):
            return
        yield word
