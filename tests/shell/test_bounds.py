"""Whatever is put in, an answer comes back, soon."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from byleave.shell.knowledge.dangers import dangerous_options
from byleave.shell.knowledge.options import has_flag, scan, subcommand
from byleave.shell.reader import SIZE_LIMIT, read_command
from shell.corpus import corpus

PIECES = [
    "'",
    '"',
    "\\",
    "$",
    "`",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "|",
    "&",
    ";",
    "#",
    "!",
    "*",
    "?",
    "~",
    "=",
    "\n",
    "\t",
    " ",
    "$(",
    "${",
    "$((",
    "))",
    "<<E",
    "\nE\n",
    "a",
    "rm",
    "-rf",
    "x=",
    "if ",
    "then ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case ",
    " in ",
    "esac",
    "[[ ",
    " ]]",
    "f()",
    "sudo ",
    "env ",
    "sh -c ",
    "eval ",
    "é",
    "1",
    "2>",
    ":-",
    "@",
    "%",
    "/",
    "..",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
PLAIN = st.lists(st.sampled_from(["-r", "-f", "-rf", "--force", "x", "-v", "y"]), max_size=5)
WRAPPERS = [
    "env",
    "env A=1",
    "command",
    "sudo",
    "sudo -u root",
    "doas",
    "nice",
    "nice -n 5",
    "ionice -c 3",
    "nohup",
    "setsid",
    "timeout 5",
    "timeout -k 1 5",
    "stdbuf -oL",
    "xargs",
    "xargs -0 -n 1",
    "exec",
    "time",
    "chroot /",
    "docker exec -it c",
    "docker run --rm i",
    "npx",
    "uvx",
    "pipx run",
    "find . -exec",
    "busybox",
    "/usr/bin/env",
    "builtin exec",
]
DEEP = [
    "(",
    "{ ",
    "$(",
    '"$(',
    "`",
    "${x:-",
    "$((",
    "$(( (",
    "if ",
    "while ",
    "for x in a; do ",
    "case x in a) ",
    "[[ ( ",
    "f() { ",
    "! ",
    "<(",
    "a=(",
    "sh -c '",
    "eval ",
    "env ",
    "sudo ",
    "a && ",
    "a | ",
    "${x:",
    "<<E\n",
    "'",
    '"',
    "\\",
    "a[",
    "{a,",
    "[",
    "{",
    "$",
    "#\n",
    "\\\n",
    "2>",
    "x=1 ",
    "f()",
    ";",
    "&",
]


@pytest.mark.long
@given(TEXTS)
@settings(max_examples=amounts.of(600, 150), deadline=None)
def test_reading_never_raises(text: str) -> None:
    reading = read_command(text, cwd="/w")
    assert reading.understood or reading.problem is not None
    for command in reading.commands:
        assert len(command.argv) == len(command.words)
        dangerous_options(command)
        subcommand(command)
        has_flag(command, "-rf")
        scan(command)


@given(st.text(max_size=60))
@settings(max_examples=amounts.of(300, 80), deadline=None)
def test_any_text_is_read(text: str) -> None:
    reading = read_command(text)
    assert reading.understood or reading.problem is not None


@given(st.sampled_from(WRAPPERS), PLAIN)
@settings(max_examples=amounts.of(300, 80), deadline=None)
def test_a_command_stays_in_sight_through_any_wrapper(wrapper: str, words: list[str]) -> None:
    end = " \\;" if wrapper.startswith("find") else ""
    inner = ["rm", *words]
    reading = read_command(f"{wrapper} {' '.join(inner)}{end}")
    assert reading.understood
    assert [argv[: len(inner)] for argv in [command.argv for command in reading.commands]][-1] == inner


@given(PLAIN, st.randoms(use_true_random=False))
@settings(max_examples=amounts.of(200, 60), deadline=None)
def test_the_order_of_flags_changes_nothing(words: list[str], shuffle: "st.randoms") -> None:  # type: ignore[valid-type]
    mixed = list(words)
    shuffle.shuffle(mixed)  # type: ignore[attr-defined]
    first, second = (read_command(" ".join(["rm", *some])).commands[0] for some in (words, mixed))
    for flag in ("-r", "-f", "-rf", "--recursive", "-v", "-i"):
        assert has_flag(first, flag) == has_flag(second, flag)


@given(st.sampled_from(corpus()), st.sampled_from(["; ", " && ", " || ", "\n", " | ", " & "]))
@settings(max_examples=amounts.of(200, 60), deadline=None)
def test_what_is_added_hides_nothing(text: str, joint: str) -> None:
    alone = read_command("rm -rf x")
    joined = read_command(f"rm -rf x{joint}{text}")
    if joined.understood:
        assert joined.commands[0].argv == alone.commands[0].argv


@pytest.mark.sampled(2)
@pytest.mark.long
@pytest.mark.parametrize("piece", DEEP)
def test_deep_or_long_texts_take_bounded_time(piece: str) -> None:
    for text in (piece * (SIZE_LIMIT // len(piece)), piece * 40):
        begin = time.process_time()
        read_command(text, cwd="/w")
        assert time.process_time() - begin < 2  # some 20 ms are enough


@pytest.mark.parametrize(("letter", "times"), [("'", 1 << 20), ("a", 10 << 20), ("(", 1 << 20), ("é", 20 << 10)])
def test_a_text_over_the_limit_is_not_read(letter: str, times: int) -> None:
    problem = read_command(letter * times).problem
    assert problem is not None
    assert problem.reason == "longer than 32 KiB"


def test_agents_commands_are_understood() -> None:
    texts = corpus()
    understood = [text for text in texts if read_command(text, cwd="/w").understood]
    assert len(texts) >= 300
    assert len(understood) / len(texts) >= 0.95, sorted(set(texts).difference(understood))
