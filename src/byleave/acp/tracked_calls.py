"""What an agent reported about its tool calls: a request for permission alone is often nearly empty.

A field that is absent, null or empty leaves the earlier value; `rawInput` is replaced as a whole by an update, and what
a request for permission says itself comes on top. Arguments that stood in an earlier content (kimi writes them there)
still count when the request comes with another content. What is kept is bounded: what had to be forgotten is not
understood, and so it needs a person's approval.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from byleave.protocol.json_members import repeats_a_name
from byleave.translate.call import ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any


MOST_CALLS = 1000
MOST_BYTES = 16 << 20
_LONGEST = 4 << 20  # bytes of an update; of a longer one nothing is kept, and what it was about is unclear
MOST_OVER = 10_000
ENDED = ("completed", "failed")
_REPORTED_KINDS = 8
_WHAT_FOR = "description"  # of a command: the agent's words on why it runs; they change nothing of what runs
_OWN_SHELL = "claudeCode"  # in `_meta`: an agent whose commands run wherever its one shell stands


class TrackedCall:
    """One call of one session, as reported so far; and what was asked about it."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self.kinds: list[str] = []  # every kind it was given
        self.title: str | None = None
        self.tool: str | None = None
        self.takes_directory = True
        self.raw: dict[str, Any] = {}
        self.has_input = False  # a request came with one, be it empty: a tool may take no arguments
        self.content: tuple[Any, ...] = ()
        self.locations: tuple[Any, ...] = ()
        self.size = 0
        self.is_unclear = False  # something was reported of it that cannot be read
        self.asked = False  # the agent asked for permission
        self.refused = False  # and did not get it
        self.is_open = False  # a person is still being asked
        self.asked_for: frozenset[tuple[str, ...]] = frozenset()  # commands and files, wherever they are
        self.covers: dict[tuple[str, ...], str | None] = {}  # what was allowed, of a file with the hash of its content

    def hear(self, update: Mapping[str, Any]) -> None:
        """Take in what an update says."""
        self._hear_names(update)
        if raw := _structured(update.get("rawInput")):
            self.raw = raw
        self.content = _listed(update.get("content")) or self.content
        self.locations = _listed(update.get("locations")) or self.locations

    def with_request(self, update: Mapping[str, Any], servers: Sequence[str] = ()) -> ToolCall:
        """Return the call with what a request for permission says about it on top; what is kept does not change."""
        asked = self.asked_with(update)
        if not asked.raw:
            asked.content += tuple(block for block in self._arguments() if block not in asked.content)
        return asked.call(servers)

    @property
    def has_arguments(self) -> bool:
        """Whether the agent reported what the call would do, besides its title and its places."""
        return bool(self.raw or self._arguments())

    def _arguments(self) -> tuple[Any, ...]:
        """Return the blocks of the content that say what would be done: texts that may be arguments, and diffs."""
        return tuple(block for block in self.content if _is_diff(block) or _may_be_arguments(block))

    def asked_with(self, update: Mapping[str, Any]) -> TrackedCall:
        """Return the call as it is on the screen when a request for permission is shown."""
        asked = TrackedCall()
        asked.kind, asked.kinds, asked.title, asked.tool = self.kind, list(self.kinds), self.title, self.tool
        asked.takes_directory = self.takes_directory
        asked.raw, asked.content, asked.locations = self.raw, self.content, self.locations
        asked.has_input = isinstance(update.get("rawInput"), dict)
        asked.hear({**update, "rawInput": {**self.raw, **_structured(update.get("rawInput"))}})
        return asked

    def call(self, servers: Sequence[str] = ()) -> ToolCall:
        """Return the call as it stands, in a session that has these MCP servers."""
        return ToolCall(
            kind=self.kind,
            title=self.title,
            raw=self.raw if self.raw or self.has_input else None,
            content=self.content,
            locations=self.locations,
            tool=self._served(servers) or self.tool,
            kinds=tuple(kind for kind in self.kinds if kind != self.kind),
            takes_directory=self.takes_directory,
        )

    def _served(self, servers: Sequence[str]) -> str | None:
        """Return the usual name of an MCP tool, where the agent joins server and tool in another way.

        Only of calls that are nothing else: a built-in tool may begin with what a server is called, too.
        """
        name = self.tool
        if self.kind not in (None, "other") or not name:
            return None
        found = [server for server in servers if name.startswith((f"mcp_{server}_", f"{server}_"))]
        if len(found) != 1:
            return None
        return f"mcp__{found[0]}__{name.removeprefix('mcp_').removeprefix(found[0]).lstrip('_')}"

    def _hear_names(self, update: Mapping[str, Any]) -> None:
        kind = update.get("kind")
        if isinstance(kind, str) and kind:
            self.kind = kind
            if kind not in self.kinds and len(self.kinds) < _REPORTED_KINDS:
                self.kinds.append(kind)
        title = update.get("title")
        self.title = title if isinstance(title, str) and title else self.title
        self.tool = _tool_name(update) or self.tool
        meta = update.get("_meta")
        if isinstance(meta, dict) and _OWN_SHELL in meta:
            self.takes_directory = False


