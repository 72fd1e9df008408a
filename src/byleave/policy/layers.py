"""The policy layers, one for each source of configuration: which files there are, who wrote them, and what they say.

From the weakest to the strongest: user, project, project-local, session, command line, managed. A layer that came out
of the workspace counts as written by a stranger until the user has trusted its exact content.

Project files of the directories around a workspace (`enclosing_directories`) are layers too. Without them, an empty
`byleave.toml` or `.byleave` in a subdirectory would switch the project's policy off for everything that is started
there. Each of them is a view of its own, and only tightens. Their paths are relative to where they stand; `seen_from`
writes them as the workspace inside names the same places.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from byleave.core.fs_rules import is_under
from byleave.core.paths import collapse
from byleave.core.patterns import ANY_DEPTH
from byleave.errors import ConfigError, ConfigErrors, StateError, UnsafePathError
from byleave.policy.debounce import Settling
from byleave.policy.dirs import (
    CONFIG_FILE,
    FOREIGN_FILES,
    LOCAL_FILE,
    PROJECT_FILES,
    home_directory,
    is_trusted_owner,
    real_path,
)
from byleave.policy.normalize import AT
from byleave.policy.toml_spans import locate
from byleave.policy.trust import open_project_file
from byleave.record import Record
from byleave.text import quoted, shown
from byleave.user_files import ParseCache, read_all, read_private
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.policy.dirs import UserDirs
    from byleave.policy.normalize import At, Tree
    from byleave.policy.toml_spans import Spots
    from byleave.policy.trust import ProjectTrust

    Good = Mapping[str, "Layer"]


ENCLOSING_FILES = ("byleave.toml", ".byleave/config.toml", ".byleave/local.toml", ".mcp-gateway-rules.json")
_COMBINED = ("all", "any")
_OUTCOMES = ("allow", "ask", "deny")
_EXAMPLES = ("match", "not_match")  # they are checked where the file is at home


def enclosing_directories(root: str, homes: UserDirs) -> Iterator[str]:
    """Yield the directories above a workspace in which project files of the same owner stand, the nearest first.

    The home directory, and what lies above it, is no project.
    """
    home = home_directory(homes)
    directory = os.path.dirname(root)
    while directory != root:
        if home and is_under(home, directory):
            return
        if any(is_trusted_owner(os.path.join(directory, name), root) for name in ENCLOSING_FILES):
            yield directory
        root, directory = directory, os.path.dirname(directory)


def seen_from(tree: Tree, outer: str, root: str) -> Tree:
    """Return what a project file of the directory `outer` says about the workspace at `root`, which lies in it."""
    inner = root[len(outer) :].strip("/")
    seen: Tree = {"tools": {}}
    if "rules" in tree:
        rules = [_rule(rule, outer, inner) for rule in tree["rules"]["value"]]
        seen["rules"] = {"strategy": "prepend", "value": rules}  # in front, where nothing inside can hide them
    if "agents" in tree:
        seen["agents"] = tree["agents"]
    for name, tool in tree["tools"].items():
        marks = {key: value for key, value in tool.items() if key.startswith("#")}
        fs = tool.get("access", {}).get("fs", {}).get("value")
        if fs:
            access = {"fs": {"strategy": "append", "value": _file_rules(fs, inner)}}
            seen["tools"][name] = {**marks, "access": access}
    return seen


def _rule(rule: Mapping[str, Any], outer: str, inner: str) -> Tree:
    kept = {key: value for key, value in rule.items() if key not in _EXAMPLES}
    return {
        key: _matcher(value, outer, inner) if key in _OUTCOMES and isinstance(value, dict) else value
        for key, value in kept.items()
    }


def _matcher(table: Mapping[str, Any], outer: str, inner: str) -> Tree:
    made = dict(table)
    if "path" in made:
        texts = [made["path"]] if isinstance(made["path"], str) else made["path"]
        made["path"] = [path for text in texts for path in _patterns(text, outer, inner)]
    if isinstance(made.get("within"), str):
        made["within"] = _place(made["within"], outer)
    for key in _COMBINED:
        if isinstance(made.get(key), list):
            made[key] = [_matcher(each, outer, inner) for each in made[key]]
    for key in ("not", "call"):
        if isinstance(made.get(key), dict):
            made[key] = _matcher(made[key], outer, inner)
    if isinstance(made.get("inside"), str):
        made["inside"] = _place(made["inside"], outer)
    return made


def _is_whole(text: str) -> bool:
    """Whether a path means the same place wherever it is written: from the root, or from home."""
    return text == "~" or text.startswith(("/", "~/"))


def _place(text: str, outer: str) -> str:
    return text if _is_whole(text) else os.path.normpath(os.path.join(outer, text))


def _patterns(text: str, outer: str, inner: str) -> Iterator[str]:
    """Yield a pattern as an absolute one, and as the workspace inside names the same files where that is exact."""
    if _is_whole(text):
        yield text
        return
    escaped = "".join([f"[{char}]" if char in "*?[" else char for char in outer.rstrip("/")])
    names = [name for name in text.split("/") if name not in ("", ".")]
    yield "/".join([escaped, *names])
    within = inner.split("/")
    if names[:1] == [ANY_DEPTH]:
        yield "/".join(names)
    elif names[: len(within)] == within and len(names) > len(within):
        yield "/".join(names[len(within) :])


def _file_rules(rules: list[Tree], inner: str) -> list[Tree]:
    """Return the file rules of a tool that reach into the workspace; where only others are written, one that closes it.

    Those at and above it come first, the nearest last: of several at one path, the last counts.
    """
    around, below = [], []
    for rule in rules:
        path = collapse(rule["path"])
        if path is None:
            continue
        if is_under(inner, path) or path == "":
            around.append((len(path), {**rule, "path": "."}))
        elif is_under(path, inner):
            below.append({**rule, "path": path[len(inner) :].strip("/")})
    marks = {key: value for key, value in rules[0].items() if key.startswith("#")}
    nearest = [rule for _length, rule in sorted(around, key=lambda pair: pair[0])]
    return [*(nearest or [{"path": ".", **marks}]), *below]


LARGEST_FILE = 64 << 20
# A project's file costs every start what it takes to read it: there is room for 100,000 rules, and a list of four
# million numbers, which tomllib would take a minute and gigabytes for, is refused unread.
LARGEST_PROJECT_FILE = 8 << 20
MOST_MARKS = 1_000_000
MOST_PROBLEMS = 200  # more than a person reads
USER, ENCLOSING, PROJECT, LOCAL, SESSION, COMMAND_LINE, MANAGED, INLINE = (
    "user",
    "enclosing",
    "project",
    "project-local",
    "session",
    "command line",
    "managed",
    "inline",
)
_SESSION_KEYS = frozenset({"tools", "rules"})


class Layer(Record):
    """What one source says, in normal form, and whether it may loosen anything. `path` is where `file` really is."""

    name: str
    tree: Tree
    file: str | None = None
    content: bytes = b""
    trusted: bool = True
    path: str = ""
    around: int = 0  # how many names of a place in the tree are not in the file: `tools`, and the tool's own
    inside: At = ()  # the table of the file that is the tree, where the tree is not the whole file

    def source(self, line: int) -> str:
        """Return where a rule of this layer stands, as verdicts name it."""
        return "inline" if self.file is None else f"{self.file}:{line}"


class Problems:
    """What is wrong with the layers: each problem once, though several views repeat it; no more than a person reads."""

    def __init__(self) -> None:
        self._found: dict[tuple[str | None, At, str], ConfigError] = {}
        self._places: dict[str, Spots] = {}
        self._unshown = 0

    def add(self, layer: Layer, problem: str, *, hint: str, at: At) -> None:
        """Note a problem that stands at `at`: at the value if it is written down, else at its key or its table."""
        key = (layer.file, at, problem)
        if key in self._found:
            return
        if len(self._found) >= MOST_PROBLEMS:
            self._unshown += 1
            return
        self._found[key] = self._error(layer, problem, hint, at)

    def __len__(self) -> int:
        return len(self._found) + self._unshown

    def raise_any(self) -> None:
        """Raise all of them together, if there are any."""
        errors = list(self._found.values())
        if self._unshown:
            errors.append(ConfigError(f"there are more than {MOST_PROBLEMS} problems", hint="fix these first"))
        if errors:
            raise ConfigErrors(errors)

    def _error(self, layer: Layer, problem: str, hint: str, at: At) -> ConfigError:
        if layer.file is None:
            return ConfigError(f"{_dotted(at)}: {problem}", hint=hint)
        places = self._places.get(layer.file)
        if places is None:
            places = self._places[layer.file] = locate_layer(layer)
        return ConfigError(problem, hint=hint, at=places.point((*layer.inside, *at[layer.around :]), layer.file))


def locate_layer(layer: Layer) -> Spots:
    """Return where each key and value of a layer stands in its file."""
    from byleave.policy.mcp_json import is_json, read_foreign  # heavy: only files that changed are parsed
    from byleave.policy.toml_text import read_text

    if is_json(layer.file or "", layer.content):
        return read_foreign(layer.content, layer.file or "")[1]
    return locate(read_text(layer.content, layer.file or ""))


class LayerFiles:
    """Reads layers from disk. `trust` says which of the files in the workspace the user trusts; without it, none."""

    def __init__(
        self,
        root: Root,
        homes: UserDirs,
        memory: ParseCache,
        *,
        trust: ProjectTrust | None,
        settling: Settling | None = None,
    ) -> None:
        self.settling = Settling() if settling is None else settling
        self._place = root
        self._root = root.path
        self._homes = homes
        self._memory = memory
        self._trust = trust
        self._good: Good | None = None
        self.broken: list[str] = []

    def again(self, good: Good | None) -> LayerFiles:
        """Take what was read before in the place of files that cannot be used any more, and note which they were.

        None: what cannot be used is an error, as it is when a policy is read for the first time.
        """
        self._good, self.broken = good, []
        return self

    def discover(self, session: str, *, user: bytes | None = None) -> Iterator[Layer]:
        """Yield the layers of this user, project and session, weakest first, and the managed one last.

        With `user`, as if that were the content of the user's own file.
        """
        own = os.path.join(self._homes.config, CONFIG_FILE)
        yield from self._own(USER, own) if user is None else [_try_out(own, user)]
        yield from self._enclosing()
        yield from self._project()
        yield from self._session(session)
        yield from self._managed()

    def stamp(self, session: str, given: list[str], *, base: str = "") -> tuple[object, ...]:
        """Return what changes whenever one of the files does that these layers come from, or would come from."""
        homes = self._homes
        found = (
            os.path.join(homes.config, CONFIG_FILE),
            *(os.path.join(self._root, name) for name in (*FOREIGN_FILES, *PROJECT_FILES, LOCAL_FILE)),
            *(path for directory in self._directories_around() for path in _files_of(directory)),
        )
        named = tuple(os.path.join(base, path) for path in given) or found
        paths = (*named, self.session_file(session), os.path.join(homes.managed, CONFIG_FILE))
        return tuple([self.settling.stamp(path) for path in paths])

    def _directories_around(self) -> list[str]:
        """Return the directories above whose project files count, also those that have lost one only just now."""
        found = list(enclosing_directories(self._root, self._homes))
        if not self.settling.waits:
            return found
        unsettled = {path for path in self.settling.known() if self.settling.is_unsettled(path)}
        above = os.path.dirname(self._root)
        while above not in ("/", ""):
            if above not in found and not unsettled.isdisjoint(_files_of(above)):
                found.append(above)
            above = os.path.dirname(above)
        return sorted(found, key=len, reverse=True)  # the nearest first

    def given(self, paths: list[str], session: str, *, base: str = "") -> Iterator[Layer]:
        """Yield the files named on the command line, relative to `base`, instead of what would be found.

        Of several files the last is the strongest; all of them are stronger than the session.
        """
        yield from self._session(session)
        for path in paths:
            place = os.path.join(base, path)
            yield from self._or_good(place, lambda: self._given(path, place))  # noqa: B023 -- called at once
        yield from self._managed()

    def _session(self, session: str) -> Iterator[Layer]:
        for layer in self._own(SESSION, self.session_file(session)):
            _refuse_session_keys(layer)
            yield layer

    def session_file(self, session: str) -> str:
        """Return where the layer of a session is kept."""
        return os.path.join(self._homes.workspace(self._root), "sessions", session, CONFIG_FILE)

    def _managed(self) -> Iterator[Layer]:
        yield from self._own(MANAGED, os.path.join(self._homes.managed, CONFIG_FILE))

    def _or_good(self, path: str, read: Callable[[], Layer | None]) -> Iterator[Layer]:
        """Yield the layer that is read, if there is one; where it cannot be used, the last one that could.

        A file that is just being changed says what it said before, also if the change began while it was read.
        """
        if self._is_unsettled(path):
            yield from self._as_before(path)
            return
        layer: Layer | None = None
        try:
            layer = read()
        except ConfigErrors as error:
            if not self._is_unsettled(path):
                if self._good is None or path not in self._good:
                    raise
                self.broken.append(f"{shown(path)} cannot be used any more; what it said before still holds:\n{error}")
                layer = self._good[path]
        if self._is_unsettled(path):
            yield from self._as_before(path)
        elif layer is not None:
            yield layer

    def _is_unsettled(self, path: str) -> bool:
        return self._good is not None and self.settling.is_unsettled(path)

    def _as_before(self, path: str) -> Iterator[Layer]:
        if self._good is not None and path in self._good:
            yield self._good[path]

    def _given(self, path: str, place: str) -> Layer:
        return self._layer(COMMAND_LINE, path, place, read_given_file(path, place))

    def _own(self, name: str, path: str) -> Iterator[Layer]:
        yield from self._or_good(path, lambda: self._read_own(name, path))

    def _read_own(self, name: str, path: str) -> Layer | None:
        try:
            content = read_private(path, limit=LARGEST_FILE, links=True)
        except StateError as error:
            raise ConfigErrors([ConfigError(error.problem, hint=error.hint)]) from None
        return None if content is None else self._layer(name, path, path, content)

    def _enclosing(self) -> Iterator[Layer]:
        """Yield what the project files around this workspace say about it: never trusted here, so they only tighten."""
        for directory in self._directories_around():
            around = LayerFiles(Root(directory), self._homes, self._memory, trust=None, settling=self.settling)
            for layer in around.again(self._good).project_files():
                tree = layer.tree if layer.name == ENCLOSING else seen_from(layer.tree, directory, self._root)
                yield layer.replace(name=ENCLOSING, file=layer.path, tree=tree, trusted=False)
            self.broken += around.broken

    def project_files(self) -> Iterator[Layer]:
        """Yield what this directory says as a project, without the servers that other programs' files describe."""
        return (layer for layer in self._project() if layer.file in ENCLOSING_FILES or layer.name == ENCLOSING)

    def _project(self) -> Iterator[Layer]:
        found = [name for name in PROJECT_FILES if self._is_there(name)]
        if len(found) > 1:
            raise ConfigErrors(
                [ConfigError("there is a byleave.toml and a .byleave/config.toml", hint="keep one of the two")]
            )
        foreign = [name for name in FOREIGN_FILES if self._is_there(name)]
        named = [(PROJECT, name) for name in (*foreign, *found)]
        if self._is_there(LOCAL_FILE):
            named.append((LOCAL, LOCAL_FILE))
        for layer_name, name in named:
            path = os.path.join(self._root, name)
            for layer in self._or_good(path, lambda: self._read_project(layer_name, name)):  # noqa: B023 -- at once
                trusted = self._trust is not None and self._trust.trusts(name, layer.content, layer.tree)
                yield layer.replace(trusted=trusted)

    def _read_project(self, layer_name: str, name: str) -> Layer:
        return self._project_layer(layer_name, name, self.read_project_file(name))

    def _is_there(self, name: str) -> bool:
        """Whether something stands there; what cannot be seen is not taken for missing, or its denies were lost.

        A directory is no file, and says nothing: while a sandbox runs, an empty one may hold the name free.
        """
        path = os.path.join(self._root, name)
        if self._is_unsettled(path):
            return path in (self._good or {})
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _unreadable(name, error.strerror) from None
        return not stat.S_ISDIR(mode)

    def read_project_file(self, name: str) -> bytes:
        """Return the content of a file of the workspace; a link that leads out of it is not followed."""
        try:
            descriptor = open_project_file(self._place, name)
        except ConfigError as error:
            raise ConfigErrors([error]) from None
        except UnsafePathError as error:
            raise ConfigErrors([ConfigError(error.problem, hint=error.hint)]) from None
        except OSError as error:
            raise _unreadable(name, error.strerror) from None
        content = _read_regular(descriptor, name, limit=LARGEST_PROJECT_FILE)
        if len(content) > MOST_MARKS and _marks(content) > MOST_MARKS:
            raise _unreadable(name, "it holds too many keys and values")
        return content

    def parse_project_file(self, name: str, content: bytes) -> Layer:
        """Return the layer of a project file, trusted or not."""
        return self._project_layer(PROJECT, name, content)

    def _project_layer(self, layer_name: str, name: str, content: bytes) -> Layer:
        path = os.path.join(self._root, name)
        try:
            return self._layer(layer_name, name, path, content)
        except ConfigErrors:
            if real_path(path) == path:
                raise
            # A link to some other file of the workspace, a secret one perhaps: the error must not repeat its lines.
            problem = f"{name} is a link to a file that is no configuration"
            hint = "put the file itself there; `byleave check --policy FILE` says what is wrong with FILE"
            raise ConfigErrors([ConfigError(problem, hint=hint)]) from None

    def _layer(self, name: str, file: str, path: str, content: bytes) -> Layer:
        def parse(content: bytes) -> Tree:
            from byleave.policy.parse import parse_file  # heavy: only files that changed are parsed

            return parse_file(content, file)

        return Layer(name, self._memory.recall(path, content, parse), file, content, True, path)


