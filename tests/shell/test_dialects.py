"""A command is read as the shell reads it that its agent uses; where nobody said which, as bash and sh both do."""

from pathlib import Path
from typing import Any

import pytest

from byleave.core.action import CommandAction, action_tree, parse_action
from byleave.policy.load import Workspace
from byleave.shell.reader import read_command
from byleave.shell.syntax.cursor import BASH, EITHER, POSIX, ZSH
from byleave.translate.call import ToolCall, Where
from byleave.translate.shell_text import shell_of_agent
from byleave.translate.translate import translate
from shell import oracle

OTHERWISE_IN_SH = [
    "git log &>/dev/null git push -f",
    "git log &>>/dev/null rm -rf src",
    "ls &> x rm",
    "cd src &>/dev/null; rm x",
    "echo $'\\'; git push -f; #'",
    "echo $'a\\\\'; rm x; #'",
    "[[ a || id ]]; ls",
    "[[ a && id ]]; ls",
    "[[ a > .git/hooks/pre-commit ]]; ls",
    "[[ b < a ]]",
    "[[ a =~ x|id ]]",
    "[[ -f a && $x ]]",
    "id=1; (( id ))",
    "x=1; ((x > 5))",
    "((a = 1))",
    "function git\n{ echo; }\ngit push -f",
]


@pytest.mark.parametrize("text", OTHERWISE_IN_SH)
def test_what_sh_takes_apart_otherwise_is_understood_only_where_the_shell_is_bash(text: str) -> None:
    understood = [read_command(text, dialect=dialect).understood for dialect in (BASH, EITHER, POSIX)]
    assert understood == [True, False, False]


def test_a_directory_that_only_bash_enters_is_not_understood_where_it_may_be_sh() -> None:
    readings = [read_command("time cd src; ls", dialect=dialect) for dialect in (BASH, EITHER)]
    assert [reading.understood for reading in readings] == [True, False]


ALIKE = [
    "ls &>/dev/null",
    "npm test &> log.txt; cat log.txt",
    "ls &>/dev/null && pwd",
    "[[ -f a ]] && ls",
    "[[ -f a && -d b ]] || ls",
    "[[ $x == a* ]]",
    "grep $'\\t' x",
    "i=0; ((i++))",
    "n=0; ((n+=2))",
    "diff <(sort a) <(sort b)",
    "cat <<< x",
    "a=(1 2); echo ${a[0]}",
    "function f { ls; }; f",
    "for ((i=0; i<3; i++)); do ls; done",
]


@pytest.mark.parametrize("text", ALIKE)
def test_what_is_an_error_in_sh_or_the_same_is_understood_where_nobody_said_which_shell(text: str) -> None:
    assert read_command(text, dialect=EITHER).understood


OTHERWISE_IN_ZSH = [
    "=ls",
    "ls =rm",
    "ls *(e:id:)",
    "echo x >! byleave.toml",
    "echo x >>! byleave.toml",
    "echo x >&! byleave.toml",
    "< x",
    "> x",
    "x=1 > y",
    "noglob rm x",
    "- rm x",
    "repeat 3 rm x",
    "{rm} x",
    "%1",
    "hash ls=/bin/rm; ls -rf src",
    "alias ls=rm; ls x",
    "echo $x[1]",
    "echo ${(e)x}",
    "echo $=x",
    "echo ${~x}",
    "setopt shwordsplit; $x",
    "time -p ls",
    "ls | time ! rm x",
    "ls | time A=1 rm x",
    "ls |\\\ntime -p rm x",
    "[[ a ]]",
    "foreach x (a b) rm $x; end",
    "for x (a b) rm $x",
    "if [ a ] { rm x }",
    "f() rm x",
    "{ ls } always { rm x }",
    "ls <1-5>",
    "path=(/tmp)",
    "cat =(id)",
    "() { rm x }",
]
# zsh evaluates these as arithmetic, and a subscript there runs commands.
EVALUATED_BY_ZSH = [
    "exit 'path[$(rm x)]'",
    "f() { return 'path[$(rm x)]'; }; f",
    "shift 'path[$(rm x)]'",
    "shift $x",
    "for i in 1; do break 'path[$(rm x)]'; done",
    "for i in 1; do continue $x; done",
    "[ -t 'path[$(rm x)]' ]",
    'test ! -t "$x"',
    'x=$1; [ -t "$x" ]',
    "printf %d 'path[$(rm x)]'",
    "printf '%x\\n' $x",
    "printf '%s %d' a 'path[$(rm x)]'",
    "printf '%*s' 'path[$(rm x)]' a",
    "printf -v y %d 'path[$(rm x)]'",
    'printf -v y "$f" x',
    "read -t 'path[$(rm x)]' y",
    "read -n y z",
    "COLUMNS='path[$(rm x)]' ls",
    "export SHLVL=$x",
    "for HISTSIZE in 'path[$(rm x)]'; do ls; done",
]
PLAIN_NUMBERS = [
    "ls; exit $?",
    "ls || exit 1",
    "f() { return 2; }; f",
    "shift 2",
    "[ -t 1 ] && ls",
    "printf '%d\\n' 5",
    "printf '%s\\n' $x",
    "printf '%s: %c\\n' a $x",
    "printf hello",
    "printf",
    "read -r line",
    "COLUMNS=80 ls",
]


@pytest.mark.parametrize("text", OTHERWISE_IN_ZSH)
def test_what_zsh_reads_otherwise_is_not_understood_there(text: str) -> None:
    assert not read_command(text, dialect=ZSH).understood


