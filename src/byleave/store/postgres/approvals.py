"""Approvals of calls and definitions of tools that replicas share, as documents with a MAC.

Only what is about a server behind the gateway is shared. Where a mount leads, which project file is trusted, and what
else is of one machine stays in the files of its user: `SharedApprovals` is those files, but for calls and definitions.
The rules about approvals are those of `store.approvals` and `store.tool_definitions`; only the place is another.

Definitions are the one thing where forgetting is not safe. So a document of its own names all servers that have any:
one whose definitions are gone has nothing approved, and is not taken for a new one.
"""

from __future__ import annotations

import json
from time import monotonic_ns
from typing import TYPE_CHECKING

from byleave.errors import StateError
from byleave.store.approvals import CALL, Approvals, later, nothing, parse, written
from byleave.store.postgres.database import StoreDownError
from byleave.store.tool_definitions import Definitions, no_definitions, read_tree
from byleave.store.tool_definitions import written as written_definitions
from byleave.text import quoted
from byleave.user_files import ParseCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from psycopg import Connection

    from byleave.store.approvals import Approval
    from byleave.store.postgres.database import Database
    from byleave.store.postgres.signed_documents import SignedDocuments

    Tree = dict[str, Any]

WORKSPACE = "shared"  # what stands for the workspace in the id of a definition: replicas may have other roots
_GIVEN, _KEPT = ("now", "spent_until"), ("decided_at", "until")  # times of a question, and of its answer
_CALLS, _SERVERS, _SERVER = "approvals", "servers", "server "


