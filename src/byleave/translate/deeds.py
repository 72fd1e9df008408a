"""What a call of each kind does with what it tells."""

from byleave.core.action import UrlAction
from byleave.translate.names import MOST_ENDS, VERBS
from byleave.translate.places import plain_text
from byleave.translate.running import run_command
from byleave.translate.searching import doubt_patterns, search_files, search_trees
from byleave.translate.told import DELETE, EDIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.translate.told import Said
    from byleave.translate.work import Work

READ, MOVE, SEARCH, EXECUTE, FETCH = "read", "move", "search", "execute", "fetch"
THINK, SWITCH_MODE, OTHER = "think", "switch_mode", "other"


def read_files(work: "Work") -> None:
    """Read every path, and what patterns for names include."""
    told = work.told
    patterns = [said for said in told.patterns if said.name not in ("pattern", "patterns")]  # what is looked for
    paths = [*told.paths, *told.directories, *told.locations, *patterns]
    doubt_patterns(work, paths)
    if not paths:
        work.found.doubt("it does not tell what would be read")
    work.do(READ, paths)
    search_trees(work, paths)
    work.found.doubt_all(told.doubts_of_searching)


def edit_files(work: "Work") -> None:
    """Create or update every path, and do what patches and diffs say."""
    told = work.told
    paths = [*told.paths, *told.directories, *told.locations]
    if not paths and not told.changes:
        work.found.doubt("it does not tell what would be edited")
    if any("*" in said.text or "?" in said.text for said in paths):
        work.found.doubt("a path may be a pattern for several files")
    work.do(EDIT, paths)
    work.change(told.changes)
    verbs = {VERBS[said.text] for said in told.verbs}
    if DELETE in verbs:
        work.do(DELETE, paths)
    if MOVE in verbs and not told.targets:
        work.found.doubt("it does not tell what would be moved where")
    _move_pairs(work)


def delete_files(work: "Work") -> None:
    paths = [*work.told.paths, *work.told.directories, *work.told.locations]
    doubt_patterns(work, paths)
    if not paths or work.told.patterns:
        work.found.doubt("it does not tell what would be deleted")
    work.do(DELETE, paths)


def move_files(work: "Work") -> None:
    """Move what the names of the input say; where they leave open which is which, nobody knows."""
    told = work.told
    ends = {said.text for said in (*told.origins, *told.targets)}
    others = [said for said in (*told.paths, *told.directories) if said.text not in ends]
    origins = told.origins or others
    if told.origins:
        work.do(EDIT, others)
    if not origins or not told.targets:
        work.found.doubt("it does not tell what would be moved where")
        work.do(DELETE, origins)
        work.do(EDIT, told.targets)
    if len(origins) > 1 or len(told.targets) > 1 or (told.origins and others):
        work.found.doubt("it names more than what is moved, and where")
    _move_each(work, origins, told.targets)
    work.found.doubt_all(told.doubts_of_moving)
    _explain_locations(work, [*origins, *told.targets])


def _explain_locations(work: "Work", ends: "list[Said]") -> None:
    """A place beside the two ends of a move is touched in a way that nobody told."""
    known = {form for said in ends for form in work.forms_of(said)}
    for said in work.told.locations:
        if not work.forms_of(said) <= known:
            work.found.doubt("it names more than what is moved, and where")
            work.do(EDIT, [said])


def _move_pairs(work: "Work") -> None:
    """Edits may rename: a destination beside a source, or beside a path, is a move."""
    told = work.told
    targets = [said for said in told.targets if said.name not in ("to", "target")]
    ends = {said.text for said in targets}
    origins = {said.text: said for said in (*told.paths, *told.origins) if said.text not in ends}
    _move_each(work, list(origins.values()), targets)


def _move_each(work: "Work", origins: "list[Said]", targets: "list[Said]") -> None:
    if targets and max(len(origins), len(targets)) > MOST_ENDS:
        work.found.doubt("it moves too much")
    for origin in origins[:MOST_ENDS]:
        for target in targets[:MOST_ENDS]:
            work.move(origin, target)


def reach_urls(work: "Work") -> None:
    """Reach every URL that the input names."""
    if not work.told.urls:
        work.found.doubt("it does not tell what would be fetched")
    add_urls(work)


def add_urls(work: "Work") -> None:
    told = work.told
    methods: list[str | None] = [plain_text(said.text) for said in told.methods]
    for said in told.methods:
        work.found.note("method", said.source)
    if told.sends and not methods:
        work.found.doubt("it sends something, and does not say how")
    for said in told.urls:
        work.found.note("url", said.source)
        for method in methods or [None]:
            work.found.add(UrlAction(plain_text(said.text), method))
    work.found.doubt_all(told.doubts_of_fetching)


def think(work: "Work") -> None:
    work.add_other(THINK)


def switch_mode(work: "Work") -> None:
    work.add_other(SWITCH_MODE)


DEEDS: "Mapping[str, Callable[[Work], None]]" = {
    READ: read_files,
    EDIT: edit_files,
    DELETE: delete_files,
    MOVE: move_files,
    SEARCH: search_files,
    EXECUTE: run_command,
    FETCH: reach_urls,
    THINK: think,
    SWITCH_MODE: switch_mode,
}
