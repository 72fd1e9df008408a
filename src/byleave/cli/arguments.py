"""Read a command line against a table of commands. The same table makes the help and the shell completions.

Our own and not argparse: one table serves help, errors with the nearest name, and the completions of each value
(docs/decisions/0013). Long options are never abbreviated: what a flag means must not depend on which others exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.errors import InputError
from byleave.record import Record
from byleave.text import nearest_word, quoted, sentence_list

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDEST = 80  # columns of the help
MOST_SPELLED = 4  # options that stand in the usage line; more are only listed below it


class OptionSpec(Record):
    """One flag: its names, the name of its value if it takes one, and what it does."""

    names: tuple[str, ...]
    help: str
    value: str | None = None
    repeat: bool = False
    choices: tuple[str, ...] = ()
    optional: bool = False  # its value may be left out, and is only ever written with `=`

    @property
    def key(self) -> str:
        """The name under which the parsed value is found."""
        return self.names[-1].lstrip("-").replace("-", "_")


class PositionalSpec(Record):
    """One word that is not a flag. `repeat`: of the last one there may be more, which become the rest."""

    name: str
    help: str
    required: bool = True
    choices: tuple[str, ...] = ()
    repeat: bool = False


class CommandSpec(Record):
    """One command: where its code is, and what it takes. `rest`: everything after `--` belongs to it.

    `alone` names a flag that does the command's work without any of its subcommands. `dashless`: `--` may be left out
    where no word behind begins with a dash.
    """

    name: str
    help: str
    module: str = ""
    options: tuple[OptionSpec, ...] = ()
    positionals: tuple[PositionalSpec, ...] = ()
    subcommands: tuple[CommandSpec, ...] = ()
    rest: str = ""
    details: str = ""
    alone: str = ""
    dashless: bool = False


class ParsedArguments(Record):
    """What was asked for on the command line."""

    command: CommandSpec
    path: tuple[str, ...]
    options: dict[str, list[str]]
    words: dict[str, str]
    rest: tuple[str, ...]

    def flag(self, key: str) -> bool:
        """Whether a flag without a value was given."""
        return key in self.options

    def one(self, key: str) -> str | None:
        """Return the value of an option, None if it was not given."""
        values = self.options.get(key)
        return values[-1] if values else None


_QUOTE_THE_LINE = "write the command line as one word: byleave check command 'LINE'"


class _Reader:
    def __init__(self, root: CommandSpec, common: tuple[OptionSpec, ...]) -> None:
        self._root = root
        self._common = common
        self._command = root
        self._path: tuple[str, ...] = ()
        self._options: dict[str, list[str]] = {}
        self._words: list[str] = []
        self._rest: tuple[str, ...] = ()

    def read(self, argv: list[str]) -> ParsedArguments:
        ahead = iter(argv)
        for word in ahead:
            if word == "--":
                self._end_options(ahead)
            elif word.startswith("-") and word != "-":
                self._flag(word, ahead)
            else:
                self._word(word)
        return self._given()

    def _end_options(self, ahead: Iterator[str]) -> None:
        """Take what follows `--`: the command's own rest, or words that may begin with a dash."""
        if self._command.rest:
            self._rest = tuple(ahead)
        for word in ahead:
            self._word(word)

    def _word(self, word: str) -> None:
        if not self._command.subcommands:
            self._words.append(word)
            return
        if self._command.alone in self._options:
            problem = f"--{self._command.alone} stands alone, without {quoted(word)}"
            raise InputError(problem, hint=f"write byleave {' '.join(self._path)} --{self._command.alone}")
        for command in self._command.subcommands:
            if command.name == word:
                self._command = command
                self._path = (*self._path, word)
                return
        names = tuple(command.name for command in self._command.subcommands)
        if self._path == ("check",) and " " in word:
            raise InputError(f"unknown command {quoted(word)}", hint=_QUOTE_THE_LINE)
        raise InputError(f"unknown command {quoted(word)}", hint=_nearest_hint(word, names))

    def _flag(self, word: str, ahead: Iterator[str]) -> None:
        if self._words and self._command.dashless:
            raise self._too_many(self._words[0])  # it is not clear whose option this is
        name, mark, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = self._find(name)
        if option.value is None and mark:
            raise InputError(f"{name} takes no value", hint=f"write {name} alone")
        if option.value is not None and not mark and not option.optional:
            value = _value(name, option, ahead)
        if option.choices and value not in option.choices:
            raise InputError(f"{name} cannot be {quoted(value)}", hint=f"it is one of {sentence_list(option.choices)}")
        earlier = self._options.setdefault(option.key, [])
        if earlier and value not in earlier and not option.repeat:
            problem = f"{name} is given twice, as {quoted(earlier[0])} and as {quoted(value)}"
            raise InputError(problem, hint="keep one of the two")
        earlier.append(value)

    def _find(self, name: str) -> OptionSpec:
        known = (*self._common, *self._command.options)
        for option in known:
            if name in option.names:
                return option
        raise InputError(f"unknown option {quoted(name)}", hint=self._option_hint(name, known))

    def _option_hint(self, name: str, known: tuple[OptionSpec, ...]) -> str:
        if not name.startswith("--") and len(name) > 2 and any(name[:2] in option.names for option in known):
            return "write short options one by one, and a value as a word of its own"
        if self._command.subcommands and name in _spellings(_options_below(self._command)):
            return f"it belongs to a command below {_called(self._path)}: write it behind that command"
        if self._command.positionals and not name.startswith("--"):
            return f"if {quoted(name)} is no option, write it after --"
        names = _spellings(known)
        return _nearest_hint(name, names, further=_spellings(_options_below(self._command)))

    def _given(self) -> ParsedArguments:
        if "help" in self._options or "version" in self._options:
            return ParsedArguments(self._command, self._path, self._options, {}, self._rest)
        positionals = self._command.positionals
        if self._command.dashless and not self._rest:
            self._rest, self._words = tuple(self._words), []
        if positionals and positionals[-1].repeat:
            self._rest = tuple(self._words[len(positionals) :])
        elif len(self._words) > len(positionals):
            raise self._too_many(self._words[len(positionals)])
        words = dict(zip((positional.name for positional in positionals), self._words, strict=False))
        missing = [each.name for each in positionals if each.required and each.name not in words]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise InputError(f"{sentence_list(missing)} {verb} missing", hint=usage(self._command, self._path))
        for positional in positionals:
            _check_choice(positional, words.get(positional.name))
        return ParsedArguments(self._command, self._path, self._options, words, self._rest)

    def _too_many(self, word: str) -> InputError:
        if self._command.rest:
            return InputError(f"-- is missing before {quoted(word)}", hint=usage(self._command, self._path))
        hint = _QUOTE_THE_LINE if self._path == ("check", "command") else usage(self._command, self._path)
        return InputError(f"{quoted(word)} is one word too many", hint=hint)


