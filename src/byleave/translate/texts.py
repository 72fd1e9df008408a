"""What is said in a call's title and content: diffs, arguments as JSON text, and, where nothing else is, a command."""

from byleave.translate.input_reader import read_input, read_json
from byleave.translate.names import PLACEHOLDERS, bare
from byleave.translate.parsed_input import DELETE, EDIT, FileChange, InputText
from byleave.translate.paths import plain_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from byleave.translate.call import ToolCall
    from byleave.translate.parsed_input import ParsedInput

CONTENT, TITLE = "content", "title"
MOST_BLOCKS = 1000
_DIRECTORY_MARKS = ("[current working directory ", "[in ")
_CUT = ("…", "...")
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def read_diffs(told: "ParsedInput", content: "Sequence[Any]") -> None:
    """Take in the files whose changes are shown."""
    for block in content[:MOST_BLOCKS]:
        if not isinstance(block, dict) or block.get("type") != "diff":
            continue
        path = block.get("path")
        if not isinstance(path, str) or not path:
            told.doubt("a diff in its content names no file")
            continue
        told.shows_diff = True
        told.keep(told.changes, FileChange(EDIT, path, "", CONTENT))
        meta = block.get("_meta")
        if isinstance(meta, dict) and meta.get("kind") == DELETE:
            told.keep(told.changes, FileChange(DELETE, path, "", CONTENT))
    if len(content) > MOST_BLOCKS:
        told.doubt(f"its content has more than {MOST_BLOCKS} blocks")


def read_json_texts(told: "ParsedInput", content: "Sequence[Any]") -> None:
    """Take in arguments that stand in the content as JSON."""
    for text in texts(content):
        inside = _unfenced(text)
        if not inside.startswith("{"):
            continue
        try:
            read_input(told, read_json(inside), CONTENT)
        except ValueError:
            told.structured = True
            told.doubt("its content holds arguments that cannot be read")


def texts(content: "Sequence[Any]") -> "Iterator[str]":
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


def read_title(told: "ParsedInput", call: "ToolCall") -> None:
    """Take the title for the command: it is all there is. Where it may say less, or where is open, that is a doubt.

    The command is judged all the same: what a rule denies stays denied, though nothing can allow it any more.
    """
    title = call.title if isinstance(call.title, str) else ""
    if _says_nothing(title, call.tool):
        told.doubt("it does not name the command")
        return
    if any(end in title for end in _LINE_ENDS) or _is_cut(title):
        told.doubt("its title may not be the whole command")
    told.keep(told.commands, InputText(title, TITLE))
    if directory := _directory_told(told, call.content):
        told.keep(told.cwds, InputText(directory, CONTENT))


def _is_cut(title: str) -> bool:
    return _CUT[0] in title or title.rstrip().rstrip("`'\")]}").endswith(_CUT[1])


def _directory_told(told: "ParsedInput", content: "Sequence[Any]") -> str | None:
    """Return the directory that the content names, empty if it names none; None if the content leaves doubts."""
    found = set()
    for text in texts(content):
        mark = next((mark for mark in _DIRECTORY_MARKS if text.startswith(mark)), None)
        directory = _bracketed(text[len(mark) :]) if mark is not None else "" if _is_prose(text) else None
        if directory is None:
            told.doubt("its content leaves open what is run, and where")
            return None
        if directory:
            found.add(directory)
    if len(found) > 1:
        told.doubt("its content names several working directories")
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


def agrees(title: "str | None", tool: "str | None", values: "Sequence[str]") -> bool:
    """Whether the title can be about one of these values: arguments in a content may be a description's invention.

    It is one of them, whole or shortened, perhaps behind the tool's name (`Shell: ls`); or it says nothing.
    """
    told = title.strip().strip("`") if isinstance(title, str) else ""
    if _says_nothing(told, tool):
        return True
    prefix, mark, rest = told.partition(": ")
    readings = [told, rest.strip("`")] if mark and prefix.replace("_", "").isalnum() else [told]
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


def _says_nothing(title: str, tool: "str | None") -> bool:
    """Whether a title is empty, or no more than what any call of this tool is called."""
    words = bare("".join(title.split()))
    return not words or words in PLACEHOLDERS or (isinstance(tool, str) and words == bare(tool))


def title_of(call: "ToolCall") -> str | None:
    """Return the title as it can be kept."""
    return plain_text(call.title) if isinstance(call.title, str) and call.title else None
