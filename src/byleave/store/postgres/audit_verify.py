"""Verify the records in the shared database: the chain of every writer, and the checkpoints over all of them.

A chain begins with the hash of its writer's name, or behind a place that a record of the retention names. It ends where
the writer's row says. Each checkpoint names places and hashes of chains, which must be found there; its MAC shows that
a holder of the key wrote it. All is read in one snapshot: writers go on meanwhile.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from byleave.record import Record
from byleave.store.audit.chain import EMPTY, ChainHead, is_hash, linked
from byleave.store.audit.chain_walk import MOST_SHOWN, ChainProblem
from byleave.store.audit.verify import Verification
from byleave.store.postgres.chains import first_hash
from byleave.store.postgres.columns import NAMES, all_of, columns_of
from byleave.store.postgres.maintenance import MAINTENANCE, checkpoint_parts
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from psycopg import Connection

    from byleave.store.store_key import StoreKey

_ROWS = f"""
SELECT writer, place, id, to_char(time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), hash, record,
  {", ".join(NAMES)}
FROM byleave.records ORDER BY writer, place
"""  # noqa: S608 -- the names are constants
_OWN = """
SELECT r.id, r.record FROM byleave.records r JOIN byleave.writers w ON w.id = r.writer
WHERE w.name = %s AND r.event IN ('checkpoint', 'retention') ORDER BY r.place
"""
_WRITERS = "SELECT id, name, place, hash, checkpointed FROM byleave.writers"
_AT_ONCE = 2000


class _Writer(Record):
    """A row of `writers`: where the chain of a process ends."""

    id: int
    name: str
    place: int
    hash: str
    checkpointed: int


class _Walk:
    """What is found on the way over all chains."""

    def __init__(self, writers: Iterable[_Writer], removed: dict[int, dict[int, str]]) -> None:
        self.writers = {writer.id: writer for writer in writers}
        self.removed = removed  # by writer: the places behind which a chain may begin, each with its hash
        self.ends: dict[int, tuple[int, str]] = {}
        self.named: dict[tuple[int, int], list[tuple[int, str]]] = {}  # what checkpoints say of a place
        self.covered: dict[int, int] = {}  # by writer: the last place that a checkpoint names
        self.problems: list[ChainProblem] = []
        self.records = 0
        self.first: int | None = None
        self.last: int | None = None
        self.hash = EMPTY.hash
        self.before: dict[int, str] = {}  # the hash before each checkpoint, by its number

    def report(self, problem: str, sequence: int | None = None) -> None:
        if len(self.problems) < MOST_SHOWN:
            self.problems.append(ChainProblem(problem, sequence))

    def row(self, found: tuple[Any, ...]) -> None:
        """Look at the next record of a chain."""
        writer, place, id_, time, hash_, record, *columns = found
        self.records += 1
        self.first = id_ if self.first is None else min(self.first, id_)
        if self.last is None or id_ > self.last:
            self.last, self.hash = id_, hash_
        known = self.writers.get(writer)
        if known is None:
            self.report("it belongs to no known writer", id_)
            return
        before = self.ends.get(writer)
        if before is None:
            before = self._beginning(known, place, id_)
        if place != before[0] + 1:
            self.report(f"{place - before[0] - 1} records before it are missing in the chain of its writer", id_)
        elif linked(before[1], record.encode()) != hash_:
            self.report("it does not follow from the record before it: one of the two was changed", id_)
        if not record.startswith(f'{{"sequence":{id_},"time":"{time}"'):
            self.report("its number or its time was changed", id_)
        if tuple(columns) != columns_of(record) and tuple(columns) != all_of(record):
            self.report("what is searched does not say what the record says", id_)
        if columns[0] == "checkpoint":
            self.before[id_] = before[1]
        for number, said in self.named.pop((writer, place), ()):
            if said != hash_:
                self.report(f"the checkpoint {number} names another hash for it", id_)
        self.ends[writer] = place, hash_

    def _beginning(self, writer: _Writer, place: int, id_: int) -> tuple[int, str]:
        if place == 1:
            return 0, first_hash(writer.name)
        hash_ = self.removed.get(writer.id, {}).get(place - 1)
        if hash_ is None:
            self.report(f"the chain of its writer begins at place {place}, and no retention says why", id_)
            return place - 1, EMPTY.hash
        return place - 1, hash_

    def finish(self) -> None:
        """Compare where chains end with what their writers, and the checkpoints, say."""
        for writer in self.writers.values():
            place, hash_ = self.ends.get(writer.id, (0, first_hash(writer.name)))
            if writer.id not in self.ends and self.removed.get(writer.id, {}).get(writer.place) == writer.hash:
                continue
            if (place, hash_) != (writer.place, writer.hash):
                name = shown(writer.name)
                self.report(f"the chain of {name} ends at place {place}, though {writer.place} were written")
            covered = max(self.covered.get(writer.id, 0), max(self.removed.get(writer.id, {}), default=0))
            if writer.checkpointed > covered and writer.name != MAINTENANCE:
                name = shown(writer.name)
                self.report(f"the chain of {name} is said to be in checkpoints up to {writer.checkpointed}: it is not")
        for (writer_id, place), said in self.named.items():
            behind = max(self.removed.get(writer_id, {}), default=0)
            if place > behind:
                self.report(f"the checkpoint {said[0][0]} names place {place} of a chain that has no such place")


def verify_records(connection: Connection[Any], key: StoreKey | None, given: ChainHead | None) -> Verification:
    """Return what a walk over all chains finds, within a transaction of the caller that sees one state of them."""
    writers = [_Writer(*row) for row in connection.execute(_WRITERS)]
    own = [(id_, _tree(record)) for id_, record in connection.execute(_OWN, (MAINTENANCE,))]
    walk = _Walk(writers, _removed(own))
    for number, tree in own:
        for writer, (place, hash_) in _places(tree, "writers").items():
            if tree.get("event") == "checkpoint":
                walk.named.setdefault((writer, place), []).append((number, hash_))
                walk.covered[writer] = max(place, walk.covered.get(writer, 0))
    with connection.cursor("byleave_verify") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(_ROWS.encode())
        for row in cursor:
            walk.row(row)
    walk.finish()
    if key is not None:
        _check_macs(walk, own, key)
    head = EMPTY if walk.last is None else ChainHead(walk.last, walk.hash)
    if given is not None:
        _check_given(connection, walk, given)
    return Verification(walk.records, walk.first, walk.last, head, tuple(walk.problems))


def _check_macs(walk: _Walk, own: list[tuple[int, dict[str, Any]]], key: StoreKey) -> None:
    for number, tree in own:
        if tree.get("event") != "checkpoint":
            continue
        mac = tree.get("mac")
        parts = checkpoint_parts(walk.before.get(number, ""), _places(tree, "writers"), tree.get("retention"))
        if not (isinstance(mac, str) and is_hash(mac.encode()) and key.is_mac(bytes.fromhex(mac), *parts)):
            walk.report("this checkpoint has no valid MAC: no holder of the key wrote it", number)


def _check_given(connection: Connection[Any], walk: _Walk, given: ChainHead) -> None:
    query, value = "SELECT hash FROM byleave.records WHERE id = %s", str(given.sequence)
    if given.sequence < 0:
        query, value = "SELECT hash FROM byleave.records WHERE hash = %s", given.hash
    row = connection.execute(query, (value,)).fetchone()
    if row is None or row[0] != given.hash:
        walk.report(f"the given head {given} is not among the records")


def _removed(own: list[tuple[int, dict[str, Any]]]) -> dict[int, dict[int, str]]:
    """Return behind which places chains may begin: those that a record of the retention names and another confirms."""
    announced = {number: tree for number, tree in own if tree.get("event") == "retention"}
    removed: dict[int, dict[int, str]] = {}
    for _number, tree in own:
        said = announced.get(tree.get("retention", 0)) if tree.get("event") == "checkpoint" else None
        if said is not None:
            for writer, (place, hash_) in _places(said, "writers").items():
                removed.setdefault(writer, {})[place] = hash_
    return removed


def _places(tree: dict[str, Any], name: str) -> dict[int, tuple[int, str]]:
    """Return the places that a record names, by writer; nothing that is not shaped like one."""
    found = tree.get(name)
    places = {}
    for writer, each in found.items() if isinstance(found, dict) else ():
        if writer.isascii() and writer.isdigit() and isinstance(each, list) and len(each) == 2:
            place, hash_ = each
            if type(place) is int and isinstance(hash_, str):
                places[int(writer)] = (place, hash_)
    return places


def _tree(record: str) -> dict[str, Any]:
    try:
        tree = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
