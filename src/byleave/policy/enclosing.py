"""Project files of the directories around a workspace: they go on tightening what happens in it.

Who can make an empty `byleave.toml` or `.byleave` in a subdirectory could otherwise switch the project's own policy off
for everything that is started there. So what the files above say is heard as well, each apart, and only to tighten.
Their paths are relative to where they stand; here they are written as the workspace inside names the same places.

Start at `enclosing_directories` and `seen_from`.
"""

import os

from byleave.core.fs_rules import is_under
from byleave.core.paths import collapse
from byleave.core.patterns import ANY_DEPTH
from byleave.policy.dirs import home_directory, is_trusted_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from byleave.policy.dirs import UserDirs
    from byleave.policy.normalize import Tree

ENCLOSING_FILES = ("byleave.toml", ".byleave/config.toml", ".byleave/local.toml", ".mcp-gateway-rules.json")
_COMBINED = ("all", "any")
_OUTCOMES = ("allow", "ask", "deny")
_EXAMPLES = ("match", "not_match")  # they are checked where the file is at home


def enclosing_directories(root: str, homes: "UserDirs") -> "Iterator[str]":
    """Yield the directories above a workspace in which project files of the same owner stand, the nearest first.

    The home directory, and what lies above it, is no project.
    """
    home = home_directory(homes)
    directory = os.path.dirname(root)
    while directory != root:
        if home and is_under(home, directory):
            return
        if any(is_trusted_owner(os.path.join(directory, name), root) for name in ENCLOSING_FILES):
            yield directory
        root, directory = directory, os.path.dirname(directory)


def seen_from(tree: "Tree", outer: str, root: str) -> "Tree":
    """Return what a project file of the directory `outer` says about the workspace at `root`, which lies in it."""
    inner = root[len(outer) :].strip("/")
    seen: Tree = {"tools": {}}
    if "rules" in tree:
        rules = [_rule(rule, outer, inner) for rule in tree["rules"]["value"]]
        seen["rules"] = {"strategy": "prepend", "value": rules}  # in front, where nothing inside can hide them
    if "agents" in tree:
        seen["agents"] = tree["agents"]
    for name, tool in tree["tools"].items():
        marks = {key: value for key, value in tool.items() if key.startswith("#")}
        fs = tool.get("access", {}).get("fs", {}).get("value")
        if fs:
            access = {"fs": {"strategy": "append", "value": _file_rules(fs, inner)}}
            seen["tools"][name] = {**marks, "access": access}
    return seen


def _rule(rule: "Mapping[str, Any]", outer: str, inner: str) -> "Tree":
    kept = {key: value for key, value in rule.items() if key not in _EXAMPLES}
    return {
        key: _matcher(value, outer, inner) if key in _OUTCOMES and isinstance(value, dict) else value
        for key, value in kept.items()
    }


def _matcher(table: "Mapping[str, Any]", outer: str, inner: str) -> "Tree":
    made = dict(table)
    if "path" in made:
        texts = [made["path"]] if isinstance(made["path"], str) else made["path"]
        made["path"] = [path for text in texts for path in _patterns(text, outer, inner)]
    if isinstance(made.get("within"), str):
        made["within"] = _place(made["within"], outer)
    for key in _COMBINED:
        if isinstance(made.get(key), list):
            made[key] = [_matcher(each, outer, inner) for each in made[key]]
    for key in ("not", "call"):
        if isinstance(made.get(key), dict):
            made[key] = _matcher(made[key], outer, inner)
    if isinstance(made.get("inside"), str):
        made["inside"] = _place(made["inside"], outer)
    return made


def _place(text: str, outer: str) -> str:
    return text if text.startswith(("/", "~")) else os.path.normpath(os.path.join(outer, text))


def _patterns(text: str, outer: str, inner: str) -> "Iterator[str]":
    """Yield a pattern as an absolute one, and as the workspace inside names the same files where that is exact."""
    if text.startswith(("/", "~")):
        yield text
        return
    escaped = "".join([f"[{char}]" if char in "*?[" else char for char in outer.rstrip("/")])
    names = [name for name in text.split("/") if name not in ("", ".")]
    yield "/".join([escaped, *names])
    within = inner.split("/")
    if names[:1] == [ANY_DEPTH]:
        yield "/".join(names)
    elif names[: len(within)] == within and len(names) > len(within):
        yield "/".join(names[len(within) :])


def _file_rules(rules: "list[Tree]", inner: str) -> "list[Tree]":
    """Return the file rules of a tool that reach into the workspace; where only others are written, one that closes it.

    Those at and above it come first, the nearest last: of several at one path, the last counts.
    """
    around, below = [], []
    for rule in rules:
        path = collapse(rule["path"])
        if path is None:
            continue
        if is_under(inner, path) or path == "":
            around.append((len(path), {**rule, "path": "."}))
        elif is_under(path, inner):
            below.append({**rule, "path": path[len(inner) :].strip("/")})
    marks = {key: value for key, value in rules[0].items() if key.startswith("#")}
    nearest = [rule for _length, rule in sorted(around, key=lambda pair: pair[0])]
    return [*(nearest or [{"path": ".", **marks}]), *below]
