"""The values that pass through the guard: a request, the question for a person, their reply, the evaluation.

`ActionRequest` goes in. `Evaluation` comes out where no person is needed; else `Pending`, which holds a `Question` for
each action. A `Reply` completes it. Every way to reach a person (terminal, editor, MCP client) is an `Asker`. Silence
is never a yes.

`approved`, `refused` and the functions behind them make the verdicts that the guard adds to the policy's: for a reply,
for silence, for a request that changed or is unclear, for a record that could not be written. Nothing here does input
or output.
"""

from __future__ import annotations

import json
from posixpath import join
from typing import TYPE_CHECKING, Any, Protocol

from byleave.core.action import action_tree
from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, RuleRef, Verdict
from byleave.core.fs_rules import FsTarget
from byleave.core.url import Target, parse_url
from byleave.errors import ByleaveError
from byleave.record import Record
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.core.action import Action
    from byleave.core.permit import Permit
    from byleave.policy.live_policy import ResolvedAction


class Asker(Protocol):
    """Puts a question to a person, and waits no longer than `patience` seconds."""

    @property
    def name(self) -> str: ...

    def ask(self, question: Question, patience: float) -> str:
        """Return one of the choices of this module."""
        ...


class AsyncAsker(Protocol):
    """The same for a program that must not wait: asked and awaited."""

    @property
    def name(self) -> str: ...

    async def ask(self, question: Question, patience: float) -> str: ...


# What a person can choose; `never` is a no for this session.
ONCE, FOR_SESSION, FOR_GOOD, NO, NEVER = "once", "session", "always", "no", "never"
# What may happen instead: the time is over; no person can be asked here; the request was given up.
SILENCE, NO_PERSON, CANCELLED = "silence", "nobody", "cancelled"
# The verdict stays an ask: the agent or editor puts the question itself, or no question was put before it was done.
ELSEWHERE, UNASKED = "elsewhere", "unasked"
CHANGED = "changed"  # the request became another one while the question was open
YESES = frozenset({ONCE, FOR_SESSION, FOR_GOOD})
_CHOSEN = YESES | {NO, NEVER}
# Askers that ask the program that calls. It may show the question to a person; or answer by itself.
CLIENTS = frozenset({"elicitation"})
CLIENT, PERSON = "client", "person"  # who has replied


class Who(Record):
    """The agent of a request, and how it is known: `verified` by a token or the command line, `claimed`, `default`."""

    agent: str | None = None
    identity: str = "default"


UNKNOWN = Who()


class ActionRequest(Record):
    """One or several actions that an agent requests at once: all of them are allowed, or none is.

    `unclear` says why it is not certain what would be done: then no rule allows it. `needs_person`: what is not denied
    is put to a person, whatever allows it. `pin` is the hash of what an action holds that says only a name: a yes is
    for that. `fields` are further fields of the records. `offers_rule`: a yes for good may add a rule to the user's own
    file. `confines`: the integration can run a command as `[shell]` says, and will where the verdict says so. `step` is
    the event by which the request came, of an agent that has two events for one call: a yes for once is for both.
    """

    actions: tuple[Action | Mapping[str, Any], ...]
    who: Who = UNKNOWN
    unclear: str = ""
    needs_person: bool = False
    pin: str | None = None
    fields: Mapping[str, Any] = {}
    offers_rule: bool = False
    confines: bool = False
    step: str = ""


