"""What single tools do otherwise than others: patterns for names, types of files, prompts that are fetched."""

from typing import Any

import pytest

from byleave.core.action import action_tree
from byleave.translate.call import FETCHES_PROMPT, KNOWS_TYPES, ToolCall, Where
from byleave.translate.name_patterns import beginning, may_lead_out
from byleave.translate.translate import translate

HERE = Where("/ws", "/ws", frozenset({"/ws", "/ws/src", "/ws/src/[a].py"}).__contains__)


def found_in(kind: str | None, raw: Any, *ways: str, tool: str | None = None) -> tuple[list[dict[str, Any]], str]:
    """Return what a call amounts to, and what is doubtful about it."""
    found = translate(ToolCall(kind=kind, raw=raw, tool=tool, ways=frozenset(ways)), HERE)
    return [action_tree(action) for action in found.actions], found.problem


STAYS = ["*.py", "**/*.{ts,py}", "src/{a,b}/*", "a,b", "a b", "\\*.py", "\\.env", "{a,b}{c,d}", "..a/*", "a../b", ""]
LEADS = [
    "{..,a}/*",
    "{/etc,a}/*",
    ".{.,a}/*",
    "*/../a",
    "\\.\\./a",
    "..\\a",
    "a, ../b",
    "a /etc/b",
    "/etc/* /home/*",
    "/etc/* /e/*",
    "{a..b}",
    "{a",
    "{}" * 3000,
    "~/a ~/b",
]


@pytest.mark.parametrize("pattern", STAYS)
def test_a_pattern_that_stays_below_is_no_doubt(pattern: str) -> None:
    assert not may_lead_out(pattern, surely_names=True)
    assert beginning(pattern) is None


@pytest.mark.parametrize("pattern", LEADS)
def test_a_pattern_that_may_lead_out_is_a_doubt(pattern: str) -> None:
    assert may_lead_out(pattern, surely_names=True)


@pytest.mark.parametrize("text", ["if (x) {", "a{1,3}", "from ../a import b", "x, /api/y", "\\d+\\s*", "/api/v1"])
def test_code_that_is_looked_for_is_no_pattern_for_names(text: str) -> None:
    assert not may_lead_out(text, surely_names=False)


@pytest.mark.parametrize("text", ["function() { return '..' ", "{ /a", "{..,a}/b"])
def test_code_that_may_be_a_pattern_that_leads_out_is_a_doubt(text: str) -> None:
    assert may_lead_out(text, surely_names=False)


def test_a_pattern_begins_where_its_plain_names_end() -> None:
    assert beginning("/etc/ssh/*.conf") == ("/etc/ssh", "*.conf")
    assert beginning("/*") == ("", "*")
    assert beginning("~/a") == ("~/a", None)
    assert beginning("../a/*/b") == ("../a", "*/b")


def test_a_tool_that_reads_many_files_reads_what_its_patterns_match() -> None:
    def read(include: Any) -> tuple[list[dict[str, Any]], str]:
        return found_in("read", {"include": include}, tool="read_many_files")

    assert read(["src/*.py", "src/[a].py", "src"]) == (
        [
            {"kind": "read", "path": "src/[a].py"},
            {"kind": "read", "path": "src"},
            {"kind": "search", "path": "src/[a].py"},
            {"kind": "search", "path": "src"},
            {"kind": "search", "path": ".", "glob": "src/*.py"},
        ],
        "",
    )
    assert read("/etc/*.conf") == ([{"kind": "search", "path": "/etc", "glob": "*.conf"}], "")
    for pattern in ("!*.py", "a\\*", "{..,a}/*"):
        assert read([pattern])[1] == "a pattern may lead out of the directory that is searched"


def test_a_directory_is_listed_where_the_call_happens_if_none_is_named() -> None:
    assert found_in("read", {}, tool="list") == ([{"kind": "read", "path": "."}], "")
    assert found_in("read", {}, tool="read")[1] == "it does not say what it reads"
    assert found_in("read", None, tool="list")[1] == "it does not say what it reads"


def test_a_type_of_files_counts_where_the_tool_knows_it() -> None:
    def searched(raw: Any, *ways: str) -> list[Any]:
        return [action.get("glob") for action in found_in("search", {"pattern": "x", **raw}, *ways, tool="Grep")[0]]

    assert searched({"type": "py"}, KNOWS_TYPES) == ["*.{py,pyi}"]
    assert searched({"type": "py"}) == [None]
    assert searched({"type": "py", "glob": "*.md"}, KNOWS_TYPES) == ["*.md"]
    for odd in ({"type": "all"}, {"type": 5}, {"type": "py", "TYPE": "py"}, {5: "py"}):
        assert searched(odd, KNOWS_TYPES) == [None]


