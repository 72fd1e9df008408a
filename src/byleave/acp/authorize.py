"""What the policy says to an agent's tool call: one guard for each workspace that the editor opens a session in.

The workspace is the one around the session's working directory, unless the command line names one: editors start an
agent wherever they like, and open sessions in several places.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.action import CommandAction, FileAction, OtherAction, action_tree
from byleave.core.decision import BUILT_IN, DENY, RuleRef, Verdict, shared_tree
from byleave.core.fs_rules import FsTarget, is_under
from byleave.core.observing import built_in_decision
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.guard.approval_key import input_pin
from byleave.guard.evaluation import UNASKED, ActionRequest, Evaluation, Pending, Reply
from byleave.guard.open_guard import guard_for
from byleave.policy.dirs import find_root, own_command, own_front, real_path
from byleave.policy.load import Workspace
from byleave.store.tickets import cwd_file, find
from byleave.text import shown
from byleave.translate.call import Translation, Where
from byleave.translate.shell_text import quote_words, shell_of_agent
from byleave.translate.ticketed_command import ticket_in, ticketed_text
from byleave.translate.translate import translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.core.action import Action
    from byleave.guard.evaluation import Who
    from byleave.guard.guard import Guard
    from byleave.policy.dirs import UserDirs
    from byleave.store.tickets import Ticket
    from byleave.translate.call import ToolCall


DOOR = "acp"
ASKER = "editor"
_STRANGER = "the editor has not opened this session"
_LONGEST_NAME = 200
_MOST_WARNINGS = 20  # at a time
_MOST_TICKETS = 10_000
_UNREADABLE = "its input cannot be kept as it is"


class CallEvaluation(Struct, frozen=True):
    """What a call means, the guard that evaluates it, and the outcome so far."""

    guard: Guard
    meaning: Translation
    outcome: Evaluation | Pending

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict

    @property
    def matter(self) -> Pending | None:
        """The question for a person, where there is one."""
        return self.outcome if isinstance(self.outcome, Pending) else None

    def without_mark(self, name: str) -> CallEvaluation:
        """Return the same, to be recorded without one of the further fields."""
        if self.matter is None:
            return self
        request = self.matter.request
        left = {key: value for key, value in request.fields.items() if key != name}
        return structs.replace(self, outcome=self.matter.replace(request=request.replace(fields=left)))

    @property
    def tree(self) -> dict[str, Any]:
        """What was evaluated and the verdict, in JSON."""
        actions = [action_tree(action) for action in self.meaning.actions]
        return {
            "action": actions[0] if len(actions) == 1 else None,
            "actions": actions,
            "understood": self.meaning.understood,
            "sources": dict(self.meaning.sources),
            "verdict": shared_tree(self.verdict, self.guard.policy.root.path),
        }


class Placed(Struct, frozen=True):
    """The guard that evaluates a session's calls; `problem` says why that is not certain.

    `pin` is the hash of a call's input where its actions do not say it: a yes is for that input. `confined`: the call
    redeems a ticket that the agent's own hook has issued, and so runs confined.
    """

    guard: Guard
    problem: str = ""
    pin: str | None = None
    confined: bool = False


class CallAuthorizer:
    """Authorizes calls, in the workspace of each session. Close it when the proxy ends."""

    def __init__(
        self, workspace: Workspace, *, files: Sequence[str] = (), session: str, who: Who, fixed: bool = False
    ) -> None:
        self._files = [os.path.abspath(file) for file in files]
        self._session = session
        self._who = who
        self._fixed = fixed
        self.shell = shell_of_agent(who.agent or "", os.environ)
        self._homes = workspace.homes
        self._first = workspace.root.path
        self._standing: dict[str, frozenset[str]] = {}  # what each guard warned of when it was last looked at
        self._warnings: list[str] = []
        self._tickets: dict[str, Ticket] = {}
        self._guards: dict[str, Guard] = {self._first: self._open(workspace)}

    def place(self, cwd: str) -> Placed:
        """Return whose policy holds in a directory; where that is unknown, the first workspace's, and why."""
        first = self._guards[self._first]
        if self._fixed:
            return Placed(first)
        if not os.path.isdir(cwd):
            return Placed(first, f"{shown(cwd)} is no directory that can be looked at")
        root = find_root(real_path(cwd), self._homes)
        problem = ""
        if root not in self._guards:
            try:
                self._guards[root] = self._open(Workspace(root, homes=self._homes))
            except (ByleaveError, ConfigErrors, OSError) as error:
                problem = f"the policy of {shown(root)} cannot be used"
                self._warn((f"{problem}, so everything there is asked: {error}",))
        return Placed(self._guards.get(root, first), problem)

    def understand(self, call: ToolCall, placed: Placed | None, cwd: str | None) -> tuple[Translation, Placed]:
        """Return what a call means in the workspace of its session, and the guard that evaluates it there."""
        placed = placed or Placed(self._guards[self._first], _STRANGER)
        meant = translate(call, Where(placed.guard.policy.root.path, cwd, _exists, self.shell))
        if placed.problem:  # its own rules might have denied it
            meant = meant.replace(understood=False, problem=placed.problem)
        if any(isinstance(action, OtherAction) for action in meant.actions):
            placed = structs.replace(placed, pin=input_pin(call.raw))
        return self._behind_ticket(meant, placed)

    def _behind_ticket(self, meant: Translation, placed: Placed) -> tuple[Translation, Placed]:
        """Return what a call means that the agent's own hook has changed: the command behind its ticket.

        A ticket that was seen once is remembered: agents report what they ran when the ticket is used already.
        """
        command = meant.actions[0]
        ticket_id = ticket_in(command.command) if isinstance(command, CommandAction) else None
        if ticket_id is None or not isinstance(command, CommandAction):
            return meant, placed
        root = placed.guard.policy.root.path
        ticket = self._tickets.get(ticket_id) or find(self._homes.workspace(root), ticket_id)
        if ticket is None or ticket.root != root or not _is_changed_call(command.command, ticket, self._homes):
            return meant, placed
        if any(getattr(each, "command", None) != command.command for each in meant.actions):
            return meant, placed  # the call does more than to redeem it
        if len(self._tickets) < _MOST_TICKETS:
            self._tickets[ticket_id] = ticket
        action = command.replace(command=ticket.text, cwd=ticket.cwd, shell=ticket.shell)
        return meant.replace(actions=(action,)), structs.replace(placed, confined=True)

    def understand_all(
        self, calls: Sequence[ToolCall], placed: Placed | None, cwd: str | None
    ) -> tuple[Translation, Placed]:
        """Return what a call means that can be read in several ways: all of it."""
        read = [self.understand(call, placed, cwd) for call in calls]
        first, place = read[0]
        actions = [action for meant, _place in read for action in meant.actions]
        unclear = next((meant for meant, _place in read if not meant.understood), first)
        return first.replace(actions=tuple(actions), understood=unclear.understood, problem=unclear.problem), place

    def authorize(
        self,
        meant: Translation,
        placed: Placed,
        *,
        by_hand: bool = False,
        also: Mapping[str, Any] | None = None,
        confines: bool = False,
    ) -> CallEvaluation:
        """Authorize what a call means; what a rule allows or denies is recorded then, a question is not.

        Another workspace that is open, and that the call reaches into, can deny it as well. `confines`: a command that
        the call starts can run as `[shell]` says, and will where the verdict says so.
        """
        guard = placed.guard
        fields = {**(also or {}), "sources": dict(meant.sources)}
        if denied := self._denied_elsewhere(meant, placed, fields):
            return CallEvaluation(guard, meant, denied)
        request = ActionRequest(
            meant.actions,
            self._who,
            _unclear(meant),
            needs_person=by_hand,
            pin=placed.pin,
            fields=fields,
            confines=confines or placed.confined,
        )
        try:
            outcome = guard.authorize(request)
        except InputError:
            unread = (OtherAction("other", _title(meant)),)
            meant = Translation(unread, meant.sources, understood=False, problem=_UNREADABLE)
            outcome = guard.authorize(request.replace(actions=unread, unclear=_UNREADABLE))
        self._warn(outcome.warnings)
        return CallEvaluation(guard, meant, outcome)

    def runs_confined(self, meant: Translation, placed: Placed) -> bool:
        """Whether the policy has everything that a call means run confined, if it runs at all."""
        found = [placed.guard.evaluate(action, self._who, confines=True)[0].verdict for action in meant.actions]
        return all(verdict.sandbox is not None and verdict.sandbox[0] for verdict in found)

    def _denied_elsewhere(self, meant: Translation, placed: Placed, also: Mapping[str, Any]) -> Evaluation | None:
        """Return the denial of another open workspace, recorded, if the call reaches there or may reach there.

        What the session's own workspace denies, that one says itself.
        """
        own, others = placed.guard, [guard for guard in self._guards.values() if guard is not placed.guard]
        if not others or any(own.evaluate(action, self._who)[0].verdict.decision is DENY for action in meant.actions):
            return None
        for guard in others:
            for action in meant.actions:
                seen = _seen_from(action, own, guard)
                if not placed.problem and not _reaches(seen, guard):
                    continue
                verdict = guard.evaluate(seen, self._who)[0].verdict
                if verdict.decision is DENY and not (guard.observes and built_in_decision(verdict) is None):
                    return own.refuse(ActionRequest((action,), self._who, fields=also), verdict)
        return None

    def finish(self, evaluation: CallEvaluation, reply: str, *, by: str = ASKER) -> Evaluation:
        """Record what became of a question."""
        if not isinstance(evaluation.outcome, Pending):
            return evaluation.outcome
        done = evaluation.guard.complete(evaluation.outcome, Reply(reply, by))
        self._warn(done.warnings)
        self._hear(evaluation.guard)
        return done

    def let_pass(self, evaluation: CallEvaluation) -> Evaluation:
        """Record an action that needed approval and was done without it."""
        return self.finish(evaluation, UNASKED, by="nobody")

    def refuse(self, method: str, problem: str) -> dict[str, Any]:
        """Record a request that was refused because it cannot be read for certain; return it with its verdict."""
        guard, method = self._guards[self._first], method[:_LONGEST_NAME]
        action = OtherAction(method if method.isprintable() and method else "unreadable", problem)
        ref = RuleRef("what not every reader reads alike is refused", BUILT_IN, DENY)
        verdict = Verdict(DENY, problem, "unparsed", (ref,))
        guard.refuse(ActionRequest((action,), self._who, fields={"method": method}), verdict)
        return {"method": method, "action": None, "verdict": shared_tree(verdict, guard.policy.root.path)}

    def touches(self, meant: Translation, guard: Guard) -> list[tuple[str, ...]]:
        """Return what a call touches, so that two calls can be compared: creating and updating are both writing."""
        return [touch for action in meant.actions for touch in _touches(action, guard)]

    def covers(self, evaluation: CallEvaluation, contents: Mapping[str, str]) -> dict[tuple[str, ...], str | None]:
        """Return what a call may do by now, of each file with the hash of the content that was shown."""
        covered: dict[tuple[str, ...], str | None] = dict.fromkeys(self.touches(evaluation.meaning, evaluation.guard))
        for path, content in contents.items():
            place = evaluation.guard.policy.root.resolve_any(path)
            if isinstance(place, FsTarget) and ("write", place.canonical) in covered:
                covered["write", place.canonical] = content
        return covered

    def look_again(self) -> None:
        """Take in what has changed in the files of the policy, so that its user hears soon of what is wrong there."""
        for guard in self._guards.values():
            try:
                guard.policy.look_again()
            except (ByleaveError, ConfigErrors) as error:
                self._warn((f"the policy cannot be used now: {error}",))
            self._hear(guard)

    def warnings(self) -> list[str]:
        """Return what the user should know and has not been shown yet."""
        new, self._warnings = self._warnings, []
        return new

    def close(self) -> None:
        """Let the records be finished; nothing is evaluated any more."""
        for guard in self._guards.values():
            guard.close()

    def _open(self, workspace: Workspace) -> Guard:
        guard = guard_for(
            workspace, DOOR, files=self._files, session=self._session, client_approves=None, may_observe=True
        )
        self._hear(guard)
        return guard

    def _hear(self, guard: Guard) -> None:
        """Take in what a guard warns of by now, and did not warn of before."""
        before, now = self._standing.get(guard.policy.root.path, frozenset()), tuple(guard.warnings)
        self._standing[guard.policy.root.path] = frozenset(now)
        self._warn([warning for warning in now if warning not in before])

    def _warn(self, warnings: Sequence[str]) -> None:
        new = [warning for warning in dict.fromkeys(warnings) if warning not in self._warnings]
        self._warnings += new[: _MOST_WARNINGS - len(self._warnings)]


