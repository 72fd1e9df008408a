"""The workspace that layers are compiled for, and the reader of its command lines.

Nothing here looks at the disk before it is asked: a check of a read needs neither the own places nor a line reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from byleave.core.fs_rules import FsTarget
from byleave.policy.dirs import real_path
from byleave.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from byleave.core.command_line import CommandLine
    from byleave.core.fs_rules import RefusedPath
    from byleave.policy.command_lines import CommandLineReader
    from byleave.policy.dirs import UserDirs
    from byleave.policy.layers import Layer


class RuleRoot(Protocol):
    """How paths of rules resolve: `workspace.resolve.Root`."""

    @property
    def path(self) -> str: ...

    def resolve_rule(self, path: str) -> FsTarget | RefusedPath: ...

    def resolve_any(self, path: str) -> FsTarget | RefusedPath: ...


class MountApprovals(Protocol):
    """Which external targets the user has approved: `store.approvals.Approvals`."""

    def approves_mount(self, path: str, target: str) -> bool: ...


class CompileContext(Record):
    """The workspace that layers are compiled for. Without `homes`, no command line is read, and no place is ours."""

    root: RuleRoot
    approvals: MountApprovals | None = None
    homes: UserDirs | None = None

    @property
    def home(self) -> str:
        """The user's home directory; "" if it is not known."""
        return "" if self.homes is None else self.homes.user

    def own_places(self, layers: Iterable[Layer]) -> tuple[str, ...]:
        """Return what no tool may write to: byleave's directories, and the very files that the layers came from."""
        if self.homes is None:
            return ()
        files = [real_path(layer.path) for layer in layers if layer.path]
        return tuple(dict.fromkeys([*self.homes.own_places(self.root.path), *files]))

    def directory(self, path: str) -> str | None:
        """Return the canonical form of a configured directory; one that is not there yet keeps its name."""
        place = self.root.resolve_any(path)
        return place.canonical if isinstance(place, FsTarget) else None


class LineReader:
    """Reads command lines in a workspace, with the programs that the policy describes and that were checked before.

    The package `shell` is loaded when the first one comes.
    """

    def __init__(self, root: RuleRoot, programs: Mapping[str, Any], home: str) -> None:
        self._root = root
        self.programs = programs
        self._home = home
        self._reader: CommandLineReader | None = None

    def read(self, text: str, cwd: str | None = None, shell: str | None = None) -> CommandLine:
        """Return what a command line would do if it ran in `cwd`."""
        if self._reader is None:
            self._reader = self._make()
        return self._reader.read(text, cwd, shell)

    def _make(self) -> CommandLineReader:
        from byleave.policy.command_lines import CommandLineReader  # heavy: only commands need it
        from byleave.shell.knowledge.programs import BUILT_IN as KNOWN_PROGRAMS

        root: Any = self._root
        programs = KNOWN_PROGRAMS.extended(self.programs) if self.programs else KNOWN_PROGRAMS
        return CommandLineReader(root, programs, self._home or None)
