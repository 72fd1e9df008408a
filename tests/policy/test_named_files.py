"""Files that commands name are judged by the path rules: what is read, written, deleted and run by name."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.decision import verdict_tree
from byleave.errors import ConfigErrors
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace

CASES = Path(__file__).parents[1] / "cases" / "commands"
POLICIES = json.loads((CASES / "named_policies.json").read_text())
SCENE = json.loads((CASES / "named_scene.json").read_text())


def given_cases() -> Iterator[Any]:
    for name in sorted(path.name for path in CASES.glob("named_files*.jsonl")):
        for line in (CASES / name).read_text().splitlines():
            case = json.loads(line)
            yield pytest.param(case, id=case["id"])


class Scene:
    """The workspace of the cases, and what each policy says in it."""

    def __init__(self, place: Path) -> None:
        self.root, home = place / "workspace", place / "home"
        for top, files in ((self.root, SCENE["workspace"]), (home, SCENE["home"])):
            for name, content in files.items():
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(content)
        (self.root / "links").mkdir()
        for name, target in SCENE["links"].items():
            (self.root / "links" / name).symlink_to(target)
        (self.root / "links" / "out").symlink_to(place)
        homes = find_homes({"HOME": str(home), "BYLEAVE_HOME": str(place / "state")})
        self._workspace = Workspace(str(self.root), homes=homes)
        self._policies: dict[str, Any] = {}

    def decide(self, policy: str, command: str, *, confines: bool = True, shell: str | None = None) -> dict[str, Any]:
        if policy not in self._policies:
            self._policies[policy] = self._workspace.compile_tree(POLICIES[policy])
        action = {"kind": "command", "command": command, **({"shell": shell} if shell is not None else {})}
        return verdict_tree(self._policies[policy].decide(action, confines=confines))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("named"))


@pytest.mark.parametrize("case", list(given_cases()))
def test_a_command_is_judged_by_the_files_it_names(case: dict[str, Any], scene: Scene) -> None:
    if case["expect"] == "error":
        with pytest.raises(ConfigErrors):
            scene.decide(case["policy"], case["command"])
        return
    confines, shell = not case.get("unconfined"), case.get("shell")
    verdict = scene.decide(case["policy"], case["command"], confines=confines, shell=shell)
    if case["expect"] == "not_allow":
        assert verdict["decision"] != "allow", verdict
    else:
        assert verdict["decision"] == case["expect"], verdict
    if "names" in case:
        assert any(name in verdict["reason"] for name in case["names"]), verdict
    if "files" in case:
        listed = [(f["path"], f["op"], f["decision"]) for part in verdict["parts"] for f in part.get("files", ())]
        assert [tuple(file) for file in case["files"]] == listed
    if "sandbox" in case:
        assert (verdict["sandbox"] is not None) == case["sandbox"], verdict
    if "required" in case:
        assert verdict["sandbox"]["required"] == case["required"]


def test_a_policy_in_python_answers_for_a_caller_that_cannot_confine(tmp_path: Path) -> None:
    policy = byleave.compile_policy({"rules": POLICIES["boxed"]["rules"], "shell": {}}, root=str(tmp_path))
    assert str(policy.decide({"kind": "command", "command": "make"}).decision) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cat " + "{a," * 3000 + "b" + "}" * 3000,
        "curl -O 'http://x/" + "{a,b}" * 30 + "'",
        "sed '" + "rw" * 5000 + "' README.md",
        "tar cf x.tar " + " ".join(f"-C src a{number}" for number in range(300)),
        "a=aaaaaaaaaa;" + "a=$a$a;" * 60 + "cat $a",
        "a=aaaaaaaaaa;" + "a+=$a;" * 60 + "cat $a",
        'a="b ";' + 'a="$a$a";' * 60 + "cat $a",
    ],
)
def test_a_line_that_becomes_too_many_names_asks_at_once(command: str, scene: Scene) -> None:
    assert scene.decide("open", command)["decision"] == "ask"


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "end"),
    [
        *(("cat", ""), ("rm", ""), ("cp -r", " src"), ("mv", " src"), ("rsync -a", " src"), ("ln -s", " src")),
        *(("aws s3 cp", " s3://b"), ("gh release upload t", ""), ("black", ""), ("zip -m x", ""), ("git rm", "")),
    ],
)
def test_thousands_of_names_take_no_more_than_their_number(start: str, end: str, scene: Scene) -> None:
    command = start + "".join([f" f{number}" for number in range(5_400)]) + end
    begun = time.process_time()
    assert scene.decide("open", command)["decision"] == "ask"
    assert time.process_time() - begun < 1.5  # a fifth of that; in quadratic time it was two and more


def test_a_tree_that_holds_a_protected_place_is_named_in_the_reason(scene: Scene) -> None:
    reason = scene.decide("programs", "git clean -fdx")["reason"]
    assert reason.startswith('"git clean -fdx" needs your approval: it deletes everything in ".": ')


def test_a_directory_that_goes_away_is_denied_for_what_it_takes_with_it(scene: Scene) -> None:
    reason = scene.decide("programs", "rm -rf .claude")["reason"]
    assert reason.startswith('"rm -rf .claude" is denied: it removes ".claude" and with it ')
    assert ".claude/settings.json" in reason
    assert scene.decide("programs", "rm -rf .vscode")["decision"] == "ask"


def test_a_place_that_is_only_followed_allows_nothing(tmp_path: Path) -> None:
    rules = [{"allow": {"command": "make", "within": "src"}}, {"allow": {"command": "cd"}}]
    (tmp_path / "src").mkdir()
    policy = byleave.compile_policy({"rules": rules}, root=str(tmp_path))
    answers = [
        str(policy.decide({"kind": "command", "command": command}).decision)
        for command in ("cd src && make", "D=src; cd $D && make", 'cd "$PWD/src" && make')
    ]
    assert answers == ["allow", "ask", "ask"]


EVERYDAY = (
    *(
        "black .",
        "ruff format .",
        "ruff check --fix .",
        "ruff check",
        "isort .",
        "prettier --write .",
        "eslint --fix .",
    ),
    *(
        "npx prettier --write .",
        "npx eslint --fix src",
        "python3 -m black .",
        "gofmt -w .",
        "shfmt -w .",
        "terraform fmt",
    ),
    *("biome check --write .", "stylelint --fix '**/*.css'", "rubocop -a", "mypy .", "flake8"),
)


@pytest.mark.parametrize("command", EVERYDAY)
def test_a_formatter_touches_only_files_of_its_languages(tmp_path: Path, command: str) -> None:
    for name in (".env", "byleave.toml", "src/app.py", "src/app.ts", "package.json", ".git/config", ".github/ci.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    rules = [{"deny": {"path": "**/.env"}}, {"allow": {"any_command": True, "options": "any"}}]
    policy = byleave.compile_policy({"rules": rules}, root=str(tmp_path))
    assert str(policy.decide({"kind": "command", "command": command}).decision) == "allow"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("black .", "secret/key.py"),
        ("ruff format .", "secret/key.py"),
        ("ruff check --fix", "secret/key.py"),
        ("python3 -m black .", "secret/key.py"),
        ("prettier --write .", "secret/key.json"),
        ("eslint .", "secret/key.js"),
        ("black .", ".claude/hooks/x.py"),
        ("prettier --write .", ".vscode/settings.json"),
        ("prettier --write '**/*.json'", ".vscode/settings.json"),
    ],
)
def test_a_formatter_above_a_closed_file_of_its_language_asks(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("x")
    rules = [{"deny": {"path": "secret/**"}}, {"allow": {"any_command": True, "options": "any"}}]
    verdict = byleave.compile_policy({"rules": rules}, root=str(tmp_path)).decide(
        {"kind": "command", "command": command}
    )
    assert str(verdict.decision) == "ask"
    assert name in verdict.reason
