"""Where a search would start, and which names it selects. A pattern for names can lead out of where it starts."""

from byleave.core.action import SearchAction
from byleave.translate.names import FILE_SEARCH_TOOLS, LIST_TOOLS, TEXT_SEARCH_TOOLS, TREE_TOOLS, bare, last_name
from byleave.translate.places import plain_text
from byleave.translate.told import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.translate.work import Work

_PATTERN_MARKS = frozenset("*?[{")
_LOOKED_FOR = ("pattern", "patterns")


def search_files(work: "Work") -> None:
    """Search below every path, or below the working directory where the input names none."""
    told = work.told
    paths = [*told.paths, *told.directories, *told.locations]
    query = next((said for said in (*told.queries, *told.patterns)), None)
    if query is not None:
        work.found.note("query", query.source)
    if not paths and _is_of_the_web(work):
        work.found.doubt("it searches elsewhere than in files")
        return
    if not paths and not told.structured:
        work.found.doubt("it does not tell what would be searched")
        return
    doubt_patterns(work, paths)
    starts = paths or [Said(".", "session", anywhere=True)]
    if query is None and _is_one_of(work, LIST_TOOLS):  # names are listed, and no file is read
        work.do("read", starts)
        return
    text = None if query is None else plain_text(query.text)
    globs = [*_globs(work, starts_elsewhere=bool(paths))] or [None]
    for said, glob in [*((start, glob) for start in starts for glob in globs), *_starts_of_patterns(work, starts)]:
        if work.found.is_full:
            return
        work.found.note("path", said.source)
        for place in work.places_of(said):
            work.found.add(SearchAction(place.path, text, glob=glob))
    work.found.doubt_all(told.doubts_of_searching)


def _is_of_the_web(work: "Work") -> bool:
    tool = work.call.tool
    return isinstance(tool, str) and any(word in bare(tool) for word in ("web", "google", "internet"))


def _globs(work: "Work", *, starts_elsewhere: bool) -> "Iterator[str | None]":
    """Yield the patterns that select files by their names; None where all of them may be selected.

    A `pattern` is looked for in files by some tools, and selects names for others: a tool that is not known may do the
    former, in all files.
    """
    by_name = _is_one_of(work, FILE_SEARCH_TOOLS)
    for said in work.told.patterns:
        if said.name in _LOOKED_FOR and not by_name:
            continue
        text = plain_text(said.text)
        yield text if by_name or not starts_elsewhere else _from_anywhere(text)


def _from_anywhere(glob: str) -> str | None:
    """Return what a pattern selects if its first names count from elsewhere than where the search starts."""
    if glob.startswith("!"):
        return glob if "/" not in glob or glob.startswith("!**/") else None
    return glob.rpartition("/")[2] or None


def _is_one_of(work: "Work", tools: frozenset[str]) -> bool:
    tool = work.call.tool
    return isinstance(tool, str) and last_name(tool) in tools


def _names_files(work: "Work", said: Said) -> bool:
    """Whether a pattern may select files by their names, and is not only looked for in them."""
    return said.name not in _LOOKED_FOR or not _is_one_of(work, TEXT_SEARCH_TOOLS)


def _starts_of_patterns(work: "Work", starts: "list[Said]") -> "Iterator[tuple[Said, str | None]]":
    """Yield where patterns for names begin that lead out of where the search starts, each with the rest of it."""
    for said in work.told.patterns:
        if not _names_files(work, said):
            continue
        names = said.text.split("/")
        marked = next((at for at, name in enumerate(names) if not _PATTERN_MARKS.isdisjoint(name)), len(names))
        if ".." in names[marked:] or "{/" in said.text or ",/" in said.text or "{~" in said.text:
            work.found.doubt("a pattern may lead out of the directory that is searched")
        beginning, rest = "/".join(names[:marked]), plain_text("/".join(names[marked:])) or None
        if said.text.startswith(("/", "~")):
            yield Said(beginning or "/", said.source), rest
        elif ".." in names[:marked]:
            for start in starts:
                yield Said(f"{start.text}/{beginning}", said.source, anywhere=start.anywhere), rest


def search_trees(work: "Work", paths: "list[Said]") -> None:
    """Add what a tool reads that takes a directory for all files in it."""
    if _is_one_of(work, TREE_TOOLS):
        for said in paths:
            for place in work.places_of(said):
                work.found.add(SearchAction(place.path))


def doubt_patterns(work: "Work", paths: "list[Said]") -> None:
    """A path that is a pattern is many files to some. Brackets are in names of files that are there, too."""
    for said in paths:
        if _PATTERN_MARKS.isdisjoint(said.text):
            continue
        places, _ = work.places.read(said.text, anywhere=said.anywhere)
        there = all(place.absolute is not None and work.places.is_there(place.absolute) for place in places)
        if "*" in said.text or "?" in said.text or not there:
            work.found.doubt("a path may be a pattern for several files")
            return
