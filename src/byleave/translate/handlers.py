"""What a call of each kind does with what it tells.

What a call would run: texts for a shell, and lists of arguments.

Where a search would start, and which names it selects. A pattern for names can lead out of where it starts.
"""

from byleave.core.action import SearchAction, UrlAction
from byleave.translate.names import (
    FILE_SEARCH_TOOLS,
    LIST_TOOLS,
    MOST_ENDS,
    OTHER_LANGUAGES,
    TEXT_SEARCH_TOOLS,
    TREE_TOOLS,
    VERBS,
    bare,
    last_name,
)
from byleave.translate.parsed_input import DELETE, EDIT, InputText
from byleave.translate.patch import BEGIN, END, UnreadablePatchError, read_patch
from byleave.translate.paths import plain_text
from byleave.translate.shell_text import shell_of, texts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.translate.context import TranslationContext


MOST_COMMANDS = 16  # names for one command, each with another
_PATCHES = ("apply_patch", "applypatch")
_BLANKS_AND_MARKS = frozenset(" \t\n;&|<>()$`\\\"'*?[]{}~#!")


def run_command(work: "TranslationContext") -> None:
    """Run every command that is named; nothing else of the input is a file of its own."""
    told = work.told
    if not told.runs:
        work.found.doubt("it does not name the command")
    run_named(work)


def run_named(work: "TranslationContext") -> None:
    """Add the commands that the input names, and the doubts about how they would be run."""
    told = work.told
    tool = bare(work.call.tool) if isinstance(work.call.tool, str) else ""
    if any(language in tool for language in OTHER_LANGUAGES):
        work.found.doubt("its tool runs another language than a shell's")
    if not work.call.takes_directory and (told.cwds or told.directories or told.args):
        work.found.doubt("its input names what a command of this agent does not read")
    if len(told.commands) + len(told.lists) > MOST_COMMANDS:
        work.found.doubt("it names too many commands")
    for said in told.commands[:MOST_COMMANDS]:
        _run_text(work, said)
    for words in told.lists[:MOST_COMMANDS]:
        _run_words(work, (*words.words, *_given_args(work)), words.source)
    work.found.doubt_all(told.doubts_of_running)
    run_scripts(work)


def run_scripts(work: "TranslationContext") -> None:
    """Add scripts as if they were for a shell, and doubt that they are."""
    for said in work.told.scripts:
        work.run(plain_text(said.text), said.source, work.shell)
    work.found.doubt_all(work.told.doubts_of_code)


def _given_args(work: "TranslationContext") -> tuple[str, ...]:
    args = work.told.args
    if len(args) > 1:
        work.found.doubt("it gives several lists of arguments")
    return args[0].words if args else ()


def _run_text(work: "TranslationContext", said: "InputText") -> None:
    args = _given_args(work)
    if not args:
        if plain_text(said.text) != said.text or "\0" in said.text:
            work.found.doubt("its command holds characters that no command has")
        _run(work, plain_text(said.text), said.source, work.shell)
        if (script := _quoted_script(said.text)) is not None:
            work.found.doubt("its command is a whole script in quotes")
            _run(work, plain_text(script), said.source, work.shell)
        return
    if not _BLANKS_AND_MARKS.isdisjoint(said.text):
        work.found.doubt("its command is more than a name, and has arguments besides")
        _run(work, plain_text(said.text), said.source, work.shell)
    _run_words(work, (said.text, *args), said.source)


def _quoted_script(text: str) -> str | None:
    """Return the script that a command is, quoted as one word: some agents forget to take the quotes off again."""
    if not text.lstrip().startswith(("'", '"', "$'")):
        return None
    from byleave.shell.reader import read_command

    argv = [command.argv for command in read_command(text).commands]
    word = argv[0][0] if len(argv) == 1 and len(argv[0]) == 1 else None
    return word if word is not None and not _BLANKS_AND_MARKS.isdisjoint(word) else None


