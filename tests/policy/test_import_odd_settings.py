"""Permissions in odd spellings: a deny or an ask means at least what it says, and what is lost is named."""

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from byleave.policy.agent_permissions import AgentPermissions, LostPermission, permissions_of, read_permissions
from byleave.policy.agent_settings import MANAGED, USER, SettingsSource, settings_sources
from byleave.policy.import_permissions import import_files, import_permissions
from byleave.policy.imported_text import ImportedPermissions, lost_comments
from scene import Scene

Settings = dict[str, Any] | str
CALL = {"kind": "call", "server": "db", "tool": "drop"}
SEARCH = {"kind": "search", "path": ".", "query": "x"}
READ = {"kind": "read", "path": "a"}
FETCH = {"kind": "url", "url": "https://x.example/a"}
OTHER = {"kind": "other", "name": "frobnicate"}
EVERY_COMMAND = "its pattern cannot be matched: every command is meant"
EVERY_FILE = "its pattern cannot be matched: every file is meant"
NO_FIRST = "its first word has too many alternatives, or is empty: every command is meant"
MORE_COMMANDS = "its pattern cannot be matched: it is meant for more commands"
ANY_CHANGE = "a rule cannot name this tool: every change of files is meant"
EVERY_CALL = "its name cannot be matched: all calls are meant"
WITH_ITS_LIKE = "a rule cannot name this tool: every tool that is no more than its name is meant"
NOT_NAMED = "a rule cannot name this tool: it needs approval"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.build(tmp_path)


def claude(**lists: list[str]) -> dict[str, Any]:
    return {"permissions": lists}


def gemini(**lists: list[str]) -> dict[str, Any]:
    return {"tools": lists}


def opencode(**tools: Any) -> dict[str, Any]:
    return {"permission": tools}


def policy(text: str) -> str:
    return f"[[rule]]\n{text}\n"


def imported(scene: Scene, agent: str, content: Settings) -> ImportedPermissions:
    """Import a file of the user's; a text is TOML, but for Codex its rules."""
    name = "settings.json" if isinstance(content, dict) else "x.rules" if "prefix_rule(" in content else "x.toml"
    file = scene.root.parent / name
    file.write_text(json.dumps(content) if isinstance(content, dict) else content)
    return import_files(agent, [str(file)], str(scene.root))


def decision(scene: Scene, found: ImportedPermissions, agent: str, action: str | dict[str, Any]) -> str:
    """Decide by the rules that were carried, where everything else is allowed."""
    everything = [
        {"allow": {"any_command": True, "options": "any"}},
        {"allow": {"path": ["**", "/**"]}},
        {"allow": {"operation": ["fetch", "other", "search"]}},
        {"allow": {"call": {"server": "*"}}},
    ]
    asked = {"kind": "command", "command": action} if isinstance(action, str) else action
    rules = [*tomllib.loads(found.toml).get("rules", []), *everything]
    return scene.workspace.compile_tree({"rules": rules}).decide({**asked, "agent": agent}).decision.word


