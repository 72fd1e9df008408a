"""Names of files inside of words: of options, addresses, inline code, scripts. Each may be a file, or not.

Pure. Such a name counts where it leads to a place that a rule or byleave closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

READ, WRITE, DELETE, EXECUTE = "read", "write", "delete", "exec"
# Given in place of a file. The names of descriptors stay: what they open counts where it was opened.
STANDARD_STREAMS = frozenset(["-", "/dev/null", "/dev/tty", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"])


class PossibleFile(Record):
    """A file that a command names. `text` is None where the name is known only at run time.

    `perhaps`: it may be no file at all, and counts only where it exists and something closes it. `tree`: everything
    below it is touched as well, if it is a directory. `names`: what would be put there, should it be a directory.
    `beside`: the name is read from the directory of that other name, as the text of a link is. `top`: it is read from
    the root of the repository. `started`: from where the shell starts the program, whatever option moves it.
    `at_home`: from the home directory. `gone`: it is taken away with all that is in it.
    `kinds`: of the files below it, only those with these endings are touched, and none below the directories `skips`.
    `repository`: git makes a repository there.
    """

    text: str | None
    op: str
    tree: bool = False
    perhaps: bool = False
    names: tuple[str, ...] = ()
    beside: str | None = None
    top: bool = False
    started: bool = False
    at_home: bool = False
    gone: bool = False
    kinds: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    repository: bool = False


_MARKS = dict.fromkeys(map(ord, "=@:,;<>\"'"), "\n")


def perhaps(text: str) -> Iterator[PossibleFile]:
    """Yield every path that a word may hold, as `-fFILE`, `--file=FILE`, `@FILE` or `FILE:/elsewhere` do."""
    candidates = [text] if not text.startswith("-") else []
    if text.startswith("-") and not text.startswith("--") and len(text) > 2:
        candidates.append(text[2:])
    for mark in "=@":
        if mark in text:
            candidates.append(text.partition(mark)[2])
            candidates.append(text.rpartition(mark)[2])
    for each in list(candidates):
        if is_local(each):
            candidates.append(local_path(each))
        candidates.append(each.lstrip("@<"))
        candidates.append(each.partition("://")[2])
        yield from in_commands(each)
    candidates.extend(text.lstrip("-").translate(_MARKS).split("\n"))
    for each in dict.fromkeys(candidates):
        if each and each not in STANDARD_STREAMS:
            yield PossibleFile(each, READ, perhaps=True)
            yield PossibleFile(each, WRITE, perhaps=True)


_SHELL_MARKS = dict.fromkeys(map(ord, "\"'`()[]{}<>,;|&=+!\t "), "\n")
# Programs whose words may be code in a language of their own: a file stands in it as a string.
INTERPRETERS = frozenset(
    [
        *("python", "python2", "python3", "pypy", "pypy3", "node", "nodejs", "deno", "bun", "tsx", "ts-node", "perl"),
        *("ruby", "php", "lua", "luajit", "R", "Rscript", "julia", "tclsh", "osascript", "pwsh", "groovy", "scala"),
        *("sqlite3", "psql", "mysql", "duckdb", "ghc", "elixir", "erl", "guile", "racket", "swift", "jshell"),
    ]
)


def in_code(text: str) -> Iterator[PossibleFile]:
    """Yield every path that a string in a piece of code may be. The code may do anything to it."""
    strings = text.replace("'", '"').replace("`", '"').split('"')[1:-1]
    strings.extend(_quoted_otherwise(text))
    yield from _each_perhaps([*strings, *[local_path(each) for each in strings if is_local(each)]])
    for each in strings:
        yield from in_commands(each)


_CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">", "/": "/", "|": "|", "!": "!"}
_QUOTING = frozenset(["q", "qq", "qw", "qx", "%", "%q", "%Q", "%w", "%W", "%x", "%i"])
_LETTERS_OF_QUOTING = "qwxQWi%"
LONGEST_STRING = 1000  # in characters, of those in brackets


def _quoted_otherwise(text: str) -> Iterator[str]:
    """Yield the strings of perl (`q(..)`, `qw/../`), ruby (`%w(..)`) and lua (`[[..]]`), and the words in them."""
    for place, char in enumerate(text):
        closing = _CLOSING.get(char)
        if closing is None:
            continue
        begin = place + 1
        if char == "[" and text[begin : begin + 1] in ("[", "="):
            begin += len(text[begin : begin + 4]) - len(text[begin : begin + 4].lstrip("="))
            if text[begin : begin + 1] != "[":
                continue
            begin += 1
        elif not _quotes(text[max(0, place - 4) : place].rstrip(" ")):
            continue
        end = text.find(closing, begin, begin + LONGEST_STRING)
        if end > begin:
            yield text[begin:end]
            yield from text[begin:end].split()


def _quotes(before: str) -> bool:
    """Whether a text ends in an operator that puts what stands in brackets behind it between quotes."""
    rest = before.rstrip(_LETTERS_OF_QUOTING)
    return before[len(rest) :] in _QUOTING and not rest[-1:].isalnum() and rest[-1:] not in ("_", "$", "@", "'", '"')


# Programs by which a text is taken for a command. Fewer than take files: `file` and `look` are words of sentences, too.
_COMMANDS = frozenset(
    [
        *(
            "cat",
            "head",
            "tail",
            "cp",
            "mv",
            "rm",
            "ln",
            "sed",
            "awk",
            "grep",
            "rg",
            "bash",
            "sh",
            "source",
            ".",
            "tee",
        ),
        *("base64", "xxd", "od", "strings", "curl", "wget", "dd", "tar", "zip", "scp", "rsync", "env", "sudo", "exec"),
        *("git", "chmod", "touch", "echo", "printf", "python3", "node", "less", "bat", "sort", "xargs", "find"),
    ]
)
_ENDS = dict.fromkeys(map(ord, ";|&"), "\n")


def in_commands(text: str) -> Iterator[PossibleFile]:
    """Yield the words of every line that starts with the name of a program which takes files."""
    if " " not in text:
        return
    for line in text.translate(_ENDS).split("\n"):
        first = line.split(None, 1)[:1]
        if first and first[0][0] != "#" and first[0].rpartition("/")[2] in _COMMANDS:
            yield from in_script(line)


def in_script(text: str) -> Iterator[PossibleFile]:
    """Yield every path that a word of a shell script may be, where the script itself is not read."""
    yield from _each_perhaps(text.translate(_SHELL_MARKS).split("\n"))


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\033", "E": "\033"}


def unescaped(text: str) -> tuple[str, ...]:
    """Return a text as it stands, and as `printf` or `echo` write it."""
    first, *pieces = text.split("\\")
    if not pieces:
        return (text,)
    made = [first]
    following = iter(pieces)
    for piece in following:
        if not piece:  # two backslashes are one
            made.append("\\" + next(following, ""))
            continue
        digits = _digits(piece)
        code = int(digits[0], digits[1]) if digits[0] else -1
        if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            made.append(chr(code) + piece[digits[2] :])
        elif digits[0] or piece[0] not in _ESCAPES:
            made.append(piece)
        else:
            made.append(_ESCAPES[piece[0]] + piece[1:])
    return (text, "".join(made))


def _digits(piece: str) -> tuple[str, int, int]:
    """Return the digits of an escape, their base, and where they end: `056`, `x2e`, `u002e`."""
    base, begin, most = (16, 1, {"x": 2, "u": 4, "U": 8}[piece[0]]) if piece[0] in "xuU" else (8, 0, 3)
    begin, most = (1, 3) if base == 8 and piece[0] == "0" else (begin, most)
    accepted = "0123456789abcdefABCDEF" if base == 16 else "01234567"
    end = begin
    while end < min(len(piece), begin + most) and piece[end] in accepted:
        end += 1
    return piece[begin:end], base, end


def _each_perhaps(texts: Sequence[str]) -> Iterator[PossibleFile]:
    for each in dict.fromkeys([text.strip() for text in texts]):
        if each and "\n" not in each and each not in STANDARD_STREAMS and not each.startswith("-"):
            yield PossibleFile(each, READ, perhaps=True)
            yield PossibleFile(each, WRITE, perhaps=True)


def is_local(url: str) -> bool:
    """Whether a text is a `file:` URL."""
    return url[:5].lower() == "file:"


def local_path(url: str) -> str:
    """Return the path of a `file:` URL."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    if any("\ud800" <= char < "\udc80" or "\udcff" < char <= "\udfff" for char in rest):
        return rest  # half a character, which stands for no byte: no file has such a name
    first, *pieces = rest.encode("utf-8", "surrogateescape").split(b"%")
    return (first + b"".join([_decoded(piece) for piece in pieces])).decode("utf-8", "surrogateescape")


def _decoded(piece: bytes) -> bytes:
    """Return what stands behind a percent sign with its first two digits made a byte."""
    code = piece[:2].decode("latin-1")
    is_escape = len(code) == 2 and not code.strip("0123456789ABCDEFabcdef")
    return bytes([int(code, 16)]) + piece[2:] if is_escape else b"%" + piece