@pytest.mark.parametrize("text", EVALUATED_BY_ZSH)
def test_what_only_zsh_evaluates_is_understood_where_the_shell_is_bash(text: str) -> None:
    assert [read_command(text, dialect=dialect).understood for dialect in (BASH, ZSH)] == [True, False]


@pytest.mark.parametrize("dialect", [BASH, EITHER, ZSH])
@pytest.mark.parametrize("text", PLAIN_NUMBERS)
def test_numbers_are_understood_in_every_shell(text: str, dialect: str) -> None:
    assert read_command(text, dialect=dialect).understood


def test_zsh_runs_the_beginning_of_a_list_in_the_foreground() -> None:
    places = [read_command("cd d && ls & pwd", dialect=dialect).commands[2].places for dialect in (BASH, ZSH)]
    assert places == [(".",), None]


def test_zsh_runs_no_builtin_by_command() -> None:
    places = [read_command("command cd d && ls", dialect=dialect).commands[2].places for dialect in (BASH, ZSH)]
    assert places == [("d",), (".",)]


PLAIN = [
    "ls -la src",
    "git status && git diff | head -5",
    "cd src && npm test 2>&1 | tail -20",
    'for f in *.py; do echo "$f"; done',
    'x=$(git rev-parse HEAD); echo "$x"',
    "cat <<'EOF' > out.txt\nhello\nEOF",
    "time npm test",
]


@pytest.mark.parametrize("dialect", [BASH, EITHER, POSIX, ZSH])
@pytest.mark.parametrize("text", PLAIN)
def test_what_agents_run_all_day_is_understood_in_every_shell(text: str, dialect: str) -> None:
    assert read_command(text, dialect=dialect).understood


def _decide(tmp_path: Path, **action: Any) -> str:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"allow": {"command": ["ls", "echo", "["]}}]})
    return policy.decide({"kind": "command", **action}).decision.word


@pytest.mark.parametrize(
    ("shell", "decision"),
    [(None, "ask"), ("bash", "allow"), ("sh", "ask"), ("dash", "ask"), ("zsh", "ask"), ("fish", "ask"), ("x", "ask")],
)
def test_an_action_can_say_which_shell_reads_it(shell: str | None, decision: str, tmp_path: Path) -> None:
    assert _decide(tmp_path, command="[[ a || id ]]; ls", shell=shell) == decision


def test_a_denied_word_is_denied_in_a_shell_of_another_language(tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"deny": {"command": "rm"}}]})
    assert policy.decide({"kind": "command", "command": "rm x", "shell": "fish"}).decision.word == "deny"


def test_an_action_in_json_names_every_shell_but_bash() -> None:
    actions = [CommandAction("ls", shell=shell) for shell in (None, "bash", "zsh")]
    trees = [{"kind": "command", "command": "ls", **more} for more in ({}, {}, {"shell": "zsh"})]
    assert [action_tree(action) for action in actions] == trees
    assert parse_action(trees[2]) == actions[2]


@pytest.mark.parametrize(
    ("agent", "variables", "shell"),
    [
        ("claude-code", {"SHELL": "/bin/zsh"}, "zsh"),
        ("claude-code", {"SHELL": "/bin/bash"}, "bash"),
        ("claude-code", {"SHELL": "/bin/zsh", "CLAUDE_CODE_SHELL": "/usr/bin/bash"}, "bash"),
        ("claude-code", {"SHELL": "/bin/sh"}, None),
        ("claude-code", {"SHELL": "/usr/bin/fish"}, None),
        ("claude-code", {}, None),
        ("codex", {"SHELL": "/bin/zsh"}, "zsh"),
        ("gemini", {"SHELL": "/bin/zsh"}, "bash"),
        ("cursor", {"SHELL": "/usr/bin/fish"}, "fish"),
        ("opencode", {"SHELL": "/opt/homebrew/bin/zsh"}, "zsh"),
    ],
)
def test_the_shell_of_an_agent_comes_from_its_environment(
    agent: str, variables: dict[str, str], shell: str | None
) -> None:
    assert shell_of_agent(agent, variables) == shell


def test_a_text_is_for_the_agents_shell_and_a_list_for_the_one_it_names() -> None:
    where = Where("/ws", "/ws", lambda _path: True, "zsh")
    inputs: list[dict[str, Any]] = [{"command": "ls"}, {"command": ["bash", "-lc", "ls"]}, {"command": ["ls", "x"]}]
    found = [translate(ToolCall(kind="execute", raw=raw), where).actions for raw in inputs]
    assert found == [
        (CommandAction("ls", "/ws", None, "zsh"),),
        (CommandAction("ls", "/ws", None, "bash"),),
        (CommandAction("ls x", "/ws"),),
    ]


@pytest.mark.skipif(not oracle.DASH, reason="dash is not installed")
def test_the_oracle_sees_what_dash_runs() -> None:
    with oracle.box(POSIX) as where:
        where.fresh()
        assert [ran.argv for ran in where.run("c1 &>o c2 a").ran if ran.argv != ("c1",)] == [("c2", "a")]


@pytest.mark.skipif(not oracle.ZSH, reason="zsh is not installed")
def test_the_oracle_sees_what_zsh_runs() -> None:
    with oracle.box(ZSH) as where:
        where.fresh()
        assert [ran.argv for ran in where.run("{c1 a}").ran] == [("c1", "a")]