def _is_changed_call(text: str, ticket: Ticket, homes: UserDirs) -> bool:
    """Whether a text is what a hook of this very byleave writes for a ticket, and nothing else is in it."""
    ways: tuple[list[str], ...] = ([], ["--home", homes.user])
    files = (None, cwd_file(homes.workspace(ticket.root), ticket.id))
    for tail in [
        ticketed_text(["x"], ticket.id, [*home, "--root", ticket.root], ticket.text, cwd_file=file)[1:]
        for home in ways
        for file in files
    ]:
        if text.endswith(tail):
            return _starts_byleave(text[: -len(tail)], homes.memory)
    return False


def _starts_byleave(text: str, memory: str) -> bool:
    """Whether a text is the words that start this very byleave; of its packages, those that it has itself."""
    own, words = own_command(), text.split(" ")
    if words[0] == own_front(memory):
        del words[0]
    if len(words) == len(own[:4]) + 2 and words[4] == "--packages":
        words = words[:4] if frozenset(sys.path).issuperset(words[5].split(":")) else []
    return words == own[:4] and quote_words(own[:4]) == " ".join(own[:4])


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # no name holds a NUL
        return False


def _unclear(meant: Translation) -> str:
    return "" if meant.understood else meant.problem or "byleave does not know what this would do"


