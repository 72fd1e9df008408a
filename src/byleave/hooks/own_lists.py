"""The agent's own deny and ask lists, as a layer of the policy that only tightens.

An agent matches its lists against the text of the call that it runs; a changed call has another text, so the lists
would have no say any more. They are read anew at every call that may be changed. What cannot be read is a `problem`:
then the call is not changed, and the agent's own matching holds.

How lists become rules, at least as strict as the agent reads them: `policy.agent_permissions`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from byleave.errors import ConfigErrors
from byleave.policy.agent_permissions import read_permissions
from byleave.policy.layers import ENCLOSING, Layer
from byleave.record import Record
from byleave.store.audit.records import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.user_files import ParseCache


class OwnLists(Record):
    """What the agent's own lists add to the policy; `problem` says which of them could not be read."""

    layers: tuple[Layer, ...] = ()
    problem: str = ""


def own_lists(agent: str, home: str, projects: Sequence[str], memory: ParseCache) -> OwnLists:
    """Return the lists of an agent, for a user's home and each directory that may be the agent's project."""
    found = [read_permissions(agent, home, project) for project in projects]
    rules = [rule for each in found for rule in each.deny] + [rule for each in found for rule in each.ask]
    unreadable = [sentence for each in found for sentence in each.unreadable]
    distinct = [rule for number, rule in enumerate(rules) if rule not in rules[:number]]
    if unreadable:
        return OwnLists((), f"its own permissions cannot be read: {unreadable[0]}")
    if not distinct:
        return OwnLists()
    tree = memory.recall(f"permissions of {agent}", encode(distinct).encode("ascii"), _parse)
    if tree is None:
        return OwnLists((), "its own permissions cannot be expressed as rules")
    return OwnLists((Layer(ENCLOSING, tree, trusted=False),))


def _parse(content: bytes) -> dict[str, Any] | None:
    """Return the rules in normal form, in front of all others; remembered, because this is slow."""
    from byleave.policy.parse import parse_tree  # heavy: only where the agent has lists

    try:
        made = parse_tree({"rules": json.loads(content)})
    except ConfigErrors:
        return None
    return {"tools": {}, "rules": {**made["rules"], "strategy": "prepend"}}
