"""Odd settings: nothing of a deny or an ask goes by unseen, nothing odd allows, and the text is always usable."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import import_originals as originals
from byleave.policy.import_permissions import import_files
from byleave.policy.imported_text import ImportedPermissions
from import_originals import STRICTNESS
from scene import Scene

NAMES = {
    "claude-code": "settings.json",
    "codex": "x.rules",
    "gemini": "settings.json",
    "cursor": "cli-config.json",
    "opencode": "opencode.json",
    "agent-mcp-gateway": ".mcp-gateway-rules.json",
    "jp": "config.toml",
}
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def load(scene: Scene, agent: str, content: object, name: str | None = None) -> ImportedPermissions:
    file = scene.root.parent / (name or NAMES[agent])
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return import_files(agent, [str(file)], str(scene.root))


def decide(scene: Scene, found: ImportedPermissions, agent: str, action: str | dict[str, Any]) -> str:
    asked = {"kind": "command", "command": action} if isinstance(action, str) else action
    return str(scene.workspace.compile_tree(tomllib.loads(found.toml)).decide({**asked, "agent": agent}).decision)


def claude(**lists: Any) -> dict[str, Any]:
    return {"permissions": lists}


CALL = {"kind": "call", "server": "db", "tool": "drop"}
# Each was allowed, or passed over, before it was looked at.
HOLES: list[tuple[str, object, str | dict[str, Any], str]] = [
    ("claude-code", claude(allow=["Write(docs/**)"]), {"kind": "create", "path": "docs/a"}, "ask"),
    ("claude-code", claude(allow=["Write"]), {"kind": "update", "path": "docs/a"}, "ask"),
    ("claude-code", claude(allow=["WebFetch(domain:)"]), {"kind": "url", "url": "https://x.example/"}, "ask"),
    ("claude-code", claude(allow=["mcp__*"]), CALL, "ask"),
    ("claude-code", claude(allow=["mcp__d*__drop"]), CALL, "ask"),
    ("claude-code", claude(deny=["mcp__*drop*"]), CALL, "deny"),
    ("claude-code", claude(deny=["m*"]), CALL, "deny"),
    ("claude-code", claude(deny=["*"]), CALL, "deny"),
    ("claude-code", claude(deny=["WebSearch"]), {"kind": "other", "name": "WebSearch"}, "deny"),
    ("claude-code", claude(deny=["Read(.env)"]), {"kind": "update", "path": ".env"}, "deny"),
    ("claude-code", claude(deny=["Bash(FOO=1 rm x)"]), "FOO=1 rm x", "deny"),
    ("claude-code", claude(allow=["Bash(FOO=1 ls)"]), "FOO=1 ls", "ask"),
    ("claude-code", claude(allow=["Edit(!x)"]), {"kind": "update", "path": "!x"}, "ask"),
    ("claude-code", claude(deny=["Read([^b]x)"]), {"kind": "read", "path": "ax"}, "deny"),
    ("claude-code", {"deniedMcpServers": [{"serverName": "db"}]}, CALL, "deny"),
    (
        "claude-code",
        {"sandbox": {"filesystem": {"denyRead": ["/srv/x"]}}},
        {"kind": "read", "path": "/srv/x/a"},
        "deny",
    ),
    (
        "codex",
        'network_rule(host="x.example", protocol="https", decision="deny")',
        {"kind": "url", "url": "https://x.example/"},
        "deny",
    ),
    (
        "codex",
        'host_executable(name="git", paths=["/x/git"])\nprefix_rule(pattern=["git"])',
        "/usr/bin/git status",
        "ask",
    ),
    ("gemini", {"tools": {"allowed": ["run_shell_command(git *)"]}}, "git push", "deny"),
    ("gemini", {"tools": {"allowed": ["run_shell_command(git)"]}}, "make", "deny"),
    (
        "gemini",
        {"tools": {"confirmationRequired": ["web_fetch"], "allowed": ["web_fetch"]}},
        {"kind": "url", "url": "https://x.example/"},
        "ask",
    ),
    ("gemini", {"tools": {"core": []}}, {"kind": "read", "path": "a"}, "deny"),
    ("gemini", {"tools": {"core": ["read_file"]}}, CALL, "deny"),
    ("gemini", {"tools": {"allowed": ["write_file"]}}, {"kind": "create", "path": "a/package.json"}, "ask"),
    ("gemini", {"mcp": {"excluded": ["db"]}}, CALL, "deny"),
    ("gemini", {"mcp": {"allowed": ["wiki"]}}, CALL, "deny"),
    ("gemini", {"tools": {"exclude": ["mcp_db_drop"]}}, CALL, "deny"),
    (
        "cursor",
        {"permissions": {"allow": ["Write(package.json)"]}},
        {"kind": "create", "path": "a/package.json"},
        "ask",
    ),
    ("cursor", {"permissions": {"deny": ["Write({a,b}/**)"]}}, {"kind": "create", "path": "a/x"}, "deny"),
    ("cursor", {"permissions": {"deny": ["Shell(r?)"]}}, "rm x", "deny"),
    (
        "opencode",
        {"permission": {"webfetch": {"https://x.example/*": "allow"}}},
        {"kind": "url", "url": "https://y.example/"},
        "ask",
    ),
    ("opencode", {"permission": {"bash": {"rm ?": "deny"}}}, "rm x", "deny"),
    ("opencode", {"permission": {"db_*": "deny"}}, CALL, "deny"),
    ("opencode", {"permission": "deny"}, CALL, "deny"),
    ("opencode", {"permission": {"external_directory": "deny"}}, {"kind": "read", "path": "/etc/hosts"}, "deny"),
    ("opencode", {"permission": {"edit": {"a*b*c": "deny"}}}, {"kind": "update", "path": "ax/b/yc"}, "deny"),
    ("opencode", {"agent": {"x": {"tools": {"bash": False}}}}, "ls", "deny"),
    ("opencode", {"permission": {"web*": "deny"}}, {"kind": "url", "url": "https://x.example/"}, "deny"),
]


@pytest.mark.parametrize(("agent", "content", "action", "expected"), HOLES, ids=lambda each: str(each)[:70])
def test_a_hole_stays_closed(
    scene: Scene, agent: str, content: object, action: str | dict[str, Any], expected: str
) -> None:
    found = load(scene, agent, content)
    assert found.unreadable == ()
    assert decide(scene, found, agent, action) == expected


def test_of_rules_with_one_priority_the_first_counts(scene: Scene) -> None:
    rule = '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "ls"\npriority = 5\ndecision = '
    found = load(scene, "gemini", f'{rule}"deny"\n{rule}"allow"\n', "p.toml")
    assert decide(scene, found, "gemini", "ls") == "deny"


def test_the_machines_own_settings_may_void_what_the_user_allows(scene: Scene) -> None:
    from byleave.policy.agent_permissions import permissions_of
    from byleave.policy.agent_settings import MANAGED, USER, SettingsSource

    mine, machine = scene.home / "settings.json", scene.managed / "settings.json"
    mine.write_text(json.dumps(claude(allow=["Bash(ls:*)"], deny=["Bash(rm:*)"])))
    machine.write_text('{"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash(pwd)"]}}')
    sources = [SettingsSource(USER, str(mine)), SettingsSource(MANAGED, str(machine))]
    found = permissions_of("claude-code", sources, str(scene.root))
    assert [rule["allow"]["command"] for rule in found.allow] == ["pwd"]
    assert len(found.deny) == 1


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [({}, "deny"), ({"deny_on_missing_agent": True}, "deny"), ({"deny_on_missing_agent": False}, "allow")],
)
def test_a_call_without_a_name_gets_the_default_agent_only_where_the_gateway_gives_it(
    scene: Scene, defaults: dict[str, bool], expected: str
) -> None:
    agents = {"default": {"allow": {"servers": ["*"]}}, "other": {}}
    found = load(scene, "agent-mcp-gateway", {"agents": agents, "defaults": defaults})
    policy = scene.workspace.compile_tree(tomllib.loads(found.toml))
    assert str(policy.decide({"kind": "call", "server": "db", "tool": "get"}).decision) == expected


REFUSED: list[tuple[str, object]] = [
    ("claude-code", claude(deny=["Bash(rm:*)", 1])),
    ("claude-code", claude(ask={"Bash": True})),
    ("claude-code", '{"permissions": {"deny": []}, "permissions": {"deny": ["Bash"]}}'),
    ("claude-code", {"sandbox": {"filesystem": {"denyRead": "x"}}}),
    ("claude-code", b'{"permissions": {"deny": ["\xff"]}}'),
    ("claude-code", "[" * 100_000),
    ("claude-code", b" " * (10 << 20)),
    ("codex", 'if True:\n    prefix_rule(pattern=["rm"], decision="forbidden")\n'),
    ("codex", 'prefix_rule(pattern=[], decision="forbidden")'),
    ("codex", 'network_rule(host=["x"], protocol="https", decision="deny")'),
    ("gemini", {"tools": {"exclude": {"rm": True}}}),
    ("gemini", {"mcp": {"excluded": "db"}}),
    ("cursor", {"permissions": {"deny": [None]}}),
    ("opencode", {"permission": {"bash": {"rm *": "denied"}}}),
    ("opencode", {"permission": ["bash"]}),
    ("agent-mcp-gateway", {"agents": {"a": {"deny": {"servers": "db"}}}}),
    ("agent-mcp-gateway", {"agents": {"a": {"deny": {"resources": ["x"]}}}}),
    ("agent-mcp-gateway", {"agents": {"a": []}}),
    ("agent-mcp-gateway", {"agents": {}, "defaults": {"deny_on_missing_agent": "no"}}),
    ("agent-mcp-gateway", '{"agents": {"a": {}, "a": {"allow": {"servers": ["*"]}}}}'),
    ("agent-mcp-gateway", "// no comments here\n{}"),
    ("jp", "[conversation.tools.x\n"),
    ("jp", '[conversation.tools.x]\nsource = "local"\naccess.fs = "x"\n'),
    ("jp", '[conversation.tools.x]\nsource = "local"\n[conversation.tools.x.access.disk]\na = 1\n'),
    ("jp", "[[conversation.tools.x.access.fs]]\nread = true\n"),
]


@pytest.mark.parametrize(("agent", "content"), REFUSED, ids=lambda each: str(each)[:50])
def test_a_file_that_cannot_be_read_in_one_way_is_refused(scene: Scene, agent: str, content: object) -> None:
    found = load(scene, agent, content)
    assert len(found.unreadable) == 1
    assert str(scene.root.parent / NAMES[agent]) in found.unreadable[0]
    assert "allow" not in found.toml


def test_a_mark_at_the_beginning_ends_of_lines_and_comments_change_nothing(scene: Scene) -> None:
    text = '{\n  // mine\n  "permissions": {\n    /* two\n    lines */\n    "deny": ["Bash(rm:*)", "Task"],\n  },\n}\n'
    plain = load(scene, "claude-code", text)
    odd = load(scene, "claude-code", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert plain == odd
    assert [each.source.rpartition(":")[2] for each in plain.lost] == ["6"]
    rules = 'prefix_rule(pattern=["rm"], decision="forbidden")\n'
    assert load(scene, "codex", rules) == load(scene, "codex", b"\xef\xbb\xbf" + rules.replace("\n", "\r\n").encode())


def test_a_link_is_followed_and_a_directory_or_pipe_is_refused(scene: Scene) -> None:
    (scene.home / "real.json").write_text(json.dumps(claude(deny=["Bash(rm:*)"])))
    link = scene.home / "link.json"
    link.symlink_to("real.json")
    assert import_files("claude-code", [str(link)], str(scene.root)).carried == 1
    os.mkfifo(scene.home / "pipe.json")
    for name in ("pipe.json", "."):
        assert import_files("claude-code", [str(scene.home / name)], str(scene.root)).unreadable


@pytest.mark.long
def test_many_entries_are_read_in_a_moment_and_all_hold(scene: Scene) -> None:
    found = load(scene, "claude-code", claude(deny=[f"Bash(prog{number}:*)" for number in range(5_000)]))
    assert found.carried == 5_000
    permission = {"bash": {"*": "deny", **{f"prog{number} *": "allow" for number in range(2_000)}}}
    found = load(scene, "opencode", {"permission": permission})
    assert decide(scene, found, "opencode", "prog1999 x") == "deny"  # too many exceptions: the rest is stricter


def test_control_and_bidi_characters_are_written_out(scene: Scene) -> None:
    found = load(scene, "claude-code", claude(deny=["Bash(rm \u202e\x1b[2J:*)"], allow=["Web\u202eSearch"]))
    assert found.toml.isprintable() or all(char.isprintable() or char == "\n" for char in found.toml)
    tomllib.loads(found.toml)


PIECES = ["git", "push", "rm", "-x", "*", " *", ":*", "a", "?", "x=1 ", "ls", " "]
PATTERN = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(lambda found: " ".join(found).strip() or "a")
COMMAND = st.lists(st.sampled_from(["git", "push", "rm", "-x", "a", "ls", "b"]), min_size=1, max_size=4).map(" ".join)
LINE = st.lists(COMMAND, min_size=1, max_size=2).map(" && ".join)
RULES = st.lists(PATTERN, max_size=3)


@given(deny=RULES, ask=RULES, allow=RULES, lines=st.lists(LINE, min_size=1, max_size=6))
@QUICK
def test_no_list_of_claude_code_becomes_looser(
    scene: Scene, deny: list[str], ask: list[str], allow: list[str], lines: list[str]
) -> None:
    lists = {
        word: [f"Bash({each})" for each in rules] for word, rules in (("deny", deny), ("ask", ask), ("allow", allow))
    }
    policy = scene.workspace.compile_tree(tomllib.loads(load(scene, "claude-code", claude(**lists)).toml))
    for line in lines:
        action = {"kind": "command", "command": line, "agent": "claude-code"}
        says = originals.claude(lists, action, str(scene.root), str(scene.home))
        assert STRICTNESS[str(policy.decide(action).decision)] >= STRICTNESS[says], (line, says)


@given(
    patterns=st.lists(st.tuples(PATTERN, st.sampled_from(["allow", "ask", "deny"])), max_size=5),
    lines=st.lists(LINE, min_size=1, max_size=6),
)
@QUICK
def test_no_order_of_opencode_becomes_looser(scene: Scene, patterns: list[tuple[str, str]], lines: list[str]) -> None:
    permission = {"bash": dict(patterns)}
    policy = scene.workspace.compile_tree(tomllib.loads(load(scene, "opencode", {"permission": permission}).toml))
    for line in lines:
        action = {"kind": "command", "command": line, "agent": "opencode"}
        says = originals.opencode(permission, action, {})
        assert STRICTNESS[str(policy.decide(action).decision)] >= STRICTNESS[says], (line, says)


NAME = st.sampled_from(["a", "b", "*", "a*", "a?", "[a]", "[", "ab"])
NAMED = st.lists(NAME, max_size=3)
SIDE = st.fixed_dictionaries({}, optional={"servers": NAMED, "tools": st.dictionaries(NAME, NAMED, max_size=2)})
AGENT = st.fixed_dictionaries({}, optional={"allow": SIDE, "deny": SIDE})


@given(agents=st.dictionaries(NAME, AGENT, min_size=1, max_size=2), missing=st.booleans())
@QUICK
def test_no_rules_of_the_gateway_become_looser(scene: Scene, agents: dict[str, Any], missing: bool) -> None:  # noqa: FBT001 -- of Hypothesis
    rules = {"agents": agents, "defaults": {"deny_on_missing_agent": missing}}
    policy = scene.workspace.compile_tree(tomllib.loads(load(scene, "agent-mcp-gateway", rules).toml))
    for agent in ("a", "ab", "b", *agents):
        for server in ("a", "ab", "b", "[a]"):
            for tool in ("a", "ab", "b", "a?"):
                action = {"kind": "call", "agent": agent, "server": server, "tool": tool}
                says = originals.gateway(rules, agent, server, tool)
                assert STRICTNESS[str(policy.decide(action).decision)] >= STRICTNESS[says], (action, says)
