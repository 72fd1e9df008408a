"""Run a program where it reaches only what the policy grants.

`plan` and `view` say what that is (pure), `linux`, `filters` and `tape` how this kernel is told (pure), `box` does it.
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