class CallApprovals(Approvals):
    """The approvals of calls: a document in the place of the file. Its times are by the clock of the database."""

    def __init__(self, directory: str, database: Database, documents: SignedDocuments) -> None:
        super().__init__(directory, ParseCache(None, ""))
        self._database = database
        self._documents = documents

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the document does, or the database cannot be asked."""
        try:
            return (self._documents.version(_CALLS),)
        except StateError:
            return (-1, monotonic_ns())  # never the same: what was read before does not count

    def approved_by(self, key: str, *, now: str = "", step: str = "") -> str | None:
        return super().approved_by(key, now=self._shared(now), step=step)

    def spend(self, keys: Sequence[str], *, now: str, step: str = "", spent_until: str = "") -> bool:
        until = self._shared(spent_until)
        return super().spend(keys, now=self._shared(now), step=step, spent_until=until)

    def remember(self, key: str, **fields: Any) -> None:
        super().remember(key, **{**fields, **{name: self._shared(fields[name]) for name in _GIVEN if name in fields}})

    def answer(self, key: str, answer: Callable[[Tree], Tree | None], *, was: str | None, seen: str) -> bool:
        def by_shared_time(entry: Tree) -> Tree | None:
            changed = answer(entry)
            if changed is None:
                return None
            new = [name for name in _KEPT if name in changed and changed[name] != entry.get(name)]
            return {**changed, **{name: self._shared(changed[name]) for name in new}}

        return super().answer(key, by_shared_time, was=was, seen=seen)

    def _shared(self, moment: str) -> str:
        """Return what a time of this machine is by the clock of the database."""
        return later(moment, self._database.ahead) if moment else moment

    def _load(self) -> Tree:
        return _tree(self._documents.read(_CALLS))

    def _change(self, change: Callable[[Tree], Tree | None]) -> None:
        def changed(body: str | None) -> str | None:
            tree = change(_tree(body))
            return None if tree is None else written(tree).decode()

        self._documents.change(_CALLS, changed)
        self._read = None


def _tree(body: str | None) -> Tree:
    tree = nothing() if body is None else parse(body.encode())
    if tree is None:  # though a holder of the key has written it
        raise StateError("the approvals in the store cannot be read", hint="another version of byleave wrote them")
    return tree


class SharedApprovals(Approvals):
    """The approvals of a workspace, of which those of calls, and the definitions of tools, are in the database."""

    may_wait = True

    def __init__(
        self,
        directory: str,
        memory: ParseCache,
        database: Database,
        documents: SignedDocuments,
        *,
        spools: bool = False,
    ) -> None:
        """`spools`: calls go on while the database is away, with the definitions that were approved before."""
        super().__init__(directory, memory)
        self._calls = CallApprovals(directory, database, documents)
        self._definitions = SharedDefinitions(directory, database, documents, spools=spools)

    @property
    def definitions(self) -> Definitions:
        return self._definitions

    @property
    def workspace_id(self) -> str:
        return WORKSPACE

    def refresh(self) -> None:
        super().refresh()
        self._calls.refresh()

    def stamp(self) -> tuple[int, ...]:
        return (*super().stamp(), *self._calls.stamp())

    def approved_by(self, key: str, *, now: str = "", step: str = "") -> str | None:
        found = super().approved_by(key, now=now, step=step)
        return self._calls.approved_by(key, now=now, step=step) if found is None else found

    def spend(self, keys: Sequence[str], *, now: str, step: str = "", spent_until: str = "") -> bool:
        """Do as for files. Where a call and something else are spent together and one is gone, the call is spent."""
        own = {key for key in keys if Approvals.approved_by(self, key, now=now, step=step) is not None}
        calls = [key for key in keys if key not in own]
        if calls and not self._calls.spend(calls, now=now, step=step, spent_until=spent_until):
            return False
        return not own or super().spend(sorted(own), now=now, step=step, spent_until=spent_until)

    def remember(self, key: str, *, kind: str, **fields: Any) -> None:
        if kind == CALL:
            self._calls.remember(key, kind=kind, **fields)
        else:
            super().remember(key, kind=kind, **fields)

    def all(self) -> list[Approval]:
        return [*super().all(), *[one for one in self._calls.all() if one.kind == CALL]]

    def answer(self, key: str, answer: Callable[[Tree], Tree | None], *, was: str | None, seen: str) -> bool:
        if self._calls.answer(key, answer, was=was, seen=seen):
            return True
        return super().answer(key, answer, was=was, seen=seen)

    def _entries(self, kind: str) -> list[Tree]:
        """Leave out calls that were approved in the files of this machine: they could not be revoked elsewhere."""
        found = super()._entries(kind)
        return [entry for entry in found if entry.get("kind") != CALL] if kind == "actions" else found


class SharedDefinitions(Definitions):
    """The definitions of tools: a document for each server, and one that names the servers."""

    def __init__(self, directory: str, database: Database, documents: SignedDocuments, *, spools: bool = False) -> None:
        super().__init__(directory)
        self._database = database
        self._documents = documents
        self._spools = spools
        self._stamps: dict[str, tuple[int, ...]] = {}  # the last that were read

    def stamp(self, server: str) -> tuple[int, ...]:
        """Return what changes whenever something about this server does; a StateError if that cannot be known.

        While the database is away and calls go on, it is the last that was read: what was approved by then counts.
        """
        try:
            stamp = self._stamps[server] = (self._documents.version(f"{_SERVER}{server}"),)
        except StoreDownError:
            if not self._spools or server not in self._stamps:
                raise
            return self._stamps[server]
        return stamp

    def _load(self, server: str) -> Tree:
        body = self._documents.read(f"{_SERVER}{server}")
        return self._whole(server, body, self._documents.read(_SERVERS) if body is None else None)

    def _whole(self, server: str, body: str | None, servers: str | None) -> Tree:
        if body is None and server not in _names(servers):
            return no_definitions(server)
        tree = None if body is None else read_tree(body.encode())
        if tree is None or tree["server"] != server:
            hint = "another program has removed or changed them in the database; put its backup back"
            raise StateError(f"the definitions of {quoted(server)} in the store are gone or damaged", hint=hint)
        return tree

    def _change(self, server: str, change: Any) -> None:
        def whole(connection: Connection[Any]) -> None:
            def named(servers: str | None) -> str | None:
                """Change the definitions while the list of servers is held, and name the server in it."""
                made: list[str] = []

                def changed(body: str | None) -> str | None:
                    tree = self._whole(server, body, servers)
                    if not change(tree):
                        return None
                    made.append(written_definitions(tree).decode())
                    return made[0]

                self._documents.change_in(connection, f"{_SERVER}{server}", changed)
                names = _names(servers)
                return json.dumps(sorted({*names, server})) if made and server not in names else None

            self._documents.change_in(connection, _SERVERS, named)

        self._documents.change_all(whole)

    def _trees(self, warnings: list[str]) -> Iterator[Tree]:
        for server in sorted(_names(self._documents.read(_SERVERS))):
            try:
                yield self._load(server)
            except StateError as error:
                warnings.append(str(error))


def _names(body: str | None) -> frozenset[str]:
    return frozenset(() if body is None else json.loads(body))
