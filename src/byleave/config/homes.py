"""Where byleave keeps and finds things: the user's configuration, state and memory, and the workspace's root."""

import os

from byleave.errors import InputError
from byleave.private import digest
from byleave.record import Record
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGED = "/etc/byleave"
PROJECT_FILES = ("byleave.toml", ".byleave/config.toml")
LOCAL_FILE = ".byleave/local.toml"
_SESSION_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Homes(Record):
    """The directories of one user on one machine."""

    config: str
    state: str
    memory: str
    managed: str = MANAGED
    user: str = "~"

    def workspace(self, root: str) -> str:
        """Return the directory that holds what is remembered of the workspace at `root`."""
        return os.path.join(self.state, "workspaces", digest(os.fsencode(root))[:32])

    def own_places(self) -> tuple[str, ...]:
        """Return every directory that only byleave may write to, and the agents' own hook settings."""
        hooks = (".claude/settings.json", ".codex/config.toml", ".codex/hooks.json", ".gemini/settings.json")
        settings = [os.path.join(self.user, name) for name in (*hooks, ".cursor/hooks.json", ".cursor/cli.json")]
        named = [self.managed, self.config, self.state, self.memory, *settings]
        return tuple(dict.fromkeys(os.path.realpath(place) for place in named))


def find_homes(environment: "Mapping[str, str]") -> Homes:
    """Return the homes as the environment says: BYLEAVE_HOME above all, else the XDG directories."""
    home = environment.get("HOME") or os.path.expanduser("~")
    own = environment.get("BYLEAVE_HOME")
    if own:
        base = os.path.abspath(own)
        return Homes(config=base, state=base, memory=os.path.join(base, "cache"), user=home)
    return Homes(
        config=os.path.join(_xdg(environment, "XDG_CONFIG_HOME", home, ".config"), "byleave"),
        state=os.path.join(_xdg(environment, "XDG_STATE_HOME", home, ".local/state"), "byleave"),
        memory=os.path.join(_xdg(environment, "XDG_CACHE_HOME", home, ".cache"), "byleave"),
        user=home,
    )


def find_root(start: str) -> str:
    """Return the nearest directory above `start` with byleave's own files, else with `.git`, else `start`."""
    for markers in ((*PROJECT_FILES[:1], ".byleave"), (".git",)):
        directory = start
        while True:
            if any(os.path.lexists(os.path.join(directory, marker)) for marker in markers):
                return directory
            parent = os.path.dirname(directory)
            if parent == directory:
                break
            directory = parent
    return start


def check_session_name(name: str) -> str:
    """Return the session's name, or say why it cannot be one: it becomes the name of a directory."""
    if not 1 <= len(name) <= 64 or name.startswith(".") or not set(name) <= _SESSION_LETTERS:
        raise InputError(
            f"{quoted(name)} is no session name", hint="use 1 to 64 letters, digits, dots, dashes or underscores"
        )
    return name


def _xdg(environment: "Mapping[str, str]", name: str, home: str, default: str) -> str:
    value = environment.get(name, "")
    return value if os.path.isabs(value) else os.path.join(home, default)
