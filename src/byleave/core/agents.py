"""Which agent may reach which MCP server, and which of its tools, resources and prompts. Pure.

First the server: a deny, then an allow, else denied. Then the tool, in six steps, the first that matches deciding:
denied by name, denied by pattern, allowed by name, allowed by pattern, granted because `allow.tools` says nothing of
this server, else denied. So every deny counts before any allow, and a granted server means all of its tools until a
list narrows them. An empty list narrows nothing.

Keys of the tables may be patterns. In `allow` the server's own name beats patterns, and of several patterns the lists
are joined; in `deny` the lists of all matching keys are joined. Agents are patterns too: the exact name beats them, of
several the one with most literal letters counts, and of equals the first in the alphabet.

The references in a verdict are those of the steps that were walked. Start at `Agents.decide`.

Some agents go by several names, that of the hook, of the program, of the product (`other_names`): what is denied to an
agent under one of its names is denied under the others; an allow is for the name that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, INLINE, VERBS, RuleRef, Verdict
from byleave.core.patterns import LOOK_ALIKE, NOT_ASCII, UNSEEN, NameIndex, oddity
from byleave.core.suggest import suggest_agent
from byleave.record import Record, Sealed, frozen_mapping
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Lists = Mapping[str, "Sequence[ListEntry]"]


TOOLS, RESOURCES, PROMPTS = KINDS = ("tools", "resources", "prompts")
DEFAULT = "default"
_ONE = {TOOLS: "tool", RESOURCES: "resource", PROMPTS: "prompt"}
_NONE: Lists = frozen_mapping({})
_MOST_VIEWS = 256  # of agents and servers, kept at a time: callers choose the names, and must not fill our memory
_MOST_ANSWERS = 256  # and of names at each of them
_LONGEST_KEPT = 200  # letters


class ListEntry(Record):
    """One name or pattern of a list, and where it is written."""

    pattern: str
    source: str = INLINE


class AgentReach(Record):
    """One side of an agent, its allow or its deny: servers, and lists of names by server."""

    servers: tuple[ListEntry, ...] = ()
    tools: Lists = _NONE
    resources: Lists = _NONE
    prompts: Lists = _NONE


class Agent(Record):
    """One agent as it is configured; its name may be a pattern."""

    name: str
    allow: AgentReach = AgentReach()
    deny: AgentReach = AgentReach()
    source: str = INLINE


class _Answer(Record):
    """A verdict, and whether a deny that is written down gave it."""

    verdict: Verdict
    written: bool


class Agents(Sealed):
    """All agents of one reading of the configuration, with what holds for those that it does not know."""

    def __init__(
        self, agents: Sequence[Agent], *, deny_on_missing: bool = True, default_agent: str | None = None
    ) -> None:
        self.agents = tuple(agents)
        self._deny_on_missing = deny_on_missing
        self._default = default_agent
        self._index: NameIndex[_Compiled] = NameIndex()
        for agent in agents:
            self._index.add(agent.name, _Compiled(agent))
        self._views: dict[tuple[str | None, str], _View] = {}

    def decide(self, agent: str | None, server: str, kind: str = TOOLS, name: str | None = None) -> Verdict:
        """Return what holds for `agent` at a server, or at one of its tools, resources or prompts."""
        return self._at(agent, server).decide(kind, name).verdict

    def _at(self, agent: str | None, server: str) -> _View:
        view = self._views.get((agent, server))
        if view is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            view = self._view(agent, server)
            if len(server) + len(agent or "") <= _LONGEST_KEPT:
                self._views[agent, server] = view
        return view

    def denial(self, agent: str | None, server: str, kind: str = TOOLS, name: str | None = None) -> Verdict | None:
        """Return the verdict of a deny that is written down, whatever is allowed; None if there is none."""
        answer = self._at(agent, server).denial(kind, name)
        return None if answer is None else answer.verdict

    @property
    def default(self) -> str | None:
        """The agent that counts as the caller of a call without an agent; None if there is none."""
        if self._default is not None and (self.knows(self._default) or self._index.exact(DEFAULT) is None):
            return self._default
        return None if self._index.exact(DEFAULT) is None else DEFAULT

    def knows(self, agent: str) -> bool:
        """Whether an agent of this name, or a pattern that matches it, is configured."""
        return self._find(agent) is not None

    def names(self, agent: str) -> bool:
        """Whether an agent of exactly this name is configured."""
        return self._index.exact(agent) is not None

    def _find(self, agent: str) -> _Compiled | None:
        exact = self._index.exact(agent)
        if exact is not None or oddity(agent) not in (None, NOT_ASCII):
            return exact
        return min(self._index.wild(agent), key=_order, default=None)

    def _view(self, agent: str | None, server: str) -> _View:
        named = self._default if agent is None else agent
        found = None if named is None else self._find(named)
        if found is None and (agent is None or not self._deny_on_missing):
            found = self._index.exact(DEFAULT)
        if found is not None:
            return _View(found, server)
        return _Stranger(named, server, denied=self._deny_on_missing)


def _order(compiled: _Compiled) -> tuple[int, str]:
    pattern = compiled.agent.name
    return -sum(letter not in "*?[]" for letter in pattern), pattern


class _Listed(Sealed):
    """A list of names and patterns, indexed."""

    __slots__ = ("entries", "index", "key")

    def __init__(self, entries: Sequence[ListEntry], key: str) -> None:
        self.entries = tuple(entries)
        self.key = key  # how the list is named in the configuration
        self.index: NameIndex[ListEntry] = NameIndex()
        for entry in entries:
            self.index.add(entry.pattern, entry)


class _Side(Sealed):
    """The allow or the deny of one agent, indexed."""

    __slots__ = ("servers", "tables", "word")

    def __init__(self, word: str, reach: AgentReach) -> None:
        self.word = word
        self.servers = _Listed(reach.servers, f"{word}.servers")
        self.tables: dict[str, NameIndex[_Listed]] = {}
        for kind in KINDS:
            table = self.tables[kind] = NameIndex()
            for server, entries in getattr(reach, kind).items():
                table.add(server, _Listed(entries, f"{word}.{kind}.{server}"))


class _Compiled(Sealed):
    __slots__ = ("agent", "allow", "deny")

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.allow = _Side("allow", agent.allow)
        self.deny = _Side("deny", agent.deny)

    def ref(self, listed: _Listed, entry: ListEntry, *, allows: bool) -> RuleRef:
        text = f"agents.{shown(self.agent.name)}: {shown(listed.key)} {quoted(entry.pattern)}"
        return RuleRef(text, entry.source, ALLOW if allows else DENY)

    def missing(self, text: str, *, allows: bool, source: str | None = None) -> RuleRef:
        """Return the reference to something that is not written, by where it would be."""
        return RuleRef(f"agents.{shown(self.agent.name)}: {text}", source or self.agent.source, (DENY, ALLOW)[allows])


def written_refs(agent: Agent) -> Iterator[RuleRef]:
    """Yield each entry of an agent's lists as verdicts name it."""
    compiled = _Compiled(agent)
    for side, allows in ((compiled.allow, True), (compiled.deny, False)):
        lists = [side.servers, *[listed for kind in KINDS for listed in side.tables[kind].values()]]
        for listed in lists:
            yield from (compiled.ref(listed, entry, allows=allows) for entry in listed.entries)


