"""Remove what lint has found to be without effect from the files, if then every decision is the same.

Only whole rules and entries are removed: those that are said twice, that never decide, or that change nothing. Before a
file counts as mended, the policy is compiled from the new text and asked everything that the old one was: the complete
witnesses of files, network, variables and calls, and the command lines of the corpus. Pure but for `compiled`.

Start at `plan_fix`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.corpus import example_commands
from byleave.analysis.lint_commands import agents_of, decide_with
from byleave.analysis.lint_rules import plain_line
from byleave.analysis.witnesses import EXACT, decide_witness, witnesses
from byleave.errors import ConfigErrors
from byleave.policy.layers import COMMAND_LINE, LOCAL, PROJECT, USER
from byleave.policy.parse import parse_file
from byleave.policy.toml_removal import without_items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.analysis.findings import Finding
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy

FIXED_LAYERS = (USER, PROJECT, LOCAL, COMMAND_LINE)
_MOST_ALONE = 50  # findings that are tried one by one, where all of them together change a decision


class FixPlan(Struct, frozen=True):
    """The layers as they would be, the findings that are gone then, and those that have to stay, with the reason."""

    layers: tuple[Layer, ...]
    fixed: tuple[Finding, ...] = ()
    left: tuple[tuple[Finding, str], ...] = ()

    def changed(self, before: Sequence[Layer]) -> list[tuple[Layer, Layer]]:
        """Return each layer whose file changes, as it is and as it would be."""
        return [(old, new) for old, new in zip(before, self.layers, strict=True) if old.content != new.content]


def plan_fix(
    policy: LivePolicy, findings: Sequence[Finding], compiled: Callable[[Sequence[Layer]], LivePolicy]
) -> FixPlan:
    """Return the files without what can be removed. `compiled` makes the policy of other layers in this workspace."""
    layers = tuple(policy.compiled.layers)
    wanting = [finding for finding in findings if finding.place is not None]
    possible = [finding for finding in wanting if _is_ours(layers, finding)]
    left = [(finding, "its file is not one that byleave changes") for finding in wanting if finding not in possible]
    whole = _tried(policy, layers, possible, compiled)
    if whole is not None or not possible:
        return FixPlan(whole if whole is not None else layers, tuple(possible), tuple(left))
    kept: list[Finding] = []
    best = layers
    for finding in possible[:_MOST_ALONE]:
        tried = _tried(policy, layers, [*kept, finding], compiled)
        if tried is None:
            left.append((finding, "a decision would change, or the file cannot be changed there"))
        else:
            kept.append(finding)
            best = tried
    left += [(finding, "too many to try one by one: run it again") for finding in possible[_MOST_ALONE:]]
    return FixPlan(best, tuple(kept), tuple(left))


def _is_ours(layers: Sequence[Layer], finding: Finding) -> bool:
    layer = None if finding.place is None else layers[finding.place.layer]
    return layer is not None and layer.name in FIXED_LAYERS and (layer.file or "").endswith(".toml")


def _tried(
    policy: LivePolicy,
    layers: tuple[Layer, ...],
    findings: Sequence[Finding],
    compiled: Callable[[Sequence[Layer]], LivePolicy],
) -> tuple[Layer, ...] | None:
    """Return the layers without these findings; None where that cannot be, or changes a decision."""
    changed = list(layers)
    for number, layer in enumerate(layers):
        places = [each.place.at for each in findings if each.place is not None and each.place.layer == number]
        if not places:
            continue
        text = without_items(layer.content.decode(), places)
        if text is None:
            return None
        content = text.encode()
        try:
            changed[number] = layer.replace(content=content, tree=parse_file(content, layer.file or ""))
        except ConfigErrors:
            return None
    try:
        after = compiled(changed)
    except ConfigErrors:
        return None
    return tuple(changed) if same_decisions(policy, after) else None


def same_decisions(before: LivePolicy, after: LivePolicy) -> bool:
    """Whether two policies of one workspace decide everything alike, as far as that can be known."""
    old, new = before.compiled.policy, after.compiled.policy
    for family in EXACT:
        for witness in witnesses([old, new], before.root.path, family).witnesses:
            if decide_witness(old, witness).decision is not decide_witness(new, witness).decision:
                return False
    rules = [
        rule for policy in (old, new) for view in policy.views if view.rules is not None for rule in view.rules.rules
    ]
    one, other = decide_with(before), decide_with(after)
    plain = dict.fromkeys(line for rule in rules if (line := plain_line(rule.matcher)))
    unread = [f"{line} $(" for line in plain]  # a line that cannot be read is decided by its words alone
    for agent in agents_of(rules):
        for line in (*example_commands(), *plain, *unread):
            for confines in (False, True):
                first, second = one(line, agent, confines), other(line, agent, confines)
                if (first.decision, first.sandbox) != (second.decision, second.sandbox):
                    return False
    return True
