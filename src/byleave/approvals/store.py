"""`approvals.json`: what this user has agreed to in this workspace.

    {"mounts":        [{"rule_path", "canonical_target", "approved_at"}],
     "project_files": [{"path", "sha256", "scripts": {name: sha256}, "approved_at"}]}

Written whole or not at all, under a lock, so that two writers lose nothing. A damaged file counts as empty, is kept
beside the new one, and is warned about: forgetting a yes is safe.
"""

import os

from byleave.approvals.fingerprint import Fingerprint
from byleave.errors import StateError
from byleave.private import Lock, Memory, make_private_directory, read_private, write_private
from byleave.text import quoted, sentence_list, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Tree = dict[str, Any]

LARGEST = 16 << 20
_KINDS = ("mounts", "project_files")


class Approvals:
    """The approvals of one workspace, in its private directory."""

    def __init__(self, directory: str, memory: Memory) -> None:
        self._directory = directory
        self._memory = memory
        self._path = os.path.join(directory, "approvals.json")
        self._read: Tree | None = None
        self.warnings: list[str] = []

    def refresh(self) -> None:
        """Look at the file again at the next question: somebody may have changed their mind."""
        self._read = None
        self.warnings.clear()

    def approves_mount(self, rule_path: str, target: str) -> bool:
        """Whether the user agreed that this path of the workspace may lead to this very target."""
        return any(
            entry.get("rule_path") == rule_path and entry.get("canonical_target") == target
            for entry in self._entries("mounts")
        )

    def trusts(self, print_: Fingerprint) -> bool:
        """Whether the user trusted exactly this content of this file, and of the scripts it starts."""
        scripts = dict(print_.scripts)
        return not print_.unread and any(
            entry.get("scripts", {}) == scripts for entry in self._yeses(print_.file, print_.sha256)
        )

    def knows(self, file: str, sha256: str) -> bool:
        """Whether the user ever trusted this content of this file, whatever its scripts were."""
        return any(True for _ in self._yeses(file, sha256))

    def trust(self, print_: Fingerprint, *, now: str) -> None:
        """Remember that the user trusts this file as it is; an earlier yes to the same file is replaced."""
        if print_.unread:
            raise StateError(
                f"{quoted(print_.file)} cannot be trusted: its tools run {sentence_list(print_.unread)}, "
                "which cannot be read whole",
                hint="make it a readable file of moderate size, or keep the program outside the workspace",
            )
        entry = {
            "path": print_.file,
            "sha256": print_.sha256,
            "scripts": dict(print_.scripts),
            "approved_at": now,
        }
        self._change(lambda tree: _without(tree, print_.file) | {"project_files": [*_others(tree, print_.file), entry]})

    def untrust(self, file: str) -> bool:
        """Forget the trust in a file, and say whether there was any."""
        known = any(entry.get("path") == file for entry in self._entries("project_files"))
        self._change(lambda tree: _without(tree, file))
        return known

    def _yeses(self, file: str, sha256: str) -> "Iterator[Tree]":
        for entry in self._entries("project_files"):
            if entry.get("path") == file and entry.get("sha256") == sha256:
                yield entry

    def _entries(self, kind: str) -> "list[Tree]":
        if self._read is None:
            self._read = self._load()
        return [entry for entry in self._read[kind] if isinstance(entry, dict)]

    def _load(self) -> "Tree":
        content = read_private(self._path, limit=LARGEST)
        if content is None:
            return _nothing()
        tree = self._memory.recall(self._path, content, _parse)
        if tree is None:
            self.warnings.append(
                f"{shown(self._path)} is damaged: nothing counts as approved until you approve it again"
            )
            return _nothing()
        return tree

    def _change(self, change: "Callable[[Tree], Tree]") -> None:
        import json

        make_private_directory(self._directory)
        try:
            with Lock(os.path.join(self._directory, "approvals.lock")):
                self._keep_damaged()
                changed = change(self._load())
                write_private(self._path, json.dumps(changed, indent=2, ensure_ascii=True).encode() + b"\n")
        except OSError as error:
            raise StateError(
                f"{quoted(self._path)} cannot be written: {error.strerror}", hint="nothing was changed; make room there"
            ) from None
        self._read = None

    def _keep_damaged(self) -> None:
        """Put a file we cannot read aside before it is replaced."""
        content = read_private(self._path, limit=LARGEST)
        if content is not None and _parse(content) is None:
            os.replace(self._path, f"{self._path}.damaged")


def _parse(content: bytes) -> "Tree | None":
    """Return the tree of a well-formed file with every kind of approval present; None if it is damaged."""
    import json

    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict) or not all(isinstance(tree.get(kind, []), list) for kind in _KINDS):
        return None
    return {**_nothing(), **tree}


def _nothing() -> "Tree":
    return {kind: [] for kind in _KINDS}


def _others(tree: "Tree", file: str) -> "list[Tree]":
    return [entry for entry in tree["project_files"] if not isinstance(entry, dict) or entry.get("path") != file]


def _without(tree: "Tree", file: str) -> "Tree":
    return {**tree, "project_files": _others(tree, file)}
