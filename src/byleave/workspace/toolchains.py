"""Which package managers a project has, and where programs are installed below a home directory.

Two tables, and what they come to on one machine. `PACKAGE_MANAGERS`: the files that give a manager away, and the
variables that say where it keeps its cache. `INSTALLATIONS`: where managers of versions put public software, name by
name; what lies beside it (tokens of registries, settings with passwords) is on no list and never shown.

The disk is seen through a `DiskProbe` only. What a confined run makes of it: `launch.toolchain_view`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.fs_rules import is_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Protocol

    class DiskProbe(Protocol):
        """How the disk is looked at. Nothing here raises: what cannot be seen is not there."""

        def is_directory(self, path: str) -> bool:
            """Whether a directory is there, also through links."""
            ...

        def exists(self, path: str) -> bool:
            """Whether anything is there, also through links."""
            ...

        def names(self, path: str) -> Sequence[str]:
            """Return the names in a directory, sorted; a bounded number of them."""
            ...

        def real(self, path: str) -> str:
            """Return where a path really leads."""
            ...

        def text(self, path: str) -> str:
            """Return the content of a small file; "" where there is none."""
            ...


class PackageManager(Struct, frozen=True):
    """A package manager: the files that a project has for it, and its private caches, by the variable of each."""

    name: str
    markers: tuple[str, ...]
    caches: tuple[tuple[str, str], ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()  # other variables that a confined run needs


class Installation(Struct, frozen=True):
    """A place where programs are installed, below the home directory or where a variable says.

    `shows` are names in it; `secrets` are those below them that hold passwords, where `*` is any one name.
    """

    name: str
    place: str
    shows: tuple[str, ...]
    variable: str = ""
    secrets: tuple[str, ...] = ()
    needs: str = ""  # only for a project that has this package manager
    passed: bool = False  # the variable reaches the program, set or not


PACKAGE_MANAGERS = (
    PackageManager(
        "npm", ("package.json",), (("npm_config_cache", "npm"),), (("npm_config_update_notifier", "false"),)
    ),
    PackageManager("pnpm", ("pnpm-lock.yaml", "pnpm-workspace.yaml"), (("npm_config_store_dir", "pnpm"),)),
    PackageManager("yarn", ("yarn.lock", ".yarnrc.yml"), (("YARN_GLOBAL_FOLDER", "yarn-global"),)),
    PackageManager("bun", ("bun.lock", "bun.lockb"), (("BUN_INSTALL_CACHE_DIR", "bun"),)),
    PackageManager("deno", ("deno.json", "deno.jsonc", "deno.lock"), (("DENO_DIR", "deno"),)),
    PackageManager(
        # The cache is on another file system than the workspace, as the program sees it: files cannot be linked there.
        "uv",
        ("uv.lock", "pyproject.toml"),
        (("UV_CACHE_DIR", "uv"),),
        (("UV_LINK_MODE", "copy"),),
    ),
    PackageManager(
        "pip",
        ("requirements.txt", "setup.py", "setup.cfg", "pyproject.toml", "Pipfile"),
        (("PIP_CACHE_DIR", "pip"),),
        (("PIP_DISABLE_PIP_VERSION_CHECK", "1"),),
    ),
    PackageManager("poetry", ("poetry.lock",), (("POETRY_CACHE_DIR", "poetry"),)),
    PackageManager("cargo", ("Cargo.toml",), (("CARGO_HOME", "cargo"),)),
    PackageManager(
        "go",
        ("go.mod", "go.work"),
        (("GOPATH", "go"), ("GOMODCACHE", "go/pkg/mod"), ("GOCACHE", "go-build")),
        (("GOTELEMETRY", "off"),),
    ),
    PackageManager("maven", ("pom.xml",)),
    PackageManager(
        "gradle",
        ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        (("GRADLE_USER_HOME", "gradle"),),
    ),
    PackageManager(
        "composer", ("composer.json",), (("COMPOSER_HOME", "composer"), ("COMPOSER_CACHE_DIR", "composer/cache"))
    ),
    PackageManager("bundler", ("Gemfile",), (("BUNDLE_USER_HOME", "bundle"), ("GEM_SPEC_CACHE", "gem/specs"))),
)

_PIP = ("*/pip.conf", "*/envs/*/pip.conf")
_NODE = ("*/etc/npmrc", "*/installation/etc/npmrc", "*/*/etc/npmrc")

INSTALLATIONS = (
    Installation(
        "nvm",
        ".nvm",
        ("nvm.sh", "nvm-exec", "alias", "versions/node"),
        "NVM_DIR",
        secrets=tuple(f"versions/node/{name}" for name in _NODE),
        passed=True,
    ),
    Installation("fnm", ".local/share/fnm", ("node-versions", "aliases"), "FNM_DIR", (f"node-versions/{_NODE[1]}",)),
    Installation(
        "volta",
        ".volta",
        ("bin", "tools", "layout.v2", "layout.v3", "layout.v4"),
        "VOLTA_HOME",
        tuple(f"tools/image/{name}" for name in _NODE),
        passed=True,
    ),
    Installation(
        "nodenv",
        ".nodenv",
        ("bin", "libexec", "shims", "version", "versions"),
        "NODENV_ROOT",
        ("versions/*/etc/npmrc",),
    ),
    Installation(
        "pyenv",
        ".pyenv",
        ("bin", "libexec", "shims", "version", "versions", "plugins", "pyenv.d"),
        "PYENV_ROOT",
        tuple(f"versions/{name}" for name in _PIP),
        passed=True,
    ),
    Installation(
        "rbenv",
        ".rbenv",
        ("bin", "libexec", "shims", "version", "versions", "plugins", "rbenv.d"),
        "RBENV_ROOT",
        passed=True,
    ),
    Installation("goenv", ".goenv", ("bin", "libexec", "shims", "version", "versions"), "GOENV_ROOT", passed=True),
    Installation(
        "asdf",
        ".asdf",
        ("asdf.sh", "bin", "lib", "libexec", "shims", "installs", "plugins"),
        "ASDF_DATA_DIR",
        ("installs/*/*/etc/npmrc", "installs/*/*/pip.conf", "installs/*/*/conf/settings.xml"),
    ),
    Installation("asdf", "", (".tool-versions",)),
    Installation(
        "mise",
        ".local/share/mise",
        ("installs", "shims", "plugins"),
        "MISE_DATA_DIR",
        ("installs/*/*/etc/npmrc", "installs/*/*/pip.conf", "installs/*/*/conf/settings.xml"),
    ),
    Installation("rustup", ".rustup", ("toolchains", "settings.toml", "update-hashes"), "RUSTUP_HOME", passed=True),
    Installation("cargo", ".cargo", ("bin",), "CARGO_HOME"),
    Installation(
        "sdkman", ".sdkman", ("candidates", "bin", "src"), "SDKMAN_DIR", ("candidates/*/*/conf/settings.xml",)
    ),
    Installation("rvm", ".rvm", ("bin", "rubies", "gems", "scripts", "wrappers", "environments"), "rvm_path"),
    Installation("gem", ".gem", ("ruby",)),
    Installation("gem", ".local/share/gem", ("ruby",)),
    Installation("programs of the user", ".local", ("bin",)),
    Installation("uv", ".local/share/uv", ("python", "tools"), secrets=("python/*/pip.conf", "tools/*/pip.conf")),
    Installation("pipx", ".local/share/pipx", ("venvs", "py"), "PIPX_HOME", ("venvs/*/pip.conf",)),
    Installation("pipx", ".local/pipx", ("venvs",), secrets=("venvs/*/pip.conf",)),
    Installation("poetry", ".local/share/pypoetry", ("venv",), secrets=("venv/pip.conf",)),
    Installation("pnpm", ".local/share/pnpm", ("pnpm", "pnpx", "bin", "global", "nodejs", ".tools"), "PNPM_HOME"),
    Installation("yarn", ".yarn", ("bin",)),
    Installation("yarn", ".config/yarn/global", ("node_modules",)),
    Installation("bun", ".bun", ("bin", "install/global"), "BUN_INSTALL"),
    Installation("deno", ".deno", ("bin",)),
    Installation("composer", ".config/composer", ("vendor",)),
    Installation("composer", ".composer", ("vendor",)),
    Installation("go", "go", ("bin",), "GOPATH"),
    Installation("corepack", ".cache/node", ("corepack",), needs="npm"),
    Installation("playwright", ".cache", ("ms-playwright",), needs="npm"),
    Installation("playwright", ".cache", ("ms-playwright",), needs="pip"),
    Installation("cypress", ".cache", ("Cypress",), needs="npm"),
    Installation("puppeteer", ".cache", ("puppeteer",), needs="npm"),
    Installation("mvnw", ".m2/wrapper", ("dists",), needs="maven"),
)
# The user's own libraries for Python, one directory for each version of it.
_USER_SITE = ".local/lib"

# Of a prefix that no manager is known for: `~/tools/node/bin` needs `~/tools/node/lib`.
PROGRAM_DIRECTORIES = frozenset({"bin", "sbin", "shims", "condabin", "libexec", ".bin"})
PREFIX_PARTS = (
    *("bin", "sbin", "lib", "lib64", "libexec", "include", "share", "condabin", "envs", "ssl", "shims"),
    *("jmods", "conf", "release", "pkg", "src", "misc", "VERSION", "go.env", "pyvenv.cfg"),
)
# Names of directories and files that are never shown, wherever a link or a variable leads.
SECRET_NAMES = frozenset(
    {
        *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".password-store", ".npmrc", ".pypirc"),
        *(".git-credentials", ".gcloud", "gcloud", ".oci", ".config/gh", ".vault-token", "credentials"),
        *("credentials.toml", "auth.json", "settings.xml", "pip.conf", ".env", "keyrings", ".mozilla", ".thunderbird"),
    }
)
_DEEPEST = 2  # directories below the root that are searched for the files of package managers
_MOST_SEARCHED = 200  # of them
_PASSED_OVER = frozenset({"node_modules", "vendor", "target", "dist", "build", "venv", "__pycache__", "third_party"})


def find_managers(root: str, probe: DiskProbe) -> tuple[PackageManager, ...]:
    """Return the package managers that the project has files for, at its root or in one of its parts."""
    found: set[str] = set()
    waiting, searched = [(root, 0)], 0
    while waiting and searched < _MOST_SEARCHED:
        directory, depth = waiting.pop(0)
        searched += 1
        names = probe.names(directory)
        found.update(names)
        if depth < _DEEPEST:
            inner = [name for name in names if not name.startswith(".") and "." not in name[1:]]
            inner = [f"{directory}/{name}" for name in inner if name not in _PASSED_OVER]
            room = _MOST_SEARCHED - searched - len(waiting)
            waiting += [(path, depth + 1) for path in inner[:room] if probe.is_directory(path)]
    return tuple(manager for manager in PACKAGE_MANAGERS if not found.isdisjoint(manager.markers))


class Installed(Struct, frozen=True):
    """What is installed: places to show, and variables that programs find them by."""

    shown: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


class Surroundings(Struct, frozen=True):
    """The directories that bound what may be shown; all of them absolute and without links."""

    root: str
    home: str
    own: tuple[str, ...] = ()  # byleave's own places

    def may_show(self, path: str) -> bool:
        """Whether a real path may be shown: it holds neither the home nor the workspace, and is no known secret."""
        if not path.startswith("/") or path.count("/") < 2 or is_under(path, self.root):
            return False  # what lies in the workspace is there by the workspace's rules, and only by them
        if any(is_under(place, path) for place in (self.root, self.home, *self.own) if place):
            return False
        if any(is_under(path, place) for place in self.own):
            return False
        return SECRET_NAMES.isdisjoint(path.split("/"))


def find_installed(
    around: Surroundings, managers: Iterable[PackageManager], environ: Mapping[str, str], probe: DiskProbe
) -> Installed:
    """Return what of the known installations is there, each part by its path as people write it."""
    has = {manager.name for manager in managers}
    shown: list[str] = []
    variables: dict[str, str] = {}
    for each in INSTALLATIONS if around.home else ():
        if each.needs and each.needs not in has:
            continue
        base = _place(each, around.home, environ)
        found = [path for name in each.shows for path in _parts(f"{base}/{name}", name, each.secrets, around, probe)]
        shown += found
        if each.passed and (found or (probe.is_directory(base) and is_under(probe.real(base), around.root))):
            variables[each.variable] = base
    site = f"{around.home}/{_USER_SITE}"
    if around.home:
        shown += [f"{site}/{name}" for name in probe.names(site) if name.startswith("python")]
    allowed = [path for path in dict.fromkeys(shown) if around.may_show(probe.real(path))]
    return Installed(tuple(allowed), tuple(variables.items()))


def _place(installation: Installation, home: str, environ: Mapping[str, str]) -> str:
    """Return where an installation is: where its variable says, if that is an absolute path, else below the home."""
    named = environ.get(installation.variable, "") if installation.variable else ""
    if os.path.isabs(named) and os.path.normpath(named) != "/":
        return os.path.normpath(named)
    return f"{home}/{installation.place}".rstrip("/")


def _parts(path: str, name: str, secrets: Iterable[str], around: Surroundings, probe: DiskProbe) -> Iterator[str]:
    """Yield a place, or where a secret lies below it, its parts without that one."""
    if not probe.exists(path):  # most are not there, and where a path leads takes longer to find
        return
    real = probe.real(path)
    if not around.may_show(real):
        return
    if os.path.basename(real) != os.path.basename(path):
        return  # a link that leads to something else than this very place somewhere else
    inner = [secret[len(name) + 1 :] for secret in secrets if secret.startswith(f"{name}/")]
    if not any(True for secret in inner for _ in _matches(path, secret.split("/"), probe)):
        yield path
        return
    for child in probe.names(path):
        if not any(_fits(name, child) for name in inner if "/" not in name):
            deeper = [
                f"{child}{secret[len(first) :]}" for secret in inner if _fits(first := secret.split("/")[0], child)
            ]
            yield from _parts(f"{path}/{child}", child, deeper, around, probe)


def _fits(pattern: str, name: str) -> bool:
    return pattern in ("*", name)


def _matches(path: str, names: Sequence[str], probe: DiskProbe) -> Iterator[str]:
    """Yield what exists below a path by names, of which each may be `*`."""
    if not names:
        yield path
        return
    candidates = probe.names(path) if names[0] == "*" else names[:1]
    for name in candidates:
        if len(names) > 1 or probe.exists(f"{path}/{name}"):
            yield from _matches(f"{path}/{name}", names[1:], probe)


def program_prefix(directory: str) -> str | None:
    """Return the prefix that a directory of programs belongs to; None for a directory that is not named like one."""
    head, name = os.path.split(directory)
    return head if name in PROGRAM_DIRECTORIES else None


def prefix_parts(prefix: str, around: Surroundings, probe: DiskProbe) -> Iterator[str]:
    """Yield the parts of a prefix that belong to its programs, without settings that may hold passwords."""
    for name in PREFIX_PARTS:
        yield from _parts(f"{prefix}/{name}", name, _PREFIX_SECRETS, around, probe)


_PREFIX_SECRETS = ("conf/settings.xml", "envs/*/pip.conf", "etc/npmrc")
