"""Search the table: which records a filter matches, newest first, by the one index that narrows the search most.

A path is matched by `core.patterns`; SQLite's own GLOB, whose `*` also crosses slashes, only narrows the search before.

Points in time are written as 90s, 30m, 2h, 7d, as a time of today, or as a date and time. Without a zone they are the
local ones, as lists show them.
"""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.patterns import ANY_DEPTH, compile_glob, glob_problem, name_matches
from byleave.errors import InputError
from byleave.store.audit.records import encode
from byleave.store.audit.table import StoredRecord
from byleave.text import quoted

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from byleave.core.patterns import Glob

    Condition = tuple[str, str | int]


_EQUAL = ("decision", "door", "kind", "tool", "session", "event")
# The index that is searched: the first of these that the filter names. The others are looked up record by record.
_NARROWEST = ("path", "agent", "tool", "session", "decision", "kind", "door", "time")
_SCAN = " NOT INDEXED"
_RECENT = 2000  # the newest records are looked at one by one first: most searches end there
_STEP = 500  # records that are read from the table at once
_NAMES = """
WITH RECURSIVE names(name) AS (
  SELECT MIN(agent) FROM records WHERE agent >= ''
  UNION ALL SELECT (SELECT MIN(agent) FROM records WHERE agent > name) FROM names WHERE name IS NOT NULL
) SELECT name FROM names WHERE name IS NOT NULL
"""


class Filter(Struct, frozen=True):
    """Which records match; None means any. `root` is the workspace, below which a path may also be absolute."""

    since: str | None = None
    until: str | None = None
    decision: str | None = None
    agent: str | None = None
    door: str | None = None
    kind: str | None = None
    tool: str | None = None
    path: str | None = None
    text: str | None = None
    session: str | None = None
    event: str | None = None
    after: int | None = None
    through: int | None = None
    limit: int | None = None
    root: str = ""


def find(connection: sqlite3.Connection, matching: Filter) -> Iterator[StoredRecord]:
    """Yield the newest records that the filter means, the oldest of them first."""
    numbers = sorted(_newest(connection, matching))
    for start in range(0, len(numbers), _STEP):  # below, `marks` is nothing but question marks
        some = numbers[start : start + _STEP]
        marks = ",".join("?" * len(some))
        query = f"SELECT sequence, hash, record FROM records WHERE sequence IN ({marks}) ORDER BY sequence"  # noqa: S608
        yield from (StoredRecord(*row) for row in connection.execute(query, some))


def find_oldest(connection: sqlite3.Connection, matching: Filter, limit: int) -> Iterator[StoredRecord]:
    """Yield the oldest records that the filter means; it has an `after`, and the search goes up from there by steps."""
    start, left = matching.after or 0, limit
    last = connection.execute("SELECT MAX(sequence) FROM records").fetchone()[0] or 0
    while start < last and left > 0:
        step = structs.replace(matching, after=start, through=start + _RECENT, limit=None)
        for found in find(connection, step):
            if left > 0:
                left -= 1
                yield found
        start += _RECENT


def _newest(connection: sqlite3.Connection, matching: Filter) -> list[int]:
    """Return the numbers of the newest records that match: as many as the limit says, in no order."""
    last = connection.execute("SELECT MAX(sequence) FROM records").fetchone()[0] or 0
    if matching.through is not None:
        last = min(last, matching.through)
    if matching.limit is not None:
        recent = structs.replace(matching, after=max(last - _RECENT, matching.after or 0))
        found = sorted(set(_numbers(connection, recent, _SCAN)), reverse=True)[: matching.limit]
        if len(found) == matching.limit:
            return found
    using = _index(matching)
    return sorted(set(_numbers(connection, matching, using)), reverse=True)[: matching.limit]


def _index(matching: Filter) -> str:
    """Return which index is searched: refusals are few, paths are many, and the others lie between."""
    if matching.decision not in (None, "allow"):
        return " INDEXED BY records_decision"
    name = next((name for name in _NARROWEST if _is_named(matching, name)), None)
    return f" INDEXED BY records_{name}" if name is not None else ""


def _numbers(connection: sqlite3.Connection, matching: Filter, using: str) -> Iterator[int]:
    conditions = _conditions(matching)
    for further in _variants(connection, matching, by_name=using != _SCAN):
        yield from _search(connection, [*further, *conditions], using, matching)


def _search(connection: sqlite3.Connection, conditions: list[Condition], using: str, matching: Filter) -> Iterator[int]:
    """Yield the numbers of at most `limit` records, newest first."""
    where = f" WHERE {' AND '.join(sql for sql, _value in conditions)}" if conditions else ""
    glob = path_glob(matching.path) if matching.path is not None else None
    column = "path" if glob is not None else "NULL"
    agent = matching.agent if using == _SCAN else None  # else the conditions name it
    bound = f" LIMIT {int(matching.limit)}" if matching.limit is not None and glob is None and agent is None else ""
    # Every piece of the text below is a constant of ours; what the user wants stands in the values.
    named = "agent" if agent is not None else "NULL"
    query = f"SELECT sequence, {column}, {named} FROM records{using}{where} ORDER BY sequence DESC{bound}"  # noqa: S608
    left = matching.limit if matching.limit is not None else -1
    for sequence, path, name in connection.execute(query, [value for _sql, value in conditions]):
        if left == 0:
            return
        if agent is not None and not is_agent(agent, name):
            continue
        if glob is None or path_matches(glob, path, matching.root):
            left -= 1
            yield sequence