# The settings, what is asked, the answer, and why the rule is stricter than the settings; "" where it is not.
KEPT: list[tuple[str, Settings, str | dict[str, Any], str, str]] = [
    ("claude-code", claude(deny=["Grep"]), SEARCH, "deny", ""),
    ("claude-code", claude(deny=["Grep"]), READ, "allow", ""),
    ("claude-code", claude(deny=["Bash('')"]), "ls", "deny", "its words are not known: every command is"),
    ("claude-code", claude(deny=["Bash(* | sh)"]), "cat x | sh", "deny", "its first command is meant by itself: *"),
    ("claude-code", claude(deny=["Read(/)"]), READ, "deny", EVERY_FILE),
    ("codex", f"prefix_rule(pattern=[{list('abcdefghi') * 8}, 'x'], decision='forbidden')", "ls", "deny", NO_FIRST),
    ("codex", "prefix_rule(pattern=['', 'x'], decision='forbidden')", "ls", "deny", NO_FIRST),
    ("gemini", gemini(exclude=["mcp_*"]), CALL, "deny", ""),
    ("gemini", gemini(exclude=["*"]), "ls", "deny", ""),
    ("gemini", gemini(exclude=["*"]), CALL, "deny", ""),
    ("gemini", gemini(exclude=["glob"]), SEARCH, "deny", ""),
    ("gemini", gemini(exclude=["GrepTool"]), SEARCH, "deny", ""),
    ("gemini", gemini(exclude=["ReadFileTool"]), READ, "deny", ""),
    ("gemini", gemini(exclude=["EditTool"]), {"kind": "update", "path": "a"}, "deny", ANY_CHANGE),
    ("gemini", gemini(exclude=["mcp_db[_drop"]), CALL, "deny", EVERY_CALL),
    ("gemini", policy('commandRegex = "rm|mv"\ndecision = "deny"'), "ls", "deny", MORE_COMMANDS),
    ("gemini", policy('commandRegex = "git push"\ndecision = "deny"'), "git push origin", "deny", MORE_COMMANDS),
    ("gemini", policy('commandRegex = "git push"\ndecision = "deny"'), "git status", "allow", MORE_COMMANDS),
    ("gemini", policy('toolName = "google_web_search"\ndecision = "deny"'), OTHER, "deny", WITH_ITS_LIKE),
    ("gemini", policy('toolName = "glob"\ndecision = "deny"'), SEARCH, "deny", ""),
    ("gemini", {"allowMCPServers": ["wiki"]}, CALL, "deny", ""),
    ("gemini", {"mcpServers": {"db": {"includeTools": ["get", "put(x)"]}}}, CALL, "deny", ""),
    ("gemini", {"mcpServers": {"db": {"includeTools": ["get", "drop"]}}}, CALL, "allow", ""),
    ("cursor", claude(deny=["Shell(rm [x])"]), "ls", "deny", EVERY_COMMAND),
    ("cursor", claude(deny=["Read()"]), READ, "deny", ""),
    ("cursor", claude(deny=["Write(**)"]), {"kind": "create", "path": "a"}, "deny", ""),
    ("cursor", claude(deny=["*"]), CALL, "deny", ""),
    ("opencode", opencode(**{"*db*": "deny"}), CALL, "deny", EVERY_CALL),
    ("opencode", opencode(frobnicate="deny"), OTHER, "deny", WITH_ITS_LIKE),
    ("opencode", opencode(edit={"a*/b*/c*/d*/e*/f*/g*": "deny"}), {"kind": "update", "path": "x"}, "deny", EVERY_FILE),
    ("opencode", opencode(webfetch={"http://x.example/*": "deny"}), FETCH, "deny", "every address is meant"),
    ("opencode", {"tools": {"bash": True, "grep": False}}, SEARCH, "deny", ""),
    ("opencode", {"tools": {"bash": True, "grep": False}}, "ls", "allow", ""),
]


@pytest.mark.parametrize(("agent", "content", "action", "expected", "stricter"), KEPT, ids=lambda each: str(each)[:60])
def test_what_is_denied_in_an_odd_spelling_stays_denied(  # noqa: PLR0917 -- the columns of the table
    scene: Scene, agent: str, content: Settings, action: str | dict[str, Any], expected: str, stricter: str
) -> None:
    found = imported(scene, agent, content)
    assert found.unreadable == ()
    assert decision(scene, found, agent, action) == expected
    assert [each.why for each in found.lost] == ([stricter] if stricter else [])


# What allows nothing here, and why.
NOT_CARRIED: list[tuple[str, Settings, str]] = [
    ("gemini", {"allowedTools": ["ReadFileTool"]}, "it is an old name of the tool: it needs approval"),
    ("cursor", claude(allow=["Shell(rm [x])"]), "its pattern cannot be matched: it needs approval"),
    ("cursor", claude(allow=["Shell(git push)"]), "Cursor matches the first word of a command: it needs approval"),
    ("cursor", claude(allow=["Read()"]), NOT_NAMED),
    ("opencode", opencode(**{"*db*": "allow"}), "its name cannot be matched"),
    ("opencode", opencode(frobnicate="allow"), NOT_NAMED),
    (
        "opencode",
        opencode(webfetch={"http://x.example/*": "allow"}),
        "its addresses cannot be matched: it needs approval",
    ),
    ("codex", "prefix_rule(pattern=['', 'x'])", "it cannot be spelled as a rule: it needs approval"),
]


@pytest.mark.parametrize(("agent", "content", "why"), NOT_CARRIED, ids=lambda each: str(each)[:60])
def test_an_allow_that_no_rule_can_spell_is_lost_and_named(
    scene: Scene, agent: str, content: Settings, why: str
) -> None:
    found = imported(scene, agent, content)
    assert (found.carried, [each.why for each in found.lost]) == (0, [why])


