"""A name that is known only at run time, or a script that is not in the text, defeats no rule that denies or asks."""

from pathlib import Path

import pytest

from byleave.policy.load import Workspace

DENY = {"command": "rm", "flags": ["-rf"]}
ANYTHING = {"allow": {"any_command": True}}

SPELLINGS = [
    "{rm,-rf,src}",
    "rm${IFS}-rf${IFS}src",
    "eval${x} 'rm -rf src'",
    "env =x rm -rf src",
    "$CMD",
    "${0} rm -rf src",
    '"r"m -rf src',
    "r\\m -rf src",
    "$'\\x72m' -rf src",
    "/bin/r? -rf src",
    "command -p rm -rf src",
    "exec -a x rm -rf src",
    "exec rm -rf src",
    'f() { "$@"; }; f rm -rf src',
    "f() { $1 -rf src; }; f rm",
    'set -- rm -rf src; "$@"',
    "x=rm; $x -rf src",
    'x="rm -rf src"; $x',
    "$(echo rm) -rf src",
    "`echo rm` -rf src",
    'alias ls="rm -rf src"; ls',
    "hash -p /bin/rm ls; ls -rf src",
    "coproc rm -rf src",
    'env -S "rm -rf src"',
    "env - rm -rf src",
    "env -i rm -rf src",
    "env -u X rm -rf src",
    "env a=b rm -rf src",
    "env -- rm -rf src",
    "nice -n 5 rm -rf src",
    "xargs -a files rm -rf",
    "echo src | xargs rm -rf",
    "find . -exec rm -rf {} +",
    "{ rm -rf src; }",
    "(rm -rf src)",
    "! rm -rf src",
    "time rm -rf src",
    "if rm -rf src; then :; fi",
    "while rm -rf src; do :; done",
    "case x in x) rm -rf src;; esac",
    "for i in 1; do rm -rf src; done",
    'trap "rm -rf src" EXIT',
    "rm -r -f src",
    "rm -fr src",
    "rm --recursive --force src",
    "rm --rec --fo src",
    "rm -R -f src",
    "rm src -rf",
    "rm -- -rf; rm -rf src",
    "busybox rm -rf src",
    "toybox rm -rf src",
    'sh -c "rm -rf src"',
    'bash -lc "rm -rf src"',
    "eval rm -rf src",
    ". <(echo rm -rf src)",
    "bash <(echo rm -rf src)",
    'echo "rm -rf src" | sh',
    "printf x | bash -s",
    "cat x | bash",
    "base64 -d x | sh",
    "sh < x",
    "bash 0< x",
    "echo rm -rf src > x; sh x",
    "echo rm -rf src > x.sh && . ./x.sh",
    "echo rm -rf src | tee x; bash x",
    'echo "rm -rf src" | at now',
    'echo "rm -rf src" | ssh localhost',
    'echo "rm -rf src" | sudo -s',
    'echo "rm -rf src" | env sh',
    'echo "rm -rf src" | busybox sh',
    "echo rm -rf src | xargs env",
    'echo "rm -rf src" | xargs -I{} sh -c "{}"',
    'echo "rm -rf src" | parallel',
    'sh -s <<< "$x"',
    "sh <<EOF\n$x\nEOF",
    'source /dev/stdin <<< "rm -rf src"',
    'source /dev/stdin <<< "$x"',
    "${x:-rm} -rf src",
    "~/bin/rm -rf src",
    "./rm -rf src",
    "*/rm -rf src",
    "[r]m -rf src",
    "r{m,} -rf src",
    "\\\nrm -rf src",
    "r\\\nm -rf src",
    "'rm' -rf src",
    'rm "-rf" src',
    "rm -r${x}f src",
    "rm $x src",
    'rm "$@"',
    'rm -rf"" src',
    "rm -r'f' src",
    "if true; then $x; fi",
    '"$SHELL" -c "rm -rf src"',
    '$SHELL -c "rm -rf src"',
    '"${a[@]}"',
    "sudo $x",
    "timeout 5 $x",
    'nohup "$x" src',
    "exec $x",
    "command $x",
    "builtin $x",
    'mapfile -C "rm -rf src" -c 1 a < f',
    'PROMPT_COMMAND="rm -rf src" bash -i',
    "BASH_ENV=x bash -c ls",
    "PS4='$(rm -rf src)' bash -xc ls",
    "git-rm -rf src",
    "rm -rf src #",
    'yash -c "rm -rf src"',
    'fish -c "rm -rf src"',
    'csh -c "rm -rf src"',
    'ksh -c "rm -rf src"',
    'pwsh -c "rm -rf src"',
    'bash -O extglob -c "rm -rf src"',
]