def read_arguments(root: CommandSpec, common: tuple[OptionSpec, ...], argv: list[str]) -> ParsedArguments:
    """Return what the words of the command line ask for; an input error with a hint if they make no sense."""
    return _Reader(root, common).read(argv)


def usage(command: CommandSpec, path: tuple[str, ...]) -> str:
    """Return the one line that shows how a command is written."""
    parts = [_called(path)]
    if command.subcommands:
        parts.append(f"(COMMAND | --{command.alone})" if command.alone else "COMMAND")
    options = [option for option in command.options if option.key != command.alone]
    spelled = [f"[{option.names[0]} {option.value}]" if option.value else f"[{option.names[0]}]" for option in options]
    parts += spelled if len(spelled) <= MOST_SPELLED else ["[OPTIONS]"]
    names = [(f"{each.name}..." if each.repeat else each.name, each.required) for each in command.positionals]
    parts += [name if required else f"[{name}]" for name, required in names]
    if command.rest:
        parts.append(f"[--] {command.rest}" if command.dashless else f"-- {command.rest}")
    return " ".join(parts)


def help_text(command: CommandSpec, path: tuple[str, ...], common: tuple[OptionSpec, ...]) -> str:
    """Return the help of a command, made from its table."""
    first, *others = _wrapped(f"usage: {usage(command, path)}", WIDEST)
    lines = [first, *(f"       {line}" for line in others), "", *_wrapped(command.help, WIDEST)]
    for paragraph in command.details.split("\n\n") if command.details else ():
        is_example = paragraph.startswith(" ")
        lines += ["", *(paragraph.split("\n") if is_example else _wrapped(" ".join(paragraph.split()), WIDEST))]
    lines += _section("commands", [(entry.name, entry.help) for entry in command.subcommands])
    lines += _section("arguments", [(positional.name, _described(positional)) for positional in command.positionals])
    lines += _section("options", [(_spelled(option), option.help) for option in command.options])
    lines += _section("common options, before or after the command", [(_spelled(one), one.help) for one in common])
    if command.subcommands:
        lines += ["", f"`{_called(('help', *path))} COMMAND` describes a command."]
        lines += [] if path else ["Start with `byleave setup`, in a project of yours."]
    return "\n".join(lines)


def _value(name: str, option: OptionSpec, ahead: Iterator[str]) -> str:
    """Take the next word as a value. One that looks like an option was hardly meant: it has to be written with `=`."""
    following = next(ahead, None)
    if following is None:
        raise InputError(f"{name} needs a value", hint=f"write {name} {option.value}")
    if following.startswith("-") and following != "-":
        hint = f"write {name}={option.value} if the value begins with a dash"
        raise InputError(f"{name} needs a value, and {quoted(following)} looks like an option", hint=hint)
    return following


def _check_choice(positional: PositionalSpec, value: str | None) -> None:
    if value is not None and positional.choices and value not in positional.choices:
        near = _nearest_hint(value, positional.choices)
        hint = near if near.startswith("did") else f"it is one of {sentence_list(positional.choices, most=20)}"
        raise InputError(f"{positional.name} cannot be {quoted(value)}", hint=hint)


def _called(path: tuple[str, ...]) -> str:
    return " ".join(("byleave", *path))


def _section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = max(len(name) for name, _text in rows)
    lines = ["", f"{title}:"]
    for name, text in rows:
        first, *others = _wrapped(text, WIDEST - width - 4)
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {other}" for other in others)]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def _described(positional: PositionalSpec) -> str:
    if not positional.choices:
        return positional.help
    return f"{positional.help} ({', '.join(positional.choices)})"


def _spelled(option: OptionSpec) -> str:
    names = ", ".join(option.names)
    if option.optional:
        return f"{names}[={option.value}]"
    return f"{names} {option.value}" if option.value else names


def _options_below(command: CommandSpec) -> tuple[OptionSpec, ...]:
    below: tuple[OptionSpec, ...] = ()
    for child in command.subcommands:
        below += (*child.options, *_options_below(child))
    return below


def _spellings(options: tuple[OptionSpec, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for option in options for name in option.names))


def _nearest_hint(word: str, known: tuple[str, ...], *, further: tuple[str, ...] = ()) -> str:
    near = nearest_word(word, (*known, *further))
    return f"did you mean {near}?" if near else f"there are {sentence_list(known, most=20)}"
