"""One handler for each kind of call: add the actions that the parsed input amounts to.

`HANDLERS` at the end is the table, from a kind to its handler. Commands are texts for a shell or lists of arguments.
A search has a start and patterns for names; a pattern can lead out of the directory where the search starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.action import SearchAction, UrlAction
from byleave.translate.call import FETCHES_PROMPT, KNOWS_TYPES
from byleave.translate.files_named import BEGIN, END, UnreadablePatchError, read_patch
from byleave.translate.name_patterns import FILE_TYPES, PATTERN_MARKS, beginning, may_lead_out
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
from byleave.translate.paths import plain_text
from byleave.translate.prompt_addresses import read_prompts
from byleave.translate.shell_text import shell_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.translate.context import TranslationContext


MOST_COMMANDS = 16  # names for one command, each with another
_PATCHES = ("apply_patch", "applypatch")
_REWRITTEN = frozenset("$`\\\"'")  # what a shell takes out of a text, unless all of it is quoted
_BLANKS_AND_MARKS = frozenset(" \t\n;&|<>()$`\\\"'*?[]{}~#!")


def run_command(context: TranslationContext) -> None:
    """Run every command that is named; nothing else of the input is a file of its own."""
    parsed = context.parsed
    if not parsed.runs:
        context.result.doubt("it does not name the command")
    run_named(context)


def run_named(context: TranslationContext) -> None:
    """Add the commands that the input names, and the doubts about how they would be run."""
    parsed = context.parsed
    tool = bare(context.call.tool) if isinstance(context.call.tool, str) else ""
    if any(language in tool for language in OTHER_LANGUAGES):
        context.result.doubt("its tool runs another language than a shell's")
    if not context.call.takes_directory and (parsed.cwds or parsed.directories or parsed.args):
        context.result.doubt("its input names what a command of this agent does not read")
    if len(parsed.commands) + len(parsed.lists) > MOST_COMMANDS:
        context.result.doubt("it names too many commands")
    for entry in parsed.commands[:MOST_COMMANDS]:
        _run_text(context, entry)
    for words in parsed.lists[:MOST_COMMANDS]:
        _run_words(context, (*words.words, *_given_args(context)), words.source)
    context.result.doubt_all(parsed.doubts_of_running)
    run_scripts(context)


def run_scripts(context: TranslationContext) -> None:
    """Add scripts as if they were for a shell, and doubt that they are."""
    for entry in context.parsed.scripts:
        context.run(plain_text(entry.text), entry.source, context.shell)
    context.result.doubt_all(context.parsed.doubts_of_code)


def _given_args(context: TranslationContext) -> tuple[str, ...]:
    args = context.parsed.args
    if len(args) > 1:
        context.result.doubt("it gives several lists of arguments")
    return args[0].words if args else ()


def _run_text(context: TranslationContext, entry: InputText) -> None:
    args = _given_args(context)
    if not args:
        if plain_text(entry.text) != entry.text or "\0" in entry.text:
            context.result.doubt("its command holds characters that no command has")
        _run(context, plain_text(entry.text), entry.source, context.shell)
        if (script := _quoted_script(entry.text)) is not None:
            context.result.doubt("its command is a whole script in quotes")
            _run(context, plain_text(script), entry.source, context.shell)
        return
    if not _BLANKS_AND_MARKS.isdisjoint(entry.text):
        context.result.doubt("its command is more than a name, and has arguments besides")
        _run(context, plain_text(entry.text), entry.source, context.shell)
    _run_words(context, (entry.text, *args), entry.source)


def _quoted_script(text: str) -> str | None:
    """Return the script that a command is, quoted as one word: some agents forget to take the quotes off again."""
    if not text.lstrip().startswith(("'", '"', "$'")):
        return None
    from byleave.shell.reader import read_command  # heavy: only commands need it

    argv = [command.argv for command in read_command(text).commands]
    word = argv[0][0] if len(argv) == 1 and len(argv[0]) == 1 else None
    return word if word is not None and not _BLANKS_AND_MARKS.isdisjoint(word) else None


def _run_words(context: TranslationContext, words: tuple[str, ...], source: str) -> None:
    words = tuple(plain_text(word) for word in words)
    if not words or not words[0]:
        context.result.doubt("its command is an empty list")
        return
    if not _BLANKS_AND_MARKS.isdisjoint(words[0]):
        context.result.doubt("its program has a name that a shell would read differently")
        if len(words) == 1:
            _run(context, words[0], source, context.shell)
    if any("\0" in word for word in words):
        context.result.doubt("its command holds characters that no command has")
    for text in texts_of(words):
        _run(context, text, source, "bash" if shell_of(words) == "bash" else None)
        if len(words) > 1 and (script := _quoted_script(text)) is not None:
            context.result.doubt("its command is a whole script in quotes")
            _run(context, script, source, context.shell)


def _run(context: TranslationContext, text: str, source: str, shell: str | None) -> None:
    """Add a command. Some agents apply a patch themselves that is given like one, so that it changes files too."""
    context.run(text, source, shell)
    before, mark, rest = text.partition(BEGIN)
    if not mark:
        return
    if not before.lstrip().startswith(_PATCHES):
        context.result.doubt("its command holds a patch, and does other things besides")
    try:
        changes = read_patch(f"{BEGIN}{rest.rpartition(END)[0]}{END}", source)
    except UnreadablePatchError:
        context.result.doubt("its command holds a patch that cannot be read")
        return
    if any(not _REWRITTEN.isdisjoint(change.path + change.to) for change in changes):
        context.result.doubt("its command holds a patch whose names a shell may read in another way")
    context.change(changes)


_LOOKED_FOR = ("pattern", "patterns")


def search_files(context: TranslationContext) -> None:
    """Search below every path, or below the working directory where the input names none."""
    parsed = context.parsed
    paths = [*parsed.paths, *parsed.directories, *parsed.locations]
    query = next((entry for entry in (*parsed.queries, *parsed.patterns)), None)
    if query is not None:
        context.result.note("query", query.source)
    if not paths and _is_of_the_web(context):
        context.result.doubt("it searches elsewhere than in files")
        return
    if not paths and not parsed.structured:
        context.result.doubt("it does not say what it searches")
        return
    doubt_patterns(context, paths)
    starts = paths or [InputText(".", "session", anywhere=True)]
    if query is None and _is_one_of(context, LIST_TOOLS):  # names are listed, and no file is read
        context.do("read", starts)
        return
    text = None if query is None else plain_text(query.text)
    globs = [*_globs(context, starts_elsewhere=bool(paths))] or [None]
    for entry, glob in [*((start, glob) for start in starts for glob in globs), *_starts_of_patterns(context, starts)]:
        if context.result.is_full:
            return
        context.result.note("path", entry.source)
        for place in context.places_of(entry):
            context.result.add(SearchAction(place.path, text, glob=glob))
    context.result.doubt_all(parsed.doubts_of_searching)


def _is_of_the_web(context: TranslationContext) -> bool:
    tool = context.call.tool
    return isinstance(tool, str) and any(word in bare(tool) for word in ("web", "google", "internet"))


def _globs(context: TranslationContext, *, starts_elsewhere: bool) -> Iterator[str | None]:
    """Yield the patterns that select files by their names; None where all of them may be selected.

    A `pattern` is looked for in files by some tools, and selects names for others: a tool that is not known may do the
    former, in all files.
    """
    by_name = _is_one_of(context, FILE_SEARCH_TOOLS)
    for entry in context.parsed.patterns:
        if entry.name in _LOOKED_FOR and not by_name:
            continue
        text = plain_text(entry.text)
        yield text if by_name or not starts_elsewhere else _from_anywhere(text)
    if KNOWS_TYPES in context.call.ways and all(entry.name in _LOOKED_FOR for entry in context.parsed.patterns):
        yield FILE_TYPES.get(_type_of(context))


def _given(context: TranslationContext) -> Mapping[Any, Any]:
    """Return the structured input; nothing where it is no object."""
    raw: Any = context.call.raw  # nothing of a call is checked
    return raw if hasattr(raw, "items") else {}


def _type_of(context: TranslationContext) -> str:
    """Return the type of files that a search is for, "" if it names none or several."""
    given = [value for key, value in _given(context).items() if isinstance(key, str) and bare(key) == "type"]
    return given[0] if len(given) == 1 and isinstance(given[0], str) else ""


def _from_anywhere(glob: str) -> str | None:
    """Return what a pattern selects if its first names count from elsewhere than where the search starts."""
    if glob.startswith("!"):
        return glob if "/" not in glob or glob.startswith("!**/") else None
    return glob.rpartition("/")[2] or None


def _is_one_of(context: TranslationContext, tools: frozenset[str]) -> bool:
    tool = context.call.tool
    return isinstance(tool, str) and last_name(tool) in tools


def _names_files(context: TranslationContext, entry: InputText) -> bool:
    """Whether a pattern may select files by their names, and is not only looked for in them."""
    return entry.name not in _LOOKED_FOR or not _is_one_of(context, TEXT_SEARCH_TOOLS)


def _starts_of_patterns(context: TranslationContext, starts: list[InputText]) -> Iterator[tuple[InputText, str | None]]:
    """Yield where patterns for names begin that lead out of where the search starts, each with the rest of it."""
    by_name = _is_one_of(context, FILE_SEARCH_TOOLS)
    for entry in context.parsed.patterns:
        if not _names_files(context, entry):
            continue
        if may_lead_out(entry.text, surely_names=by_name or entry.name not in _LOOKED_FOR):
            context.result.doubt("a pattern may lead out of the directory that is searched")
        found = beginning(entry.text)
        if found is None:
            continue
        place, rest = found
        if not place or place.startswith(("/", "~")):
            yield InputText(place or "/", entry.source), rest
            continue
        for start in starts:
            yield InputText(f"{start.text}/{place}", entry.source, anywhere=start.anywhere), rest


def search_trees(context: TranslationContext, paths: list[InputText]) -> None:
    """Add what a tool reads that takes a directory for all files in it."""
    if _is_one_of(context, TREE_TOOLS):
        for entry in paths:
            for place in context.places_of(entry):
                context.result.add(SearchAction(place.path))


def read_matches(context: TranslationContext, entry: InputText) -> None:
    """Add what a tool reads that takes a pattern for all files that it matches, from the working directory on."""
    if may_lead_out(entry.text, surely_names=True) or entry.text.startswith("!") or "\\" in entry.text:
        context.result.doubt("a pattern may lead out of the directory that is searched")
    place, rest = beginning(entry.text) or ("", None)
    start = InputText(place or ".", entry.source, anywhere=not place)
    context.result.note("path", entry.source)
    for found in context.places_of(start):
        context.result.add(SearchAction(found.path, glob=rest or plain_text(entry.text)))


def _is_there(context: TranslationContext, entry: InputText) -> bool:
    """Whether a pattern is no more than the name of something, or has no marks of a pattern."""
    if PATTERN_MARKS.isdisjoint(entry.text):
        return True
    places, _ = context.places.read(entry.text, anywhere=entry.anywhere)
    return all(place.absolute is not None and context.places.is_there(place.absolute) for place in places)


def doubt_patterns(context: TranslationContext, paths: list[InputText]) -> None:
    """A path that is a pattern is many files to some. Brackets are in names of files that are there, too."""
    for entry in paths:
        if PATTERN_MARKS.isdisjoint(entry.text):
            continue
        places, _ = context.places.read(entry.text, anywhere=entry.anywhere)
        there = all(place.absolute is not None and context.places.is_there(place.absolute) for place in places)
        if "*" in entry.text or "?" in entry.text or not there:
            context.result.doubt("a path may be a pattern for several files")
            return


READ, MOVE, SEARCH, EXECUTE, FETCH = "read", "move", "search", "execute", "fetch"
THINK, SWITCH_MODE, OTHER = "think", "switch_mode", "other"


def read_files(context: TranslationContext) -> None:
    """Read every path, and what patterns for names include."""
    parsed = context.parsed
    patterns = [entry for entry in parsed.patterns if entry.name not in _LOOKED_FOR]
    several = [entry for entry in patterns if _is_one_of(context, TREE_TOOLS) and not _is_there(context, entry)]
    paths = [*parsed.paths, *parsed.directories, *parsed.locations, *(one for one in patterns if one not in several)]
    if not paths and hasattr(context.call.raw, "items") and _is_one_of(context, LIST_TOOLS):
        paths = [InputText(".", "session", anywhere=True)]
    doubt_patterns(context, paths)
    if not paths and not several:
        context.result.doubt("it does not say what it reads")
    context.do(READ, paths)
    search_trees(context, paths)
    for entry in several:
        read_matches(context, entry)
    context.result.doubt_all(parsed.doubts_of_searching)


def edit_files(context: TranslationContext) -> None:
    """Create or update every path, and do what patches and diffs say."""
    parsed = context.parsed
    paths = [*parsed.paths, *parsed.directories, *parsed.locations]
    if not paths and not parsed.changes:
        context.result.doubt("it does not say what it edits")
    if any("*" in entry.text or "?" in entry.text for entry in paths):
        context.result.doubt("a path may be a pattern for several files")
    context.do(EDIT, paths)
    context.change(parsed.changes)
    verbs = {VERBS[entry.text] for entry in parsed.verbs}
    if DELETE in verbs:
        context.do(DELETE, paths)
    if MOVE in verbs and not parsed.targets:
        context.result.doubt("it does not say what it moves where")
    _move_pairs(context)


def delete_files(context: TranslationContext) -> None:
    paths = [*context.parsed.paths, *context.parsed.directories, *context.parsed.locations]
    doubt_patterns(context, paths)
    if not paths or context.parsed.patterns:
        context.result.doubt("it does not say what it deletes")
    context.do(DELETE, paths)


def move_files(context: TranslationContext) -> None:
    """Move what the names of the input say; where they leave open which is which, that is a doubt."""
    parsed = context.parsed
    ends = {entry.text for entry in (*parsed.origins, *parsed.targets)}
    others = [entry for entry in (*parsed.paths, *parsed.directories) if entry.text not in ends]
    origins = parsed.origins or others
    if parsed.origins:
        context.do(EDIT, others)
    if not origins or not parsed.targets:
        context.result.doubt("it does not say what it moves where")
        context.do(DELETE, origins)
        context.do(EDIT, parsed.targets)
    if len(origins) > 1 or len(parsed.targets) > 1 or (parsed.origins and others):
        context.result.doubt("it names more than a source and a destination")
    _move_each(context, origins, parsed.targets)
    context.result.doubt_all(parsed.doubts_of_moving)
    _explain_locations(context, [*origins, *parsed.targets])


def _explain_locations(context: TranslationContext, ends: list[InputText]) -> None:
    """A place beside the two ends of a move is touched in a way that the input does not describe."""
    known = {form for entry in ends for form in context.forms_of(entry)}
    for entry in context.parsed.locations:
        if not context.forms_of(entry) <= known:
            context.result.doubt("it names more than a source and a destination")
            context.do(EDIT, [entry])


def _move_pairs(context: TranslationContext) -> None:
    """Edits may rename: a destination beside a source, or beside a path, is a move."""
    parsed = context.parsed
    targets = [entry for entry in parsed.targets if entry.name not in ("to", "target")]
    ends = {entry.text for entry in targets}
    origins = {entry.text: entry for entry in (*parsed.paths, *parsed.origins) if entry.text not in ends}
    _move_each(context, list(origins.values()), targets)


def _move_each(context: TranslationContext, origins: list[InputText], targets: list[InputText]) -> None:
    if targets and max(len(origins), len(targets)) > MOST_ENDS:
        context.result.doubt("it moves too much")
    for origin in origins[:MOST_ENDS]:
        for target in targets[:MOST_ENDS]:
            context.move(origin, target)


def reach_urls(context: TranslationContext) -> None:
    """Reach every URL that the input names."""
    if FETCHES_PROMPT in context.call.ways:
        read_prompts(context.parsed, _given(context))
    if not context.parsed.urls:
        context.result.doubt("it does not say what it fetches")
    add_urls(context)


def add_urls(context: TranslationContext) -> None:
    parsed = context.parsed
    methods: list[str | None] = [plain_text(entry.text) for entry in parsed.methods]
    for entry in parsed.methods:
        context.result.note("method", entry.source)
    if parsed.sends and not methods:
        context.result.doubt("it sends something, and does not say how")
    for entry in parsed.urls:
        context.result.note("url", entry.source)
        for method in methods or [None]:
            context.result.add(UrlAction(plain_text(entry.text), method))
    context.result.doubt_all(parsed.doubts_of_fetching)


def think(context: TranslationContext) -> None:
    context.add_other(THINK)


def switch_mode(context: TranslationContext) -> None:
    context.add_other(SWITCH_MODE)


HANDLERS: Mapping[str, Callable[[TranslationContext], None]] = {
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
