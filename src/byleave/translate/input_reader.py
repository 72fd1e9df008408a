"""Read what a call brings: its structured input, and the diffs, JSON texts and commands in its title and content.

All of it counts. Two names for one thing are two things to decide on, a value of an unexpected type is a doubt, and so
is what lies deeper than agents put it. What a name means: `names`. How the value of each name is read: `READERS` here.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from byleave.text import shown
from byleave.translate import names
from byleave.translate.files_named import (
    begins_as_patch,
    looks_like_patch,
    read_diff,
    read_edits,
    read_paths,
    take_patch,
)
from byleave.translate.names import (
    ARGS,
    COMMAND,
    DIRECTORY,
    ENV,
    INPUT,
    PATH,
    PLACEHOLDERS,
    URL,
    WRAPPER,
    bare,
    role_of,
)
from byleave.translate.parsed_input import (
    DELETE,
    EDIT,
    RUNNING,
    ArgumentList,
    FileChange,
    InputText,
    hides_something,
    is_empty,
)
from byleave.translate.paths import plain_text
from byleave.translate.shell_text import known_shell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from byleave.translate.parsed_input import ParsedInput

    Reader = Callable[[ParsedInput, Any, InputText], None]
    from collections.abc import Iterator, Sequence

    from byleave.translate.call import ToolCall
    from byleave.translate.parsed_input import ParsedInput


MOST_VARIABLES = 10_000
_LONGEST_HEADER = 200


def _texts(which: Callable[[ParsedInput], list[InputText]]) -> Reader:
    """Read a text, or several."""

    def read(parsed: ParsedInput, value: Any, key: InputText) -> None:
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str):
                parsed.doubt(f"{key.source} is no text")
                return
            if each and not parsed.keep(which(parsed), InputText(each, key.source)):
                return

    return read


def _command(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if isinstance(value, str):
        parsed.keep(parsed.commands, InputText(value, key.source))
    elif _is_words(value):
        parsed.keep(parsed.lists, ArgumentList(tuple(value), key.source))
    else:
        parsed.doubt(f"{key.source} is neither a text nor a list of texts")


def _commands(parsed: ParsedInput, value: Any, key: InputText) -> None:
    parsed.doubt(f"{key.source} may be one command or several")
    _texts(lambda parsed: parsed.commands)(parsed, value, key)


def _args(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if _is_words(value):
        parsed.keep(parsed.args, ArgumentList(tuple(value), key.source))
        return
    parsed.doubts_of_running.append(f"{key.source} is no list of texts")
    _doubt_depths(parsed, value, key)


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _paths(parsed: ParsedInput, value: Any, key: InputText) -> None:
    read_paths(parsed, value, key.source, several=key.text.endswith("s"))


def _verb(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if isinstance(value, str) and value.lower() in names.VERBS:
        parsed.keep(parsed.verbs, InputText(value.lower(), key.source))


def _patch(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if isinstance(value, str):
        take_patch(parsed, value, key.source)
    else:
        parsed.doubt(f"{key.source} is no text")


def _input(parsed: ParsedInput, value: Any, key: InputText) -> None:
    """A patch, or what is typed into a program that runs."""
    if isinstance(value, str) and begins_as_patch(value):
        take_patch(parsed, value, key.source)
        return
    parsed.doubts_of_running.append(f"{key.source} is handed to what runs")
    _doubt_depths(parsed, value, key)
    if isinstance(value, str) and looks_like_patch(value):
        parsed.doubt(f"{key.source} may be a patch, and cannot be read as one")


def _stdin(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if isinstance(value, str) or value is True:
        parsed.doubts_of_code.append(f"{key.source} is handed to what runs")


def _code(parsed: ParsedInput, _value: Any, key: InputText) -> None:
    parsed.doubts_of_code.append(f"{key.source} is code, and no command for a shell")


def _script(parsed: ParsedInput, value: Any, key: InputText) -> None:
    parsed.doubts_of_code.append(f"{key.source} may be in any language")
    if isinstance(value, str):
        parsed.keep(parsed.scripts, InputText(value, key.source))


def _shell(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if not isinstance(value, bool) and not (isinstance(value, str) and known_shell(value)):
        parsed.doubts_of_running.append(f"{key.source} names what reads the command, and it is no shell we know")


def _env(parsed: ParsedInput, value: Any, key: InputText) -> None:
    """Doubt what runs where a variable changes that."""
    from byleave.shell.knowledge.option_values import harmless_assignment  # heavy: only commands need it

    pairs = _pairs(value)
    if pairs is None or len(pairs) > MOST_VARIABLES:
        parsed.doubts_of_running.append(f"{key.source} is no table of variables")
        return
    for name, content in pairs:
        text = content if isinstance(content, str) else None
        if not isinstance(name, str) or not harmless_assignment(name, text):
            parsed.doubts_of_running.append(f"{key.source} sets a variable that changes what runs")
            return


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """Return names and values of a table, of a list of objects, or of a list of NAME=value."""
    if isinstance(value, dict):
        return list(value.items())
    if not isinstance(value, list):
        return None
    if all(isinstance(each, dict) for each in value):
        return [(each.get("name"), each.get("value")) for each in value]
    if all(isinstance(each, str) for each in value):
        return [(each.partition("=")[0], each.partition("=")[2]) for each in value]
    return None


def _rights(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if value is not False:
        parsed.doubts_of_running.append(f"{key.source} runs it as another user")


def _unheld(parsed: ParsedInput, value: Any, _key: InputText) -> None:
    if value is not False and value != "use_default":
        parsed.doubts_of_running.append("it would leave the agent's own sandbox, of which rules say nothing")


def _headers(parsed: ParsedInput, value: Any, key: InputText) -> None:
    """A header can send a request elsewhere than its address says."""
    given = list(value) if isinstance(value, dict) else [str(each) for each in value] if isinstance(value, list) else []
    if not given or any("host" in str(name)[:_LONGEST_HEADER].lower() for name in given):
        parsed.doubts_of_fetching.append(f"{key.source} may send it elsewhere")


def _method(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if isinstance(value, str):
        parsed.keep(parsed.methods, InputText(value, key.source))
    else:
        parsed.doubts_of_fetching.append(f"{key.source} is no text")


def _body(parsed: ParsedInput, value: Any, key: InputText) -> None:
    parsed.sends = True
    if hides_something(value):
        parsed.doubts_of_running.append(f"{key.source} holds more than is understood")


def _pattern(parsed: ParsedInput, value: Any, key: InputText) -> None:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, str):
            parsed.doubts_of_searching.append(f"{key.source} is no text")
            return
        if each and not parsed.keep(parsed.patterns, InputText(each, key.source, names.bare(key.text), anywhere=True)):
            return


def _query(parsed: ParsedInput, value: Any, key: InputText) -> None:
    words = value if isinstance(value, list) else [value]
    if all(isinstance(each, str) for each in words):
        parsed.keep(parsed.queries, InputText(" ".join(words), key.source))
    else:
        parsed.doubts_of_searching.append(f"{key.source} is no text")


def _summary(parsed: ParsedInput, _value: Any, _key: InputText) -> None:
    parsed.sums_up = True


def _grant(parsed: ParsedInput, _value: Any, key: InputText) -> None:
    parsed.doubt(f"{key.source} asks for more than this one call")


def _end(which: Callable[[ParsedInput], list[InputText]]) -> Reader:
    """Read one end of a move. Where nothing is moved, a name that is not too vague still names a path."""

    def read(parsed: ParsedInput, value: Any, key: InputText) -> None:
        texts = value if isinstance(value, list) else [value]
        for each in islice(texts, names.MOST_ENDS):
            if not isinstance(each, str):
                parsed.doubts_of_moving.append(f"{key.source} is no text")
                _doubt_depths(parsed, value, key)
                return
            name = names.bare(key.text)
            entry = InputText(each, key.source, name, anywhere=True)
            parsed.keep(which(parsed), entry)
            if name not in names.VAGUE:
                parsed.keep(parsed.paths, entry)
        if len(texts) > names.MOST_ENDS:
            parsed.doubt(f"{key.source} names too many paths")

    return read


def _doubt_depths(parsed: ParsedInput, value: Any, key: InputText) -> None:
    if hides_something(value):
        parsed.doubt(f"{key.source} holds more than is understood")


READERS: Mapping[str | None, Reader] = {
    names.COMMAND: _command,
    names.COMMANDS: _commands,
    names.ARGS: _args,
    names.CWD: _texts(lambda parsed: parsed.cwds),
    names.ROOT: _texts(lambda parsed: parsed.roots),
    names.DIRECTORY: _texts(lambda parsed: parsed.directories),
    names.PATH: _paths,
    names.EDITS: lambda parsed, value, key: read_edits(parsed, value, key.source),
    names.URL: _texts(lambda parsed: parsed.urls),
    names.METHOD: _method,
    names.BODY: _body,
    names.QUERY: _query,
    names.PATTERN: _pattern,
    names.ENV: _env,
    names.SHELL: _shell,
    names.STDIN: _stdin,
    names.INPUT: _input,
    names.CODE: _code,
    names.SCRIPT: _script,
    names.PATCH: _patch,
    names.DIFF: lambda parsed, value, key: read_diff(parsed, value, key.source),
    names.ORIGIN: _end(lambda parsed: parsed.origins),
    names.TARGET: _end(lambda parsed: parsed.targets),
    names.RIGHTS: _rights,
    names.HEADERS: _headers,
    names.UNHELD: _unheld,
    names.GRANT: _grant,
    names.VERB: _verb,
    names.SUMMARY: _summary,
}

MOST_NAMES = 10_000  # of one object
LONGEST_JSON = 1 << 20  # characters of arguments as JSON text
_LONGEST_LABEL = 80
_LONGEST_PATH = 4096


def read_input(parsed: ParsedInput, tree: Mapping[Any, Any], source: str, *, nested: bool = False) -> None:
    """Take in one object of arguments; one inside it that only wraps them is read as well."""
    parsed.structured = True
    if len(tree) > MOST_NAMES:
        parsed.doubt(f"its input has more than {MOST_NAMES} names")
    for key, value in islice(tree.items(), MOST_NAMES):
        if not isinstance(key, str):
            parsed.doubt("its input has a name that is no text")
        elif not is_empty(value):
            _read_member(parsed, key, value, source, nested=nested)


def read_json(text: str) -> dict[str, Any]:
    """Return the object that a text is; `ValueError` if it is none, too long, or gives a name twice."""
    if len(text) > LONGEST_JSON:
        raise ValueError("too long")
    try:
        tree = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(tree, dict):
        raise ValueError("no object")  # noqa: TRY004 -- it is the text that is wrong
    return tree


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name is given twice")
    return read


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _read_member(parsed: ParsedInput, key: str, value: Any, source: str, *, nested: bool) -> None:
    role, guessed = role_of(key)
    place = f"{source}.{shown(key[:_LONGEST_LABEL])}"
    if guessed and role != ENV:
        _guess(parsed, role, value, place)
    elif role in (ARGS, INPUT, WRAPPER) and _is_wrapped(value):
        _unwrap(parsed, value, place, nested=nested)
    elif role in READERS:
        READERS[role](parsed, value, InputText(key, place))
    elif role is None:
        if hides_something(value):
            parsed.doubt(f"{place} holds more than is understood")
        if hides_something(value, RUNNING):
            parsed.doubts_of_running.append(f"{place} may change what runs")


def _is_wrapped(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))


def _unwrap(parsed: ParsedInput, value: Any, place: str, *, nested: bool) -> None:
    try:
        tree = value if isinstance(value, dict) else read_json(value)
    except ValueError:
        parsed.doubt(f"{place} cannot be read")
        return
    if not nested:
        read_input(parsed, tree, place, nested=True)
    elif hides_something(tree):
        parsed.doubt(f"{place} holds more than is understood")


def _guess(parsed: ParsedInput, role: str | None, value: Any, place: str) -> None:
    """Take in what a name seems to mean by its end; only texts count, and one of several lines is no path."""
    if hides_something(value):
        parsed.doubt(f"{place} holds more than is understood")
    texts = value if isinstance(value, list) else [value]
    for text in [each for each in islice(texts, MOST_NAMES) if isinstance(each, str) and each]:
        if role == COMMAND:
            parsed.doubt(f"{place} may be a command of its own")
        elif "\n" in text or len(text) > _LONGEST_PATH:
            parsed.doubt(f"{place} may be a path, and cannot be one")
            continue
        entry = InputText(text, place, anywhere=role == PATH)
        if role == DIRECTORY:
            parsed.keep(parsed.roots, entry)
        if not parsed.keep(_GUESSED[role](parsed), entry):
            return


_GUESSED: Mapping[str | None, Callable[[ParsedInput], list[InputText]]] = {
    COMMAND: lambda parsed: parsed.commands,
    PATH: lambda parsed: parsed.paths,
    DIRECTORY: lambda parsed: parsed.directories,
    URL: lambda parsed: parsed.urls,
}


CONTENT, TITLE = "content", "title"
MOST_BLOCKS = 1000
_DIRECTORY_MARKS = ("[current working directory ", "[in ")
_CUT = ("…", "...")
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def read_diffs(parsed: ParsedInput, content: Sequence[Any]) -> None:
    """Take in the files whose changes are shown."""
    for block in content[:MOST_BLOCKS]:
        if not isinstance(block, dict) or block.get("type") != "diff":
            continue
        path = block.get("path")
        if not isinstance(path, str) or not path:
            parsed.doubt("a diff in its content names no file")
            continue
        parsed.shows_diff = True
        parsed.keep(parsed.changes, FileChange(EDIT, path, "", CONTENT))
        meta = block.get("_meta")
        if isinstance(meta, dict) and meta.get("kind") == DELETE:
            parsed.keep(parsed.changes, FileChange(DELETE, path, "", CONTENT))
    if len(content) > MOST_BLOCKS:
        parsed.doubt(f"its content has more than {MOST_BLOCKS} blocks")


def read_json_texts(parsed: ParsedInput, content: Sequence[Any]) -> None:
    """Take in arguments that stand in the content as JSON."""
    for text in texts(content):
        inside = _unfenced(text)
        if not inside.startswith("{"):
            continue
        try:
            read_input(parsed, read_json(inside), CONTENT)
        except ValueError:
            parsed.structured = True
            parsed.doubt("its content holds arguments that cannot be read")


def texts(content: Sequence[Any]) -> Iterator[str]:
    """Yield the texts of a content."""
    for block in content[:MOST_BLOCKS]:
        inner = block.get("content", block) if isinstance(block, dict) else None
        if isinstance(inner, dict) and inner.get("type") == "text" and isinstance(inner.get("text"), str):
            yield inner["text"]


def _unfenced(text: str) -> str:
    """Return the text inside of a block of code, if that is all there is."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text.partition("\n")[2].removesuffix("```").strip()
    return text


def read_title(parsed: ParsedInput, call: ToolCall) -> None:
    """Take the title for the command: it is all there is. Where it may say less, or where is open, that is a doubt.

    The command counts all the same: what a rule denies stays denied, though nothing can allow it any more.
    """
    title = call.title if isinstance(call.title, str) else ""
    if _says_nothing(title, call.tool):
        parsed.doubt("it does not name the command")
        return
    if any(end in title for end in _LINE_ENDS) or _is_cut(title):
        parsed.doubt("its title may not be the whole command")
    parsed.keep(parsed.commands, InputText(title, TITLE))
    if directory := _directory_named(parsed, call.content):
        parsed.keep(parsed.cwds, InputText(directory, CONTENT))


def _is_cut(title: str) -> bool:
    return _CUT[0] in title or title.rstrip().rstrip("`'\")]}").endswith(_CUT[1])


