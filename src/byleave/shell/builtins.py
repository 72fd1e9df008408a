"""Builtins that change what later words mean, evaluate their arguments, or move the shell.

Each checker gets the words and answers with the flow that follows, or refuses. A builtin without an entry here does
nothing to the shell that matters to a reader.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn, Protocol

from byleave.shell.model import Assignment, NotUnderstoodError
from byleave.shell.state import AT_HOME, entered, followed, forms_of, moved, relative_value, united
from byleave.shell.syntax.cursor import ZSH, is_identifier
from byleave.shell.syntax.tree import Piece, is_decimal
from byleave.shell.syntax.vocabulary import BINARY_TESTS, SET_NAMES, SET_OPTIONS, SHOPT_NAMES, UNARY_TESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from byleave.shell.state import Flow, Places, ShellState
    from byleave.shell.syntax.tree import Word

    Words = tuple[Word, ...]

    Checker = Callable[["VariableChecks", Words, ShellState], Flow]


class VariableChecks(Protocol):
    """What a builtin needs to know of the text being read, and what it reports: `walk.Walker`."""

    start: str
    dialect: str
    functions: set[str]
    tainted: set[str]

    def check_variable(self, name: str, at: int, value: str | None = None) -> None: ...

    def check_evaluated(self, name: str, at: int, value: str | None = None) -> None: ...

    def check_exotic(self, name: str, at: int) -> None: ...

    def check_numbers(self, words: Iterable[Word], state: ShellState) -> None: ...

    def taint(self, name: str, at: int) -> None: ...


def _refuse(reason: str, word: Word) -> NoReturn:
    raise NotUnderstoodError(reason, word.start)


def _texts(words: Words, what: str) -> list[str]:
    """Return the arguments, all of which must be known."""
    texts: list[str] = []
    for word in words[1:]:
        if word.text is None:
            _refuse(f"{what} with a word known only at run time", word)
        texts.append(word.text)
    return texts


def change_directory(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`cd` and `pushd`: followed when the operand is one word that is known, or that the line makes known.

    dash and zsh know `cd` as `chdir`, too; in bash that fails, and the shell stays.
    """
    arguments = list(words[1:])
    physical = stays = False
    while arguments and arguments[0].text in ("-L", "-P", "-e", "-n", "--"):
        option = arguments.pop(0).text
        physical, stays = physical or option == "-P", stays or option == "-n"
        if option == "--":
            break
    target = arguments[0].text if len(arguments) == 1 else None
    if target is None and not stays:
        if not arguments and words[0].text in ("cd", "chdir") and "HOME" not in state.values:
            return state.at((AT_HOME,), state.places), state
        if len(arguments) == 1:
            return state.at(reached(arguments[0], state, "" if physical else walker.start), state.places), state
    if target is None or not target or target[0] == "+" or stays:
        return state.at(None, None), state.at(None, None) if len(arguments) > 1 else state
    if physical and target[0] != "-":
        return state.at(entered(state.places, target), state.places), state
    if target == "-":
        return state.at(state.previous, state.places), state
    if target[0] == "-":
        return state.at(None, None), state
    return state.at(moved(state.places, target, walker.start), state.places), state


def reached(word: Word, state: ShellState, start: str) -> Places:
    """Return where a directory is that a word names which is not literal; None where that is not known."""
    found: Places = ()
    for form in forms_of(word, state.values):
        pieces = [piece for piece in form if piece.kind != "each" and (piece.text or piece.kind in ("home", "here"))]
        first = pieces[0] if pieces else None
        if first is None:
            return None
        begin, texts, here = first.kind, [piece.text for piece in pieces], state.places
        if begin == "here" and first.text:
            here, texts[0] = (first.text,), ""
        if begin == "raw" and first.text.startswith("~"):
            begin = {"~": "home", "~+": "here"}.get(first.text.partition("/")[0], "unknown")
            if "/" not in first.text and len(pieces) > 1:  # `~"/x"` is no home
                return None
            texts[0] = first.text[first.text.find("/") :] if "/" in first.text else ""
        if begin == "unknown" or (begin == "home" and "HOME" in state.values):
            return None
        rest = [Piece("raw", texts[0]), *pieces[1:]] if begin in ("home", "here") else pieces
        if any(_is_open(piece) for piece in rest):
            return None
        text = "".join(texts)
        if begin == "home":
            places: Places = (f"{AT_HOME}{text}",)
        elif begin == "here" and text[:1] not in ("", "/"):
            return None
        else:
            places = followed(moved(here, f".{text}" if begin == "here" else text, start))
        found = united(found, places) if found else places
        if found is None:
            return None
    return found or None


