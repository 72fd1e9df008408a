"""Where byleave keeps and finds things: the user's configuration, state and memory, and the workspace's root."""

from __future__ import annotations

import os
import pwd
import stat
import sys
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.core.paths import names_process_link
from byleave.errors import InputError, StateError
from byleave.record import Record
from byleave.text import quoted
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGED = "/etc/byleave"
CONFIG_FILE = "config.toml"
PROJECT_FILES = ("byleave.toml", ".byleave/config.toml")
LOCAL_FILE = ".byleave/local.toml"
FOREIGN_FILES = (".mcp.json", ".mcp-gateway-rules.json")  # that other programs read as well
# Of a directory that holds a name of the workspace free while a sandbox runs (sandbox.placeholders). The sticky bit
# marks it; once a file is put into it, it is an ordinary directory.
HELD_MODE = 0o1755
_SESSION_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class UserDirs(Record):
    """The directories of one user on one machine; `user` is the home directory, "" where there is none."""

    config: str
    state: str
    memory: str
    managed: str = MANAGED
    user: str = ""

    def workspace(self, root: str) -> str:
        """Return the directory that holds what is remembered of the workspace at `root`."""
        return os.path.join(self.state, "workspaces", digest(os.fsencode(root))[:32])

    def own_places(self, root: str | None = None) -> tuple[str, ...]:
        """Return every place that only byleave may write to, and the agents' own hook settings.

        Of a directory that holds the workspace at `root` itself, only what byleave keeps in it.
        """
        named = [real_path(place) for place in (self.managed, self.config, self.state, self.memory)]
        kept = [place for directory in named for place in _kept_in(directory, root)]
        # A configuration file may be a link, to a dotfiles repository for instance: what it leads to is ours as well.
        files = [real_path(os.path.join(place, CONFIG_FILE)) for place in (self.managed, self.config)]
        return tuple(dict.fromkeys([*kept, *files, *service_places(), *hook_settings(self.user)]))


def service_places(user: int | None = None) -> tuple[str, str]:
    """Return where the sockets of a user's services can be: no variable moves them (`service.directory`)."""
    number = os.geteuid() if user is None else user
    return f"/run/user/{number}/byleave", f"/tmp/byleave-{number}"  # noqa: S108 -- checked before every use


_HOOK_SETTINGS = (
    ".claude/settings.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".cursor/cli.json",
    ".config/opencode/plugins",  # whatever lies there is run
    ".config/opencode/plugin",
    ".copilot/hooks",
    ".copilot/settings.json",
    ".copilot/config.json",
    ".qwen/settings.json",
    ".cline/hooks",
    "Documents/Cline/Hooks",
)


def hook_settings(user: str) -> tuple[str, ...]:
    """Return where the agents' own hook settings really are; none for a `user` without a home directory."""
    if not user:
        return ()
    home = real_path(user)
    return tuple([_real_place(home, name) for name in _HOOK_SETTINGS])


def _real_place(home: str, name: str) -> str:
    """Return where a name below a real directory leads: of most agents there is nothing, which one look shows."""
    place = os.path.join(home, name)
    try:
        os.lstat(os.path.join(home, name.partition("/")[0]))
    except FileNotFoundError:
        return place
    except (OSError, ValueError):  # `real_path` says what becomes of it
        pass
    return real_path(place)


def real_path(path: str) -> str:
    """Return where `path` really leads; as it is written, if a link in it is exchanged at this very moment.

    A link of a process leads elsewhere for each process, so it stays as it is written, too.
    """
    try:
        if names_process_link(f"/{os.path.normpath(path).lstrip('/')}"):
            return path
        return os.path.realpath(path)
    except (OSError, ValueError):  # `realpath` reads what it has just seen to be a link; and no name holds a NUL
        return os.path.normpath(path)


def _kept_in(directory: str, root: str | None) -> list[str]:
    if root is None or not is_under(root, directory):
        return [directory]
    return [os.path.join(directory, name) for name in (CONFIG_FILE, "workspaces", "cache")]


def find_homes(environment: Mapping[str, str]) -> UserDirs:
    """Return the homes as the environment says: BYLEAVE_HOME above all, else the XDG directories.

    Never a relative one: it would lie in the workspace, and every cloned repository could bring its own.
    """
    home = _home(environment)
    own = environment.get("BYLEAVE_HOME")
    if own:
        if not os.path.isabs(own):
            raise StateError(f"BYLEAVE_HOME is not absolute: {quoted(own)}", hint="write the whole path, from / on")
        base = os.path.normpath(own)
        return UserDirs(config=base, state=base, memory=os.path.join(base, "cache"), user=home)
    if not home:
        raise StateError("there is no home directory", hint="set HOME or BYLEAVE_HOME to an absolute path")
    return UserDirs(
        config=os.path.join(_xdg(environment, "XDG_CONFIG_HOME", home, ".config"), "byleave"),
        state=os.path.join(_xdg(environment, "XDG_STATE_HOME", home, ".local/state"), "byleave"),
        memory=os.path.join(_xdg(environment, "XDG_CACHE_HOME", home, ".cache"), "byleave"),
        user=home,
    )


