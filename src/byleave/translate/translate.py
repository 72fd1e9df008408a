"""From an agent's own tool call to the actions it amounts to.

The kind says what is done, the structured input to what. Everything else that the input names counts as well: a call
that says it thinks, and brings a command, runs the command. Whatever leaves open what would be done is a doubt, and a
doubt is never allowed by a rule.

Start at `translate`. What names mean: `names`. What each kind does: `handlers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.action import CallAction
from byleave.translate.context import TranslationContext
from byleave.translate.files_named import BEGIN, take_patch
from byleave.translate.handlers import (
    EXECUTE,
    FETCH,
    HANDLERS,
    MOVE,
    OTHER,
    READ,
    SEARCH,
    THINK,
    add_urls,
    run_named,
    run_scripts,
)
from byleave.translate.input_reader import agrees, read_diffs, read_input, read_json_texts, read_title
from byleave.translate.names import PATCH_TOOLS, SHELL_TOOLS, VERBS, last_name
from byleave.translate.parsed_input import DELETE, EDIT, InputText, ParsedInput
from byleave.translate.paths import plain_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.translate.call import ToolCall, Translation, Where

RAW_INPUT, LOCATIONS = "rawInput", "locations"
OPERATIONS = frozenset({*HANDLERS, OTHER})
_FILE_KINDS = frozenset({READ, EDIT, DELETE, MOVE, SEARCH})
_MCP = "mcp__"
_ANY_END = ("to", "target")  # names that need not be a destination


def translate(call: ToolCall, where: Where) -> Translation:
    """Return what a call amounts to. Never raises; what is not clear is not understood."""
    kinds = _kinds(call)
    served = server_and_tool(call)
    only_served = served is not None and not kinds
    parsed = _parse(call, with_input=not only_served)
    if parsed.sums_up and parsed.runs and kinds and EXECUTE not in kinds:
        kinds = (*kinds, EXECUTE)
    if kinds == (EXECUTE,) and not parsed.structured:
        read_title(parsed, call)
    _sort_commands(parsed, kinds)
    _sort_urls(parsed, kinds)
    context = TranslationContext(call, where, parsed, kinds)
    if kinds:
        context.result.note("kind", "kind" if call.kind in kinds else "earlier kinds")
    if served is not None:
        _call_server(context, *served)
    elif isinstance(call.tool, str) and call.tool.startswith(_MCP):
        context.result.doubt("its name is half of the name of a server's tool")
    context.result.doubt_all(parsed.doubts)  # what cannot be read explains more than what is missing then
    if only_served:
        context.change(parsed.changes)
    else:
        _handle(context)
    context.result.doubt_all(parsed.doubts)
    if not context.result:
        context.result.doubt("it does not say what it does")
        context.add_other(next((kind for kind in kinds if kind != THINK), own_name(call)))
    return context.result.translation()


def _parse(call: ToolCall, *, with_input: bool) -> ParsedInput:
    """Parse all that the call names, whatever its kind; with its input unless that is for a server."""
    parsed = ParsedInput()
    content, locations = _listed(parsed, call.content), _listed(parsed, call.locations)
    read_diffs(parsed, content)
    if not with_input:
        return parsed
    _read_locations(parsed, locations)
    if call.raw is not None and not hasattr(call.raw, "items"):
        parsed.structured = True
        parsed.doubt("its input is no object")
    elif call.raw:
        read_input(parsed, call.raw, RAW_INPUT)
    else:
        read_json_texts(parsed, content)
        values = [
            entry.text
            for entry in (*parsed.commands, *parsed.paths, *parsed.directories, *parsed.urls, *parsed.queries)
        ]
        values += [" ".join(words.words) for words in parsed.lists]
        if values and not agrees(call.title, call.tool, values):
            parsed.doubt("its title and the arguments in its content say different things")
    return parsed


def _listed(parsed: ParsedInput, value: Any) -> Sequence[Any]:
    if isinstance(value, tuple | list):
        return value
    if value is not None:
        parsed.doubt("its content or its locations are no list")
    return ()


def _read_locations(parsed: ParsedInput, locations: Sequence[Any]) -> None:
    for each in locations:
        path = each.get("path") if isinstance(each, dict) else None
        if not isinstance(path, str) or not path:
            parsed.doubt("one of its locations names no file")
            return
        if not parsed.keep(parsed.locations, InputText(path, LOCATIONS)):
            return


def _kinds(call: ToolCall) -> tuple[str, ...]:
    """Return the kinds that say something, each once: the call's own and those it was given before."""
    earlier: Any = call.kinds  # nothing of a call is checked
    given = (call.kind, *earlier) if isinstance(earlier, tuple | list) else (call.kind,)
    return tuple(dict.fromkeys(kind for kind in given if isinstance(kind, str) and kind in HANDLERS))