def _is_open(piece: Piece) -> bool:
    """Whether the shell may still make something else of a piece: a pattern, braces, several words."""
    if piece.kind == "literal":
        return False
    return piece.kind not in ("raw", "value") or any(char in "*?[{\\ \t\n" for char in piece.text)


def _lose_directory(_walker: VariableChecks, _words: Words, state: ShellState) -> Flow:
    return state.at(None, None), state


def _source(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """A script may change the directory and every variable; the one that activates a virtual environment stays."""
    lost = state.lost()
    if len(words) == 2 and (words[1].text or "").endswith("/bin/activate"):
        lost = lost.at(state.places, state.previous)
    return lost, lost


def _numbers(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`return 1`, `shift 2`: zsh evaluates the number."""
    if walker.dialect == ZSH:
        walker.check_numbers([word for word in words[1:] if word.text is None], state)
        for word in words[1:]:
            if word.text is not None and not is_decimal(word.text.lstrip("-")):
                _refuse(f"zsh evaluates the number of `{words[0].text}`", word)
    return state, state


def _leave(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`exit` ends the shell, unless it has too many arguments."""
    _numbers(walker, words, state)
    if len(words) > 2 or any(word.many and not word.number for word in words):
        return state, state
    return None, None


def _set(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`set`: only options that leave the reading of words as it is."""
    named = False
    for word in words[1:]:
        text = word.text
        if text is None:
            if word.could_be_option or named:
                _refuse("`set` with a word known only at run time", word)
            break
        if named:
            if text not in SET_NAMES:
                _refuse(f"`set -o {text}` changes how bash reads", word)
            named = False
        elif text in ("--", "-") or text[:1] not in ("-", "+"):
            break
        else:
            named = text.endswith("o")
            if not SET_OPTIONS.issuperset(text[1:].removesuffix("o")):
                _refuse(f"`set {text}` changes how bash reads", word)
    return state, state


def _shopt(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    for text in _texts(words, "`shopt`"):
        if text not in SHOPT_NAMES and text not in ("-s", "-u", "-q", "-p"):
            _refuse(f"`shopt {text}` changes how bash reads", words[0])
    return state, state


def _alias(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if any("=" in text for text in _texts(words, "`alias`")):
        _refuse("an alias changes what later words mean", words[0])
    return state, state


def _never(_walker: VariableChecks, words: Words, _state: ShellState) -> Flow:
    _refuse(f"`{words[0].text}` changes what later words mean, or evaluates its arguments", words[0])


def _hash(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if any("=" in text or (text.startswith("-") and text != "-r") for text in _texts(words, "`hash`")):
        _refuse("`hash` changes what later words run", words[0])
    return state, state


def _enable(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if len(words) > 1:
        _refuse("`enable` changes what later words run", words[0])
    return state, state


def _declare(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`declare`, `export` and their like: plain names and values, no integers, references or functions."""
    for word in words[1:]:
        name = word.prefix.partition("=")[0].removesuffix("+")
        if word.text is not None and word.text[:1] in ("-", "+") and word.text != "-":
            if not frozenset("xrgpaAlu").issuperset(word.text[1:]):
                _refuse(f"`{words[0].text} {word.text}` changes how values are read", word)
        elif (word.text is None and "=" not in word.prefix) or not is_identifier(name):
            _refuse("a variable known only at run time", word)
        else:
            walker.check_variable(name, word.start)
            value = word.text.partition("=")[2] if word.text is not None else None
            if "=" in word.prefix:
                walker.check_evaluated(name, word.start, value)
            if value is not None and is_decimal(value) and name not in walker.tainted:
                state = state.counting(name)
            elif "=" in word.prefix:
                walker.taint(name, word.start)
    return state, state


def _names(walker: VariableChecks, words: Words, state: ShellState, *, values: str, flags: str) -> Flow:
    """Check a builtin that sets the variables it names: each must be a plain name that changes nothing.

    Letters of options are `flags`, or `values` where the rest of the word or the next one belongs to them.
    """
    index = 1
    while index < len(words):
        word = words[index]
        index += 1
        text = word.text
        if text is None:
            _refuse("a variable known only at run time", word)
        if text[:1] == "-" and len(text) > 1:
            index += _value_follows(words, word, text, values, flags)
        else:
            _plain_name(walker, text, word)
    return state, state


def _value_follows(words: Words, word: Word, text: str, values: str, flags: str) -> bool:
    """Check an option of `read` and its like; return whether the next word is its value."""
    if text == "--":
        return False
    for place, letter in enumerate(text[1:], 2):
        if letter in values:
            return place == len(text)
        if letter not in flags:
            _refuse(f"`{words[0].text} {text}` is not followed", word)
    return False


def _plain_name(walker: VariableChecks, text: str, word: Word) -> None:
    if not is_identifier(text):
        _refuse("a subscript that bash evaluates", word)
    walker.check_exotic(text, word.start)
    walker.taint(text, word.start)


def _read(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if walker.dialect == ZSH:  # its other options are not those of bash, and it evaluates their numbers
        return _names(walker, words, state, values="", flags="rs")
    for word in words[1:]:
        if word.text is not None and word.text.startswith("-") and "a" in word.text[:-1]:
            _refuse("a variable of `read -a` in one word with the option", word)
    return _names(walker, words, state, values="dinNptu", flags="rsea")  # the name of -a is checked like the others


def _mapfile(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    return _names(walker, words, state, values="dnsuO", flags="t")


def _unset(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if walker.functions:
        _refuse("`unset` may remove a function", words[0])
    return _names(walker, words, state, values="", flags="v")


def _getopts(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if len(words) < 3 or words[1].text is None or words[2].text is None:
        _refuse("`getopts` with a word known only at run time", words[0])
    if words[1].text.startswith("-"):
        _refuse("an option of `getopts`, behind which other words are the variable", words[1])
    _plain_name(walker, words[2].text, words[2])
    return state, state


def _printf(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`printf -v name` sets a variable; its options end at the format."""
    if len(words) < 2:
        return state, state
    first = words[1]
    if first.text is None and first.could_be_option:
        _refuse("a word known only at run time that could be -v", first)
    if first.text is not None and first.text.startswith("-v"):
        name = words[2] if first.text == "-v" and len(words) > 2 else first
        if name.text is None or name is first:
            _refuse("a variable known only at run time", name)
        _plain_name(walker, name.text, name)
    elif len(words) > 2 and (first.text is None or _counts(first.text)):
        _refuse("`%n` sets a variable that the arguments name", first)
    if walker.dialect == ZSH and first.text is not None:
        begin = 3 if first.text.startswith("-v") else 1
        if _evaluates(words[begin:]):
            _refuse("zsh evaluates what `printf` shows as a number", words[0])
    return state, state


_BEFORE_CONVERSION = "-+ #'0123456789.*$hlLjzt"


def _conversions(text: str) -> list[str]:
    """Return what stands behind each `%` of a format that is not doubled."""
    return text.replace("%%", "").split("%")[1:]


def _counts(text: str) -> bool:
    """Return whether a format has `%n`, or is an option so that the format is another word."""
    return text.startswith("-") or any(part.lstrip(_BEFORE_CONVERSION).startswith("n") for part in _conversions(text))


def _evaluates(words: Words) -> bool:
    """Return whether a format, the first of the words, has zsh evaluate one of the others that may be no number."""
    if all(word.number is True or is_decimal((word.text or "").lstrip("-")) for word in words[1:]):
        return False
    if words[0].text is None:
        return True
    parts = [(part, part.lstrip(_BEFORE_CONVERSION)) for part in _conversions(words[0].text)]
    return any("*" in part[: len(part) - len(rest)] or rest[:1] not in ("s", "b", "q", "c") for part, rest in parts)


def _wait(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    for word in words[1:]:
        text = word.text or ""
        if (word.text is None and word.could_be_option and word.number is None) or (text[:1] == "-" and "p" in text):
            _refuse("`wait -p` sets a variable", word)
    return state, state


def _wait_for_numbers(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    walker.check_numbers([word for word in words[1:] if word.text is None], state)
    return _wait(walker, words, state)


def _test(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`test` and `[`: -v and -R evaluate a subscript, so it must be clear which words are operators."""
    arguments = list(words[1:])
    if words[0].text == "[":
        if not arguments or arguments[-1].text != "]":
            return state, state  # an error, nothing is evaluated
        arguments.pop()
    walker.check_numbers([word for word in arguments if word.splits], state)
    while len(arguments) > 1 and arguments[0].text == "!":
        arguments.pop(0)
    if walker.dialect == ZSH:
        for word, following in itertools.pairwise(arguments):
            if word.text == "-t" and not is_decimal(following.text or ""):
                _refuse("zsh evaluates what stands behind -t", following)
    if not any(word.text is None for word in arguments):
        return _known_test(arguments, state)
    if any(word.glob for word in arguments):
        _refuse("a pattern in a test may become an operator", words[0])
    if len(arguments) == 2 and arguments[0].text not in UNARY_TESTS:
        _refuse("an operator known only at run time, or one that evaluates", arguments[0])
    if len(arguments) == 3 and arguments[1].text not in BINARY_TESTS:
        _refuse("an operator known only at run time, or one that evaluates", arguments[1])
    if len(arguments) > 3:
        _refuse("a test in which any word may be an operator", arguments[0])
    return state, state


def _known_test(arguments: list[Word], state: ShellState) -> Flow:
    for word, following in itertools.pairwise(arguments):
        if word.text in ("-v", "-R") and not is_identifier(following.text or ""):
            _refuse("-v evaluates a subscript", following)
    return state, state


def _jobs(_walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    if any(text.startswith("-") and "x" in text for text in _texts(words, "`jobs`")):
        _refuse("`jobs -x` runs a command", words[0])
    return state, state


DECLARING = frozenset(["declare", "typeset", "local", "readonly", "export"])


def declared(words: Words) -> tuple[Assignment, ...]:
    """Return the assignments among the arguments of `export` and its like."""
    made: list[Assignment] = []
    for word in words[1:]:
        name, equals, value = word.prefix.partition("=")
        if equals:
            plain = name.removesuffix("+")
            known = value if word.text is not None else None
            made.append(Assignment(plain, known, name.endswith("+"), relative_value(plain, word)))
    return tuple(made)


def _of_zsh(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """Refuse builtins of zsh that set variables by name, where a subscript runs commands, or that run code later."""
    if walker.dialect == ZSH:
        _refuse(f"`{words[0].text}` sets variables, or runs code, by words", words[0])
    return state, state


def _print(walker: VariableChecks, words: Words, state: ShellState) -> Flow:
    """`print -v NAME` of zsh sets a variable, `print -f` shows numbers: the subscript of an array runs commands."""
    if walker.dialect == ZSH:
        for word in words[1:]:
            if word.text is None and word.could_be_option:
                _refuse("a word that may become an option of `print`", word)
            if word.text is None or word.text[:1] != "-" or word.text in ("-", "--"):
                break
            if "v" in word.text or "f" in word.text:
                _refuse("an option of `print` that sets a variable, or evaluates", word)
    return state, state


_BUILTINS_OF_ZSH = frozenset(
    [
        *(
            "add-zsh-hook",
            "bindkey",
            "compadd",
            "compctl",
            "compset",
            "getln",
            "pushln",
            "sched",
            "strftime",
            "sysopen",
        ),
        *("sysread", "sysseek", "syswrite", "vared", "zcurses", "zformat", "zle", "zparseopts", "zpty", "zregexparse"),
        *("zselect", "zsocket", "zstat", "zstyle", "zsystem", "ztcp", "ztie", "zuntie", "zgetattr", "zsetattr", "zftp"),
    ]
)
CHECKERS: dict[str, Checker] = {
    **dict.fromkeys(_BUILTINS_OF_ZSH, _of_zsh),
    "print": _print,
    "chdir": change_directory,
    "cd": change_directory,
    "pushd": change_directory,
    "popd": _lose_directory,
    "source": _source,
    ".": _source,
    "exit": _leave,
    "return": _numbers,
    "shift": _numbers,
    "break": _numbers,
    "continue": _numbers,
    "set": _set,
    "shopt": _shopt,
    "alias": _alias,
    "hash": _hash,
    "enable": _enable,
    "declare": _declare,
    "typeset": _declare,
    "local": _declare,
    "readonly": _declare,
    "export": _declare,
    "read": _read,
    "mapfile": _mapfile,
    "readarray": _mapfile,
    "unset": _unset,
    "getopts": _getopts,
    "printf": _printf,
    "wait": _wait_for_numbers,
    "test": _test,
    "[": _test,
    "jobs": _jobs,
    "let": _never,
    "compgen": _never,
    "complete": _never,
    "compopt": _never,
    "bind": _never,
    "fc": _never,
    "coproc": _never,
    "suspend": _never,
    "logout": _never,
    "autoload": _never,
    "zmodload": _never,
    "setopt": _never,
    "unsetopt": _never,
    "emulate": _never,
}
