"""The definitions of tools as they were when they were first used, or last approved: one file for each MCP server.

    tool_definitions/SERVER.json
    {"server", "tools": {NAME: {"sha256", "definition", "status", "created", "decided_at"?,
                                "changed"?: {"sha256", "definition", "status", "created", "decided_at"?}}}}

`definition` is the canonical JSON that was hashed. `changed` is what the server says of the tool by now: there is one
for each tool at most, however often it changes. These files are apart from `approvals.json` because every start reads
that one, and apart from each other so that no server can keep another's tools from being recorded.

Here forgetting is not safe: what is not known is taken as it comes. So a damaged file is an error, not an empty one.
"""

import json
import os

from byleave.approvals.kept import rewrite, stamp_of
from byleave.errors import StateError
from byleave.private import digest, read_private
from byleave.record import Record
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Tree = dict[str, Any]

DIRECTORY = "tool_definitions"
LARGEST = 32 << 20  # bytes of the file of one server
MOST_TOOLS = 20_000  # of one server; further ones are not recorded
PENDING, APPROVED, REVOKED = "pending", "approved", "revoked"
_ENDING = ".json"
_LONGEST_NAME = 100  # characters of a server's name that become a file's
_FIELDS = ("sha256", "definition", "status", "created")


class Definition(Record):
    """What a server says of one tool: the canonical text, and its hash."""

    tool: str
    sha256: str
    text: str


class Known(Record):
    """A definition that was recorded, and what became of it."""

    sha256: str
    text: str
    status: str
    created: str
    decided_at: str = ""  # when a person has answered, if one has


class Pin(Record):
    """The definition of a tool that counts, and the one that would take its place."""

    known: Known
    changed: Known | None = None


class Definitions:
    """The tool definitions of one workspace, in its private directory."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, DIRECTORY)

    def of(self, server: str) -> dict[str, Pin]:
        """Return what is recorded of a server's tools, by name; a StateError if that cannot be known."""
        tree = self._load(server)
        return {name: _pin(entry) for name, entry in tree["tools"].items()}

    def stamp(self, server: str) -> tuple[int, ...]:
        """Return what changes whenever something about this server's tools does."""
        return stamp_of(self._path(server))

    def record(self, server: str, seen: "Sequence[Definition]", *, now: str) -> None:
        """Record what was seen, in one write: a new tool is approved, a changed one waits.

        What another process has recorded meanwhile counts as known.
        """

        def add(tree: "Tree") -> bool:
            return sum([_noted(tree["tools"], each, now) for each in seen]) > 0

        self._change(server, add)

    def settle(self, server: str, tool: str, sha256: str, *, status: str, now: str) -> bool:
        """Approve or revoke exactly this definition of a tool, and say whether it is recorded."""
        settled: list[bool] = []

        def settle(tree: "Tree") -> bool:
            entry = tree["tools"].get(tool)
            settled.append(entry is not None and _settle(entry, sha256, status, now))
            return settled[0]

        self._change(server, settle)
        return settled[0]

    def all(self, warnings: "list[str]") -> "Iterator[tuple[str, str, Known, Known | None]]":
        """Yield every recorded definition with its server, its tool and, for a changed one, what it was before.

        A file that cannot be read is warned about.
        """
        for path in self._files():
            try:
                tree = _read(path) or {"server": "", "tools": {}}
            except StateError as error:
                warnings.append(str(error))
                continue
            for tool, entry in tree["tools"].items():
                pin = _pin(entry)
                yield tree["server"], tool, pin.known, None
                if pin.changed is not None:
                    yield tree["server"], tool, pin.changed, pin.known

    def _files(self) -> list[str]:
        try:
            names = sorted(os.listdir(self._directory))
        except OSError:
            return []
        return [os.path.join(self._directory, name) for name in names if name.endswith(_ENDING) and name[0] != "."]

    def _change(self, server: str, change: "Any") -> None:
        def changed() -> bytes | None:
            tree = self._load(server)
            return json.dumps(tree, indent=1).encode() + b"\n" if change(tree) else None

        path = self._path(server)
        rewrite(path, f"{os.path.basename(path).removesuffix(_ENDING)}.lock", changed, limit=LARGEST)

    def _load(self, server: str) -> "Tree":
        path = self._path(server)
        tree = _read(path)
        if tree is None:
            return {"server": server, "tools": {}}
        if tree["server"] != server:
            raise _damaged(path)
        return tree

    def _path(self, server: str) -> str:
        plain = server.isascii() and server.replace("-", "").replace("_", "").isalnum()
        name = server if plain and len(server) <= _LONGEST_NAME else digest(server.encode("utf-8", "surrogatepass"))
        return os.path.join(self._directory, f"{name}{_ENDING}")


def _noted(tools: "Tree", seen: Definition, now: str) -> bool:
    """Note one definition, and say whether that changed anything."""
    entry = tools.get(seen.tool)
    fresh = {"sha256": seen.sha256, "definition": seen.text, "created": now}
    if entry is None:
        if len(tools) >= MOST_TOOLS:
            return False
        tools[seen.tool] = {**fresh, "status": APPROVED}
        return True
    if seen.sha256 in (entry["sha256"], entry.get("changed", {}).get("sha256")):
        return False
    entry["changed"] = {**fresh, "status": PENDING}
    return True


def _settle(entry: "Tree", sha256: str, status: str, now: str) -> bool:
    """Answer about one of the two definitions of a tool; an approved change becomes the one that counts."""
    if entry["sha256"] == sha256:
        entry.update(status=status, decided_at=now)
        return True
    changed = entry.get("changed")
    if changed is None or changed["sha256"] != sha256:
        return False
    changed.update(status=status, decided_at=now)
    if status == APPROVED:
        entry.clear()
        entry.update(changed)
    return True


def _read(path: str) -> "Tree | None":
    """Return the tree of a file, None if there is none; a StateError if it is damaged."""
    content = read_private(path, limit=LARGEST)
    if content is None:
        return None
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not (isinstance(tree, dict) and isinstance(tree.get("server"), str) and _are_entries(tree.get("tools"))):
        raise _damaged(path)
    return tree


def _are_entries(tools: object) -> bool:
    return isinstance(tools, dict) and all(_is_known(entry) and _is_change(entry) for entry in tools.values())


def _is_known(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(field), str) for field in _FIELDS)


def _is_change(entry: "Tree") -> bool:
    return "changed" not in entry or _is_known(entry["changed"])


def _pin(entry: "Tree") -> Pin:
    return Pin(_known(entry), _known(entry["changed"]) if "changed" in entry else None)


def _known(entry: "Tree") -> Known:
    return Known(
        entry["sha256"], entry["definition"], entry["status"], entry["created"], str(entry.get("decided_at", ""))
    )


def _damaged(path: str) -> StateError:
    hint = f"move {shown(path)} away; the tools of that server are then recorded anew, as they are"
    return StateError(f"{quoted(path)} is damaged: no tool definition in it can be relied on", hint=hint)
