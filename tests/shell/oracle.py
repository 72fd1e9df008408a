"""Ask the real bash, dash or zsh what a text runs, and compare it with what the reader says.

A shell runs in an empty directory of its own, as nobody where we are root, with limits and a timeout, and with the
harmful builtins switched off. Every command that is not a builtin ends in a handler that logs its directory and words;
dash has no such handler, and finds programs of the generator's names instead that do the same. `safe_to_run` keeps
redirections inside the directory.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from byleave.record import Record
from byleave.shell.model import Command, Reading
from byleave.shell.reader import read_command
from byleave.shell.syntax import cursor
from byleave.shell.syntax.tree import Word
from byleave.shell.syntax.vocabulary import BUILTIN_NAMES
from shell.generator import NAMES

BASH = shutil.which("bash") or ""
DASH = shutil.which("dash") or ""
ZSH = shutil.which("zsh") or ""
DISABLED = ("kill", "exec", "suspend", "ulimit", "fc", "history", "disown", "bg", "fg", "logout", "enable")
KEYWORDS = ("time", "coproc", "select", "function")
ENABLED = BUILTIN_NAMES.difference(DISABLED, KEYWORDS)
PRELUDE = "unset BASH_ENV\nulimit -t 2 -f 64 -v 400000\nenable -n " + " ".join(DISABLED) + "\n"
HANDLER = """() { local IFS=' '
 builtin printf '%s\\0' "$#" "$@" "$PWD" "${V1-}" "${V2-}" > {log}/$EPOCHREALTIME.$BASHPID
 case $1 in f*) return 1;; esac; }"""
ZSH_PRELUDE = """unset ZDOTDIR
ulimit -t 2; ulimit -f 64
zmodload zsh/datetime zsh/system
disable kill exec suspend ulimit limit fc history bg fg logout enable disable zmodload
command_not_found_handler() { emulate -L zsh
 builtin printf '%s\\0' "$#" "$@" "$PWD" UNTOLD UNTOLD > {log}/$EPOCHREALTIME.$sysparams[pid]
 case $1 in f*) return 1;; esac; }