class Screen:
    """What a person sees of a call while they are asked about it: a yes is for that.

    An update may say again what is shown, and of a command what it is for (opencode says that after it has asked);
    anything else is something new, also what was reported before the request.
    """

    def __init__(self, before: TrackedCall, request: Mapping[str, Any]) -> None:
        now = before.asked_with(request)
        self._names = {"title": now.title, "kind": now.kind}
        self._tool = now.tool
        self._raws = (now.raw, _structured(request.get("rawInput")))
        self._lists = {"content": now.content, "locations": now.locations}

    def is_changed_by(self, update: Mapping[str, Any]) -> bool:
        """Whether an update says something else than what is shown."""
        if any(update.get(name) and update[name] != known for name, known in self._names.items()):
            return True
        if (tool := _tool_name(update)) is not None and tool != self._tool:
            return True
        if (raw := _structured(update.get("rawInput"))) and not any(self._is_shown(raw, known) for known in self._raws):
            return True
        given = [(update[name], known) for name, known in self._lists.items() if update.get(name) is not None]
        return any(not _is_same(now, known) for now, known in given)

    def _is_shown(self, raw: dict[str, Any], known: dict[str, Any]) -> bool:
        """Whether an input is the one that is shown, but for what a command is for."""
        words = raw.get(_WHAT_FOR)
        is_command = self._names["kind"] == "execute" and isinstance(known.get("command"), str)
        if is_command and isinstance(words, str) and _WHAT_FOR not in known:
            raw = {name: value for name, value in raw.items() if name != _WHAT_FOR}
        return _is_same(raw, known)


class TrackedCalls:
    """The calls of one session that have not ended."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, TrackedCall] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()  # ended, or forgotten after having been asked about
        self._bytes = 0

    def hear(self, update: Mapping[str, Any], size: int) -> TrackedCall | None:
        """Take in an update of `size` bytes; return the call it is about, None if there is none, or it is over."""
        name = update.get("toolCallId")
        if not isinstance(name, str) or (name in self._over and update.get("sessionUpdate") != "tool_call"):
            return None
        call = self.get(name)
        if size > _LONGEST:
            call.is_unclear, size = True, 0
        else:
            call.hear(update)
        self._bytes += size
        call.size += size
        self._known.move_to_end(name)
        if update.get("status") in ENDED:
            self._forget(name)
            self._note_over(name)
        while len(self._known) > MOST_CALLS or (self._bytes > MOST_BYTES and self._known):
            self._forget(next(iter(self._known)))
        return call

    def pass_over(self, update: Mapping[str, Any]) -> None:
        """Take a call for one that is over, whatever is reported of it."""
        if isinstance(update.get("toolCallId"), str):
            self._note_over(update["toolCallId"])

    def get(self, name: str) -> TrackedCall:
        """Return a call by its id; one that was not reported yet is new."""
        call = self._known.get(name)
        if call is None:
            self._over.pop(name, None)
            call = self._known[name] = TrackedCall()
            if len(self._known) > MOST_CALLS:
                self._forget(next(iter(self._known)))
        return call

    def doubt_all(self) -> None:
        """Take everything that was reported so far for doubtful: something came that could not be read."""
        for call in self._known.values():
            call.is_unclear = True

    def cover(self, touches: Iterable[tuple[str, ...]], content: str | None = None) -> bool:
        """Whether one call that has not ended was allowed to do all of this when its agent asked; once only.

        `content` is the hash of what would be written: where that was shown, it has to be the same.
        """
        needed = list(dict.fromkeys(touches))
        for call in self._known.values():
            if needed and all(touch in call.covers and call.covers[touch] in (None, content) for touch in needed):
                for touch in needed:
                    del call.covers[touch]
                return True
        return False

    def uncover(self, touches: Iterable[tuple[str, ...]] | None = None) -> None:
        """Forget what calls were allowed to do: these things, since they were refused; or everything."""
        for call in self._known.values():
            if touches is None:
                call.covers.clear()
            else:
                call.covers = {touch: content for touch, content in call.covers.items() if touch not in touches}

    def _forget(self, name: str) -> None:
        call = self._known.pop(name)
        self._bytes -= call.size
        if call.asked:
            self._note_over(name)

    def _note_over(self, name: str) -> None:
        self._over[name] = None
        if len(self._over) > MOST_OVER:
            self._over.popitem(last=False)


def _structured(value: Any) -> dict[str, Any]:
    """Return a structured input as a table; text that is JSON counts, and anything else is kept under a name."""
    if isinstance(value, str) and value.strip().startswith("{"):
        value = _read(value) or value
    if isinstance(value, dict):
        return value
    return {} if value in (None, "", [], ()) else {"input": value}


def _read(text: str) -> Any:
    try:
        return None if repeats_a_name(text) else msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are written alike: true is not 1."""
    try:
        return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
    except (TypeError, ValueError, RecursionError):
        return False


def _is_diff(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "diff"


def _may_be_arguments(block: Any) -> bool:
    inner = block.get("content") if isinstance(block, dict) else None
    text = inner.get("text") if isinstance(inner, dict) else None
    return isinstance(text, str) and text.lstrip().startswith(("{", "```"))


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else ()


def _tool_name(update: Mapping[str, Any]) -> str | None:
    """Return what the agent calls its own tool: in its `_meta`, or doubled at the front of the call's id."""
    meta = update.get("_meta")
    if isinstance(meta, dict):
        for table in (meta, *(value for value in meta.values() if isinstance(value, dict))):
            for key in ("toolName", "tool_name"):
                if isinstance(table.get(key), str) and table[key]:
                    return str(table[key])
    name, mark, rest = str(update.get("toolCallId", "")).partition("__")
    return name if mark and name and rest.startswith(f"{name}_") else None