def _conditions(matching: Filter) -> list[Condition]:
    found: list[Condition] = [
        (f"{name} = ?", value) for name in _EQUAL if (value := getattr(matching, name)) is not None
    ]
    if matching.since is not None:
        found.append(("time >= ?", matching.since))
    if matching.until is not None:
        found.append(("time <= ?", matching.until))
    if matching.after is not None:
        found.append(("sequence > ?", matching.after))
    if matching.through is not None:
        found.append(("sequence <= ?", matching.through))
    if matching.text is not None:
        found.append(("record GLOB ?", f"*{_literally(as_stored(matching.text))}*"))
    return found


def _variants(connection: sqlite3.Connection, matching: Filter, *, by_name: bool) -> Iterator[list[Condition]]:
    """Yield the conditions that have several forms: one per agent that a pattern means, one per place of a path."""
    agents: list[list[Condition]] = [[]]
    if matching.agent is not None and by_name:
        agents = [[("agent = ?", name)] for name in _agents(connection, matching.agent)]
    paths = [[]] if matching.path is None else list(_places(path_glob(matching.path), matching.root))
    for path in paths:
        for agent in agents:
            yield [*path, *agent]


def _agents(connection: sqlite3.Connection, pattern: str) -> list[str]:
    if not set(pattern) & set("*?["):
        return [pattern]
    return [name for (name,) in connection.execute(_NAMES) if is_agent(pattern, name)]


def is_agent(pattern: str, name: str | None) -> bool:
    """Whether a name is the one that is looked for, or matches it as a glob."""
    return name is not None and (name == pattern or name_matches(pattern, name))


def path_glob(text: str) -> Glob:
    """Return the pattern that a path is looked for by; an InputError if it is none."""
    problem = glob_problem(text)
    if problem is not None:
        raise InputError(f"{quoted(text)} is no glob for paths: {problem}", hint="write it like 'src/**' or '**/*.pem'")
    return compile_glob(text)


def _places(glob: Glob, root: str) -> Iterator[list[Condition]]:
    """Yield where a match may lie: as it is written and, for a relative pattern, below the root."""
    fronts = ["/"] if glob.text.startswith("/") else ["", *([f"{root}/"] if root else [])]
    for front in fronts:
        start = f"{front}{glob.literal}"
        conditions: list[Condition] = [("path IS NOT NULL AND path GLOB ?", f"{_literally(front)}{_wider(glob)}")]
        if start:
            conditions += [("path >= ?", start), ("path < ?", f"{start}\U0010ffff")]
        yield conditions


def path_matches(glob: Glob, path: str, root: str) -> bool:
    """Whether a path matches as it is written or, for a relative pattern, below the root."""
    if glob.text.startswith("/"):
        return path.startswith("/") and glob.matches(path[1:])
    if root and path.startswith(f"{root}/"):
        path = path[len(root) + 1 :]
    return not path.startswith("/") and glob.matches(path)


def _wider(glob: Glob) -> str:
    """Return a pattern for SQLite that matches at least what the glob does."""
    wide = ""
    for name in glob.names:
        if name == ANY_DEPTH:
            wide = f"{wide.rstrip('/*')}*"  # any depth may be none at all, and then no slash is there
        else:
            wide += f"{'' if not wide or wide.endswith('*') else '/'}{_wide_name(name)}"
    return wide


def _wide_name(name: str) -> str:
    kept = name.partition("[")[0]
    return kept if kept == name else f"{kept}*"


def _literally(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def as_stored(text: str) -> str:
    """Return a text as it stands in the text of a record."""
    return encode(text)[1:-1]


def _is_named(matching: Filter, name: str) -> bool:
    if name == "time":
        return matching.since is not None or matching.until is not None
    return getattr(matching, name) is not None


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_HINT = (
    "write 90s, 30m, 2h or 7d (that long ago), 14:30 (today), or a date and time of your own clock, such as 2026-01-31 "
    "or 2026-01-31T12:00; 2026-01-31T12:00Z is UTC"
)


def read_when(text: str, *, now: float) -> str:
    """Return a point in time as records name it; `now` is in seconds since 1970."""
    try:
        if text[-1:] in _UNITS and text[:-1].isascii() and text[:-1].isdigit():
            moment = datetime.fromtimestamp(now - int(text[:-1]) * _UNITS[text[-1]], UTC)
        elif ":" in text[:3]:
            moment = datetime.combine(datetime.fromtimestamp(now).astimezone(), time.fromisoformat(text)).astimezone(
                UTC
            )
        else:
            moment = datetime.fromisoformat(text).astimezone(UTC)  # without a zone, a time of this machine's
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{quoted(text)} is no point in time", hint=_HINT) from None
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
