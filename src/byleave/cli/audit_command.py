"""`byleave audit`: list the records of decisions with the rule that decided, export them, and verify the hash chain."""

from __future__ import annotations

import csv
import sys
import time
from typing import TYPE_CHECKING

from msgspec import structs

from byleave.cli.audit_summary import summarize
from byleave.cli.audit_text import COLUMNS, csv_row, exported, page
from byleave.cli.output import (
    cut_to,
    is_closed_within,
    known_width,
    local_time,
    padded,
    paint,
    say,
    say_json,
    say_verbose,
    silence,
    warn,
    width_of,
)
from byleave.cli.shared_store import open_records
from byleave.cli.workspace import open_workspace
from byleave.errors import InputError
from byleave.store.audit.chain import read_head
from byleave.store.audit.query import Filter, read_when
from byleave.store.audit.wording import deciding_rule, said, text, was_seen, what
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.store.audit.chain import ChainHead
    from byleave.store.audit.table import StoredRecord
    from byleave.store.audit.verify import Verification
    from byleave.store.interfaces import RecordReader

BROKEN = 1
_NEWEST = 50  # records that `list` shows without --limit
_NEWEST_OF_TAIL = 10
_PERIOD = 0.3  # seconds between two looks of `tail`
_WITH_RULE = 50  # columns, from which on there is room for the rule beside what was attempted
_WITH_TIME, _WITH_AGENT, _WITH_DOOR = 45, 60, 75  # columns of a terminal, from which on these are shown
_BEGIN_ANEW = (
    "a broken chain stays broken, and new records are added to it. To begin a new one: `byleave audit export` what "
    "you need, end every process of byleave, and move all files audit.* away from {}"
)
_FIELDS = ("decision", "agent", "door", "kind", "tool", "path", "text", "session")


def run(given: ParsedArguments) -> int:
    """Do what the subcommand says."""
    workspace = open_workspace(given)
    if given.command.name == "summary":
        return summarize(given, workspace)
    log = open_records(given, workspace)
    say_verbose(given, [f"the workspace is {workspace.root.path}", f"its records are in {log.directory}"])
    try:
        return _COMMANDS[given.command.name](given, log, workspace.root.path)
    finally:
        warn(given, log.warnings)
        log.close()


def _list(given: ParsedArguments, log: RecordReader, root: str) -> int:
    rows = _Rows(given)
    for kept in log.query(_filter(given, root, limit=_NEWEST)):
        rows.show(kept)
    if not rows.shown and not given.flag("json"):
        say("there are no records yet" if log.head().sequence == 0 else "no record matches")
    return 0


def _show(given: ParsedArguments, log: RecordReader, _root: str) -> int:
    word = given.words["SEQUENCE"]
    kept = log.get(int(word)) if word.isascii() and word.isdigit() and len(word) <= 18 else None
    if kept is None:
        raise InputError(f"there is no record {quoted(word)}", hint="`byleave audit list` shows the numbers")
    if given.flag("json"):
        say_json({**kept.tree, "hash": kept.hash})
    else:
        for line in page(kept):
            say(line)
    return 0


def _tail(given: ParsedArguments, log: RecordReader, root: str) -> int:
    if given.flag("ui"):
        from byleave.cli.audit_view_command import show_records  # only for a screen

        return show_records(given, log, _filter(given, root, limit=None), lambda kept: _Rows(given).line(kept))
    rows = _Rows(given)
    selected = _filter(given, root, limit=_NEWEST_OF_TAIL)
    last = log.head().sequence
    try:
        _show_all(rows, log.query(selected))
        while True:
            sys.stdout.flush()
            if is_closed_within(_PERIOD):
                return 0
            now = log.head().sequence
            if now > max(last, rows.last):
                _show_all(rows, log.query(structs.replace(selected, after=max(last, rows.last), limit=None)))
                last = now
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # the reader has closed the pipe
        silence(sys.stdout)
        return 0


def _export(given: ParsedArguments, log: RecordReader, root: str) -> int:
    records = (exported(kept, root) for kept in log.query(_filter(given, root, limit=None)))
    as_csv = given.one("format") == "csv"
    if as_csv and given.flag("json"):
        raise InputError("--json and --format csv contradict each other", hint="keep one of the two")
    if as_csv:
        _write_csv(records)
    else:
        for tree in records:
            say_json(tree)
    return 0


