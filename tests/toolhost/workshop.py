"""A workspace with tools of its own, and calls of them as a user makes them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import Done, byleave

LOOK_AROUND = """
import json, os, sys
sys.stdin.readline()
seen = {}
for name in json.loads(sys.argv[1]):
    try:
        seen[name] = sorted(os.listdir(name)) if os.path.isdir(name) else open(name).read()
    except OSError as error:
        seen[name] = type(error).__name__
line = {"jsonrpc": "2.0", "method": "result", "params": {"content": json.dumps(seen)}}
sys.stdout.write(json.dumps(line) + "\\n")
"""


def toml(tree: Any) -> str:
    """Return a tree as TOML writes it on one line."""
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(value)}" for key, value in tree.items()) + "}"
    return "[" + ", ".join(map(toml, tree)) + "]" if isinstance(tree, list) else json.dumps(tree)


@dataclass(frozen=True)
class Workshop:
    """A workspace at `root`; its policy lies beside it."""

    root: Path

    @classmethod
    def build(cls, base: Path, tools: dict[str, dict[str, Any]], files: dict[str, str], **more: Any) -> "Workshop":
        """Lay out files and configure tools; each is local unless it says otherwise."""
        root = base / "ws"
        root.mkdir()
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
            (root / name).chmod(0o755)
        configured = {name: {"source": "local", **tool} for name, tool in tools.items()}
        lines = [f"{key} = {toml(value)}" for key, value in {**more, "tools": configured}.items()]
        (base / "policy.toml").write_text("\n".join(lines) + "\n")
        return cls(root)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--root", str(self.root), "--policy", str(self.root.parent / "policy.toml"))

    def call(self, *words: str, feed: bytes = b"", env: dict[str, str | None] | None = None) -> Done:
        """Call a tool without a terminal."""
        return byleave("call", *words, *self.flags, feed=feed, env=env)

    def outcome(self, *words: str, env: dict[str, str | None] | None = None) -> dict[str, Any]:
        """Call a tool, and return what came of it."""
        done = self.call(*words, "--json", env=env)
        tree: dict[str, Any] = json.loads(done.out)
        return tree


# Asks for one thing after the other, and gives back what it was told.
ASKS = """
import json, sys
init = json.loads(sys.stdin.readline())
told = []
for number, (method, params) in enumerate(init["params"]["tool"]["arguments"]["do"]):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\\n")
    sys.stdout.flush()
    answer = json.loads(sys.stdin.readline())
    told.append(answer["error"] if "error" in answer else answer["result"])
last = {"jsonrpc": "2.0", "method": "result", "params": {"content": json.dumps(told)}}
sys.stdout.write(json.dumps(last) + "\\n")
"""


def asker(access: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a mediated tool that does what its arguments say; its script is to be `ask.py` in the workspace."""
    tool = {"runtime": "vfs", "command": ["python3", "ask.py"], **more}
    return tool if access is None else {**tool, "access": access}


def told(shop: Workshop, *do: tuple[str, dict[str, Any]], env: dict[str, str | None] | None = None) -> list[Any]:
    """Have the tool `t` ask for these things, and return the answers."""
    outcome = shop.outcome("t", json.dumps({"do": do}), "--no-input", env=env)
    answers: list[Any] = json.loads(outcome["content"][0]["text"])
    return answers
