"""Run an in-tree tool in both runtimes, mediated in the harness and plain in a process, and hold them to one result."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from byleave.sdk.testing import Harness
from byleave.sdk.vfs import Completed
from byleave.toolhost.outcome import outcome_tree
from byleave.toolhost.process import ProcessOutput
from byleave.toolhost.stdio_runtime import read_output
from byleave.tools import load
from byleave.tools.unix_utils import UTILS

Files = dict[str, str | bytes]
Rules = list[dict[str, Any]]
EVERYTHING = [{"path": ".", "read": True, "write": True, "execute": True}]


class Done(NamedTuple):
    """What came of a call, and the files there are then."""

    tree: dict[str, Any]
    files: Files

    @property
    def texts(self) -> list[str]:
        """The texts of the result."""
        return [block["text"] for block in self.tree["content"]]

    @property
    def message(self) -> str:
        """Why it failed."""
        assert self.tree["outcome"] == "error", self.tree
        return str(self.tree["message"])


def run_both(
    place: Path,
    name: str,
    arguments: Mapping[str, Any],
    files: Files | None = None,
    *,
    rules: Rules | None = None,
    action: str = "run",
) -> Done:
    """Return what came of it in both runtimes; `rules` are the tool's file rules."""
    plain = run_plain(place, name, arguments, files or {}, rules=rules, action=action)
    mediated = run_mediated(place, name, arguments, files or {}, rules=rules, action=action)
    assert plain == mediated
    return mediated


def run_mediated(
    place: Path, name: str, arguments: Mapping[str, Any], files: Files, *, rules: Rules | None, action: str
) -> Done:
    """Run it in the harness. Programs are real, and run over a copy of the files."""

    def program(util: str) -> Any:
        def run(args: list[str]) -> Completed:
            lay_out(place / "copy", files)
            env = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
            done = subprocess.run([util, *args], cwd=place / "copy", capture_output=True, check=False, env=env)
            return Completed(done.stdout, done.stderr, done.returncode)

        return run

    access: dict[str, Any] = {"fs": rules or EVERYTHING, "commands": {util: {} for util in UTILS}}
    harness = Harness(files, access=access, programs={util: program(util) for util in UTILS})
    tree = harness.call(load(name), arguments, action=action).tree
    return Done(tree, harness.files)


def run_plain(
    place: Path, name: str, arguments: Mapping[str, Any], files: Files, *, rules: Rules | None, action: str
) -> Done:
    """Run it as a process that is told everything at once."""
    root = place / "plain"
    lay_out(root, files)
    context = {"root": str(root), "action": action, "access": None if rules is None else {"fs": rules}}
    call = {"context": context, "tool": {"name": name, "arguments": arguments, "answers": {}, "options": {}}}
    done = subprocess.run(
        [sys.executable, "-m", "byleave.tools", name],
        input=json.dumps(call).encode() + b"\n",
        capture_output=True,
        check=False,
        timeout=60,
        cwd="/",
    )
    assert done.stderr == b"", done.stderr.decode()
    return Done(outcome_tree(read_output(ProcessOutput(done.stdout, done.stderr, done.returncode))), taken_in(root))


def lay_out(root: Path, files: Files) -> None:
    """Write files below a directory."""
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def taken_in(root: Path) -> Files:
    """Return the files below a directory."""
    found: Files = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            try:
                found[str(path.relative_to(root))] = data.decode()
            except UnicodeDecodeError:
                found[str(path.relative_to(root))] = data
    return found
