"""Whether a command can be confined here: asked before a command is allowed because it runs confined.

Cheap where it is asked at every call: what this machine can do is found out once, by having each mechanism do
everything but start a program, and remembered until the machine starts anew (`machine_stamp`).
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from byleave.errors import ByleaveError, StateError
from byleave.sandbox.machine_stamp import machine_stamp
from byleave.text import shown
from byleave.user_files import make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace

_REMEMBERED = "confines"
_LARGEST = 1 << 14
_MOST = 8  # sandboxes of agents, and none, that are remembered at once
_TRY_AGAIN = 300.0  # seconds; a person may have changed the machine's settings meanwhile
_NAMESPACES, _BWRAP, _LANDLOCK = "namespaces", "bwrap", "landlock"  # as in sandbox.linux.backends


def can_confine(policy: LivePolicy, workspace: Workspace, agent: str | None = None) -> str | None:
    """Return None if the commands of an agent can be confined here as the policy says, else why not, in a sentence.

    Where namespaces work, every policy can be held. Elsewhere a plan is made, and what is there has to hold it.
    """
    backend, problem = _known(workspace.homes.memory)
    if backend == _NAMESPACES:
        return None
    if not backend:
        return problem
    from byleave.core.access import SHELL_TOOL
    from byleave.sandbox.confinement import Confinement, SandboxOptions

    try:
        options = SandboxOptions(reserves_names=False, agent=agent)
        with Confinement(workspace, policy, SHELL_TOOL, options) as confinement:
            confinement.prepare(None, os.environ.get("PATH", os.defpath))
    except (ByleaveError, OSError) as error:
        return _sentence(error)
    return None


def machine_problem(memory: str) -> str:
    """Return why not every policy can be held on this machine, "" if it can; `memory` is the user's cache directory."""
    backend, problem = _known(memory)
    return "" if backend in (_NAMESPACES, _BWRAP) else problem


def _known(memory: str) -> tuple[str, str]:
    """Return the best mechanism that works here, "" if none does, and why no better one does."""
    path, stamp = os.path.join(memory, _REMEMBERED), machine_stamp()
    lines: list[str] = []
    try:
        lines = (read_private(path, limit=_LARGEST) or b"").decode("utf-8", "replace").splitlines()
        recent = time.time() - os.stat(path).st_mtime < _TRY_AGAIN
        for line in lines:
            known, _, found = line.partition(" ")
            backend, _, problem = found.partition(" ")
            if known == stamp and (recent or backend == _NAMESPACES):
                return backend, problem
    except (StateError, OSError):
        pass
    backend, problem = _try_out(memory)
    others = [line for line in lines if not line.startswith(stamp)][: _MOST - 1]
    try:
        make_private_directory(memory)
        content = "\n".join([f"{stamp} {backend} {problem}", *others])
        write_private(path, content.encode("utf-8", "replace"), durable=False)
    except (StateError, OSError):  # it is found out again
        pass
    return backend, problem


def _try_out(memory: str) -> tuple[str, str]:
    from byleave.sandbox import host
    from byleave.sandbox.linux.backends import BACKENDS, Machine, probe
    from byleave.sandbox.native.build import find_launcher

    obstacle = host.obstacle_on(sys.platform)
    if obstacle is not None:
        return "", obstacle
    why = ""
    try:
        machine = Machine(host.this_host(namespaces=True), host.base_view(), find_launcher(memory))
        for backend in BACKENDS:
            tried = probe(backend, machine)
            if tried.works:
                return backend, why
            why = why or _sentence(tried.why)
    except (ByleaveError, OSError) as error:
        return "", _sentence(error)
    return "", why


def _sentence(said: object) -> str:
    """Return what was said in one line; what a person can do about it stays."""
    text = f"{said.problem}; {said.hint}" if isinstance(said, ByleaveError) else str(said).partition("\n")[0]
    return shown(" ".join(text.split()))