def _files_of(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in ENCLOSING_FILES]


def _try_out(path: str, content: bytes) -> Layer:
    """Return the user's layer as it would be with this content; nothing of it is remembered."""
    from byleave.policy.parse import parse_file  # heavy: only files that changed are parsed

    return Layer(USER, parse_file(content, path), path, content, True, path)


def inline_layer(tree: Any) -> Layer:
    """Return the layer of a policy that was given as a tree, alone and trusted."""
    from byleave.policy.parse import parse_tree  # heavy: only files that changed are parsed

    return Layer(INLINE, parse_tree(tree))


def read_given_file(path: str, place: str) -> bytes:
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise _unreadable(path, why) from None
    return _read_regular(descriptor, path, limit=LARGEST_FILE)


def _read_regular(descriptor: int, path: str, *, limit: int) -> bytes:
    """Read a plain file of bounded size from `descriptor`, and close it."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _unreadable(path, "it is not a plain file")
        content = read_all(descriptor, limit + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    finally:
        os.close(descriptor)
    if len(content) > limit:
        raise _unreadable(path, f"it is larger than {limit >> 20} MB")
    return content


def _marks(content: bytes) -> int:
    """Return about how many keys, values and tables a TOML file has, by the characters that keep them apart."""
    pairs = content.count(b"[") + content.count(b".") + content.count(b":")
    return content.count(b",") + content.count(b"=") + content.count(b"{") + pairs // 2


def _unreadable(path: str, why: str | None) -> ConfigErrors:
    problem = f"the configuration {quoted(path)} cannot be read: {why or 'unknown error'}"
    return ConfigErrors([ConfigError(problem, hint="check the path and its permissions")])


def _refuse_session_keys(layer: Layer) -> None:
    """Refuse all but grants: what runs, and how, is never a session's to say."""
    problems = Problems()
    extra: list[At] = [(key,) for key in layer.tree if key not in _SESSION_KEYS and not key.startswith("#")]
    for tool in layer.tree["tools"].values():
        extra += [(*tool[AT], key) for key in tool if key != "access" and not key.startswith("#")]
    for at in extra:
        problems.add(layer, f"a session cannot set {_dotted(at)}", hint="a session holds tools.*.access only", at=at)
    problems.raise_any()


def _dotted(at: At) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    return shown(text.removeprefix("."))
