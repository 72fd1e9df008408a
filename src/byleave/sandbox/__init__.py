"""Run a program where it reaches only what the policy grants.

plan/         from the policy to the paths that a program sees, and what it may do with each
linux/        from a plan to the steps of the launcher: mounts, Landlock, seccomp, limits (pure)
native/       the launcher, in C, which does the steps and starts the program
confinement   makes plan and steps for one tool, and keeps them between starts
sandbox       starts programs: Sandbox for users of the library, ToolSandbox for byleave itself
diagnose/     what a traced program was refused, and which rule would allow it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byleave.sandbox.sandbox import Sandbox

__all__ = ["Sandbox"]


def __getattr__(name: str) -> object:
    if name != "Sandbox":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from byleave.sandbox.sandbox import Sandbox

    return Sandbox