class _View:
    """One agent at one server: which lists hold there, found once."""

    def __init__(self, compiled: _Compiled, server: str) -> None:
        self._compiled = compiled
        self._server = server
        self._answer = self._decide_server()
        self._known: dict[tuple[str, str], _Answer] = {}
        self._denies = {kind: tuple(compiled.deny.tables[kind].all(server)) for kind in KINDS}
        self._allows = {kind: _narrowing(compiled.allow.tables[kind], server) for kind in KINDS}

    def decide(self, kind: str, name: str | None) -> _Answer:
        if name is None:
            return self._answer
        known = self._known.get((kind, name))
        if known is None:
            if len(self._known) >= _MOST_ANSWERS:
                self._known.clear()
            allowed = self._answer.verdict.decision is ALLOW
            known = self._decide_name(kind, name) if allowed else self._server_denied(kind, name)
            if len(name) <= _LONGEST_KEPT:
                self._known[kind, name] = known
        return known

    def denial(self, kind: str, name: str | None) -> _Answer | None:
        if self._answer.written:
            return self._answer
        denied = None if name is None else _first(self._denies[kind], name)
        if denied is None or name is None:
            return None
        what = f"the {_ONE[kind]} {shown(name)} of {shown(self._server)}"
        return _answer(self._compiled.ref(*denied, allows=False), what, written=True)

    def _decide_server(self) -> _Answer:
        server, compiled = self._server, self._compiled
        for listed, allows in ((compiled.deny.servers, False), (compiled.allow.servers, True)):
            entry = _first([listed], server)
            if entry is not None:
                return _answer(compiled.ref(*entry, allows=allows), f"the server {shown(server)}", written=not allows)
        ref = compiled.missing("allow.servers does not list it", allows=False)
        return _answer(ref, f"the server {shown(server)}", suggestion=self._suggestion(TOOLS, None))

    def _server_denied(self, kind: str, name: str) -> _Answer:
        """Return the server's denial as the answer for what it offers, with the rule that would allow both."""
        if self._answer.written:
            return self._answer
        helped = self._answer.verdict.replace(suggestion=self._suggestion(kind, name))
        return _Answer(helped, written=False)

    def _decide_name(self, kind: str, name: str) -> _Answer:
        """Walk the six steps: each list answers by exact names first, and the denies of all keys by that, too."""
        compiled, what = self._compiled, f"the {_ONE[kind]} {shown(name)} of {shown(self._server)}"
        server = self._answer.verdict.because
        denied = _first(self._denies[kind], name)
        if denied is not None:
            return _answer(compiled.ref(*denied, allows=False), what, server, written=True)
        lists = self._allows[kind]
        allowed = _first(lists, name)
        if allowed is not None:
            return _answer(compiled.ref(*allowed, allows=True), what, server)
        if lists:
            keys = ", ".join(shown(listed.key) for listed in lists)
            ref = compiled.missing(f"{keys} does not list it", allows=False, source=lists[0].entries[0].source)
            return _answer(ref, what, server, suggestion=self._suggestion(kind, name))
        narrowed = self._allows[TOOLS]
        if narrowed:
            text = f"{shown(narrowed[0].key)} narrows the server, and allow.{kind} does not name it"
            ref = compiled.missing(text, allows=False, source=narrowed[0].entries[0].source)
            return _answer(ref, what, server, suggestion=self._suggestion(kind, name))
        empty = compiled.allow.tables[kind].exact(self._server) is not None
        text = f"allow.{kind}.{shown(self._server)} is empty" if empty else f"no allow.{kind} for {shown(self._server)}"
        text = f"{text}, so all of its {kind}"
        return _answer(compiled.missing(text, allows=True, source=server[0].source), what, server)

    def _suggestion(self, kind: str, name: str | None) -> str | None:
        """Return what to add: the server if it is not listed, and the name beside what is listed already."""
        compiled = self._compiled
        servers = (self._server,) if _first([compiled.allow.servers], self._server) is None else ()
        lists = _narrowing(compiled.allow.tables[kind], self._server)
        if name is None or _first(lists, name) is not None:
            names: tuple[str, ...] = ()
        else:
            exact = compiled.allow.tables[kind].exact(self._server) is not None
            kept = () if exact else tuple(entry.pattern for listed in lists for entry in listed.entries)
            names = (*kept, name)
        new = (self._server,) if name is None else (self._server, name)
        return suggest_agent(compiled.agent.name, servers, (kind, self._server, names), new=new)


