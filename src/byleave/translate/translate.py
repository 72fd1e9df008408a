"""From an agent's own tool call to the actions it amounts to.

The kind says what is done, the structured input to what. Everything else that the input names counts as well: a call
that says it thinks, and brings a command, runs the command. Whatever leaves open what would be done is a doubt, and a
doubt is never allowed by a rule.

Start at `meaning`. What names mean: `names`. What each kind does: `deeds`.
"""

from byleave.core.action import CallAction
from byleave.translate.context import TranslationContext
from byleave.translate.files_named import take_patch
from byleave.translate.handlers import (
    DEEDS,
    EXECUTE,
    FETCH,
    MOVE,
    OTHER,
    READ,
    SEARCH,
    THINK,
    add_urls,
    run_named,
    run_scripts,
)
from byleave.translate.input_reader import read_input
from byleave.translate.names import PATCH_TOOLS, SHELL_TOOLS, VERBS, last_name
from byleave.translate.parsed_input import DELETE, EDIT, InputText, ParsedInput
from byleave.translate.patch import BEGIN
from byleave.translate.paths import plain_text
from byleave.translate.texts import agrees, read_diffs, read_json_texts, read_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from byleave.translate.call import Meaning, ToolCall, Where

RAW_INPUT, LOCATIONS = "rawInput", "locations"
OPERATIONS = frozenset({*DEEDS, OTHER})
_FILE_KINDS = frozenset({READ, EDIT, DELETE, MOVE, SEARCH})
_MCP = "mcp__"
_ANY_END = ("to", "target")  # names that need not be a destination


def meaning(call: "ToolCall", where: "Where") -> "Meaning":
    """Return what a call amounts to. Never raises; what cannot be told is not understood."""
    kinds = _kinds(call)
    served = server_and_tool(call)
    only_served = served is not None and not kinds
    told = _hear(call, with_input=not only_served)
    if told.sums_up and told.runs and kinds and EXECUTE not in kinds:
        kinds = (*kinds, EXECUTE)
    if kinds == (EXECUTE,) and not told.structured:
        read_title(told, call)
    _sort_commands(told, kinds)
    _sort_urls(told, kinds)
    work = TranslationContext(call, where, told, kinds)
    if kinds:
        work.found.note("kind", "kind" if call.kind in kinds else "earlier kinds")
    if served is not None:
        _call_server(work, *served)
    if only_served:
        work.change(told.changes)
    else:
        _do_all(work)
    work.found.doubt_all(told.doubts)
    if not work.found:
        work.found.doubt("it does not say what it does")
        work.add_other(next((kind for kind in kinds if kind != THINK), own_name(call)))
    return work.found.meaning()


def _hear(call: "ToolCall", *, with_input: bool) -> ParsedInput:
    """Take in all that the call tells, whatever its kind; its input only where that is for us to read."""
    told = ParsedInput()
    content, locations = _listed(told, call.content), _listed(told, call.locations)
    read_diffs(told, content)
    if not with_input:
        return told
    _read_locations(told, locations)
    if call.raw is not None and not hasattr(call.raw, "items"):
        told.structured = True
        told.doubt("its input is no object")
    elif call.raw:
        read_input(told, call.raw, RAW_INPUT)
    else:
        read_json_texts(told, content)
        values = [said.text for said in (*told.commands, *told.paths, *told.directories, *told.urls, *told.queries)]
        values += [" ".join(words.words) for words in told.lists]
        if values and not agrees(call.title, call.tool, values):
            told.doubt("its title and the arguments in its content say different things")
    return told


def _listed(told: ParsedInput, value: "Any") -> "Sequence[Any]":
    if isinstance(value, tuple | list):
        return value
    if value is not None:
        told.doubt("its content or its locations are no list")
    return ()


def _read_locations(told: ParsedInput, locations: "Sequence[Any]") -> None:
    for each in locations:
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str) or not path:
            told.doubt("one of its locations names no file")
            return
        if not told.keep(told.locations, InputText(path, LOCATIONS)):
            return


def _kinds(call: "ToolCall") -> tuple[str, ...]:
    """Return the kinds that say something, each once: the call's own and those it was given before."""
    earlier: Any = call.kinds  # nothing of a call is checked
    given = (call.kind, *earlier) if isinstance(earlier, tuple | list) else (call.kind,)
    return tuple(dict.fromkeys(kind for kind in given if isinstance(kind, str) and kind in DEEDS))


