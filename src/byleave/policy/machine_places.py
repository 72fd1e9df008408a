"""Protected places that only this machine knows. They are found by looking: nothing is run, nothing is written.

- What byleave runs from: its package, the packages that it loads, a `.pth` file beside them, its scripts, its
  interpreter, `pyvenv.cfg`; and the directories where programs are found by their names. A tool that writes there
  decides what byleave does at its next start, and a virtual environment in the workspace is within a tool's reach.
- Protected places under other names: where links of the home directory lead, and what variables name. A `~/.bashrc`
  that is a link into a repository of dotfiles is obeyed wherever it leads, and an agent whose settings a variable has
  moved obeys them there.
- What the workspace's git repository obeys. A `.git` that is a file names another directory, `commondir` one more, and
  the configuration names hooks and further files. A tool that writes one of these decides what the user's next
  `git status` runs.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from itertools import islice
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.core.protected import (
    LED_TO,
    OWN_CODE,
    Protection,
    is_place,
    next_steps,
    patterns_after,
    resolved_places,
    system_places,
)
from byleave.policy.dirs import HELD_MODE, real_path
from byleave.user_files import first_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.core.protected import Steps
    from byleave.policy.compile_access import AccessCompiler
    from byleave.policy.context import CompileContext
    from byleave.policy.layers import Layer


class MachinePlaces:
    """What is protected in a workspace: by its name, as byleave's own, and because of how this machine is set up.

    Only writes need it, so `find` is called when the first one is decided.
    """

    def __init__(self, context: CompileContext, layers: Sequence[Layer], rules: AccessCompiler) -> None:
        self._context = context
        self._layers = layers
        self._rules = rules
        self._known: tuple[object, ...] | None = None

    def find(self) -> list[Protection]:
        """Return every protected place; each one in the workspace is among those that the policy rests on."""
        root = self._context.root.path
        self._known = git_stamp(root)  # before anything is read: a change in between is seen
        found = [*resolved_places(self._rules.resolve)]
        if self._context.homes is not None:
            home = self._context.home
            found += [*find_own_code(root), *program_directories(os.environ.get("PATH", ""), root)]
            reserved = _reserved_parts(root, self._context.homes.workspace(root))
            found += [*git_places(root, home, reserved), *places_elsewhere(home, os.environ, root)]
        own = self._context.own_places(self._layers)
        return [*found, *system_places(), *(Protection(place, place, final=True) for place in own)]

    def changed(self) -> bool:
        """Whether the git repository is set up in another way than when the places were found."""
        return self._known is not None and self._known != git_stamp(self._context.root.path)


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOADED = ("byleave", "msgspec", "idna", "re2", "_re2", "google_re2", "jwt", "cryptography", "cffi", "_cffi_backend")
_CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
_SCRIPTS = ("byleave", "byleave-tool", "rg")
_CONFIGURATION = "pyvenv.cfg"
_MOST_DIRECTORIES = 200  # of PATH


def find_own_code(root: str) -> tuple[Protection, ...]:
    """Return where byleave's code is, which no rule opens, and the directories around it, which one can open.

    The single files of an environment count if it lies in the workspace at `root`; elsewhere its package is enough.
    """
    prefix = real_path(sys.prefix)
    packages = _packages(prefix)
    around = [directory for directory in packages if is_under(directory, prefix)]
    final = [_PACKAGE, real_path(_PACKAGE), *((real_path(sys.executable),) if sys.executable else ())]
    kept: list[Protection] = []
    if sys.prefix != sys.base_prefix:
        final += [os.path.join(prefix, _CONFIGURATION), *_programs()]
        kept += [_place(directory, prefix, root) for directory in (*around, _program_directory()) if directory]
        if is_under(prefix, root) and prefix != root:  # all of it: a link such as lib64 decides what is loaded, too
            kept.append(_place(prefix, prefix, root))
        if is_under(prefix, root):
            final += [path for directory in packages for path in _single_files(directory)]
    kept.append(_place(os.path.dirname(os.__file__), "", root))
    places = [_relative(path, root) for path in dict.fromkeys(final)]
    return (*kept, *(Protection(place, place, final=True, name=OWN_CODE) for place in places))


def program_directories(search: str, root: str) -> Iterator[Protection]:
    """Yield the directories of a PATH: what is put there is started by its name, by people and by other programs.

    A directory that holds the workspace at `root` is left out: all of the workspace would be protected.
    """
    for directory in dict.fromkeys(search.split(os.pathsep)[:_MOST_DIRECTORIES]):
        named = os.path.join(root, directory)  # one that is not absolute is looked for in the workspace, most often
        for path in dict.fromkeys((os.path.normpath(named), real_path(named))):
            if not is_under(root, path):
                above = os.path.dirname(path)
                known = os.path.basename(above) == "node_modules" or os.path.exists(os.path.join(above, _CONFIGURATION))
                yield _place(path, above if known else "", root)


def _place(path: str, known_as: str, root: str) -> Protection:
    """Return a place that a rule opens by naming it, or by naming all of the environment that it is part of."""
    named = known_as if known_as and is_under(known_as, root) and known_as != root else path
    return Protection(_relative(named, root), _relative(path, root), final=False)


def _relative(path: str, root: str) -> str:
    return path[len(root) :].strip("/") if root != "/" and is_under(path, root) and path != root else path


def _packages(prefix: str) -> list[str]:
    """Return the directories that installed packages are loaded from, and the one that byleave is in."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    libraries = (os.path.join(prefix, name, version, "site-packages") for name in (sys.platlibdir, "lib"))
    named = (*libraries, os.path.dirname(_PACKAGE), os.path.dirname(real_path(_PACKAGE)))
    return [each for each in dict.fromkeys(named) if os.path.isdir(each)]


