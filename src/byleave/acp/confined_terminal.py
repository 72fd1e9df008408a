"""A confined command as the editor starts it: a `terminal/create` whose command redeems a ticket.

The editor starts byleave in the place of the command; byleave redeems the ticket, once, and runs the text behind it in
the sandbox. An editor elsewhere, without this byleave, finds nothing to start, and nothing runs.

Editors differ: some start a program with its arguments, some join the words with blanks for a shell to read. So every
word is one that no shell takes for anything else, and the command itself, which is there for eyes only, stands in
quotes in which nothing has a meaning. Variables of the agent's reach the confined command by the text behind the
ticket. What the editor would set for byleave itself is cut down to what changes nothing.

Start at `TerminalConfiner.change`. When a command may be confined: `TerminalConfiner.why_not`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import is_under
from byleave.policy.dirs import own_start, real_path
from byleave.protocol.json_fast import FAST
from byleave.shell.knowledge.option_values import harmless_assignment
from byleave.store.tickets import Ticket, issue, new_id
from byleave.text import shown
from byleave.translate.shell_text import quote_word, quote_words
from byleave.translate.ticketed_command import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from byleave.acp.requests import AgentRequest
    from byleave.guard.guard import Guard
    from byleave.policy.dirs import UserDirs
    from byleave.policy.live_policy import LivePolicy

_LONGEST_SHOWN = 1000  # characters of the command, for eyes
# What a word may hold so that no shell takes it for anything else; a blank cuts it, and then nothing is found to run.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@% ")
# What ends quotes or escapes in some shell, and what stands for it before a person's eyes.
_ENDS_QUOTES = str.maketrans(
    {
        **dict.fromkeys("'\u2018\u2019\u201a\u201b", "\u02bc"),
        "\\": "\u29f5",
        "\n": "\u2424",
        "\r": "\u240d",
        "\t": " ",
        "\x00": "\u2400",
    }
)
_OWN_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
_OWN = "BYLEAVE_"


class TerminalCommand(Struct, frozen=True):
    """What a `terminal/create` starts: the text that a shell would run, and where."""

    text: str
    cwd: str
    shell: str | None


class TerminalConfiner:
    """Has the editor start commands confined. `machine_problem` says why a policy cannot be held here, "" if it can.

    `agent_process`: what the runs of one session share ends with this process.
    """

    def __init__(
        self,
        homes: UserDirs,
        *,
        agent: str,
        profile: str | None,
        files: Sequence[str] = (),
        session: str = "default",
        environ: Mapping[str, str],
        machine_problem: Callable[[LivePolicy], str],
        agent_process: tuple[int, int] | None = None,
        start: Sequence[str] | None = None,
    ) -> None:
        self._homes = homes
        self._agent = agent
        self._profile = profile
        self._files = tuple(files)
        self._session = session
        self._own = {name: value for name, value in environ.items() if name in _OWN_VARIABLES or name.startswith(_OWN)}
        self._machine_problem = machine_problem
        self._agent_process = agent_process
        self._start = tuple(own_start(homes.memory) if start is None else start)

    def why_not(self, request: AgentRequest, guard: Guard, cwd: str | None, shell: str | None) -> str:
        """Say why a command cannot be confined; "" if it can."""
        root = guard.policy.root.path
        command = read_terminal(request, cwd or root, shell)
        if command is None or not fits(command.text):
            return "the text of this command cannot be passed on exactly"
        if not is_under(real_path(command.cwd), root):
            return "its working directory lies outside of the workspace"
        if not all(_PLAIN.issuperset(word) for word in (*self._start, root)):
            return "the way to byleave or to the workspace has characters that a shell would read"
        problem = self._machine_problem(guard.policy)
        return problem and f"this machine cannot confine: {problem}"

    def change(  # noqa: PLR0917 -- the request, and where it is made
        self, line: bytes, request: AgentRequest, guard: Guard, cwd: str | None, shell: str | None, sequence: int | None
    ) -> bytes:
        """Issue a ticket, and return the line of the request that redeems it; an error if that is not possible.

        Whether a ticket is redeemed says nothing of what ran, as it does for a hook: the editor starts what it is
        given, or nothing.
        """
        root = guard.policy.root.path
        command = read_terminal(request, cwd or root, shell)
        if command is None:
            raise ValueError("this command cannot be confined")
        ticket = Ticket(
            id=new_id(),
            text=command.text,
            cwd=real_path(command.cwd),
            root=root,
            shell=command.shell,
            agent=self._agent,
            session=request.session,
            agent_process=self._agent_process,
            sequence=sequence,
            asked=True,
            created=time.time(),
            profile=self._profile,
            files=self._files,
            store_session=self._session,
        )
        issue(self._homes.workspace(root), ticket)
        members = FAST.split(line)
        params = FAST.split(members["params"])
        words = [*self._start[1:], "run", "--root", root, "--ticket", ticket.id, "--shell", for_eyes(command.text)]
        params["command"], params["args"] = self._start[0], words
        params["env"] = [{"name": name, "value": value} for name, value in self._variables(request).items()]
        members["params"] = params
        return FAST.encode(members) + b"\n"

    def _variables(self, request: AgentRequest) -> dict[str, str]:
        """Return what the editor sets: of the agent's own what changes nothing, and what finds byleave's state."""
        given = _pairs(request.params.get("env")) or []
        kept = {name: value for name, value in given if harmless_assignment(name, value) and not _is_of_byleave(name)}
        return {**kept, **self._own}


def _is_of_byleave(name: str) -> bool:
    """Whether a variable means something to byleave, or to what it is started by."""
    return name in _OWN_VARIABLES or name.startswith((_OWN, "PYTHON", "LD_"))


def read_terminal(request: AgentRequest, cwd: str, shell: str | None) -> TerminalCommand | None:
    """Return what a request would start; None where that cannot be said in a text for a shell.

    The variables that it gives stand in front, as the shell exports them.
    """
    params = request.params
    args, named, variables = params.get("args"), params.get("cwd"), _pairs(params.get("env"))
    if not isinstance(args, list | None) or not all(isinstance(word, str) for word in args or ()):
        return None
    if variables is None or not isinstance(named, str | None) or not all(_is_name(name) for name, _value in variables):
        return None
    text = quote_words([params["command"], *args]) if args else params["command"]
    exported = " ".join([f"{name}={quote_word(value)}" for name, value in variables])
    return TerminalCommand(f"export {exported}; {text}" if exported else text, named or cwd, shell)


def _pairs(env: Any) -> list[tuple[str, str]] | None:
    """Return names and values; None where something has another shape than the protocol says."""
    if env is None:
        return []
    if not isinstance(env, list) or not all(isinstance(each, dict) for each in env):
        return None
    pairs = [(each.get("name"), each.get("value")) for each in env]
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in pairs):
        return None
    return [(str(name), str(value)) for name, value in pairs]


def _is_name(name: str) -> bool:
    """Whether a shell can export a variable of this name."""
    return name.isascii() and name.isidentifier()


def for_eyes(text: str) -> str:
    """Return the command as people may read it, in quotes that end nowhere else in any shell."""
    cut = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return f"'{shown(cut.translate(_ENDS_QUOTES)).translate(_ENDS_QUOTES)}'"