def _sort_commands(told: ParsedInput, kinds: tuple[str, ...]) -> None:
    """Tell commands for a shell from patches, and from the verbs of editors, that come under the same name."""
    verbs = [said for said in told.commands if said.text in VERBS]
    if told.paths and not {READ, EDIT}.isdisjoint(kinds):
        told.verbs += verbs
    if EXECUTE in kinds:
        return
    for words in [each for each in told.lists if each.words[:1] in (("apply_patch",), ("applypatch",))]:
        told.lists.remove(words)
        for text in words.words[1:]:
            take_patch(told, text, words.source)
    for said in [each for each in told.commands if each.text.lstrip().startswith(BEGIN)]:
        told.commands.remove(said)
        take_patch(told, said.text, said.source)
    if told.paths and not {READ, EDIT}.isdisjoint(kinds):
        told.commands = [said for said in told.commands if said not in verbs]


def _sort_urls(told: ParsedInput, kinds: tuple[str, ...]) -> None:
    """A file: address is a path, unless something is fetched."""
    if FETCH in kinds:
        return
    for said in [each for each in told.urls if each.text.startswith("file://")]:
        told.urls.remove(said)
        told.keep(told.paths, said)


def server_and_tool(call: "ToolCall") -> tuple[str, str] | None:
    """Return the server and the tool on it that a tool's name consists of, if it does."""
    if not isinstance(call.tool, str) or not call.tool.startswith(_MCP):
        return None
    server, _, tool = plain_text(call.tool.removeprefix(_MCP)).partition("__")
    return (server, tool) if server and tool else None


def _call_server(work: TranslationContext, server: str, tool: str) -> None:
    raw = work.call.raw
    arguments = dict(raw) if raw is not None and hasattr(raw, "items") else None
    if arguments is None:
        work.found.doubt("it does not name the arguments of the call")
    work.found.note("tool", "tool")
    work.found.add(CallAction(server, tool, arguments, respelled=True))


def _do_all(work: TranslationContext) -> None:
    kinds = work.kinds or _infer(work)
    for kind in kinds:
        DEEDS[kind](work)
    if not kinds:
        _do_other(work)
    if EXECUTE not in kinds:
        _do_commands(work, kinds)
    _do_files(work, kinds)
    if work.told.urls and FETCH not in kinds:
        if kinds:
            work.found.doubt("it names an address, though its kind is another")
        add_urls(work)


def _infer(work: TranslationContext) -> tuple[str, ...]:
    """Return the kinds of a call that gave none, by what it names. A tool nobody knows is judged by its name too."""
    told, tool = work.told, work.call.tool
    name = last_name(tool) if isinstance(tool, str) else ""
    kinds = []
    if told.runs:
        kinds.append(EXECUTE)
        if name and name not in SHELL_TOOLS:
            work.add_other(own_name(work.call))
        if told.paths:
            work.found.doubt("it names a command and files, and does not say what it does with them")
            work.do(EDIT if any(said.text in VERBS for said in told.commands) else READ, told.paths)
    if told.changes:
        kinds.append(EDIT)
        if name and not told.shows_diff and name not in PATCH_TOOLS:
            work.add_other(own_name(work.call))
    if kinds:
        work.found.note("kind", "input")
    return tuple(kinds)


def _do_other(work: TranslationContext) -> None:
    """Add a call of which at best the name is known."""
    name = own_name(work.call)
    work.add_other(name)
    if name == OTHER or name.startswith(_MCP):
        work.found.doubt("it does not say what it does")
    else:
        work.found.note("tool", "tool")


def _do_commands(work: TranslationContext, kinds: "Sequence[str]") -> None:
    """Add commands that come with another kind."""
    if work.told.runs:
        work.found.doubt("it names a command, though its kind is another")
        run_named(work)
    elif EDIT not in kinds:
        run_scripts(work)


def _do_files(work: TranslationContext, kinds: "Sequence[str]") -> None:
    """Add what is named of files though the kind, if there is one, does not touch them, or not so."""
    told = work.told
    if told.changes and EDIT not in kinds:
        work.found.doubt("it names changes of files, though its kind is another")
        work.change(told.changes)
    if EDIT not in kinds and told.paths and any(VERBS[said.text] not in (READ, *kinds) for said in told.verbs):
        work.found.doubt("it says that it changes files, though its kind is another")
        work.do(EDIT, told.paths)
    if EXECUTE in kinds or not _FILE_KINDS.isdisjoint(kinds):
        if not {READ, DELETE, SEARCH}.isdisjoint(kinds) and any(said.name not in _ANY_END for said in told.targets):
            work.found.doubt("it names a destination, though its kind moves nothing")
        return
    paths = [*told.paths, *told.directories, *told.locations]
    if paths:
        work.found.doubt("it names files, and does not say what it does with them")
        work.do(EDIT if FETCH in kinds else READ, paths)


def own_name(call: "ToolCall") -> str:
    """Return the tool's own name; one that is a kind of operation would be taken for that operation."""
    tool = plain_text(call.tool).strip() if isinstance(call.tool, str) else ""
    return tool if tool and tool not in OPERATIONS else OTHER
