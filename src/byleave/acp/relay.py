"""Between editor and agent: passes on every line as it came, except those that the policy has to answer. Sans-IO.

Feed it whole lines; it returns what to send to which side. Of most lines only the outside is read (`protocol.jsonrpc`);
a line that not every reader reads alike is passed on or refused by what it may hold (`odd_lines`). What the agent
reports of its tool calls is kept (`call_tracker`), so that a request for permission can be understood and evaluated
(`authorize`); `permission_request` writes the messages of our own.

`make_relay` puts the parts together. Start at `Relay.from_agent`.
"""

from __future__ import annotations

import secrets
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.acp import permission_request
from byleave.acp.authorize import CallAuthorizer
from byleave.acp.call_tracker import CallTracker, UnreadError
from byleave.acp.open_files import OpenFiles, watched_path
from byleave.acp.permission_request import (
    ALLOW_ALWAYS,
    ALLOW_ONCE,
    REJECT_ALWAYS,
    REJECT_ONCE,
    content_of,
    is_a_question,
    once_option,
    plain_option,
    question_about,
    readings,
    reject_option,
    shown_contents,
    strays,
)
from byleave.acp.requests import (
    INTERCEPTED,
    PERMISSION,
    TERMINAL,
    MalformedRequestError,
    OpenQuestion,
    OpenQuestions,
    intercepts,
    is_plain_update,
    passes_for_intercepted,
    read_agent_request,
    read_outcome,
    read_permission,
)
from byleave.acp.sessions import HEARD, AcpSessions
from byleave.acp.tracked_calls import Screen
from byleave.acp.unreadable_lines import (
    decoded,
    has_inner_ends,
    id_key,
    ids_in,
    may_hold,
    methods_in,
    opened,
    read_somehow,
)
from byleave.acp.usual_lines import are_notifications, are_pieces_of_text
from byleave.acp.versions import INITIALIZE, Versions
from byleave.errors import ByleaveError
from byleave.guard.evaluation import (
    CANCELLED,
    CHANGED,
    ELSEWHERE,
    FOR_SESSION,
    NEVER,
    NO,
    NO_PERSON,
    ONCE,
    UNKEPT,
    YESES,
    Evaluation,
)
from byleave.protocol.json_fast import FAST
from byleave.protocol.jsonrpc import Malformed, read_envelope
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.acp.authorize import CallEvaluation, Placed
    from byleave.acp.confined_terminal import TerminalConfiner
    from byleave.acp.open_files import WatchedPath
    from byleave.acp.requests import AgentRequest, PermissionOption, PermissionRequest
    from byleave.acp.sessions import AcpSession
    from byleave.acp.tracked_calls import TrackedCall
    from byleave.guard.evaluation import Who
    from byleave.policy.load import Workspace
    from byleave.protocol.jsonrpc import Envelope


TO_AGENT, TO_CLIENT = "agent", "client"
UPDATE = "session/update"
_CANCEL = "session/cancel"
_HEARD_OF_EDITOR = frozenset({INITIALIZE, _CANCEL, *HEARD})


class Send(Struct, frozen=True):
    """Bytes that go to one of the two, whole lines with their ends."""

    to: str
    data: bytes


GRACE = 1.0  # seconds an editor has to answer what was cancelled, before we do
_LOOK_AGAIN = 1.0  # seconds between two looks at the files of the policy, while nothing is asked
_LONGEST_NAME = 80
_MOST_NOTICES = 20  # at a time: an agent that floods us does not flood its user
_STRAYS = "its path is not absolute, and each editor would look for it in another place"
_REPLY_OF = {ALLOW_ONCE: ONCE, ALLOW_ALWAYS: FOR_SESSION, REJECT_ONCE: NO, REJECT_ALWAYS: NEVER}


