"""What `policy lint` finds, and how far a rule for good reaches: worked out when a page asks for it.

Both take up to some seconds, so that they are done in a thread of their own, with a policy of their own. A policy that
has not changed is looked at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.answers import action_key
from byleave.analysis.lint import lint, surroundings
from byleave.analysis.over_grant import OverGrant, over_grant, plain_action, trials
from byleave.analysis.rule_trial import RuleTrial
from byleave.errors import StateError
from byleave.text import shown, speakable
from byleave.user_files import digest
from byleave.workspace.listing import files_below

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from byleave.dashboard.machine import KnownWorkspace, Machine
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.store.questions import AskedAction

    Tree = dict[str, Any]

MOST_LINTED = 500  # rules: with them it takes some ten seconds
MOST_FINDINGS = 200  # that a page lists
_MOST_KEPT = 64


class PolicyFindings:
    """Findings about the policies of this machine's workspaces. Used by one thread."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._linted: dict[str, Tree] = {}
        self._reaches: dict[tuple[str, str], Tree] = {}

    def lint(self, of: KnownWorkspace) -> Tree:
        """Return the findings, the gravest first; `left_out` says how many more there are, or that it was too much."""
        workspace = self._workspace(of)
        policy = workspace.load_as_written()
        key = _key(of, policy)
        if key not in self._linted:
            _make_room(self._linted)
            self._linted[key] = self._lint(workspace, policy)
        return self._linted[key]

    def _lint(self, workspace: Workspace, policy: LivePolicy) -> Tree:
        table = policy.compiled.policy.views[0].rules
        if table is not None and len(table.rules) > MOST_LINTED:
            problem = f"there are more than {MOST_LINTED} rules: `byleave policy lint` says what it finds"
            return {"findings": [], "left_out": 0, "problem": problem}
        found = lint(policy, surroundings(workspace, policy, disk=True))
        shown_ones = [_shown(each.tree) for each in found[:MOST_FINDINGS]]
        return {"findings": shown_ones, "left_out": max(0, len(found) - MOST_FINDINGS), "problem": ""}

    def reach(self, of: KnownWorkspace, session: str, rule: str, asked: Sequence[AskedAction]) -> Tree:
        """Return what a rule would allow beside the actions that it is offered for, as `policy learn` counts it."""
        workspace = self._workspace(of)
        policy = workspace.load(session=session)
        key = (_key(of, policy), rule)
        if key not in self._reaches:
            _make_room(self._reaches)
            trial = RuleTrial(workspace, policy)
            after = trial.with_rule(rule)
            if after is None:
                raise StateError("the rule cannot be tried", hint="look at it again")
            own = {action_key(plain_action(each.action)) for each in asked}
            tried = trials(rule, files=files_below(workspace.root.path))
            found: OverGrant = over_grant(rule, tried, before=policy, after=after, seen=own)
            examples = [shown(each) for each in found.examples]
            self._reaches[key] = {"over_grant": {**found.tree, "examples": examples}}
        return self._reaches[key]

    def _workspace(self, of: KnownWorkspace) -> Workspace:
        found = self._machine.workspace(of)
        if found is None:
            raise StateError("the workspace is not there any more", hint="choose another one")
        return found


def _key(of: KnownWorkspace, policy: LivePolicy) -> str:
    layers = policy.compiled.layers
    return digest(b"\0".join([of.directory.encode("utf-8", "surrogateescape"), *[layer.content for layer in layers]]))


def _shown(tree: Tree) -> Tree:
    """Return a finding whose texts are escaped; `rule` and `source` find its row in the page."""
    found: Tree = speakable({name: shown(value) if isinstance(value, str) else value for name, value in tree.items()})
    return found


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()
