"""The policy as it would be with one more rule: nothing is written, and everything else is as it is now.

The rule stands where it would be written: behind all that the user's own file says, or the file that is named. Where it
would be an error there, or would decide nothing, a person should not be offered it.
"""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, ConfigErrors
from byleave.guard.persist_rule import with_rule
from byleave.policy.dirs import CONFIG_FILE, real_path
from byleave.policy.layers import COMMAND_LINE, USER, Layer
from byleave.policy.parse import parse_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.core.action import Action
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace


class RuleTrial:
    """Tries rules in one workspace. `file` is where a rule would go; without it, the user's own file."""

    def __init__(self, workspace: Workspace, policy: LivePolicy, file: str | None = None) -> None:
        self.before = policy
        self._workspace = workspace
        self._file = None if file is None else real_path(file)

    def with_rule(self, rule: str) -> LivePolicy | None:
        """Return the policy with the rule; None if it cannot be used there."""
        layers = list(self.before.compiled.layers)
        place = self._place(layers)
        changed = layers[place]
        content = with_rule(changed.content, rule)
        try:
            tree = parse_file(content, changed.file or "")
            layers[place] = changed.replace(tree=tree, content=content, trusted=True)
            return self._workspace.compile_alone(layers)
        except (ByleaveError, ConfigErrors):
            return None

    def alone(self, rule: str) -> LivePolicy | None:
        """Return a policy of nothing but the rule; None for one that only completes what others say."""
        try:
            tree = tomllib.loads(rule)
            return self._workspace.compile_tree(tree) if set(tree) == {"rules"} else None
        except (ByleaveError, ConfigErrors, tomllib.TOMLDecodeError):
            return None

    def _place(self, layers: list[Layer]) -> int:
        """Return which layer the rule goes to; the user's own is made if there is none."""
        for place, layer in enumerate(layers):
            if self._file is not None and layer.path and real_path(layer.path) == self._file:
                return place
        for name in (COMMAND_LINE, USER):
            found = [place for place, layer in enumerate(layers) if layer.name == name]
            if found:
                return found[-1]
        own = os.path.join(self._workspace.homes.config, CONFIG_FILE)
        layers.insert(0, Layer(USER, parse_file(b"", own), own, b"", True, own))
        return 0


def allows(policy: LivePolicy, action: Action | Mapping[str, Any]) -> bool:
    """Whether a policy allows an action, if only in a confined run: agents that can confine commands have that yes."""
    ways = (False,) if policy.compiled.policy.shell is None else (False, True)
    return any(policy.decide(action, confines=confines).allowed for confines in ways)
