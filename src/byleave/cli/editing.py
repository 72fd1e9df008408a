"""Have the user change the arguments of a call in their own editor, before it runs."""

import json
import os
import shlex
import subprocess
import tempfile

from byleave.errors import InputError
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def edit_arguments(arguments: "dict[str, Any]") -> "dict[str, Any] | None":
    """Return the arguments as the user leaves them; None if they leave nothing. An InputError if that is no object."""
    with tempfile.TemporaryDirectory(prefix="byleave-") as directory:
        path = os.path.join(directory, "arguments.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(arguments, file, indent=2, ensure_ascii=False)
            file.write("\n")
        _edit(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    return _read(text) if text.strip() else None


def _edit(path: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), path], check=False)  # noqa: S603 -- the user's own editor
    except (OSError, ValueError):
        raise InputError(f"the editor {shown(editor)} cannot be started", hint="set EDITOR to one that can") from None
    if done.returncode != 0:
        raise InputError(
            "the editor failed, so nothing was run", hint="try again; to run nothing, leave the file empty"
        )


def _read(text: str) -> "dict[str, Any]":
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        tree = None
    if not isinstance(tree, dict):
        raise InputError("what you left is no JSON object, so nothing was run", hint="leave an object: { ... }")
    return tree
