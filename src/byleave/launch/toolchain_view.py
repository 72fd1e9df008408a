"""What a confined run sees of the toolchains on this machine, and where they keep what they must write.

Installed programs are shown read-only, at their own paths, name by name (`workspace.toolchains` has the list). Package
managers write to one directory of byleave's own for each workspace, below its cache directory: never to the user's
caches, and never to anything on PATH. Where a manager can read a second cache, it reads the user's: what a person has
downloaded outside is there at the next run inside.

Start at `toolchain_view`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

from byleave.core.fs_rules import is_under
from byleave.launch.link_farm import LinkFarm
from byleave.user_files import digest, first_bytes, make_private_directory
from byleave.workspace.toolchains import (
    Surroundings,
    find_installed,
    find_managers,
    prefix_parts,
    program_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.workspace.toolchains import PackageManager

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc")
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_NAMES = 4096  # of one directory
_LARGEST = 1 << 18  # bytes of a file of settings
_MOST_STEPS = 1024  # names and links of one path
# Variables that name a prefix of programs: shown like a directory of PATH, and passed on.
_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "GEM_HOME")
# Variables that only choose among what is shown.
_CHOICES = (
    *("PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION", "RUSTUP_TOOLCHAIN", "GOTOOLCHAIN", "GOFLAGS", "GOOS"),
    *("GOARCH", "CGO_ENABLED", "CONDA_DEFAULT_ENV", "NODE_ENV", "CI"),
)
# Caches of browsers, which tests start: the variable, and the place below the home directory.
_BROWSERS = (
    ("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"),
    ("CYPRESS_CACHE_FOLDER", ".cache/Cypress"),
    ("PUPPETEER_CACHE_DIR", ".cache/puppeteer"),
    ("COREPACK_HOME", ".cache/node/corepack"),
)


class ToolchainView(Struct, frozen=True):
    """What a confined run needs beside the workspace.

    `shown` is read and executed, `lent` is written too: only directories of byleave's own. `variables` are for the
    environment of the run, and `path` is its PATH.
    """

    shown: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    path: str = _USUAL_PATH


def toolchain_view(root: str, home: str, environ: Mapping[str, str], cache_dir: str) -> ToolchainView:
    """Return what the commands of an agent need of this machine to build and test the project at `root`.

    Makes the directory that is lent, below `cache_dir`; a StateError if that is not the user's alone.
    """
    real_root, real_home, real_cache = (os.path.realpath(path) if path else "" for path in (root, home, cache_dir))
    disk = Disk(real_root)
    around = Surroundings(real_root, real_home if real_home != "/" else "", (real_cache,))
    managers = find_managers(real_root, disk)
    installed = find_installed(around, managers, environ, disk)
    search = _Search(around, installed.shown, disk)
    for name in _PREFIXES:
        search.add_prefix(environ.get(name, ""))
    path = search.path(environ.get("PATH", _USUAL_PATH))
    lent = make_private_directory(os.path.join(cache_dir, "toolchains", digest(os.fsencode(real_root))[:32]))
    lent = os.path.realpath(lent)
    caches = _Caches(around, lent, environ, disk)
    variables = dict(installed.variables)
    variables |= _chosen(environ, search)
    variables |= caches.variables(managers, path)
    shown = _outermost([*search.shown, *caches.shown], disk)
    variables |= {name: f"{home}/{at}" for name, at in _BROWSERS if f"{around.home}/{at}" in shown}
    return ToolchainView(tuple(shown), (lent,), variables, path)


class Disk:
    """The disk of this machine, as `workspace.toolchains` looks at it. What is seen is remembered for one view.

    A path that leads through the workspace, and out of it again, leads nowhere: what runs confined can make such a
    link, at a place that a variable such as VIRTUAL_ENV names, and would choose what is shown.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._names: dict[str, tuple[str, ...]] = {}

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def names(self, path: str) -> Sequence[str]:
        if path not in self._names:
            try:
                with os.scandir(path) as entries:
                    found = [entry.name for entry, _ in zip(entries, range(_MOST_NAMES), strict=False)]
            except OSError:
                found = []
            self._names[path] = tuple(sorted(found))
        return self._names[path]

    def real(self, path: str) -> str:
        try:
            real = os.path.realpath(path)
            honest = real == path or is_under(real, self._root) or not self._is_passed(path)
        except (OSError, ValueError):
            return ""
        return real if honest else ""

    def _is_passed(self, path: str) -> bool:
        """Whether a path has a name in the workspace, as written or behind one of its links."""
        current, ahead = "/", [name for name in reversed(os.path.abspath(path).split("/")) if name]
        for _ in range(_MOST_STEPS):
            if is_under(current, self._root):
                return True
            if not ahead:
                return False
            name = ahead.pop()
            following = os.path.dirname(current) if name == ".." else os.path.join(current, name)
            if name != ".." and os.path.islink(following):
                if is_under(following, self._root):
                    return True
                target = os.readlink(following)
                current = "/" if target.startswith("/") else current
                ahead += [each for each in reversed(target.split("/")) if each not in ("", ".")]
            else:
                current = following
        return True

    def text(self, path: str) -> str:
        content = first_bytes(path, _LARGEST)
        return content.decode(errors="replace") if len(content) < _LARGEST else ""


