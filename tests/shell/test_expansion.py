"""What words become: held against bash itself, on random words in a directory with odd names."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from byleave.policy.named_files import FileFinder
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.shell.reader import read_command
from byleave.workspace.resolve import Root

pytestmark = pytest.mark.long

NAMES = [".env", "a", "b", "ab", "a b", "c*", "d[x]", "sub/a", "sub/.env", "sub/deep/k", "e{f", "~"]
PIECES = [
    *("a", "b", ".e", "nv", "*", "?", "[ab]", "[!a]", "{a,b}", "{.env,x}", "{a,{b,c}}", "~", "~/x", "/", "sub", "/a"),
    *(
        "'*'",
        '"*"',
        "'a b'",
        "\\*",
        "\\ ",
        "$A",
        "${A}",
        '"$A"',
        "$B",
        '"${B}"',
        "$HOME",
        '"$PWD"',
        "{",
        "}",
        ",",
        "[",
        ".",
    ),
    *("$'a'", "{a", "b}", "{,}", "{a}", "''", '""', "-", "x{1,2}y", "**"),
]
VALUES = ["a", ".env", "'a b'", '"*"', "sub", "$A", "a$A", "~", "~/x", "''", "{a,b}", "\\*", "sub/*", '" a  b "']


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("words")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return root


def lines(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311 -- reproducible, not secret
    made = []
    for _ in range(count):
        word = "".join(chance.choices(PIECES, k=chance.randint(1, 5)))
        sets = "".join(f"{name}={chance.choice(VALUES)}; " for name in chance.sample("AB", chance.randint(0, 2)))
        made.append(f"{sets}cat {word}")
    return made


def by_bash(line: str, place: Path) -> list[str] | None:
    script = line.replace("cat ", "printf '%s\\0' ", 1)
    environment = {"PATH": os.environ["PATH"], "HOME": "/home/u", "LC_ALL": "C"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=place, env=environment, capture_output=True, timeout=20, check=False
    )
    if done.returncode != 0:
        return None
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("seed", range(4))
def test_no_word_that_bash_makes_is_missed(seed: int, place: Path) -> None:
    finder = FileFinder(Root.at(str(place)), BUILT_IN, "/home/u")
    followed = 0
    for line in lines(seed, 120):
        reading = read_command(line)
        if not reading.understood:
            continue
        word = reading.commands[-1].words[1:]
        if len(word) != 1:
            continue
        made = [word[0].text] if word[0].text is not None else finder.targets(word[0].forms, str(place), shopt=False)
        wanted = by_bash(line, place)
        if made is None or wanted is None:
            continue
        followed += 1
        same = [text.replace("//", "/") for text in made]  # one slash or two: the same file
        missing = [text for text in wanted if text and text.replace("//", "/") not in same]
        assert missing == [], (line, wanted, made)
    assert followed > 30
