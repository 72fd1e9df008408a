"""From the files of a user and a project to the policy that holds in a workspace.

`Workspace` knows whose files, approvals and records belong to one root. `Workspace.load` reads the layers
(`policy.layers`), compiles them (`policy.compile`) and returns a `LivePolicy`, which reads and compiles again when a
file changes. The guard on top of it: `guard.open_guard`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from byleave import __version__
from byleave.core.access import SHELL_TOOL
from byleave.core.sensitive_places import Sensitive
from byleave.errors import ConfigErrors, InputError, StateError
from byleave.policy.compile import RUN_TOOL
from byleave.policy.compiled_cache import compile_or_recall, keep, misses
from byleave.policy.context import CompileContext
from byleave.policy.debounce import file_stamp
from byleave.policy.dirs import UserDirs, check_session_name, find_homes, find_root, real_path
from byleave.policy.layers import LOCAL, PROJECT, Layer, LayerFiles, inline_layer
from byleave.policy.live_policy import LivePolicy
from byleave.policy.sandbox_settings import access_layer, shell_layer
from byleave.policy.trust import ProjectTrust
from byleave.record import Record
from byleave.store.approvals import Approvals
from byleave.store.audit.log import AuditLog
from byleave.store.audit.retention import Retention
from byleave.store.trusted_texts import TrustedTexts
from byleave.user_files import ParseCache, make_private_directory, write_private
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from byleave.core.policy import CompiledPolicy
    from byleave.core.redact import Redactor
    from byleave.policy.compile import Compiled
    from byleave.store.approvals import Fingerprint
    from byleave.store.postgres.shared_store import SharedStore


ROOT_FILE = "root"  # in the directory of a workspace's records: where the workspace is


class Workspace:
    """One workspace of one user: its root, its files, its approvals, its audit log."""

    def __init__(self, root: str | None = None, *, homes: UserDirs | None = None) -> None:
        self.homes = homes if homes is not None else find_homes(os.environ)
        self.root = Root.at(root if root is not None else find_root(_working_directory(), self.homes))
        self.memory = ParseCache(self.homes.memory, __version__)
        self.approvals = Approvals(self.homes.workspace(self.root.path), self.memory)
        self.shared: SharedStore | None = None  # where `approvals` keeps calls, if that is no file of this user
        self.trust = ProjectTrust(self.root, self.approvals)
        self.files = LayerFiles(self.root, self.homes, self.memory, trust=self.trust)

    def load(self, *, files: Sequence[str] = (), session: str = "default", extra: Sequence[Layer] = ()) -> LivePolicy:
        """Return the policy of the layers that hold here; `files` replace what would be found, `extra` come on top."""
        check_session_name(session)
        source = _LayerSource(self, files, session, extra)
        known = source.stamp()  # taken before the files are read: a change in between is seen
        self.approvals.refresh()
        before = misses[0]
        compiled = self.compile(source.read(None))
        if misses[0] != before and not files and len(_loads) < _MOST_LOADS:
            _note_load(self, session, extra)
        return LivePolicy(compiled, self.root, source, home=self.homes.user, known=known)

    def warm(self, *, session: str, extra: Sequence[Layer]) -> CompiledPolicy | None:
        """Keep the compiled policy in this process, for those that are forked from it.

        Return one that shares its rules, None if it cannot be kept: what the rules answer to that one, both know.
        """
        self.approvals.refresh()
        return keep(_LayerSource(self, (), session, extra).read(None), self._context, self._approved_mounts)

    def warm_tree(self, tree: Mapping[str, Any]) -> CompiledPolicy | None:
        """Do the same with the policy of one tree alone."""
        self.approvals.refresh()
        return keep([inline_layer(tree)], self._context, self._approved_mounts)

    def compile_tree(self, tree: Mapping[str, Any], *, is_usual: bool = False) -> LivePolicy:
        """Return the policy of one tree alone: no other layer has a say.

        A tree that `is_usual`, and JSON, comes with every call of a tool: the service compiles it ahead of the next.
        """
        source = _TreeSource(self, tree)
        known = source.stamp()
        before = misses[0]
        compiled = source.compile_again(None)
        if is_usual and misses[0] != before and len(_loads) < _MOST_LOADS:
            _loads.append(PolicyLoad(self.root.path, _named(self.homes), tree=tree))
        return LivePolicy(compiled, self.root, source, home=self.homes.user, known=known)

    def load_as_written(self, *, files: Sequence[str] = (), session: str = "default") -> LivePolicy:
        """Return the policy of the layers that are here, as if the user trusted the project's files.

        It answers questions about the files and takes effect nowhere. It does not follow changes.
        """
        check_session_name(session)
        self.approvals.refresh()
        layers = _LayerSource(self, files, session, ()).read(None)
        return self.compile_alone(
            [layer.replace(trusted=True) if layer.name in (PROJECT, LOCAL) else layer for layer in layers]
        )

    def compile_alone(self, layers: Sequence[Layer]) -> LivePolicy:
        """Return the policy of these layers. It does not follow changes."""
        return LivePolicy(self.compile(layers), self.root, home=self.homes.user, keeps_walks=True)

    def try_user_file(self, content: bytes, session: str) -> LivePolicy:
        """Return the policy that would hold if the user's own file had this content. It does not follow changes."""
        return self.compile_alone(list(self.files.again(None).discover(session, user=content)))

    def compile(self, layers: Sequence[Layer]) -> Compiled:
        """Compile layers in this workspace."""
        compiled = compile_or_recall(layers, self._context, self._approved_mounts)
        if self.approvals.warnings:
            compiled = compiled.replace(warnings=(*compiled.warnings, *dict.fromkeys(self.approvals.warnings)))
        return compiled

    def print_of(self, name: str, content: bytes, tree: Mapping[str, Any]) -> Fingerprint:
        """Return what trusting this project file would mean now."""
        return self.trust.fingerprint(name, content, tree)

    @property
    def trusted_texts(self) -> TrustedTexts:
        """The texts of project files as they were trusted."""
        return TrustedTexts(self.homes.workspace(self.root.path))

    def own_places(self, layers: Sequence[Layer]) -> tuple[str, ...]:
        """Return what no tool may write to: byleave's directories, and the very files that this policy came from."""
        return self._context.own_places(layers)

    @property
    def _context(self) -> CompileContext:
        return CompileContext(self.root, self.approvals, self.homes)

    @property
    def _approved_mounts(self) -> tuple[tuple[str, str], ...]:
        return tuple([(path, target) for path, target, _at in self.approvals.mounts()])

    def audit_log(self, settings: Mapping[str, Any] | None, mask: Redactor) -> AuditLog:
        """Return the log of this workspace, kept as long as the settings say; without any, nothing is ever removed."""
        usual, kept = Retention(), (settings or {}).get("audit", {})
        retention = Retention(kept.get("keep_days", usual.days), kept.get("keep_megabytes", usual.megabytes))
        return AuditLog(
            self.homes.workspace(self.root.path), mask=mask, retention=retention if settings is not None else None
        )

    def remember_root(self) -> None:
        """Keep where this workspace is beside its records: the name of their directory does not say it."""
        directory = self.homes.workspace(self.root.path)
        file = os.path.join(directory, ROOT_FILE)
        if os.path.lexists(file):
            return
        try:
            make_private_directory(directory)
            write_private(file, os.fsencode(self.root.path), durable=False)
        except (StateError, OSError):  # it only names the workspace in summaries
            return

    def sensitive(self, compiled: Compiled) -> Sensitive:
        """Return the places that hold secrets, for this user and in this workspace."""
        return Sensitive(
            compiled.settings.get("sensitive_paths", ()), home=self.homes.user, root=self.root.path, real=real_path
        )