class Relay:
    """Decides for every line what becomes of it. Owns no pipe and no thread; threads that share it hold a lock."""

    def __init__(
        self,
        authorizer: CallAuthorizer,
        *,
        strict: bool = False,
        log: Callable[[dict[str, Any]], None] | None = None,
        now: Callable[[], float] = monotonic,
        confiner: TerminalConfiner | None = None,
        sandboxed: bool = False,
    ) -> None:
        self._authorizer = authorizer
        self._confiner = confiner
        self._sandboxed = sandboxed
        self._strict = strict
        self._log = log
        self._now = now
        self._sessions = AcpSessions(authorizer.place)
        self._tracker = CallTracker(self._sessions, authorizer)
        self._questions = OpenQuestions()
        self._files = OpenFiles(now)
        self._versions = Versions()
        self._notices: list[str] = []
        self._looked = now()

    @property
    def is_waiting(self) -> bool:
        """Whether something was cancelled that the editor has not answered yet."""
        return bool(self._questions.cancelled())

    def from_agent(self, line: bytes) -> list[Send] | None:
        """Return what to send for a line of the agent; None to pass it on as it is."""
        read = read_envelope(line, FAST)
        problem = read.problem if isinstance(read, Malformed) else ""
        envelope = None if isinstance(read, Malformed) or has_inner_ends(line) else read
        if self._versions.concerns(envelope, line):
            return self._initialized(envelope, line)
        if self._versions.problem:
            return self._stopped(envelope, TO_AGENT)
        if envelope is None:
            return self._odd(line, problem)
        if envelope.method is None:
            self._sessions.hear_answer(envelope)
            return None
        return self._by_method(envelope.method, envelope, line)

    def from_client(self, line: bytes) -> list[Send] | None:
        """Return what to send for a line of the editor; None to pass it on as it is."""
        read = read_envelope(line, FAST)
        is_odd = isinstance(read, Malformed)
        envelope = read_somehow(line) if isinstance(read, Malformed) else read
        if is_odd and (self._versions.problem or _may_ask_for_a_version(line)):
            return self._refuse_odd_initialize(line)
        if envelope is None:
            return None
        if envelope.method == INITIALIZE:
            return self._initialize(envelope, line)
        if self._versions.problem:
            return self._stopped(envelope, TO_CLIENT)
        if envelope.method is not None:
            self._sessions.hear_editor(envelope.method, envelope)
            return [Send(TO_AGENT, line), *self._cancel_session(envelope)] if envelope.method == _CANCEL else None
        if envelope.id is not None and envelope.id in self._files:
            return self._opened(envelope)
        if self._questions.is_idle or envelope.id is None:
            return None
        question = self._questions.take(envelope.id)
        if question is not None:
            return self._answered(question, None if is_odd else envelope)
        return [] if self._questions.was_answered(envelope.id) else None

    def passes_from_agent(self, lines: bytes) -> bool:
        """Whether `from_agent` would pass on each of these lines, and note nothing; False where it has to be asked."""
        return not self._versions.problem and are_pieces_of_text(lines)

    def passes_from_client(self, lines: bytes) -> bool:
        """Whether `from_client` would pass on each of these lines, and note nothing; False where it has to be asked."""
        return not self._versions.problem and are_notifications(lines, heard=_HEARD_OF_EDITOR)

    def tick(self) -> list[Send]:
        """Answer what was cancelled and has no answer yet; look at the files of the policy now and then."""
        now = self._now()
        if now - self._looked >= _LOOK_AGAIN:
            self._looked = now
            self._authorizer.look_again()
        return [sent for question in self._questions.late(now) for sent in self._give_up(question)]

    def close(self) -> None:
        """Record that the open questions get no answer any more."""
        for question in self._questions.clear():
            self._authorizer.finish(question.evaluation, NO_PERSON)
        self._authorizer.close()

    def notices(self) -> list[str]:
        """Return the notices for the user that are new."""
        new = [*self._notices, *self._authorizer.warnings()]
        self._notices = []
        return new

    # Which version of the protocol both speak.

    def _initialize(self, envelope: Envelope, line: bytes) -> list[Send]:
        """Let the editor ask for a version whose requests are evaluated here."""
        try:
            return [Send(TO_AGENT, self._versions.ask(envelope, line))]
        except MalformedRequestError as error:
            self._notices.append(f"{INITIALIZE} of the editor was refused: {error}")
            raw_id = envelope.raw_id
            return [] if raw_id is None else [Send(TO_CLIENT, permission_request.refusal(raw_id, str(error)))]

    def _initialized(self, envelope: Envelope | None, line: bytes) -> list[Send]:
        """Pass on which version the agent answers with; one that is not supported here ends the conversation."""
        answered = self._versions.answer(envelope, line)
        if answered is not None:
            if envelope is not None:
                self._sessions.hear_answer(envelope)
            return [Send(TO_CLIENT, answered)]
        problem = self._versions.problem
        self._authorizer.refuse(INITIALIZE, problem)
        self._notices.append(f"{problem}; nothing passes any more")
        refusals = [Send(TO_CLIENT, permission_request.refusal(raw_id, problem)) for raw_id in self._versions.give_up()]
        open_ = self._questions.clear()
        for question in open_:
            self._authorizer.finish(question.evaluation, NO_PERSON)
        return refusals + [Send(TO_AGENT, permission_request.refusal(question.raw_id, problem)) for question in open_]

    def _stopped(self, envelope: Envelope | None, back: str) -> list[Send]:
        """Answer requests that come though no supported version was agreed on; everything else ends here."""
        raw_id = envelope.raw_id if envelope is not None and envelope.method is not None else None
        return [] if raw_id is None else [Send(back, permission_request.refusal(raw_id, self._versions.problem))]

    def _refuse_odd_initialize(self, line: bytes) -> list[Send]:
        """Refuse a line of the editor that not every reader reads alike, and that some may take for `initialize`."""
        if self._versions.problem:
            return []
        problem = "not every reader reads its line alike"
        self._notices.append(f"{INITIALIZE} of the editor was refused: {problem}")
        return [Send(TO_CLIENT, permission_request.refusal(raw_id, problem)) for raw_id in ids_in(line)]

    # What the agent says.

    def _by_method(self, method: str, envelope: Envelope, line: bytes) -> list[Send] | None:
        if method == UPDATE:
            ended = self._hear(envelope, line)
            return [Send(TO_CLIENT, line), *ended] if ended else None
        if method == "$/cancel_request":
            return self._withdraw(envelope)
        if not intercepts(method):
            if passes_for_intercepted(method):
                return self._refuse(envelope, "its method is written otherwise than the protocol writes it")
            if envelope.id is not None and envelope.id in self._files:
                return self._refuse(envelope, "its id is that of a request that is still open")
            if not self._questions.is_idle:
                self._questions.reuse(envelope.id)
            return None
        if self._questions.asked_with(envelope.id) is not None or envelope.id in self._files:
            return self._refuse(envelope, "its id is that of a request that is still open")
        if self._questions.is_withdrawn(envelope.id):
            return self._refuse(envelope, "the editor may still answer an older request with its id")
        if self._questions.are_many or self._files.are_many:
            return self._refuse(envelope, "too many requests are open")
        self._questions.reuse(envelope.id)
        try:
            if method == PERMISSION:
                return self._permission(read_permission(envelope), envelope)
            return self._agent_request(read_agent_request(envelope, method), envelope, line)
        except MalformedRequestError as error:
            return self._refuse(envelope, str(error))
        except Exception as error:  # noqa: BLE001 -- a defect of ours: this request is refused, and the others are evaluated
            return self._refuse(envelope, f"internal error: {type(error).__name__}")

    def _hear(self, envelope: Envelope, line: bytes) -> list[Send]:
        """Take in an update; return the end of the questions whose call it changes."""
        try:
            heard = self._tracker.hear(envelope, line)
        except UnreadError:
            return self._doubt_all()
        except Exception as error:  # noqa: BLE001 -- a defect of ours: nothing that was reported counts any more
            self._notices.append(
                f"internal error: {type(error).__name__}; what the agent reported before is not relied on"
            )
            return self._doubt_all()
        if heard is None or not self._questions.shown():
            return []
        return self._end_changed(*heard) if is_plain_update(envelope) else self._doubt_all()

    def _doubt_all(self) -> list[Send]:
        """Take everything that was reported for doubtful, and so what people are asked about as well."""
        self._tracker.doubt_all()
        return [sent for question in self._questions.shown() for sent in self._end(question)]

    def _end_changed(self, session: str, update: Mapping[str, Any]) -> list[Send]:
        """End the questions about a call that the agent now reports as another than is shown: a yes is for that."""
        about = self._questions.about(session, str(update.get("toolCallId")))
        changed = [each for each in about if each.screen is not None and each.screen.is_changed_by(update)]
        return [sent for question in changed for sent in self._end(question)]

    def _end(self, question: OpenQuestion) -> list[Send]:
        """Answer a question that is about something else by now; what the editor says to it later is dropped."""
        self._questions.withdraw(question.id)
        done = self._authorizer.finish(question.evaluation, CHANGED)
        self._settle(question.call, question.evaluation, self._sessions.get(question.session), {}, allowed=False)
        cancellation = permission_request.notification("$/cancel_request", {"requestId": decoded(question.raw_id)})
        answer = self._reply(question.raw_id, reject_option(question.options), done.verdict)
        return [*answer, Send(TO_CLIENT, cancellation)]

    def _odd(self, line: bytes, problem: str) -> list[Send] | None:
        """Pass on a line that not every reader reads alike, unless one could find a request in it that we intercept."""
        methods = methods_in(line)
        if methods is None:
            is_update, is_intercepted = may_hold(line, (UPDATE,)), may_hold(line, INTERCEPTED)
        else:
            is_update = UPDATE in methods
            is_intercepted = any(intercepts(method) or passes_for_intercepted(method) for method in methods)
        ended = self._doubt_all() if is_update else []
        if (answer := read_somehow(line)) is not None and answer.method is None:
            self._sessions.hear_answer(answer)
        if not is_intercepted:
            return [Send(TO_CLIENT, line), *ended] if ended else None
        problem = problem or "not every reader reads its line alike"
        sends = ended + self._refuse(None, problem)
        return sends + [Send(TO_AGENT, permission_request.refusal(raw_id, problem)) for raw_id in ids_in(line)]

    def _permission(self, request: PermissionRequest, envelope: Envelope) -> list[Send] | None:
        session = self._sessions.get(request.session)
        call = session.calls.get(request.call_id)
        call.asked, call.refused, call.is_open = True, False, True
        meant, placed = self._tracker.meaning_of(request, session, call)
        call.asked_for |= {touch[:2] for touch in self._authorizer.touches(meant, placed.guard)}
        allow = None if is_a_question(meant, request) else plain_option(request.options, ALLOW_ONCE)
        also = {"tool_call": request.call_id, "editor_session": request.session, "method": PERMISSION}
        evaluation = self._authorizer.authorize(meant, placed, by_hand=allow is None, also=also)
        self._keep_log(evaluation, envelope, {**also, "options": [option.kind for option in request.options]})
        if evaluation.matter is None:
            self._settle(call, evaluation, session, shown_contents(request), allowed=evaluation.verdict.allowed)
            answer = allow if evaluation.verdict.allowed else reject_option(request.options)
            return self._reply(envelope.raw_id, answer, evaluation.verdict)
        return None if self._ask_editor(evaluation, request, call, envelope) else []

    def _ask_editor(
        self, evaluation: CallEvaluation, request: PermissionRequest, call: TrackedCall, envelope: Envelope
    ) -> bool:
        """Keep a question until the editor has answered it; return whether it can be answered."""
        if envelope.id is None:
            self._authorizer.finish(evaluation, NO_PERSON)
            return False
        question = OpenQuestion(envelope.id, evaluation, request.session, envelope.raw_id, b"")
        question.options, question.call, question.call_id = request.options, call, request.call_id
        question.screen, question.contents = Screen(call, request.call), shown_contents(request)
        self._questions.add(question)
        return True

    def _agent_request(self, request: AgentRequest, envelope: Envelope, line: bytes) -> list[Send] | None:
        """Evaluate a request to read, write or start something; its call may not have been asked about."""
        session = self._sessions.get(request.session)
        watched = self._watched(request)  # before the policy looks where the path leads
        calls = readings(request)
        meant, placed = self._authorizer.understand_all(calls, session.placed, session.cwd)
        confines = self._can_confine(request, placed)
        if confines and len(calls) > 1:  # a confined run reads it in one way only
            alone, _placed = self._authorizer.understand_all(calls[:1], session.placed, session.cwd)
            meant = alone if self._authorizer.runs_confined(alone, placed) else meant
        if strays(request):
            meant = meant.replace(understood=False, problem=meant.problem or _STRAYS)
        content = content_of(request)
        asked = meant.understood and session.calls.cover(self._authorizer.touches(meant, placed.guard), content)
        also: dict[str, Any] = {"editor_session": request.session, "method": request.method}
        marks = {} if asked else {"unasked": True}
        evaluation = self._authorizer.authorize(meant, placed, also={**also, **marks}, confines=confines)
        self._keep_log(evaluation, envelope, {**also, **marks})
        if isinstance(evaluation.outcome, Evaluation):
            if not evaluation.verdict.allowed:
                return self._deny(envelope, evaluation)
            return self._forward(evaluation, evaluation.outcome, request, envelope, line, watched)
        observed = evaluation.outcome.observed
        if self._strict and not asked and not observed:
            return self._ask_ourselves(evaluation.without_mark("unasked"), request, envelope, line)
        # No rule allows it: a person approved its call, or was not asked.
        done = self._authorizer.finish(evaluation, ELSEWHERE) if asked else self._authorizer.let_pass(evaluation)
        if not done.recorded:
            return self._deny(envelope, structs.replace(evaluation, outcome=done.replace(verdict=UNKEPT)))
        return None if observed else self._forward(evaluation, done, request, envelope, line, watched)

    def _watched(self, request: AgentRequest) -> WatchedPath | None:
        """Note what the way to a file looks like, where a confined process may exchange names on it."""
        placed = self._sessions.get(request.session).placed
        if placed is None or not (self._sandboxed or placed.guard.policy.compiled.policy.shell is not None):
            return None
        return watched_path(request, placed.guard.policy.root.path)

    def _opened(self, envelope: Envelope) -> list[Send] | None:
        """Pass on what the editor says of a file; not what it read while the way to that file changed."""
        problem, notice = self._files.problem_with(envelope)
        if notice and len(self._notices) < _MOST_NOTICES:
            self._notices.append(notice)
        return [Send(TO_AGENT, permission_request.refusal(envelope.raw_id, problem))] if problem else None

    def _can_confine(self, request: AgentRequest, placed: Placed) -> bool:
        """Whether a command can be started so that it runs confined, if the policy says so."""
        if request.method != TERMINAL or self._confiner is None or placed.guard.policy.compiled.policy.shell is None:
            return False
        session = self._sessions.get(request.session)
        return not self._confiner.why_not(request, placed.guard, session.cwd, self._authorizer.shell)

    def _forward(  # noqa: PLR0917 -- the request, what was decided about it, and how it came
        self,
        evaluation: CallEvaluation,
        done: Evaluation,
        request: AgentRequest,
        envelope: Envelope,
        line: bytes,
        watched: WatchedPath | None,
    ) -> list[Send] | None:
        """Let a request go to the editor as it came; one whose command runs confined is changed so that it does."""
        sandbox, raw_id = done.verdict.sandbox, envelope.raw_id
        try:
            if watched is not None:
                result = self._files.forward(envelope.id, request, evaluation, watched)
                if result is None or raw_id is None:
                    return None if result is None else []
                return [Send(TO_AGENT, permission_request.result(raw_id, result))]
            if sandbox is None or not sandbox[0] or self._confiner is None:
                return None
            session, shell, sequence = self._sessions.get(request.session), self._authorizer.shell, done.sequences[0]
            changed = self._confiner.change(line, request, evaluation.guard, session.cwd, shell, sequence)
        except (ByleaveError, ValueError, OSError) as error:
            what = "the command cannot be confined" if watched is None else "the file cannot be written"
            problem = f"{what}: {error}"
            return [] if raw_id is None else [Send(TO_AGENT, permission_request.refusal(raw_id, problem))]
        return [Send(TO_CLIENT, changed)]

    def _ask_ourselves(
        self, evaluation: CallEvaluation, request: AgentRequest, envelope: Envelope, line: bytes
    ) -> list[Send] | None:
        if envelope.id is None:
            return self._deny(envelope, evaluation)
        ours = f"byleave-{secrets.token_hex(8)}"
        question = OpenQuestion(ours, evaluation, request.session, envelope.raw_id, line)
        question.held_for, question.options = envelope.id, permission_request.OUR_OPTIONS
        question.request, question.envelope = request, envelope
        self._questions.add(question)
        return [
            Send(
                TO_CLIENT,
                permission_request.request(
                    ours,
                    PERMISSION,
                    question_about(request, ours, evaluation.verdict, self._sessions.get(request.session).cwd),
                ),
            )
        ]

    def _withdraw(self, envelope: Envelope) -> list[Send] | None:
        """Take in that the agent gives up a request of its own: the editor has a moment to answer what it has."""
        params = opened(envelope.params)
        question = self._questions.asked_with(id_key(params.get("requestId")) if isinstance(params, dict) else None)
        if question is None:
            return None
        if question.held_for is not None:
            return self._give_up(question)
        self._start_grace(question)
        return None

    # What the editor says.

    def _answered(self, question: OpenQuestion, envelope: Envelope | None) -> list[Send] | None:
        if question.held_for is not None:
            return self._answered_ours(question, envelope)
        if question.cancelled_until is None:
            return self._answered_theirs(question, envelope)
        reply, readable = _reply_in(envelope, question.options)
        sent = self._cancelled(question)
        return None if readable and reply in (CANCELLED, NO_PERSON) else sent

    def _answered_theirs(self, question: OpenQuestion, envelope: Envelope | None) -> list[Send] | None:
        """Pass the editor's answer on: an answer for always becomes one for once, and we remember it."""
        reply, readable = _reply_in(envelope, question.options)
        done = self._authorizer.finish(question.evaluation, reply)
        self._settle(
            question.call,
            question.evaluation,
            self._sessions.get(question.session),
            question.contents,
            allowed=done.allowed or reply == ELSEWHERE,
        )
        if reply in YESES and not done.allowed:
            return self._reply(question.raw_id, reject_option(question.options), done.verdict)
        if reply in (FOR_SESSION, NEVER) and not question.evaluation.meaning.is_own_question:
            once = once_option(question.options, ALLOW_ONCE) if done.allowed else reject_option(question.options)
            return None if once is None else self._reply(question.raw_id, once, None)
        return None if readable else self._reply(question.raw_id, None, None)

    def _answered_ours(self, question: OpenQuestion, envelope: Envelope | None) -> list[Send]:
        reply, _readable = _reply_in(envelope, question.options)
        request, held = question.request, question.envelope
        watched = None if request is None else self._watched(request)
        done = self._authorizer.finish(
            question.evaluation, CANCELLED if question.cancelled_until is not None else reply
        )
        if done.allowed and request is not None and held is not None:
            evaluation = structs.replace(question.evaluation, outcome=done)
            changed = self._forward(evaluation, done, request, held, question.line, watched)
            return [Send(TO_CLIENT, question.line)] if changed is None else changed
        return [
            Send(
                TO_AGENT,
                permission_request.denial(question.raw_id, done.verdict, question.evaluation.guard.policy.root.path),
            )
        ]

    def _cancel_session(self, envelope: Envelope) -> list[Send]:
        """Answer what we hold; the editor has a moment for what it was asked itself."""
        params = opened(envelope.params)
        name = params.get("sessionId") if isinstance(params, dict) else None
        if isinstance(name, str):
            self._sessions.get(name).calls.uncover()
        held = []
        for question in self._questions.in_session(name):
            if question.held_for is not None:
                held += self._give_up(question)
            else:
                self._start_grace(question)
        return held

    # Both.

    def _start_grace(self, question: OpenQuestion) -> None:
        if question.cancelled_until is None:
            question.cancelled_until = self._now() + GRACE

    def _give_up(self, question: OpenQuestion) -> list[Send]:
        """Answer in the editor's place what was cancelled; what it says later is dropped."""
        self._questions.withdraw(question.id)
        if question.held_for is None:
            return self._cancelled(question)
        self._authorizer.finish(question.evaluation, CANCELLED)
        cancellation = permission_request.notification("$/cancel_request", {"requestId": question.id})
        return [Send(TO_AGENT, permission_request.cancelled_request(question.raw_id)), Send(TO_CLIENT, cancellation)]

    def _cancelled(self, question: OpenQuestion) -> list[Send]:
        self._authorizer.finish(question.evaluation, CANCELLED)
        self._settle(question.call, question.evaluation, self._sessions.get(question.session), {}, allowed=False)
        return self._reply(question.raw_id, None, None)

    def _settle(
        self,
        call: TrackedCall | None,
        evaluation: CallEvaluation,
        session: AcpSession,
        contents: Mapping[str, str],
        *,
        allowed: bool,
    ) -> None:
        if call is None:
            return
        call.is_open, call.refused = False, not allowed
        if not allowed:
            session.calls.uncover(self._authorizer.touches(evaluation.meaning, evaluation.guard))
        elif evaluation.meaning.understood:
            call.covers |= self._authorizer.covers(evaluation, contents)

    def _reply(self, raw_id: Any, option: PermissionOption | None, verdict: Any) -> list[Send]:
        """Answer a request for permission with an option; without one, with `cancelled`."""
        return [] if raw_id is None else [Send(TO_AGENT, permission_request.permission(raw_id, option, verdict))]

    def _deny(self, envelope: Envelope, evaluation: CallEvaluation) -> list[Send]:
        raw_id = envelope.raw_id
        root = evaluation.guard.policy.root.path
        return [] if raw_id is None else [Send(TO_AGENT, permission_request.denial(raw_id, evaluation.verdict, root))]

    def _refuse(self, envelope: Envelope | None, problem: str) -> list[Send]:
        """Answer what cannot be evaluated because it cannot be read for certain; it goes nowhere."""
        method = "" if envelope is None else f" {quoted(str(envelope.method)[:_LONGEST_NAME])}"
        if len(self._notices) < _MOST_NOTICES:
            self._notices.append(f"a message{method} of the agent was refused: {problem}")
        raw_id = None if envelope is None else envelope.raw_id
        refused = self._authorizer.refuse("" if envelope is None else str(envelope.method), problem)
        if self._log is not None:
            self._log({"id": None if raw_id is None else decoded(raw_id), **refused})
        return [] if raw_id is None else [Send(TO_AGENT, permission_request.refusal(raw_id, problem))]

    def _keep_log(self, evaluation: CallEvaluation, envelope: Envelope, fields: dict[str, Any]) -> None:
        if self._log is not None:
            raw = envelope.raw_id
            self._log({"id": None if raw is None else decoded(raw), **fields, **evaluation.tree})


