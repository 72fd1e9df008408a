"""The scene of a case: a workspace, and two directories outside of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Stage:
    """Real directories behind the names that cases use: $ROOT, $EXT and $EVIL."""

    root: Path
    ext: Path
    evil: Path

    @classmethod
    def build(cls, base: Path, setup: dict[str, Any]) -> "Stage":
        base = base.resolve()
        stage = cls(base / "ws", base / "ext", base / "evil")
        for directory in (stage.root, stage.ext, stage.evil):
            directory.mkdir()
        setup = stage.fill(setup)
        for name in setup.get("dirs", ()):
            (stage.root / name).mkdir(parents=True, exist_ok=True)
        for name, content in setup.get("files", {}).items():
            (stage.root / name).parent.mkdir(parents=True, exist_ok=True)
            (stage.root / name).write_text(content)
        for name, target in setup.get("symlinks", {}).items():
            (stage.root / name).parent.mkdir(parents=True, exist_ok=True)
            (stage.root / name).symlink_to(target)
        return stage

    def fill(self, tree: Any) -> Any:
        """Return `tree` with the names replaced by real paths, in keys and values alike."""
        match tree:
            case str():
                return (
                    tree.replace("$ROOT", str(self.root))
                    .replace("$EXT", str(self.ext))
                    .replace("$EVIL", str(self.evil))
                )
            case dict():
                return {self.fill(key): self.fill(value) for key, value in tree.items()}
            case list():
                return [self.fill(value) for value in tree]
            case _:
                return tree


def load_cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file with one JSON object a line."""
    return [json.loads(line) for line in (CASES / name).read_text().splitlines() if line]
