"""What MCP servers say of themselves, as it was when it was first used or last approved: one file for each server.

    tool_definitions/SERVER.json
    {"server", "listed": [SECTION, ...],
     "tools": {NAME: {"sha256", "definition", "status", "created", "form"?, "decided_at"?, "changed"?: {the same}}},
     "prompts": {...}, "templates": {...}, "instructions": {...}}

`definition` is the canonical JSON that was hashed. `changed` is what the server says of it by now: there is one for
each at most, however often it changes. `listed` names the sections that the server has listed before, were they empty.
These files are apart from `approvals.json` because every start reads that one, and apart from each other so that no
server can keep another's tools from being recorded.

`form` says which members a definition holds. Form 1, which older versions wrote, has six members of a tool; form 2 has
everything that clients are shown. A definition of form 1 is compared by those six, and becomes one of form 2 then.

Here forgetting is not safe: what is not known is taken as it comes. So a damaged file is an error, not an empty one.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from byleave.errors import StateError
from byleave.text import quoted, shown
from byleave.user_files import digest, read_private, rewrite, stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    Tree = dict[str, Any]

DIRECTORY = "tool_definitions"
LARGEST = 32 << 20  # bytes of the file of one server
MOST_TOOLS = 20_000  # of one server and kind; further ones are not recorded
PENDING, APPROVED, REVOKED = "pending", "approved", "revoked"
TOOL, PROMPT, TEMPLATE, INSTRUCTIONS = "tool", "prompt", "resource_template", "instructions"
SECTIONS = {TOOL: "tools", PROMPT: "prompts", TEMPLATE: "templates", INSTRUCTIONS: "instructions"}
FORM = 2
_ENDING = ".json"
_LONGEST_NAME = 100  # characters of a server's name that become a file's
_encode = msgspec.json.Encoder().encode
_FIELDS = ("sha256", "definition", "status", "created")


class Definition(Struct, frozen=True):
    """What a server says of one tool, prompt or template: the canonical text, and its hash."""

    tool: str  # its name
    sha256: str
    text: str
    earlier: str = ""  # the hash of what form 1 pinned of it
    asks: str = ""  # why a person has to see it before its first use; empty if none has to


class RecordedDefinition(Struct, frozen=True):
    """A definition that was recorded, and what became of it."""

    sha256: str
    text: str
    status: str
    created: str
    decided_at: str = ""  # when a person has answered, if one has
    form: int = FORM

    def is_of(self, seen: Definition) -> bool:
        """Whether this is what was seen; a definition of an earlier form is compared by the members that it has."""
        return self.sha256 == seen.sha256 or self.is_earlier_of(seen)

    def is_earlier_of(self, seen: Definition) -> bool:
        """Whether this is what was seen, in an earlier form: to be recorded anew."""
        return self.form < FORM and bool(seen.earlier) and self.sha256 == seen.earlier


class Pin(Struct, frozen=True):
    """The definition that counts, and the one that would take its place."""

    known: RecordedDefinition
    changed: RecordedDefinition | None = None


class ServerDefinitions(Struct, frozen=True):
    """What is recorded of one server: the pins by kind and name, and the kinds that it has listed before."""

    pins: Mapping[str, Mapping[str, Pin]]
    listed: frozenset[str]


class Recorded(Struct, frozen=True):
    """One recorded definition, for people: whose, of which kind, and for a changed one what it was before."""

    server: str
    what: str
    name: str
    known: RecordedDefinition
    before: RecordedDefinition | None = None


class Definitions:
    """The definitions of one workspace, in its private directory."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, DIRECTORY)

    def of(self, server: str) -> ServerDefinitions:
        """Return what is recorded of a server; a StateError if that cannot be known."""
        tree = self._load(server)
        pins = {what: {name: _pin(entry) for name, entry in tree.get(at, {}).items()} for what, at in SECTIONS.items()}
        return ServerDefinitions(pins, frozenset(what for what, at in SECTIONS.items() if at in _listed(tree)))

    def stamp(self, server: str) -> tuple[int, ...]:
        """Return what changes whenever something about this server does."""
        return stamp_of(self._path(server))

    def record(
        self, server: str, seen: Sequence[Definition], *, now: str, what: str = TOOL, asks_new: bool = False
    ) -> None:
        """Record what was seen, in one write: what is new is approved, what has changed waits.

        What is new waits, too, if the definition itself asks for a person, or, with `asks_new`, if the server has
        listed its like before. What another process has recorded meanwhile counts as known.
        """
        section = SECTIONS[what]

        def add(tree: Tree) -> bool:
            entries, listed = tree.setdefault(section, {}), _listed(tree)
            waits = asks_new and section in listed
            changes = sum([_noted(entries, each, now, waits=waits) for each in seen])
            tree["listed"] = sorted({*listed, section})
            return changes > 0 or section not in listed

        self._change(server, add)

    def settle(
        self,
        server: str,
        name: str,
        sha256: str,
        *,
        status: str,
        now: str,
        what: str = TOOL,
        was: str | None = None,
    ) -> bool:
        """Approve or revoke exactly this definition, and say whether it is recorded with the status `was`, if given."""
        settled: list[bool] = []

        def settle(tree: Tree) -> bool:
            entry = tree.get(SECTIONS[what], {}).get(name)
            settled.append(entry is not None and _settle(entry, sha256, status, now, was))
            return settled[0]

        self._change(server, settle)
        return settled[0]

    def all(self, warnings: list[str]) -> Iterator[Recorded]:
        """Yield every recorded definition. A file that cannot be read is warned about."""
        for tree in self._trees(warnings):
            for what, section in SECTIONS.items():
                for name, entry in tree.get(section, {}).items():
                    pin = _pin(entry)
                    yield Recorded(tree["server"], what, name, pin.known)
                    if pin.changed is not None:
                        yield Recorded(tree["server"], what, name, pin.changed, pin.known)

    def _trees(self, warnings: list[str]) -> Iterator[Tree]:
        for path in self._files():
            try:
                yield _read(path) or {"server": ""}
            except StateError as error:
                warnings.append(str(error))

    def _files(self) -> list[str]:
        try:
            names = sorted(os.listdir(self._directory))
        except OSError:
            return []
        return [os.path.join(self._directory, name) for name in names if name.endswith(_ENDING) and name[0] != "."]

    def _change(self, server: str, change: Any) -> None:
        def changed() -> bytes | None:
            tree = self._load(server)
            return written(tree) if change(tree) else None

        path = self._path(server)
        rewrite(path, f"{os.path.basename(path).removesuffix(_ENDING)}.lock", changed, limit=LARGEST)

    def _load(self, server: str) -> Tree:
        path = self._path(server)
        tree = _read(path)
        if tree is None:
            return no_definitions(server)
        if tree["server"] != server:
            raise _damaged(path)
        return tree

    def _path(self, server: str) -> str:
        plain = server.isascii() and server.replace("-", "").replace("_", "").isalnum()
        name = server if plain and len(server) <= _LONGEST_NAME else digest(server.encode("utf-8", "surrogatepass"))
        return os.path.join(self._directory, f"{name}{_ENDING}")


