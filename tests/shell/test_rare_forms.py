"""Forms that hardly anybody writes: each is read, or refused with a reason that says what is wrong."""

import pytest

from byleave.shell.reader import read_command
from byleave.shell.syntax.cursor import BASH, ZSH
from byleave.shell.syntax.tree import Piece
from byleave.shell.word_expansion import expanded

REFUSED = [
    ("a <<E 'b\nc'\nE", BASH, "a here-document is announced on a line that ends inside a word"),
    ('a `b "c\\`"`', BASH, "backticks with escapes or quotes of their own inside"),
    ('a "`b "c"`"', BASH, "backticks with escapes or quotes of their own inside"),
    ("a ${#x-y}", BASH, "a parameter expansion of an unknown form"),
    ("if a; then b; done", BASH, "`fi` is missing here"),
    ("case x in ) a;; esac", BASH, "a pattern is missing here"),
    ("case x in a& b) c;; esac", BASH, "`)` is missing here"),
    ("a <<b\\$x\nb\n$x\n", BASH, "a here-document's delimiter of an unusual form"),
    ('[[ a "=" b ]]', BASH, "[[ .. ]] of an unknown form"),
    ("a <<E\nb\\\nc", BASH, "a here-document without an end"),
    ("a =l's'", ZSH, "=name in zsh"),
    ("a =ls", ZSH, "`=ls` means something else in zsh"),
]


@pytest.mark.parametrize(("text", "dialect", "reason"), REFUSED)
def test_what_is_refused_says_why(text: str, dialect: str, reason: str) -> None:
    reading = read_command(text, dialect=dialect)
    assert reading.problem is not None
    assert reading.problem.reason == reason


READ = [
    ("a $'\\101\\60b'", [["a", "A0b"]]),
    ("f() (a; b); c", [["a"], ["b"], ["c"]]),
    ("a <<b\\;c\n$(d)\nb;c\ne", [["a"], ["e"]]),
    ("[[ ( -f a ) ]] && b", [["b"]]),
    ("a <<< b; c < d", [["a"], ["c"]]),
]


@pytest.mark.parametrize(("text", "argv"), READ)
def test_what_is_read_lists_its_commands(text: str, argv: list[list[str]]) -> None:
    reading = read_command(text, dialect=BASH)
    assert reading.problem is None
    assert [[word.text for word in command.words] for command in reading.commands] == argv


@pytest.mark.parametrize("kind", ["home", "here"])
def test_a_word_below_a_directory_that_is_not_known_is_not_known(kind: str) -> None:
    form = (Piece(kind, ""), Piece("literal", "/x"))
    assert expanded(form, None, None) is None
    assert [word.text for word in expanded(form, "/home/me", "/home/me") or ()] == ["/home/me/x"]


@pytest.mark.parametrize(("text", "in_which"), [("zparseopts -a x", [BASH]), ("print -n", [BASH, ZSH])])
def test_what_is_a_builtin_of_zsh_alone_is_a_program_elsewhere(text: str, in_which: list[str]) -> None:
    assert [dialect for dialect in (BASH, ZSH) if read_command(text, dialect=dialect).understood] == in_which