def find_root(start: str, homes: UserDirs | None = None) -> str:
    """Return the nearest directory above `start` with byleave's own files, else with `.git`, else `start`.

    What another user put above does not count: a `.git` planted in /tmp would make all of it the workspace. Nor does
    an empty directory that only holds a name free, nor a `.byleave` that is byleave's own home. The home directory is
    never found: a `.git` for its dotfiles would make all that the user has one workspace.
    """
    owners = {os.geteuid(), 0, _owner(start)}
    home, own = home_directory(homes), _own_home(homes)
    for markers in ((*PROJECT_FILES[:1], ".byleave"), (".git",)):
        directory = start
        while True:
            named = [marker for marker in markers if os.path.join(directory, marker) != own]
            found = {_marker_owner(directory, marker) for marker in named} - {None}
            if found and (directory == start or found & owners) and real_path(directory) != home:
                return directory
            parent = os.path.dirname(directory)
            if parent == directory:
                break
            directory = parent
    return start


def home_directory(homes: UserDirs | None = None) -> str:
    """Return the user's home directory, which is no project; "" where there is none."""
    user = _home(os.environ) if homes is None else homes.user
    return real_path(user) if user else ""


def _own_home(homes: UserDirs | None) -> str:
    own = os.environ.get("BYLEAVE_HOME", "") if homes is None else homes.config
    return os.path.normpath(own) if own else ""


def is_trusted_owner(path: str, root: str) -> bool:
    """Whether something stands at `path` that belongs to us, to root, or to the owner of the workspace at `root`."""
    owner = _owner(path)
    return owner is not None and owner in (os.geteuid(), 0, _owner(root))


def check_session_name(name: str) -> str:
    """Return the session's name, or say why it cannot be one: it becomes the name of a directory."""
    if not 1 <= len(name) <= 64 or name.startswith(".") or not set(name) <= _SESSION_LETTERS:
        raise InputError(
            f"{quoted(name)} is no session name", hint="use 1 to 64 letters, digits, dots, dashes or underscores"
        )
    return name


def _marker_owner(directory: str, marker: str) -> int | None:
    """Return who owns the marker in a directory, None if there is none."""
    path = os.path.join(directory, marker)
    owner = _owner(path)
    return None if owner is None or (marker in PROJECT_FILES and is_directory(path)) or is_held(path) else owner


def is_directory(path: str) -> bool:
    """Whether a directory stands at `path`, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_held(path: str) -> bool:
    """Whether at `path` there is only a directory that holds the name while a sandbox runs, and others held in it."""
    try:
        if not _is_marked(os.lstat(path).st_mode):
            return False
        with os.scandir(path) as entries:
            modes = [entry.stat(follow_symlinks=False).st_mode for entry in entries]
    except (OSError, ValueError):
        return False
    return all(_is_marked(mode) or (stat.S_ISREG(mode) and not mode & 0o222) for mode in modes)


def _is_marked(mode: int) -> bool:
    return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX)


def _owner(path: str) -> int | None:
    """Return who owns what stands at `path`, None if nothing does."""
    try:
        return os.lstat(path).st_uid
    except (OSError, ValueError):
        return None


def _home(environment: Mapping[str, str]) -> str:
    """Return the home directory: HOME if it is absolute, else what the system knows; "" if neither is known."""
    home = environment.get("HOME", "")
    if not os.path.isabs(home):
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return ""
    return home if os.path.isabs(home) else ""


def _xdg(environment: Mapping[str, str], name: str, home: str, default: str) -> str:
    value = environment.get(name, "")
    return value if os.path.isabs(value) else os.path.join(home, default)


_ENTRY = "byleave/cli/__main__.py"
_NEEDED = ("msgspec", "idna", "re2")  # packages that a confined run may load besides byleave


def own_packages() -> str:
    """Return where packages are that byleave loads besides its own, in the form of PATH; "" if that is beside it."""
    parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    named = [place for place in sys.path if place.startswith("/") and place != parent and ":" not in place]
    return ":".join(dict.fromkeys([place for place in named if any(_has_package(place, name) for name in _NEEDED)]))


def _has_package(place: str, name: str) -> bool:
    path = os.path.join(place, name)
    return os.path.isdir(path) or os.path.isfile(f"{path}.py")


def own_front(memory: str) -> str | None:
    """Return the native front that is there, of the package or built before into `memory`; None if there is none."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for place in (os.path.join(package, "sandbox", "native"), memory):
        path = os.path.join(place, f"front-{os.uname().machine}")
        if os.access(path, os.X_OK):
            return path
    return None


def own_start(memory: str) -> list[str]:
    """Return the words that start this very installation of byleave, behind the front if there is one."""
    front = own_front(memory)
    return own_command() if front is None else [front, *own_command()]


def own_command() -> list[str]:
    """Return the words that start this very installation of byleave: absolute, isolated, without what `site` runs."""
    parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    packages = own_packages()
    more = ["--packages", packages] if packages else []
    return [sys.executable, "-I", "-S", os.path.join(parent, _ENTRY), *more]
