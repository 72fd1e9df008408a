"""A workspace with two local tools, as the sample cases have it, and a directory outside that can be mounted."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byleave.policy.load import Workspace
from command import Done, byleave

TOOLS = """\
[tools.fs_read_file]
source = "local"
[tools.fs_modify_file]
source = "local"
[[tools.fs_modify_file.access.fs]]
path = "src"
read = true
write = true
"""
NOW = "2026-01-01T00:00:00Z"
MOUNT_RULE = {"path": "fork", "external": True, "read": True}
OPEN_RULE = {"path": ".", "read": True, "write": True, "execute": True}


@dataclass(frozen=True)
class MountScene:
    """The workspace, what lies beside it, and the user's home."""

    root: Path
    ext: Path
    evil: Path
    home: Path

    @classmethod
    def build(cls, base: Path, home: Path, tools: str = TOOLS) -> "MountScene":
        base = base.resolve()
        scene = cls(base / "ws", base / "ext", base / "evil", home)
        for directory in (scene.root, scene.ext, scene.evil):
            directory.mkdir()
        for name in ("foo", "qux", "src", ".git"):
            (scene.root / name).mkdir()
        (scene.ext / "x").write_text("outside")
        scene.configure(tools)
        return scene

    def configure(self, text: str) -> None:
        """Write the user's own layer."""
        (self.home / "config.toml").write_text(text)
        (self.home / "config.toml").chmod(0o600)

    @property
    def workspace(self) -> Workspace:
        return Workspace(str(self.root))

    @property
    def state(self) -> Path:
        workspace = self.workspace
        return Path(workspace.homes.workspace(workspace.root.path))

    def session_file(self, session: str = "default") -> Path:
        return self.state / "sessions" / session / "config.toml"

    def say_session(self, text: str, session: str = "default") -> None:
        """Write a session's layer by hand."""
        file = self.session_file(session)
        for directory in reversed(file.parents):
            directory.mkdir(mode=0o700, exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)

    def run(self, *words: str, cwd: str = ".") -> Done:
        return byleave(*words, cwd=self.root / cwd)

    def answer(self, *words: str, cwd: str = ".") -> Any:
        """Return the JSON answer of a command."""
        return json.loads(self.run(*words, "--json", cwd=cwd).out)

    def dry(self, spec: str, cwd: str = ".") -> Any:
        return self.answer("mount", "--dry-run", spec, cwd=cwd)

    def code_of(self, spec: str, cwd: str = ".") -> str:
        """Return the code of the error that a spec is answered with."""
        done = self.run("mount", "--dry-run", "--json", spec, cwd=cwd)
        assert done.code == 2, done
        code: str = json.loads(done.out)["error"]["code"]
        return code

    def may(self, kind: str, path: str, tool: str = "fs_read_file", session: str = "default") -> str:
        policy = self.workspace.load(session=session)
        return str(policy.decide({"kind": kind, "path": path, "tool": tool}).decision)

    def approved(self) -> dict[str, str]:
        return {path: target for path, target, _at in self.workspace.approvals.mounts()}

    def picture(self) -> dict[str, str]:
        """Return everything that a mount could change: the tree of the workspace, the sessions, the approvals.

        The same, whatever the directories are called in which the scene stands.
        """
        seen = {f"{one.kind} {one.subject}": one.status for one in self.workspace.approvals.all()}
        for top in (self.root, self.state / "sessions"):
            for directory, names, files in os.walk(top):
                for name in (*names, *files):
                    path = Path(directory, name)
                    seen[f"{top.name}/{path.relative_to(top)}"] = _look(path)
        base = str(self.root.parent)
        return {name.replace(base, "$BASE"): text.replace(base, "$BASE") for name, text in seen.items()}

    def in_force(self) -> set[tuple[str, str]]:
        """Return the grants outside the workspace that hold: for which tool, and what."""
        found = self.workspace.load().compiled.externals
        return {(one.tool, one.rule.text) for one in found if one.rule.approved_target is not None}


def _look(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    return "directory" if path.is_dir() else path.read_text()
