"""Files that the editor opens for the agent, by their names, while confined processes may exchange names on the way.

The policy decides about the place that a path leads to; the editor opens the path a moment later, and follows whatever
stands there then. A request goes to the editor as it came, because the editor knows what is not saved yet. But:

- What the editor has read reaches the agent only if no name on the way was exchanged meanwhile (`path_witness`), or if
  it is what byleave itself reads at the place that the policy decided about.
- If a name on the way is exchanged while the editor writes, or the way never rests, byleave writes files itself for a
  while, at the very place that the policy decided about. The editor then sees a file that changed on disk.

Start at `OpenFiles.forward` and `OpenFiles.problem_with`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.acp.requests import READ, WRITE
from byleave.core.fs_rules import FsTarget
from byleave.errors import UnsafePathError
from byleave.guard.evaluation import Evaluation
from byleave.protocol.json_fast import FAST
from byleave.workspace.path_witness import PathWitness
from byleave.workspace.safe_open import Anchor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from byleave.acp.authorize import CallEvaluation
    from byleave.acp.requests import AgentRequest
    from byleave.protocol.jsonrpc import Envelope, Id

MOST_OPEN = 1000
RESTLESS = 60.0  # seconds for which byleave writes files itself
_LARGEST = 64 << 20  # bytes of a file that is compared
EXCHANGED = "the way to the file changed while the editor read it, so that it may be another file: read it again"
NOTICE = "the way to a file changed while the editor wrote it; byleave writes files itself for the next minute"


class WatchedPath(Struct, frozen=True):
    """A path before the policy decides about it: what it looked like, and in which workspace."""

    witness: PathWitness
    root: str


class _OpenFile(Struct, frozen=True):
    """A request that the editor has: how the way looked, and where the policy found that it leads."""

    request: AgentRequest
    watched: WatchedPath
    relative: str | None


class OpenFiles:
    """What the editor was asked to read or write, and has not answered yet."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[Id, _OpenFile] = {}
        self._restless_until = 0.0

    def __contains__(self, id_: object) -> bool:
        return id_ in self._open

    @property
    def are_many(self) -> bool:
        return len(self._open) >= MOST_OPEN

    def forward(
        self, id_: Id | None, request: AgentRequest, evaluation: CallEvaluation, watched: WatchedPath
    ) -> Any | None:
        """Note that a request goes to the editor; or do it in its place, and return the result for the agent."""
        relative = _decided_place(evaluation)
        restless = self._now() < self._restless_until or not watched.witness.sure
        if request.method == WRITE and restless and relative is not None:
            content = request.params.get("content")
            if isinstance(content, str):
                _write(watched.root, relative, content)
                return {}
        if id_ is not None:
            self._open[id_] = _OpenFile(request, watched, relative)
        return None

    def problem_with(self, envelope: Envelope) -> tuple[str, str]:
        """Say why the editor's answer must not reach the agent, and what the user should know; "" where it may."""
        held = self._open.pop(envelope.id, None) if envelope.id is not None else None
        if held is None or envelope.error is not None:
            return "", ""
        witness = held.watched.witness
        if held.request.method == WRITE:
            if not witness.sure or witness.is_unchanged_above():
                return "", ""
            self._restless_until = self._now() + RESTLESS
            return "", NOTICE
        if witness.is_unchanged() or _is_decided_content(held, envelope):
            return "", ""
        return EXCHANGED, ""


def watched_path(request: AgentRequest, root: str) -> WatchedPath | None:
    """Return what the way to the file of a request looks like now; None if it names no file of its own."""
    path = request.params.get("path")
    if request.method not in (READ, WRITE) or not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        return None
    return WatchedPath(PathWitness.take(path, root), root)


def _decided_place(evaluation: CallEvaluation) -> str | None:
    """Return where the policy found that the path leads, from the root; None if that is outside."""
    outcome = evaluation.outcome
    if isinstance(outcome, Evaluation):
        places = [place for permit in outcome.permits for place in permit.places]
    else:
        places = [place for question in outcome.questions for place in question.resolved.places]
    relative = {place.relative for place in places if isinstance(place, FsTarget)}
    return relative.pop() if len(relative) == 1 and len(places) == 1 else None


def _write(root: str, relative: str, content: str) -> None:
    """Write a file as the policy decided: at that place, and through no link."""
    parent = relative.rpartition("/")[0]
    with Anchor.open(root) as anchor:
        if parent:
            anchor.make_directories(parent)
        anchor.write_bytes(relative, content.encode(), create=True, update=True)


def _is_decided_content(held: _OpenFile, envelope: Envelope) -> bool:
    """Whether the editor's answer is what stands at the place that the policy decided about."""
    if held.relative is None:
        return False
    try:
        result = FAST.value(envelope.result)
        with Anchor.open(held.watched.root) as anchor:
            text = anchor.read_bytes(held.relative, limit=_LARGEST).decode()
    except (OSError, UnsafePathError, ValueError, RecursionError):
        return False
    content = result.get("content") if isinstance(result, dict) else None
    line, limit = held.request.params.get("line"), held.request.params.get("limit")
    lines = text.splitlines(keepends=True)
    begin = line - 1 if isinstance(line, int) and line > 0 else 0
    selected = "".join(lines[begin : begin + limit] if isinstance(limit, int) and limit >= 0 else lines[begin:])
    return isinstance(content, str) and content.rstrip("\r\n") == selected.rstrip("\r\n")
