"""Put the parts together: files, trust, approvals and the workspace become one policy that answers.

Used by the command line and by `import byleave`. Nothing below this module knows how the others are wired.
"""

import os

from byleave import __version__
from byleave.core.fs_rules import RefusedPath
from byleave.errors import ConfigError, ConfigErrors, InputError, StateError, UnsafePathError
from byleave.policy.compile import CompileContext, Compiled, compile_layers
from byleave.policy.dirs import CONFIG_FILE, UserDirs, check_session_name, find_homes, find_root, real_path
from byleave.policy.file_settling import file_stamp
from byleave.policy.layers import LARGEST_FILE, LOCAL, PROJECT, Layer, LayerFiles, inline_layer
from byleave.policy.live_policy import LivePolicy
from byleave.policy.machine_places import find_own_code, git_places, git_stamp, places_elsewhere, program_directories
from byleave.store.approvals import UNREAD, Approvals, fingerprint
from byleave.text import quoted
from byleave.user_files import (
    Lock,
    ParseCache,
    digest,
    digest_file,
    make_private_directory,
    read_private,
    write_private,
)
from byleave.workspace.resolve import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from byleave.core.command_line import CommandLine
    from byleave.core.protected import Protection
    from byleave.core.redact import Redactor
    from byleave.core.sensitive_places import Sensitive
    from byleave.guard.asking import Asker
    from byleave.guard.guard import Guard
    from byleave.guard.persist_rule import PersistentRule
    from byleave.guard.warnings import ReachableSecret
    from byleave.policy.command_lines import CommandLineReader
    from byleave.policy.compile import ReadLine
    from byleave.store.approvals import Fingerprint
    from byleave.store.audit.log import AuditLog

LARGEST_SCRIPT = 256 << 20  # hashed at every start: about a second


