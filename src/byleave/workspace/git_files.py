"""Where the git repository of a workspace keeps what git obeys: found by the files that say so, and nothing is run.

A `.git` that is a file names another directory, `commondir` one more, and the configuration names hooks and further
files. Whoever writes one of these decides what the user's next `git status` runs.
"""

import os
import stat

from byleave.core.fs import is_under
from byleave.core.protected import Protection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OBEYED = ("config", "config.worktree", "hooks", "commondir", "info/attributes")
_LARGEST = 1 << 20  # bytes of a configuration file that are looked at
_MOST_INCLUDES = 20
_KEYS = {"core.hookspath": True, "core.attributesfile": True, "include.path": False}  # whether from the work tree on
# Keys whose values are commands.
_STARTS = frozenset(
    {
        *("fsmonitor", "sshcommand", "editor", "pager", "askpass", "gitproxy", "external", "command", "textconv"),
        *("clean", "smudge", "process", "driver", "cmd", "helper", "program", "difffilter", "packobjectshook"),
        *(
            "alternaterefscommand",
            "recentobjectshook",
            "uploadpack",
            "receivepack",
            "uploadarchive",
            "update",
            "tunnel",
        ),
        *("tocmd", "cccmd", "headercmd", "sendmailcmd", "browser", "path", "httpd"),
    }
)
_DIRECTORIES = ("refs", "objects")
_BARE = ("HEAD", *_DIRECTORIES)


def git_places(root: str, home: str) -> "Iterator[Protection]":
    """Yield the places that the git of this workspace obeys, and those that would make its root a repository."""
    where = git_directory(root)
    is_whole = where is not None and os.path.lexists(f"{where}/HEAD")  # git passes over one that is not
    yield from _known((f"{root}/{name}" for name in _missing_parts(root, has_repository=is_whole)), root)
    is_bare = all(os.path.lexists(f"{root}/{name}") for name in _BARE)
    found = [*((where,) if where is not None else ()), *((root,) if is_bare else ())]
    directories = list(dict.fromkeys(each for directory in found for each in (directory, _common(directory))))
    for directory in directories:
        if directory != f"{root}/.git":  # which is known by its name
            yield from _known((f"{directory}/{name}" for name in OBEYED), root)
    files = [f"{directory}/{name}" for directory in directories for name in ("config", "config.worktree")]
    own = [f"{home}/.gitconfig", f"{home}/.config/git/config"] if home else []
    yield from _known(_named(files + own, root, home), root)
    yield from _known(_started([*files, *own, *_included(files + own, root, home)], root), root)


def _missing_parts(root: str, *, has_repository: bool) -> tuple[str, ...]:
    """Return what must not come into being in the root of a workspace, or git would take the root for a repository.

    It does as soon as there is no whole `.git`, and whoever may write there can take `.git/HEAD` away. With a
    repository, a `HEAD` beside it would make `git diff HEAD` ambiguous, so that another part is kept free; a directory
    `commondir` makes git refuse the root while it is there.
    """
    if not has_repository:
        return ("HEAD",)
    free = next((name for name in _DIRECTORIES if not os.path.lexists(f"{root}/{name}")), "HEAD")
    return ("commondir", free)


def git_stamp(root: str) -> "tuple[object, ...]":
    """Return what changes whenever the answer of `git_places` may."""
    return tuple([_stamp(f"{root}/{name}") for name in (".git", ".git/HEAD", ".git/config", ".git/commondir", *_BARE)])


def git_directory(root: str) -> str | None:
    """Return the directory of the repository whose work tree is at `root`, None if there is none."""
    path = f"{root}/.git"
    mode = _mode(path)
    if os.path.isdir(path):
        return os.path.realpath(path)
    text = _read(path).strip() if stat.S_ISREG(mode) else ""
    if text.startswith("gitdir:"):
        return os.path.normpath(os.path.join(root, text[len("gitdir:") :].strip()))
    return None


def _common(directory: str) -> str:
    text = _read(f"{directory}/commondir").strip()
    return os.path.normpath(os.path.join(directory, text)) if text else directory


def _named(files: "list[str]", root: str, home: str) -> "Iterator[str]":
    """Yield the files and directories that these configuration files name, and those that included ones name."""
    seen: set[str] = set()
    ahead = list(files)
    while ahead and len(seen) < _MOST_INCLUDES:
        file = ahead.pop()
        if file in seen:
            continue
        seen.add(file)
        for key, value in _values(_read(file)):
            if key not in _KEYS:
                continue
            expanded = f"{home}{value[1:]}" if value.startswith("~/") and home else value
            path = os.path.normpath(os.path.join(root if _KEYS[key] else os.path.dirname(file), expanded))
            yield path
            if key == "include.path":
                ahead.append(path)


def _included(files: "list[str]", root: str, home: str) -> "list[str]":
    """Return the files that configuration files name which are there to be read: those that are included, too."""
    return [path for path in _named(files, root, home) if os.path.isfile(path)]


def _started(files: "list[str]", root: str) -> "Iterator[str]":
    """Yield the files of the workspace that a configuration has git start: a monitor, a filter, an alias."""
    for file in files:
        for key, value in _values(_read(file)):
            if key.rpartition(".")[2] in _STARTS or key.startswith("alias."):
                for word in value.replace('"', " ").replace("'", " ").replace("!", " ").replace(";", " ").split():
                    path = os.path.normpath(os.path.join(root, word))
                    if is_under(path, root) and os.path.isfile(path):
                        yield path


def _values(text: str) -> "Iterator[tuple[str, str]]":
    """Yield the keys of a configuration, without what stands in quotes in their sections, and their values.

    A line that git would read otherwise names a file too many.
    """
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            head, _, line = line[1:].partition("]")
            section = head.split()[0].partition(".")[0].lower() if head.split() else ""
            section = "include" if section == "includeif" else section
            line = line.strip()
        name, equals, value = line.partition("=")
        key = f"{section}.{name.strip().lower()}"
        if equals:
            plain = value.strip()
            quoted = plain.startswith('"') and plain.count('"') > 1
            plain = plain[1:].partition('"')[0] if quoted else plain.partition(" #")[0].partition(" ;")[0].strip()
            if plain and "\0" not in plain:
                yield key, plain


def _known(paths: "Iterator[str] | tuple[str, ...]", root: str) -> "Iterator[Protection]":
    for path in dict.fromkeys(each for named in paths for each in (named, os.path.realpath(named))):
        if is_under(root, path):  # a directory that holds the workspace: all of it would be protected
            continue
        place = path[len(root) + 1 :] if is_under(path, root) else path
        yield Protection(place, place, final=False)


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        content = os.read(descriptor, _LARGEST) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return content.decode("utf-8", "surrogateescape")


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


def _stamp(path: str) -> "tuple[int, ...]":
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return ()
    if stat.S_ISDIR(found.st_mode):
        return (found.st_ino,)
    return found.st_ino, found.st_mtime_ns, found.st_size
