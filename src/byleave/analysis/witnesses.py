"""A complete set of witnesses: actions such that whatever some policies say to any action, they say to one of these.

The boundaries of rules are such a set. Each family says in its own module why: files (`fs_witnesses`), the network
(`net_witnesses`), variables (`env_witnesses`), calls (`call_witnesses`). Complete means: for every action of the
family there is a witness of the same kind and tool to which each of the policies gives the same decision. So two
policies that agree on the witnesses agree, and a rule that decides none of them decides nothing. Where a set would
grow beyond bounds, or rests on a regular expression that no example was found for, `exact` is False. Commands have no
such set.

Witnesses are decided by `core.decide`, as every action is, but the disk is not asked where their paths lead: a
witness is at the place that it names, whether or not something is there now, so that a link laid on the disk changes
nothing. Paths of the rules themselves were resolved on the disk when the policy was compiled.

Start at `witnesses` and `decide_witness`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.analysis.call_witnesses import call_witnesses
from byleave.analysis.env_witnesses import env_witnesses
from byleave.analysis.fs_witnesses import fs_witnesses
from byleave.analysis.net_witnesses import net_witnesses
from byleave.analysis.rule_atoms import AGENTS, ENV, FS, NET, Atoms, Witness, WitnessSet
from byleave.core.decide import decide
from byleave.core.decision import BUILT_IN, DENY, RuleRef, Verdict
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.policy import CompiledPolicy

__all__ = ["EXACT", "Witness", "WitnessSet", "decide_witness", "witnesses"]

EXACT = (FS, NET, ENV, AGENTS)


def witnesses(policies: Sequence[CompiledPolicy], root: str, family: str) -> WitnessSet:
    """Return the witnesses of a family for these policies, taken together, of the workspace at `root`."""
    atoms = Atoms(policies)
    return fs_witnesses(atoms, root) if family == FS else _MAKERS[family](atoms)


_MAKERS = {NET: net_witnesses, ENV: env_witnesses, AGENTS: call_witnesses}


def decide_witness(policy: CompiledPolicy, witness: Witness) -> Verdict:
    """Return what a policy says to a witness; a tool that is not configured can do nothing."""
    tool = None if witness.family == AGENTS else getattr(witness.action, "tool", None)
    if tool is not None and tool not in policy.views[0].tools:
        ref = RuleRef(f"the tool {shown(tool)} is not configured", BUILT_IN, DENY)
        return Verdict(DENY, f"the tool {shown(tool)} is not configured", "denied", (ref,))
    return decide(policy, witness.action, witness.places)
