"""What exactly is trusted when a project file is: its content, and the scripts of the workspace that its tools run."""

from byleave.private import digest
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any


class Fingerprint(Record):
    """The hash of a project file, and of every script inside the workspace that it would start."""

    file: str
    sha256: str
    scripts: tuple[tuple[str, str], ...] = ()


def fingerprint(
    file: str, content: bytes, tree: "Mapping[str, Any]", read_script: "Callable[[str], tuple[str, bytes] | None]"
) -> Fingerprint:
    """Return the fingerprint; `read_script` gives name and content of a word that is a file of the workspace."""
    found = {script[0]: script[1] for word in command_words(tree) if (script := read_script(word)) is not None}
    scripts = tuple((name, digest(text)) for name, text in sorted(found.items()))
    return Fingerprint(file, digest(content), scripts)


def command_words(tree: "Mapping[str, Any]") -> "Iterator[str]":
    """Yield every word of every tool's command that could name a file, `--option=FILE` included."""
    for tool in tree.get("tools", {}).values():
        for word in tool.get("command", ()):
            yield word
            _option, mark, value = word.partition("=")
            if mark:
                yield value
