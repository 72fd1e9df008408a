"""`process.run` for one tool: a program in the tool's own sandbox, with nothing but what it may have.

The guard decides about the program before it is started, and about everything that it starts or reaches then. Its
output is returned whole, or not at all. Start at `ProcessMethods.serve`. Reading it: `process.attend`.
"""

from __future__ import annotations

from threading import Lock, local
from typing import TYPE_CHECKING

from byleave.core.action import SpawnAction
from byleave.errors import ByleaveError, RequestError
from byleave.guard.evaluation import UNKNOWN
from byleave.launch.start import ProgramStart, start_as_configured, usual_variables
from byleave.protocol.jsonrpc import ACCESS_DENIED, INTERNAL_ERROR, METHOD_NOT_FOUND, NOT_FOUND
from byleave.sandbox.linux.steps import minimal
from byleave.sandbox.process import DEVNULL
from byleave.text import quoted
from byleave.toolhost.codec import Params, bad, content_fields, denied
from byleave.toolhost.process import LARGEST_OUTPUT, attend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.core.permit import Permit
    from byleave.core.redact import SecretFilter
    from byleave.guard.evaluation import Who
    from byleave.guard.guard import Guard
    from byleave.launch.start import UnconfinedProcess
    from byleave.sandbox.confinement import Confinement
    from byleave.sandbox.process import Process
    from byleave.toolhost.deadline import Deadline
    from byleave.toolhost.process import ProcessOutput

RUN = "process.run"
# What a sandbox says by its exit codes. A program that is there and cannot be executed is one that may not be: the
# policy decides what is executed in here.
_NUMBERS = {20: ACCESS_DENIED, 126: ACCESS_DENIED, 127: NOT_FOUND}

_STARTS = Lock()  # a sandbox starts one program at a time
_starting = local()  # the permit of the program that this very thread is about to start


class ProcessMethods:
    """The programs that one tool may start. Any number of threads may serve at once."""

    methods = (RUN,)

    def __init__(
        self,
        guard: Guard,
        tool: str,
        confinement: Callable[[], Confinement],
        environment: Mapping[str, str],
        secrets: SecretFilter,
        *,
        may_use: Callable[[str], bool],
        envs_of: Callable[[str], tuple[str, ...] | None],
        limit: int = LARGEST_OUTPUT,
        who: Who = UNKNOWN,
    ) -> None:
        self._guard = guard
        self._tool = tool
        self._confinement = confinement
        self._environment = environment
        self._secrets = secrets
        self._may_use = may_use
        self._envs_of = envs_of
        self._limit = limit
        self._who = who

    def serve(self, method: str, params: Mapping[str, Any], turn: Deadline) -> dict[str, Any]:
        """Run a program to its end, and return what it said; a RequestError if that cannot be."""
        if method != RUN:
            raise RequestError("unknown method", hint=f"use {RUN}", number=METHOD_NOT_FOUND)
        program, args, names = _read_params(Params(params))
        given = self._given(program, names)
        answer = self._guard.check(SpawnAction(program, args, self._tool), self._who)
        if not answer.allowed:
            raise denied(answer.verdict)
        turn.go_on()  # a person may have taken their time
        try:
            said = self._guard.perform(answer, lambda permit: self._run(permit, given, turn))
        except RequestError:
            raise
        except ByleaveError as error:
            raise self._failed(error.problem, _NUMBERS.get(error.exit_code, INTERNAL_ERROR)) from None
        except OSError as error:
            raise self._failed(f"the program could not be run: {error.strerror}", INTERNAL_ERROR) from None
        return self._result(said)

    def _failed(self, problem: str, number: int) -> RequestError:
        hint = "check the name of the program; `byleave doctor` reports what this machine can enforce"
        return RequestError(self._secrets.text(problem), hint=hint, number=number)

    def _given(self, program: str, names: Iterable[str]) -> dict[str, str]:
        """Return the variables that are forwarded; one that may not be is refused, one that is not set is left out."""
        listed = dict(minimal(dict.fromkeys(names, ""), self._envs_of(program) or ()))
        for name in names:
            if name not in listed or not self._may_use(name):
                problem = f"the variable {quoted(name)} may not be passed to {quoted(program)}"
                hint = "list it under access.env, and under envs of the command"
                raise RequestError(problem, hint=hint, number=ACCESS_DENIED)
        return {name: self._environment[name] for name in names if name in self._environment}

    def _run(self, permit: Permit, given: dict[str, str], turn: Deadline) -> ProcessOutput:
        for value in given.values():
            self._secrets.uses(value)
        with self._start(permit, given) as process:
            said = attend(process, turn, limit=self._limit)
        if process.problem is not None:
            raise process.problem
        return said

    def _start(self, permit: Permit, given: dict[str, str]) -> Process | UnconfinedProcess:
        action = permit.action
        if not isinstance(action, SpawnAction):
            raise PermissionError("this permit starts no program")
        with _STARTS:
            confinement = self._confinement()
            start = ProgramStart(
                command=(action.program, *action.args),
                directory=self._guard.policy.root.path,
                environment=usual_variables(self._environment),
                variables=given,
                stdin=DEVNULL,
            )
            _starting.permit = permit
            try:
                return start_as_configured(confinement, start, decide=self._decide)
            finally:
                _starting.permit = None

    def _decide(self, action: dict[str, Any]) -> Verdict:
        """Answer for the sandbox: what was just permitted to this thread is not asked again, everything else is.

        Programs that ask for others, and the proxy, come from threads of their own, where no permit is at hand. A
        permit is for one question.
        """
        permit: Permit | None = getattr(_starting, "permit", None)
        _starting.permit = None
        if permit is not None and _is_for(permit, action):
            return permit.verdict
        return self._guard.check(action, self._who).verdict

    def _result(self, said: ProcessOutput) -> dict[str, Any]:
        out, err = self._secrets.data(said.out), self._secrets.data(said.err)
        return {**_stream("stdout", out), **_stream("stderr", err), "exit_code": said.exit_code}


def _read_params(params: Params) -> tuple[str, tuple[str, ...], list[str]]:
    """Return the program, its arguments and the names of the variables it is to have."""
    program, args, names = params.text("program"), params.texts("args"), list(dict.fromkeys(params.texts("envs")))
    if not program or not all(_is_word(word) for word in (program, *args)):
        raise bad("the program and its arguments must be texts without NUL, and the program must have a name")
    if "/" in program:
        problem = f"{quoted(program)} is a path; programs are started by their names alone"
        raise RequestError(problem, hint="give the name that access.commands lists", number=ACCESS_DENIED)
    return program, tuple(args), names


def _is_word(word: str) -> bool:
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:  # half of a character
        return False


def _is_for(permit: Permit, action: Mapping[str, Any]) -> bool:
    permitted = permit.action
    if not isinstance(permitted, SpawnAction) or action.get("kind") != "spawn":
        return False
    asked = (action.get("program"), tuple(action.get("args", ())), action.get("tool"))
    return asked == (permitted.program, permitted.args, permitted.tool)


def _stream(name: str, data: bytes) -> dict[str, str]:
    """Return output as it was, in base64 where it is no text: nothing is lost, as with files and bodies."""
    fields = content_fields(name, data)
    return {name if key == name else f"{name}_{key}": value for key, value in fields.items()}
