"""byleave's own commands are not for tools and agents, however they are spelled."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.self_protection import (
    GUARDED_COMMANDS,
    changes_trust,
    holds_in_sandbox,
    is_door,
    outside_command,
    runs_outside,
)

GUARDED = """
byleave trust
byleave untrust byleave.toml
byleave approvals approve 1
byleave mount x=/etc
byleave unmount
byleave hook claude-code --install
byleave agents token A
byleave policy learn
byleave trust --yes -q
byleave -q trust
byleave -qv trust
byleave --root=x trust
byleave --root x trust
byleave --root x --policy y --session z --json --no-input trust
byleave --unknown value trust
byleave -- trust
byleave --json policy show
byleave call t --mount a=/etc
byleave run --mount=a=/etc -- ls
byleave acp --setup zed --yes -- claude-agent-acp
byleave acp --no-mount -- agent
byleave run -- byleave trust
byleave run -- sh -c 'byleave trust'
BYLEAVE trust
byleave.exe trust
byleave.pyz trust
./byleave trust
/usr/local/bin/byleave trust
'C:\\Program Files\\byleave.exe' trust
python -m byleave trust
python -mbyleave trust
python -Im byleave trust
python -Imbyleave trust
python3.11 -P -m byleave trust
/usr/bin/python3.11 -P -m byleave trust
pypy3 -m byleave trust
python.exe -m byleave trust
python -X dev -W ignore -m byleave --root . trust
python -m byleave.cli.main trust
python -m byleave.__main__ trust
python -m src.byleave trust
python -m runpy byleave trust
python -m pdb -m byleave trust
python -m coverage run -m byleave trust
python -m pipx run byleave trust
python /venv/bin/byleave trust
python src/byleave trust
python src/byleave/ trust
python src/byleave/__main__.py trust
python src/byleave/cli/main.py trust
python -c 'from byleave.cli.main import run; run(["trust"])'
python -Ic 'import byleave.cli.main as m; m.run()' trust
python -c 'from byleave.store.approvals import Approvals'
python -c 'import os; os.system("byleave trust")'
env byleave trust
env -i PATH=/x byleave trust
env -S 'byleave trust'
sudo -u root timeout 5 byleave trust
nohup nice -n 5 python3 -m byleave trust
xargs byleave trust
find . -exec byleave trust ;
/lib64/ld-linux-x86-64.so.2 /usr/bin/python3 -m byleave trust
/usr/lib/byleave/sandbox/native/front-x86_64 /usr/bin/python3 -m byleave trust
/lib/byleave/front-x86_64 --service /run/x /bin/python3 -IS /lib/byleave/cli/__main__.py --packages /p trust
pipx run byleave trust
pipx run --spec byleave==0.1 byleave trust
uvx byleave trust
uvx byleave@latest trust
uvx --from byleave byleave trust
uv run byleave trust
uv tool run 'byleave[all]>=0.1' trust
uv run python -m byleave trust
sh -c 'byleave trust'
bash -lc 'cd x && byleave --root . trust; ls'
bash -c '"byleave" "trust"'
bash -c '$(command -v byleave) trust'
su -c 'byleave trust'
script -qc 'byleave trust' /dev/null
perl -e 'system("byleave","trust")'
byleave check command 'make test' --add
byleave check --json read x --add --yes
byleave --root . check url https://x --add
python -c 'from byleave.cli.main import main; main(["check", "command", "ls", "--add", "--yes"])'
timeout 9 byleave check command ls --add
""".strip().splitlines()

HARMLESS = """
byleave
byleave --version
byleave doctor
byleave check read x
byleave check command 'byleave trust'
byleave check url https://x --address 127.0.0.1
byleave check command -- --add
byleave check spawn --tool t -- byleave trust
byleave --root trust check read x
byleave --session=trust check read policy
byleave run -- ls --mount x
byleave acp --setup zed -- claude-agent-acp
byleave run -- cat policy
grep byleave trust
git commit -m 'byleave trust'
cat byleave.toml policy
trust
python x.py trust
python -m pytest tests/test_policy.py
python -c 'import byleave; print(byleave.__version__)'
python -c 'print("trust")'
uv run pytest
uv run byleave check read trust
bash -c 'cd src/byleave && grep policy x'
sh -c 'byleave check read x; echo trust'
xargs grep trust
""".strip().splitlines()


@pytest.mark.parametrize("line", GUARDED)
def test_a_command_that_changes_trust_is_known_in_every_spelling(line: str) -> None:
    assert changes_trust(shlex.split(line))


@pytest.mark.parametrize("line", HARMLESS)
def test_a_command_that_changes_nothing_is_left_alone(line: str) -> None:
    assert not changes_trust(shlex.split(line))


UNKNOWN: list[tuple[list[str | None], bool]] = [
    (["byleave", None], True),
    (["byleave", "--root", None, "trust"], True),
    (["byleave", "--root", None, "check"], False),
    (["python", "-m", "byleave", None], True),
    (["xargs", "byleave", None], True),
    (["byleave", "check", None], True),  # it may be words that end in --add --yes
    (["byleave", "check", "command", None], True),
    ([None, "trust"], False),
    (["python", None], False),
    ([], False),
]


@pytest.mark.parametrize(("argv", "guarded"), UNKNOWN)
def test_a_word_known_only_at_run_time_counts_as_guarded_where_the_command_stands(
    *, argv: list[str | None], guarded: bool
) -> None:
    assert changes_trust(argv) is guarded


words = st.none() | st.text(max_size=8) | st.sampled_from(["byleave", "-m", "--", "trust", "--root", "python", ";"])


@given(
    st.sampled_from(sorted(GUARDED_COMMANDS)), st.lists(st.sampled_from(["-q", "--json", "--root=x"])), st.lists(words)
)
def test_flags_before_and_words_after_hide_nothing(command: str, before: list[str], after: list[str | None]) -> None:
    assert changes_trust(["byleave", *before, command, *after])
    assert changes_trust(["env", "byleave", *before, command, *after])
    assert changes_trust(["python", "-m", "byleave", *before, command, *after])


@given(st.lists(words))
def test_any_words_are_answered(argv: list[str | None]) -> None:
    assert changes_trust(argv) in (True, False)


DOORS = [
    ("byleave acp -- agent", True),
    ("/venv/bin/python /venv/bin/byleave mcp --stdio", True),
    ("python -m byleave run -- ls", True),
    ("byleave hook claude-code", True),
    ("byleave --root x call t", True),
    ("/lib/byleave/sandbox/native/front-x86_64 /venv/bin/python -P -m byleave run -- ls", True),
    ("/lib/front-aarch64 --service /run/x /usr/bin/python3 -IS /lib/byleave/cli/__main__.py call t", True),
    ("/lib/front-x86_64 /venv/bin/python -P -m byleave trust --yes", False),
    ("/venv/bin/python3.11 -I -S /lib/byleave/service/__main__.py --directory /tmp/b --key k", True),
    ("byleave service restart", False),
    ("byleave trust --yes", False),
    ("bash -c 'byleave trust --yes; byleave run -- ls'", False),
    ("timeout 5 byleave run -- ls", False),
    ("bash", False),
]


@pytest.mark.parametrize(("line", "door"), DOORS)
def test_a_door_is_byleave_itself_and_no_script_that_mentions_it(*, line: str, door: bool) -> None:
    assert is_door(shlex.split(line)) is door


HOLDING = [
    ("byleave run -- ls", True),
    ("byleave call t", True),
    ("python -m byleave mcp --stdio", True),
    ("byleave acp --sandbox -- agent", True),
    ("/lib/front-x86_64 /usr/bin/python3 -P -m byleave run -- ls", True),
    ("/venv/bin/python3.11 -I -S /lib/byleave/service/__main__.py --directory /tmp/b --key k", True),
    ("byleave acp -- agent", False),
    ("byleave check command ls", False),
    ("bash -c 'byleave run -- ls'", False),
    ("make run", False),
]


@pytest.mark.parametrize(("line", "holds"), HOLDING)
def test_what_starts_programs_in_a_sandbox_is_byleave_itself(*, line: str, holds: bool) -> None:
    assert holds_in_sandbox(shlex.split(line)) is holds


OUTSIDE: list[tuple[list[str | None], tuple[str, ...] | None]] = [
    (["byleave", "outside", "--", "ls", "x"], ("ls", "x")),
    (["/venv/bin/byleave", "outside", "--", "ls"], ("ls",)),
    (["python3", "-I", "-m", "byleave", "outside", "--", "ls"], ("ls",)),
    (["python3", "-Im", "byleave", "outside", "--", "ls"], ("ls",)),
    (["byleave", "outside", "--", "ls", None], None),
    (["byleave", "outside", "--", ""], None),
    (["byleave", "outside", "ls"], None),
    (["make", "outside", "--", "ls"], None),
    (["python3", "tool.py", "outside", "--", "ls"], None),
    (["python3", "-c", "byleave", "outside", "--", "ls"], None),
    (["python3", "-m", "pip", "outside", "--", "ls"], None),
    (["python3", "-m"], None),
    (["python3"], None),
    ([None], None),
    ([], None),
]


@pytest.mark.parametrize(("argv", "command"), OUTSIDE)
def test_only_the_plain_form_asks_for_a_command_outside(
    argv: list[str | None], command: tuple[str, ...] | None
) -> None:
    assert outside_command(argv) == command


@pytest.mark.parametrize("line", ["byleave", "byleave -q --json", "byleave --root x", "env byleave -q; ls"])
def test_byleave_without_a_command_starts_nothing_outside(line: str) -> None:
    assert not runs_outside(shlex.split(line))