# What byleave has no rule about, since it touches nothing, or is known to the agent alone.
LEFT: list[tuple[str, Settings, str, str]] = [
    (
        "claude-code",
        claude(deny=["Bash(run_in_background:true)"]),
        "Bash(run_in_background:true)",
        "byleave does not see this parameter of a call: Claude Code enforces it itself",
    ),
    (
        "gemini",
        gemini(exclude=["write_todos"]),
        "write_todos",
        "byleave leaves tools that touch nothing to Gemini CLI, which enforces it itself",
    ),
    (
        "opencode",
        opencode(task="deny"),
        "task(*)",
        "byleave leaves tools that touch nothing to opencode, which enforces it itself",
    ),
    (
        "gemini",
        {"general": {"defaultApprovalMode": "auto_edit"}},
        "general.defaultApprovalMode = auto_edit",
        "byleave needs your approval for what no rule allows",
    ),
    (
        "gemini",
        {"tools": {"autoAccept": True}},
        "tools.autoAccept = True",
        "byleave needs your approval for what no rule allows",
    ),
    (
        "gemini",
        '[[safety_checker]]\ntoolName = ["replace"]\n',
        "safety_checker.0 = ['replace']",
        "Gemini CLI runs a program of its own before the tool: it goes on doing so",
    ),
    (
        "cursor",
        {"approvalMode": "allowlist", "terminalAllowlist": [7], "mcpAllowlist": [7]},
        "approvalMode = allowlist",
        "byleave needs your approval for what no rule allows",
    ),
]


@pytest.mark.parametrize(("agent", "content", "text", "why"), LEFT, ids=lambda each: str(each)[:60])
def test_a_setting_that_no_rule_stands_for_is_named(
    scene: Scene, agent: str, content: Settings, text: str, why: str
) -> None:
    found = imported(scene, agent, content)
    assert (found.toml, [(each.text, each.why) for each in found.lost]) == ("", [(text, why)])


UNREADABLE: list[tuple[str, Settings, str]] = [
    ("codex", "prefix_rule(pattern=['a'], pattern=['b'])", "gives a name twice"),
    ("codex", "prefix_rule(pattern=['a\n'])", "holds a text without an end"),
    ("codex", "prefix_rule(pattern=['a", "holds a text without an end"),
    ("codex", "prefix_rule(pattern=['\\x41'])", "holds a text with an escape that byleave does not know"),
    ("codex", "prefix_rule(pattern=[[[['a']]]])", "holds more than plain calls of prefix_rule"),
    ("codex", "prefix_rule(pattern=words)", "holds more than plain calls of prefix_rule"),
    ("codex", "other_prefix_rule(pattern=['a'])", "holds more than plain calls of prefix_rule"),
    ("codex", '[[rules.prefix_rules]]\npattern = [{ any_of = [] }]\ndecision = "prompt"\n', "a plain pattern"),
    ("gemini", policy('priority = "high"\ndecision = "deny"'), "has a priority that is no number"),
    ("gemini", policy('decision = "maybe"'), 'has a decision that byleave does not know: "maybe"'),
]


@pytest.mark.parametrize(("agent", "content", "problem"), UNREADABLE, ids=lambda each: str(each)[:60])
def test_settings_that_byleave_cannot_read_say_why(scene: Scene, agent: str, content: Settings, problem: str) -> None:
    found = imported(scene, agent, content)
    assert len(found.unreadable) == 1
    assert found.unreadable[0].endswith(problem)


REQUIREMENTS = """
[permissions.mine.filesystem]
"/srv/open" = "read"
[permissions.mine.filesystem."/srv/data"]
"keys" = "none"
[permissions.mine.network.domains]
"good.example" = "allow"
"bad.example" = "deny"
[[rules.prefix_rules]]
pattern = [{ token = "git" }, { any_of = ["push", "fetch"] }]
decision = "prompt"
[[rules.prefix_rules]]
pattern = ["rm"]
decision = "forbidden"
"""
REQUIRED: list[tuple[str | dict[str, Any], str]] = [
    ({"kind": "read", "path": "/srv/open/a"}, "allow"),
    ({"kind": "read", "path": "/srv/data/a"}, "allow"),
    ({"kind": "read", "path": "/srv/data/keys/k"}, "deny"),
    ({"kind": "url", "url": "https://good.example/"}, "allow"),
    ({"kind": "url", "url": "https://bad.example/"}, "deny"),
    ("git fetch", "ask"),
    ("git status", "allow"),
    ("rm x", "deny"),
]


def test_what_the_machine_requires_of_codex_is_carried_whole(scene: Scene) -> None:
    found = imported(scene, "codex", REQUIREMENTS)
    assert found.lost == ()
    assert [(action, decision(scene, found, "codex", action)) for action, _ in REQUIRED] == REQUIRED


