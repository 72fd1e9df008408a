"""One policy, two voices: what `byleave check` answers is what the kernel does, or the plan says where it is not."""

import itertools
import json
import os
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import amounts
from command import byleave
from sandbox.machine import PYTHON, inside, needs_sandbox

pytestmark = needs_sandbox

HERE = Path(__file__).parent
DRIVER = (HERE / "agreement.py").read_text()
CAPABILITIES = ("read", "create", "update", "delete", "execute")
DIRECTORIES = (".", "d", "d/sub", "d/deny", "d/deny/allow", "other")
# What the kernel may say instead of yes. Anything else means that the attempt itself was wrong.
REFUSALS = {"EACCES", "EPERM", "EROFS", "EXDEV", "EBUSY", "ENOENT", "EEXIST"}
# What is asked of `check`, and under which names the plan may speak of it.
KINDS = {"list": "read", "truncate": "update", "mkdir": "create", "rmdir": "delete"}
ALSO = {"exec": {"exec", "execute"}, "move": {"move", "delete", "create", "update"}}

LINKS = {"ln": "d/sub", "lnf": "d/m"}

Attempt = tuple[str, str]


@dataclass(frozen=True)
class Difference:
    """An attempt on which the two voices differ."""

    attempt: Attempt
    checked: str
    kernel: str

    @property
    def laxer(self) -> bool:
        """Whether the kernel lets happen what `check` denies: a hole, and not merely a nuisance."""
        return self.kernel == "ok"

    def __str__(self) -> str:
        operation, path = self.attempt
        return f"{operation} {path}: check says {self.checked}, the kernel {self.kernel}"


def policies() -> Iterator[tuple[str, list[dict[str, Any]] | None]]:
    for policy in amounts.some(tomllib.loads((HERE / "policies.toml").read_text())["policy"], every=2):
        yield policy["name"], policy.get("rules")
    pairs = amounts.some(list(itertools.combinations(CAPABILITIES, 2)), every=3)
    for names in (*itertools.combinations(CAPABILITIES, 1), *pairs):
        yield f"only {' and '.join(names)} in d", [{"path": "d", **dict.fromkeys(names, True)}]
    for name in CAPABILITIES:
        yield f"everything but {name}", [{"path": ".", **{other: other != name for other in CAPABILITIES}}]


def lay_out(root: Path) -> None:
    for name in DIRECTORIES:
        place = root / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "gone").mkdir()
        for file in ("f", "m"):
            (place / file).write_text("text")
        shutil.copy("/bin/true", place / "prog")
    for name in (".git/config", ".git/HEAD", ".git/hooks/x", ".vscode/settings.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text")
    for name, target in LINKS.items():
        (root / name).symlink_to(target)


def attempts() -> list[Attempt]:
    """Return everything that is tried, what destroys last."""
    found: list[Attempt] = []
    below = [os.path.normpath(f"{place}/{{}}") for place in DIRECTORIES]
    found += [("list", place) for place in (*DIRECTORIES, ".git/hooks", ".vscode", "ln")]
    found += [("read", name.format("f")) for name in below]
    found += [("exec", name.format("prog")) for name in below]
    found += [("read", name) for name in ("ln/f", "lnf", ".git/config", ".git/hooks/x", ".vscode/settings.json")]
    for operation in ("update", "truncate"):
        found += [(operation, name.format("f")) for name in below]
        found += [(operation, name) for name in ("ln/f", "lnf", ".git/config", ".git/HEAD", ".git/hooks/x")]
    found += [("create", name.format("new")) for name in below]
    found += [("mkdir", name.format("newdir")) for name in below]
    found += [("create", "ln/new2"), ("mkdir", "d/later"), ("create", "d/later/x"), ("mkdir", "d/later/deep")]
    found += [
        ("create", name) for name in (".git/new", ".git/hooks/new", ".vscode/tasks.json", ".envrc", "byleave.toml")
    ]
    found += [
        ("mkdir", ".claude"),
        ("create", ".claude/settings.json"),
        ("mkdir", ".byleave"),
        ("create", "d/later.txt"),
    ]
    found += [("mkdir", ".config"), ("create", ".config/app.toml"), ("mkdir", ".config/fish")]
    found += [("move", name.format("m")) for name in below]
    found += [("move", name) for name in ("d/f", ".git/config", ".git/hooks", ".vscode", ".git")]
    found += [("delete", name.format("f")) for name in below]
    found += [("delete", name) for name in (".git/config", ".git/hooks/x", ".vscode/settings.json")]
    found += [("rmdir", name.format("gone")) for name in below]
    return found


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[str]]]:
    """Lay out a workspace for every policy, and ask `byleave check` about all of them at once."""
    tried, lines, places = attempts(), [], {}
    for name, rules in policies():
        places[name] = tmp_path_factory.mktemp("agreement").resolve() / "ws"
        lay_out(places[name])
        lines += [question(places[name], rules, attempt) for attempt in tried]
    home = str(tmp_path_factory.mktemp("home"))
    done = byleave("check", "--batch", feed="\n".join(lines).encode() + b"\n", env={"BYLEAVE_HOME": home}, timeout=120)
    said = [str(json.loads(line)["verdict"]["decision"]) for line in done.out.splitlines()]
    assert len(said) == len(lines), done.err
    return {name: (place, said[at * len(tried) :][: len(tried)]) for at, (name, place) in enumerate(places.items())}