class Workspace:
    """One workspace of one user: its root, its files, its approvals."""

    def __init__(self, root: str | None = None, *, homes: UserDirs | None = None) -> None:
        self.homes = homes if homes is not None else find_homes(os.environ)
        self.root = Root.at(root if root is not None else find_root(_working_directory(), self.homes))
        self._scripts: set[str] = set()  # that trusted project files start: who changes one changes what was trusted
        self.memory = ParseCache(self.homes.memory, __version__)
        self.approvals = Approvals(self.homes.workspace(self.root.path), self.memory)
        self.files = LayerFiles(
            self.root.path,
            self.homes,
            self.memory,
            open_project_file=self._open_inside,
            trusts=self._trusts,
            open_enclosing=lambda directory, name: _open_inside(Root(directory), name),
        )

    def load(
        self, *, files: "Sequence[str]" = (), session: str = "default", extra: "Sequence[Layer]" = ()
    ) -> LivePolicy:
        """Return the policy of the layers that hold here; `files` replace what would be found, `extra` come on top."""
        check_session_name(session)
        base = _working_directory() if files else ""

        def read(good: "Mapping[str, Layer] | None") -> list[Layer]:
            source = self.files.again(good)
            found = source.given(list(files), session, base=base) if files else source.discover(session)
            return [*found, *extra]

        def compile_again() -> Compiled:
            self.approvals.refresh()
            before = policy.compiled.layers
            layers = read({layer.path: layer for layer in before})
            compiled = self._compile_or_fall_back(layers, before)
            broken = tuple(self.files.broken)
            return compiled.replace(warnings=(*broken, *compiled.warnings)) if broken else compiled

        def stamp() -> object:
            scripts = tuple([file_stamp(os.path.join(self.root.path, name)) for name in sorted(self._scripts)])
            files_now = self.files.stamp(session, list(files), base=base)
            return self.approvals.stamp(), files_now, scripts, git_stamp(self.root.path)

        known = stamp()
        self.approvals.refresh()
        compiled = self.compile(read(None))
        policy = LivePolicy(compiled, self.root, compile_again, home=self.homes.user, stamp=stamp, known=known)
        return policy

    def _compile_or_fall_back(self, layers: "list[Layer]", before: "tuple[Layer, ...]") -> Compiled:
        """Compile layers that have changed; where they cannot be used together, less of the change.

        What others wrote (project files) gives way first, so that it cannot keep the user's own changes from holding.
        """
        known = {layer.path: self._trusted_now(layer) for layer in before}
        theirs = [known.get(layer.path, layer) if layer.name in (PROJECT, LOCAL) else layer for layer in layers]
        problem: ConfigErrors | None = None
        for tried in (layers, theirs, list(known.values())):
            try:
                compiled = self.compile(tried)
            except ConfigErrors as error:
                problem = problem or error
                continue
            if problem is None:
                return compiled
            told = f"the configuration has changed and cannot be used; what it said before still holds:\n{problem}"
            return compiled.replace(warnings=(told, *compiled.warnings))
        raise problem or ConfigErrors([])

    def guard(
        self,
        door: str,
        *,
        files: "Sequence[str]" = (),
        session: str = "default",
        asker: "Asker | None" = None,
        patience: float | None = None,
        policy: LivePolicy | None = None,
        stays: bool = True,
    ) -> "Guard":
        """Return the guard of a door: it answers live requests, asks through `asker`, and records everything.

        With `policy`, by that one, which the caller has loaded. Close it when the door closes. One that does not stay
        answers a single request: it starts no thread, keeps no rule for good, and does not look round first.
        """
        from byleave.guard.guard import PATIENCE, Guard
        from byleave.guard.warnings import SensitiveWarnings, mask_for
        from byleave.store.approvals import now

        policy = self.load(files=files, session=session) if policy is None else policy

        def make_mask() -> "Redactor":
            return mask_for(policy.compiled.policy, os.environ)

        mask = make_mask()
        log = self.audit_log(policy.compiled.settings, mask)
        sensitive = self.sensitive(policy.compiled)
        notices = SensitiveWarnings(sensitive, os.path.dirname(self.files.session_file(session)))
        reaches: list[ReachableSecret] = []
        if stays:
            from byleave.guard.warnings import sensitive_reaches

            log.start()
            reaches = sensitive_reaches(policy, sensitive)
        return Guard(
            policy,
            self.approvals,
            log,
            door=door,
            now=now,
            mask=mask,
            make_mask=make_mask,
            session=session,
            asker=asker,
            patience=PATIENCE if patience is None else patience,
            lasting=self.lasting(session) if stays and not files else None,
            notices=notices,
            notes=tuple(line for one in reaches for line in notices.say_once(f"{one.entry} {one.name}", one.sentence)),
        )

    def audit_log(self, settings: "Mapping[str, Any] | None", mask: "Redactor") -> "AuditLog":
        """Return the log of this workspace, kept as long as the settings say; without any, nothing is ever removed."""
        from byleave.store.audit.log import AuditLog
        from byleave.store.audit.retention import Retention

        usual, kept = Retention(), (settings or {}).get("audit", {})
        retention = Retention(kept.get("keep_days", usual.days), kept.get("keep_megabytes", usual.megabytes))
        return AuditLog(
            self.homes.workspace(self.root.path), mask=mask, retention=retention if settings is not None else None
        )

    def sensitive(self, compiled: Compiled) -> "Sensitive":
        """Return the places that hold secrets, for this user and in this workspace."""
        from byleave.core.sensitive_places import Sensitive

        return Sensitive(
            compiled.settings.get("sensitive_paths", ()), home=self.homes.user, root=self.root.path, real=real_path
        )

    def lasting(self, session: str) -> "PersistentRule":
        """Return what adds rules to the user's own file, through a link too if it is one."""
        from byleave.guard.persist_rule import PersistentRule

        named = os.path.join(self.homes.config, CONFIG_FILE)
        path = real_path(named)

        def read() -> bytes:
            return read_private(path, limit=LARGEST_FILE) or b""

        def write(before: bytes, after: bytes) -> None:
            make_private_directory(self.homes.config)
            try:
                with Lock(os.path.join(self.homes.config, "config.lock")):
                    if read() != before:
                        raise StateError(f"{quoted(path)} has changed meanwhile", hint="try again")
                    write_private(path, after)
                    self.files.settling.take(named)
            except OSError as error:
                hint = "check the permissions there, and the room on the disk"
                raise StateError(f"{quoted(path)} cannot be written: {error.strerror}", hint=hint) from None

        def compile_with(content: bytes) -> LivePolicy:
            layers = list(self.files.again(None).discover(session, user=content))
            return LivePolicy(self.compile(layers), self.root, lambda: self.compile(layers), home=self.homes.user)

        return PersistentRule(read, write, compile_with)

    def _trusted_now(self, layer: Layer) -> Layer:
        if layer.name not in (PROJECT, LOCAL):
            return layer
        return layer.replace(trusted=self._trusts(layer.file or "", layer.content, layer.tree))

    def compile_tree(self, tree: "Mapping[str, Any]") -> LivePolicy:
        """Return the policy of one tree alone: no other layer has a say."""
        layer = inline_layer(tree)

        def compile_now() -> Compiled:
            self.approvals.refresh()
            return self.compile([layer])

        known = self.approvals.stamp()
        compiled = compile_now()
        return LivePolicy(
            compiled, self.root, compile_now, home=self.homes.user, stamp=self.approvals.stamp, known=known
        )

    def compile(self, layers: "list[Layer]") -> Compiled:
        """Compile layers in this workspace."""
        surroundings = CompileContext(
            resolve=self.root.resolve_rule,
            approved=self.approvals.approves_mount,
            root=self.root.path,
            own_places=self.own_places(layers),
            kept=self._kept(),
            home=self.homes.user,
            directory=self._directory,
            line_reader=self._line_reader,
        )
        compiled = compile_layers(layers, surroundings)
        if self.approvals.warnings:
            compiled = compiled.replace(warnings=(*compiled.warnings, *dict.fromkeys(self.approvals.warnings)))
        return compiled

    def _kept(self) -> "tuple[Protection, ...]":
        """Return what is protected because of how this machine and this repository are set up."""
        root, home = self.root.path, self.homes.user
        search = os.environ.get("PATH", "")
        elsewhere = places_elsewhere(home, os.environ, root)
        return (*find_own_code(root), *program_directories(search, root), *git_places(root, home), *elsewhere)

    def _directory(self, path: str) -> str | None:
        """Return the canonical form of a configured directory; one that is not there yet keeps its name."""
        place = self.root.resolve_any(path)
        return None if isinstance(place, RefusedPath) else place.canonical

    def _line_reader(self, programs: "Mapping[str, Any]") -> "ReadLine":
        """Return what reads command lines here; the shell room is loaded when the first one comes."""
        readers: list[CommandLineReader] = []

        def read(text: str, cwd: str | None = None, shell: str | None = None) -> "CommandLine":
            if not readers:
                readers.append(_make_reader(self.root, programs, self.homes.user))
            return readers[0].read(text, cwd, shell)

        return read

    def print_of(self, name: str, content: bytes, tree: "Mapping[str, Any]") -> "Fingerprint":
        """Return what trusting this project file would mean now."""
        return fingerprint(name, content, tree, self._read_script)

    def own_places(self, layers: "Sequence[Layer]") -> tuple[str, ...]:
        """Return what no tool may write to: byleave's homes, and the very files that this policy was read from."""
        files = [real_path(layer.path) for layer in layers if layer.path]
        return tuple(dict.fromkeys([*self.homes.own_places(self.root.path), *files]))

    def _trusts(self, name: str, content: bytes, tree: "Mapping[str, Any]") -> bool:
        # Scripts are hashed only for content that was trusted once: nobody else's file makes us read gigabytes.
        if not self.approvals.knows(name, digest(content)):
            return False
        print_ = self.print_of(name, content, tree)
        self._scripts.update(script for script, _sha256 in print_.scripts)
        return self.approvals.trusts(print_)

    def _read_script(self, word: str) -> tuple[str, str] | None:
        """Return name and hash of a word that names a file of the workspace; of a link that leads out, its target."""
        place = self.root.resolve_any(word)
        if isinstance(place, RefusedPath):  # a name that no tool may pass can still be run, and then must not go unseen
            return (word, UNREAD) if "\0" not in word and os.path.lexists(os.path.join(self.root.path, word)) else None
        if place.relative is None:
            return None if place.door is None else (place.door, digest(os.fsencode(f"outside: {place.canonical}")))
        if place.directory or not place.exists:
            return None
        try:
            descriptor = self._open_inside(place.relative)
        except (OSError, ConfigError, UnsafePathError):
            return place.relative, UNREAD
        try:
            return place.relative, digest_file(descriptor, limit=LARGEST_SCRIPT) or UNREAD
        except OSError:
            return place.relative, UNREAD
        finally:
            os.close(descriptor)

    def _open_inside(self, name: str) -> int:
        return _open_inside(self.root, name)


