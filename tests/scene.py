"""A workspace with every layer in a directory of its own, so that a test says only what each layer holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byleave.core.decision import Verdict
from byleave.policy.dirs import UserDirs
from byleave.policy.live_policy import LivePolicy
from byleave.policy.load import Workspace

TOOL = '[tools.t]\nsource = "local"\n'


@dataclass(frozen=True)
class Scene:
    """One user, one workspace, one machine."""

    root: Path
    home: Path
    managed: Path

    @classmethod
    def build(cls, base: Path) -> "Scene":
        scene = cls(base / "ws", base / "home", base / "etc")
        for directory in (scene.root, scene.home, scene.managed):
            directory.mkdir(mode=0o700)
        return scene

    @property
    def homes(self) -> UserDirs:
        home = str(self.home)
        return UserDirs(config=home, state=home, memory=f"{home}/cache", managed=str(self.managed), user=home)

    @property
    def workspace(self) -> Workspace:
        """A workspace as a new process would see it."""
        return Workspace(str(self.root), homes=self.homes)

    def file(self, layer: str) -> Path:
        return {
            "user": self.home / "config.toml",
            "project": self.root / "byleave.toml",
            "project-local": self.root / ".byleave/local.toml",
            "session": Path(self.homes.workspace(str(self.root))) / "sessions/default/config.toml",
            "command line": self.root.parent / "policy.toml",
            "managed": self.managed / "config.toml",
        }[layer]

    def say(self, layer: str, text: str | bytes) -> Path:
        """Write the file of a layer."""
        file = self.file(layer)
        for directory in reversed(file.parents):
            directory.mkdir(mode=0o700, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(0o600)
        return file

    def trust(self, name: str = "byleave.toml") -> None:
        """Trust a project file as it is now."""
        workspace = self.workspace
        content = workspace.files.read_project_file(name)
        layer = workspace.files.parse_project_file(name, content)
        workspace.approvals.trust(workspace.print_of(name, content, layer.tree), now="2025-01-01T00:00:00Z")

    def load(self, *files: str | Path) -> LivePolicy:
        return self.workspace.load(files=[str(file) for file in files])

    def decide(self, kind: str, *, files: tuple[str | Path, ...] = (), tool: str = "t", **fields: Any) -> Verdict:
        return self.load(*files).decide({"kind": kind, "tool": tool, **fields})

    def decision(self, kind: str, *, files: tuple[str | Path, ...] = (), tool: str = "t", **fields: Any) -> str:
        return str(self.decide(kind, files=files, tool=tool, **fields).decision)