def _write_csv(records: Iterable[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n", quoting=csv.QUOTE_ALL)  # some split at other marks too
    writer.writerow(COLUMNS)
    for tree in records:
        writer.writerow(csv_row(tree))


def _verify(given: ParsedArguments, log: RecordReader, _root: str) -> int:
    found = log.verify(_given_head(given))
    if given.flag("json"):
        say_json(found.tree)
    else:
        checked = given.one("head") is not None
        for line in _verification_lines(found, checked=checked):
            say(line)
        if not found.ok and not checked and log.may_begin_anew:  # what a head contradicts is not mended by a new log
            say(f"  hint: {_BEGIN_ANEW.format(shown(log.directory))}")
    return 0 if found.ok else BROKEN


def _verification_lines(found: Verification, *, checked: bool) -> list[str]:
    if not found.ok:
        problems = [
            f"  {shown(one.problem)}" if one.sequence is None else f"  record {one.sequence}: {shown(one.problem)}"
            for one in found.problems
        ]
        return [f"{paint('broken', 'deny')}: the hash chain of {found.records} records does not verify", *problems]
    if not found.records:
        return [f"{paint('ok', 'allow')}: there are no records yet"]
    also = ", and the given head is among them" if checked else ""
    return [f"{paint('ok', 'allow')}: {found.records} records, {found.first} to {found.last}, are intact{also}"]


def _head(given: ParsedArguments, log: RecordReader, _root: str) -> int:
    head = log.lasting_head()
    if given.flag("json"):
        say_json({"sequence": head.sequence, "hash": head.hash})
    else:
        say(str(head))
    return 0


def _given_head(given: ParsedArguments) -> ChainHead | None:
    written = given.one("head")
    if written is None:
        return None
    head = read_head(written)
    if head is None:
        hint = "give what `byleave audit head` printed: SEQUENCE:HASH, or the hash alone"
        raise InputError(f"{quoted(written)} is not a head", hint=hint)
    return head


def _filter(given: ParsedArguments, root: str, *, limit: int | None) -> Filter:
    now = time.time()
    times = {name: read_when(value, now=now) for name in ("since", "until") if (value := given.one(name)) is not None}
    fields = {name: given.one(name) for name in _FIELDS}
    for name, value in fields.items():
        if value is not None and not value.isascii() and not _is_utf8(value):
            raise InputError(f"--{name} is not UTF-8: {quoted(value)}", hint="records hold such names as escapes")
    return structs.replace(Filter(limit=_limit(given, limit), root=root), **times, **fields)


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _limit(given: ParsedArguments, default: int | None) -> int | None:
    written = given.one("limit")
    if written is None:
        return default
    if not written.isascii() or not written.isdigit() or len(written) > 12:
        raise InputError(f"--limit cannot be {quoted(written)}", hint="write a number, such as 20")
    return int(written)


def _show_all(rows: _Rows, records: Iterable[StoredRecord]) -> None:
    for kept in records:
        rows.show(kept)


class _Rows:
    """Shows records one by one: a line of a table for people, a line of JSON for programs.

    No line is wider than the terminal. Where a program reads the table, nothing of a record is cut, and the time has
    its date whatever day it is.
    """

    def __init__(self, given: ParsedArguments) -> None:
        self._json = given.flag("json")
        self._width = known_width()
        self._today = time.strftime("%Y-%m-%d")
        self.shown = 0
        self.last = 0

    def show(self, kept: StoredRecord) -> None:
        self.shown += 1
        self.last = kept.sequence
        if self._json:
            say_json({**kept.tree, "hash": kept.hash})
            return
        if self.shown == 1:
            cells = [cell for cell, _colour in self._cells("#", "time", "", "door", "agent")]
            say(paint(self._fitted("".join([*cells, "what"])), "dim"))
        say(self.line(kept))

    def line(self, kept: StoredRecord) -> str:
        """Return the line of the table."""
        tree = kept.tree
        when = local_time(text(tree.get("time")))
        word = said(tree)
        cells = self._cells(
            str(kept.sequence),
            when if self._width is None else self._short_time(when),
            word,
            text(tree.get("door")),
            text(tree.get("agent")) or "-",
        )
        taken = sum(width_of(cell) for cell, _colour in cells)
        if self._width is not None and taken >= self._width:
            return self._fitted("".join(cell for cell, _colour in cells))
        painted = [
            cell if colour is None else paint(cell.rstrip(), colour) + cell[len(cell.rstrip()) :]
            for cell, colour in cells
        ]
        room = None if self._width is None else self._width - taken
        return f"{''.join(painted)}{_subject(tree, room)}".rstrip()

    def _cells(self, number: str, when: str, word: str, door: str, agent: str) -> list[tuple[str, str | None]]:
        """Return the columns before what was attempted, as many as there is room for, and their colours."""
        colour = word if word in ("allow", "ask", "deny") else None
        if self._width is None:
            short = [(f"{number:>6}", None), (f"{shown(when):<19}", None), (f"{shown(word):<6}", colour)]
            return [
                (f"{cell}  ", tint)
                for cell, tint in [*short, (f"{shown(door):<6}", None), (f"{shown(agent):<11}", None)]
            ]
        columns: list[tuple[str, int, str | None, int]] = [
            (f"{number:>6}", max(6, len(number)), None, 0),
            (when, 11, None, _WITH_TIME),
            (word, 6, colour, 0),
            (door, 6, None, _WITH_DOOR),
            (agent, 11, None, _WITH_AGENT),
        ]
        return [(f"{padded(shown(cell), wide)}  ", tint) for cell, wide, tint, from_ in columns if self._width >= from_]

    def _short_time(self, when: str) -> str:
        day, _, clock = when.partition(" ")
        return clock if day == self._today else f"{day[5:]} {clock[:5]}" if day[:4] == self._today[:4] else day

    def _fitted(self, line: str) -> str:
        return (line if self._width is None else cut_to(line, self._width)).rstrip()


def _subject(tree: dict[str, Any], room: int | None) -> str:
    """Return what was attempted, and the rule that decided with its place, in the columns that are left."""
    rule, source = deciding_rule(tree)
    attempted, rule = shown(what(tree)), shown(rule)
    ruled = bool(rule) and not was_seen(tree)  # no rule decided about what was done already
    if room is None:
        return f"{attempted}  {rule} ({shown(source)})" if ruled else attempted
    if not ruled or room < _WITH_RULE:
        return cut_to(attempted, room)
    wide = room // 2
    place = cut_to(f" ({shown(_short(source))})", room - wide - 2)
    return f"{padded(attempted, wide)}  {cut_to(rule, room - wide - 2 - width_of(place))}{place}"


def _short(source: str) -> str:
    """Return where a rule stands, of a file of one's own only the end: `show` says all of it."""
    return f"…/{source.rpartition('/')[2]}" if source.startswith("/") else source


_COMMANDS: dict[str, Callable[[ParsedArguments, RecordReader, str], int]] = {
    "list": _list,
    "show": _show,
    "tail": _tail,
    "export": _export,
    "verify": _verify,
    "head": _head,
}
