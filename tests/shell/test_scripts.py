"""What scripts of sed and awk do beyond reading; one that breaks off, or that programs read differently, executes."""

import pytest

from byleave.shell.knowledge.scripts import EXECUTES, WRITES, awk_danger, sed_danger

SED: dict[str, str | None] = {
    "$p": None,
    "$!N": None,
    "1,+2p": None,
    "0~4p": None,
    "/[[:alpha:]]/p": None,
    "/a/Ip": None,
    "{p;}": None,
    "a text": None,
    "y/a/b/": None,
    "s/a/b/w x": WRITES,
    "s/a/b/e": EXECUTES,
    "1,+p": EXECUTES,
    "1,~p": EXECUTES,
    "1,p": EXECUTES,
    "1~p": EXECUTES,
    "/abc": EXECUTES,
    "/a\np/p": EXECUTES,
    "/[[:al/p": EXECUTES,
    "/[\\]]/p": EXECUTES,
    "p}": EXECUTES,
    "{p": EXECUTES,
    "a": EXECUTES,
    "c}": EXECUTES,
    ":": EXECUTES,
}
AWK: dict[str, str | None] = {
    "/[]a]/": None,
    "/[^]a]/ {print}": None,
    "/a[/]b/": None,
    "{print} # system(x)": None,
    "# only words": None,
    "# words\n{system(x)}": EXECUTES,
    "{x = 1 / 2 / 3}": None,
    '{print > "f"}': WRITES,
    "/abc": EXECUTES,
    '{print "a\\\nb"}': EXECUTES,
    '{print "a': EXECUTES,
    f"BEGIN {{{'a/b/c;' * 4000}}}": EXECUTES,
}


@pytest.mark.parametrize("script", SED)
def test_what_a_sed_script_does_is_known_or_it_executes(script: str) -> None:
    assert sed_danger(script) == SED[script]


@pytest.mark.parametrize("script", AWK, ids=lambda script: script[:20])
def test_what_an_awk_script_does_is_known_or_it_executes(script: str) -> None:
    assert awk_danger(script) == AWK[script]
