"""Inputs of agents' tools that would reach further than the policy lets them, and some that need no question."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hooks.hook_scene import HookScene, claude, cline, copilot, gemini, opencode, qwen

RULES = """
[[rules]]
allow = { command = "touch" }

[[rules]]
allow = { command = "apply_patch" }

[[rules]]
deny = { url = { host = "evil.example" } }

[[rules]]
allow = { url = { host = "good.example" } }

[[rules]]
deny = { path = "**/.env" }

[[rules]]
allow = { path = "**" }

[[rules]]
allow = { call = { server = "github", tool = "get_*" } }

[[rules]]
allow = { operation = "other" }
"""
EVENTS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "claude-code": claude,
    "codex": claude,
    "gemini": gemini,
    "opencode": opencode,
    "copilot": copilot,
    "qwen": qwen,
    "cline": cline,
}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HookScene:
    made = HookScene.build(tmp_path, RULES)
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(made.root)  # where Codex starts its hooks
    return made


def answer(scene: HookScene, agent: str, tool: str, given: Mapping[str, Any]) -> str:
    """Return the decision that the agent gets; an agent that is told nothing goes on."""
    text = scene.says(agent, EVENTS[agent](tool, given, scene.root))
    tree: dict[str, Any] = json.loads(text) if text else {}
    said = tree.get("hookSpecificOutput", tree)
    if said.get("cancel"):
        return "deny"
    return str(said.get("permissionDecision") or said.get("decision") or "allow")


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.mark.parametrize(
    "pattern",
    [
        "{../beside,docs}/*.py",
        "{..,docs}/beside/*.py",
        ".{.,x}/beside/*.py",
        "{.,x}./beside/*.py",
        "docs/{a,..}/../beside/*.py",
        "\\.\\./beside/*.py",
        "..\\beside\\*.py",
        "\\/etc/*.py",
        "*.py, ../beside/*.py",
        "*.py /etc/*.py",
        "*.py,/etc/*.py",
        "{*.py, /etc/*.py}",
        "docs/../../beside/*.py",
        "/etc/*.py",
        "~/*.py",
        "{1..3}/../x",
    ],
)
@pytest.mark.parametrize(("agent", "tool"), [("gemini", "glob"), ("claude-code", "Glob")])
def test_a_pattern_that_leads_out_of_the_workspace_is_not_allowed(
    agent: str, tool: str, pattern: str, scene: HookScene
) -> None:
    assert answer(scene, agent, tool, {"pattern": pattern}) in ("ask", "deny")


@pytest.mark.parametrize(
    "pattern", ["*.py", "**/*.{ts,tsx}", "src/{a,b}/*.py", "src/**/{x,y}.py", "[ab]*.py", "a b.py"]
)
def test_a_pattern_that_stays_below_is_allowed(pattern: str, scene: HookScene) -> None:
    assert answer(scene, "claude-code", "Glob", {"pattern": pattern}) == "allow"
    assert answer(scene, "claude-code", "Grep", {"pattern": "x{1,3}/../y", "glob": pattern}) == "allow"


@pytest.mark.parametrize(
    "name", ["mcp__x", "mcp__x__", "mcp____x", "mcp__bash", "mcp__", "mcp____", "MCP__github__get_x"]
)
@pytest.mark.parametrize("given", [{}, {"command": "touch a"}, {"path": "src/old.txt"}])
def test_half_of_the_name_of_a_servers_tool_is_no_tool_that_is_known(
    name: str, given: Mapping[str, Any], scene: HookScene
) -> None:
    assert answer(scene, "claude-code", name, given) == "ask"


@pytest.mark.parametrize("agent", EVENTS)
def test_a_tool_is_a_servers_by_its_name_only_where_the_agent_names_them_so(agent: str, scene: HookScene) -> None:
    known = agent in ("claude-code", "codex", "qwen")
    assert (answer(scene, agent, "mcp__github__get_issue", {}) == "allow") is known


PROMPTS = {
    "sum up https://good.example/a": "allow",
    "https://good.example/a\nand https://good.example/b": "allow",
    "sum up https://evil.example/a": "deny",
    "https://good.example then\ufeffhttps://evil.example": "deny",
    "[see](https://evil.example/a)": "deny",
    "(HTTPS://EVIL.EXAMPLE/)": "deny",
    "[see](https://good.example/a)": "ask",
    "https://good.example and evil.example": "ask",
    "https://good.example and 10.0.0.1/x": "ask",
    "https://good.example and ftp://evil.example": "deny",
    "https://other.example": "ask",
    "nothing": "ask",
}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_what_geminis_prompt_names_is_fetched(prompt: str, scene: HookScene) -> None:
    assert answer(scene, "gemini", "web_fetch", {"prompt": prompt}) == PROMPTS[prompt]


def test_what_geminis_prompt_names_is_fetched_beside_an_address(scene: HookScene) -> None:
    for prompt, expected in (("https://evil.example", "deny"), ("short", "allow"), ([], "ask"), (["x"], "ask")):
        given = {"url": "https://good.example/", "prompt": prompt}
        assert answer(scene, "gemini", "web_fetch", given) == expected


def test_what_other_agents_ask_about_a_page_is_no_address(scene: HookScene) -> None:
    given = {"url": "https://good.example/", "prompt": "does it speak of https://evil.example?"}
    assert answer(scene, "claude-code", "WebFetch", given) == "allow"


UNHELD: list[tuple[str, str, dict[str, Any], bool]] = [
    ("claude-code", "Bash", {"dangerouslyDisableSandbox": True}, False),
    ("claude-code", "Bash", {"dangerouslyDisableSandbox": "false"}, False),
    ("claude-code", "Bash", {"dangerouslyDisableSandbox": False}, True),
    ("codex", "Bash", {"sandbox_permissions": "require_escalated"}, False),
    ("codex", "Bash", {"sandbox_permissions": "use_default"}, True),
    ("codex", "Bash", {"with_escalated_permissions": True}, False),
    ("gemini", "run_shell_command", {"additional_permissions": {"network": True}}, False),
    ("gemini", "run_shell_command", {"additional_permissions": {}}, True),
]


@pytest.mark.parametrize(("agent", "tool", "more", "allowed"), UNHELD)
def test_leaving_the_agents_own_sandbox_is_nothing_that_a_rule_allows(
    agent: str,
    tool: str,
    more: dict[str, Any],
    allowed: bool,  # noqa: FBT001
    scene: HookScene,
) -> None:
    assert (answer(scene, agent, tool, {"command": "touch a", **more}) == "allow") is allowed


@pytest.mark.parametrize("name", ["src/$X", "src/${X}", "src/$(x)", "src/`x`", 'src/"a"', "src/'a'", "src/a\\b"])
def test_a_patch_in_a_command_is_held_back_where_a_shell_may_read_its_names_otherwise(
    name: str, scene: HookScene
) -> None:
    for begin, end in (("<<EOF\n", "\nEOF"), ("<<'EOF'\n", "\nEOF")):
        command = f"apply_patch {begin}{patch(f'*** Add File: {name}', '+x')}{end}"
        assert answer(scene, "codex", "Bash", {"command": command}) == "deny"


def test_a_patch_in_a_command_with_plain_names_goes_on(scene: HookScene) -> None:
    command = f"apply_patch <<'EOF'\n{patch('*** Add File: src/a', '+$X')}\nEOF"
    assert answer(scene, "codex", "Bash", {"command": command}) == "allow"


TYPES: list[tuple[dict[str, Any], str]] = [
    ({"type": "py"}, "allow"),
    ({"type": "ts", "path": "src"}, "allow"),
    ({"type": "nothing"}, "ask"),
    ({"type": ["py"]}, "ask"),
    ({"type": "py", "Type": "all"}, "ask"),
    ({"type": "py", "glob": ".env*"}, "ask"),
    ({"type": "all", "glob": "*.py"}, "allow"),
    ({}, "ask"),
]


@pytest.mark.parametrize(("given", "expected"), TYPES)
def test_a_search_of_a_type_of_files_reads_no_others(given: dict[str, Any], expected: str, scene: HookScene) -> None:
    for place in ("", "src/"):
        (scene.root / f"{place}.env").write_text("X")
    assert answer(scene, "claude-code", "Grep", {"pattern": "x", **given}) == expected


def test_an_agent_that_knows_no_types_searches_all_files(scene: HookScene) -> None:
    (scene.root / ".env").write_text("X")
    assert answer(scene, "gemini", "grep_search", {"pattern": "x", "type": "py"}) == "ask"


CLINE: list[tuple[str, dict[str, Any], str]] = [
    ("run_commands", {"commands": ["touch a"]}, "allow"),
    ("run_commands", {"commands": ["touch a"], "command": "rm -rf x"}, "deny"),
    ("run_commands", {"commands": ["rm -rf x"], "command": "touch a"}, "deny"),
    ("fetch_web_content", {"requests": [{"url": "https://good.example/", "prompt": "https://evil.example"}]}, "allow"),
    ("fetch_web_content", {"requests": [{"url": "https://good.example/"}, {"url": "https://evil.example"}]}, "deny"),
    ("fetch_web_content", {"requests": [{"url": "https://good.example/", "proxy": "x"}]}, "deny"),
    ("fetch_web_content", {"requests": [{"url": "https://good.example/"}, "https://good.example/"]}, "deny"),
    ("fetch_web_content", {"requests": [{"url": "https://good.example/"}], "urls": ["https://evil.example"]}, "deny"),
    ("fetch_web_content", {"requests": []}, "deny"),
]


@pytest.mark.parametrize(("tool", "given", "expected"), CLINE)
def test_all_that_an_input_of_clines_names_counts(
    tool: str, given: dict[str, Any], expected: str, scene: HookScene
) -> None:
    assert answer(scene, "cline", tool, given) == expected


INCLUDED: list[tuple[Any, str]] = [
    (["src/*.py"], "allow"),
    (["src/**/*.py", "docs/*.md"], "allow"),
    (["src/old.txt"], "allow"),
    (["src/[a].py"], "allow"),
    (["src/.env"], "deny"),
    (["**/.env"], "deny"),
    (["src/*"], "ask"),
    (["src"], "ask"),
    ("**", "ask"),
    (["../beside/*.py"], "ask"),
    (["{..,src}/beside/*.py"], "ask"),
    (["..\\beside\\*.py"], "ask"),
    (["\\etc\\*.py"], "ask"),
    (["/etc/*.py"], "ask"),
    (["!*.py"], "ask"),
    ([5], "ask"),
]


@pytest.mark.parametrize(("include", "expected"), INCLUDED)
@pytest.mark.parametrize("agent", ["gemini", "qwen"])
def test_patterns_of_files_to_read_are_decided_by_what_they_match(
    agent: str, include: Any, expected: str, scene: HookScene
) -> None:
    (scene.root / "src" / ".env").write_text("X")
    told = {"gemini": expected, "qwen": "allow" if expected == "allow" else "deny"}  # Qwen Code is asked nothing
    assert answer(scene, agent, "read_many_files", {"include": include}) == told[agent]


def test_a_directory_is_listed_where_the_agent_works_if_none_is_named(scene: HookScene) -> None:
    assert answer(scene, "opencode", "list", {}) == "allow"
    assert answer(scene, "opencode", "list", {"path": 5}) == "deny"
    assert answer(scene, "opencode", "read", {}) == "deny"


def test_lines_that_end_oddly_are_part_of_what_a_patch_writes(scene: HookScene) -> None:
    for text, expected in (
        ("+a\x0cb\u2028c", "allow"),
        ("+a\x0c*** Delete File: src/old.txt", "deny"),
        ("+a\r*** Delete File: src/old.txt", "deny"),
        ("+a\n*** Add File: src/b\x0c.env", "deny"),
        ("+a\n*** Add File: src/b\u2028.env", "deny"),
    ):
        given = {"command": patch("*** Add File: src/a", text)}
        assert answer(scene, "codex", "apply_patch", given) == expected


def test_the_reason_names_what_cannot_be_read(scene: HookScene) -> None:
    for tool, given, reason in (
        ("Write", {"file_path": 7}, "rawInput.file_path is no path"),
        ("Bash", {"command": 7}, "rawInput.command is neither a text nor a list of texts"),
        ("MultiEdit", {"patch": "*** Begin Patch"}, "rawInput.patch is a patch that cannot be read"),
    ):
        assert reason in scene.says("claude-code", claude(tool, given, scene.root))


def test_a_search_in_several_directories_is_one_of_each(scene: HookScene) -> None:
    for name in ("target_directories", "search_dirs", "rootFolders"):
        for places, expected in ((["src"], "allow"), (["src", "/etc"], "ask"), (["../beside"], "ask")):
            assert answer(scene, "claude-code", "Grep", {"pattern": "x", "glob": "*.py", name: places}) == expected, (
                name
            )