def question(root: Path, rules: list[dict[str, Any]] | None, attempt: Attempt) -> str:
    """Return the line that asks whether an attempt is allowed."""
    operation, path = attempt
    tool = {"source": "local", "command": ["x"], "runtime": "stdio", "access": {} if rules is None else {"fs": rules}}
    action = {"kind": KINDS.get(operation, operation), "path": path, "tool": "t"}
    if operation == "move":
        action["to"] = f"{path}-moved"
    return json.dumps({"id": 0, "root": str(root), "policy": {"tools": {"t": tool}}, "action": action})


def toml(rules: list[dict[str, Any]] | None) -> str:
    if rules is None:
        return "[access]\n"
    texts = ["\n".join(f"{key} = {json.dumps(value)}" for key, value in rule.items()) for rule in rules]
    return "".join(f"[[access.fs]]\n{text}\n" for text in texts)


def announced(entries: list[dict[str, str]], attempt: Attempt) -> bool:
    """Whether the plan says of this path and operation that the kernel is not exact."""
    operation, path = attempt
    names = {"any", KINDS.get(operation, operation), *ALSO.get(operation, ())}
    paths = [path, *(path.replace(link, target, 1) for link, target in LINKS.items() if path.split("/")[0] == link)]
    return any(entry["op"] in names and covers(entry["path"], each) for entry in entries for each in paths)


def covers(place: str, path: str) -> bool:
    return place in (".", "") or f"{path}/".startswith(f"{place.rstrip('/')}/")


@pytest.mark.parametrize(("name", "rules"), list(policies()), ids=[name for name, _ in policies()])
def test_the_kernel_does_what_check_says(
    prepared: dict[str, tuple[Path, list[str]]], name: str, rules: list[dict[str, Any]] | None
) -> None:
    root, said = prepared[name]
    file = root.parent / "access.toml"
    file.write_text(toml(rules))
    tried = attempts()
    explained = inside(root, "true", options=["--explain", "--json", "--access", str(file)])
    assert explained.code == 0, explained
    entries = json.loads(explained.out)["approximate"]
    done = inside(root, PYTHON, "-S", "-c", DRIVER, options=["--access", str(file)], feed=json.dumps(tried).encode())
    kernel = done.out.splitlines()
    assert (done.code, len(kernel)) == (0, len(tried)), done
    assert [
        (one, word) for one, word in zip(tried, kernel, strict=True) if word not in {"ok", "moved away", *REFUSALS}
    ] == []
    found = [
        Difference(attempt, decision, word)
        for attempt, decision, word in zip(tried, said, kernel, strict=True)
        if word != "moved away" and (decision == "allow") != (word == "ok") and not announced(entries, attempt)
    ]
    report = {
        "the kernel is laxer": [str(one) for one in found if one.laxer],
        "the kernel is stricter": [str(one) for one in found if not one.laxer],
    }
    assert report == {"the kernel is laxer": [], "the kernel is stricter": []}, json.dumps(report, indent=1)
