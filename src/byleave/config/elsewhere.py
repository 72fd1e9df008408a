"""Protected places under other names: where links of the home directory lead, and what variables name. It only looks.

A `~/.bashrc` that is a link into a repository of dotfiles is obeyed wherever it leads, and an agent whose settings a
variable has moved obeys them there.
"""

import os
from itertools import islice

from byleave.config.homes import real_path
from byleave.core.fs import is_under
from byleave.core.protected import LED_TO, Protection, is_place, next_steps, patterns_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.core.protected import Steps

_CONFIGURATION = ".config"
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


def places_elsewhere(home: str, environment: "Mapping[str, str]", root: str) -> "Iterator[Protection]":
    """Yield protected places by the paths that links and variables give them, as the workspace at `root` names them."""
    for path, final in (*_linked(home), *_linked(root), *_named(environment, home)):
        if is_under(root, path):  # all of the workspace would be protected
            continue
        place = path[len(root) + 1 :] if is_under(path, root) else path
        yield Protection(place, place, final, LED_TO)


def _named(environment: "Mapping[str, str]", home: str) -> "Iterator[tuple[str, bool]]":
    usual = (home, os.path.join(home, _CONFIGURATION))  # in which names count
    for name in _VARIABLES:
        value = environment.get(name, "")
        if os.path.isabs(value) and os.path.normpath(value) not in usual:
            for path in dict.fromkeys((os.path.normpath(value), real_path(value))):
                yield path, False
                yield from ((os.path.join(path, file), True) for file in _HOOKS.get(name, ()))


def _linked(directory: str) -> "Iterator[tuple[str, bool]]":
    """Yield where links with protected names lead, in a directory and in the one for configuration in it."""
    for where, begun in ((directory, ()), (os.path.join(directory, _CONFIGURATION), next_steps((), _CONFIGURATION))):
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