class _LayerSource:
    """Where a live policy comes from: the layered files of a workspace, read and compiled again when they change."""

    def __init__(self, workspace: Workspace, files: Sequence[str], session: str, extra: Sequence[Layer]) -> None:
        self._workspace = workspace
        self._files = list(files)
        self._session = session
        self._extra = extra
        self._base = _working_directory() if files else ""

    def stamp(self) -> object:
        """Return what changes whenever a file, an approval or a script that a trusted file starts does."""
        here = self._workspace
        scripts = tuple([file_stamp(os.path.join(here.root.path, name)) for name in sorted(here.trust.scripts)])
        return here.approvals.stamp(), here.files.stamp(self._session, self._files, base=self._base), scripts

    def read(self, good: Mapping[str, Layer] | None) -> list[Layer]:
        """Return the layers, weakest first; those of `good` in the place of files that cannot be used any more."""
        files = self._workspace.files.again(good)
        if self._files:
            return [*files.given(self._files, self._session, base=self._base), *self._extra]
        return [*files.discover(self._session), *self._extra]

    def compile_again(self, before: Compiled) -> Compiled:
        """Return the policy of the files as they are now; what cannot be used keeps what it said before."""
        here = self._workspace
        here.approvals.refresh()
        layers = self.read({layer.path: layer for layer in before.layers})
        compiled = self._compile_or_fall_back(layers, before.layers)
        broken = tuple(here.files.broken)
        return compiled.replace(warnings=(*broken, *compiled.warnings)) if broken else compiled

    def _compile_or_fall_back(self, layers: list[Layer], before: tuple[Layer, ...]) -> Compiled:
        """Compile layers that have changed; where they cannot be used together, less of the change.

        Project files, which others may have written, give way first: they cannot keep the user's own changes from
        holding.
        """
        known = {layer.path: self._trusted_now(layer) for layer in before}
        theirs = [known.get(layer.path, layer) if layer.name in (PROJECT, LOCAL) else layer for layer in layers]
        problem: ConfigErrors | None = None
        for tried in (layers, theirs, list(known.values())):
            try:
                compiled = self._workspace.compile(tried)
            except ConfigErrors as error:
                problem = problem or error
                continue
            if problem is None:
                return compiled
            warning = f"the configuration has changed and cannot be used; what it said before still holds:\n{problem}"
            return compiled.replace(warnings=(warning, *compiled.warnings))
        raise problem or ConfigErrors([])

    def _trusted_now(self, layer: Layer) -> Layer:
        if layer.name not in (PROJECT, LOCAL):
            return layer
        return layer.replace(trusted=self._workspace.trust.trusts(layer.file or "", layer.content, layer.tree))


