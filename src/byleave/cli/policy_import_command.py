"""`byleave policy import`: the permissions that another program has in its own settings, as rules of byleave."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import say, say_json
from byleave.cli.terminal import consents, may_ask, record_answers
from byleave.cli.workspace import open_workspace, working_directory
from byleave.errors import ConfigErrors, InputError, StateError
from byleave.policy.import_permissions import import_files, import_permissions
from byleave.policy.imported_text import lost_comments
from byleave.policy.layers import LARGEST_FILE
from byleave.text import quoted, shown, shown_lines
from byleave.user_files import read_all, write_private

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.imported_text import ImportedPermissions
    from byleave.policy.load import Workspace

REFUSED = 1
NEEDS_CONSENT = 10


def run(given: ParsedArguments) -> int:
    """Print the rules, and what is lost; with --write, add them to a file."""
    workspace = open_workspace(given)
    agent = given.words["FORMAT"]
    files = [given.words["FILE"], *given.rest] if "FILE" in given.words else []
    for file in files:
        if not os.path.lexists(os.path.join(working_directory(), file)):
            raise InputError(f"there is no file {quoted(file)}", hint="name settings of the agent, or none")
    root = workspace.root.path
    found = import_files(agent, files, root) if files else import_permissions(agent, workspace.homes.user, root)
    if files and found.unreadable:
        raise InputError(found.unreadable[0], hint="mend it, or leave it out")
    target = given.one("write")
    code = 0 if target is None else _write(given, workspace, found, os.path.join(working_directory(), target))
    if given.flag("json"):
        say_json(found.tree)
    elif target is None:
        for line in _lines(found):
            say(line)
    return code


def _lines(found: ImportedPermissions) -> list[str]:
    """Return a file with comments: what is lost stands at its end."""
    lines = shown_lines(found.toml.rstrip("\n")).split("\n") if found.toml else ["# Nothing is carried over."]
    if found.lost:
        lines += ["", "# Not carried over, or not exactly:", *lost_comments(found.lost)]
    return lines


def _write(given: ParsedArguments, workspace: Workspace, found: ImportedPermissions, path: str) -> int:
    """Add the rules to a file behind what it says already, if the user agrees."""
    if found.unreadable:
        raise InputError(found.unreadable[0], hint="mend it, or name the files to import")
    before = _content(path)
    after = with_block(before, found.toml)
    if not found.toml or after == before:
        return 0
    try:
        workspace.try_user_file(after, given.one("session") or "default")
    except ConfigErrors as error:
        raise StateError(f"{quoted(path)} would have an error: {error}", hint="add the rules by hand") from None
    lines = [f"{shown(path)} would get:", *[f"  {line}" for line in _lines(found)]]
    if not given.flag("json") and not given.flag("quiet"):
        for line in lines:
            say(line)
    if not given.flag("yes") and not may_ask(given):
        return NEEDS_CONSENT
    if not consents(given, "Write this?", about=lines):
        return REFUSED
    if _content(path) != before:
        raise StateError(f"{quoted(path)} has changed meanwhile", hint="try again")
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_private(os.path.realpath(path), after)
    except OSError as error:
        raise StateError(f"{quoted(path)} cannot be written: {error.strerror}", hint="write elsewhere") from None
    record_answers(given, workspace, [f"import of {found.carried} rules into {path}"])
    return 0


def with_block(content: bytes, text: str) -> bytes:
    """Return a configuration file with more tables behind all others; those that it has already are not added."""
    added = text.encode()
    if added in content:
        return content
    if content and not content.endswith(b"\n"):
        content += b"\n"
    return content + (b"\n" if content else b"") + added


def _content(path: str) -> bytes:
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