def written(tree: Tree) -> bytes:
    """Return the text of a file: a line for each definition.

    Piece by piece, so that other threads have their turn while ten thousand of them are written.
    """
    lines = [f'{{"server": {json.dumps(tree["server"])}, "listed": {json.dumps(tree["listed"])}']
    for section in SECTIONS.values():
        entries = [_line(name, entry) for name, entry in tree.get(section, {}).items()]
        if entries or section == SECTIONS[TOOL]:
            lines.append(f'"{section}": {{\n' + ",\n".join(entries) + "}")
    known = {"server", "listed", *SECTIONS.values()}
    lines += [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in tree.items() if key not in known]
    return (",\n".join(lines) + "}\n").encode()


def _line(name: str, entry: Tree) -> str:
    try:
        return f" {_encode(name).decode()}: {_encode(entry).decode()}"
    except ValueError:  # half of a character
        return f" {json.dumps(name)}: {json.dumps(entry)}"


def _listed(tree: Tree) -> set[str]:
    """Return the sections that were listed before; an older version knew tools alone, and did not say."""
    said = tree.get("listed")
    return set(said) if said is not None else {SECTIONS[TOOL]}


def _noted(entries: Tree, seen: Definition, now: str, *, waits: bool) -> bool:
    """Note one definition, and say whether that changed anything. `waits`: what is new is not approved."""
    entry = entries.get(seen.tool)
    fresh = {"sha256": seen.sha256, "definition": seen.text, "created": now, "form": FORM}
    if entry is None:
        if len(entries) >= MOST_TOOLS:
            return False
        entries[seen.tool] = {**fresh, "status": PENDING if waits or seen.asks else APPROVED}
        return True
    known = [each for each in (entry, entry.get("changed")) if each is not None and _known(each).is_of(seen)]
    if known:
        return sum([_upgraded(each, seen) for each in known]) > 0
    if entry["status"] == PENDING:  # it was never approved: there is nothing to go back to
        entry.update(fresh)
    else:
        entry["changed"] = {**fresh, "status": PENDING}
    return True


