"""Putting a question to a human: what is asked, what can be answered, and who asks.

Every way to reach a person (terminal, editor, MCP client, dashboard) is a small `Asker`. Silence is never a yes.
"""

from byleave.core.action import action_tree
from byleave.core.fs_rules import FsTarget
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from byleave.core.decision import Permit, Verdict
    from byleave.policy.live_policy import ResolvedVerdict

    class Asker(Protocol):
        """Somebody who can put a question to a person, and waits no longer than `patience` seconds."""

        @property
        def name(self) -> str: ...

        def ask(self, question: "Question", patience: float) -> str:
            """Return one of the replies of this module."""
            ...

    class AsyncAsker(Protocol):
        """The same for a door that must not wait: asked and awaited."""

        @property
        def name(self) -> str: ...

        async def ask(self, question: "Question", patience: float) -> str: ...


# What a person can say; `never` is a no for this session.
ONCE, FOR_SESSION, FOR_GOOD, NO, NEVER = "once", "session", "always", "no", "never"
# What may happen instead: nobody answered in time; nobody can be asked here; whoever wanted to know gave it up;
# somebody else asks, or nobody did before it was done, and the verdict stays.
SILENCE, NOBODY, CANCELLED, ELSEWHERE, UNASKED = "silence", "nobody", "cancelled", "elsewhere", "unasked"
CHANGED = "changed"  # it became something else while the question was open
YESES = frozenset({ONCE, FOR_SESSION, FOR_GOOD})
_ANSWERS = YESES | {NO, NEVER}
# Ways on which the program that calls is asked. It may show the question to a person; or answer by itself.
CLIENTS = frozenset({"elicitation"})
CLIENT, PERSON = "client", "person"  # who has answered


def told_by(asker: str, reply: str) -> "dict[str, str]":
    """Return what a record says of an answer: what was said, on which way, and whether a client said it."""
    told = {"by": asker, "choice": reply}
    return {**told, "who": CLIENT} if asker in CLIENTS and reply in _ANSWERS else told


def told_before(way: str) -> "dict[str, str]":
    """Return what a record says of an answer that was given before: on which way, and by whom."""
    return {"by": way or "unknown", "choice": "before", "who": CLIENT if way in CLIENTS else PERSON}


class Who(Record):
    """On whose behalf, and how we know: `verified` by a token or the command line, `claimed`, or the `default`."""

    agent: str | None = None
    identity: str = "default"


UNKNOWN = Who()


class Question(Record):
    """An action that the policy neither allows nor denies, and what a yes would cover.

    `rule` is the rule that a yes for good would add to the user's own file, where one rule is enough. `note` is what
    whoever wants to act says about it, in its own words: for people to read, never part of what a yes covers.
    """

    judged: "ResolvedVerdict"
    who: Who
    key: str
    pin: str | None
    started: float
    rule: str | None = None
    root: str = ""
    note: str = ""

    @property
    def facts(self) -> "dict[str, str]":
        """What is asked, by name, in full: nothing that a yes covers is left out."""
        tree = action_tree(self.judged.action)
        return {key: _text(value) for key, value in tree.items() if key != "agent" and not key.endswith("_b64")}

    @property
    def leads_to(self) -> tuple[str, ...]:
        """Where the paths of the action really are, if that is not what they say; for the user's own eyes."""
        named = [getattr(self.judged.action, name, None) for name in ("path", "to")]
        found = [place.canonical for place in self.judged.places if isinstance(place, FsTarget)]
        plain = [f"/{name.lstrip('/')}" for name in named if name]
        expected = {self.root, *(f"{self.root}{name}" for name in plain), *plain}
        return tuple(place for place in dict.fromkeys((*found, *self.judged.touched)) if place not in expected)


def _text(value: "Any") -> str:
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value, ensure_ascii=False)


class Evaluation(Record):
    """What came of a request: the verdict, its record's number, and the permit if it was allowed."""

    verdict: "Verdict"
    permit: "Permit | None"
    sequence: int | None
    who: Who
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.permit is not None


class NoAsker:
    """Nobody can be asked: every question is denied at once."""

    name = "nobody"

    def ask(self, _question: Question, _patience: float) -> str:
        """Answer that there is nobody."""
        return NOBODY


class ClientAsks:
    """The question is passed on as it is, to an agent or editor that asks by itself."""

    name = "elsewhere"

    def ask(self, _question: Question, _patience: float) -> str:
        """Answer that somebody else asks."""
        return ELSEWHERE
