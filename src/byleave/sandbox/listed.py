"""How listed programs are run for a program that may start nothing else: where they are, and in which sandbox.

Interpreters are kept apart like the program itself, so that what they start is judged as well. Others have the whole
view, since they start helpers of their own: a compiler its assembler, git its many parts.
"""

from byleave.core.env import MINIMAL_ENVIRONMENT
from byleave.sandbox.apart import own_steps
from byleave.sandbox.filters import Wanted, make_filter, make_watching_filter
from byleave.sandbox.interpreters import interprets
from byleave.sandbox.linux import Program, exec_step, minimal, program_steps
from byleave.sandbox.plan import BIN, Programs
from byleave.sandbox.programs import Start, follow, held_to
from byleave.sandbox.tape import IF_THERE, step, write_tape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.sandbox.broker import Request
    from byleave.sandbox.linux import Arrangement, Host
    from byleave.sandbox.plan import Plan
    from byleave.sandbox.tape import Step


class Listed:
    """The listed programs of one sandbox. `passes` says which variables the program itself may have."""

    def __init__(
        self,
        plan: "Plan",
        arrangement: "Arrangement",
        host: "Host",
        search: str,
        *,
        passes: "Callable[[str], bool]",
        more: "Mapping[str, str]",
        watched: bool = False,
    ) -> None:
        self._plan = plan
        self._arrangement = arrangement
        self._host = host
        self._search = search
        self._passes = passes
        self._more = more
        self._watched = watched
        self._programs = plan.programs if plan.programs is not None else Programs()
        self._paths = dict(self._programs.listed)
        self._openings: dict[str, bytes] = {}

    def tape(self, request: "Request") -> bytes | None:
        """Return the steps that run what is asked for, which is allowed; None if it is not on this machine."""
        path = self._paths.get(request.program)
        if path is None:
            return None
        apart = interprets(path)
        start = follow(path, self._search) if apart else Start(path)
        variables = tuple(self._variables(request, apart=apart).items())
        program = Program(start.path, request.directory, start.arguments(request.words), variables)
        return self._opening(path, apart=apart) + write_tape([exec_step(program)])

    def _opening(self, path: str, *, apart: bool) -> bytes:
        """Return the steps up to the start, which are always the same."""
        if path not in self._openings:
            if apart:
                filtering = make_filter(self._host.machine, Wanted(listed_programs_only=True, told=self._watched))
                programs = held_to(self._programs, path, self._search)
                steps = own_steps(self._plan, programs, self._arrangement, self._host, filtering)
            else:
                filtering = make_filter(self._host.machine, Wanted(told=self._watched))
                steps = program_steps(self._plan, self._arrangement, self._host, filtering)
            stopping = [step("seccomp", make_watching_filter(self._host.machine))] if self._watched else []
            self._openings[path] = write_tape([*map(_for_later, steps), *stopping])
        return self._openings[path]

    def _variables(self, request: "Request", *, apart: bool) -> dict[str, str]:
        """Return the minimal variables, and those of the rule that the program itself may have, as it set them."""
        given = dict(request.variables)
        rule = self._plan.commands.rules.get(request.program) if self._plan.commands is not None else None
        named = minimal(given, rule.envs) if rule is not None else ()
        kept = dict(minimal(given, MINIMAL_ENVIRONMENT)) | {name: value for name, value in named if self._passes(name)}
        return {**kept, **self._more, "PATH": f"{BIN}:{self._search}" if apart else self._search}


def _for_later(each: "Step") -> "Step":
    """Return a step for a program that starts later: what was granted then may have been removed since, by leave."""
    if each[0] != "grant":
        return each
    path, rights, kind = each[1]
    return "grant", (path, rights, int(kind) | IF_THERE)  # type: ignore[arg-type]
