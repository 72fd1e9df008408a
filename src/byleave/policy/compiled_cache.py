"""Policies that were compiled before, for a process that is forked to answer one request.

Compiling takes longer than everything else that a decision needs. It is a function of the layers, and of what it looks
at meanwhile: where the paths of rules lead, which places are byleave's own, which mounts the user approved. Layers are
read anew for every request; a compiled policy is used again only if they are equal, and everything else that it rests
on is found to be the same now. Nothing rests on the time of a file.

Only the service keeps policies here (`keep`), in a process that decides nothing by them: what is looked up during
decisions is not in them yet. Elsewhere the cache is empty, and costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.policy.compile import compile_layers
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.core.policy import CompiledPolicy
    from byleave.policy.compile import Compiled
    from byleave.policy.context import CompileContext
    from byleave.policy.dirs import UserDirs
    from byleave.policy.layers import Layer

    Mounts = tuple[tuple[str, str], ...]

_MOST = 8  # of one process, which serves one directory
_NOT_KEPT = "sandbox"  # a table whose paths are resolved without a note of where they led


class _Kept(Record):
    root: str
    homes: UserDirs | None
    layers: tuple[Layer, ...]
    mounts: Mounts
    own: tuple[str, ...]
    compiled: Compiled


_kept: list[_Kept] = []
misses = [0]  # how often a policy was compiled, because none was kept


def compile_or_recall(layers: Sequence[Layer], context: CompileContext, mounts: Mounts) -> Compiled:
    """Return the policy of these layers, compiled now or before; `mounts` are those that the user approved."""
    for kept in _kept:
        same = kept.root == context.root.path and kept.homes == context.homes and kept.layers == tuple(layers)
        if same and kept.mounts == mounts and not _has_changed(kept, context):
            return kept.compiled
    misses[0] += 1
    return compile_layers(layers, context)


def keep(layers: Sequence[Layer], context: CompileContext, mounts: Mounts) -> CompiledPolicy | None:
    """Compile these layers, and keep the policy; one of the same workspace and files takes the place of the other.

    A layer that comes from no file is another one for each tool that it speaks of.

    Return a policy to ask questions, None if none is kept. It shares the rules with the one that is kept, and what the
    rules alone answer is known to both from then on. What it finds on the disk, it finds for itself.
    """
    if any(_NOT_KEPT in layer.tree for layer in layers):
        return None
    own = context.own_places(layers)
    made = _Kept(context.root.path, context.homes, tuple(layers), mounts, own, compile_layers(layers, context))
    files = _sources(layers)
    _kept[:] = [
        kept for kept in _kept if kept.root != made.root or kept.homes != made.homes or _sources(kept.layers) != files
    ][-_MOST + 1 :]
    _kept.append(made)
    return made.compiled.policy.replace(protected=compile_layers(layers, context).policy.protected)


def _sources(layers: Sequence[Layer]) -> list[str | list[str]]:
    return [layer.path or list(layer.tree.get("tools", ())) for layer in layers]


def _has_changed(kept: _Kept, context: CompileContext) -> bool:
    """Whether a path of a rule, or a place of ours, leads elsewhere now than when the policy was compiled."""
    compiled = kept.compiled
    if kept.own != context.own_places(kept.layers):
        return True
    if any(known != context.root.resolve_rule(path) for path, known in compiled.places.items()):
        return True
    return any(known != context.directory(path) for path, known in compiled.directories.items())
