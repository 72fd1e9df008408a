"""Somebody swaps files and directories for links while a tool asks for them: nothing behind a link is ever touched."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from byleave.core.redact import SecretFilter
from byleave.errors import RequestError
from byleave.guard.open_guard import guard_for
from byleave.policy.load import Workspace
from byleave.protocol.jsonrpc import ACCESS_DENIED, INVALID_PARAMS
from byleave.toolhost.deadline import Deadline
from byleave.toolhost.methods import MethodService
from byleave.workspace.on_disk import ProjectOnDisk
from workspace.test_safe_open_race import FORBIDDEN, LONGEST, RACE, Arena, arena, contents

__all__ = ["arena"]

POLICY = """
[tools.t]
source = "local"
runtime = "vfs"
command = ["x"]
access.fs = [{ path = ".", read = true, write = true }, { path = "secret" }]
"""
Ask = Callable[..., dict[str, Any]]


def read(ask: Ask, path: str) -> None:
    assert FORBIDDEN.decode() not in ask("fs.read", path=path)["content"]


def write(ask: Ask, path: str) -> None:
    ask("fs.write", path=path, content="written")


def write_anew(ask: Ask, path: str) -> None:
    ask("fs.write", path=path, content="made", exclusive=True)
    ask("fs.delete", path=path)


def make_parents(ask: Ask, path: str) -> None:
    ask("fs.write", path=f"{path}/er/still", content="made")
    ask("fs.delete", path=f"{path}/er/still")


def delete_and_restore(ask: Ask, path: str) -> None:
    ask("fs.write", path=path, content="restored")
    ask("fs.delete", path=path)
    ask("fs.write", path=path, content="restored")


def move_there_and_back(ask: Ask, path: str) -> None:
    ask("fs.write", path=path, content="to move")
    ask("fs.rename", **{"from": path, "to": f"{path}.moved"})
    ask("fs.rename", **{"from": f"{path}.moved", "to": path})


def move_across(ask: Ask, path: str) -> None:
    ask("fs.rename", **{"from": path, "to": "plain.txt"})
    assert FORBIDDEN.decode() not in ask("fs.read", path="plain.txt")["content"]
    ask("fs.rename", **{"from": "plain.txt", "to": path})


def list_directory(ask: Ask, path: str) -> None:
    assert "only-here" not in {entry["path"] for entry in ask("fs.list_dir", path=path)["entries"]}


def look(ask: Ask, path: str) -> None:
    assert ask("fs.metadata", path=path)["size"] != len(FORBIDDEN)


ATTEMPTS: list[tuple[Callable[[Ask, str], None], str]] = [
    *[(read, path) for path in ("src/file.txt", "src/deep/file.txt", "docs/file.txt", "note.txt", "log.txt")],
    *[(write, path) for path in ("src/file.txt", "docs/deep/file.txt", "note.txt", "log.txt", "made.txt")],
    *[(write_anew, path) for path in ("src/fresh.txt", "docs/fresh.txt")],
    *[(make_parents, path) for path in ("src/fresh", "docs/fresh")],
    *[(delete_and_restore, path) for path in ("src/victim.txt", "docs/victim.txt")],
    *[(move_there_and_back, path) for path in ("src/deep/file.txt", "docs/victim.txt")],
    (move_across, "src/file.txt"),
    *[(list_directory, path) for path in ("src", "docs", ".")],
    *[(look, path) for path in ("src/file.txt", "note.txt")],
]


def test_nothing_behind_a_swapped_link_is_touched_on_behalf_of_a_tool(arena: Arena, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    workspace = Workspace(arena.root)
    untouched, outcomes = arena.forbidden(), Counter[str]()
    with guard_for(workspace, "call", files=[str(policy)], client_approves=None) as guard:
        service = MethodService(guard, "t", ProjectOnDisk(workspace.root), SecretFilter())

        def ask(method: str, **params: Any) -> dict[str, Any]:
            return service.serve(method, params, Deadline())

        start = time.monotonic()
        while not _over(start, outcomes):
            for act, path in ATTEMPTS:
                outcomes[_outcome(act, ask, path)] += 1
    assert arena.forbidden() == untouched
    assert min(outcomes["done"], outcomes["refused"]) > 0, f"nobody raced: {outcomes}"


def _over(start: float, outcomes: Counter[str]) -> bool:
    length = time.monotonic() - start
    return length > LONGEST or (length > RACE and min(outcomes["done"], outcomes["refused"]) > 0)


def _outcome(act: Callable[[Ask, str], None], ask: Ask, path: str) -> str:
    try:
        act(ask, path)
    except RequestError as error:
        return "refused" if error.number in (ACCESS_DENIED, INVALID_PARAMS) else "missing"
    return "done"


def test_a_tree_that_is_swapped_is_searched_without_what_is_behind(arena: Arena, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    workspace = Workspace(arena.root)
    untouched = contents(arena.outside)
    with guard_for(workspace, "call", files=[str(policy)], client_approves=None) as guard:
        service = MethodService(guard, "t", ProjectOnDisk(workspace.root), SecretFilter())
        start, searches = time.monotonic(), 0
        while time.monotonic() - start < RACE / 2 or not searches:
            try:
                found = service.serve("fs.grep", {"pattern": "FORBIDDEN|inside"}, Deadline())
            except RequestError:
                continue
            finally:
                assert time.monotonic() - start < LONGEST
            searches += 1
            texts = [line["content"] for match in found["matches"] for line in match["lines"]]
            assert FORBIDDEN.decode() not in texts
            assert not any(os.path.isabs(match["path"]) for match in found["matches"])
    assert contents(arena.outside) == untouched