class Question(Record):
    """An action that needs a person's approval, and what a yes would cover.

    `rule` is the rule that a yes for good would add to the user's own file, where one rule is enough. `note` is what
    the agent or tool says about the action in its own words: for people to read, never part of what a yes covers.
    """

    resolved: ResolvedAction
    who: Who
    key: str
    pin: str | None
    rule: str | None = None
    root: str = ""
    note: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """The action, field by field, in full: nothing that a yes covers is left out."""
        tree = action_tree(self.resolved.action)
        return {key: _text(value) for key, value in tree.items() if key != "agent" and not key.endswith("_b64")}

    @property
    def leads_to(self) -> tuple[str, ...]:
        """Where the paths of the action really are, if that is not what they say; for the user's own eyes.

        Of a URL the host, where it is written otherwise than it is looked up, or could be taken for a user name.
        A word of a command that is not a file's name for its program may still be one for byleave: such a place says
        nothing that the command does not say.
        """
        named = [getattr(self.resolved.action, name, None) for name in ("path", "to")]
        found = [place.canonical for place in self.resolved.places if isinstance(place, FsTarget)]
        plain = [f"/{name.lstrip('/')}" for name in named if name]
        expected = {self.root, *(f"{self.root}{name}" for name in plain), *plain, *self._written()}
        places = [place for place in dict.fromkeys((*found, *self.resolved.touched)) if place not in expected]
        return (*_hosts_behind(getattr(self.resolved.action, "url", None)), *places)

    def _written(self) -> set[str]:
        """Return the words of a command as the paths that they say, in the directory that it is started in."""
        command, cwd = (getattr(self.resolved.action, name, None) for name in ("command", "cwd"))
        return {join(self.root, cwd or "", word) for word in command.split()} if command is not None else set()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value

    return json.dumps(value, ensure_ascii=False)


def _hosts_behind(url: str | None) -> tuple[str, ...]:
    """Return the host that a URL reaches, if a reader may take it for another one: letters that look alike, numbers."""
    found = None if url is None else parse_url(url)
    if url is None or not isinstance(found, Target):
        return ()
    return (found.host,) if found.host not in url.lower() or "@" in url else ()


class Pending(Record):
    """A request that waits for a person: a question for each of its actions, also for those that a rule allows.

    Nothing is recorded yet. `Guard.complete` records it. `observed`: the policy decides nothing here, and its verdict,
    which may be an allow or a deny, is only recorded; whatever the reply is, it holds.
    """

    request: ActionRequest
    verdict: Verdict
    questions: tuple[Question, ...]
    started: float
    warnings: tuple[str, ...] = ()
    observed: bool = False


class Reply(Record):
    """What a person chose, or what happened instead of a choice; `by` is the name of the asker.

    `note` is what the person says to the agent with a no. `kept`: the asker has kept a yes for good already.
    """

    choice: str
    by: str
    note: str = ""
    kept: bool = False

    @property
    def is_yes(self) -> bool:
        return self.choice in YESES

    @property
    def record(self) -> dict[str, str]:
        """What an audit record says of it: the choice, the asker, and whether a client chose."""
        fields = {"by": self.by, "choice": self.choice}
        return {**fields, "who": CLIENT} if self.by in CLIENTS and self.choice in _CHOSEN else fields


def earlier_reply_record(by: str) -> dict[str, str]:
    """Return what an audit record says of an approval that was given before."""
    return {"by": by or "unknown", "choice": "before", "who": CLIENT if by in CLIENTS else PERSON}


class Evaluation(Record):
    """What the guard made of one request: its strictest verdict, the number of each record, the permits if allowed.

    There is one permit for each action of an allowed request, and none of any other.
    """

    verdict: Verdict
    permits: tuple[Permit, ...]
    sequences: tuple[int | None, ...]
    who: Who
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return bool(self.permits)

    @property
    def permit(self) -> Permit | None:
        """The permit of the only action; None if the request is not allowed."""
        return self.permits[0] if len(self.permits) == 1 else None

    @property
    def sequence(self) -> int | None:
        """The number of the (first) record; None if it could not be written."""
        return self.sequences[0]

    @property
    def recorded(self) -> bool:
        """Whether every action is in the audit log."""
        return None not in self.sequences


class NoAsker:
    """There is no person to ask: every question is denied at once."""

    name = "nobody"  # a word of the audit log

    def ask(self, _question: Question, _patience: float) -> str:
        """Reply that no person can be asked."""
        return NO_PERSON


BEFORE = "you approved this before, for this session"
BEFORE_BY_CLIENT = "the client that calls approved this before, for this session"


