"""Put the parts together: files, trust, approvals and the workspace become one policy that answers.

Used by the command line and by `import byleave`. Nothing below this module knows how the others are wired.
"""

import os

from byleave import __version__
from byleave.approvals.fingerprint import fingerprint
from byleave.approvals.store import Approvals
from byleave.config.compile import Compiled, Surroundings, compile_layers
from byleave.config.homes import Homes, check_session_name, find_homes, find_root
from byleave.config.layers import Files, Layer, inline_layer
from byleave.errors import ConfigError
from byleave.guard.judge import Policy
from byleave.private import Memory, read_all
from byleave.workspace.resolve import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from byleave.approvals.fingerprint import Fingerprint

LARGEST_SCRIPT = 64 << 20


class Workspace:
    """One workspace of one user: its root, its files, its approvals."""

    def __init__(self, root: str | None = None, *, homes: Homes | None = None) -> None:
        self.homes = homes if homes is not None else find_homes(os.environ)
        self.root = Root.at(root if root is not None else find_root(os.getcwd()))
        self.memory = Memory(self.homes.memory, __version__)
        self.approvals = Approvals(self.homes.workspace(self.root.path), self.memory)
        self.files = Files(
            self.root.path,
            self.homes,
            self.memory,
            open_project_file=self._open_inside,
            trusts=lambda name, content, tree: self.approvals.trusts(self.print_of(name, content, tree)),
        )

    def load(self, *, files: "Sequence[str]" = (), session: str = "default") -> Policy:
        """Return the policy of the layers that hold here; `files` replace what would be found."""
        check_session_name(session)

        def compile_now() -> Compiled:
            layers = self.files.given(list(files), session) if files else self.files.discover(session)
            return self.compile(list(layers))

        return Policy(compile_now(), self.root, compile_now)

    def compile_tree(self, tree: "Mapping[str, Any]") -> Policy:
        """Return the policy of one tree alone: no other layer has a say."""
        layer = inline_layer(tree)
        return Policy(self.compile([layer]), self.root, lambda: self.compile([layer]))

    def compile(self, layers: "list[Layer]") -> Compiled:
        """Compile layers in this workspace."""
        surroundings = Surroundings(
            resolve=self.root.resolve_rule,
            approved=self.approvals.approves_mount,
            root=self.root.path,
            own_places=self.homes.own_places(),
        )
        compiled = compile_layers(layers, surroundings)
        if self.approvals.warnings:
            compiled = compiled.replace(warnings=(*compiled.warnings, *dict.fromkeys(self.approvals.warnings)))
        return compiled

    def print_of(self, name: str, content: bytes, tree: "Mapping[str, Any]") -> "Fingerprint":
        """Return what trusting this project file would mean now."""
        return fingerprint(name, content, tree, self._read_script)

    def _read_script(self, word: str) -> tuple[str, bytes] | None:
        """Return name and content of a word that names a plain file of the workspace."""
        place = self.root.resolve_any(word)
        relative = getattr(place, "relative", None)
        if relative is None or not getattr(place, "exists", False) or getattr(place, "directory", True):
            return None
        try:
            descriptor = self._open_inside(relative)
        except (OSError, ConfigError):
            return relative, b"\0unreadable"
        try:
            return relative, read_all(descriptor, LARGEST_SCRIPT)
        finally:
            os.close(descriptor)

    def _open_inside(self, name: str) -> int:
        """Open a file of the workspace for reading; what leads out of it is refused."""
        from byleave.workspace.openers import walk
        from byleave.workspace.opening import Anchor

        place = self.root.resolve_input(name)
        relative = getattr(place, "relative", None)
        if relative is None:
            raise ConfigError(
                f"{name} is a link that leads out of the workspace", hint="keep the configuration inside the workspace"
            )
        # The walk is as safe as openat2, and spares every start the import of ctypes.
        with Anchor.open(self.root.path, opener=walk) as anchor:
            return anchor.open_file(relative, os.O_RDONLY)


def load_policy(root: str | None = None, *, files: "Sequence[str]" = (), session: str = "default") -> Policy:
    """Return the policy that holds at `root`, from its layered files."""
    return Workspace(root).load(files=files, session=session)


def compile_policy(tree: "Mapping[str, Any]", *, root: str | None = None) -> Policy:
    """Return the policy of a tree shaped like the TOML file, alone."""
    return Workspace(root).compile_tree(tree)
