"""A bare allow of a program: which everyday lines it covers, and what leads out of the workspace."""

from pathlib import Path

import pytest

import byleave
from byleave.policy.live_policy import LivePolicy

PROGRAMS = [
    *("git", "make", "npm", "cp", "mkdir", "touch", "black", "curl", "tox", "pytest", "python3", "cargo", "cmake"),
    *("cd", "pushd", "popd", "echo", "ls", "cat", "export", "source"),
]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> LivePolicy:
    root = tmp_path_factory.mktemp("place") / "root"
    for name in ("src", "docs", "build"):
        (root / name).mkdir(parents=True)
    (root / "out").symlink_to(root.parent)
    (root / "here").symlink_to(".")
    return byleave.compile_policy({"rules": [{"allow": {"command": PROGRAMS}}]}, root=str(root))


COVERED = [
    "PYTHONPATH=$PWD pytest",
    "PYTHONPATH=$PWD/src pytest",
    'PYTHONPATH="$PWD/src" python3 -m pytest',
    "PYTHONPATH=${PWD}/src pytest",
    "PYTHONPATH=src:$PWD/lib pytest",
    "PYTHONPATH=$PWD:$PYTHONPATH pytest",
    "export PYTHONPATH=$PWD/src && pytest",
    "curl -o /tmp/x https://example.org/a",
    "curl -fsSLo /tmp/dir/x https://example.org/a",
    "tox -- tests/unit",
    "tox -- -k name -x",
    "tox -e py311 -- tests/test_x.py -k name -x",
    "cd src && make",
    "cd src; make; cd ..; make",
    "(cd src && make) && make",
    'cd "$PWD/src" && make',
    "D=src; cd $D && make",
    "cd here && git status",
    "cd src && cd .. && npm test",
    "cd build && cmake ..",
    "for d in src docs; do (cd $d && make); done",
    "f() { make; }; cd src; f",
    "cd /tmp && ls && cat x",
    # An operand outside that is only a file: path rules and protected places speak of it, or nothing does.
    "mkdir -p /tmp/x",
    "touch /tmp/x",
    "cp a /tmp/x",
    "git worktree add ../other",
    "git clone https://example.org/x /tmp/x",
]
NOT_COVERED = [
    "PYTHONPATH=$PWD/.. pytest",
    "PYTHONPATH=x$PWD pytest",
    "PYTHONPATH=$PWD$X pytest",
    "PYTHONPATH=$HOME pytest",
    "PYTHONPATH=/tmp:$PWD pytest",
    "PATH=$PWD:$PATH pytest",
    "LD_LIBRARY_PATH=$PWD pytest",
    "curl -o /tmp/../etc/x https://example.org/a",
    "curl -o /etc/x https://example.org/a",
    "tox -- id",
    "tox -- -p plugin",
    "tox -- --rootdir=/x",
    "tox -- /tmp/x",
    "tox -- ../x",
    "make -C /tmp",
    "cd /tmp && make",
    "cd /tmp; make",
    "cd .. && npm test",
    "cd src && cd ../.. && npm test",
    "cd ~ && make",
    "cd && make",
    'cd "$X" && make',
    "cd out && make",
    "cd nowhere; cd ..; make",
    "pushd /tmp && cargo build",
    "(cd /tmp && pytest)",
    "cd /tmp && python3 -m pytest",
    "cd /tmp && git status",
    "env -C /tmp make",
    "cp a /etc/x",
    "black /etc/x",
]


READING = [
    "ls || exit 1",
    "ls & wait",
    "for i in $(seq 1 3); do ls && break; sleep 1; done",
    "for i in 1 2; do ls || continue; done",
    "f() { ls; return 1; }; f",
    "comm a b",
    "comm <(sort a) <(sort b)",
    "od -c README.md",
    "fold -w 80 README.md",
    "git shortlog -sn --no-merges | head",
]


@pytest.mark.parametrize("command", READING)
def test_the_groups_that_read_cover_what_agents_read_with(command: str, tmp_path: Path) -> None:
    rules = [{"allow": {"group": "read_only_files"}}, {"allow": {"group": "read_only_git"}}]
    policy = byleave.compile_policy({"rules": rules}, root=str(tmp_path))
    assert str(policy.decide({"kind": "command", "command": command}).decision) == "allow"


@pytest.mark.parametrize("command", COVERED)
def test_a_bare_allow_covers(policy: LivePolicy, command: str) -> None:
    verdict = policy.decide({"kind": "command", "command": command})
    assert str(verdict.decision) == "allow", verdict.reason


@pytest.mark.parametrize("command", NOT_COVERED)
def test_a_bare_allow_does_not_cover(policy: LivePolicy, command: str) -> None:
    assert str(policy.decide({"kind": "command", "command": command}).decision) == "ask"


def test_within_says_where_a_program_may_work(tmp_path: Path) -> None:
    rules = [{"allow": {"command": "make", "within": "/tmp"}}, {"allow": {"command": "cd"}}]
    policy = byleave.compile_policy({"rules": rules}, root=str(tmp_path))
    assert str(policy.decide({"kind": "command", "command": "cd /tmp && make"}).decision) == "allow"
    assert str(policy.decide({"kind": "command", "command": "cd /usr && make"}).decision) == "ask"


ZSH = {
    "[[ -f x ]] && echo y": "allow",
    '[[ "$a" = "b" ]] || ls': "allow",
    "[[ $a == b ]] && ls": "allow",
    "[[ -d src && ! -f x ]] && ls": "allow",
    'if [[ -n "$X" ]]; then ls; fi': "allow",
    "[[ $# -gt 0 ]] && ls": "allow",
    "[[ a =~ b ]] && ls": "ask",
    "[[ a || id ]]; ls": "ask",
    "[[ a < b ]] && ls": "ask",
    "[[ -n $(rm x) ]] && ls": "ask",
    "[[ 1 -eq a[$(id)] ]] && ls": "ask",
    "[[ -z ${(e)a} ]] && ls": "ask",
    "[[ -f x(e:id:) ]] && ls": "ask",
}


@pytest.mark.parametrize(("command", "answer"), ZSH.items())
def test_conditions_of_zsh_are_read_where_they_run_nothing(policy: LivePolicy, command: str, answer: str) -> None:
    assert str(policy.decide({"kind": "command", "command": command, "shell": "zsh"}).decision) == answer
