"""Where a search would start. A pattern for names can lead out of the directory that is searched."""

from byleave.core.action import SearchAction
from byleave.translate.names import TEXT_SEARCH_TOOLS, bare
from byleave.translate.places import plain_text
from byleave.translate.told import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from byleave.translate.work import Work

_PATTERN_MARKS = frozenset("*?[{")


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
    text = None if query is None else plain_text(query.text)
    for said in [*starts, *_starts_of_patterns(work, starts)]:
        work.found.note("path", said.source)
        for place in work.places_of(said):
            work.found.add(SearchAction(place.path, text))
    work.found.doubt_all(told.doubts_of_searching)


def _is_of_the_web(work: "Work") -> bool:
    tool = work.call.tool
    return isinstance(tool, str) and any(word in bare(tool) for word in ("web", "google", "internet"))


def _starts_of_patterns(work: "Work", starts: "list[Said]") -> "list[Said]":
    """Return where patterns for names begin that lead out of where the search starts."""
    tool = work.call.tool
    greps = isinstance(tool, str) and bare(tool) in TEXT_SEARCH_TOOLS
    found = []
    for said in work.told.patterns:
        if greps and said.name == "pattern":
            continue  # it is looked for in files, and names none
        names = said.text.split("/")
        marked = next((at for at, name in enumerate(names) if not _PATTERN_MARKS.isdisjoint(name)), len(names))
        if ".." in names[marked:] or "{/" in said.text or ",/" in said.text or "{~" in said.text:
            work.found.doubt("a pattern may lead out of the directory that is searched")
        beginning = "/".join(names[:marked])
        if said.text.startswith(("/", "~")):
            found.append(Said(beginning or "/", said.source))
        elif ".." in names[:marked]:
            found += [Said(f"{start.text}/{beginning}", said.source, anywhere=start.anywhere) for start in starts]
    return found


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
