"""Run one of the old utilities that read files and print.

Which utilities may be run, with which options: only those that read files and print. Pure.

What is not listed is refused: an option that writes, executes, waits for ever or takes names of files from a file is
not in the table, nor is an unknown one. Long options are written in full.
"""

from __future__ import annotations

from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

from byleave.core.paths import collapse, refuse_input
from byleave.record import Record
from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_results import NotFound
from byleave.text import quoted
from byleave.tools.texts import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.sdk.vfs import Completed, Host


FILES, WORDS, FORMAT = "files", "words", "format"  # what the operands of a utility are


class Util(Record):
    """One utility: its options, and how many operands of which kind it takes.

    `flags` and `values` are letters: without a value, and with one. A long option ends in `=` if it needs a value, in
    `[=` if it may have one. `number`: `-5` is an option too.
    """

    flags: str = ""
    values: str = ""
    long: tuple[str, ...] = ()
    operands: str = FILES
    least: int = 1
    most: int | None = None
    number: bool = False


_SUMS = Util("bt", "", ("binary", "text", "tag", "zero"))
UTILS: dict[str, Util] = {
    "base64": Util("di", "w", ("decode", "ignore-garbage", "wrap="), most=1),
    "basename": Util("az", "s", ("multiple", "suffix=", "zero"), WORDS),
    "cat": Util("AbeEnstTuv", "", ("number", "number-nonblank", "show-all", "show-ends", "show-tabs", "squeeze-blank")),
    "cksum": Util(),
    "cmp": Util(
        "bls", "in", ("print-bytes", "verbose", "silent", "quiet", "bytes=", "ignore-initial="), least=2, most=4
    ),
    "comm": Util("123z", "", ("check-order", "nocheck-order", "total", "output-delimiter="), least=2, most=2),
    "cut": Util(
        "nsz",
        "bcdf",
        ("bytes=", "characters=", "delimiter=", "fields=", "complement", "only-delimited", "output-delimiter="),
    ),
    "date": Util("Ru", "d", ("date=", "utc", "universal", "iso-8601[=", "rfc-3339=", "rfc-email"), FORMAT, 0, 1),
    "diff": Util(
        "abBcdeEinNqrstTuwyZ",
        "CFIUWx",
        (
            *("brief", "recursive", "unified[=", "context[=", "side-by-side", "width=", "ignore-case", "text"),
            *("ignore-all-space", "ignore-space-change", "ignore-blank-lines", "report-identical-files", "minimal"),
            *("new-file", "exclude=", "suppress-common-lines", "strip-trailing-cr", "show-c-function", "normal"),
        ),
        least=2,
        most=2,
    ),
    "dirname": Util("z", "", ("zero",), WORDS),
    "du": Util(
        "abcDhHklLmPsSx0",
        "dBt",
        (
            *("all", "apparent-size", "bytes", "total", "human-readable", "summarize", "max-depth=", "si", "inodes"),
            *("one-file-system", "separate-dirs", "threshold=", "time", "exclude=", "block-size="),
        ),
        least=0,
    ),
    "expand": Util("i", "t", ("initial", "tabs=")),
    "file": Util("bhikNnr0L", "F", ("brief", "mime", "mime-type", "mime-encoding", "extension", "dereference")),
    "fold": Util("bs", "w", ("bytes", "spaces", "width=")),
    "head": Util("qvz", "cn", ("bytes=", "lines=", "quiet", "silent", "verbose", "zero-terminated"), number=True),
    "join": Util("iz", "aejotv12", ("ignore-case", "check-order", "nocheck-order", "header"), least=2, most=2),
    "ls": Util(
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        "IwT",
        (
            *(
                "all",
                "almost-all",
                "author",
                "classify",
                "directory",
                "human-readable",
                "inode",
                "recursive",
                "reverse",
            ),
            *("size", "sort=", "time=", "time-style=", "full-time", "group-directories-first", "no-group", "color[="),
        ),
        least=0,
    ),
    "md5sum": _SUMS,
    "nl": Util("p", "bdfhilnsvw", ("body-numbering=", "number-format=", "number-width=", "starting-line-number=")),
    "od": Util(
        "abcdfhilosvx", "AjNStw", ("address-radix=", "skip-bytes=", "read-bytes=", "format=", "output-duplicates")
    ),
    "paste": Util("sz", "d", ("serial", "delimiters=", "zero-terminated")),
    "rev": Util(),
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "sort": Util(
        "bcCdfgGhiMmnrRsuVz",
        "kt",
        (
            *("ignore-leading-blanks", "dictionary-order", "ignore-case", "general-numeric-sort", "numeric-sort"),
            *("human-numeric-sort", "month-sort", "version-sort", "reverse", "stable", "unique", "merge", "key="),
            *("field-separator=", "zero-terminated", "sort=", "check[="),
        ),
    ),
    "stat": Util("Lft", "c", ("dereference", "file-system", "format=", "printf=", "terse")),
    "tac": Util("br", "s", ("before", "regex", "separator=")),
    "tail": Util("qvz", "cn", ("bytes=", "lines=", "quiet", "silent", "verbose", "zero-terminated"), number=True),
    "uniq": Util(
        "cdDiuz",
        "fsw",
        (
            "count",
            "repeated",
            "unique",
            "ignore-case",
            "skip-fields=",
            "skip-chars=",
            "check-chars=",
            "zero-terminated",
        ),
        most=1,  # a second one is written to
    ),
    "wc": Util("clLmw", "", ("bytes", "chars", "lines", "max-line-length", "words")),
}