def _run_words(work: "TranslationContext", words: "tuple[str, ...]", source: str) -> None:
    words = tuple(plain_text(word) for word in words)
    if not words or not words[0]:
        work.found.doubt("its command is an empty list")
        return
    if not _BLANKS_AND_MARKS.isdisjoint(words[0]):
        work.found.doubt("its program has a name that a shell would read differently")
        if len(words) == 1:
            _run(work, words[0], source, work.shell)
    if any("\0" in word for word in words):
        work.found.doubt("its command holds characters that no command has")
    for text in texts_of(words):
        _run(work, text, source, "bash" if shell_of(words) == "bash" else None)
        if len(words) > 1 and (script := _quoted_script(text)) is not None:
            work.found.doubt("its command is a whole script in quotes")
            _run(work, script, source, work.shell)


def _run(work: "TranslationContext", text: str, source: str, shell: str | None) -> None:
    """Add a command. Some agents apply a patch themselves that is given like one, so that it changes files too."""
    work.run(text, source, shell)
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return
    if not before.lstrip().startswith(_PATCHES):
        work.found.doubt("its command holds a patch, and does other things besides")
    try:
        work.change(read_patch(f"{BEGIN}{rest.rpartition(END)[0]}{END}", source))
    except UnreadablePatchError:
        work.found.doubt("its command holds a patch that cannot be read")


_PATTERN_MARKS = frozenset("*?[{")
_LOOKED_FOR = ("pattern", "patterns")


def search_files(work: "TranslationContext") -> None:
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
        work.found.doubt("it does not say what it searches")
        return
    doubt_patterns(work, paths)
    starts = paths or [InputText(".", "session", anywhere=True)]
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


def _is_of_the_web(work: "TranslationContext") -> bool:
    tool = work.call.tool
    return isinstance(tool, str) and any(word in bare(tool) for word in ("web", "google", "internet"))


def _globs(work: "TranslationContext", *, starts_elsewhere: bool) -> "Iterator[str | None]":
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


def _is_one_of(work: "TranslationContext", tools: frozenset[str]) -> bool:
    tool = work.call.tool
    return isinstance(tool, str) and last_name(tool) in tools


def _names_files(work: "TranslationContext", said: InputText) -> bool:
    """Whether a pattern may select files by their names, and is not only looked for in them."""
    return said.name not in _LOOKED_FOR or not _is_one_of(work, TEXT_SEARCH_TOOLS)


def _starts_of_patterns(
    work: "TranslationContext", starts: "list[InputText]"
) -> "Iterator[tuple[InputText, str | None]]":
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
            yield InputText(beginning or "/", said.source), rest
        elif ".." in names[:marked]:
            for start in starts:
                yield InputText(f"{start.text}/{beginning}", said.source, anywhere=start.anywhere), rest


def search_trees(work: "TranslationContext", paths: "list[InputText]") -> None:
    """Add what a tool reads that takes a directory for all files in it."""
    if _is_one_of(work, TREE_TOOLS):
        for said in paths:
            for place in work.places_of(said):
                work.found.add(SearchAction(place.path))


def doubt_patterns(work: "TranslationContext", paths: "list[InputText]") -> None:
    """A path that is a pattern is many files to some. Brackets are in names of files that are there, too."""
    for said in paths:
        if _PATTERN_MARKS.isdisjoint(said.text):
            continue
        places, _ = work.places.read(said.text, anywhere=said.anywhere)
        there = all(place.absolute is not None and work.places.is_there(place.absolute) for place in places)
        if "*" in said.text or "?" in said.text or not there:
            work.found.doubt("a path may be a pattern for several files")
            return


READ, MOVE, SEARCH, EXECUTE, FETCH = "read", "move", "search", "execute", "fetch"
THINK, SWITCH_MODE, OTHER = "think", "switch_mode", "other"


