"""The text of a changed call: what an agent runs in the place of a command that is to run confined. Pure.

It starts `byleave run --ticket`; the command itself stands in it for eyes only, quoted. Where the agent follows the
working directory of its shell, the shell changes to the directory in which the command ended, as it would have.

Start at `ticketed_text`. `ticket_in` finds the ticket in such a text again, for an integration that meets the text of
another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.translate.shell_text import quote_word, quote_words

if TYPE_CHECKING:
    from collections.abc import Sequence

# One argument of a program has at most 128 KiB, and the agent quotes the whole text once more.
LONGEST = 100_000
_TICKET = " run --ticket "
_ID_LENGTH = 32
_LETTERS = frozenset("0123456789abcdef")


def fits(text: str) -> bool:
    """Whether a command can be quoted in a changed call: it is text for the system, and not too long."""
    try:
        size = len(quote_word(quote_word(text)).encode())
    except UnicodeEncodeError:  # half of a character: the agent's own shell would get another text
        return False
    return size <= LONGEST and "\0" not in text


def ticketed_text(
    start: Sequence[str], ticket: str, options: Sequence[str], text: str, *, cwd_file: str | None = None
) -> str:
    """Return what starts the confined run of `text`; `start` are the words that start byleave.

    With `cwd_file`, the shell goes where the command went, if it succeeded: then only do agents look where that is.
    The exit code is the command's, and no variable is set.
    """
    more = [*options, *(("--cwd-file", cwd_file) if cwd_file is not None else ())]
    run = f"{quote_words(start)}{_TICKET}{ticket} {quote_words(more)} --shell={quote_word(text)}"
    if cwd_file is None:
        return run
    return f'{run} && {{ \\builtin cd -- "$(<{quote_word(cwd_file)})" 2>/dev/null || \\builtin true; }}'


def ticket_in(text: str) -> str | None:
    """Return the ticket that a text of this form carries, None for any other text."""
    head, found, rest = text.partition(_TICKET)
    ticket = rest[:_ID_LENGTH]
    if not found or "\n" in head or len(ticket) < _ID_LENGTH or not _LETTERS.issuperset(ticket):
        return None
    return ticket if rest[_ID_LENGTH : _ID_LENGTH + 2] == " -" else None