def _upgraded(entry: Tree, seen: Definition) -> bool:
    """Put a definition of an earlier form into the form of today, and say whether it was one.

    What a person has answered stays. What was merely seen first waits, if it would wait today.
    """
    if not _known(entry).is_earlier_of(seen):
        return False
    entry.update(sha256=seen.sha256, definition=seen.text, form=FORM)
    if seen.asks and entry["status"] == APPROVED and not entry.get("decided_at"):
        entry["status"] = PENDING
    return True


def _settle(entry: Tree, sha256: str, status: str, now: str, was: str | None) -> bool:
    """Answer about one of the two definitions of a tool; an approved change becomes the one that counts."""
    if entry["sha256"] == sha256:
        if was not in (None, entry["status"]):
            return False
        entry.update(status=status, decided_at=now)
        return True
    changed = entry.get("changed")
    if changed is None or changed["sha256"] != sha256 or was not in (None, changed["status"]):
        return False
    changed.update(status=status, decided_at=now)
    if status == APPROVED:
        entry.clear()
        entry.update(changed)
    return True


def _read(path: str) -> Tree | None:
    """Return the tree of a file, None if there is none; a StateError if it is damaged."""
    content = read_private(path, limit=LARGEST)
    if content is None:
        return None
    tree = read_tree(content)
    if tree is None:
        raise _damaged(path)
    return tree


def read_tree(content: bytes) -> Tree | None:
    """Return what is written of one server; None if it is damaged."""
    try:
        tree = _decoded(content)
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(tree, dict) and isinstance(tree.get("server"), str) and _are_sections(tree)
    return tree if is_whole else None


def no_definitions(server: str) -> Tree:
    """Return what is written of a server that has listed nothing yet."""
    return {"server": server, "listed": [], "tools": {}}


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):
        return json.loads(content)  # which reads half of a character, too


def _are_sections(tree: Tree) -> bool:
    listed = tree.get("listed", [])
    return (
        isinstance(listed, list)
        and all(isinstance(each, str) for each in listed)
        and "tools" in tree
        and all(_are_entries(tree.get(section, {})) for section in SECTIONS.values())
    )


def _are_entries(entries: object) -> bool:
    return isinstance(entries, dict) and all(_is_known(entry) and _is_change(entry) for entry in entries.values())


def _is_known(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(field), str) for field in _FIELDS)
        and type(entry.get("form", 1)) is int
    )


def _is_change(entry: Tree) -> bool:
    return "changed" not in entry or _is_known(entry["changed"])


def _pin(entry: Tree) -> Pin:
    return Pin(_known(entry), _known(entry["changed"]) if "changed" in entry else None)


def _known(entry: Tree) -> RecordedDefinition:
    return RecordedDefinition(
        entry["sha256"],
        entry["definition"],
        entry["status"],
        entry["created"],
        str(entry.get("decided_at", "")),
        entry.get("form", 1),
    )


def _damaged(path: str) -> StateError:
    hint = f"move {shown(path)} away; the tools of that server are then recorded anew, as they are"
    return StateError(f"{quoted(path)} is damaged: no tool definition in it can be relied on", hint=hint)
