"""Records for people and for other programs: a line each, a page each, NDJSON, CSV. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.store.audit.wording import deciding_rule, part, text, what
from byleave.text import shown

if TYPE_CHECKING:
    from typing import Any

    from byleave.store.audit.table import StoredRecord

    Tree = dict[str, Any]

COLUMNS = (
    *("sequence", "time", "event", "session", "door", "agent", "identity", "kind", "tool", "what", "decision"),
    *("code", "reason", "rule", "source", "hash"),
)
# With these a spreadsheet takes a cell for something to compute; the last four are wide forms of the first.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def page(kept: StoredRecord) -> list[str]:
    """Return the whole record for a person, every value escaped."""
    lines = [f"record {kept.sequence}"]
    for name, value in {**kept.tree, "hash": kept.hash}.items():
        if name != "sequence":
            lines += _lines(name, value, "  ")
    return lines


def exported(kept: StoredRecord, root: str) -> Tree:
    """Return the record for other programs. A place outside of the workspace is left out, and that is said."""
    tree: Tree = {**kept.tree, "hash": kept.hash}
    verdict = part(tree, "verdict")
    canonical = verdict.get("canonical")
    if canonical is None or _is_inside(text(canonical), root):
        return tree
    tree["verdict"] = {key: value for key, value in verdict.items() if key not in ("canonical", "canonical_b64")}
    return {**tree, "redacted": True}


def csv_row(tree: Tree) -> list[str]:
    """Return a record as the cells of a table: escaped, and none can be taken for a formula."""
    action, verdict = part(tree, "action"), part(tree, "verdict")
    rule, source = deciding_rule(tree)
    own = {"what": what(tree), "rule": rule, "source": source}
    own |= {name: text(action.get(name)) for name in ("kind", "tool")}
    own |= {name: text(verdict.get(name)) for name in ("decision", "code", "reason")}
    return [_cell(own[name] if name in own else text(tree.get(name))) for name in COLUMNS]


def _cell(value: str) -> str:
    return f"'{shown(value)}" if value.startswith(_FORMULA) else shown(value)


def _is_inside(path: str, root: str) -> bool:
    return (path == root or path.startswith(f"{root.rstrip('/')}/")) and ".." not in path.split("/")


def _lines(name: str, value: object, indent: str) -> list[str]:
    if isinstance(value, dict) and value:
        inner = [line for key, one in value.items() for line in _lines(str(key), one, f"{indent}  ")]
        return [f"{indent}{shown(name)}:", *inner]
    if isinstance(value, list) and value:
        return [f"{indent}{shown(name)}:", *(f"{indent}  {_item(one)}" for one in value)]
    return [f"{indent}{shown(name)}: {shown(text(value)) if value is not None else '-'}"]


def _item(value: object) -> str:
    if isinstance(value, dict) and "rule" in value:
        return (
            f"{shown(text(value['rule']))} ({shown(text(value.get('decision')))}, {shown(text(value.get('source')))})"
        )
    if isinstance(value, dict):
        return ", ".join(f"{shown(str(key))}: {shown(text(one))}" for key, one in value.items())
    return shown(text(value))
