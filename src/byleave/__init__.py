"""byleave: nothing touches your machine but by your leave.

    policy = byleave.load_policy(root)
    verdict = policy.decide({"kind": "read", "path": "src/lib.rs", "tool": "fs_read_file"})
    print(byleave.explain(verdict))

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from byleave.cli.terminal import TerminalAsker
    from byleave.core.action import Action
    from byleave.core.decision import Decision, RuleRef, Verdict, explain
    from byleave.errors import ByleaveError, ConfigError, ConfigErrors, InputError
    from byleave.guard.evaluation import Evaluation as Answer
    from byleave.guard.evaluation import Who
    from byleave.guard.guard import Guard
    from byleave.guard.open_guard import open_guard
    from byleave.policy.live_policy import LivePolicy as Policy
    from byleave.policy.load import compile_policy, load_policy
    from byleave.ruleset import Matcher, Operation, Outcome, Rule, Ruleset
    from byleave.shell.reader import read_command

_HOMES = {
    "Action": "byleave.core.action",
    "Answer": "byleave.guard.evaluation",
    "Guard": "byleave.guard.guard",
    "TerminalAsker": "byleave.cli.terminal",
    "Who": "byleave.guard.evaluation",
    "open_guard": "byleave.guard.open_guard",
    "Matcher": "byleave.ruleset",
    "Operation": "byleave.ruleset",
    "Outcome": "byleave.ruleset",
    "Rule": "byleave.ruleset",
    "Ruleset": "byleave.ruleset",
    "read_command": "byleave.shell.reader",
    "ByleaveError": "byleave.errors",
    "ConfigError": "byleave.errors",
    "ConfigErrors": "byleave.errors",
    "Decision": "byleave.core.decision",
    "InputError": "byleave.errors",
    "Policy": "byleave.policy.live_policy",
    "RuleRef": "byleave.core.decision",
    "Verdict": "byleave.core.decision",
    "compile_policy": "byleave.policy.load",
    "explain": "byleave.core.decision",
    "load_policy": "byleave.policy.load",
}

# Public names that the code itself has better words for.
_RENAMED = {"Answer": "Evaluation", "Policy": "LivePolicy"}

__all__ = [
    "Action",
    "Answer",
    "ByleaveError",
    "ConfigError",
    "ConfigErrors",
    "Decision",
    "Guard",
    "InputError",
    "Matcher",
    "Operation",
    "Outcome",
    "Policy",
    "Rule",
    "RuleRef",
    "Ruleset",
    "TerminalAsker",
    "Verdict",
    "Who",
    "compile_policy",
    "explain",
    "load_policy",
    "open_guard",
    "read_command",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'byleave' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), _RENAMED.get(name, name))


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
