"""The methods of a mediated tool: read the parameters, have the guard authorize the action, perform it.

A `RequestError` refuses a request; its number and sentence go to the tool. Only what was allowed is done, and only at
the place that was decided about.

File methods are served here; `http_methods` and `process_methods` serve the others. Start at `MethodService.serve`.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from byleave.core.access import Default
from byleave.core.action import FileAction, MoveAction, SearchAction
from byleave.core.decision import ALLOW, named_path
from byleave.core.file_decision import decide_reading_all
from byleave.core.fs_rules import FsTarget
from byleave.core.paths import collapse, refuse_name
from byleave.errors import RequestError
from byleave.guard.evaluation import UNKNOWN, ActionRequest, Evaluation
from byleave.protocol.jsonrpc import ACCESS_DENIED, ALREADY_EXISTS, METHOD_NOT_FOUND, TIMED_OUT
from byleave.text import quoted
from byleave.toolhost.codec import Params, RequestErrors, content_fields, denied, first_grants
from byleave.workspace import file_effects
from byleave.workspace.project import DIRECTORY, FILE, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.action import Action
    from byleave.core.permit import Permit
    from byleave.core.redact import SecretFilter
    from byleave.guard.evaluation import Who
    from byleave.guard.guard import Guard
    from byleave.guard.recording import Outcomes
    from byleave.toolhost.deadline import Deadline
    from byleave.workspace.project import FileMatches, ProjectFiles

    Serve = Callable[[str, Mapping[str, Any], Deadline], dict[str, Any]]  # method, params, turn: `http.*`, `process.*`


_ATTEMPTS = 3  # another process may make or remove the file between the decision and the effect
_HINT = "see docs/protocol.md"
_IN_THE_WAY = ("not_a_directory", "io")  # codes: something on the way to a path is no directory, or a loop


class NeedsPersonError(Exception):
    """The request needs approval, which takes a while: serve it again in a thread that may wait."""


class MethodService:
    """Serves the requests of one tool. Not for two threads at once."""

    def __init__(
        self,
        guard: Guard,
        tool: str,
        project: ProjectFiles,
        secrets: SecretFilter,
        *,
        limit: int = file_effects.LARGEST_FILE,
        who: Who = UNKNOWN,
        others: Mapping[str, Serve] | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        self._guard = guard
        self._tool = tool
        self._project = project
        self._secrets = secrets
        self._limit = limit
        self._who = who
        self._others = dict(others or {})
        self._only = only
        self._later: Outcomes = []

    @property
    def methods(self) -> tuple[str, ...]:
        """What can be asked for here."""
        return tuple(name for name in (*_FILES, *self._others) if self._only is None or name in self._only)

    @staticmethod
    def is_quick(method: str) -> bool:
        """Whether this is done at once, unless it needs approval."""
        return method in _FILES and method != "fs.grep"

    def serve(self, method: str, params: Mapping[str, Any], turn: Deadline, *, patient: bool = True) -> dict[str, Any]:
        """Return the result of a request; a RequestError if there is none.

        Unless it is `patient`, a NeedsPersonError where a person would have to be asked; nothing was done then.
        """
        if self._only is not None and method not in self._only:
            raise RequestError("nothing is changed while a call is being described", hint=_HINT, number=ACCESS_DENIED)
        other = self._others.get(method)
        if other is not None:
            return other(method, params, turn)
        serve = _FILES.get(method)
        if serve is None:
            raise RequestError(f"unknown method {quoted(method)}", hint=_HINT, number=METHOD_NOT_FOUND)
        with RequestErrors():
            return serve(self, Params(params), self._authorizer(turn, patient=patient))

    def _authorizer(self, turn: Deadline, *, patient: bool) -> _Authorizer:
        later = None if patient else self._later  # a thread that may wait records at once
        asks = self._only is None
        return _Authorizer(self._guard, self._who, turn, patient=patient and asks, asks=asks, later=later)

    @property
    def unsettled(self) -> bool:
        """Whether something was done at once whose outcome is not recorded yet."""
        return bool(self._later)

    def settle(self) -> None:
        """Record the outcomes of what was done at once, where no further decision comes whose write they can share."""
        self._guard.record_outcomes(self._later)

    def _for(self, kind: str, path: str, authorizer: _Authorizer) -> Evaluation:
        """Return the answer about one path if it is a yes; else the request is refused."""
        answer = authorizer.ask(FileAction(kind, path, self._tool))
        if answer.permit is None:
            raise self._denied(answer, path, kind)
        return answer

    def _read(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        answer = self._for("read", params.path("path"), authorizer)
        data = authorizer.do(answer, lambda permit: file_effects.read_file(permit, self._project, limit=self._limit))
        shown, size = self._secrets.data(data), len(data)
        return {**content_fields("content", shown), "size": size}

    def _write(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        path, data = params.path("path"), params.data("content", limit=self._limit)
        exclusive = params.flag("exclusive")

        def attempt() -> None:
            place = self._project.find(path)
            known = isinstance(place, FsTarget) and place.exists and not exclusive
            answer = authorizer.ask(FileAction("update" if known else "create", path, self._tool))
            if answer.permit is None:
                raise self._denied(answer, path, "update" if known else "create")
            authorizer.do(answer, lambda permit: file_effects.write_file(permit, data, self._project))

        _again(attempt, () if exclusive else (FileExistsError, FileNotFoundError))
        return {}

    def _exists(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        path = params.path("path")
        begun = authorizer.ask(FileAction("read", path, self._tool))
        if begun.permit is None and begun.verdict.code == "not_a_directory" and self._may_know(path):
            return {"exists": False}
        if begun.permit is None:
            raise self._denied(begun, path, "read")
        (place,) = begun.permit.places
        return {"exists": isinstance(place, FsTarget) and place.exists}

    def _list_dir(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        path = params.path("path", default=".")
        answer = self._for("read", path, authorizer)
        names = authorizer.do(answer, lambda permit: file_effects.list_names(permit, self._project))
        entries = [entry for name in names if (entry := self._entry(path, name)) is not None]
        return {"entries": entries, "hidden": len(names) - len(entries)}

    def _entry(self, directory: str, name: str) -> dict[str, Any] | None:
        """Return one entry as the tool sees it; None if it may not read it."""
        resolved = self._guard.policy.evaluate(FileAction("read", f"{directory.rstrip('/')}/{name}", self._tool))
        place = resolved.places[0]
        if resolved.verdict.decision is not ALLOW or not isinstance(place, FsTarget) or not place.exists:
            return None
        return {**self._secrets.tree(named_path("path", name)), "kind": DIRECTORY if place.directory else FILE}

    def _metadata(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        answer = self._for("read", params.path("path"), authorizer)
        found = authorizer.do(answer, lambda permit: file_effects.look(permit, self._project))
        known = {"kind": found.kind, "size": found.size}
        return known if found.modified is None else {**known, "modified": found.modified}

    def _delete(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        answer = self._for("delete", params.path("path"), authorizer)
        authorizer.do(answer, lambda permit: file_effects.delete_file(permit, self._project))
        return {}

    def _rename(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        action = MoveAction(params.path("from"), params.path("to"), self._tool)
        exclusive = params.flag("exclusive")

        def attempt() -> None:
            answer = authorizer.ask(action)
            if answer.permit is None:
                raise self._denied_move(action, answer)
            replaces = _replaces(answer)
            if replaces and exclusive:
                raise _taken(action.to)

            def move(permit: Permit) -> None:
                self._keep_unreadable(permit)
                file_effects.move_file(permit, self._project, replace=replaces)

            try:
                authorizer.do(answer, move)
            except FileExistsError:
                if replaces:
                    raise _taken(action.to) from None
                raise

        _again(attempt, (FileExistsError,))
        return {}

    def _search_for(self, path: str, pattern: str, authorizer: _Authorizer) -> Evaluation:
        answer = authorizer.ask(SearchAction(path, pattern, self._tool))
        if answer.permit is None:
            raise self._denied(answer, path, "read")
        return answer

    def _keep_unreadable(self, permit: Permit) -> None:
        """Refuse to make something readable by moving it: what may not be read stays where that holds."""
        source, target = permit.places
        action = permit.action
        if not isinstance(source, FsTarget) or not isinstance(target, FsTarget) or not isinstance(action, MoveAction):
            return
        whole = decide_reading_all(self._guard.policy.compiled.policy, action.path, self._tool, source)
        if whole.decision is not ALLOW and self._may_read(action.to):
            problem = f"moving {quoted(action.path)} is denied: you may not read it, and could read it at its new place"
            raise RequestError(problem, hint="the user can add a rule", number=ACCESS_DENIED, data={"code": "denied"})

    def _may_read(self, path: str) -> bool:
        return self._guard.policy.decide(FileAction("read", path, self._tool)).decision is ALLOW

    def _may_know(self, path: str) -> bool:
        """Whether the tool may read what stands in the way of a path, and so may know that it does.

        Of `x/` that is `x` itself. Behind a link that leads out, nothing may be known.
        """
        while path:
            path = path.rstrip("/") if path.endswith("/") else path.rpartition("/")[0]
            place = self._project.find(path or ".")
            if isinstance(place, FsTarget) and place.exists:
                return self._may_read(path or ".")
            if not isinstance(place, FsTarget) and place.code not in _IN_THE_WAY:
                return False
        return False

    def _denied_move(self, action: MoveAction, answer: Evaluation) -> RequestError:
        """Return the error of a denied move, which names the one of the two paths that is denied."""
        removes = FileAction("delete", action.path, self._tool)
        kind, path = "delete", action.path
        if self._guard.policy.decide(removes).decision is ALLOW and self._may_read(action.path):
            found = self._project.find(action.to)
            kind, path = "update" if isinstance(found, FsTarget) and found.exists else "create", action.to
        return self._denied(answer, path, kind, action.path, action.to)

    def _denied(self, answer: Evaluation, path: str, kind: str, *more: str) -> RequestError:
        """Return the error of a denied request. It reveals nothing about a path that the tool may not read."""
        unknown = answer.verdict.code in _IN_THE_WAY
        if all(self._may_read(each) or (unknown and self._may_know(each)) for each in (path, *more)):
            return denied(answer.verdict, kind)
        if answer.verdict.code in ("absolute", "input_escape"):
            return denied(answer.verdict, kind)
        needed = (
            ("create", "update") if kind in ("create", "update") else (kind,)
        )  # naming one would reveal whether the file exists
        capability = " or ".join(needed)
        problem = f"{capability} on {quoted(path)} is denied: {self._by_its_name(path)}"
        data: dict[str, Any] = {"code": "denied", "capability": capability}
        access = self._guard.policy.compiled.policy.tool(self._tool).access
        data["grants"] = first_grants(tuple(dict.fromkeys(path for each in needed for path in access.grants(each))))
        return RequestError(problem, hint="the user can add a rule", number=ACCESS_DENIED, data=data)

    def _by_its_name(self, path: str) -> str:
        """Return why a path is denied, from its text alone: the same whether it exists or not."""
        refused = refuse_name(path)
        if refused is not None:
            return refused.problem
        table = self._guard.policy.compiled.policy.tool(self._tool).access.fs
        if isinstance(table, Default):
            return table.rule
        rule = table.match(collapse(path) or "")
        if rule is None:
            return "no access.fs rule covers it"
        return "this tool may not access what is there" if rule.grants("read") else rule.text

    def _grep(self, params: Params, authorizer: _Authorizer) -> dict[str, Any]:
        pattern = params.text("pattern")
        answers = [self._search_for(path, pattern, authorizer) for path in params.paths("paths") or ["."]]
        query = Query(pattern, (), tuple(params.texts("extensions")), params.number("context", most=_MOST_CONTEXT))
        permits = [authorizer.allowed(answer) for answer in answers]

        def may_read(path: str) -> bool:
            authorizer.go_on()
            return self._may_read(path)

        found = authorizer.do(
            answers[0], lambda _permit: file_effects.search_files(permits, query, may_read, self._project)
        )
        return {"matches": [self._match(each) for each in found]}

    def _match(self, found: FileMatches) -> dict[str, Any]:
        lines = [
            {"line_number": line.number, "content": self._secrets.text(line.content), "is_match": line.matches}
            for line in found.lines
        ]
        return {**self._secrets.tree(named_path("path", found.path)), "lines": lines}


_MOST_CONTEXT = 1000  # lines around a match
READING = frozenset({"fs.read", "fs.exists", "fs.list_dir", "fs.metadata", "fs.grep"})
_FILES: dict[str, Callable[[MethodService, Params, _Authorizer], dict[str, Any]]] = {
    "fs.read": MethodService._read,  # noqa: SLF001 -- the table of our own methods
    "fs.write": MethodService._write,  # noqa: SLF001
    "fs.exists": MethodService._exists,  # noqa: SLF001
    "fs.list_dir": MethodService._list_dir,  # noqa: SLF001
    "fs.metadata": MethodService._metadata,  # noqa: SLF001
    "fs.delete": MethodService._delete,  # noqa: SLF001
    "fs.rename": MethodService._rename,  # noqa: SLF001
    "fs.grep": MethodService._grep,  # noqa: SLF001
}


class _Authorizer:
    """Asks the guard on the tool's behalf, and performs what it allows."""

    def __init__(
        self,
        guard: Guard,
        who: Who,
        turn: Deadline,
        *,
        patient: bool,
        asks: bool,
        later: Outcomes | None,
    ) -> None:
        self._guard = guard
        self._who = who
        self._turn = turn
        self._patient = patient
        self._asks = asks
        self._later = later

    def ask(self, action: Action) -> Evaluation:
        """Return the guard's answer, whatever it is."""
        if self._patient:
            return self._guard.check(action, self._who)
        outcome = self._guard.authorize(ActionRequest((action,), self._who), self._later)
        if not isinstance(outcome, Evaluation) and not self._asks:
            raise RequestError(
                "this needs approval, which is not requested while a call is being described",
                hint=_HINT,
                number=ACCESS_DENIED,
            )
        if not isinstance(outcome, Evaluation):
            raise NeedsPersonError
        return outcome

    @staticmethod
    def allowed(answer: Evaluation) -> Permit:
        """Return the permit; without one the request is refused, for the reason that the verdict gives."""
        if answer.permit is None:
            raise denied(answer.verdict)
        return answer.permit

    def do(self, answer: Evaluation, effect: Callable[[Permit], Any]) -> Any:
        """Perform what was allowed, unless it was cancelled while a person decided."""
        self._turn.go_on()
        return self._guard.perform(answer, effect, later=self._later)

    def go_on(self) -> None:
        """Return while the request is not cancelled and has time left."""
        self._turn.go_on()
        if self._turn.deadline is not None and monotonic() > self._turn.deadline:
            raise RequestError("the search took too long", hint="search less", number=TIMED_OUT)


def _replaces(answer: Evaluation) -> bool:
    target = answer.permit.places[1] if answer.permit is not None else None
    return isinstance(target, FsTarget) and target.exists


def _taken(path: str) -> RequestError:
    return RequestError(f"{quoted(path)} exists already", hint="choose another name", number=ALREADY_EXISTS)


def _again(attempt: Callable[[], None], changed: tuple[type[OSError], ...]) -> None:
    """Authorize and perform; where the place has changed in between, do both again."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt()
        except changed:
            continue
    return attempt()