def _title(meant: Translation) -> str | None:
    return next((action.title for action in meant.actions if isinstance(action, OtherAction)), None)


def _seen_from(action: Action, here: Guard, there: Guard) -> Action:
    """Return an action of one workspace as another one names it: paths in full."""
    if here is there:
        return action
    root = here.policy.root.path
    paths = [name for name in ("path", "to") if isinstance(getattr(action, name, None), str)]
    full = {name: os.path.join(root, getattr(action, name)) for name in paths if getattr(action, name)[:1] != "~"}
    if isinstance(action, CommandAction):
        full["cwd"] = os.path.join(root, action.cwd or "")
    return action.replace(**full) if full else action


def _reaches(action: Action, guard: Guard) -> bool:
    """Whether an action, with its paths in full, touches something in this guard's workspace."""
    root = guard.policy.root
    if isinstance(action, CommandAction):
        return is_under(real_path(action.cwd or "/"), root.path)
    places = [getattr(action, name, None) for name in ("path", "to")]
    found = [root.resolve_any(place) for place in places if isinstance(place, str)]
    return any(isinstance(place, FsTarget) and is_under(place.canonical, root.path) for place in found)


def _touches(action: Action, guard: Guard) -> Iterator[tuple[str, ...]]:
    if isinstance(action, FileAction):
        place = guard.policy.root.resolve_any(action.path)
        if isinstance(place, FsTarget):
            yield ("write" if action.kind in ("create", "update") else action.kind, place.canonical)
            return
    elif isinstance(action, CommandAction):
        yield ("command", action.command, real_path(action.cwd or guard.policy.root.path))
        return
    yield ("other", repr(action))