def _directory_named(parsed: ParsedInput, content: Sequence[Any]) -> str | None:
    """Return the directory that the content names, empty if it names none; None if the content leaves doubts."""
    found = set()
    for text in texts(content):
        mark = next((mark for mark in _DIRECTORY_MARKS if text.startswith(mark)), None)
        directory = _bracketed(text[len(mark) :]) if mark is not None else "" if _is_prose(text) else None
        if directory is None:
            parsed.doubt("its content leaves open what is run, and where")
            return None
        if directory:
            found.add(directory)
    if len(found) > 1:
        parsed.doubt("its content names several working directories")
        return None
    return found.pop() if found else ""


def _bracketed(text: str) -> str | None:
    """Return DIR of `DIR]` or `DIR] (description)`; with a second bracket it could be another one."""
    directory, mark, rest = text.partition("]")
    if not mark or "]" in rest or not directory or (rest and not (rest.startswith(" (") and rest.endswith(")"))):
        return None
    return directory


def _is_prose(text: str) -> bool:
    """Whether a text can be no more than a description: one line, and neither code nor brackets."""
    return not any(end in text.strip() for end in _LINE_ENDS) and not text.lstrip().startswith(
        ("`", "$", "{", "[", "<")
    )


def agrees(title: str | None, tool: str | None, values: Sequence[str]) -> bool:
    """Whether the title can be about one of these values: arguments in a content may be a description's invention.

    It is one of them, whole or shortened, perhaps behind the tool's name (`Shell: ls`); or it says nothing.
    """
    parsed = title.strip().strip("`") if isinstance(title, str) else ""
    if _says_nothing(parsed, tool):
        return True
    prefix, mark, rest = parsed.partition(": ")
    readings = [parsed, rest.strip("`")] if mark and prefix.replace("_", "").isalnum() else [parsed]
    return any(_is_about(reading, value) for reading in readings for value in values)


def _is_about(reading: str, value: str) -> bool:
    if reading == value or (value.endswith(f"/{reading}") and " " not in value):  # a path, from the workspace on
        return True
    pieces = reading.replace(_CUT[1], _CUT[0]).split(_CUT[0])
    if len(pieces) == 1 or not any(pieces):
        return False
    at = 0
    for piece in pieces:
        at = value.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return value.startswith(pieces[0])


def _says_nothing(title: str, tool: str | None) -> bool:
    """Whether a title is empty, or no more than what any call of this tool is called."""
    words = bare("".join(title.split()))
    return not words or words in PLACEHOLDERS or (isinstance(tool, str) and words == bare(tool))


def title_of(call: ToolCall) -> str | None:
    """Return the title as it can be kept."""
    return plain_text(call.title) if isinstance(call.title, str) and call.title else None