class _Search:
    """Builds the PATH of the run: directories that are there inside, none of which can be written from inside."""

    def __init__(self, around: Surroundings, shown: Sequence[str], disk: Disk) -> None:
        self._around = around
        self._disk = disk
        self.shown = list(shown)
        self._real = [disk.real(path) for path in shown]

    def path(self, outside: str) -> str:
        """Return the PATH inside for the one outside, in the same order."""
        kept = [self._entry(entry) for entry in outside.split(":")]
        return ":".join(dict.fromkeys(entry for entry in kept if entry)) or _USUAL_PATH

    def add_prefix(self, prefix: str) -> None:
        """Show a prefix that a variable names."""
        if os.path.isabs(prefix) and not self.is_visible(prefix):
            self._show(self._disk.real(prefix))

    def is_visible(self, path: str) -> bool:
        """Whether a path is there inside."""
        real = self._disk.real(path)
        places = (*_SYSTEM, self._around.root, *self._real)
        return any(is_under(real, place) for place in places)

    def is_partly_visible(self, prefix: str) -> bool:
        """Whether a path, or something below it, is there inside."""
        real = self._disk.real(prefix)
        return self.is_visible(prefix) or any(is_under(place, real) for place in self._real)

    def _entry(self, entry: str) -> str | None:
        if not os.path.isabs(entry) or not entry.isprintable():
            return None
        real = self._disk.real(entry)
        if not self._disk.is_directory(real) or any(is_under(real, place) for place in self._around.own):
            return None
        if any(is_under(entry, place) for place in _SYSTEM):
            return entry
        if not self.is_visible(real):
            prefix = program_prefix(real)
            if prefix is None:
                return None
            self._show(prefix, real)
        return real if self.is_visible(real) else None

    def _show(self, prefix: str, programs: str = "") -> None:
        """Show the parts of a prefix; of the home directory, and of what is too near the top, the programs alone."""
        home = self._around.home
        shallow = prefix.count("/") < 2 or prefix in (home, f"{home}/.local")
        parts = [programs] if shallow else [*prefix_parts(prefix, self._around, self._disk), programs]
        for part in parts:
            if part and self._around.may_show(part) and not self.is_visible(part):
                self.shown.append(part)
                self._real.append(part)


