"""What a configured command brings along: the files that it names, and the variables that its program may have.

A tool or server reads its own program, whatever its access says of the workspace. Nothing is taken through a link in
the workspace: a program that may write there would choose by it what is shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.action import EnvAction
from byleave.core.decision import ALLOW
from byleave.core.env_rules import MINIMAL_ENVIRONMENT
from byleave.core.fs_rules import is_under
from byleave.sandbox.linux.steps import minimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace


class CommandFiles:
    """The files that the words of a command name; never one of byleave's own."""

    def __init__(self, workspace: Workspace, policy: LivePolicy, command: Sequence[str]) -> None:
        self._root = workspace.root
        self._own = workspace.own_places(policy.compiled.layers)
        self._command = [word for word in command if "\0" not in word]

    def outside(self) -> Iterator[str]:
        """Yield the files outside of the workspace. The program itself is found by the sandbox."""
        for word in self._command[1:]:
            real = os.path.realpath(word)
            named_outside = os.path.isabs(word) and self._root.relative(os.path.normpath(word)) is None
            if named_outside and os.path.isfile(real) and self._root.relative(real) is None and not self._is_own(real):
                yield word

    def inside(self) -> Iterator[str]:
        """Yield the files of the workspace, as absolute paths."""
        for word in self._command:
            path = os.path.normpath(os.path.join(self._root.path, word))
            direct = self._root.relative(path) and os.path.realpath(path) == path
            if direct and os.path.isfile(path) and not self._is_own(path):
                yield path

    def environment(self) -> str | None:
        """Return the virtual environment that the program lies in, if that is part of the workspace."""
        if not self._command or "/" not in self._command[0]:
            return None
        program = os.path.normpath(os.path.join(self._root.path, self._command[0]))
        prefix = os.path.dirname(os.path.dirname(program))
        direct = self._root.relative(prefix) and os.path.realpath(prefix) == prefix
        return prefix if direct and os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else None

    def _is_own(self, path: str) -> bool:
        return any(is_under(path, place) for place in self._own)


def usual_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every program gets."""
    return dict(minimal(environment, MINIMAL_ENVIRONMENT))


def readable_variables(environment: Mapping[str, str], policy: LivePolicy, tool: str) -> dict[str, str]:
    """Return the usual variables, and those that a rule lets the tool read."""
    usual = usual_variables(environment)
    return {
        name: value
        for name, value in environment.items()
        if name in usual or ("=" not in name and policy.decide(EnvAction(name, tool)).decision is ALLOW)
    }