def _open_inside(root: Root, name: str) -> int:
    """Open a file of the workspace for reading; what leads out of it is refused."""
    from byleave.workspace.openers import walk
    from byleave.workspace.opening import Anchor

    place = root.resolve_input(name)
    if isinstance(place, RefusedPath):
        raise ConfigError(place.problem, hint="keep the configuration in a plain file of the workspace")
    if place.relative is None:
        raise ConfigError(
            f"{name} is a link that leads out of the workspace", hint="keep the configuration inside the workspace"
        )
    # The walk is as safe as openat2, and spares every start the import of ctypes.
    with Anchor.open(root.path, opener=walk) as anchor:
        return anchor.open_file(place.relative, os.O_RDONLY)


def _make_reader(root: Root, programs: "Mapping[str, Any]", home: str) -> "CommandLineReader":
    from byleave.policy.command_lines import CommandLineReader
    from byleave.shell.knowledge.programs import BUILT_IN

    try:
        return CommandLineReader(root, BUILT_IN.extended(programs) if programs else BUILT_IN, home)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigErrors([ConfigError(f"programs: {error}", hint="see docs/commands.md for the keys")]) from None


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise InputError("the working directory is gone", hint="change to another one, or give --root") from None


def load_policy(root: str | None = None, *, files: "Sequence[str]" = (), session: str = "default") -> LivePolicy:
    """Return the policy that holds at `root`, from its layered files."""
    return Workspace(root).load(files=files, session=session)


def open_guard(
    root: str | None = None,
    *,
    door: str = "python",
    files: "Sequence[str]" = (),
    session: str = "default",
    asker: "Asker | None" = None,
) -> "Guard":
    """Return a guard for a program of one's own: it decides, asks through `asker`, and records. Close it in the end."""
    return Workspace(root).guard(door, files=files, session=session, asker=asker)


def compile_policy(tree: "Mapping[str, Any]", *, root: str | None = None) -> LivePolicy:
    """Return the policy of a tree shaped like the TOML file, alone."""
    return Workspace(root).compile_tree(tree)