"""
# A program of every name that texts use, for dash.
PROGRAM = """#!/bin/sh
printf '%s\\0' "$(($# + 1))" "${0##*/}" "$@" "$PWD" "${V1-}" "${V2-}" > {log}/$$
case ${0##*/} in f*) exit 1;; esac
"""
SYNTAX = re.compile(r"syntax error near|syntax error: unexpected end|unexpected EOF|bad substitution")
# Values that run c9 wherever bash evaluates them instead of taking them as they are.
HOSTILE = (
    "a[$(c9)]",
    "-v a[$(c9)]",
    "-v a[$(c9)] -o 1",
    "$(c9)",
    "`c9`",
    "; c9",
    "-p a[$(c9)]",
    "1 + a[$(c9)]",
    "x[$(c9)]=1",
    "%n",
)
HARMFUL = frozenset(["kill", "suspend", "exec", "disable", "enable", "fc"])  # builtins that dash cannot do without
WORD = re.compile(r"\w+")
DIRECTORIES = ("d", "d/d", "e")
RANGE = re.compile(r"(?<=\w)\.\.(?=\w)")
SLASH = re.compile(r"(?<![\w$}{'\"\\./~=:-])[de]/(?=\w)")


class Ran(Record):
    """One command bash ran."""

    argv: tuple[str, ...]
    cwd: str
    v1: str
    v2: str


class Outcome(Record):
    """What one run showed."""

    ran: tuple[Ran, ...]
    stderr: str
    files: tuple[str, ...]
    finished: bool


def safe_to_run(text: str) -> bool:
    """Whether a text can reach nothing outside the directory it runs in."""
    return "/" not in SLASH.sub("", text) and ".." not in RANGE.sub("", text) and "<&" not in text


class Box:
    """A directory in which a shell runs one text after the other."""

    def __init__(self, path: str, dialect: str = cursor.BASH) -> None:
        self.path = path
        self.dialect = dialect
        self.programs = os.path.join(path, "programs")
        self.work = os.path.join(path, "work0")
        self._runs = 0
        self.log = os.path.join(path, "log")
        self.prelude = os.path.join(path, "prelude")
        with open(self.prelude, "w") as file:
            file.write(PRELUDE)
        self._add_programs()
        self.nobody = 65534 if os.getuid() == 0 else None
        os.chmod(path, 0o755)  # noqa: S103 -- nobody has to reach the directory inside

    def _add_programs(self) -> None:
        """Make what the prelude of zsh and the PATH of dash need."""
        os.mkdir(self.programs)
        with open(os.path.join(self.programs, ".zshenv"), "w") as file:
            file.write(ZSH_PRELUDE.replace("{log}", self.log))
        for name in NAMES:
            program = os.path.join(self.programs, name)
            with open(program, "w") as file:
                file.write(PROGRAM.replace("{log}", self.log))
            os.chmod(program, 0o755)  # noqa: S103 -- nobody has to run it

    def _command(self) -> list[str]:
        if self.dialect == cursor.POSIX:
            return [DASH, "-c"]
        return [ZSH, "-d", "-c", "--"] if self.dialect == cursor.ZSH else [BASH, "--norc", "--noprofile", "-c", "--"]

    def run(self, text: str, value: str | None = None) -> Outcome:
        """Run a text; with a value for the variables and arguments it may use."""
        assert safe_to_run(text), text
        environment = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": self.work}
        if self.dialect == cursor.POSIX:
            environment["PATH"] = self.programs
        elif self.dialect == cursor.ZSH:
            environment["ZDOTDIR"] = self.programs
        else:
            environment["BASH_ENV"] = self.prelude
            environment["BASH_FUNC_command_not_found_handle%%"] = HANDLER.replace("{log}", self.log)
        if value is not None:
            environment.update(dict.fromkeys(("x", "y", "i", "n", "UNSET"), value))
        arguments = ["p1", "p 2"] if value is None else [value, value]
        process = subprocess.Popen(
            [*self._command(), text, "bash", *arguments],
            cwd=self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            user=self.nobody,
            group=self.nobody,
        )
        finished = True
        try:
            stderr = process.communicate(timeout=4)[1]
        except subprocess.TimeoutExpired:
            finished = False
            os.killpg(process.pid, signal.SIGKILL)
            stderr = process.communicate()[1]
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left in the background
        return Outcome(self._logged(), stderr.decode(errors="replace"), self._files(), finished)

    def fresh(self) -> None:
        """Begin in another empty directory."""
        self._runs += 1
        self.work = os.path.join(self.path, f"work{self._runs % 2}")
        for _ in range(50):
            shutil.rmtree(self.work, ignore_errors=True)
            if not os.path.exists(self.work):
                break
            time.sleep(0.02)
        for directory in ("", *DIRECTORIES):
            os.mkdir(os.path.join(self.work, directory))
            if self.nobody is not None:
                os.chown(os.path.join(self.work, directory), self.nobody, self.nobody)
        shutil.rmtree(self.log, ignore_errors=True)
        os.mkdir(self.log)
        os.chmod(self.log, 0o777)  # noqa: S103 -- nobody writes there, one file per command

    def _logged(self) -> tuple[Ran, ...]:
        ran: list[Ran] = []
        for name in sorted(os.listdir(self.log)):
            with open(os.path.join(self.log, name), "rb") as file:
                fields = [part.decode(errors="surrogateescape") for part in file.read().split(b"\0")]
            count = int(fields[0] or -1)
            if len(fields) == count + 5:  # else it was cut short when the run ended
                ran.append(Ran(tuple(fields[1 : count + 1]), *fields[count + 1 : count + 4]))
        return tuple(ran)

    def _files(self) -> tuple[str, ...]:
        found: list[str] = []
        for base, _, names in os.walk(self.work):
            found.extend(os.path.join(base, name) for name in names)
        return tuple(found)


@contextmanager
def box(dialect: str = cursor.BASH) -> Iterator[Box]:
    with tempfile.TemporaryDirectory(prefix="byleave-fuzz-") as path:
        yield Box(path, dialect)


def difference(text: str, where: Box, value: str | None = None) -> str | None:
    """Return in what bash and the reader differ; None if they agree or the reader did not understand.

    `value` is what variables and arguments hold that the text does not set itself.
    """
    if not safe_to_run(text):
        return None
    where.fresh()
    reading = read_command(text, cwd=where.work, dialect=where.dialect)
    if not reading.understood or (where.dialect != cursor.BASH and not HARMFUL.isdisjoint(WORD.findall(text))):
        return None
    return compare(reading, where.run(text, value), exact=where.dialect == cursor.BASH)


def compare(reading: Reading, outcome: Outcome, *, exact: bool = True) -> str | None:
    """Return what a shell did that the reader did not say; with `exact` also what it said in vain."""
    if not outcome.finished:
        return None
    if exact and SYNTAX.search(outcome.stderr):
        return f"bash says: {outcome.stderr.strip()}"
    times = [command for command in reading.commands if command.name == "time"]
    expected = [
        command for command in reading.commands if command.words and (not exact or _run_by_bash(command, times))
    ]
    for ran in outcome.ran:
        if not any(_may_run_words(command) for command in expected) and not any(
            _explains(command, ran) for command in expected
        ):
            return f"bash ran {list(ran.argv)} in {ran.cwd}, the reader said {[c.argv for c in expected]}"
    for file in outcome.files:
        if not any(_may_write(command, file) for command in reading.commands):
            return f"bash wrote {file}, the reader said {[c.redirects for c in reading.commands]}"
    if exact and _straight(reading) and not outcome.stderr.replace("\n", ""):
        return _same_order(expected, outcome.ran)
    return None


def _same_order(expected: list[Command], ran: tuple[Ran, ...]) -> str | None:
    """Straight-line code: what bash ran is what was said, one after the other."""
    if any(command.name is None for command in expected):
        return None
    shown = f"bash ran {[list(item.argv) for item in ran]}, the reader said {[c.argv for c in expected]}"
    if len(expected) != len(ran):
        return shown
    return None if all(_explains(*pair) for pair in zip(expected, ran, strict=True)) else shown


def _straight(reading: Reading) -> bool:
    """Whether every listed command is sure to run, once, in the order of the list."""
    text = reading.text
    if re.search(r"[|&(){}`<]|\b(if|for|while|until|case|set|eval|exit|return|trap)\b|\$\{?\w*\??:?\?", text):
        return False
    return all(not redirect.operator.startswith("<") for c in reading.commands for redirect in c.redirects)


def _may_run_words(command: Command) -> bool:
    """Whether a name known only at run time may turn out to be `eval` or the like, which run what stands behind it."""
    names = ("eval", "trap", "command", "builtin", "source", ".")
    first = command.words[0]
    if first.text is not None:
        return False
    if any(word.text in names for word in command.words[1:]):
        return first.many  # it may be no word at all
    return first.prefix != "" and any(name.startswith(first.prefix) for name in names)


def _run_by_bash(command: Command, times: list[Command]) -> bool:
    if not command.words:
        return False
    external = any(item.start < command.start and command.end <= item.end for item in times)
    inside = ("eval", "command", "builtin", "trap", "" if external else "time")
    if any(via.name not in inside for via in command.via):
        return False
    name = command.name
    return name is None or (name not in ENABLED and "/" not in name)


def _explains(command: Command, ran: Ran) -> bool:
    if not _matches(command.words, ran.argv):
        return False
    if command.base is not None and ran.cwd not in [os.path.normpath(place) for place in command.base]:
        return False
    values = {name: value for name, value in (("V1", ran.v1), ("V2", ran.v2)) if value != "UNTOLD"}
    last = {assignment.name: assignment for assignment in command.assignments}
    return all(
        assignment.value is None or assignment.append or values.get(name, assignment.value) == assignment.value
        for name, assignment in last.items()
    )


def _matches(words: tuple[Word, ...], argv: tuple[str, ...]) -> bool:
    """Whether the words as read can become the words bash ran. Dynamic programming over positions."""
    reachable = {0}
    for word in words:
        following: set[int] = set()
        for at in reachable:
            if word.text is not None:
                if argv[at : at + 1] == (word.text,):
                    following.add(at + 1)
            elif not word.many:
                if at < len(argv) and _starts(word, argv[at]):
                    following.add(at + 1)
            else:
                following.update(_several(word, argv, at))
        reachable = following
    return len(argv) in reachable


def _several(word: Word, argv: tuple[str, ...], at: int) -> Iterator[int]:
    yield at
    for end in range(at + 1, len(argv) + 1):
        if word.splits:
            if end == at + 1 and not argv[at].startswith(word.prefix):
                return
        elif not _starts(word, argv[end - 1]):
            return
        yield end


def _starts(word: Word, text: str) -> bool:
    return word.prefix.startswith("~") or text.startswith(word.prefix) or "~" in word.prefix


def _may_write(command: Command, file: str) -> bool:
    for redirect in command.redirects:
        if not redirect.writes:
            continue
        if redirect.target is None or command.base is None:
            return True
        if any(os.path.normpath(os.path.join(place, redirect.target)) == file for place in command.base):
            return True
    return False
