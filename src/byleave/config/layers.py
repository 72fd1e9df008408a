"""One source of configuration each: which files there are, who wrote them, and what they say.

From the weakest to the strongest: user, project, project-local, session, command line, managed. A layer that came out
of the workspace is somebody else's until the user has trusted its exact content.
"""

import os
import stat

from byleave.config.homes import LOCAL_FILE, PROJECT_FILES
from byleave.errors import ConfigError, ConfigErrors
from byleave.private import Memory, read_all, refuse_shared
from byleave.record import Record
from byleave.text import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from byleave.config.homes import Homes
    from byleave.config.normal import At, Tree

LARGEST_FILE = 64 << 20
USER, PROJECT, LOCAL, SESSION, COMMAND_LINE, MANAGED, INLINE = (
    "user",
    "project",
    "project-local",
    "session",
    "command line",
    "managed",
    "inline",
)
_SESSION_KEYS = frozenset({"tools"})


class Layer(Record):
    """What one source says, in normal form, and whether it may loosen anything."""

    name: str
    tree: "Tree"
    file: str | None = None
    content: bytes = b""
    trusted: bool = True

    def source(self, line: int) -> str:
        """Return where a rule of this layer stands, as verdicts name it."""
        return "inline" if self.file is None else f"{self.file}:{line}"

    def error(self, problem: str, hint: str, at: "At") -> ConfigError:
        """Return an error that points at `at`: the value if it is written down, else its key or its table."""
        if self.file is None:
            return ConfigError(f"{_dotted(at)}: {problem}", hint=hint)
        from byleave.config.places import locate
        from byleave.config.problems import read_text

        places = locate(read_text(self.content, self.file))
        return ConfigError(problem, hint=hint, at=places.point(at, self.file))


class Files:
    """Reads layers from disk. `trusts` is asked about every file that lies in the workspace."""

    def __init__(
        self,
        root: str,
        homes: "Homes",
        memory: Memory,
        *,
        open_project_file: "Callable[[str], int]",
        trusts: "Callable[[str, bytes, Tree], bool]",
    ) -> None:
        self._root = root
        self._homes = homes
        self._memory = memory
        self._open_project_file = open_project_file
        self._trusts = trusts

    def discover(self, session: str) -> "Iterator[Layer]":
        """Yield the layers of this user, project and session, weakest first, and the managed one last."""
        yield from self._own(USER, os.path.join(self._homes.config, "config.toml"))
        yield from self._project()
        yield from self.session_and_managed(session)

    def given(self, paths: "list[str]", session: str) -> "Iterator[Layer]":
        """Yield the files named on the command line instead of what would be found."""
        for path in paths:
            content = _read_given(path)
            yield self._layer(COMMAND_LINE, path, content)
        yield from self.session_and_managed(session)

    def session_and_managed(self, session: str) -> "Iterator[Layer]":
        """Yield what holds however the rest was found."""
        path = os.path.join(self._homes.workspace(self._root), "sessions", session, "config.toml")
        for layer in self._own(SESSION, path):
            _refuse_session_keys(layer)
            yield layer
        yield from self._own(MANAGED, os.path.join(self._homes.managed, "config.toml"))

    def _own(self, name: str, path: str) -> "Iterator[Layer]":
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _unreadable(path, error.strerror) from None
        content = _read_regular(descriptor, path, private=True)
        yield self._layer(name, path, content)

    def _project(self) -> "Iterator[Layer]":
        found = [name for name in PROJECT_FILES if os.path.lexists(os.path.join(self._root, name))]
        if len(found) > 1:
            raise ConfigErrors(
                [ConfigError("there is a byleave.toml and a .byleave/config.toml", hint="keep one of the two")]
            )
        wanted = [(PROJECT, name) for name in found]
        if os.path.lexists(os.path.join(self._root, LOCAL_FILE)):
            wanted.append((LOCAL, LOCAL_FILE))
        for layer_name, name in wanted:
            content = self.read_project_file(name)
            layer = self._layer(layer_name, name, content)
            yield layer if self._trusts(name, content, layer.tree) else layer.replace(trusted=False)

    def read_project_file(self, name: str) -> bytes:
        """Return the content of a file of the workspace; a link that leads out of it is not followed."""
        try:
            descriptor = self._open_project_file(name)
        except ConfigError as error:
            raise ConfigErrors([error]) from None
        except OSError as error:
            raise _unreadable(name, error.strerror) from None
        return _read_regular(descriptor, name, private=False)

    def parse_project_file(self, name: str, content: bytes) -> Layer:
        """Return the layer of a project file, whoever trusts it."""
        return self._layer(PROJECT, name, content)

    def _layer(self, name: str, file: str, content: bytes) -> Layer:
        def parse(content: bytes) -> "Tree":
            from byleave.config.parse import parse_file

            return parse_file(content, file)

        key = file if os.path.isabs(file) else os.path.join(self._root, file)
        return Layer(name, self._memory.recall(key, content, parse), file, content)


def inline_layer(tree: "Any") -> Layer:
    """Return the layer of a policy that was given as a tree, alone and trusted."""
    from byleave.config.parse import parse_tree

    return Layer(INLINE, parse_tree(tree))


def _read_given(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise _unreadable(path, why) from None
    return _read_regular(descriptor, path, private=False)


def _read_regular(descriptor: int, path: str, *, private: bool) -> bytes:
    """Read a plain file of bounded size from `descriptor`, and close it."""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unreadable(path, "it is not a plain file")
        if found.st_size > LARGEST_FILE:
            raise _unreadable(path, f"it is larger than {LARGEST_FILE >> 20} MB")
        if private:
            refuse_shared(path, found)
        return read_all(descriptor, LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    finally:
        os.close(descriptor)


def _unreadable(path: str, why: "str | None") -> ConfigErrors:
    problem = f"the configuration {quoted(path)} cannot be read: {why or 'unknown error'}"
    return ConfigErrors([ConfigError(problem, hint="check the path and its permissions")])


def _refuse_session_keys(layer: Layer) -> None:
    """Refuse all but grants: what runs, and how, is never a session's to say."""
    extra = [key for key in layer.tree if key not in _SESSION_KEYS and not key.startswith("#")]
    extra += [
        f"tools.{name}.{key}"
        for name, tool in layer.tree.get("tools", {}).items()
        for key in tool
        if key != "access" and not key.startswith("#")
    ]
    if extra:
        raise ConfigErrors(
            [ConfigError(f"a session cannot set {quoted(extra[0])}", hint="a session layer holds tools.*.access only")]
        )


def _dotted(at: "At") -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return text.removeprefix(".")