def _program_directory() -> str:
    return real_path(os.path.dirname(os.path.abspath(sys.executable))) if sys.executable else ""


def _programs() -> Iterator[str]:
    """Yield the interpreter, under every name that it has beside the one we run by, and our own scripts."""
    directory = _program_directory()
    if not directory:
        return
    names = (*_SCRIPTS, "python", f"python{sys.version_info[0]}", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    for name in dict.fromkeys((os.path.basename(sys.executable), *names)):
        path = os.path.join(directory, name)
        if os.path.lexists(path):
            yield path


def _single_files(directory: str) -> Iterator[str]:
    """Yield what byleave loads of a directory of packages, and what Python runs of it at every start."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in sorted(names):
        first = name.partition("-")[0].partition(".")[0]
        if first in _LOADED or name.endswith(".pth") or name in _CUSTOMIZE:
            yield os.path.join(directory, name)


_ELSEWHERE_CONFIGURATION = ".config"
_MOST_ENTRIES = 5000  # of a directory: every start looks
# Variables that move what a program obeys: to another directory, or to another file.
_VARIABLES = (
    *("XDG_CONFIG_HOME", "ZDOTDIR", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "OPENCODE_CONFIG"),
    *("OPENCODE_CONFIG_DIR", "KIMI_HOME", "VIBE_HOME", "GIT_CONFIG_GLOBAL", "BASH_ENV", "ENV", "INPUTRC"),
    *("NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "PIP_CONFIG_FILE", "PYTHONSTARTUP", "DOCKER_CONFIG"),
    *("KUBECONFIG", "GNUPGHOME", "WGETRC", "CURL_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "STARSHIP_CONFIG"),
    *("MYVIMRC", "SCREENRC", "TMUX_CONF", "AWS_CONFIG_FILE", "GH_CONFIG_DIR", "RIPGREP_CONFIG_PATH"),
)
_HOOKS = {"CLAUDE_CONFIG_DIR": ("settings.json",), "CODEX_HOME": ("config.toml", "hooks.json")}


def places_elsewhere(home: str, environment: Mapping[str, str], root: str) -> Iterator[Protection]:
    """Yield protected places by the paths that links and variables give them, as the workspace at `root` names them."""
    for path, final in (*_linked(home), *_linked(root), *_named(environment, home)):
        if is_under(root, path):  # all of the workspace would be protected
            continue
        place = path[len(root) + 1 :] if is_under(path, root) else path
        yield Protection(place, place, final, LED_TO)


def _named(environment: Mapping[str, str], home: str) -> Iterator[tuple[str, bool]]:
    usual = (home, os.path.join(home, _ELSEWHERE_CONFIGURATION))  # in which names count
    for name in _VARIABLES:
        value = environment.get(name, "")
        if os.path.isabs(value) and os.path.normpath(value) not in usual:
            for path in dict.fromkeys((os.path.normpath(value), real_path(value))):
                yield path, False
                yield from ((os.path.join(path, file), True) for file in _HOOKS.get(name, ()))


def _linked(directory: str) -> Iterator[tuple[str, bool]]:
    """Yield where links with protected names lead, in a directory and in the one for configuration in it."""
    for where, begun in (
        (directory, ()),
        (os.path.join(directory, _ELSEWHERE_CONFIGURATION), next_steps((), _ELSEWHERE_CONFIGURATION)),
    ):
        for name in _links(where) if directory else ():
            steps: Steps = next_steps(begun, name)
            if steps:
                target = real_path(os.path.join(where, name))
                if is_place(steps):
                    yield target, any(step.final for step in steps)
                yield from ((os.path.join(target, rest), final) for rest, final in patterns_after(steps))


def _links(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in islice(entries, _MOST_ENTRIES) if entry.is_symlink()]
    except (OSError, ValueError):
        return []


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


def git_places(root: str, home: str, reserved: frozenset[str] = frozenset()) -> Iterator[Protection]:
    """Yield the places that the git of this workspace obeys, and those that would make its root a repository.

    What is only `reserved` counts as missing: a sandbox that runs keeps those names free, by empty directories.
    """
    where = git_directory(root)
    is_whole = where is not None and os.path.lexists(f"{where}/HEAD")  # git passes over one that is not
    there = frozenset(name for name in _BARE if os.path.lexists(f"{root}/{name}")) - reserved
    yield from _known((f"{root}/{name}" for name in _missing_parts(there, has_repository=is_whole)), root)
    is_bare = there.issuperset(_BARE)
    found = [*((where,) if where is not None else ()), *((root,) if is_bare else ())]
    directories = list(dict.fromkeys(each for directory in found for each in (directory, _common(directory))))
    for directory in directories:
        if directory != f"{root}/.git":  # which is known by its name
            yield from _known((f"{directory}/{name}" for name in OBEYED), root)
    files = [f"{directory}/{name}" for directory in directories for name in ("config", "config.worktree")]
    own = [f"{home}/.gitconfig", f"{home}/.config/git/config"] if home else []
    yield from _known(_git_files_named(files + own, root, home), root)
    yield from _known(_started([*files, *own, *_included(files + own, root, home)], root), root)


def _reserved_parts(root: str, state: str) -> frozenset[str]:
    """Return the parts of a repository in the root that a sandbox made to keep their names free (sandbox.placeholders).

    Its journal says so, which only byleave writes, and they are as they were made: a name alone proves nothing.
    """
    held = [name for name in _BARE if stat.S_IMODE(_mode(f"{root}/{name}")) == HELD_MODE]
    text = _read(f"{state}/placeholders.json") if held else ""
    if not text:
        return frozenset()

    try:
        journal = json.loads(text)
        if journal["lock"] != os.lstat(f"{state}/placeholders.lock").st_ino:  # it counts for no sandbox any more
            return frozenset()
        made = {path: look[0] for path, content, look in journal["names"] if content is None and look is not None}
        ours = [name for name in held if made.get(name) == os.lstat(f"{root}/{name}").st_ino]
        return frozenset(name for name in ours if not os.listdir(f"{root}/{name}"))
    except (ValueError, LookupError, TypeError, OSError):
        return frozenset()


def _missing_parts(there: frozenset[str], *, has_repository: bool) -> tuple[str, ...]:
    """Return what must not come into being in the root of a workspace, or git would take the root for a repository.

    It does as soon as there is no whole `.git`, and a tool that may write there can take `.git/HEAD` away. With a
    repository, a `HEAD` beside it would make `git diff HEAD` ambiguous, so that another part is kept free; a directory
    `commondir` makes git refuse the root while it is there.
    """
    if not has_repository:
        return ("HEAD",)
    free = next((name for name in _DIRECTORIES if name not in there), "HEAD")
    return ("commondir", free)


def git_stamp(root: str) -> tuple[object, ...]:
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
    return os.path.normpath(os.path.join(directory, text))


def _git_files_named(files: list[str], root: str, home: str) -> Iterator[str]:
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


def _included(files: list[str], root: str, home: str) -> list[str]:
    """Return the files that configuration files name which are there to be read: those that are included, too."""
    return [path for path in _git_files_named(files, root, home) if os.path.isfile(path)]


def _started(files: list[str], root: str) -> Iterator[str]:
    """Yield the files of the workspace that a configuration has git start: a monitor, a filter, an alias."""
    for file in files:
        for key, value in _values(_read(file)):
            if key.rpartition(".")[2] in _STARTS or key.startswith("alias."):
                for word in value.replace('"', " ").replace("'", " ").replace("!", " ").replace(";", " ").split():
                    path = os.path.normpath(os.path.join(root, word))
                    if is_under(path, root) and os.path.isfile(path):
                        yield path


def _values(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration, without what stands in quotes in their sections, and their values.

    A line that git would read otherwise names a file too many.
    """
    section = ""
    for raw in _lines(text):
        line = raw.strip()
        if line.startswith("["):
            head, _, line = line[1:].partition("]")
            section = head.split()[0].partition(".")[0].lower() if head.split() else ""
            section = "include" if section == "includeif" else section
            line = line.strip()
        name, equals, value = line.partition("=")
        key = f"{section}.{name.strip().lower()}"
        if equals:
            named = _unquoted(value)
            if named and "\0" not in named:
                yield key, named


def _lines(text: str) -> Iterator[str]:
    """Yield lines, with those joined of which a backslash says that they go on; and these as they stand, too."""
    lines = iter(text.splitlines())
    for line in lines:
        whole = line
        while (len(whole) - len(whole.rstrip("\\"))) % 2 and (following := next(lines, None)) is not None:
            yield following
            whole = f"{whole}\n{following}"
        yield whole


_ESCAPED = {"n": "\n", "t": "\t", "b": "\b", "\n": ""}


def _unquoted(value: str) -> str:
    """Return a value as git reads it: quotes anywhere, escapes, blanks as spaces, and a comment behind it."""
    made, quoted, kept = "", False, 0
    chars = iter(value.strip())
    for char in chars:
        if char in "#;" and not quoted:
            break
        if char == '"':
            quoted, kept = not quoted, len(made)
        elif char == "\\":
            escaped = next(chars, "")
            made += _ESCAPED.get(escaped, escaped)  # a line end is gone
            kept = len(made)
        else:
            made += " " if char.isspace() and not quoted else char
            kept = kept if char.isspace() and not quoted else len(made)
    return made[:kept]


def _known(paths: Iterator[str] | tuple[str, ...], root: str) -> Iterator[Protection]:
    for path in dict.fromkeys(each for named in paths for each in (named, os.path.realpath(named))):
        if is_under(root, path):  # a directory that holds the workspace: all of it would be protected
            continue
        place = path[len(root) + 1 :] if is_under(path, root) else path
        yield Protection(place, place, final=False)


def _read(path: str) -> str:
    return first_bytes(path, _LARGEST).decode("utf-8", "surrogateescape")


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return ()
    if stat.S_ISDIR(found.st_mode):
        return (found.st_ino,)
    return found.st_ino, found.st_mtime_ns, found.st_size
