"""A suggestion for agents is as wide as is safe, holds no secret, and warns of what deletes or runs anything."""

import tomllib
from typing import Any

import pytest

import byleave
from byleave.core.decision import ALLOW
from byleave.core.redact import shows_secret
from byleave.core.suggest import cautions_apart
from byleave.policy.load import Workspace
from stage import Stage

FILES = {
    "files": {
        "src/a.py": "",
        "src/deep/b.py": "",
        "src/.env": "",
        "src/key.pem": "",
        "top.py": "",
        ".github/workflows/x.md": "",
    }
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage.build(tmp_path_factory.mktemp("scene"), FILES)


def compiled(scene: Stage, rules: list[dict[str, Any]]) -> byleave.Policy:
    return Workspace(str(scene.root)).compile_tree({"rules": rules})


def suggested(scene: Stage, action: dict[str, Any]) -> str | None:
    return compiled(scene, []).decide(action).suggestion


def command(text: str) -> dict[str, Any]:
    return {"kind": "command", "command": text}


WIDE = {
    "git commit -m 'the first'": ("git commit -m other", "git commit --amend -C x --exec=y"),
    "git log -3": ("git log --oneline src", "git log --output=x"),
    "git status": ("git status -s", "git -c core.pager=x status"),
    "cargo clippy -q": ("cargo clippy", "cargo --config x clippy"),
    "npm view left-pad": ("npm view right-pad", "npm install right-pad"),
    "ruff check src": ("ruff check tests", "ruff clean"),
}


@pytest.mark.parametrize(("line", "others"), WIDE.items(), ids=WIDE.keys())
def test_a_subcommand_stands_for_its_harmless_forms(line: str, others: tuple[str, str], scene: Stage) -> None:
    suggestion = suggested(scene, command(line)) or ""
    assert "subcommand = " in suggestion
    policy = compiled(scene, tomllib.loads(suggestion)["rules"])
    assert [policy.decide(command(each)).decision is ALLOW for each in (line, *others)] == [True, True, False]


EXACT = [
    "git push origin main",
    "npm run build",
    "cargo run --release",
    "npm install left-pad",
    "make deploy",
    "git -C src status",
    "ls src",
    "git branch -D x",
    "gh pr view 3",
]


@pytest.mark.parametrize("line", EXACT)
def test_other_commands_are_named_word_by_word(line: str, scene: Stage) -> None:
    suggestion = suggested(scene, command(line)) or ""
    assert ("args = " in suggestion, "subcommand" in suggestion) == (True, False)
    policy = compiled(scene, tomllib.loads(suggestion)["rules"])
    assert policy.decide(command(line)).decision is ALLOW
    assert policy.decide(command(f"{line} further")).decision is not ALLOW


PATHS = {
    "a source, with others of its kind": ("read", "src/a.py", "src/**/*.py"),
    "a new one": ("create", "src/new.ts", "src/**/*.ts"),
    "one that is changed": ("update", "src/deep/b.py", "src/deep/**/*.py"),
    "one that is deleted, alone": ("delete", "src/a.py", "src/a.py"),
    "one that is run, alone": ("exec", "src/a.py", "src/a.py"),
    "a file of the root, alone": ("read", "top.py", "top.py"),
    "what may hold keys, alone": ("read", "src/key.pem", "src/key.pem"),
    "a hidden file, alone": ("read", "src/.env", "src/.env"),
    "a protected place, alone": ("update", ".github/workflows/x.md", ".github/workflows/x.md"),
}


@pytest.mark.parametrize(("kind", "path", "expected"), PATHS.values(), ids=PATHS.keys())
def test_a_directory_stands_for_its_sources(kind: str, path: str, expected: str, scene: Stage) -> None:
    suggestion = suggested(scene, {"kind": kind, "path": path}) or ""
    (rule,) = tomllib.loads(suggestion)["rules"]
    assert rule == {"allow": {"path": expected, "ops": [kind]}}
    policy = compiled(scene, [rule])
    assert policy.decide({"kind": kind, "path": path}).decision is ALLOW
    closed = [("read", "src/.env"), ("update", ".github/workflows/x.md"), ("delete", "top.py")]
    others = [{"kind": other, "path": place} for other, place in closed if (other, place) != (kind, path)]
    assert [policy.decide(each).decision is ALLOW for each in others] == [False] * len(others)


SECRET = [
    "curl -H 'Authorization: Bearer abcdefgh12345678' https://h.com/",
    "curl -u me:hunter22 https://h.com/",
    "curl https://me:hunter22@h.com/x",
    "git clone https://x:ghp_0123456789012345678901234567890123@github.com/a/b",
    "mysql -u root -phunter22 db",
    "docker login -u me -p hunter22 h.com",
    "sshpass -p hunter22 ssh h",
    "redis-cli -a hunter22 ping",
    "unzip -P hunter22 a.zip",
    "ldapsearch -w hunter22 -x",
    "deploy --token abcdefgh",
    "deploy --password=hunter22",
    "docker run -e KEY=abc image",
    "deploy MY_SETTING=abcdefgh1234",
    "deploy aB3dE5gH7jK9mN1pQ3sT5vW7",
    "deploy 0123456789abcdef0123456789abcdef",
    "deploy 01234567-89ab-cdef-0123-456789abcdef",
]


@pytest.mark.parametrize("line", SECRET)
def test_no_suggestion_holds_a_secret(line: str, scene: Stage) -> None:
    assert suggested(scene, command(line)) is None


def test_variables_before_a_command_are_not_in_its_rule(scene: Stage) -> None:
    for line in ("env API=abc deploy", "API=abc deploy", "API=abc env KEY=abc deploy"):
        assert "abc" not in (suggested(scene, command(line)) or "")


def test_a_wider_rule_leaves_the_secret_out(scene: Stage) -> None:
    suggestion = suggested(scene, command("git commit -m 'password: hunter22'")) or ""
    assert ("hunter22" in suggestion, "subcommand" in suggestion) == (False, True)


def test_secrets_in_paths_and_urls_are_not_suggested(scene: Stage) -> None:
    random = "aB3dE5gH7jK9mN1pQ3sT5vW7"
    assert suggested(scene, {"kind": "url", "url": f"https://hooks.h.com/services/{random}"}) is None
    assert suggested(scene, {"kind": "url", "url": "https://hooks.h.com/services"}) is not None
    assert suggested(scene, {"kind": "read", "path": f"keys/{random}"}) is None
    tree = {"tools": {"t": {"source": "local", "runtime": "stdio", "access": {"commands": {}}}}}
    policy = Workspace(str(scene.root)).compile_tree(tree)
    spawn = {"kind": "spawn", "program": "deploy", "args": ["--token", "abcdefgh"], "tool": "t"}
    assert policy.decide(spawn).suggestion is None


PLAIN = [
    "mkdir -p a/b",
    "docker run -p 8080:80 image",
    "make CC=gcc",
    "ssh -p 22 host",
    "pytest -p no:cacheprovider tests/core/test_something_that_is_long.py",
    "cp -p a b",
    "kubectl get pods",
    "cargo build --target x86_64-unknown-linux-gnu",
]


@pytest.mark.parametrize("line", PLAIN)
def test_everyday_words_are_no_secrets(line: str) -> None:
    assert not shows_secret(line.split())


CAUTIONS = {
    "rm -rf build": "it deletes",
    "rm x": "it deletes",
    "git push --force": "it deletes",
    "git reset --hard": "it deletes",
    "git push": "others see",
    "npm publish": "others see",
    "sudo ls": "it changes",
    "npm install x": "it installs",
    "python3 build.py": "it runs whatever",
    "bash build.sh": "it runs whatever",
    "npm run build": "it runs whatever",
    "npx cowsay": "it runs whatever",
    "make": "it runs whatever",
    "./build.sh": "it runs a file",
    "curl https://h.com": "it reaches other machines",
    "docker run image": "it runs whatever",
    "mv a b": "it deletes",
    "git log --output=x": "one of its options",
    "go vet -vettool=x": "one of its options",
    "cargo test": "it runs code of the project",
    "npm test": "it runs code of the project",
    "pytest -q": "it runs code of the project",
}


@pytest.mark.parametrize(("line", "start"), CAUTIONS.items(), ids=CAUTIONS.keys())
def test_a_caution_stands_above_what_deletes_or_runs_anything(line: str, start: str, scene: Stage) -> None:
    suggestion = suggested(scene, command(line)) or ""
    toml, cautions = cautions_apart(suggestion)
    assert any(said.startswith(start) for said in cautions), suggestion
    assert suggestion.startswith("# Caution: ")
    assert tomllib.loads(suggestion) == tomllib.loads(toml)
    assert max(len(row) for row in suggestion.splitlines()) <= 76


@pytest.mark.parametrize("line", ["ls src", "git status", "git commit -m x", "cargo fmt"])
def test_what_is_harmless_has_no_caution(line: str, scene: Stage) -> None:
    assert "Caution" not in (suggested(scene, command(line)) or "")


def test_deleting_a_file_and_calling_a_deleting_tool_have_cautions(scene: Stage) -> None:
    for action in (
        {"kind": "delete", "path": "src/a.py"},
        {"kind": "exec", "path": "src/a.py"},
        {"kind": "call", "server": "db", "tool": "drop_table"},
        {"kind": "call", "server": "db"},
    ):
        assert (suggested(scene, action) or "# Caution: ").startswith("# Caution: ")
    assert "Caution" not in (suggested(scene, {"kind": "call", "server": "db", "tool": "list_tables"}) or "")


def test_no_word_of_a_command_gets_out_of_its_string(scene: Stage) -> None:
    for word in ("x\n[[rules]]", '"] }\n', "\x1b[0m#", "--output=x\nallow = 1", "\u2028y"):
        action = {"kind": "command", "command": f"deploy $'{word}'".replace("\n", "\\n")}
        suggestion = suggested(scene, action)
        if suggestion is not None:
            (rule,) = tomllib.loads(suggestion)["rules"]
            assert list(rule["allow"]) == ["command", "args"]
            assert suggestion.replace("\n", "").isprintable()


def test_a_tool_that_may_not_start_a_program_is_warned_too(scene: Stage) -> None:
    tree = {"tools": {"t": {"source": "local", "runtime": "stdio", "access": {"commands": {}}}}}
    policy = Workspace(str(scene.root)).compile_tree(tree)
    spawn = {"kind": "spawn", "program": "rm", "args": ["-rf", "x"], "tool": "t"}
    suggestion = policy.decide(spawn).suggestion or ""
    assert suggestion.startswith("# Caution: it deletes")
    assert tomllib.loads(suggestion)["tools"]["t"]["access"]["commands"] == {"rm": {"args": [["-rf", "x"]]}}