class _Stranger(_View):
    """An agent that no entry is about: denied, or let through where the configuration says so."""

    def __init__(self, agent: str | None, server: str, *, denied: bool) -> None:
        self._agent = agent
        self._server = server
        self._denied = denied

    def denial(self, kind: str, name: str | None) -> _Answer | None:  # noqa: ARG002 -- nothing is written
        return None

    def decide(self, kind: str, name: str | None) -> _Answer:
        who = "a call without an agent" if self._agent is None else f"the agent {shown(self._agent)}"
        if not self._denied:
            ref = RuleRef("defaults.deny_on_missing_agent = false", BUILT_IN, ALLOW)
            return _Answer(Verdict(ALLOW, f"{who} is unknown, and unknown agents are allowed", "ok", (ref,)), False)
        ref = RuleRef("defaults.deny_on_missing_agent", BUILT_IN, DENY)
        names = () if name is None else (name,)
        agent = self._agent if self._agent is not None else DEFAULT
        new = (agent, self._server, *names)
        suggestion = suggest_agent(agent, (self._server,), (kind, self._server, names), new=new)
        reason = f"{who} is denied: no agent of that name is configured"
        return _Answer(Verdict(DENY, reason, "unknown_agent", (ref,), suggestion), False)


def _narrowing(table: NameIndex[_Listed], server: str) -> tuple[_Listed, ...]:
    """Return the lists that narrow a server; none where there is no entry, or only empty ones."""
    exact = table.exact(server)
    lists = (exact,) if exact is not None else tuple(sorted(table.wild(server), key=_key))
    return tuple(listed for listed in lists if listed.entries)


