"""What one tool may touch: its file, network, environment and command rules, and what holds where it has none.

Default-deny holds per resource type: a type with rules is closed but for them, a type without keeps its default.

`ProcessLimits` are what a tool's processes may use at most: how many processes, how much memory, how large a file, how
many open files, how long. The program that starts the processes enforces them. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.decision import ALLOW, ASK, BUILT_IN, DENY, Decision, RuleRef
from byleave.core.env_rules import MINIMAL_ENVIRONMENT, EnvRule, EnvTable
from byleave.core.fs_rules import FsAnswer, FsRule, FsTable, FsTarget
from byleave.core.paths import collapse
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.core.command_rules import CommandTable
    from byleave.core.net_rules import NetTable


class Default(Record):
    """What holds for a resource type that has no rules."""

    decision: Decision
    rule: str

    @property
    def ref(self) -> RuleRef:
        """The reference a verdict carries."""
        return RuleRef(self.rule, BUILT_IN, self.decision)

    @property
    def code(self) -> str:
        """The code of a verdict that rests on this default."""
        return _CODES[self.decision]


_CODES = {ALLOW: "ok", ASK: "no_match", DENY: "denied"}


class Access(Record):
    """The compiled access policy of one tool. A `Default` stands where no rule was declared."""

    fs: FsTable | Default
    net: NetTable | Default
    env: EnvTable | Default
    commands: CommandTable | Default

    def decide_file(self, place: FsTarget, capability: str, *, below: str | None = None) -> FsAnswer:
        """Decide a capability at a resolved place; `below` is one that every rule beneath it must give as well."""
        table = self.fs
        if isinstance(table, Default):
            return FsAnswer(DENY, "escape") if place.relative is None else FsAnswer(table.decision, table.code)
        answer = table.decide(place, capability)
        if below is None or answer.decision is not ALLOW:
            return answer
        withheld = table.withheld_below(place, below)
        return answer if withheld is None else FsAnswer(DENY, "denied", withheld)

    def grants(self, capability: str) -> tuple[str, ...]:
        """Return the paths at which a capability is granted, the workspace as `.`."""
        if isinstance(self.fs, Default):
            return (".",) if self.fs.decision is ALLOW else ()
        return self.fs.grants(capability)

    def can_read(self, path: str) -> bool:
        """Whether the canonical, workspace-relative `path` may be read."""
        return self._can(path, "read")

    def can_create(self, path: str) -> bool:
        """Whether the canonical, workspace-relative `path` may be created."""
        return self._can(path, "create")

    def can_update(self, path: str) -> bool:
        """Whether the canonical, workspace-relative `path` may be changed."""
        return self._can(path, "update")

    def can_delete(self, path: str) -> bool:
        """Whether the canonical, workspace-relative `path` may be removed."""
        return self._can(path, "delete")

    def can_execute(self, path: str) -> bool:
        """Whether the canonical, workspace-relative `path` may be run."""
        return self._can(path, "execute")

    def _can(self, path: str, capability: str) -> bool:
        relative = "" if path == "." else path
        if relative.startswith("/") or collapse(relative) != relative:  # not canonical: where it leads is not known
            return False
        return self.decide_file(FsTarget(relative, relative), capability).decision is ALLOW


UNRESTRICTED = Default(ALLOW, "no rule of this type is declared: unrestricted inside the workspace")
VFS_ASK = Default(ASK, "a vfs tool that declares other access, but none of this type, needs approval")
_STDIO_FS = FsTable([FsRule("", read=True, create=True, update=True, delete=True, execute=True, source=BUILT_IN)])
_STDIO_ENV = EnvTable([EnvRule(name, read=True, source=BUILT_IN) for name in MINIMAL_ENVIRONMENT])
_VFS_FS = FsTable([FsRule("", read=True, source=BUILT_IN)])

# What holds, per runtime, for a type without rules; the last is the cooperative reading without any sandbox. A server
# that declares no access at all keeps the network, but neither the user's files nor what listens on this machine.
STDIO = Access(
    fs=_STDIO_FS,
    net=Default(DENY, "a stdio tool has no network unless a net rule allows it"),
    env=_STDIO_ENV,
    commands=Default(ALLOW, "a stdio tool may start any program while no command is listed"),
)
_SERVER_FS = FsTable([FsRule("", read=True, execute=True, source=BUILT_IN)])
PUBLIC = Default(ALLOW, "an MCP server without access of its own may reach any public address")
SERVER = Access(fs=_SERVER_FS, net=PUBLIC, env=_STDIO_ENV, commands=STDIO.commands)
SERVER_DECLARED = Access(
    fs=_SERVER_FS,
    net=Default(DENY, "an MCP server that declares access has no network unless a net rule allows it"),
    env=_STDIO_ENV,
    commands=STDIO.commands,
)
VFS = Access(
    fs=_VFS_FS,
    net=Default(DENY, "a vfs tool has no network unless a net rule allows it"),
    env=Default(DENY, "a vfs tool has no variables unless an env rule allows it"),
    commands=Default(DENY, "a vfs tool starts no programs unless a command is listed"),
)
VFS_DECLARED = Access(fs=VFS_ASK, net=VFS_ASK, env=VFS_ASK, commands=VFS_ASK)
SHELL_TOOL = "byleave-shell"  # the name under which the access of [shell] is kept among those of tools
# What a confined command gets of the agent's variables beside the minimal ones: how output looks, what kind of run it
# is, which pager and editor not to wait for, who commits. None of them is a place where people keep secrets.
SHELL_VARIABLES = (
    *("LOGNAME", "LANGUAGE", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"),
    *("CI", "NODE_ENV", "RUST_BACKTRACE", "RUST_LOG", "CARGO_TERM_COLOR", "PYTHONUNBUFFERED", "PYTHONUTF8"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "SOURCE_DATE_EPOCH", "DEBIAN_FRONTEND"),
    *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESS", "GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT"),
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"),
    *("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE"),
)
# What it asks for is refused, and named at its end: that is why it has a way to ask.
NAMED = Default(DENY, "a confined command has no network unless a net rule allows it")


def shell_access() -> Access:
    """Return what a confined command may touch where `[shell.access]` says nothing: made only where it is needed."""
    names = (*MINIMAL_ENVIRONMENT, *SHELL_VARIABLES)
    return Access(
        fs=_STDIO_FS,
        net=NAMED,
        env=EnvTable([EnvRule(name, read=True, source=BUILT_IN) for name in names]),
        commands=Default(ALLOW, "a confined command may start any program while no command is listed"),
    )


COOPERATIVE = Access(fs=UNRESTRICTED, net=UNRESTRICTED, env=UNRESTRICTED, commands=UNRESTRICTED)


def with_defaults(
    defaults: Access,
    *,
    fs: FsTable | None = None,
    net: NetTable | None = None,
    env: EnvTable | None = None,
    commands: CommandTable | None = None,
) -> Access:
    """Return the access of a tool that declares some types, the others being as `defaults` say."""
    return Access(
        fs=defaults.fs if fs is None else fs,
        net=defaults.net if net is None else net,
        env=defaults.env if env is None else env,
        commands=defaults.commands if commands is None else commands,
    )


SIZES = ("memory", "file_size", "max_file_size")
HOST_LIMITS = ("request_timeout", "cancel_timeout", "max_file_size")  # what the host of a tool keeps to
LARGEST = (1 << 63) - 1  # a signed number of 64 bits, as the kernel and Python's `resource` take
_DIGITS = frozenset("0123456789")
_MOST_DIGITS = 20  # LARGEST has 19
# A megabyte is 2^20 bytes, as everywhere in byleave.
_UNITS = {"b": 1} | {
    f"{prefix}{ending}": 1 << 10 * power for power, prefix in enumerate("kmgt", start=1) for ending in ("b", "ib")
}


class ProcessLimits(Record):
    """What the processes of one tool may use: sizes in bytes, time in seconds. None: the user sets no limit."""

    processes: int | None = None
    memory: int | None = None
    file_size: int | None = None
    open_files: int | None = None
    wall_time: float | None = None


def limits_of(table: Mapping[str, Any]) -> ProcessLimits:
    """Return the limits of a `limits` table, in its configured or its normal form, that was found to be right."""
    values = {name: table[name] for name in ProcessLimits.field_names() if name in table}
    values |= {name: parse_size(values[name]) for name in SIZES if name in values}
    if "wall_time" in values:
        values["wall_time"] = float(values["wall_time"])
    return ProcessLimits(**values)


def parse_size(size: int | str) -> int | None:
    """Return a size in bytes: a number of them, or text such as "512 MB" or "1.5 GiB". None if it is no size."""
    found = _parse_text(size) if isinstance(size, str) else size
    return found if found is not None and 1 <= found <= LARGEST else None


def _parse_text(text: str) -> int | None:
    """Read a number and its unit. Whole numbers all the way: a float would lose bytes."""
    number = text.rstrip("bkmgtiBKMGTI")
    factor = _UNITS.get(text[len(number) :].lower())
    whole, dot, part = number.rstrip(" ").partition(".")
    digits = whole + part
    if (
        factor is None
        or not whole
        or (dot and not part)
        or len(digits) > _MOST_DIGITS
        or not _DIGITS.issuperset(digits)
    ):
        return None
    divisor: int = 10 ** len(part)
    return int(digits) * factor // divisor