def approved(resolved: ResolvedAction, asker: str, *, before: bool = False) -> ResolvedAction:
    """Return the action with the allow that a yes makes of an ask; `asker` is the name of the asker that got it."""
    verdict = resolved.verdict
    by_client = asker in CLIENTS
    why = _YES[before, by_client]
    because = (RuleRef("its client's answer" if by_client else "your approval", "approval", ALLOW), *verdict.because)
    allowed = Verdict(ALLOW, f"{verdict.reason}; {why}", "ok", because, None, verdict.canonical)
    allowed = allowed.replace(sandbox=verdict.sandbox)  # a yes is for the run that was shown: confined stays confined
    return resolved.replace(verdict=allowed)


_YES = {
    (False, False): "you allowed it",
    (False, True): "the client that calls allowed it",
    (True, False): BEFORE,
    (True, True): BEFORE_BY_CLIENT,
}
_BY_CLIENT = {NO: "the client that calls said no"}
_WHYS = {
    NO: "you said no",
    NEVER: "you said no to it for this session",
    CANCELLED: "it was cancelled before a reply came",
    CHANGED: "it changed while you were asked about it",
    SILENCE: "no reply came in time",
    NO_PERSON: "no person can be asked here",
}


def refused(verdict: Verdict, reply: Reply) -> Verdict:
    """Return the deny that an ask becomes without a yes; an unknown choice is none."""
    why = _WHYS.get(reply.choice, "the answer was not understood")
    if reply.by in CLIENTS:
        why = _BY_CLIENT.get(reply.choice, why)
    if reply.note:
        why = f"{why}: {shown(reply.note)}"
    ref = RuleRef(why, "approval", DENY)
    because = (ref, *verdict.because)
    # The place stays in the verdict: a caller that passes the verdict on hides it in the suggestion.
    return Verdict(DENY, f"{verdict.reason}; {why}", "denied", because, verdict.suggestion, verdict.canonical)


def unclear_verdict(verdict: Verdict, why: str) -> Verdict:
    """Return the verdict on a request whose effect is not certain: a deny stays, anything else needs a person."""
    if verdict.decision is DENY:
        return verdict
    ref = RuleRef("what byleave cannot read needs approval", BUILT_IN, ASK)
    reason = why if verdict.decision is ALLOW else f"{verdict.reason}; {why}"
    unclear = Verdict(ASK, reason, "unparsed", (ref, *verdict.because), None, verdict.canonical)
    return unclear.replace(sandbox=verdict.sandbox)


def changed_meanwhile(verdict: Verdict) -> Verdict:
    """Return the deny for what is not what the person was asked about any more."""
    ref = RuleRef("what was shown is what is allowed", BUILT_IN, DENY)
    reason = "it is not what you were asked about any more: something changed while the question was open"
    return Verdict(DENY, reason, "denied", (ref, *verdict.because))


def happened(verdict: Verdict) -> Verdict:
    """Return the verdict on what was done before the policy saw it: a deny says that it came too late."""
    if verdict.decision is not DENY:
        return verdict
    reason = f"it was done before byleave saw it; byleave would have denied it: {verdict.reason}"
    return verdict.replace(reason=reason)


UNUSABLE = Verdict(
    DENY,
    "the policy cannot be used now; byleave shows its user why",
    "io",
    (RuleRef("a policy that cannot be used denies", BUILT_IN, DENY),),
)
UNKEPT = Verdict(
    DENY,
    "the decision could not be recorded; byleave shows its user why",
    "io",
    (RuleRef("nothing is allowed that cannot be recorded", BUILT_IN, DENY),),
)


def unrecorded(verdict: Verdict, error: ByleaveError) -> Verdict:
    """Return the deny that an allow becomes if its record could not be written."""
    if verdict.decision is not ALLOW:
        return verdict
    ref = RuleRef("nothing is allowed that cannot be recorded", BUILT_IN, DENY)
    reason = f"the decision could not be recorded: {error.problem}"
    return Verdict(DENY, reason, "io", (ref, *verdict.because))


def named_error(error: BaseException) -> str:
    """Return the kind of an error, without its text: that may say where a mount leads."""
    reason = error.strerror if isinstance(error, OSError) else error.code if isinstance(error, ByleaveError) else None
    return f"{type(error).__name__}: {shown(str(reason))}" if reason else type(error).__name__
