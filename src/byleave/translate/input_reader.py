"""Read a tool's structured input: what its names mean is `names`, how each is read `values`.

All of it counts. Two names for one thing are two things to judge, a value of an unexpected type is a doubt, and so is
what lies deeper than agents put it.

How the value of each known name is read. A value of another type than expected is a doubt.
"""

from itertools import islice

from byleave.text import shown
from byleave.translate import names
from byleave.translate.files_named import read_diff, read_edits, read_paths, take_patch
from byleave.translate.names import ARGS, COMMAND, DIRECTORY, ENV, INPUT, PATH, URL, WRAPPER, role_of
from byleave.translate.parsed_input import RUNNING, ArgumentList, InputText, hides_something, is_empty
from byleave.translate.patch import begins_as_patch, looks_like_patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.translate.parsed_input import ParsedInput

    Reader = Callable[[ParsedInput, Any, InputText], None]


MOST_VARIABLES = 10_000
_LONGEST_HEADER = 200


def _texts(which: "Callable[[ParsedInput], list[InputText]]") -> "Reader":
    """Read a text, or several."""

    def read(told: "ParsedInput", value: "Any", key: InputText) -> None:
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str):
                told.doubt(f"{key.source} is no text")
                return
            if each and not told.keep(which(told), InputText(each, key.source)):
                return

    return read


