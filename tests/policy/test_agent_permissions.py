"""What the agents' own settings say, as rules: denies and asks at least as strict, allows at most as wide."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from byleave.policy.agent_permissions import READABLE, AgentPermissions, read_permissions
from scene import Scene

SETTINGS = {
    "claude-code": "home/.claude/settings.json",
    "codex": "home/.codex/rules/default.rules",
    "gemini": "home/.gemini/settings.json",
    "cursor": "home/.cursor/cli-config.json",
    "opencode": "home/.config/opencode/opencode.json",
}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def write(scene: Scene, file: str, content: object) -> None:
    path = scene.root.parent / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def read(scene: Scene, agent: str, content: object, file: str | None = None) -> AgentPermissions:
    write(scene, file or SETTINGS[agent], content)
    return read_permissions(agent, str(scene.home), str(scene.root))


def decision(scene: Scene, found: AgentPermissions, agent: str, action: str | dict[str, Any], *, open_: bool) -> str:
    """Decide by the rules that were read; `open_`: whatever they leave open is allowed."""
    everything = [
        {"allow": {"any_command": True, "options": "any"}},
        {"allow": {"path": ["**", "/**"]}},
        {"allow": {"operation": ["fetch", "other"]}},
        {"allow": {"call": {"server": "*"}}},
    ]
    rules = [*found.deny, *found.ask, *found.allow, *(everything if open_ else [])]
    asked = {"kind": "command", "command": action} if isinstance(action, str) else action
    return str(scene.workspace.compile_tree({"rules": rules}).decide({**asked, "agent": agent}).decision)


def claude(**permissions: list[str]) -> dict[str, Any]:
    return {"permissions": permissions}


READ_ENV = {"kind": "read", "path": ".env"}
TIGHTENED: list[tuple[str, object, str | dict[str, Any], str]] = [
    ("claude-code", claude(deny=["Bash(rm:*)"]), "rm -rf x", "deny"),
    ("claude-code", claude(deny=["Bash(rm:*)"]), "cd src && /bin/rm x", "deny"),
    ("claude-code", claude(deny=["Bash(rm:*)"]), "rmdir x", "allow"),
    ("claude-code", claude(deny=["Bash(git push:*)"]), "git push origin main", "deny"),
    ("claude-code", claude(deny=["Bash(git push:*)"]), "git -C . push", "deny"),
    ("claude-code", claude(deny=["Bash(git push *)"]), "git push", "deny"),
    ("claude-code", claude(deny=["Bash(git push * --force)"]), "git push origin --force", "deny"),
    ("claude-code", claude(deny=["Bash(git push * --force)"]), "git push origin main", "allow"),
    ("claude-code", claude(deny=["Bash(git * main)"]), "timeout 5 git checkout main", "deny"),
    ("claude-code", claude(deny=["Bash(npm run test*)"]), "npm run test:unit", "deny"),
    ("claude-code", claude(deny=["Bash(* --version)"]), "node --version", "deny"),
    ("claude-code", claude(deny=["Bash(git push * --force)"]), 'git push "$WHAT"', "ask"),
    ("claude-code", claude(deny=["Bash(curl * | sh)"]), "curl example.com | sh", "deny"),
    ("claude-code", claude(deny=["Bash(git commit -m 'x y':*)"]), 'git commit -m "x y" --amend', "deny"),
    ("claude-code", claude(ask=["Bash(npm publish:*)"]), "npm publish --tag x", "ask"),
    ("claude-code", claude(deny=["Bash"]), "ls", "deny"),
    ("claude-code", claude(deny=["Bash(*)"]), "ls", "deny"),
    ("claude-code", claude(deny=["Read(./.env)"]), READ_ENV, "deny"),
    ("claude-code", claude(deny=["Read(.env)"]), {"kind": "read", "path": "a/b/.env"}, "deny"),
    ("claude-code", claude(deny=["Read(.env)"]), "cat .env", "deny"),
    ("claude-code", claude(deny=["Read(secrets)"]), {"kind": "read", "path": "secrets/a/b"}, "deny"),
    ("claude-code", claude(deny=["Read(/secrets/**)"]), {"kind": "read", "path": "secrets/a"}, "deny"),
    ("claude-code", claude(deny=["Read(//etc/**)"]), {"kind": "read", "path": "/etc/passwd"}, "deny"),
    ("claude-code", claude(deny=["Read(~/.ssh/**)"]), {"kind": "read", "path": "~/.ssh/id"}, "deny"),
    ("claude-code", claude(deny=["Read(../other/**)"]), {"kind": "read", "path": "../other/a"}, "deny"),
    ("claude-code", claude(deny=["Read(../other/**)"]), {"kind": "read", "path": "a"}, "allow"),
    ("claude-code", claude(deny=["Read(a**b/[c)"]), {"kind": "read", "path": "x"}, "deny"),
    ("claude-code", claude(ask=["Edit(src/**)"]), {"kind": "update", "path": "src/a"}, "ask"),
    ("claude-code", claude(deny=["Edit"]), {"kind": "create", "path": "src/a"}, "deny"),
    ("claude-code", claude(deny=["WebFetch(domain:x.org)"]), {"kind": "url", "url": "https://x.org/a"}, "deny"),
    ("claude-code", claude(deny=["WebFetch(domain:x.org)"]), {"kind": "url", "url": "https://y.org/a"}, "allow"),
    ("claude-code", claude(deny=["mcp__db"]), {"kind": "call", "server": "db", "tool": "drop"}, "deny"),
    ("claude-code", claude(deny=["mcp__db__drop"]), {"kind": "call", "server": "db", "tool": "drop"}, "deny"),
    ("claude-code", claude(deny=["mcp__db__drop"]), {"kind": "call", "server": "db", "tool": "get"}, "allow"),
    ("codex", 'prefix_rule(pattern = ["git", ["push", "fetch"]], decision = "prompt")', "git fetch origin", "ask"),
    ("codex", 'prefix_rule(pattern=["rm"], decision="forbidden", justification="no")', "rm x", "deny"),
    ("codex", "# nothing\n\nprefix_rule(\n  pattern = ['rm'],\n  decision = 'forbidden',\n)\n", "rm x", "deny"),
    ("gemini", {"tools": {"exclude": ["run_shell_command(rm)"]}}, "rm x", "deny"),
    ("gemini", {"tools": {"exclude": ["run_shell_command"]}}, "ls", "deny"),
    ("gemini", {"excludeTools": ["ShellTool(rm -rf)"]}, "rm -rf x", "deny"),
    ("gemini", {"tools": {"core": ["run_shell_command(git)"]}}, "ls", "deny"),
    ("gemini", {"tools": {"core": ["run_shell_command(git)"]}}, "git status", "allow"),
    ("cursor", {"permissions": {"deny": ["Shell(rm)"]}}, "rm x", "deny"),
    ("cursor", {"permissions": {"deny": ["Shell(git:push*)"]}}, "git push origin", "deny"),
    ("cursor", {"permissions": {"deny": ["Read(.env*)"]}}, READ_ENV, "deny"),
    ("cursor", {"permissions": {"deny": ["Write(**/*.key)"]}}, {"kind": "create", "path": "a/b.key"}, "deny"),
    ("opencode", {"permission": {"bash": {"*": "ask", "git *": "allow"}}}, "ls", "ask"),
    ("opencode", {"permission": {"bash": {"*": "ask", "git *": "allow"}}}, "git status", "allow"),
    ("opencode", {"permission": {"bash": {"git *": "allow", "*": "ask"}}}, "git status", "ask"),
    ("opencode", {"permission": {"bash": {"rm *": "deny"}}}, "rm x", "deny"),
    ("opencode", {"permission": "ask"}, "ls", "ask"),
    (
        "opencode",
        {"permission": {"edit": {"*": "deny", "docs/*": "allow"}}},
        {"kind": "update", "path": "src/a"},
        "deny",
    ),
    ("opencode", {"permission": {"edit": {"docs/*.md": "deny"}}}, {"kind": "create", "path": "docs/a/b.md"}, "deny"),
    ("opencode", {"tools": {"bash": False}}, "ls", "deny"),
    ("opencode", {"agent": {"build": {"permission": {"bash": {"rm *": "deny"}}}}}, "rm x", "deny"),
    ("opencode", '{\n // mine\n "permission": {"bash": {"rm *": "deny",},}, /* end */\n}', "rm x", "deny"),
]


@pytest.mark.parametrize(("agent", "content", "action", "expected"), TIGHTENED, ids=lambda each: str(each)[:60])
def test_what_an_agent_denies_or_asks_stays_so(
    scene: Scene, agent: str, content: object, action: str | dict[str, Any], expected: str
) -> None:
    found = read(scene, agent, content)
    assert found.unreadable == ()
    assert decision(scene, found, agent, action, open_=True) == expected
    assert decision(scene, found, "another", action, open_=True) != "deny"


ALLOWED: list[tuple[str, object, str | dict[str, Any], str]] = [
    ("claude-code", claude(allow=["Bash(npm run test:*)"]), "npm run test -- -x", "allow"),
    ("claude-code", claude(allow=["Bash(npm run test:*)"]), "npm run testing", "ask"),
    ("claude-code", claude(allow=["Bash(npm run test:*)"]), "npm run test && rm x", "ask"),
    ("claude-code", claude(allow=["Bash(find:*)"]), "find . -name x", "allow"),
    ("claude-code", claude(allow=["Bash(find:*)"]), "find . -delete", "ask"),
    ("claude-code", claude(allow=["Bash(npm run test:*)"]), "npm run test $(rm x)", "ask"),
    ("claude-code", claude(allow=["Bash(npm run test:*)"]), "npm run test > /etc/x", "ask"),
    ("claude-code", claude(allow=["Bash(npm run test)"]), "npm run test -- -x", "ask"),
    ("claude-code", claude(allow=["Bash(npm run test*)"]), "npm run test", "allow"),
    ("claude-code", claude(allow=["Bash(npm run test*)"]), "npm run test:unit", "ask"),
    ("claude-code", claude(allow=["Bash(git * main)"]), "git checkout main", "ask"),
    ("claude-code", claude(allow=["Bash"]), "ls", "ask"),
    ("claude-code", claude(allow=["Bash(git:*)"], ask=["Bash(git push:*)"]), "git push", "ask"),
    ("claude-code", claude(allow=["Edit(src/**)"]), {"kind": "update", "path": "src/a"}, "allow"),
    ("claude-code", claude(allow=["Edit(src/**)"]), {"kind": "delete", "path": "src/a"}, "ask"),
    ("claude-code", claude(allow=["Read(~/notes/**)"]), {"kind": "read", "path": "~/notes/a"}, "allow"),
    ("claude-code", claude(allow=["WebFetch(domain:x.org)"]), {"kind": "url", "url": "https://x.org/"}, "allow"),
    ("claude-code", claude(allow=["WebFetch(domain:*.x.org)"]), {"kind": "url", "url": "https://a.x.org/"}, "ask"),
    ("claude-code", claude(allow=["mcp__db__get"]), {"kind": "call", "server": "db", "tool": "get"}, "allow"),
    ("codex", 'prefix_rule(pattern=["git", "status"])', "git status -s", "allow"),
    ("codex", 'prefix_rule(pattern=["git", "status"])', "git push", "ask"),
    ("gemini", {"tools": {"allowed": ["run_shell_command(git status)"]}}, "git status", "allow"),
    ("cursor", {"permissions": {"allow": ["Shell(ls)"]}}, "ls -la", "allow"),
    ("cursor", {"permissions": {"allow": ["Shell(npm:install*)"]}}, "npm install x", "ask"),
    ("opencode", {"permission": {"bash": {"ls *": "allow"}}}, "ls -la", "allow"),
    ("opencode", {"permission": {"bash": {"*": "allow"}}}, "ls -la", "ask"),
]


@pytest.mark.parametrize(("agent", "content", "action", "expected"), ALLOWED, ids=lambda each: str(each)[:60])
def test_an_allow_is_carried_over_at_most_as_wide(
    scene: Scene, agent: str, content: object, action: str | dict[str, Any], expected: str
) -> None:
    found = read(scene, agent, content)
    assert decision(scene, found, agent, action, open_=False) == expected
    assert decision(scene, found, "another", action, open_=False) == "ask"


def test_what_a_project_brings_along_allows_nothing_and_still_denies(scene: Scene) -> None:
    content = claude(allow=["Bash(ls:*)"], deny=["Bash(rm:*)"])
    found = read(scene, "claude-code", content, "ws/.claude/settings.json")
    assert found.allow == ()
    assert [each.text for each in found.lost] == ["Bash(ls:*)"]
    assert decision(scene, found, "claude-code", "rm x", open_=True) == "deny"


def test_what_the_user_allows_in_one_project_holds_in_that_project(scene: Scene) -> None:
    content = claude(allow=["Bash(ls:*)", "Edit(src/**)", "mcp__db"])
    found = read(scene, "claude-code", content, "ws/.claude/settings.local.json")
    assert [each["allow"].get("within", each["allow"].get("path")) for each in found.allow] == [
        str(scene.root),
        [f"{scene.root}/src/**"],
    ]
    assert [each.text for each in found.lost] == ["mcp__db"]


def test_a_rule_of_a_higher_priority_is_an_exception_to_one_of_a_lower(scene: Scene) -> None:
    policies = (
        '[[rule]]\ntoolName = "run_shell_command"\ndecision = "deny"\npriority = 10\n'
        '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = ["git status", "ls"]\n'
        'decision = "allow"\npriority = 20\n'
        '[[rule]]\ntoolName = "run_shell_command"\ncommandRegex = "rm .*"\ndecision = "ask_user"\npriority = 30\n'
    )
    found = read(scene, "gemini", policies, "home/.gemini/policies/mine.toml")
    answers = {line: decision(scene, found, "gemini", line, open_=True) for line in ("git status", "make", "ls -l")}
    assert answers == {"git status": "allow", "make": "deny", "ls -l": "allow"}


UNREADABLE: list[tuple[str, object]] = [
    ("claude-code", "{"),
    ("claude-code", '{"permissions": {"deny": []}, "permissions": {}}'),
    ("claude-code", "[]"),
    ("claude-code", {"permissions": []}),
    ("claude-code", {"permissions": {"deny": "Bash"}}),
    ("claude-code", {"permissions": {"deny": [1]}}),
    ("claude-code", "[" * 100_000),
    ("claude-code", " " * (2 << 20)),
    ("codex", "x = 1"),
    ("codex", 'for x in []:\n  prefix_rule(pattern=["a"])'),
    ("codex", 'prefix_rule(pattern=["a" + "b"])'),
    ("codex", 'prefix_rule(pattern=["a"], decision="maybe")'),
    ("codex", 'prefix_rule(pattern=["a"'),
    ("opencode", {"permission": {"bash": {"ls": "perhaps"}}}),
    ("gemini", {"tools": {"exclude": "rm"}}),
]


@pytest.mark.parametrize(("agent", "content"), UNREADABLE, ids=lambda each: str(each)[:40])
def test_settings_that_cannot_be_read_are_named_and_allow_nothing(scene: Scene, agent: str, content: object) -> None:
    found = read(scene, agent, content)
    assert len(found.unreadable) == 1
    assert found.unreadable[0].startswith(str(scene.root.parent / SETTINGS[agent]))
    assert found.allow == ()


def test_what_stands_before_an_error_still_denies_but_allows_nothing(scene: Scene) -> None:
    found = read(
        scene, "codex", 'prefix_rule(pattern=["rm"], decision="forbidden")\nprefix_rule(pattern=["ls"])\nx = 1\n'
    )
    assert (len(found.deny), found.allow, len(found.unreadable)) == (1, (), 1)


def test_odd_files_in_the_place_of_settings_are_unreadable(scene: Scene) -> None:
    place = scene.home / ".claude/settings.json"
    place.parent.mkdir()
    os.mkfifo(place)
    assert read_permissions("claude-code", str(scene.home), str(scene.root)).unreadable
    place.unlink()
    place.symlink_to(place)
    assert read_permissions("claude-code", str(scene.home), str(scene.root)).unreadable
    place.unlink()
    place.symlink_to(scene.home / "dotfiles.json")
    (scene.home / "dotfiles.json").write_text(json.dumps(claude(deny=["Bash(rm:*)"])))
    assert len(read_permissions("claude-code", str(scene.home), str(scene.root)).deny) == 1


@pytest.mark.parametrize("agent", READABLE)
def test_without_any_settings_there_is_nothing(scene: Scene, agent: str) -> None:
    assert read_permissions(agent, str(scene.home), str(scene.root)) == AgentPermissions()


PIECES = st.sampled_from(
    [
        *"*?[]()/~. :|>&;$'\\\"!#",
        "**",
        "..",
        "//",
        "git",
        "push",
        "--force",
        "-rf",
        "a",
        "é",
        "domain:",
        "x.org",
        ":*",
        "\x00",
        "\u202e",
    ]
)
TOOLS = st.sampled_from(
    ["Bash", "Read", "Edit", "WebFetch", "mcp__a__", "mcp__", "Shell", "Write", "Mcp", "run_shell_command", "x"]
)


@given(
    agent=st.sampled_from(["claude-code", "gemini", "cursor", "opencode"]),
    tool=TOOLS,
    pieces=st.lists(PIECES, max_size=8),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_permission_says_its_rules_can_be_used(
    scene: Scene, agent: str, tool: str, pieces: list[str]
) -> None:
    text = "".join(pieces)
    rule = f"{tool}({text})"
    content = {
        "claude-code": claude(allow=[rule], deny=[rule], ask=[rule]),
        "gemini": {"tools": {"allowed": [rule], "exclude": [rule]}},
        "cursor": {"permissions": {"allow": [rule], "deny": [rule]}},
        "opencode": {"permission": {name: {text: "deny", f"{text}x": "allow"} for name in ("bash", "edit", "read")}},
    }
    found = read(scene, agent, content[agent])
    assert decision(scene, found, agent, "ls", open_=False) in ("allow", "ask", "deny")


@given(words=st.lists(st.one_of(PIECES, st.lists(PIECES, min_size=1, max_size=9)), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_words_a_prefix_rule_has_its_rules_can_be_used(scene: Scene, words: list[Any]) -> None:
    rules = "".join(f"prefix_rule(pattern={json.dumps(words)}, decision={each!r})\n" for each in ("allow", "forbidden"))
    found = read(scene, "codex", rules.replace("\\u", "u"))
    assert decision(scene, found, "codex", "ls", open_=False) in ("allow", "ask", "deny")