def _key(listed: _Listed) -> str:
    return listed.key


def _first(lists: Sequence[_Listed], name: str) -> tuple[_Listed, ListEntry] | None:
    """Return the first entry that matches: exact names of all lists before patterns of any."""
    for listed in lists:
        exact = listed.index.exact(name)
        if exact is not None:
            return listed, exact
    for listed in lists:
        for entry in listed.index.wild(name):
            return listed, entry
    return None


def _answer(
    ref: RuleRef, what: str, before: tuple[RuleRef, ...] = (), *, written: bool = False, suggestion: str | None = None
) -> _Answer:
    allowed = ref.decision is ALLOW
    reason = (
        f"{what} is allowed by {ref.rule}" if allowed else f"{what} is denied{' by' if written else ':'} {ref.rule}"
    )
    return _Answer(
        Verdict(ref.decision, reason, "ok" if allowed else "denied", (ref, *before), suggestion),
        written,
    )


_NAMES = "misleading names"
_SAID = {
    UNSEEN: (DENY, "has invisible letters, or no letters at all"),
    LOOK_ALIKE: (DENY, "has letters that look like others"),
    NOT_ASCII: (ASK, "is not plain ASCII"),
}


def check_names(agent: str | None, server: str, tool: str | None) -> Verdict | None:
    """Deny names that are not what they seem, and ask about those that are not ASCII; None if nothing is odd."""
    if _is_plain(server) and _is_plain(tool) and _is_plain(agent):
        return None
    return max(_odd_names(agent, server, tool), key=_decision, default=None)


def _is_plain(name: str | None) -> bool:
    return name is None or (name != "" and name.isascii() and name.isprintable())


def _odd_names(agent: str | None, server: str, tool: str | None) -> Iterator[Verdict]:
    for what, name in (("agent", agent), ("server", server), ("tool", tool)):
        odd = None if name is None else oddity(name)
        if odd is None or (
            what == "agent" and odd == NOT_ASCII
        ):  # an agent that is configured under such a name is known
            continue
        decision, said = _SAID[odd]
        code = "denied" if decision is DENY else "no_match"
        reason = f"the {what} {quoted(name or '')} {VERBS[decision]}: its name {said}"
        yield Verdict(decision, reason, code, (RuleRef(_NAMES, BUILT_IN, decision),))


def _decision(verdict: Verdict) -> int:
    return verdict.decision


_SAME_AGENT = (
    ("claude-code", "claude"),
    ("codex", "codex-cli"),
    ("gemini", "gemini-cli"),
    ("cursor", "cursor-agent"),
    ("copilot", "copilot-cli", "github-copilot"),
    ("qwen", "qwen-code"),
)


def other_names(agent: str) -> tuple[str, ...]:
    """Return what an agent is called besides; nothing for one that is not known by several names."""
    return tuple(name for names in _SAME_AGENT if agent in names for name in names if name != agent)