@pytest.mark.parametrize("command", SPELLINGS)
@pytest.mark.parametrize("outcome", ["deny", "ask"])
def test_no_spelling_of_a_name_leads_past_a_rule(command: str, outcome: str, tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{outcome: DENY}, ANYTHING]})
    assert policy.decide({"kind": "command", "command": command}).decision.word in ("ask", "deny")


HARMLESS = [
    "echo rm -rf src",
    'grep "rm -rf" x',
    'git commit -m "rm -rf"',
    "rm a",
    "rm -r a",
    "bash script.sh",
    "bash -c ls",
    "bash --version",
    ". ./env.sh",
    "for f in *.py; do echo $f; done",
    "cat a | grep b | head",
    "cat x | python3 y.py",
    "python3 - <<EOF\nprint(1)\nEOF",
    "cmd 2>&1 | tail -5",
]


@pytest.mark.parametrize("command", HARMLESS)
def test_a_command_whose_name_is_known_is_not_taken_for_a_denied_one(command: str, tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"deny": DENY}, ANYTHING]})
    assert policy.decide({"kind": "command", "command": command}).decision.word == "allow"


def test_an_unknown_name_is_allowed_where_no_rule_denies_a_command(tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"deny": {"path": "secrets/**"}}, ANYTHING]})
    assert policy.decide({"kind": "command", "command": '"$CMD" x'}).decision.word == "allow"


def test_the_reason_names_the_rule_that_may_be_meant(tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"deny": DENY}, ANYTHING]})
    verdict = policy.decide({"kind": "command", "command": "$CMD src"})
    assert verdict.reason == '"$CMD src" needs your approval: it may be what the rule `deny rm -rf` is about'


# Each reads `.env` if the words known only at run time are chosen for it.
SEVERAL = [
    "grep $X y",
    "grep {.,$X} y",
    'grep {.,"$X"} y',
    "grep {-f,$X} y",
    "grep {.,$(echo .env)}",
    'grep "$@"',
    "jq $X",
    "jq --arg a $X . y",
    "ack $X",
    "head -n $X",
    "cut -d $X -f1 y",
    "grep -A $X y z",
    "grep -e $X",
    "head -n $(wc -l < y) y",
    "IFS=3; head -n $((132)) y",
]
ONE = [
    'grep "$X" y',
    'jq --arg a "$X" . y',
    'head -n "$X" y',
    "head -n $((1 + 2)) y",
    "N=5; ((N++)); head -n $N y",
    "N=$(wc -l < y); head -n $N y",
    "head -n $# y",
    "for name in a b; do grep $name y; done",
]


@pytest.mark.parametrize(
    ("line", "decision"), [*[(line, "ask") for line in SEVERAL], *[(line, "allow") for line in ONE]]
)
def test_a_word_that_may_become_several_may_name_a_file_wherever_it_stands(
    line: str, decision: str, tmp_path: Path
) -> None:
    rules = [{"deny": {"path": ".env"}}, {"allow": {"command": ["grep", "jq", "ack", "head", "cut", "echo", "wc"]}}]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": rules})
    assert policy.decide({"kind": "command", "command": line}).decision.word == decision


# What a variable holds where lines go on, and what follows from that for the file that is read.
VALUES = {
    "D=src; cd $D; cat x": "allow",
    "D=src; cd $D; cd deep; cat k": "deny",
    "D=src; cd $D; cd ..; cat .env": "deny",
    "if true; then x=a; else x=.env; fi; cat $x": "deny",
    "if true; then x=a; else x=y; fi; cat $x": "allow",
    "f() { x=.env; }; x=a; f; cat $x": "ask",
    "X='b .env'; cat {a,$X}": "ask",
    "X='.en\\*'; cat $X": "ask",
    "cat {1..3}": "ask",
    "cat ~-/.env": "ask",
    "f() { cat; }; f < .env": "deny",
    "exit && cat .env || true": "deny",
    "find -files0-from list -exec cat {} \\;": "ask",
    "xargs -i cat .env": "deny",
    "declare -u X=.env; cat $X": "ask",
    "IFS=/; X=src/deep/k; cat $X": "ask",
    "fd a -x cat .env": "deny",
}


@pytest.mark.parametrize("line", VALUES)
def test_a_file_is_known_by_what_the_line_itself_makes_of_its_name(line: str, tmp_path: Path) -> None:
    (tmp_path / "src/deep").mkdir(parents=True)
    names = ["cat", "cd", "find", "xargs", "fd", "true", "exit", "declare"]
    rules = [{"deny": {"path": [".env", "src/deep/k"]}}, {"allow": {"command": names, "options": "any"}}]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": rules})
    assert policy.decide({"kind": "command", "command": line}).decision.word == VALUES[line]