def test_a_whole_shell_beside_listed_commands_lets_the_others_be(scene: Scene) -> None:
    some = imported(scene, "gemini", gemini(allowed=["run_shell_command(git)"]))
    every = imported(scene, "gemini", gemini(allowed=["run_shell_command(git)", "run_shell_command"]))
    assert [decision(scene, each, "gemini", "make") for each in (some, every)] == ["deny", "allow"]


def test_servers_that_are_allowed_by_the_older_key_are_not_allowed_here(scene: Scene) -> None:
    texts = [imported(scene, "gemini", tree).toml for tree in ({"allowMCPServers": ["a"]}, {"mcp": {"allowed": ["a"]}})]
    assert ["allow = " in text for text in texts] == [False, True]


def test_a_list_of_the_machine_takes_the_place_of_what_the_user_allows_gemini(scene: Scene) -> None:
    mine, machine = scene.home / "settings.json", scene.managed / "settings.json"
    mine.write_text(json.dumps(gemini(allowed=["run_shell_command(make)"])))
    machine.write_text(json.dumps(gemini(allowed=["run_shell_command(git status)"])))
    sources = [SettingsSource(USER, str(mine)), SettingsSource(MANAGED, str(machine))]
    found = permissions_of("gemini", sources, str(scene.root))
    assert [rule["allow"]["command"] for rule in found.allow] == ["git"]


@pytest.mark.parametrize("agent", ["copilot", "no-such-agent"])
def test_an_agent_whose_settings_are_not_known_has_said_nothing(scene: Scene, agent: str) -> None:
    assert read_permissions(agent, str(scene.home), str(scene.root)) == AgentPermissions()


def test_without_a_home_directory_only_the_project_and_the_machine_have_settings(scene: Scene) -> None:
    places = [source.path for source in settings_sources("claude-code", "", str(scene.root))]
    assert [place for place in places if not place.startswith("/etc/")] == [
        f"{scene.root}/.claude/settings.json",
        f"{scene.root}/.claude/settings.local.json",
    ]


def test_a_directory_of_rules_that_cannot_be_listed_or_is_too_full_is_unreadable(scene: Scene) -> None:
    policies = scene.home / ".gemini/policies"
    policies.parent.mkdir()
    policies.symlink_to("policies")
    unreadable = [read_permissions("gemini", str(scene.home), str(scene.root)).unreadable]
    policies.unlink()
    policies.mkdir()
    for number in range(65):
        (policies / f"{number}.toml").write_text(policy('decision = "deny"'))
    unreadable.append(read_permissions("gemini", str(scene.home), str(scene.root)).unreadable)
    assert unreadable == [
        (f"{policies} cannot be read: Too many levels of symbolic links",),
        (f"{policies} is no plain file, or a directory with too many files",),
    ]


def test_settings_that_fail_while_they_are_read_are_unreadable(scene: Scene) -> None:
    file = scene.home / ".claude/settings.json"
    file.parent.mkdir()
    file.symlink_to("/proc/self/mem")  # a plain file, whose first bytes nobody can read
    found = read_permissions("claude-code", str(scene.home), str(scene.root))
    assert found.unreadable == (f"{file} cannot be read: Input/output error",)


def test_an_entry_of_a_file_that_cannot_be_searched_is_named_by_the_file_alone(scene: Scene) -> None:
    deep = "[" * 70 + "]" * 70
    file = scene.root.parent / "settings.json"
    file.write_text(f'{{"permissions": {{"allow": ["WebSearch"]}}, "x": {deep}}}')
    found = import_files("claude-code", [str(file)], str(scene.root))
    assert [(each.source, each.text) for each in found.lost] == [(str(file), "WebSearch")]


def test_a_personal_file_that_came_with_the_project_allows_nothing(scene: Scene) -> None:
    file = scene.root / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text(json.dumps(claude(allow=["Bash(make:*)"], deny=["Bash(rm:*)"])))
    found = import_permissions("claude-code", str(scene.home), str(scene.root))
    texts = [(found.carried, [each.why for each in found.lost])]  # without git nothing is known of where it is from
    subprocess.run(["git", "init", "-q", str(scene.root)], check=True)
    for added in ("byleave.toml", ".claude/settings.local.json"):
        (scene.root / added).touch()
        subprocess.run(["git", "-C", str(scene.root), "add", "-f", added], check=True)
        found = import_permissions("claude-code", str(scene.home), str(scene.root))
        texts.append((found.carried, [each.why for each in found.lost]))
    strange = (0, ["it may have come with the project: name the file to import it"])
    assert texts == [strange, (1, []), strange]


