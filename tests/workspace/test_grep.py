"""Searching a project, in memory and on disk: the same answers over open files and in a sandbox."""

import os
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

import amounts
from byleave.errors import RequestError
from byleave.protocol.jsonrpc import INVALID_PARAMS
from byleave.workspace import grep
from byleave.workspace import grep as searching
from byleave.workspace.in_memory import ProjectInMemory
from byleave.workspace.on_disk import ProjectOnDisk
from byleave.workspace.project import FileLine, FileMatches, Query
from byleave.workspace.resolve import Root
from search_scene import Scene, clear, needs_ripgrep, paths, plant, scene, without_ripgrep


def everything(_path: str) -> bool:
    return True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have each test search both with and without ripgrep, but for those that compare all ways themselves."""
    if "both" not in metafunc.fixturenames:
        metafunc.parametrize("_searched_with", ["ripgrep", "no ripgrep"], indirect=True)


@pytest.fixture(autouse=True)
def _searched_with(request: pytest.FixtureRequest) -> Iterator[None]:
    with without_ripgrep() if getattr(request, "param", None) == "no ripgrep" else nullcontext():
        yield


def found(files: Mapping[str, bytes | str], query: Query) -> list[FileMatches]:
    return list(ProjectInMemory(files).grep(query, everything))


def test_lines_are_numbered_and_shown_without_their_ends() -> None:
    assert found({"a": "one\ntwo\r\nthree"}, Query("t")) == [
        FileMatches("a", (FileLine(2, "two", matches=True), FileLine(3, "three", matches=True)))
    ]


def test_context_is_given_once_however_close_matches_are() -> None:
    (matches,) = found(
        {"a": "".join(f"{'hit' if n in (2, 4, 9) else n}\n" for n in range(12))}, Query("hit", context=1)
    )
    assert [(line.number, line.matches) for line in matches.lines] == [
        *[(2, False), (3, True), (4, False), (5, True), (6, False)],
        *[(9, False), (10, True), (11, False)],
    ]


def test_files_come_sorted_by_path_and_once() -> None:
    files: dict[str, bytes | str] = {"b/x": "hit", "a/y": "hit", "a/b/z": "hit", "a.txt": "hit"}
    assert paths(found(files, Query("hit", ("b", "a", "a/y", ".")))) == ["a.txt", "a/b/z", "a/y", "b/x"]


def test_repositories_own_files_and_binary_ones_are_not_searched() -> None:
    files: dict[str, bytes | str] = {".git/config": "hit", "sub/.GIT/x": "hit", "a": b"hit\n\0", ".github/x": "hit"}
    assert paths(found(files, Query("hit"))) == [".github/x"]
    assert found(files, Query("hit", (".git", ".git/config"))) == []


def test_only_files_that_may_be_read_are_opened() -> None:
    asked: list[str] = []

    def only_a(path: str) -> bool:
        asked.append(path)
        return path == "a"

    project = ProjectInMemory({"a": "hit", "b/c": "hit", "d.txt": "hit"})
    assert (paths(list(project.grep(Query("hit"), only_a))), sorted(asked)) == (["a"], ["a", "b/c", "d.txt"])


def test_text_with_a_mark_is_searched_without_it() -> None:
    text = "h\u00e9t"
    marked = {"u16le": text.encode("utf-16"), "u16be": b"\xfe\xff" + text.encode("utf-16-be")}
    files: dict[str, bytes | str] = {**marked, "u8": b"\xef\xbb\xbf" + text.encode(), "latin": text.encode("latin-1")}
    expected = (FileLine(1, text, matches=True),)
    assert found(files, Query("^h.t$")) == [FileMatches(name, expected) for name in ("u16be", "u16le", "u8")]


REFUSED = [
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    r"(a)\1",
    "a\nb",
    "a\0",
    "[a",
    "(",
    ")",
    "*",
    "\\",
    r"\pX",
    "\ud800",
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(RequestError, match="the pattern cannot be used") as caught:
        found({"a": "text"}, Query(pattern))
    assert caught.value.number == INVALID_PARAMS


def test_without_ripgrep_braces_that_count_nothing_are_letters() -> None:
    with without_ripgrep():
        assert paths(found({"a": "a{2", "b": "aa"}, Query("a{2"))) == ["a"]


def test_many_matches_with_many_lines_around_them_take_no_longer_than_the_lines() -> None:
    text = "hit\n" * 30_000
    (matches,) = found({"a": text}, Query("hit", context=searching.MOST_CONTEXT))
    assert len(matches.lines) == 30_000


def test_a_pattern_is_read_also_where_there_is_nothing_to_search() -> None:
    with pytest.raises(RequestError, match="the pattern cannot be used"):
        found({}, Query("("))


def test_more_files_than_are_open_at_once_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_MOST_OPEN", 3)
    files: dict[str, bytes | str] = {f"f{number}": f"hit {number}" for number in range(10)}
    before = len(os.listdir("/proc/self/fd"))
    assert paths(found(files, Query(r"\d"))) == sorted(files)
    assert len(os.listdir("/proc/self/fd")) == before


def test_results_have_a_limit_which_the_error_names() -> None:
    with pytest.raises(RequestError) as caught:
        found({"a": "hit\n" * (grep.LARGEST_RESULT // 64)}, Query("hit"))
    assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": grep.LARGEST_RESULT})


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        (Query("x", ("a",) * (searching.MOST_PATHS + 1)), searching.MOST_PATHS),
        (Query("x", context=searching.MOST_CONTEXT + 1), searching.MOST_CONTEXT),
        (Query("x", context=-1), searching.MOST_CONTEXT),
        (Query("x" * (grep.LONGEST_PATTERN + 1)), grep.LONGEST_PATTERN),
    ],
)
def test_questions_have_limits(query: Query, limit: int) -> None:
    with pytest.raises(RequestError) as caught:
        found({"a": "x"}, query)
    assert (caught.value.number, caught.value.data) == (INVALID_PARAMS, {"limit": limit})


@pytest.mark.parametrize("extension", ["", ".", "a/b", "*", "{py,rs}", "!py", "p[y]", "a b", "\0", "py\n", "..\\x"])
def test_an_extension_is_letters_not_a_pattern(extension: str) -> None:
    with pytest.raises(RequestError) as caught:
        found({"a.py": "x"}, Query("x", extensions=(extension,)))
    assert caught.value.number == INVALID_PARAMS


def test_extensions_end_names() -> None:
    files = dict.fromkeys(("a.py", ".py", "py", "b.tar.gz", "c.PY", "d.py/e", "f.c++"), "x")
    assert paths(found(files, Query("x", extensions=("py", ".tar.gz", "c++")))) == [".py", "a.py", "b.tar.gz", "f.c++"]
    assert paths(found(files, Query("x", ("py", "a.py"), extensions=("py",)))) == ["a.py"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYLEAVE_HOME", str(tmp_path_factory.mktemp("home")))
        with scene(tmp_path_factory.mktemp("searched").resolve()) as built:
            yield built


TREE: dict[str, bytes | str] = {
    "plain.txt": "foo\nbar\nfoobar\n\n  indented\tfoo\n",
    "no-end.txt": "foo\nlast",
    "crlf.txt": "foo\r\nbar\r\n\r\nfoo bar\r\n",
    "mac.txt": "foo\rbar\r",
    "empty.txt": "",
    "newlines.txt": "\n\n\n",
    "latin.txt": b"caf\xe9 foo\n\xff\xfe\n",
    "unicode.txt": "caf\u00e9 \u65e5\u672c foo\n\u2028\u0085\n",
    "bom8.txt": b"\xef\xbb\xbffoo\nbar\n",
    "bom16le.txt": "foo\ncaf\u00e9\n".encode("utf-16"),
    "bom16be.txt": b"\xfe\xff" + "foo\n".encode("utf-16-be"),
    "bom16odd.txt": b"\xff\xfef\0o\0o\0\n",
    "surrogates.txt": b"\xff\xfef\0\x00\xd8o\0\n\0\x00\xdcx\0",
    "bom32.txt": "foo\n".encode("utf-32"),
    "binary.bin": b"foo\n\0",
    "late.bin": b"foo\n" * 40_000 + b"\0",
    ".hidden": "foo\n",
    ".gitignore": "*.txt\n",
    ".ignore": "*.txt\n",
    ".git/config": "foo\n",
    "sub/.git": "foo\n",
    "sub/.Git/x": "foo\n",
    "sub/dir.py/inner.txt": "foo\n",
    "sub/code.py": "def foo():\n    return 'foo'\n",
    "sub/deep/er/x.py": "import foo\n",
    "-e": "foo\n",
    "long.txt": "x" * 300_000 + "foo\n" + "y" * 200_000,
}
PATTERNS = [
    *[
        "foo",
        "^foo",
        "foo$",
        "^foo$",
        "^$",
        "^",
        "$",
        "",
        "foo|bar",
        "f(oo|u)",
        "(?:foo)+",
        "fo{2}",
        "o{1,}",
        ".",
        ".*",
    ],
    *[
        "^.{3}$",
        "foo.bar",
        r"foo\rbar",
        r"\r$",
        "caf.",
        "caf\u00e9",
        "[^f]oo",
        "[^a-z]",
        r"[\x{80}-\x{10ffff}]",
        "\u65e5.",
    ],
    *[
        "--pre=sh",
        "-e",
        "-",
        "[[:space:]]foo",
        "[[:alpha:]]+bar",
        r"\.",
        r"\x66oo",
        "(?P<word>foo)",
        "(?U)fo+",
        "a|",
        "|a",
    ],
    *["}", "]", "foo()", "x{1000}foo", "\ufffd", "[]f]oo", "[f-]oo", r"\tfoo", r"\(\)"],
]


@pytest.mark.sampled(3)
@needs_ripgrep
@pytest.mark.parametrize("context", [0, pytest.param(1, marks=amounts.slow), 3])
def test_both_ways_find_the_same_in_a_tree_of_oddities(both: Scene, context: int) -> None:
    clear(both.root)
    plant(both.root, TREE)
    for pattern in amounts.some(PATTERNS, every=4, first=1 if context else 0):
        both.both(Query(pattern, context=context), everything)
    assert "late.bin" not in paths(both.both(Query("foo"), everything))


@needs_ripgrep
def test_both_ways_find_the_same_in_some_places_of_that_tree(both: Scene) -> None:
    clear(both.root)
    plant(both.root, TREE)
    for pattern in PATTERNS:
        both.both(Query(pattern, ("sub", "-e", "binary.bin", "sub/code.py", ".git"), ("py", "txt")), everything)


ASCII_PATTERNS = [
    *[r"\bfoo\b", r"\w+\s\w+", r"^\s*$", r"\S", r"\D", r"\W", r"\Bo", r"[\w.]+\(", r"[^\s]", r"\d*", r"\p{Lu}", r"\PL"],
    *["(?i)FOO", "(?i)[F]oo", "(?i:K)", "(?-i)foo", "(?i)[[:upper:]]oo", "(?i)[^f]oo", r"(?i)\bdef", r"[[:^alpha:]]"],
]


@needs_ripgrep
@pytest.mark.parametrize("pattern", ASCII_PATTERNS)
def test_both_ways_find_the_same_by_classes(both: Scene, pattern: str) -> None:
    clear(both.root)
    plant(both.root, {name: TREE[name] for name in ("plain.txt", "crlf.txt", "newlines.txt", "sub/code.py", "mac.txt")})
    both.both(Query(pattern, context=1), everything)


def test_a_walk_passes_over_links_and_what_cannot_be_read(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "root"
    plant(root, {"a/x": "hit", "b/y": "hit"})
    (tmp_path / "outside").write_text("hit")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "a" / "loop").symlink_to(root)
    with (root / "sparse").open("wb") as file:
        file.truncate(2 << 30)
    assert paths(list(ProjectOnDisk(Root.at(str(root))).grep(Query("hit"), everything))) == ["a/x", "b/y"]
