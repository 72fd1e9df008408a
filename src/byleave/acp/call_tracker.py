"""What an agent told about its tool calls, per session and call: a request for permission alone is often nearly empty.

A field that is absent, null or empty leaves the earlier value; `rawInput` is replaced as a whole by an update, and what
a request for permission says itself comes on top. Arguments that stood in an earlier content (kimi writes them there)
still count when the request comes with another content. What is kept is bounded: what had to be forgotten is not
understood, and so is asked.

Listening to what the agent tells about its tool calls.

So that its requests can be understood, and what it did without asking is recorded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from byleave.acp.odd_lines import decoded_somehow, kind_of_update
from byleave.core.action import OtherAction
from byleave.guard.guard import OBSERVED
from byleave.protocol.json_members import repeats_a_name
from byleave.translate.call import ToolCall, as_own_question, is_own_question
from byleave.translate.names import is_thought

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from byleave.acp.authorize import CallAuthorizer, Placed
    from byleave.acp.requests import PermissionRequest
    from byleave.acp.sessions import AcpSession, AcpSessions
    from byleave.core.action import Action
    from byleave.protocol.jsonrpc import Envelope
    from byleave.translate.call import Translation


MOST_CALLS = 1000
MOST_BYTES = 16 << 20
_LONGEST = 4 << 20  # bytes of an update; of a longer one nothing is kept, and what it was about is unclear
MOST_OVER = 10_000
ENDED = ("completed", "failed")
_TOLD_KINDS = 8
_WHAT_FOR = "description"  # of a command: the agent's words on why it runs; they change nothing of what runs
_OWN_SHELL = "claudeCode"  # in `_meta`: an agent whose commands run wherever its one shell stands


class TrackedCall:
    """One call of one session, as told so far; and what was asked about it."""

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
        self.is_unclear = False  # something was told of it that cannot be read
        self.asked = False  # the agent asked for permission
        self.refused = False  # and did not get it
        self.is_open = False  # somebody is still being asked
        self.asked_for: frozenset[tuple[str, ...]] = frozenset()  # commands and files, wherever they are
        self.covers: dict[tuple[str, ...], str | None] = {}  # what was allowed, of a file with the hash of its content

    def hear(self, told: Mapping[str, Any]) -> None:
        """Take in what an update says."""
        self._hear_names(told)
        if raw := _structured(told.get("rawInput")):
            self.raw = raw
        self.content = _listed(told.get("content")) or self.content
        self.locations = _listed(told.get("locations")) or self.locations

    def with_request(self, told: Mapping[str, Any], servers: Sequence[str] = ()) -> ToolCall:
        """Return the call with what a request for permission says about it on top; what is kept does not change."""
        asked = self.asked_with(told)
        if not asked.raw:
            asked.content += tuple(block for block in self._arguments() if block not in asked.content)
        return asked.call(servers)

    @property
    def tells_arguments(self) -> bool:
        """Whether something was told of what the call would do, besides its title and its places."""
        return bool(self.raw or self._arguments())

    def _arguments(self) -> tuple[Any, ...]:
        """Return the blocks of the content that say what would be done: texts that may be arguments, and diffs."""
        return tuple(block for block in self.content if _is_diff(block) or _may_be_arguments(block))

    def asked_with(self, told: Mapping[str, Any]) -> TrackedCall:
        """Return the call as it is on the screen when a request for permission is shown."""
        asked = TrackedCall()
        asked.kind, asked.kinds, asked.title, asked.tool = self.kind, list(self.kinds), self.title, self.tool
        asked.takes_directory = self.takes_directory
        asked.raw, asked.content, asked.locations = self.raw, self.content, self.locations
        asked.has_input = isinstance(told.get("rawInput"), dict)
        asked.hear({**told, "rawInput": {**self.raw, **_structured(told.get("rawInput"))}})
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

    def _hear_names(self, told: Mapping[str, Any]) -> None:
        kind = told.get("kind")
        if isinstance(kind, str) and kind:
            self.kind = kind
            if kind not in self.kinds and len(self.kinds) < _TOLD_KINDS:
                self.kinds.append(kind)
        title = told.get("title")
        self.title = title if isinstance(title, str) and title else self.title
        self.tool = _tool_name(told) or self.tool
        meta = told.get("_meta")
        if isinstance(meta, dict) and _OWN_SHELL in meta:
            self.takes_directory = False


class Screen:
    """What a person sees of a call while they are asked about it: a yes is for that.

    An update may say again what is shown, and of a command what it is for (opencode says that after it has asked);
    anything else is something new, also what was told before the request.
    """

    def __init__(self, before: TrackedCall, request: Mapping[str, Any]) -> None:
        now = before.asked_with(request)
        self._names = {"title": now.title, "kind": now.kind}
        self._tool = now.tool
        self._raws = (now.raw, _structured(request.get("rawInput")))
        self._lists = {"content": now.content, "locations": now.locations}

    def is_changed_by(self, told: Mapping[str, Any]) -> bool:
        """Whether an update says something else than what is shown."""
        if any(told.get(name) and told[name] != known for name, known in self._names.items()):
            return True
        if (tool := _tool_name(told)) is not None and tool != self._tool:
            return True
        if (raw := _structured(told.get("rawInput"))) and not any(self._is_shown(raw, known) for known in self._raws):
            return True
        given = [(told[name], known) for name, known in self._lists.items() if told.get(name) is not None]
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

    def hear(self, told: Mapping[str, Any], size: int) -> TrackedCall | None:
        """Take in an update of `size` bytes; return the call it is about, None if there is none, or it is over."""
        name = told.get("toolCallId")
        if not isinstance(name, str) or (name in self._over and told.get("sessionUpdate") != "tool_call"):
            return None
        call = self.get(name)
        if size > _LONGEST:
            call.is_unclear, size = True, 0
        else:
            call.hear(told)
        self._bytes += size
        call.size += size
        self._known.move_to_end(name)
        if told.get("status") in ENDED:
            self._forget(name)
            self._note_over(name)
        while len(self._known) > MOST_CALLS or (self._bytes > MOST_BYTES and self._known):
            self._forget(next(iter(self._known)))
        return call

    def pass_over(self, told: Mapping[str, Any]) -> None:
        """Take a call for one that is over, whatever is told of it."""
        if isinstance(told.get("toolCallId"), str):
            self._note_over(told["toolCallId"])

    def get(self, name: str) -> TrackedCall:
        """Return a call by its id; one that nobody spoke of yet is new."""
        call = self._known.get(name)
        if call is None:
            self._over.pop(name, None)
            call = self._known[name] = TrackedCall()
            if len(self._known) > MOST_CALLS:
                self._forget(next(iter(self._known)))
        return call

    def doubt_all(self) -> None:
        """Take everything that was told so far for doubtful: something came that could not be read."""
        for call in self._known.values():
            call.is_unclear = True

    def cover(self, wanted: Iterable[tuple[str, ...]], content: str | None = None) -> bool:
        """Whether one call that has not ended was allowed to do all of this when its agent asked; once only.

        `content` is the hash of what would be written: where that was shown, it has to be the same.
        """
        needed = list(dict.fromkeys(wanted))
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


def _tool_name(told: Mapping[str, Any]) -> str | None:
    """Return what the agent calls its own tool: in its `_meta`, or doubled at the front of the call's id."""
    meta = told.get("_meta")
    if isinstance(meta, dict):
        for table in (meta, *(value for value in meta.values() if isinstance(value, dict))):
            for key in ("toolName", "tool_name"):
                if isinstance(table.get(key), str) and table[key]:
                    return str(table[key])
    name, mark, rest = str(told.get("toolCallId", "")).partition("__")
    return name if mark and name and rest.startswith(f"{name}_") else None