@pytest.mark.parametrize(
    ("agent", "mine", "theirs", "content", "why"),
    [
        (
            "agent-mcp-gateway",
            ".config/agent-mcp-gateway/.mcp-gateway-rules.json",
            ".mcp-gateway-rules.json",
            '{"agents": {"a": {"allow": {"servers": ["s"], "tools": {"s": ["t"]}}}}}',
            "byleave reads it where it is, once you trust it; name the file to import it",
        ),
        (
            "jp",
            ".config/jp/config.toml",
            ".jp/config.toml",
            '[conversation.tools.a]\nsource = "builtin"\n',
            "it came with the project: name the file to import it",
        ),
    ],
)
def test_what_lies_at_home_is_imported_and_what_came_with_the_project_is_named(  # noqa: PLR0917 -- one row each
    scene: Scene, agent: str, mine: str, theirs: str, content: str, why: str
) -> None:
    for file in (scene.home / mine, scene.root / theirs):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    found = import_permissions(agent, str(scene.home), str(scene.root))
    assert [(each.source, each.why) for each in found.lost] == [(str(scene.root / theirs), why)]
    assert found.carried > 0


RULES = """{
  "$schema": "x",
  "zone": "eu",
  "agents": {
    "a": {
      "note": "mine",
      "allow": {"servers": ["s"], "prompts": ["p"], "tools": {"s": ["t"]}}
    }
  },
  "defaults": {
    "deny_on_missing_agent": true,
    "log": "debug"
  },
  "colour": "blue"
}
"""


def test_what_the_gateways_rules_say_besides_is_lost_with_its_line(scene: Scene) -> None:
    file = scene.root.parent / ".mcp-gateway-rules.json"
    file.write_text(RULES)
    found = import_files("agent-mcp-gateway", [str(file)], str(scene.root))
    unknown, no_reach = "byleave does not know it", "it says nothing of what the agent may reach"
    assert [(each.source.rpartition(":")[2], each.text, each.why) for each in found.lost] == [
        ("7", "a allow prompts", unknown),
        ("6", "a note", no_reach),
        ("12", "defaults.log", "byleave does not know what it means"),
        ("3", "zone", "byleave does not know what it means"),
        ("14", "colour", "byleave does not know what it means"),
    ]


def test_the_gateways_files_that_are_missing_or_name_an_agent_twice_are_refused(scene: Scene) -> None:
    files = [str(scene.root.parent / name) for name in ("one.json", "two.json", "three.json")]
    for file in files[:2]:
        Path(file).write_text('{"agents": {"a": {}}}')
    found = import_files("agent-mcp-gateway", files, str(scene.root))
    assert (found.toml, found.unreadable) == (
        "",
        (f"{files[1]} names the agent a, which another file names as well", f"{files[2]} is not there"),
    )


def test_a_server_file_without_servers_is_imported_as_nothing_and_byleave_itself_is_left_out(scene: Scene) -> None:
    empty, own = (scene.root.parent / name for name in ("empty.json", "own.json"))
    empty.write_text('{"mcpServers": {}}')
    own.write_text('{"mcpServers": {"policy": {"command": "byleave", "args": ["mcp"]}}}')
    found = import_files("agent-mcp-gateway", [str(empty), str(own)], str(scene.root))
    assert (found.toml, found.carried) == ("", 0)
    assert [(each.source, each.why) for each in found.lost] == [
        (str(own), 'the server "policy" is left out: it is byleave itself, which would start itself without end')
    ]


def test_a_command_of_jp_in_an_unknown_form_is_lost(scene: Scene) -> None:
    file = scene.root.parent / "config.toml"
    file.write_text('[conversation.tools.x]\nsource = "local"\ncommand = { program = 7 }\n')
    found = import_files("jp", [str(file)], str(scene.root))
    assert tomllib.loads(found.toml)["tools"]["x"] == {"source": "local", "enable": True, "run": "ask"}
    assert [each.why for each in found.lost] == ["byleave runs neither a shell nor a template: write the command anew"]


def test_what_is_lost_becomes_comments_by_file_and_line() -> None:
    file = "/etc/a.json"
    lost = [
        LostPermission(f"{file}:3", "WebSearch", "it needs approval"),
        LostPermission(f"{file}:7", "Task\x1b", "it asks nothing"),
        LostPermission("/etc/b.json", "", "cannot be read"),
    ]
    assert list(lost_comments(lost)) == [
        f"#   {file}:",
        "#     3: WebSearch",
        "#       it needs approval",
        "#     7: Task\\x1b",
        "#       it asks nothing",
        "#   /etc/b.json",
        "#       cannot be read",
    ]
