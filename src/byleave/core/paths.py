"""What can be said of a path by its text alone: absolute, escaping, or spelled in a way not to be trusted.

Pure. What the file system adds (symlinks, what exists) is workspace.resolve's.
"""

from byleave.core.fs_rules import RefusedPath
from byleave.text import quoted

LONGEST_NAME = 255  # NAME_MAX of every file system Linux mounts, in bytes
LONGEST_PATH = 4095  # PATH_MAX less its NUL
_DEVICE_STARTS = frozenset("acnplACNPL")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{name}{digit}" for name in ("com", "lpt") for digit in "123456789¹²³"]
)

# In /proc/PID (or PID/task/TID): links that lead where the kernel says, whatever their text is.
_PROCESS_LINKS = frozenset({"cwd", "root", "exe"})
_PROCESS_LINK_LISTS = frozenset({"fd", "map_files", "ns"})
_SELF, _THREAD = "self", "thread-self"
_STANDARD_STREAMS = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr"})
_DESCRIPTORS = "/dev/fd/"


def is_absolute(text: str) -> bool:
    r"""Whether the text is absolute or rooted on any system: `/x`, `\x`, `C:\x`, `C:/x`."""
    if text[:1] in ("/", "\\"):
        return True
    return text[1:2] == ":" and text[2:3] in ("/", "\\") and text[0].isalpha() and text[0].isascii()


def collapse(text: str) -> str | None:
    """Return the relative path with `.`, `..` and doubled slashes resolved by text; None if it climbs out."""
    if "/." not in text and "//" not in text and text[:1] not in (".", "/"):
        return text.rstrip("/")
    kept: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not kept:
                return None
            kept.pop()
        elif part and part != ".":
            kept.append(part)
    return "/".join(kept)


def refuse_input(text: str) -> RefusedPath | None:
    """Refuse what no tool may pass as a path: absolute, climbing out, or with a name not to be trusted."""
    if is_absolute(text):
        return RefusedPath("absolute", f"{quoted(text)} is absolute; tools name files relative to the workspace")
    return refuse_name(text)


def refuse_name(text: str) -> RefusedPath | None:
    """Refuse control characters, over-long names, and names that Windows takes for devices or streams."""
    if not text.isprintable() and (problem := _unprintable_problem(text)) is not None:
        return RefusedPath("denied", f"{quoted(text[:LONGEST_NAME])} {problem}")
    if len(text) > LONGEST_NAME // 4 and _too_long(text):
        return RefusedPath("denied", f"{quoted(text[:80])}... is longer than a path or a name can be")
    if ":" in text:
        return RefusedPath("denied", f"{quoted(text)} contains a colon, which names a stream on some systems")
    for part in text.split("/"):
        if part and part[0] in _DEVICE_STARTS and _is_device(part):
            return RefusedPath("denied", f"{quoted(part)} names a device on some systems")
    return None


def _unprintable_problem(text: str) -> str | None:
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in text):
        return "contains a control character"
    if any("\ud800" <= char <= "\udc7f" or "\udd00" <= char <= "\udfff" for char in text):
        return "contains half a character, which no file name can hold"
    return None


def _too_long(text: str) -> bool:
    raw = text.encode("utf-8", "surrogateescape")
    return len(raw) > LONGEST_PATH or max(map(len, raw.split(b"/"))) > LONGEST_NAME


def _is_device(part: str) -> bool:
    return part.partition(".")[0].rstrip(" ").lower() in _DEVICES


def is_process_name(place: str) -> bool:
    """Whether a place in /proc stands for the process that looks at it: another one for an agent than for us."""
    return place == f"/proc/{_SELF}"


def names_process_link(path: str) -> bool:
    """Whether an absolute path goes through a link of a process: its directories, its program, what it has open.

    By its text alone, so that it holds for a process that we cannot see as well.
    """
    if path.startswith("/dev/"):
        return path in _STANDARD_STREAMS or path.startswith(_DESCRIPTORS)
    if not path.startswith("/proc/"):
        return False
    process, *names = path.split("/")[2:]
    if process != _SELF and not process.isdigit():
        return process == _THREAD  # it climbs elsewhere than its name does, so nothing below it is read
    while names[:1] == ["task"]:
        names = names[2:]
    return names[:1] != [] and (names[0] in _PROCESS_LINKS or (names[0] in _PROCESS_LINK_LISTS and len(names) > 1))