def _command(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if isinstance(value, str):
        told.keep(told.commands, InputText(value, key.source))
    elif _is_words(value):
        told.keep(told.lists, ArgumentList(tuple(value), key.source))
    else:
        told.doubt(f"{key.source} is neither a text nor a list of texts")


def _commands(told: "ParsedInput", value: "Any", key: InputText) -> None:
    told.doubt(f"{key.source} may be one command or several")
    _texts(lambda told: told.commands)(told, value, key)


def _args(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if _is_words(value):
        told.keep(told.args, ArgumentList(tuple(value), key.source))
        return
    told.doubts_of_running.append(f"{key.source} is no list of texts")
    _doubt_depths(told, value, key)


def _is_words(value: "Any") -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _paths(told: "ParsedInput", value: "Any", key: InputText) -> None:
    read_paths(told, value, key.source, several=key.text.endswith("s"))


def _verb(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if isinstance(value, str) and value.lower() in names.VERBS:
        told.keep(told.verbs, InputText(value.lower(), key.source))


def _patch(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if isinstance(value, str):
        take_patch(told, value, key.source)
    else:
        told.doubt(f"{key.source} is no text")


def _input(told: "ParsedInput", value: "Any", key: InputText) -> None:
    """A patch, or what is typed into a program that runs."""
    if isinstance(value, str) and begins_as_patch(value):
        take_patch(told, value, key.source)
        return
    told.doubts_of_running.append(f"{key.source} is handed to what runs")
    _doubt_depths(told, value, key)
    if isinstance(value, str) and looks_like_patch(value):
        told.doubt(f"{key.source} may be a patch, and cannot be read as one")


def _stdin(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if isinstance(value, str) or value is True:
        told.doubts_of_code.append(f"{key.source} is handed to what runs")


def _code(told: "ParsedInput", _value: "Any", key: InputText) -> None:
    told.doubts_of_code.append(f"{key.source} is code, and no command for a shell")


def _script(told: "ParsedInput", value: "Any", key: InputText) -> None:
    told.doubts_of_code.append(f"{key.source} may be in any language")
    if isinstance(value, str):
        told.keep(told.scripts, InputText(value, key.source))


def _shell(told: "ParsedInput", value: "Any", key: InputText) -> None:
    from byleave.translate.shell_text import known_shell

    if not isinstance(value, bool) and not (isinstance(value, str) and known_shell(value)):
        told.doubts_of_running.append(f"{key.source} names what reads the command, and it is no shell we know")


def _env(told: "ParsedInput", value: "Any", key: InputText) -> None:
    """Doubt what runs where a variable changes that."""
    from byleave.shell.knowledge.variables import harmless_assignment

    pairs = _pairs(value)
    if pairs is None or len(pairs) > MOST_VARIABLES:
        told.doubts_of_running.append(f"{key.source} is no table of variables")
        return
    for name, content in pairs:
        text = content if isinstance(content, str) else None
        if not isinstance(name, str) or not harmless_assignment(name, text):
            told.doubts_of_running.append(f"{key.source} sets a variable that changes what runs")
            return


def _pairs(value: "Any") -> "list[tuple[Any, Any]] | None":
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


def _rights(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if value is not False:
        told.doubts_of_running.append(f"{key.source} runs it as another user")


def _headers(told: "ParsedInput", value: "Any", key: InputText) -> None:
    """A header can send a request elsewhere than its address says."""
    given = list(value) if isinstance(value, dict) else [str(each) for each in value] if isinstance(value, list) else []
    if not given or any("host" in str(name)[:_LONGEST_HEADER].lower() for name in given):
        told.doubts_of_fetching.append(f"{key.source} may send it elsewhere")


def _method(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if isinstance(value, str):
        told.keep(told.methods, InputText(value, key.source))
    else:
        told.doubts_of_fetching.append(f"{key.source} is no text")


def _body(told: "ParsedInput", value: "Any", key: InputText) -> None:
    told.sends = True
    if hides_something(value):
        told.doubts_of_running.append(f"{key.source} holds more than is understood")


def _pattern(told: "ParsedInput", value: "Any", key: InputText) -> None:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, str):
            told.doubts_of_searching.append(f"{key.source} is no text")
            return
        if each and not told.keep(told.patterns, InputText(each, key.source, names.bare(key.text), anywhere=True)):
            return


def _query(told: "ParsedInput", value: "Any", key: InputText) -> None:
    words = value if isinstance(value, list) else [value]
    if all(isinstance(each, str) for each in words):
        told.keep(told.queries, InputText(" ".join(words), key.source))
    else:
        told.doubts_of_searching.append(f"{key.source} is no text")


def _summary(told: "ParsedInput", _value: "Any", _key: InputText) -> None:
    told.sums_up = True


def _grant(told: "ParsedInput", _value: "Any", key: InputText) -> None:
    told.doubt(f"{key.source} asks for more than this one call")


def _end(which: "Callable[[ParsedInput], list[InputText]]") -> "Reader":
    """Read one end of a move. Where nothing is moved, a name that is not too vague still names a path."""

    def read(told: "ParsedInput", value: "Any", key: InputText) -> None:
        texts = value if isinstance(value, list) else [value]
        for each in islice(texts, names.MOST_ENDS):
            if not isinstance(each, str):
                told.doubts_of_moving.append(f"{key.source} is no text")
                _doubt_depths(told, value, key)
                return
            name = names.bare(key.text)
            said = InputText(each, key.source, name, anywhere=True)
            told.keep(which(told), said)
            if name not in names.VAGUE:
                told.keep(told.paths, said)
        if len(texts) > names.MOST_ENDS:
            told.doubt(f"{key.source} names too many paths")

    return read


def _doubt_depths(told: "ParsedInput", value: "Any", key: InputText) -> None:
    if hides_something(value):
        told.doubt(f"{key.source} holds more than is understood")


READERS: "Mapping[str | None, Reader]" = {
    names.COMMAND: _command,
    names.COMMANDS: _commands,
    names.ARGS: _args,
    names.CWD: _texts(lambda told: told.cwds),
    names.ROOT: _texts(lambda told: told.roots),
    names.DIRECTORY: _texts(lambda told: told.directories),
    names.PATH: _paths,
    names.EDITS: lambda told, value, key: read_edits(told, value, key.source),
    names.URL: _texts(lambda told: told.urls),
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
    names.DIFF: lambda told, value, key: read_diff(told, value, key.source),
    names.ORIGIN: _end(lambda told: told.origins),
    names.TARGET: _end(lambda told: told.targets),
    names.RIGHTS: _rights,
    names.HEADERS: _headers,
    names.GRANT: _grant,
    names.VERB: _verb,
    names.SUMMARY: _summary,
}

MOST_NAMES = 10_000  # of one object
LONGEST_JSON = 1 << 20  # characters of arguments as JSON text
_LONGEST_LABEL = 80
_LONGEST_PATH = 4096


def read_input(told: "ParsedInput", tree: "Mapping[Any, Any]", source: str, *, nested: bool = False) -> None:
    """Take in one object of arguments; one inside it that only wraps them is read as well."""
    told.structured = True
    if len(tree) > MOST_NAMES:
        told.doubt(f"its input has more than {MOST_NAMES} names")
    for key, value in islice(tree.items(), MOST_NAMES):
        if not isinstance(key, str):
            told.doubt("its input has a name that is no text")
        elif not is_empty(value):
            _read_member(told, key, value, source, nested=nested)


def read_json(text: str) -> "dict[str, Any]":
    """Return the object that a text is; `ValueError` if it is none, too long, or gives a name twice."""
    import json

    if len(text) > LONGEST_JSON:
        raise ValueError("too long")
    try:
        tree = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(tree, dict):
        raise ValueError("no object")  # noqa: TRY004 -- it is the text that is wrong
    return tree


def _once(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a name is given twice")
    return read


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _read_member(told: "ParsedInput", key: str, value: "Any", source: str, *, nested: bool) -> None:
    role, guessed = role_of(key)
    place = f"{source}.{shown(key[:_LONGEST_LABEL])}"
    if guessed and role != ENV:
        _guess(told, role, value, place)
    elif role in (ARGS, INPUT, WRAPPER) and _is_wrapped(value):
        _unwrap(told, value, place, nested=nested)
    elif role in READERS:
        READERS[role](told, value, InputText(key, place))
    elif role is None:
        if hides_something(value):
            told.doubt(f"{place} holds more than is understood")
        if hides_something(value, RUNNING):
            told.doubts_of_running.append(f"{place} may change what runs")


def _is_wrapped(value: "Any") -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))


def _unwrap(told: "ParsedInput", value: "Any", place: str, *, nested: bool) -> None:
    try:
        tree = value if isinstance(value, dict) else read_json(value)
    except ValueError:
        told.doubt(f"{place} cannot be read")
        return
    if not nested:
        read_input(told, tree, place, nested=True)
    elif hides_something(tree):
        told.doubt(f"{place} holds more than is understood")


def _guess(told: "ParsedInput", role: str | None, value: "Any", place: str) -> None:
    """Take in what a name seems to mean by its end; only texts count, and one of several lines is no path."""
    if hides_something(value):
        told.doubt(f"{place} holds more than is understood")
    texts = value if isinstance(value, list) else [value]
    for text in [each for each in islice(texts, MOST_NAMES) if isinstance(each, str) and each]:
        if role == COMMAND:
            told.doubt(f"{place} may be a command of its own")
        elif "\n" in text or len(text) > _LONGEST_PATH:
            told.doubt(f"{place} may be a path, and cannot be one")
            continue
        said = InputText(text, place, anywhere=role == PATH)
        if role == DIRECTORY:
            told.keep(told.roots, said)
        if not told.keep(_GUESSED[role](told), said):
            return


_GUESSED: "Mapping[str | None, Callable[[ParsedInput], list[InputText]]]" = {
    COMMAND: lambda told: told.commands,
    PATH: lambda told: told.paths,
    DIRECTORY: lambda told: told.directories,
    URL: lambda told: told.urls,
}