def problem_with(name: str, args: Sequence[str]) -> str | None:
    """Return why this may not be run; None if it may."""
    util = UTILS.get(name)
    if util is None:
        return f"{quoted(name)} is none of the utilities: {', '.join(UTILS)}"
    operands: list[str] = []
    for problem in _problems(name, util, args, operands):
        return problem
    if len(operands) < util.least:
        needs = "a file to read" if util.least == 1 and util.operands == FILES else f"{util.least} operands"
        return f"{name} needs {needs}: there is nothing on its input"
    if util.most is not None and len(operands) > util.most:
        return f"{name} takes no more than {util.most} of them here"
    return None


def _problems(name: str, util: Util, args: Sequence[str], operands: list[str]) -> Iterator[str]:
    """Yield what is wrong with options and operands, in order; collect the operands."""
    ahead = list(args)
    only_operands = False
    while ahead:
        word = ahead.pop(0)
        if only_operands or not word.startswith("-") or word == "-":
            operands.append(word)
            yield from _operand_problems(name, util, word)
        elif word == "--":
            only_operands = True
        elif word.startswith("--"):
            yield from _long_problems(name, util, word, ahead)
        elif not (util.number and word[1:].isascii() and word[1:].isdigit()):
            yield from _short_problems(name, util, word, ahead)


def _operand_problems(name: str, util: Util, word: str) -> Iterator[str]:
    if util.operands == FORMAT and not word.startswith("+"):
        yield f"{name} takes a format that begins with +; {quoted(word)} would set the clock"
    elif util.operands == FILES:
        yield from _outside(word)


def _outside(path: str) -> Iterator[str]:
    """Yield why a path is not one inside the workspace, by its text: where links lead is the sandbox's business."""
    refused = refuse_input(path)
    if refused is not None:
        yield refused.problem
    elif collapse(path) is None:
        yield f"{quoted(path)} climbs out of the workspace"


def _long_problems(name: str, util: Util, word: str, ahead: list[str]) -> Iterator[str]:
    option, given, _value = word[2:].partition("=")
    if f"{option}[=" in util.long or (option in util.long and not given):
        return
    if f"{option}=" not in util.long:
        yield f"the option {quoted(word)} of {name} may not be used here"
    elif not given and not ahead:
        yield f"the option {quoted(word)} of {name} needs a value"
    elif not given:
        ahead.pop(0)


def _short_problems(name: str, util: Util, word: str, ahead: list[str]) -> Iterator[str]:
    """Walk a cluster such as `-rnk2`: a letter with a value takes the rest of the word, or else the next word."""
    for position, letter in enumerate(word[1:], start=2):
        if letter in util.values:
            if position == len(word):
                if not ahead:
                    yield f"the option {quoted(word)} of {name} needs a value"
                    return
                ahead.pop(0)
            return
        if letter not in util.flags:
            yield f"the option {quoted(f'-{letter}')} of {name} may not be used here"
            return


@tool
def unix_utils(
    host: Host,
    util: Annotated[str, f"one of {', '.join(UTILS)}"],
    args: Annotated[list[str] | None, "its options and operands; paths are relative to the workspace"] = None,
) -> list[dict[str, Any]]:
    """Run a utility that reads files and prints, such as wc, sort or diff, in the workspace.

    The first block is what it printed. A second has the exit code, if it is not 0, and the standard error.
    Options that write, execute or wait for more are refused, as are paths that leave the workspace. There is no input
    to read from: name files.
    """
    problem = problem_with(util, args or [])
    if problem is not None:
        raise ToolError(problem)
    try:
        done = host.run(util, args or [])
    except NotFound:
        raise ToolError(f"{util} is not installed here") from None
    return _blocks(done)


def _blocks(done: Completed) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": _shown(done.stdout)}]
    notes = [f"exit code {done.exit_code}"] if done.exit_code else []
    notes += [_shown(done.stderr).rstrip("\n")] if done.stderr else []
    return [*blocks, {"type": "text", "text": "\n".join(notes)}] if notes else blocks


def _shown(output: str | bytes) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n... ({len(text)} characters)"


@unix_utils.formatter
def _format(arguments: Mapping[str, Any]) -> str:
    return f"run {join([arguments['util'], *(arguments.get('args') or [])])}"
