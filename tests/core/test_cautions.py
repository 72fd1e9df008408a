"""Which words a rule may leave open, and the rules that are proposed from several answers."""

import pytest

from byleave.core.cautions import can_destroy, may_stay_open
from byleave.core.suggest import suggest_below, suggest_call_rule, suggest_open_rule, suggest_url_rule
from byleave.core.url import BadUrl, parse_url
from byleave.shell.knowledge.command_facts import CommandFacts
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.shell.reader import read_command

OPEN = {
    "ls src": True,
    "cargo build": True,
    "npm test": True,
    "npm run": True,  # what the project names itself
    "npm run build": True,
    "npm exec": False,
    "rm": False,
    "git push --force": False,
    "sudo ls": False,
    "npm install": False,
    "curl https://h.example": False,
    "rsync": False,
    "sh": False,
    "python": False,
    "./tool.sh": False,
}


@pytest.mark.parametrize("line", OPEN)
def test_what_may_do_harm_is_named_word_by_word(line: str) -> None:
    assert may_stay_open(line.split()) is OPEN[line]


@pytest.mark.parametrize(("program", "can"), [("rm", True), ("/bin/rm", True), ("git", True), ("ls", False)])
def test_a_program_that_can_destroy_is_known_by_its_last_name(*, program: str, can: bool) -> None:
    assert can_destroy(program) is can


RULES: list[tuple[str, str | None]] = [
    ("ls", 'command = "ls"'),
    ("git log", 'command = "git", subcommand = "log", not = { group = "destructive" }'),
    ("jq -r .a", 'command = "jq", args = ["-r", ".a", "**"]'),
    ("rm", None),
    ("", None),
    ("jq **", None),
    ("jq \udcff", None),
    ("mysql --password=hunter2secret", None),
]


@pytest.mark.parametrize(("line", "named"), RULES)
def test_an_open_rule_names_the_words_that_stay_and_leaves_destroying_out(line: str, named: str | None) -> None:
    command = read_command("git log").commands[0] if line.startswith("git") else read_command("ls").commands[0]
    rule = suggest_open_rule(line.split(), CommandFacts(command, BUILT_IN))
    assert rule == (None if named is None else f"[[rules]]\nallow = {{ {named} }}")


BELOW: list[tuple[str, str, list[str], str | None]] = [
    ("src", "py", ["read"], '[[rules]]\nallow = { path = "src/**/*.py", ops = ["read"] }'),
    ("src", "", ["update"], '[[rules]]\nallow = { path = "src/**", ops = ["update"] }'),
    (
        "out",
        "",
        ["delete"],
        '# Caution: it deletes what may not come back.\n[[rules]]\nallow = { path = "out/**", ops = ["delete"] }',
    ),
    ("", "py", ["read"], None),
    ("a*", "py", ["read"], None),
    ("src", "p[y]", ["read"], None),
    ("\udcff", "py", ["read"], None),
    ("keys/ghp_0123456789abcdefghijABCDEFGHIJ012345", "", ["read"], None),
]


@pytest.mark.parametrize(("directory", "suffix", "kinds", "rule"), BELOW)
def test_a_rule_for_a_directory_says_neither_patterns_nor_secrets(
    directory: str, suffix: str, kinds: list[str], rule: str | None
) -> None:
    assert suggest_below(directory, suffix, kinds) == rule


@pytest.mark.parametrize(("server", "tool"), [("s*", None), ("s", "get_[a]"), ("s", "\udcff"), ("\ud800", None)])
def test_a_name_that_a_rule_would_read_as_a_pattern_is_not_suggested(server: str, tool: str | None) -> None:
    assert suggest_call_rule(server, tool) is None


@pytest.mark.parametrize(
    "url",
    ["https://u:p@h.example/a", "https://h.example/a//b", "https://h.example/a%2fb"],
)
def test_an_address_that_may_be_read_otherwise_is_not_suggested(url: str) -> None:
    target = parse_url(url)
    assert not isinstance(target, BadUrl)
    assert suggest_url_rule(target) is None
