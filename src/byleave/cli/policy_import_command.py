"""`byleave policy import`: the permissions that another program has in its own settings, as rules of byleave."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import say, say_json
from byleave.cli.rule_file import add_to_file
from byleave.cli.workspace import open_workspace, working_directory
from byleave.errors import InputError
from byleave.policy.import_permissions import import_files, import_permissions
from byleave.policy.imported_text import lost_comments
from byleave.text import quoted, shown_lines

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.imported_text import ImportedPermissions


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
    code = 0
    if target is not None:
        if found.unreadable:
            raise InputError(found.unreadable[0], hint="mend it, or name the files to import")
        path = os.path.join(working_directory(), target)
        subject = f"import of {found.carried} rules into {path}"
        code = add_to_file(given, workspace, path, found.toml, subject=subject, notes=_lost(found))
    if given.flag("json"):
        say_json(found.tree)
    elif target is None:
        for line in _lines(found):
            say(line)
    return code


def _lines(found: ImportedPermissions) -> list[str]:
    """Return a file with comments: what is lost stands at its end."""
    lines = shown_lines(found.toml.rstrip("\n")).split("\n") if found.toml else ["# Nothing is carried over."]
    return [*lines, *_lost(found)]


def _lost(found: ImportedPermissions) -> list[str]:
    """Return comments that say what is lost. They are shown, and not written."""
    return ["", "# Not carried over, or not exactly:", *lost_comments(found.lost)] if found.lost else []
