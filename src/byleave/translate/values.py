"""How the value of each known name is read. A value of another type than expected is a doubt."""

from itertools import islice

from byleave.translate import names
from byleave.translate.deep import hides_something
from byleave.translate.files_named import read_diff, read_edits, read_paths, take_patch
from byleave.translate.patch import begins_as_patch, looks_like_patch
from byleave.translate.told import Said, Words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.translate.told import Told

    # `key` is the name as it was given, and the place where it stands.
    Reader = Callable[[Told, Any, Said], None]

MOST_VARIABLES = 10_000
_LONGEST_HEADER = 200


def _texts(which: "Callable[[Told], list[Said]]") -> "Reader":
    """Read a text, or several."""

    def read(told: "Told", value: "Any", key: Said) -> None:
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, str):
                told.doubt(f"{key.source} is no text")
                return
            if each and not told.keep(which(told), Said(each, key.source)):
                return

    return read


def _command(told: "Told", value: "Any", key: Said) -> None:
    if isinstance(value, str):
        told.keep(told.commands, Said(value, key.source))
    elif _is_words(value):
        told.keep(told.lists, Words(tuple(value), key.source))
    else:
        told.doubt(f"{key.source} is neither a text nor a list of texts")


def _commands(told: "Told", value: "Any", key: Said) -> None:
    told.doubt(f"{key.source} may be one command or several")
    _texts(lambda told: told.commands)(told, value, key)


def _args(told: "Told", value: "Any", key: Said) -> None:
    if _is_words(value):
        told.keep(told.args, Words(tuple(value), key.source))
        return
    told.doubts_of_running.append(f"{key.source} is no list of texts")
    _doubt_depths(told, value, key)


def _is_words(value: "Any") -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _paths(told: "Told", value: "Any", key: Said) -> None:
    read_paths(told, value, key.source, several=key.text.endswith("s"))


def _verb(told: "Told", value: "Any", key: Said) -> None:
    if isinstance(value, str) and value.lower() in names.VERBS:
        told.keep(told.verbs, Said(value.lower(), key.source))


def _patch(told: "Told", value: "Any", key: Said) -> None:
    if isinstance(value, str):
        take_patch(told, value, key.source)
    else:
        told.doubt(f"{key.source} is no text")


def _input(told: "Told", value: "Any", key: Said) -> None:
    """A patch, or what is typed into a program that runs."""
    if isinstance(value, str) and begins_as_patch(value):
        take_patch(told, value, key.source)
        return
    told.doubts_of_running.append(f"{key.source} is handed to what runs")
    _doubt_depths(told, value, key)
    if isinstance(value, str) and looks_like_patch(value):
        told.doubt(f"{key.source} may be a patch, and cannot be read as one")


def _stdin(told: "Told", value: "Any", key: Said) -> None:
    if isinstance(value, str) or value is True:
        told.doubts_of_code.append(f"{key.source} is handed to what runs")


def _code(told: "Told", _value: "Any", key: Said) -> None:
    told.doubts_of_code.append(f"{key.source} is code, and no command for a shell")


def _script(told: "Told", value: "Any", key: Said) -> None:
    told.doubts_of_code.append(f"{key.source} may be in any language")
    if isinstance(value, str):
        told.keep(told.scripts, Said(value, key.source))


def _shell(told: "Told", value: "Any", key: Said) -> None:
    from byleave.translate.lists import known_shell

    if not isinstance(value, bool) and not (isinstance(value, str) and known_shell(value)):
        told.doubts_of_running.append(f"{key.source} names what reads the command, and it is no shell we know")


def _env(told: "Told", value: "Any", key: Said) -> None:
    """Doubt what runs where a variable changes that."""
    from byleave.shell.variables import harmless_assignment

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


def _rights(told: "Told", value: "Any", key: Said) -> None:
    if value is not False:
        told.doubts_of_running.append(f"{key.source} says that it runs as somebody else")


def _headers(told: "Told", value: "Any", key: Said) -> None:
    """A header can send a request elsewhere than its address says."""
    given = list(value) if isinstance(value, dict) else [str(each) for each in value] if isinstance(value, list) else []
    if not given or any("host" in str(name)[:_LONGEST_HEADER].lower() for name in given):
        told.doubts_of_fetching.append(f"{key.source} may send it elsewhere")


def _method(told: "Told", value: "Any", key: Said) -> None:
    if isinstance(value, str):
        told.keep(told.methods, Said(value, key.source))
    else:
        told.doubts_of_fetching.append(f"{key.source} is no text")


def _body(told: "Told", value: "Any", key: Said) -> None:
    told.sends = True
    if hides_something(value):
        told.doubts_of_running.append(f"{key.source} holds more than is understood")


def _pattern(told: "Told", value: "Any", key: Said) -> None:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, str):
            told.doubts_of_searching.append(f"{key.source} is no text")
            return
        if each and not told.keep(told.patterns, Said(each, key.source, names.bare(key.text), anywhere=True)):
            return


def _query(told: "Told", value: "Any", key: Said) -> None:
    words = value if isinstance(value, list) else [value]
    if all(isinstance(each, str) for each in words):
        told.keep(told.queries, Said(" ".join(words), key.source))
    else:
        told.doubts_of_searching.append(f"{key.source} is no text")


def _summary(told: "Told", _value: "Any", _key: Said) -> None:
    told.sums_up = True


def _grant(told: "Told", _value: "Any", key: Said) -> None:
    told.doubt(f"{key.source} asks for more than this one call")


def _end(which: "Callable[[Told], list[Said]]") -> "Reader":
    """Read one end of a move. Where nothing is moved, a name that is not too vague still names a path."""

    def read(told: "Told", value: "Any", key: Said) -> None:
        texts = value if isinstance(value, list) else [value]
        for each in islice(texts, names.MOST_ENDS):
            if not isinstance(each, str):
                told.doubts_of_moving.append(f"{key.source} is no text")
                _doubt_depths(told, value, key)
                return
            name = names.bare(key.text)
            said = Said(each, key.source, name, anywhere=True)
            told.keep(which(told), said)
            if name not in names.VAGUE:
                told.keep(told.paths, said)
        if len(texts) > names.MOST_ENDS:
            told.doubt(f"{key.source} names too many paths")

    return read


def _doubt_depths(told: "Told", value: "Any", key: Said) -> None:
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