class _Caches:
    """The variables that send package managers to a cache of byleave's own, and the user's caches that they read."""

    def __init__(self, around: Surroundings, lent: str, environ: Mapping[str, str], disk: Disk) -> None:
        self._around = around
        self._lent = lent
        self._environ = environ
        self._disk = disk
        self.shown: list[str] = []

    def variables(self, managers: Sequence[PackageManager], path: str) -> dict[str, str]:
        """Return the variables of the managers that the project has, and of caches that any program may use."""
        made = {"XDG_CACHE_HOME": f"{self._lent}/cache"}
        for manager in managers:
            made |= {name: f"{self._lent}/{directory}" for name, directory in manager.caches}
            made |= dict(manager.fixed)
        has = {manager.name for manager in managers}
        for name, more in (
            ("yarn", self._yarn),
            ("poetry", self._poetry),
            ("cargo", self._cargo),
            ("gradle", self._gradle),
        ):
            made |= dict(more()) if name in has else {}
        made |= dict(self._go(path)) if "go" in has else {}
        made |= dict(self._maven(path)) if "maven" in has else {}
        return made

    def _users(self, variable: str, place: str, *parts: str) -> str | None:
        """Return a cache of the user's own that may be shown: where a variable says, or below the home directory."""
        named = self._environ.get(variable, "")
        base = named if os.path.isabs(named) else f"{self._around.home}/{place}" if self._around.home else ""
        path = os.path.join(base, *parts) if base else ""
        real = self._disk.real(path) if path else ""
        if not real or not self._disk.is_directory(real) or os.path.basename(real) != os.path.basename(path):
            return None
        if is_under(real, self._around.root):
            return real
        if not self._around.may_show(real):
            return None
        if not any(is_under(real, place) for place in _SYSTEM):
            self.shown.append(real)
        return real

    def _yarn(self) -> Iterator[tuple[str, str]]:
        """Yield where the first yarn caches. Later ones have the cache in the project, if that is set up so."""
        if not self._disk.exists(f"{self._around.root}/.yarnrc.yml"):
            yield "YARN_CACHE_FOLDER", f"{self._lent}/yarn"

    def _poetry(self) -> Iterator[tuple[str, str]]:
        """Yield where the environments are: the user's, if there is one for this project."""
        places = f"{self._around.home}/.cache/pypoetry/virtualenvs"
        own = [name for name in self._disk.names(places) if f"-{_poetry_name(self._around.root)}-py" in name]
        shown = [f"{places}/{name}" for name in own if self._around.may_show(self._disk.real(f"{places}/{name}"))]
        self.shown += shown
        yield "POETRY_VIRTUALENVS_PATH", places if shown else f"{self._lent}/poetry/virtualenvs"

    def _cargo(self) -> Iterator[tuple[str, str]]:
        """Link the crates that the user has into a registry of our own, where cargo can add others."""
        yield "CARGO_HOME", f"{self._lent}/cargo"
        farm = LinkFarm(self._lent)
        for part in ("cache", "src"):
            crates = self._users("CARGO_HOME", ".cargo", "registry", part)
            for host in self._disk.names(crates) if crates else ():
                farm.link_all(f"cargo/registry/{part}/{host}", f"{crates}/{host}")
        index = self._users("CARGO_HOME", ".cargo", "registry", "index")
        for host in self._disk.names(index) if index else ():
            farm.link_all(f"cargo/registry/index/{host}", f"{index}/{host}", copied=("config.json",))
        for part in ("db", "checkouts"):
            repositories = self._users("CARGO_HOME", ".cargo", "git", part)
            if repositories:
                farm.link_all(f"cargo/git/{part}", repositories)

    def _go(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield what lets go read the user's modules: as a proxy that is a directory, in front of the usual one."""
        first = self._environ.get("GOPATH", "").split(":")[0]
        modules = self._environ.get("GOMODCACHE") or os.path.join(first or f"{self._around.home}/go", "pkg/mod")
        settings = self._go_settings(path)
        yield from ((name, settings[name]) for name in _GO_SETTINGS if name in settings)
        downloads = self._downloads(modules) if os.path.isabs(modules) else None
        if downloads is not None:
            usual = settings.get("GOPROXY", "")
            yield "GOPROXY", ",".join([f"file://{quote(downloads)}", *([usual] if usual else [])])

    def _downloads(self, modules: str) -> str | None:
        path = self._disk.real(f"{modules}/cache/download")
        inside = is_under(path, self._around.root)
        if not self._disk.is_directory(path) or not (inside or self._around.may_show(path)):
            return None
        if not path.endswith("/cache/download"):
            return None
        if not inside:
            self.shown.append(path)
        return path

    def _go_settings(self, path: str) -> dict[str, str]:
        """Return go's settings: what comes with it, then the user's, then the environment's; none with a password."""
        program = next((at for each in path.split(":") if os.path.isfile(at := f"{each}/go")), "")
        prefix = os.path.dirname(os.path.dirname(self._disk.real(program))) if program else ""
        files = [f"{prefix}/go.env"] if prefix else []
        files.append(self._environ.get("GOENV") or f"{self._around.home}/.config/go/env")
        found: dict[str, str] = {}
        for file in files:
            lines = [line.partition("=") for line in self._disk.text(file).splitlines() if "=" in line]
            found |= {name.strip(): value.strip() for name, _, value in lines}
        found |= {name: self._environ[name] for name in _GO_SETTINGS if name in self._environ}
        return {name: value for name, value in found.items() if name in _GO_SETTINGS and "@" not in value}

    def _maven(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the local repository: our own in front of the user's where maven can, else the user's, to read."""
        users = self._users("", ".m2", "repository")
        own = f"{self._lent}/m2"
        if any(char.isspace() for char in own + (users or "")):
            return  # the script splits its variable at blanks
        if users is None:
            options = [f"-Dmaven.repo.local={own}"]
        elif self._has_tail(path):
            options = [f"-Dmaven.repo.local={own}", f"-Dmaven.repo.local.tail={users}"]
            options.append("-Dmaven.repo.local.tail.ignoreAvailability=true")
        else:
            options = [f"-Dmaven.repo.local={users}"]
        yield "MAVEN_OPTS", " ".join(options)

    def _has_tail(self, path: str) -> bool:
        """Whether this maven reads a second local repository: from 3.9 on."""
        program = next((at for each in path.split(":") if os.path.isfile(at := f"{each}/mvn")), "")
        library = os.path.join(os.path.dirname(os.path.dirname(self._disk.real(program))), "lib") if program else ""
        for name in self._disk.names(library) if library else ():
            if name.startswith("maven-core-"):
                numbers = [part for part in name[len("maven-core-") :].split(".") if part.isdigit()][:2]
                return [int(part) for part in numbers] >= [3, 9]
        return True

    def _gradle(self) -> Iterator[tuple[str, str]]:
        """Yield the cache that gradle only reads, and link the versions of gradle that the user's wrapper has got."""
        modules = self._users("GRADLE_USER_HOME", ".gradle", "caches", "modules-2")
        if modules is not None:
            yield "GRADLE_RO_DEP_CACHE", os.path.dirname(modules)
        versions = self._users("GRADLE_USER_HOME", ".gradle", "wrapper", "dists")
        farm = LinkFarm(self._lent)
        for version in self._disk.names(versions) if versions else ():
            for key in self._disk.names(f"{versions}/{version}"):
                farm.link_all(f"gradle/wrapper/dists/{version}/{key}", f"{versions}/{version}/{key}")


_GO_SETTINGS = ("GOPROXY", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOFLAGS", "GOTOOLCHAIN", "GOINSECURE")


def _poetry_name(root: str) -> str:
    """Return the part of an environment's name that poetry makes of a project's directory."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    return urlsafe_b64encode(sha256(os.fsencode(root)).digest()).decode()[:8]


def _chosen(environ: Mapping[str, str], search: _Search) -> Iterator[tuple[str, str]]:
    """Yield variables of the user's that name what is visible, or choose among it."""
    for name in _PREFIXES:
        if os.path.isabs(environ.get(name, "")) and search.is_partly_visible(environ[name]):
            yield name, environ[name]
    for name in _CHOICES:
        if environ.get(name):
            yield name, environ[name]


def _outermost(paths: Sequence[str], disk: Disk) -> list[str]:
    """Return paths without those that lie in others, or where the system's own files are."""
    kept: list[str] = []
    for path in sorted(dict.fromkeys(paths)):
        real = disk.real(path)
        if not any(is_under(real, disk.real(other)) for other in kept) and not any(
            is_under(real, place) for place in _SYSTEM
        ):
            kept.append(path)
    return kept