PROMPTS: list[tuple[Any, list[str], str]] = [
    ("see https://a.example/x and HTTP://b.example", ["https://a.example/x", "HTTP://b.example"], ""),
    ("see\ufeffhttps://a.example", ["https://a.example"], ""),
    ("(https://a.example/x).", ["https://a.example/x"], "a word of its prompt holds an address, and something else"),
    ("ftp://a.example", ["ftp://a.example"], "a word of its prompt holds an address, and something else"),
    ("https://a.example, not b.example!", ["https://a.example,"], "a word of its prompt may be an address"),
    ("https://a.example 10.0.0.1:80", ["https://a.example"], "a word of its prompt may be an address"),
    ("https://a.example e.g. this", ["https://a.example"], ""),
    (["https://a.example"], [], "it does not say what it fetches"),
]


@pytest.mark.parametrize(("prompt", "urls", "problem"), PROMPTS)
def test_what_a_prompt_names_is_fetched(prompt: Any, urls: list[str], problem: str) -> None:
    actions, doubt = found_in("fetch", {"Prompt": prompt, "prompt": None}, FETCHES_PROMPT)
    assert ([action["url"] for action in actions if action["kind"] == "url"], doubt) == (urls, problem)


def test_a_prompt_with_too_many_addresses_is_not_understood() -> None:
    actions, doubt = found_in("fetch", {"prompt": "https://a.example/x " * 1001}, FETCHES_PROMPT)
    assert (len(actions), doubt) == (1, "it names more than 1000 things")


def test_without_an_input_a_prompt_names_nothing() -> None:
    assert found_in("fetch", None, FETCHES_PROMPT)[1] == "it does not say what it fetches"


def test_half_of_the_name_of_a_servers_tool_is_a_doubt() -> None:
    for tool in ("mcp__a", "mcp__a__", "mcp____a", "mcp__bash"):
        assert found_in(None, {"command": "ls"}, tool=tool)[1] == "its name is half of the name of a server's tool"


def test_a_command_that_leaves_the_agents_own_sandbox_is_a_doubt() -> None:
    for name, value in (("dangerouslyDisableSandbox", True), ("sandbox_permissions", "require_escalated")):
        assert "own sandbox" in found_in("execute", {"command": "ls", name: value})[1]
    for name, value in (("dangerouslyDisableSandbox", False), ("sandbox_permissions", "use_default")):
        assert found_in("execute", {"command": "ls", name: value})[1] == ""


@pytest.mark.parametrize(("name", "clear"), [("a", True), ("$X", False), ("a'b'", False), ("`a`", False)])
def test_a_patch_in_a_command_names_files_that_no_shell_changes(*, name: str, clear: bool) -> None:
    text = f"apply_patch <<EOF\n*** Begin Patch\n*** Add File: {name}\n+$X\n*** End Patch\nEOF"
    problem = found_in("execute", {"command": text})[1]
    assert problem == ("" if clear else "its command holds a patch whose names a shell may read in another way")


@pytest.mark.parametrize(
    ("line", "clear"),
    [("+a\x0cb", True), ("+a\u2028b", True), ("+a\r*** Delete File: b", False), ("+a\x0c--- b", False)],
)
def test_odd_ends_of_lines_hide_no_header(*, line: str, clear: bool) -> None:
    text = f"*** Begin Patch\n*** Add File: a\n{line}\n*** End Patch"
    assert (found_in("edit", {"patch": text})[1] == "") is clear


ODD_INPUTS = [
    ("fetch", {"url": "https://example.com", "method": 5}, "is no text"),
    ("search", {"query": 5}, "is no text"),
    ("read", {"file_path": "a", "paths": [{"command": "x"}]}, "holds more than is understood"),
    ("execute", {"command": "ls", "args": [{"command": "x"}]}, "holds more than is understood"),
    ("move", {"source": [{"command": "x"}], "destination": "b"}, "holds more than is understood"),
    ("read", ["a"], "its input is no object"),
]


@pytest.mark.parametrize(("kind", "raw", "said"), ODD_INPUTS)
def test_an_input_of_an_odd_form_is_doubtful(kind: str, raw: Any, said: str) -> None:
    _, problem = found_in(kind, raw)
    assert said in problem