_ABOUT_CALLS = ("tool_call", "tool_call_update")
_DEEDS = ("command", "write", "delete")
_UNREAD = "something was told about this call that cannot be read"
_MORE_THAN_THOUGHTS = "it says that it thinks, and brings more than thoughts"
_SOMETHING_ELSE = "the request names something else than its call did before"


class UnreadError(Exception):
    """An update that may be about a call, and cannot be read."""


class CallTracker:
    """What the agents of all sessions have told so far. Nothing of it is changed or held up."""

    def __init__(self, sessions: AcpSessions, authorizer: CallAuthorizer) -> None:
        self._sessions = sessions
        self._authorizer = authorizer

    def hear(self, envelope: Envelope, line: bytes) -> tuple[str, dict[str, Any]] | None:
        """Remember what an update tells of a tool call; return its session, and what it tells.

        Nearly all are pieces of text, and not decoded any further. One that cannot be read is an error.
        """
        kind = kind_of_update(envelope)
        if kind is not None and kind not in _ABOUT_CALLS:
            return None
        params = None if envelope.params is None else decoded_somehow(envelope.params)
        update = params.get("update") if isinstance(params, dict) else None
        name = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(update, dict) or not isinstance(name, str):
            raise UnreadError
        if update.get("sessionUpdate") not in _ABOUT_CALLS:
            return None
        self._hear_call(name, update, len(line))
        return name, update

    def doubt_all(self) -> None:
        """Take all that was told so far for doubtful: something came that may be about it, and cannot be read."""
        for session in self._sessions.everyone():
            session.calls.doubt_all()

    def _hear_call(self, name: str, update: dict[str, Any], size: int) -> None:
        session = self._sessions.get(name)
        if session.is_replaying:  # neither done now, nor by a shell that is still there
            session.calls.pass_over(update)
            return
        call = session.calls.hear(update, size)
        if call is None:
            return
        if update.get("rawInput"):
            self._understand(session, call, str(update.get("toolCallId")))
        if update.get("status") in ENDED:
            self._hear_end(name, call, update)
            session.directories.end(str(update.get("toolCallId")))

    def _understand(
        self, session: AcpSession, call: TrackedCall, name: str, told: Mapping[str, Any] | None = None
    ) -> tuple[Translation, Placed]:
        """Return what a call of a session means, and note where its shell may stand afterwards."""
        as_told = call.call(session.servers) if told is None else call.with_request(told, session.servers)
        meant, placed = self._authorizer.understand(as_told, session)
        if call.is_unclear or _only_says_that_it_thinks(meant, as_told):
            problem = _UNREAD if call.is_unclear else _MORE_THAN_THOUGHTS
            meant = meant.replace(understood=False, problem=meant.problem or problem)
        if told is not None and is_own_question(as_told, meant):
            return as_own_question(meant), placed
        session.directories.hear(meant, name)
        return session.directories.spread(meant, name), placed

    def _hear_end(self, name: str, call: TrackedCall, update: dict[str, Any]) -> None:
        """Record what an agent did without asking, as far as it told; or in spite of an answer, or before one."""
        session = self._sessions.get(name)
        meant, placed = self._understand(session, call, str(update.get("toolCallId")))
        touched = self._authorizer.touches(meant, placed.guard)
        mark = _mark(call, {touch for touch in touched if touch[0] in _DEEDS}, str(update.get("status")))
        if mark is None or all(getattr(action, "name", None) == "think" for action in meant.actions):
            return
        told = {"event": OBSERVED, "tool_call": update.get("toolCallId"), "editor_session": name}
        told["outcome"] = update.get("status")
        self._authorizer.let_pass(self._authorizer.judge(meant, placed, also={**told, mark: True}))

    def meaning_of(
        self, request: PermissionRequest, session: AcpSession, call: TrackedCall
    ) -> tuple[Translation, Placed]:
        """Return what a request for permission means, with all that was told before, and who judges it."""
        meant, placed = self._understand(session, call, request.call_id, request.call)
        return self._with_earlier(meant, call, session, request.call_id), placed

    def _with_earlier(self, meant: Translation, call: TrackedCall, session: AcpSession, name: str) -> Translation:
        """Return what a request means together with what was told before, where that was something else."""
        if not call.tells_arguments or all(isinstance(action, OtherAction) for action in meant.actions):
            return meant
        named = {_named(action) for action in meant.actions}
        before, _placed = self._understand(session, call, name)
        others = [each for each in before.actions if not isinstance(each, OtherAction) and _named(each) not in named]
        if not others:
            return meant
        return meant.replace(
            actions=(*meant.actions, *others), understood=False, problem=meant.problem or _SOMETHING_ELSE
        )


def _named(action: Action) -> str:
    """Return what an action is about, to compare it: the command, the place, the address."""
    fields = ("command", "path", "to", "url", "server", "tool")
    return repr([getattr(action, field, None) for field in fields])


def _only_says_that_it_thinks(meant: Translation, call: ToolCall) -> bool:
    """Whether a call brings more than thoughts: thinking is allowed without any rule."""
    if not all(getattr(action, "name", None) == "think" for action in meant.actions):
        return False
    return any(not is_thought(name) for name, value in (call.raw or {}).items() if value)


def _mark(call: TrackedCall, touched: set[tuple[str, ...]], status: str) -> str | None:
    """Return the word for what is odd about the end of a call; None if it did what it was allowed to do."""
    if not call.asked:
        return "unasked"
    if call.is_open:
        return "unanswered"
    if call.raw and not {touch[:2] for touch in touched} <= call.asked_for:
        return "another_than_asked"
    return "refused_before" if call.refused and status == "completed" else None
