"""The values that pass through the guard: a request, the question for a person, their reply, the evaluation.

`ActionRequest` goes in. `Evaluation` comes out where no person is needed; else `Pending`, which holds a `Question` for
each action. A `Reply` completes it. Every way to reach a person (terminal, editor, MCP client) is an `Asker`. Silence
is never a yes.
"""

from byleave.core.action import action_tree
from byleave.core.fs_rules import FsTarget
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from byleave.core.action import Action
    from byleave.core.decision import Permit, Verdict
    from byleave.policy.live_policy import ResolvedAction

    class Asker(Protocol):
        """Puts a question to a person, and waits no longer than `patience` seconds."""

        @property
        def name(self) -> str: ...

        def ask(self, question: "Question", patience: float) -> str:
            """Return one of the choices of this module."""
            ...

    class AsyncAsker(Protocol):
        """The same for a program that must not wait: asked and awaited."""

        @property
        def name(self) -> str: ...

        async def ask(self, question: "Question", patience: float) -> str: ...


# What a person can choose; `never` is a no for this session.
ONCE, FOR_SESSION, FOR_GOOD, NO, NEVER = "once", "session", "always", "no", "never"
# What may happen instead: the time is over; no person can be asked here; the request was given up.
SILENCE, NOBODY, CANCELLED = "silence", "nobody", "cancelled"
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
    file.
    """

    actions: "tuple[Action | Mapping[str, Any], ...]"
    who: Who = UNKNOWN
    unclear: str = ""
    needs_person: bool = False
    pin: str | None = None
    fields: "Mapping[str, Any]" = {}
    offers_rule: bool = False


class Question(Record):
    """An action that needs a person's approval, and what a yes would cover.

    `rule` is the rule that a yes for good would add to the user's own file, where one rule is enough. `note` is what
    the agent or tool says about the action in its own words: for people to read, never part of what a yes covers.
    """

    resolved: "ResolvedAction"
    who: Who
    key: str
    pin: str | None
    rule: str | None = None
    root: str = ""
    note: str = ""

    @property
    def facts(self) -> "dict[str, str]":
        """The action, field by field, in full: nothing that a yes covers is left out."""
        tree = action_tree(self.resolved.action)
        return {key: _text(value) for key, value in tree.items() if key != "agent" and not key.endswith("_b64")}

    @property
    def leads_to(self) -> tuple[str, ...]:
        """Where the paths of the action really are, if that is not what they say; for the user's own eyes."""
        named = [getattr(self.resolved.action, name, None) for name in ("path", "to")]
        found = [place.canonical for place in self.resolved.places if isinstance(place, FsTarget)]
        plain = [f"/{name.lstrip('/')}" for name in named if name]
        expected = {self.root, *(f"{self.root}{name}" for name in plain), *plain}
        return tuple(place for place in dict.fromkeys((*found, *self.resolved.touched)) if place not in expected)


def _text(value: "Any") -> str:
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


class Pending(Record):
    """A request that waits for a person: a question for each of its actions, also for those that a rule allows.

    Nothing is recorded yet. `Guard.complete` records it.
    """

    request: ActionRequest
    verdict: "Verdict"
    questions: tuple[Question, ...]
    started: float
    warnings: tuple[str, ...] = ()


class Reply(Record):
    """What a person chose, or what happened instead of a choice; `by` is the name of the asker."""

    choice: str
    by: str

    @property
    def is_yes(self) -> bool:
        return self.choice in YESES

    @property
    def record(self) -> "dict[str, str]":
        """What an audit record says of it: the choice, the asker, and whether a client chose."""
        fields = {"by": self.by, "choice": self.choice}
        return {**fields, "who": CLIENT} if self.by in CLIENTS and self.choice in _CHOSEN else fields


def earlier_reply_record(by: str) -> "dict[str, str]":
    """Return what an audit record says of an approval that was given before."""
    return {"by": by or "unknown", "choice": "before", "who": CLIENT if by in CLIENTS else PERSON}


class Evaluation(Record):
    """What the guard made of one request: its strictest verdict, the number of each record, the permits if allowed.

    There is one permit for each action of an allowed request, and none of any other.
    """

    verdict: "Verdict"
    permits: "tuple[Permit, ...]"
    sequences: tuple[int | None, ...]
    who: Who
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return bool(self.permits)

    @property
    def permit(self) -> "Permit | None":
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

    name = "nobody"

    def ask(self, _question: Question, _patience: float) -> str:
        """Reply that no person can be asked."""
        return NOBODY
