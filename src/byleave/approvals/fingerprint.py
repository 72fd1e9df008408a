"""What exactly is trusted when a project file is: its content, and the scripts of the workspace that its tools run."""

from byleave.private import digest
from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    # Name and hash of the file of the workspace that a word names, None if it names none.
    ReadScript = Callable[[str], tuple[str, str] | None]

UNREAD = ""  # the hash of a script that could not be read whole: nobody can trust it
_SHELL = str.maketrans(dict.fromkeys("\"'`$(){};|&<>,@", " "))


class Fingerprint(Record):
    """The hash of a project file, and of every script inside the workspace that it would start."""

    file: str
    sha256: str
    scripts: tuple[tuple[str, str], ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        """The scripts that could not be read whole."""
        return tuple(name for name, sha256 in self.scripts if sha256 == UNREAD)


def fingerprint(file: str, content: bytes, tree: "Mapping[str, Any]", read_script: "ReadScript") -> Fingerprint:
    """Return the fingerprint of a project file as it is now."""
    words = dict.fromkeys(command_words(tree))
    found = {script[0]: script[1] for word in words if (script := read_script(word)) is not None}
    return Fingerprint(file, digest(content), tuple(sorted(found.items())))


def command_words(tree: "Mapping[str, Any]") -> "Iterator[str]":
    """Yield whatever in a command could name a file: words, `--option=FILE`, and what a shell would split."""
    for tool in (*tree.get("tools", {}).values(), *tree.get("servers", {}).values()):
        for word in tool.get("command", ()):
            yield word
            for part in word.translate(_SHELL).split():
                yield part
                _option, _mark, value = part.partition("=")
                if value:
                    yield value
