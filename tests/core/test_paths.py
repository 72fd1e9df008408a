"""What a path's text alone says: absolute, climbing, or spelled in a way nobody should trust."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byleave.core.fs_rules import RefusedPath
from byleave.core.paths import collapse, is_absolute, names_process_link, refuse_input, refuse_name

names = st.sampled_from(["a", "b", ".", "..", "", "...", ".a", "a.", "..a"])
relative = st.lists(names, max_size=8).map("/".join).filter(lambda text: not text.startswith("/"))


@given(relative)
def test_a_path_collapses_as_the_standard_library_says_or_climbs_out(text: str) -> None:
    normal = os.path.normpath(text)
    climbs = normal == ".." or normal.startswith("../")
    assert collapse(text) == (None if climbs else "" if normal == "." else normal)


@given(st.text(max_size=40))
def test_any_text_is_refused_or_could_be_a_name(text: str) -> None:
    if refuse_name(text) is None:
        raw = os.fsencode(text)
        assert b"\0" not in raw
        assert b"\n" not in raw
        assert b":" not in raw


@pytest.mark.parametrize(
    "text", ["/", "/x", "//x", "\\", "\\x", "\\\\srv\\share", "C:\\", "c:/x", "Z:\\x", "/\0", "\\??\\C:\\x"]
)
def test_rooted_text_is_absolute_on_some_system(text: str) -> None:
    assert is_absolute(text)
    assert (refuse_input(text) or RefusedPath("", "")).code == "absolute"


@pytest.mark.parametrize("text", ["", ".", "x", "x/y", "~", "~/x", "C", "C:", "C:x", "\u00e9:/x", "1:/x", ".\\x"])
def test_other_text_is_not_absolute(text: str) -> None:
    assert not is_absolute(text)


REFUSED = {
    "a control character": ["a\nb", "\0", "a\x1b[2J", "\x7f", "\x85", "a/\r"],
    "half a character": ["\ud800", "x/\udfff", "\udc7f"],
    "longer than": ["x" * 256, "\u20ac" * 86, "x/" * 3000, "\udcff" * 256],
    "a colon": ["a:b", "C:x", "f::$DATA", ":", "a/b:c/d"],
    "a device": ["nul", "NUL", "a/Con", "aux.c", "COM1", "com\u00b9", "lpt9.txt", "prn .txt", "CONIN$", "a/nul/b"],
}


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in REFUSED.items() for text in texts])
def test_a_name_nobody_should_trust_is_refused_with_its_reason(why: str, text: str) -> None:
    refused = refuse_name(text)
    assert refused is not None
    assert (refused.code, why in refused.problem) == ("denied", True)
    assert refused.problem.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "x" * 255,
        "\u20ac" * 85,
        "\udcff",
        "com0",
        "com10",
        "console",
        "null",
        "a\\b",
        "\u202e",
        "~",
        "a~1",
        "%2e",
    ],
)
def test_an_odd_but_honest_name_is_a_name(text: str) -> None:
    assert refuse_name(text) is None


PROCESS_LINKS = {
    "/proc/self/cwd": True,
    "/proc/self/task/12/cwd/x": True,
    "/proc/7/task/7/fd/3": True,
    "/proc/7/task/7/task/8/root": True,
    "/proc/7/task": False,
    "/proc/7/task/7": False,
    "/proc/7/task/7/status": False,
    "/proc/7/fd": False,
    "/proc/thread-self/status": True,
    "/proc/meminfo": False,
    "/dev/fd/3": True,
    "/dev/stdin": True,
    "/dev/null": False,
    "/home/proc/self/cwd": False,
}


@pytest.mark.parametrize("path", PROCESS_LINKS)
def test_a_link_of_a_process_or_of_its_thread_is_known_by_its_name(path: str) -> None:
    assert names_process_link(path) is PROCESS_LINKS[path]