def read_files(work: "TranslationContext") -> None:
    """Read every path, and what patterns for names include."""
    told = work.told
    patterns = [said for said in told.patterns if said.name not in ("pattern", "patterns")]  # what is looked for
    paths = [*told.paths, *told.directories, *told.locations, *patterns]
    doubt_patterns(work, paths)
    if not paths:
        work.found.doubt("it does not say what it reads")
    work.do(READ, paths)
    search_trees(work, paths)
    work.found.doubt_all(told.doubts_of_searching)


def edit_files(work: "TranslationContext") -> None:
    """Create or update every path, and do what patches and diffs say."""
    told = work.told
    paths = [*told.paths, *told.directories, *told.locations]
    if not paths and not told.changes:
        work.found.doubt("it does not say what it edits")
    if any("*" in said.text or "?" in said.text for said in paths):
        work.found.doubt("a path may be a pattern for several files")
    work.do(EDIT, paths)
    work.change(told.changes)
    verbs = {VERBS[said.text] for said in told.verbs}
    if DELETE in verbs:
        work.do(DELETE, paths)
    if MOVE in verbs and not told.targets:
        work.found.doubt("it does not say what it moves where")
    _move_pairs(work)


def delete_files(work: "TranslationContext") -> None:
    paths = [*work.told.paths, *work.told.directories, *work.told.locations]
    doubt_patterns(work, paths)
    if not paths or work.told.patterns:
        work.found.doubt("it does not say what it deletes")
    work.do(DELETE, paths)


def move_files(work: "TranslationContext") -> None:
    """Move what the names of the input say; where they leave open which is which, nobody knows."""
    told = work.told
    ends = {said.text for said in (*told.origins, *told.targets)}
    others = [said for said in (*told.paths, *told.directories) if said.text not in ends]
    origins = told.origins or others
    if told.origins:
        work.do(EDIT, others)
    if not origins or not told.targets:
        work.found.doubt("it does not say what it moves where")
        work.do(DELETE, origins)
        work.do(EDIT, told.targets)
    if len(origins) > 1 or len(told.targets) > 1 or (told.origins and others):
        work.found.doubt("it names more than a source and a destination")
    _move_each(work, origins, told.targets)
    work.found.doubt_all(told.doubts_of_moving)
    _explain_locations(work, [*origins, *told.targets])


def _explain_locations(work: "TranslationContext", ends: "list[InputText]") -> None:
    """A place beside the two ends of a move is touched in a way that nobody told."""
    known = {form for said in ends for form in work.forms_of(said)}
    for said in work.told.locations:
        if not work.forms_of(said) <= known:
            work.found.doubt("it names more than a source and a destination")
            work.do(EDIT, [said])


def _move_pairs(work: "TranslationContext") -> None:
    """Edits may rename: a destination beside a source, or beside a path, is a move."""
    told = work.told
    targets = [said for said in told.targets if said.name not in ("to", "target")]
    ends = {said.text for said in targets}
    origins = {said.text: said for said in (*told.paths, *told.origins) if said.text not in ends}
    _move_each(work, list(origins.values()), targets)


def _move_each(work: "TranslationContext", origins: "list[InputText]", targets: "list[InputText]") -> None:
    if targets and max(len(origins), len(targets)) > MOST_ENDS:
        work.found.doubt("it moves too much")
    for origin in origins[:MOST_ENDS]:
        for target in targets[:MOST_ENDS]:
            work.move(origin, target)


def reach_urls(work: "TranslationContext") -> None:
    """Reach every URL that the input names."""
    if not work.told.urls:
        work.found.doubt("it does not say what it fetches")
    add_urls(work)


def add_urls(work: "TranslationContext") -> None:
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


def think(work: "TranslationContext") -> None:
    work.add_other(THINK)


def switch_mode(work: "TranslationContext") -> None:
    work.add_other(SWITCH_MODE)


DEEDS: "Mapping[str, Callable[[TranslationContext], None]]" = {
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
