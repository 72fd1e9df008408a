"""What the front sends: one packet with descriptors, and the request in an anonymous file, read strictly.

The file stays the front's, which can change it: it is read once, and only what was read counts.
Nothing here decides anything; which commands are served says `Request.command`. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = b"byleave-service-1"
ASK, TAKEN, NOT_SERVED, GO = b"Q", b"A", b"N", b"G"
STATUS, STOP = b"S", b"T"
DESCRIPTORS = 2  # of a request: the request itself, and the working directory
STREAMS = 3  # descriptors of a go: those that wait in a queue would keep the caller's pipes open for ever
LARGEST = 1 << 20  # bytes of arguments and environment
MOST_STRINGS = 16384
_LONGEST_HEAD = 64

HOOK_SCRIPT, COMMAND_SCRIPT, MAIN_SCRIPT = "/hooks/__main__.py", "/cli/__main__.py", "/__main__.py"
PACKAGES = "--packages"  # in front of the command, behind the second script
MODULE = ("-m", "byleave")
_FLAGS = frozenset({"-I", "-S", "-P", "-E", "-s", "-B"})
_SERVED = frozenset({"hook", "check", "run", "call"})
# What changes settings or rules, shows help, reads a stream of questions, traces, or mounts, has time.
_NOT_SERVED = ("--install", "--uninstall", "--resume", "--batch", "--diagnose", "--explain", "--mount", "--no-mount")
_NOT_SERVED_CALLS = ("--keep", "--schema")  # one reads a stream of arguments, the other is for people
_OWN_PLACES = ("/dev/fd", "/proc/")  # are others for each process: a descriptor of the caller's is not ours
_HELP = frozenset({"-h", "--help"})


class BadRequestError(Exception):
    """What came is not what a front sends."""


class Request(Struct, frozen=True):
    """A command line as it would be started without the service, and what surrounds it."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    umask: int
    parent: int

    def command(self, package: str) -> tuple[bool, tuple[str, ...]] | None:
        """Return whether it is the script for hooks, and the words behind the script; None if it is not served.

        `package` is where the service's own code is: it answers for no other.
        """
        rest = list(self.words[1:])
        while rest and rest[0] in _FLAGS:
            del rest[0]
        by_hook = False
        if tuple(rest[:2]) == MODULE:
            words = rest[2:]
        elif rest and rest[0] in (package + HOOK_SCRIPT, package + COMMAND_SCRIPT, package + MAIN_SCRIPT):
            by_hook, words = rest[0] == package + HOOK_SCRIPT, rest[1:]
            if rest[0] == package + COMMAND_SCRIPT and words[:1] == [PACKAGES]:
                del words[:2]
        else:
            return None
        return (by_hook, tuple(words)) if is_served(words) else None


def is_served(words: list[str]) -> bool:
    """Whether the service answers a command; everything else runs by itself."""
    ahead = words[: words.index("--")] if "--" in words else words
    if not ahead or ahead[0] not in _SERVED or not _HELP.isdisjoint(ahead):
        return False
    if any(place in word for place in _OWN_PLACES for word in ahead) or "--add" in ahead:
        return False
    if ahead[0] == "call" and any(word.startswith(_NOT_SERVED_CALLS) for word in words):
        return False
    return not any(word.startswith(_NOT_SERVED) for word in ahead)


def read_request(data: bytes) -> Request:
    """Return the request that these bytes are, a BadRequestError if they are none."""
    head, found, body = data.partition(b"\n")
    numbers = head.split(b" ")
    if not found or len(head) > _LONGEST_HEAD or len(numbers) != 4 or not all(number.isdigit() for number in numbers):
        raise BadRequestError("the first line is not that of a request")
    given, variables, parent = int(numbers[0]), int(numbers[1]), int(numbers[3])
    try:
        umask = int(numbers[2], 8)
    except ValueError:
        raise BadRequestError("the umask is not octal") from None
    strings = body.split(b"\0")
    if strings.pop() != b"" or len(strings) != given + variables or len(strings) > MOST_STRINGS or given == 0:
        raise BadRequestError("it does not have as many strings as it says")
    words = tuple(each.decode("utf-8", "surrogateescape") for each in strings[:given])
    return Request(words, _environment(strings[given:]), umask & 0o777, parent)


def _environment(strings: list[bytes]) -> dict[str, str]:
    """Return the variables as Python reads them from the kernel: the first of a name counts."""
    found: dict[str, str] = {}
    for each in strings:
        name, equals, value = each.decode("utf-8", "surrogateescape").partition("=")
        if equals and name:
            found.setdefault(name, value)
    return found