class _TreeSource:
    """The source of a policy that is one tree: only the approvals can change."""

    def __init__(self, workspace: Workspace, tree: Mapping[str, Any]) -> None:
        self._workspace = workspace
        self._layer = inline_layer(tree)

    def stamp(self) -> object:
        return self._workspace.approvals.stamp()

    def compile_again(self, _before: Compiled | None) -> Compiled:
        self._workspace.approvals.refresh()
        return self._workspace.compile([self._layer])


class PolicyLoad(Record):
    """A load whose policy had to be compiled; `tool` is the one that a layer was made up for, if there was any.

    With a `tree`, it is the policy of that tree alone.
    """

    root: str
    homes: tuple[str, ...]
    session: str = ""
    tool: str = ""
    tree: Mapping[str, Any] | None = None


def made_up_layers(tool: str) -> list[Layer]:
    """Return the layer that a confined run brings by itself: a command line's, a program's, or none."""
    return [shell_layer()] if tool == SHELL_TOOL else [access_layer(RUN_TOOL, None)] if tool == RUN_TOOL else []


_MOST_LOADS = 4
_loads: list[PolicyLoad] = []


def _note_load(workspace: Workspace, session: str, extra: Sequence[Layer]) -> None:
    """Note a load that the service can do ahead of the next request."""
    made_up = ("", SHELL_TOOL, RUN_TOOL)
    tool = next((name for name in made_up if list(extra) == made_up_layers(name)), None)
    if tool is None:
        return
    _loads.append(PolicyLoad(workspace.root.path, _named(workspace.homes), session, tool))


def _named(homes: UserDirs) -> tuple[str, ...]:
    return homes.config, homes.state, homes.memory, homes.managed, homes.user


def take_loads() -> list[PolicyLoad]:
    """Return the loads since the last time."""
    taken = list(_loads)
    _loads.clear()
    return taken


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise InputError("the working directory is gone", hint="change to another one, or give --root") from None


def load_policy(root: str | None = None, *, files: Sequence[str] = (), session: str = "default") -> LivePolicy:
    """Return the policy that holds at `root`, from its layered files."""
    return Workspace(root).load(files=files, session=session)


def compile_policy(tree: Mapping[str, Any], *, root: str | None = None) -> LivePolicy:
    """Return the policy of a tree shaped like the TOML file, alone."""
    return Workspace(root).compile_tree(tree)
