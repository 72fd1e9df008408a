"""Read a command line against a table of commands. The same table makes the help and the shell completions.

Our own, because `check` runs before every tool call and argparse alone takes as long to import as the interpreter takes
to start. Long options are never abbreviated: what a flag means must not depend on which others exist.
"""

from byleave.errors import InputError
from byleave.record import Record
from byleave.text import quoted, sentence_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Option(Record):
    """One flag: its names, the name of its value if it takes one, and what it does."""

    names: tuple[str, ...]
    help: str
    value: str | None = None
    repeat: bool = False
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name under which the parsed value is found."""
        return self.names[-1].lstrip("-").replace("-", "_")


class Positional(Record):
    """One word that is not a flag."""

    name: str
    help: str
    required: bool = True
    choices: tuple[str, ...] = ()


class Command(Record):
    """One command: where its code is, and what it takes. `rest`: everything after `--` belongs to it."""

    name: str
    help: str
    module: str = ""
    options: tuple[Option, ...] = ()
    positionals: tuple[Positional, ...] = ()
    subcommands: "tuple[Command, ...]" = ()
    rest: str = ""
    details: str = ""


class Given(Record):
    """What was asked for on the command line."""

    command: Command
    path: tuple[str, ...]
    options: "dict[str, list[str]]"
    words: "dict[str, str]"
    rest: tuple[str, ...]

    def flag(self, key: str) -> bool:
        """Whether a flag without a value was given."""
        return key in self.options

    def one(self, key: str) -> str | None:
        """Return the value of an option, the last one if it was repeated; None if it was not given."""
        values = self.options.get(key)
        return values[-1] if values else None


class _Reader:
    def __init__(self, root: Command, common: tuple[Option, ...]) -> None:
        self._common = common
        self._command = root
        self._path: tuple[str, ...] = ()
        self._options: dict[str, list[str]] = {}
        self._words: list[str] = []
        self._rest: tuple[str, ...] = ()

    def read(self, argv: "list[str]") -> Given:
        ahead = iter(argv)
        for word in ahead:
            if word == "--":
                self._rest = tuple(ahead)
                break
            if word.startswith("-") and word != "-":
                self._flag(word, ahead)
            elif self._command.subcommands and not self._words:
                self._enter(word)
            else:
                self._words.append(word)
        return self._given()

    def _enter(self, word: str) -> None:
        for command in self._command.subcommands:
            if command.name == word:
                self._command = command
                self._path = (*self._path, word)
                return
        names = tuple(command.name for command in self._command.subcommands)
        raise InputError(f"unknown command {quoted(word)}", hint=_nearest_hint(word, names))

    def _flag(self, word: str, ahead: "Iterator[str]") -> None:
        name, mark, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = self._find(name)
        if option.value is None:
            if mark:
                raise InputError(f"{name} takes no value", hint=f"write {name} alone")
            value = ""
        elif not mark:
            following = next(ahead, None)
            if following is None:
                raise InputError(f"{name} needs a value", hint=f"write {name} {option.value}")
            value = following
        if option.choices and value not in option.choices:
            raise InputError(f"{name} cannot be {quoted(value)}", hint=f"it is one of {sentence_list(option.choices)}")
        self._options.setdefault(option.key, []).append(value)

    def _find(self, name: str) -> Option:
        known = (*self._common, *self._command.options)
        for option in known:
            if name in option.names:
                return option
        names = tuple(spelling for option in known for spelling in option.names)
        raise InputError(f"unknown option {quoted(name)}", hint=_nearest_hint(name, names))

    def _given(self) -> Given:
        wanted = self._command.positionals
        if self.wants_help:
            return Given(self._command, self._path, self._options, {}, self._rest)
        if len(self._words) > len(wanted):
            extra = self._words[len(wanted)]
            raise InputError(f"{quoted(extra)} is one word too many", hint=usage(self._command, self._path))
        words = dict(zip((positional.name for positional in wanted), self._words, strict=False))
        missing = [positional.name for positional in wanted if positional.required and positional.name not in words]
        if missing and not self._may_lack(missing):
            raise InputError(f"{sentence_list(missing)} is missing", hint=usage(self._command, self._path))
        for positional in wanted:
            value = words.get(positional.name)
            if value is not None and positional.choices and value not in positional.choices:
                hint = f"it is one of {sentence_list(positional.choices, most=20)}"
                raise InputError(f"{positional.name} cannot be {quoted(value)}", hint=hint)
        if self._rest and not self._command.rest:
            raise InputError("nothing is expected after --", hint=usage(self._command, self._path))
        return Given(self._command, self._path, self._options, words, self._rest)

    @property
    def wants_help(self) -> bool:
        return "help" in self._options or "version" in self._options

    def _may_lack(self, _missing: "list[str]") -> bool:
        return "batch" in self._options


def read_arguments(root: Command, common: tuple[Option, ...], argv: "list[str]") -> Given:
    """Return what the words of the command line ask for; an input error with a hint if they make no sense."""
    return _Reader(root, common).read(argv)


def usage(command: Command, path: tuple[str, ...]) -> str:
    """Return the one line that shows how a command is written."""
    parts = ["byleave", *path]
    if command.subcommands:
        parts.append("COMMAND")
    parts += [
        f"{option.names[0]} {option.value}" if option.value else option.names[0] for option in command.options[:4]
    ]
    parts[len(path) + 1 :] = [f"[{part}]" if part.startswith("-") else part for part in parts[len(path) + 1 :]]
    parts += [positional.name if positional.required else f"[{positional.name}]" for positional in command.positionals]
    if command.rest:
        parts.append(f"-- {command.rest}")
    return " ".join(parts)


def help_text(command: Command, path: tuple[str, ...], common: tuple[Option, ...]) -> str:
    """Return the help of a command, made from its table."""
    lines = [f"usage: {usage(command, path)}", "", command.help]
    if command.details:
        lines += ["", command.details]
    rows = [(entry.name, entry.help) for entry in command.subcommands]
    lines += _section("commands", rows)
    lines += _section("arguments", [(positional.name, _described(positional)) for positional in command.positionals])
    lines += _section("options", [(_spelled(option), option.help) for option in command.options])
    lines += _section("common options", [(_spelled(option), option.help) for option in common])
    return "\n".join(lines)


def _section(title: str, rows: "list[tuple[str, str]]") -> "list[str]":
    if not rows:
        return []
    width = max(len(name) for name, _text in rows)
    return ["", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows)]


def _described(positional: Positional) -> str:
    if not positional.choices:
        return positional.help
    return f"{positional.help} ({', '.join(positional.choices)})"


def _spelled(option: Option) -> str:
    names = ", ".join(option.names)
    return f"{names} {option.value}" if option.value else names


def _nearest_hint(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {sentence_list(known, most=20)}"
