"""Which hosts the package managers of a project download from, as far as their own settings say.

Pure but for the `DiskProbe`. Only files are read, no program is run, and a host that is only compiled into a program is
not guessed. A password in an address is left behind: nothing but the host is taken.
"""

from __future__ import annotations

import tomllib
from configparser import ConfigParser
from configparser import Error as IniError
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from byleave.workspace.toolchains import DiskProbe

    Addresses = Callable[[str], Iterable[str]]


class RegistryHost(Struct, frozen=True):
    """A host that a package manager downloads from, and the file or variable that says so; "" where none does."""

    manager: str
    host: str = ""
    source: str = ""


def find_registries(
    managers: Iterable[str], root: str, home: str, environ: Mapping[str, str], probe: DiskProbe
) -> list[RegistryHost]:
    """Return the hosts of some package managers; a manager without a known one has one entry without a host."""
    found: list[RegistryHost] = []
    for manager in managers:
        if manager in _FILES:
            hosts = list(dict.fromkeys(_hosts(manager, root, home, environ, probe)))
            found += [RegistryHost(manager, host, source) for host, source in hosts] or [RegistryHost(manager)]
    return found


def _hosts(
    manager: str, root: str, home: str, environ: Mapping[str, str], probe: DiskProbe
) -> Iterator[tuple[str, str]]:
    for name in _VARIABLES.get(manager, ()):
        yield from ((host, name) for host in map(_host, environ.get(name, "").replace("|", ",").split(",")) if host)
    for file, addresses in _FILES[manager]:
        path = f"{home}/{file[2:]}" if file.startswith("~/") else f"{root}/{file}"
        text = probe.text(path) if home or not file.startswith("~/") else ""
        yield from ((host, file) for host in map(_host, addresses(text)) if host)


def _host(address: str) -> str:
    """Return the host of an address of the web; "" for anything else."""
    try:
        parts = urlsplit(address.strip().removeprefix("sparse+"))
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.hostname.isascii()
        host = parts.hostname if plain and parts.hostname else ""
    except ValueError:
        return ""
    return host if all(char.isalnum() or char in "-._:" for char in host) else ""


def _npmrc(text: str) -> Iterator[str]:
    """Yield the addresses of `registry=` and `@scope:registry=` lines."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "registry" or name.strip().endswith(":registry"):
            yield value.strip().strip('"')


def _yarnrc(text: str) -> Iterator[str]:
    """Yield the addresses of yarn's settings, old and new."""
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if name.rstrip(":").strip('"') in ("registry", "npmRegistryServer"):
            yield value.strip().strip("\"'")


def _ini(text: str) -> Iterator[str]:
    """Yield the addresses in a pip.conf."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except IniError:
        return
    for section in parser.sections():
        for key in ("index-url", "extra-index-url", "index_url"):
            yield from parser.get(section, key, fallback="").split()


def _toml(*ways: tuple[str, ...]) -> Addresses:
    """Return what reads addresses from TOML, by ways of keys; `*` is any key, and a list is gone through."""

    def addresses(text: str) -> Iterator[str]:
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return
        for way in ways:
            yield from _at(tree, way)

    return addresses


def _at(tree: object, way: tuple[str, ...]) -> Iterator[str]:
    if isinstance(tree, list):
        for each in tree:
            yield from _at(each, way)
    elif not way:
        if isinstance(tree, str):
            yield tree
    elif isinstance(tree, dict):
        for key in tree if way[0] == "*" else way[:1]:
            if key in tree:
                yield from _at(tree[key], way[1:])


def _go_env(text: str) -> Iterator[str]:
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "GOPROXY":
            yield from value.replace("|", ",").split(",")


def _gemfile(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.strip().startswith("source "):
            yield line.strip()[len("source ") :].strip("() \"'").partition('"')[0].partition("'")[0]


_CARGO = _toml(("registries", "*", "index"), ("source", "*", "registry"), ("registry", "index"))
_UV = _toml(("index-url",), ("index", "url"), ("extra-index-url",))
_PROJECT = _toml(("tool", "uv", "index-url"), ("tool", "uv", "index", "url"))
_POETRY = _toml(("tool", "poetry", "source", "url"))
_FILES: Mapping[str, tuple[tuple[str, Addresses], ...]] = {
    "npm": ((".npmrc", _npmrc), ("~/.npmrc", _npmrc)),
    "pnpm": ((".npmrc", _npmrc), ("~/.npmrc", _npmrc)),
    "yarn": ((".yarnrc.yml", _yarnrc), (".yarnrc", _yarnrc), ("~/.yarnrc.yml", _yarnrc), ("~/.yarnrc", _yarnrc)),
    "uv": (("uv.toml", _UV), ("pyproject.toml", _PROJECT), ("~/.config/uv/uv.toml", _UV)),
    "pip": (("~/.config/pip/pip.conf", _ini), ("~/.pip/pip.conf", _ini)),
    "poetry": (("pyproject.toml", _POETRY),),
    "cargo": ((".cargo/config.toml", _CARGO), ("~/.cargo/config.toml", _CARGO), ("~/.cargo/config", _CARGO)),
    "go": (("~/.config/go/env", _go_env),),
    "maven": (),
    "gradle": (),
    "composer": (),
    "bundler": (("Gemfile", _gemfile),),
}
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "npm": ("npm_config_registry", "NPM_CONFIG_REGISTRY"),
    "uv": ("UV_INDEX_URL", "UV_DEFAULT_INDEX"),
    "pip": ("PIP_INDEX_URL",),
    "go": ("GOPROXY",),
}
