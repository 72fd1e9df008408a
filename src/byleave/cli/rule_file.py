"""Add rules to a configuration file: the change is shown, the user consents, and what is there stays as it is.

A file that would have an error, or that has changed meanwhile, is left alone. `policy learn` and `policy import` write
here; a yes for good at a question goes to the user's own file by `guard.persist_rule`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import say
from byleave.cli.terminal import consents, may_ask, record_answers
from byleave.errors import ConfigErrors, StateError
from byleave.policy.layers import LARGEST_FILE
from byleave.text import quoted, shown
from byleave.user_files import read_all, write_private

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace

REFUSED = 1
NEEDS_CONSENT = 10


def add_to_file(
    given: ParsedArguments, workspace: Workspace, path: str, toml: str, *, about: Sequence[str], subject: str
) -> int:
    """Add `toml` to a file behind what it says already, if the user agrees; return the exit code.

    `about` are the lines that show the change, `subject` is what the record of the consent says.
    """
    before = content_of(path)
    after = with_block(before, toml)
    if not toml or after == before:
        return 0
    check_content(given, workspace, path, after)
    lines = [f"{shown(path)} would get:", *[f"  {line}".rstrip() for line in about]]
    if not given.flag("json") and not given.flag("quiet"):
        for line in lines:
            say(line)
    if not given.flag("yes") and not may_ask(given):
        return NEEDS_CONSENT
    if not consents(given, "Write this?", about=lines):
        return REFUSED
    write_content(path, before, after)
    record_answers(given, workspace, [subject])
    return 0


def check_content(given: ParsedArguments, workspace: Workspace, path: str, content: bytes) -> None:
    """Raise a StateError if a file with this content could not be used."""
    try:
        workspace.try_user_file(content, given.one("session") or "default")
    except ConfigErrors as error:
        raise StateError(f"{quoted(path)} would have an error: {error}", hint="add the rules by hand") from None


def write_content(path: str, before: bytes, after: bytes) -> None:
    """Replace a file as a whole, if it still is what it was when the change was shown."""
    if content_of(path) != before:
        raise StateError(f"{quoted(path)} has changed meanwhile", hint="try again")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_private(os.path.realpath(path), after)
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be written: {error.strerror}", hint="write elsewhere") from None


def with_block(content: bytes, text: str) -> bytes:
    """Return a configuration file with more tables behind all others; those that it has already are not added."""
    added = text.encode()
    if content.startswith(added) or b"\n" + added in content:
        return content
    if content and not content.endswith(b"\n"):
        content += b"\n"
    return content + (b"\n" if content else b"") + added


def content_of(path: str) -> bytes:
    """Return what a file says, nothing if it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be read: {error.strerror}", hint="write elsewhere") from None
    try:
        return read_all(descriptor, LARGEST_FILE)
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be read: {error.strerror}", hint="write elsewhere") from None
    finally:
        os.close(descriptor)
