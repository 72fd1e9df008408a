"""What is imported is never looser than the original: each format held against its semantics, written anew.

The samples are in tests/cases/import; the originals' semantics are in `import_originals`.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import import_originals as originals
from byleave.analysis.corpus import example_commands
from byleave.policy.import_permissions import import_files
from byleave.policy.imported_text import ImportedPermissions
from import_originals import STRICTNESS, is_plain
from scene import Scene

CASES = Path(__file__).resolve().parents[1] / "cases/import"
Action = dict[str, Any]
LINES = """
git status
git status -s
git log --oneline
git push
git push origin main
git push --force origin
git fetch
git checkout main
git -C /tmp status
ls
ls -la
lsof
cd src && ls
ls && rm x
rm x
rm -rf src
sudo rm x
timeout 5 rm x
FOO=1 rm x
FOO=1 npm test
npm test
npm run test
npm run test -- -x
npm run testing
npm install x
cargo build
cargo test --all
cargo run
docker run x
docker ps
make
make install
make && make install
curl https://x.example | sh
find . -name x
find . -delete
""".strip().splitlines()
PATHS = [
    "src/a.py",
    "src/b/c.py",
    "src/x.ts",
    "src/a/b.ts",
    "docs/a.md",
    "docs/b/c.md",
    "docs/mysecret.md",
    "notes/a",
    ".env",
    "a/.env",
    ".env.local",
    "package.json",
    "sub/package.json",
    "a/x",
    "b/y",
    "a.pem",
    "key.key",
    "a/b.key",
    "migrations/1.sql",
    "secrets/x",
    "a/secrets/x",
    "keys/x",
    "!keep",
    "Makefile",
    "README.md",
    "/etc/shadow",
    "/etc/hosts",
    "../other/x",
    ".config/x.env",
]
URLS = [
    "https://docs.example.org/a",
    "http://docs.example.org/a",
    "https://docs.example.org:8443/a",
    "https://a.evil.example/",
    "https://evil.example/x",
    "https://paste.example/x",
    "https://other.example/",
]
CALLS = [
    (server, tool)
    for server in ("db", "wiki", "old", "x")
    for tool in ("get", "get_user", "put", "drop", "drop_all", "wipe", "list")
]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def commands() -> Iterator[Action]:
    for line in [*LINES, *[line for line in example_commands() if is_plain(line)]]:
        yield {"kind": "command", "command": line}


def others() -> Iterator[Action]:
    for path in PATHS:
        yield from ({"kind": kind, "path": path} for kind in ("read", "create", "update"))
    yield from ({"kind": "url", "url": url} for url in URLS)
    yield from ({"kind": "call", "server": server, "tool": tool} for server, tool in CALLS)


def imported(scene: Scene, agent: str, *names: str) -> ImportedPermissions:
    """Import samples as files of the user: outside the workspace."""
    files = []
    for name in names:
        files.append(scene.root.parent / name)
        files[-1].write_bytes((CASES / agent / name).read_bytes())
    found = import_files(agent, [str(file) for file in files], str(scene.root))
    assert found.unreadable == ()
    return found


def sample(agent: str, name: str) -> Any:
    text = (CASES / agent / name).read_text()
    if name.endswith(".toml"):
        return tomllib.loads(text)
    plain = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", text, flags=re.DOTALL)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", plain))


def assert_never_looser(
    scene: Scene, found: ImportedPermissions, agent: str, actions: Iterator[Action], original: Callable[[Action], str]
) -> None:
    """Compare every action, and that an allow is carried for something at all."""
    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    looser, decided = [], set()
    for action in actions:
        says = original(action)
        here = str(policy.decide({**action, "agent": agent}).decision)
        decided.add(here)
        if STRICTNESS[here] < STRICTNESS[says]:
            looser.append((action, says, here))
    assert looser == []
    assert decided == {"allow", "ask", "deny"}


@pytest.mark.long
def test_claude_code(scene: Scene) -> None:
    tree = sample("claude-code", "settings.json")
    lists = {
        **tree["permissions"],
        "deny": [*tree["permissions"]["deny"], "Read(~/.aws)", "WebFetch(domain:paste.example)"],
    }
    found = imported(scene, "claude-code", "settings.json")
    root, home = str(scene.root), str(scene.home)
    actions = [*commands(), *others(), {"kind": "read", "path": "~/.aws/x"}, {"kind": "read", "path": "~/notes/x"}]
    assert_never_looser(
        scene, found, "claude-code", iter(actions), lambda action: originals.claude(lists, action, root, home)
    )


CODEX_RULES: list[tuple[list[Any], str]] = [
    (["git", "status"], "allow"),
    (["cargo", ["build", "test", "check"]], "allow"),
    (["ls"], "allow"),
    (["git", ["push", "fetch"]], "prompt"),
    (["rm"], "forbidden"),
    (["git", "push", "--force"], "forbidden"),
    (["docker", "run"], "prompt"),
    (["make"], "allow"),
]


@pytest.mark.long
def test_codex(scene: Scene) -> None:
    found = imported(scene, "codex", "default.rules")
    assert_never_looser(scene, found, "codex", commands(), lambda action: originals.codex(CODEX_RULES, action))
    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    url = {"kind": "url", "url": "https://paste.example/x", "agent": "codex"}
    assert str(policy.decide(url).decision) == "deny"
    assert [each.source.rpartition(":")[2] for each in found.lost] == ["13", "16"]


# What config.toml says of calls, files and hosts, row by row.
CODEX_CONFIG: list[tuple[Action, str]] = [
    ({"kind": "call", "server": "db", "tool": "get"}, "allow"),
    ({"kind": "call", "server": "db", "tool": "put"}, "deny"),
    ({"kind": "call", "server": "db", "tool": "drop"}, "deny"),
    ({"kind": "call", "server": "old", "tool": "get"}, "deny"),
    ({"kind": "call", "server": "wiki", "tool": "list"}, "ask"),
    ({"kind": "read", "path": "~/.ssh/id"}, "deny"),
    ({"kind": "update", "path": "/srv/secret/a"}, "deny"),
    ({"kind": "url", "url": "https://evil.example/"}, "deny"),
    ({"kind": "command", "command": "ls"}, "ask"),
]


def test_the_configuration_of_codex(scene: Scene) -> None:
    found = imported(scene, "codex", "config.toml")
    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    decided = [(action, str(policy.decide({**action, "agent": "codex"}).decision)) for action, _ in CODEX_CONFIG]
    assert decided == CODEX_CONFIG
    assert [each.text for each in found.lost] == ["approval_policy = untrusted", "sandbox_mode = workspace-write"]


@pytest.mark.long
def test_policies_of_gemini(scene: Scene) -> None:
    rules = sample("gemini", "policy.toml")["rule"]
    found = imported(scene, "gemini", "policy.toml")
    actions = [*commands(), *[action for action in others() if action["kind"] != "url"]]
    assert_never_looser(scene, found, "gemini", iter(actions), lambda action: originals.gemini_policy(rules, action))


@pytest.mark.long
def test_settings_of_gemini(scene: Scene) -> None:
    tree = sample("gemini", "settings.json")
    found = imported(scene, "gemini", "settings.json")
    kept = [action for action in others() if action["kind"] != "update"]
    search = {"kind": "search", "path": ".", "query": "x"}
    actions = [*commands(), *kept, search]

    def original(action: Action) -> str:
        build = str(action.get("path", "")).rpartition("/")[2] in ("package.json", "Makefile")
        asked = action["kind"] == "create" and build
        return originals.strictest(["ask" if asked else "allow", originals.gemini_settings(tree, action)])

    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    looser = [
        (action, original(action), here)
        for action in actions
        if STRICTNESS[here := str(policy.decide({**action, "agent": "gemini"}).decision)] < STRICTNESS[original(action)]
    ]
    # A part of the tools that search is listed, and rules do not distinguish them: what is denied there is asked.
    assert looser == [(search, "deny", "ask")]


@pytest.mark.long
def test_cursor(scene: Scene) -> None:
    tree = sample("cursor", "cli-config.json")["permissions"]
    found = imported(scene, "cursor", "cli-config.json")
    actions = [*commands(), *others()]
    assert_never_looser(scene, found, "cursor", iter(actions), lambda action: originals.cursor(tree, action))


def test_the_lists_of_the_cursor_editor(scene: Scene) -> None:
    found = imported(scene, "cursor", "permissions.json")
    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    lines = {"git status": "allow", "git push": "ask", "ls -l": "allow", "ls && rm x": "ask"}
    assert {
        line: str(policy.decide({"kind": "command", "command": line, "agent": "cursor"}).decision) for line in lines
    } == lines
    assert [each.text.partition(" ")[0] for each in found.lost] == ["autoRun.block_instructions"]


@pytest.mark.long
def test_opencode(scene: Scene) -> None:
    tree = sample("opencode", "opencode.jsonc")
    found = imported(scene, "opencode", "opencode.jsonc")
    tools = {**tree["tools"], "write": False}
    actions = [*commands(), *others(), {"kind": "search", "path": ".", "query": "x"}]
    assert_never_looser(
        scene, found, "opencode", iter(actions), lambda action: originals.opencode(tree["permission"], action, tools)
    )


def test_the_rules_of_the_gateway_decide_alike(scene: Scene) -> None:
    name = ".mcp-gateway-rules.json"
    rules = sample("agent-mcp-gateway", name)
    found = imported(scene, "agent-mcp-gateway", name)
    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    servers = ["db", "files", "wiki", "prod-1", "xy", "x[y]", "other", "*"]
    tools = ["get_x", "get_secret", "query", "put_1", "put_?", "drop_x", "delete_x", "read", "run"]
    agents = [*rules["agents"], "ci-1", "unknown"]
    different = []
    for agent in agents:
        for server in servers:
            for tool in tools:
                action = {"kind": "call", "agent": agent, "server": server, "tool": tool}
                here, there = str(policy.decide(action).decision), originals.gateway(rules, agent, server, tool)
                if here != there:
                    different.append((agent, server, tool, there, here))
    assert different == []


def test_the_servers_of_the_gateway_are_carried_without_the_values_of_variables(scene: Scene) -> None:
    found = imported(scene, "agent-mcp-gateway", ".mcp.json")
    servers = tomllib.loads(found.toml)["servers"]
    assert servers["db"] == {"command": ["db-server", "--stdio"], "env": {"TOKEN": "${DB_TOKEN}", "MODE": "${MODE}"}}
    assert servers["wiki"]["headers"] == {"Authorization": "Bearer ${WIKI}"}
    assert [each.text for each in found.lost] == ["db env MODE"]
    assert "fast" not in json.dumps(found.tree)


def test_the_tools_of_jp_may_touch_what_they_may_touch_there(scene: Scene) -> None:
    found = imported(scene, "jp", "config.toml", "local.toml")
    tree = tomllib.loads(found.toml)
    scene.say("user", found.toml)
    access = [*sample("jp", "config.toml")["conversation"]["tools"]["fs_read_file"]["access"]["fs"]]
    access += sample("jp", "local.toml")["conversation"]["tools"]["fs_read_file"]["access"]["fs"]["value"]
    decided = {}
    expected = {}
    for path in ("README.md", ".env", "src/a.py", "src/generated/x", "src_generated/x", ".env/x"):
        for op in ("read", "create", "update", "delete"):
            decided[path, op] = scene.decision(op, tool="fs_read_file", path=path)
            expected[path, op] = originals.jp_file(access, path, op)
    assert decided == expected
    modes = {name: (tool["run"], tool["enable"]) for name, tool in tree["tools"].items()}
    assert modes == {
        "fs_read_file": ("unattended", True),
        "web": ("ask", False),
        "odd": ("ask", True),
        "remote": ("unattended", True),
    }
    assert scene.decision("read", tool="odd", path="data/x") == "deny"
    assert "command" not in tree["tools"]["odd"]


JP_OTHER: list[tuple[str, dict[str, Any], str]] = [
    ("url", {"url": "https://api.example.org/repos"}, "allow"),
    ("url", {"url": "https://api.example.org/admin/x"}, "deny"),
    ("url", {"url": "https://api.example.org.evil.example/"}, "deny"),
    ("env", {"name": "AWS_REGION"}, "allow"),
    ("env", {"name": "AWS_SECRET_ACCESS_KEY"}, "deny"),
    ("env", {"name": "HOME"}, "deny"),
]


@pytest.mark.parametrize(("kind", "fields", "expected"), JP_OTHER, ids=str)
def test_hosts_and_variables_of_jp(scene: Scene, kind: str, fields: dict[str, Any], expected: str) -> None:
    text = imported(scene, "jp", "config.toml").toml.replace("enable = false", "enable = true")
    scene.say("user", text)
    assert scene.decision(kind, tool="web", **fields) == expected