def _may_ask_for_a_version(line: bytes) -> bool:
    return may_hold(line, (f'"{INITIALIZE}"',)) and may_hold(line, ("protocolversion",))


def _reply_in(envelope: Envelope | None, options: tuple[PermissionOption, ...]) -> tuple[str, bool]:
    """Return what the editor's answer says, and whether it can be read; an error is an answer that is no yes."""
    if envelope is None:
        return NO_PERSON, False
    try:
        chosen, cancelled = read_outcome(envelope)
    except MalformedRequestError:
        return NO_PERSON, envelope.error is not None
    if cancelled:
        return CANCELLED, True
    kind = next((option.kind for option in options if option.id == chosen), None)
    return (NO_PERSON, False) if kind is None else (_REPLY_OF.get(kind, ELSEWHERE), True)


def make_relay(
    workspace: Workspace,
    *,
    who: Who,
    files: Sequence[str] = (),
    session: str = "default",
    fixed: bool = False,
    strict: bool = False,
    log: Callable[[dict[str, Any]], None] | None = None,
    now: Callable[[], float] = monotonic,
    confiner: TerminalConfiner | None = None,
    sandboxed: bool = False,
) -> Relay:
    """Return a relay for an agent in this workspace.

    Unless the workspace is `fixed`, the policy of its own workspace holds for a session that works elsewhere. `log` is
    given an object for every request that was evaluated. `confiner` has commands run confined that the editor starts.
    `sandboxed`: the agent runs in a sandbox, and reaches what is outside through the editor alone.
    """
    authorizer = CallAuthorizer(workspace, files=files, session=session, who=who, fixed=fixed)
    return Relay(authorizer, strict=strict, log=log, now=now, confiner=confiner, sandboxed=sandboxed)
