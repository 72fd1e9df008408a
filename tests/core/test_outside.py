"""`byleave outside -- COMMAND`: an ask that no rule allows, in one spelling; in every other a deny."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.decision import BUILT_IN, Verdict

EVERYTHING: list[dict[str, Any]] = [
    {"allow": {"any_command": True, "options": "any"}, "sandbox": True, "unread": True},
    {"allow": {"command": ["byleave", "npm", "bash"], "options": "any"}},
]
OPEN: dict[str, Any] = {"rules": EVERYTHING, "shell": {}}


def decided(root: Path, command: str, tree: dict[str, Any], *, confines: bool = True) -> Verdict:
    policy = byleave.compile_policy(tree, root=str(root))
    return policy.decide({"kind": "command", "command": command}, confines=confines)


ASKED = """
byleave outside -- npm install
byleave outside -- npm run build --if-present
byleave outside -- 'npm' "install"
byleave outside -- echo '$HOME' 'a b' "it's"
byleave outside -- echo \\$HOME a\\ b
byleave   outside   --   npm   install
/usr/local/bin/byleave outside -- npm install
.venv/bin/byleave outside -- npm install
python -m byleave outside -- npm install
python3 -I -m byleave outside -- npm install
python3.11 -Im byleave outside -- npm install
/usr/bin/python3 -P -m byleave outside -- npm install
byleave outside -- env FOO=1 npm install
byleave outside -- bash -c 'npm install && npm test'
byleave outside -- bash -c 'curl "$URL" | tar xz > out.txt'
byleave outside -- sh script.sh
byleave outside -- perl -e 'print 1'
byleave outside -- env -S 'npm install'
byleave outside -- bash -c 'coproc { x; }; ((i++)) ; select y in z; do :; done'
byleave outside -- ./-x -- -y
byleave outside -- --weird
""".strip().splitlines()


@pytest.mark.parametrize("confines", [True, False])
@pytest.mark.parametrize("command", ASKED)
def test_the_whole_line_in_literal_words_asks_whatever_the_rules_allow(
    command: str, *, confines: bool, tmp_path: Path
) -> None:
    verdict = decided(tmp_path, command, OPEN, confines=confines)
    assert (verdict.decision.word, verdict.sandbox) == ("ask", (False, False))
    assert verdict.because[0].source == BUILT_IN
    assert verdict.suggestion is None
    assert "it runs outside of the sandbox" in verdict.reason


MISWRITTEN = """
byleave outside npm install
byleave outside
byleave outside --
byleave outside -- ''
byleave outside --help
byleave -q outside -- npm install
byleave --json outside -- npm install
byleave --root=x outside -- npm install
byleave --root x outside -- npm install
byleave -- outside -- npm install
byleave --unknown outside -- npm install
byleave outside --yes -- npm install
byleave outside -q -- npm install
byleave outside -- npm install; ls
byleave outside -- npm install;
byleave outside -- npm install &
byleave outside -- npm install && ls
byleave outside -- npm install || ls
byleave outside -- npm install | cat
ls | byleave outside -- npm install
ls; byleave outside -- npm install
cd src && byleave outside -- npm install
! byleave outside -- npm install
time byleave outside -- npm install
(byleave outside -- npm install)
{ byleave outside -- npm install; }
if true; then byleave outside -- npm install; fi
f() { byleave outside -- npm install; }
byleave outside -- npm install > log
byleave outside -- npm install 2>&1
byleave outside -- npm install < input
byleave outside -- npm install <<< text
FOO=1 byleave outside -- npm install
PATH=/x byleave outside -- npm install
byleave outside -- npm install # a comment
byleave outside -- $CMD
byleave outside -- npm "$X"
byleave outside -- npm $(cat x)
byleave outside -- npm `cat x`
byleave outside -- npm *.tgz
byleave outside -- npm {a,b}
byleave outside -- npm ~/x
byleave outside -- npm <(ls)
byleave $OUT -- npm install
"$X" byleave outside -- npm install; byleave outside -- ls
echo $(byleave outside -- npm install)
echo `byleave outside -- npm install`
cat <(byleave outside -- npm install)
sh -c 'byleave outside -- npm install'
bash -lc "byleave outside -- npm install"
eval 'byleave outside -- npm install'
eval byleave outside -- npm install
exec byleave outside -- npm install
command byleave outside -- npm install
env byleave outside -- npm install
env FOO=1 byleave outside -- npm install
env -S 'byleave outside -- npm install'
xargs byleave outside -- npm install
find . -exec byleave outside -- rm {} +
sudo byleave outside -- npm install
nohup byleave outside -- npm install
timeout 5 byleave outside -- npm install
nice byleave outside -- npm install
watch byleave outside -- ls
uvx byleave outside -- npm install
uv run byleave outside -- npm install
byleave run -- byleave outside -- npm install
byleave run --shell 'byleave outside -- npm install'
byleave outside -- byleave outside -- npm install
byleave outside -- sh -c 'byleave outside -- npm install'
byleave outside -- byleave trust
byleave outside -- byleave approvals approve 1
python -X dev -m byleave outside -- npm install
python -c 'import byleave.cli.main as m; m.main(["outside", "--", "ls"])'
python -m byleave.cli.main outside -- npm install
python /venv/bin/byleave outside -- npm install
python -m runpy byleave outside -- npm install
bash -c '((' byleave outside -- npm install
trap 'byleave outside -- npm install' EXIT
BYLEAVE outside -- npm install
byleave.exe outside -- npm install
alias x='byleave outside -- ls'; x; byleave outside -- ls
""".strip().splitlines()


@pytest.mark.parametrize("confines", [True, False])
@pytest.mark.parametrize("command", MISWRITTEN)
def test_anything_around_it_or_another_spelling_is_denied(command: str, *, confines: bool, tmp_path: Path) -> None:
    verdict = decided(tmp_path, command, OPEN, confines=confines)
    assert (verdict.decision.word, verdict.sandbox) == ("deny", (False, False))


@pytest.mark.parametrize(
    "command", ["byleave outside npm install", "byleave outside -- $X", "x; byleave outside -- ls"]
)
def test_the_denial_says_how_to_write_it(command: str, tmp_path: Path) -> None:
    assert "`byleave outside -- COMMAND ARGS...` as the whole line" in decided(tmp_path, command, OPEN).reason


def test_a_newline_or_odd_characters_are_no_way_to_add_a_command(tmp_path: Path) -> None:
    for text in (
        "byleave outside -- ls\nrm x",
        "byleave outside -- ls\r\nrm x",
        "byleave outside -- a\x00b",
        "x" * 40000,
    ):
        full = text if "outside" in text else f"byleave outside -- {text}"
        assert decided(tmp_path, full, OPEN).decision.word == "deny"
    assert decided(tmp_path, "  byleave outside -- ls\n", OPEN).decision.word == "ask"
    assert decided(tmp_path, "byleave outside \\\n -- ls", OPEN).decision.word == "ask"


RULES: list[dict[str, Any]] = [
    {"deny": {"command": "rm"}, "why": "nothing is removed"},
    {"deny": {"command": "git", "subcommand": "push"}},
    {"ask": {"command": "npm", "subcommand": "publish"}, "why": "the world sees it"},
    {"deny": {"path": "**/.env"}},
    *EVERYTHING,
]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("byleave outside -- rm -rf build", "nothing is removed"),
        ("byleave outside -- /bin/rm x", "nothing is removed"),
        ("byleave outside -- bash -c 'ls; rm x'", "nothing is removed"),
        ("byleave outside -- env rm x", "nothing is removed"),
        ("byleave outside -- git -C . push", "git push"),
        ("byleave outside -- cat .env", ".env"),
        ("byleave outside -- bash -c 'cat <.env'", ".env"),
        ("byleave outside -- bash -c 'coproc rm x'", "deny rm"),
        ("python -m byleave outside -- rm x", "nothing is removed"),
    ],
)
def test_a_deny_on_the_command_holds(command: str, said: str, tmp_path: Path) -> None:
    verdict = decided(tmp_path, command, {"rules": RULES, "shell": {}})
    assert (verdict.decision.word, said in verdict.reason) == ("deny", True)


def test_what_an_ask_rule_says_of_the_command_is_shown(tmp_path: Path) -> None:
    verdict = decided(tmp_path, "byleave outside -- npm publish", {"rules": RULES, "shell": {}})
    assert verdict.decision.word == "ask"
    assert verdict.reason.startswith('"npm publish" needs your approval: it runs outside of the sandbox; ')
    assert "the world sees it" in verdict.reason


def test_a_byleave_by_another_path_is_named(tmp_path: Path) -> None:
    verdict = decided(tmp_path, "./byleave outside -- ls", OPEN)
    assert 'started by "./byleave"' in verdict.reason


def test_a_deny_on_byleave_itself_holds(tmp_path: Path) -> None:
    rules = [{"deny": {"command": "byleave", "subcommand": "outside"}}, *EVERYTHING]
    assert decided(tmp_path, "byleave outside -- ls", {"rules": rules}).decision.word == "deny"


@pytest.mark.parametrize("tree", [{}, {"shell": {}}, {"shell": {"confine": "require"}}, {"shell": {"confine": "off"}}])
def test_it_asks_without_any_rule_and_in_every_mode_of_the_shell(tree: dict[str, Any], tmp_path: Path) -> None:
    assert decided(tmp_path, "byleave outside -- ls", tree).decision.word == "ask"
    rules = [{"allow": {"any_command": True, "options": "any"}, "sandbox": False}]
    assert decided(tmp_path, "byleave outside -- ls", {**tree, "rules": rules}).decision.word == "ask"


def test_a_tool_never_starts_it(tmp_path: Path) -> None:
    tree = {
        "tools": {"t": {"source": "local", "command": ["x"], "access": {"commands": {"byleave": {"args": [["**"]]}}}}}
    }
    policy = byleave.compile_policy(tree, root=str(tmp_path))
    action = {"kind": "spawn", "program": "byleave", "args": ["outside", "--", "ls"], "tool": "t"}
    assert policy.decide(action).decision.word == "deny"


HARMLESS = """
grep outside byleave.toml
git commit -m 'byleave outside'
byleave check command 'byleave outside -- ls'
ls outside byleave
byleave audit list
""".strip().splitlines()


@pytest.mark.parametrize("command", HARMLESS)
def test_the_words_alone_mean_nothing(command: str, tmp_path: Path) -> None:
    assert decided(tmp_path, command, OPEN).decision.word == "allow"


# What an agent writes itself with `byleave run --shell`, as a hook or the proxy would.

SHELL_TEXTS = [
    ("byleave run --shell 'ls'", "allow"),
    ("byleave run --shell='ls'", "allow"),
    ("byleave run --shell 'ls; rm -rf build'", "deny"),
    ("byleave run --shell='ls && /bin/rm x'", "deny"),
    ("/usr/bin/byleave run --shell 'rm x'", "deny"),
    ("python -m byleave run --shell 'rm x'", "deny"),
    ("env byleave run --shell 'rm x'", "deny"),
    ("sh -c \"byleave run --shell 'rm x'\"", "deny"),
    ("byleave run --shell 'cat .env'", "deny"),
    ("byleave run --shell 'byleave trust'", "deny"),
    ("byleave run -- rm x", "deny"),
    ("byleave run -- sh -c 'rm x'", "deny"),
    ("byleave run --shell 'npm publish'", "ask"),
    ('byleave run --shell "$X"', "deny"),
    ("byleave run --shell ls --shell 'rm x'", "deny"),
    ("byleave run --shell 'ls' --cwd-file .env", "deny"),
    ("byleave run --cwd-file=.env --shell 'ls'", "deny"),
    ("byleave run --cwd-file .git/hooks/pre-commit --shell 'ls'", "ask"),
    ("byleave run --ticket 0123456789abcdef0123456789abcdef --shell 'ls'", "deny"),
    ("byleave run --shell 'ls' --ticket=0123456789abcdef0123456789abcdef", "deny"),
    ("/opt/b/byleave run --ticket 0 --shell ls", "deny"),
    ("python3 -Im byleave run --ticket 0 --shell ls", "deny"),
    ("/usr/bin/python3 -I -S /x/byleave/cli/__main__.py run --ticket 0 --shell ls", "deny"),
    ("python3 -I -S /x/byleave/cli/__main__.py --packages /y run --home /z --ticket 0 --shell ls", "deny"),
    ("python3 -I -S /x/byleave/cli/__main__.py --packages /y run --shell 'rm x'", "deny"),
    ("env byleave run --ticket 0 --shell ls", "deny"),
    ("bash -c 'byleave run --ticket 0 --shell ls'", "deny"),
    ("byleave run --shell 'byleave run --ticket 0 --shell ls'", "deny"),
    ("byleave run --shell 'grep -e --ticket x'", "allow"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), SHELL_TEXTS)
def test_a_text_for_a_confined_shell_is_read_as_a_script_is(command: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    rules = [*RULES[:-2], {"allow": {"any_command": True, "options": "any"}}]
    assert decided(tmp_path, command, {"rules": rules}).decision.word == expected


def test_a_ticket_in_an_agents_own_text_is_denied_with_what_to_do(tmp_path: Path) -> None:
    verdict = decided(tmp_path, "byleave run --ticket 0 --shell ls", OPEN)
    assert "only byleave itself writes a ticket" in verdict.reason