def _sort_commands(parsed: ParsedInput, kinds: tuple[str, ...]) -> None:
    """Separate commands for a shell from patches and from the verbs of editors, which come under the same name."""
    verbs = [entry for entry in parsed.commands if entry.text in VERBS]
    if parsed.paths and not {READ, EDIT}.isdisjoint(kinds):
        parsed.verbs += verbs
    if EXECUTE in kinds:
        return
    for words in [each for each in parsed.lists if each.words[:1] in (("apply_patch",), ("applypatch",))]:
        parsed.lists.remove(words)
        for text in words.words[1:]:
            take_patch(parsed, text, words.source)
    for entry in [each for each in parsed.commands if each.text.lstrip().startswith(BEGIN)]:
        parsed.commands.remove(entry)
        take_patch(parsed, entry.text, entry.source)
    if parsed.paths and not {READ, EDIT}.isdisjoint(kinds):
        parsed.commands = [entry for entry in parsed.commands if entry not in verbs]


def _sort_urls(parsed: ParsedInput, kinds: tuple[str, ...]) -> None:
    """A file: address is a path, unless something is fetched."""
    if FETCH in kinds:
        return
    for entry in [each for each in parsed.urls if each.text.startswith("file://")]:
        parsed.urls.remove(entry)
        parsed.keep(parsed.paths, entry)


def server_and_tool(call: ToolCall) -> tuple[str, str] | None:
    """Return the server and the tool on it that a tool's name consists of, if it does."""
    if not isinstance(call.tool, str) or not call.tool.startswith(_MCP):
        return None
    server, _, tool = plain_text(call.tool.removeprefix(_MCP)).partition("__")
    return (server, tool) if server and tool else None


def _call_server(context: TranslationContext, server: str, tool: str) -> None:
    raw = context.call.raw
    arguments = dict(raw) if raw is not None and hasattr(raw, "items") else None
    if arguments is None:
        context.result.doubt("it does not name the arguments of the call")
    context.result.note("tool", "tool")
    context.result.add(CallAction(server, tool, arguments, respelled=True))


def _handle(context: TranslationContext) -> None:
    kinds = context.kinds or _infer(context)
    for kind in kinds:
        HANDLERS[kind](context)
    if not kinds:
        _do_other(context)
    if EXECUTE not in kinds:
        _do_commands(context, kinds)
    _do_files(context, kinds)
    if context.parsed.urls and FETCH not in kinds:
        if kinds:
            context.result.doubt("it names an address, though its kind is another")
        add_urls(context)


def _infer(context: TranslationContext) -> tuple[str, ...]:
    """Return the kinds of a call that gave none, by what it names. The name of an unknown tool counts, too."""
    parsed, tool = context.parsed, context.call.tool
    name = last_name(tool) if isinstance(tool, str) else ""
    kinds = []
    if parsed.runs:
        kinds.append(EXECUTE)
        if name and name not in SHELL_TOOLS:
            context.add_other(own_name(context.call))
        if parsed.paths:
            context.result.doubt("it names a command and files, and does not say what it does with them")
            context.do(EDIT if any(entry.text in VERBS for entry in parsed.commands) else READ, parsed.paths)
    if parsed.changes:
        kinds.append(EDIT)
        if name and not parsed.shows_diff and name not in PATCH_TOOLS:
            context.add_other(own_name(context.call))
    if kinds:
        context.result.note("kind", "input")
    return tuple(kinds)


def _do_other(context: TranslationContext) -> None:
    """Add a call of which at best the name is known."""
    name = own_name(context.call)
    context.add_other(name)
    if name == OTHER:
        context.result.doubt("it does not say what it does")
    else:
        context.result.note("tool", "tool")


def _do_commands(context: TranslationContext, kinds: Sequence[str]) -> None:
    """Add commands that come with another kind."""
    if context.parsed.runs:
        context.result.doubt("it names a command, though its kind is another")
        run_named(context)
    elif EDIT not in kinds:
        run_scripts(context)


def _do_files(context: TranslationContext, kinds: Sequence[str]) -> None:
    """Add what is named of files though the kind, if there is one, does not touch them, or not so."""
    parsed = context.parsed
    if parsed.changes and EDIT not in kinds:
        context.result.doubt("it names changes of files, though its kind is another")
        context.change(parsed.changes)
    if EDIT not in kinds and parsed.paths and any(VERBS[entry.text] not in (READ, *kinds) for entry in parsed.verbs):
        context.result.doubt("it says that it changes files, though its kind is another")
        context.do(EDIT, parsed.paths)
    if EXECUTE in kinds or not _FILE_KINDS.isdisjoint(kinds):
        if not {READ, DELETE, SEARCH}.isdisjoint(kinds) and any(entry.name not in _ANY_END for entry in parsed.targets):
            context.result.doubt("it names a destination, though its kind moves nothing")
        return
    paths = [*parsed.paths, *parsed.directories, *parsed.locations]
    if paths:
        context.result.doubt("it names files, and does not say what it does with them")
        context.do(EDIT if FETCH in kinds else READ, paths)


def own_name(call: ToolCall) -> str:
    """Return the tool's own name; one that is a kind of operation would be taken for that operation."""
    tool = plain_text(call.tool).strip() if isinstance(call.tool, str) else ""
    return tool if tool and tool not in OPERATIONS else OTHER
