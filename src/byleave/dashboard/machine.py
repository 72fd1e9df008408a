"""The workspaces that this user has on this machine, each with its records, its questions and its policy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave import __version__
from byleave.errors import ByleaveError, ConfigErrors
from byleave.policy.load import ROOT_FILE, Workspace
from byleave.store.approvals import Approvals
from byleave.store.audit.chain import TABLE
from byleave.store.audit.journal import HEAD, JOURNAL
from byleave.store.audit.log import AuditLog
from byleave.store.questions import Questions
from byleave.user_files import ParseCache, read_private

if TYPE_CHECKING:
    from byleave.policy.dirs import UserDirs
    from byleave.policy.live_policy import LivePolicy

_LARGEST_ROOT = 1 << 16
_MOST_POLICIES = 16  # that are kept compiled


class KnownWorkspace(Struct, frozen=True):
    """The directory that holds what is remembered of a workspace; `root` is empty where it is not known any more."""

    directory: str
    root: str
    home: str = ""

    @property
    def id(self) -> str:
        return os.path.basename(self.directory)

    @property
    def name(self) -> str:
        """The root as people write it, with `~` for their home."""
        if self.home and self.root.startswith(f"{self.home}/"):
            return f"~{self.root[len(self.home) :]}"
        return self.root or self.id


class Machine:
    """All workspaces of one user. `here` is the one that the dashboard was started in."""

    def __init__(self, here: Workspace) -> None:
        self.homes: UserDirs = here.homes
        self.here = KnownWorkspace(here.homes.workspace(here.root.path), here.root.path, here.homes.user)
        self._memory = ParseCache(here.homes.memory, __version__)
        self._logs: dict[str, AuditLog] = {}
        self._policies: dict[tuple[str, str], LivePolicy] = {}

    def all(self) -> list[KnownWorkspace]:
        """Return every workspace that has records or approvals, the one that was used last first."""
        directory = os.path.join(self.homes.state, "workspaces")
        found: list[tuple[float, KnownWorkspace]] = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        known = KnownWorkspace(entry.path, self._root_of(entry.path), self.homes.user)
                        found.append((_last_use(entry.path), known))
        except OSError:
            pass
        known_here = any(each.directory == self.here.directory for _at, each in found)
        listed = [each for _at, each in sorted(found, key=lambda pair: (-pair[0], pair[1].directory))]
        return listed if known_here else [self.here, *listed]

    def find(self, id_: str) -> KnownWorkspace | None:
        """Return a workspace by its id; the one that the dashboard was started in if none is named."""
        if not id_:
            return self._usual()
        return next((each for each in self.all() if each.id == id_), None)

    def _usual(self) -> KnownWorkspace:
        """Return the workspace we are in, unless it has no records and another one does."""
        if os.path.isdir(self.here.directory):
            return self.here
        return self.all()[0] if len(self.all()) == 1 else self.all()[1]

    def log(self, of: KnownWorkspace) -> AuditLog:
        """Return the audit log of a workspace."""
        return self._logs.setdefault(of.directory, AuditLog(of.directory))

    def approvals(self, of: KnownWorkspace) -> Approvals:
        """Return the approvals of a workspace, as they are now."""
        return Approvals(of.directory, self._memory)

    def questions(self, of: KnownWorkspace) -> Questions:
        """Return the questions that running processes hold in a workspace."""
        return Questions(of.directory)

    def workspace(self, of: KnownWorkspace) -> Workspace | None:
        """Return the workspace itself; None if its directory is gone."""
        try:
            return Workspace(of.root, homes=self.homes) if of.root and os.path.isdir(of.root) else None
        except ByleaveError:
            return None

    def policy(self, of: KnownWorkspace, session: str = "default") -> LivePolicy | None:
        """Return the policy that holds there now; None if it cannot be used."""
        known = self._policies.get((of.directory, session))
        if known is not None:
            return known
        workspace = self.workspace(of)
        if workspace is None:
            return None
        try:
            loaded = workspace.load(session=session)
        except (ByleaveError, ConfigErrors):
            return None
        if len(self._policies) >= _MOST_POLICIES:
            del self._policies[next(iter(self._policies))]
        self._policies[of.directory, session] = loaded
        return loaded

    def _root_of(self, directory: str) -> str:
        if directory == self.here.directory:
            return self.here.root
        try:
            root = os.fsdecode(read_private(os.path.join(directory, ROOT_FILE), limit=_LARGEST_ROOT) or b"")
        except ByleaveError:
            return ""
        return root if root and self.homes.workspace(root) == directory else ""


def _last_use(directory: str) -> float:
    times = [0.0]
    for name in (JOURNAL, HEAD, TABLE, "approvals.json", "questions"):
        try:
            times.append(os.stat(os.path.join(directory, name)).st_mtime)
        except OSError:
            continue
    return max(times)
