"""Files named in texts: here-documents that a command reads, and what it writes for another command to run.

Pure. A name in a text counts where it leads to a place that a rule or byleave closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_operands import inline, takes_code
from byleave.shell.knowledge.possible_files import PossibleFile, in_code, in_commands, in_script, unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Command


def in_texts(command: Command) -> Iterator[PossibleFile]:
    """Yield what the code may name that a command reads from a here-document, or writes for another to run."""
    bodies = [item.body for item in command.redirects if item.body]
    for text in bodies:
        if takes_code(command) or command.program in _EDITORS:
            yield from inline(text)
        if command.program in _LINE_EDITORS:
            yield from _edited(text)
        if command.program in _SCRIPTED:
            yield from in_script(text)
    if command.piped_to_shell is not False and command.program in _WRITERS:
        words = [word.text for word in command.words[1:] if word.text]
        for text in dict.fromkeys([*bodies, *[made for each in [*words, " ".join(words)] for made in unescaped(each)]]):
            yield from [*in_code(text), *in_commands(text)]
            if command.piped_to_shell is True:
                yield from in_script(text)


_EDITORS = frozenset(["ed", "ex", "vi", "vim", "nvim", "sed", "awk", "gawk", "mawk"])
_LINE_EDITORS = frozenset(["ed", "ex", "vi", "vim", "nvim"])
_WRITERS = frozenset(["echo", "printf", "cat", "tee"])
# What they read is in a language in which names stand without quotes.
_SCRIPTED = frozenset(
    [
        *("make", "gmake", "at", "batch", "crontab", "tclsh", "wish", "expect"),
        *("sftp", "ftp", "lftp", "tftp", "smbclient", "cadaver", "source", ".", "m4", "dc", "gnuplot", "gs", "tmux"),
    ]
)
_ADDRESS = "0123456789,;.$%+- \t"  # in front of a command of ed
_ED_COMMANDS = ("r ", "r!", "w ", "w!", "W ", "e ", "E ", "f ", "!")


def _edited(text: str) -> Iterator[PossibleFile]:
    """Yield what the commands of a line editor name: `0r FILE`, `,w FILE`, `!COMMAND`."""
    for line in text.split("\n"):
        command = line.lstrip(_ADDRESS)
        if command.startswith(_ED_COMMANDS):
            yield from in_script(command)
