"""Where records and approvals are kept: `sqlite:///`, the workspace's own files, or `postgresql://...`, shared.

Pure. A password is kept apart from everything that is shown: `StoreAddress.shown` names the host and the database
alone, and no message here repeats the text that it is about. A configuration file cannot hold a password: commands
show files, and errors point at their lines.

Start at `read_address`; `chosen_store` joins the configuration and the environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from byleave.errors import InputError
from byleave.record import Record
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VARIABLE, KEY_VARIABLE = "BYLEAVE_STORE", "BYLEAVE_STORE_KEY"
OWN_FILES = "sqlite:///"
_SCHEMES = ("postgresql", "postgres")  # libpq knows both
_HINT = f"write {OWN_FILES} for the workspace's own files, or postgresql://USER@HOST:PORT/DATABASE"
# What libpq would take for something else is refused here: its messages repeat it, and it may be a piece of a password.
_ESCAPE_HINT = "in a name or a password write % as %25, @ as %40, / as %2F and ? as %3F, or set PGPASSWORD"
_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})|%00")
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_PASSWORD_HINT = f"set PGPASSWORD or PGPASSFILE, or give the whole URL in {VARIABLE}"


class StoreAddress(Record):
    """A database that several gateways share. `url` is for libpq alone; `shown` is for people."""

    url: str
    shown: str


class AddressProblem(Record):
    """Why a text is no address of a store: for people, without anything of the text."""

    problem: str
    hint: str


def read_address(text: str) -> StoreAddress | AddressProblem | None:
    """Return the database that a text names; None for the workspace's own files."""
    scheme, mark, rest = text.partition(":")
    if scheme == "sqlite" and mark:
        if rest in ("", "//", "///"):
            return None
        return AddressProblem(f"{OWN_FILES} takes no path", "set BYLEAVE_HOME to keep byleave's files elsewhere")
    if scheme not in _SCHEMES or not rest.startswith("//"):
        return AddressProblem("this is no address of a store", _HINT)
    if any(letter <= " " or letter == "\x7f" for letter in text):
        return AddressProblem("the address of the store has a space or a control character in it", _HINT)
    authority, _slash, path = rest[2:].partition("?")[0].partition("/")
    place = authority.rpartition("@")[2]
    if "@" in rest.replace(authority, "", 1) or authority.count("@") > 1 or _BROKEN.search(rest):
        return AddressProblem("the address of the store has a letter in it that must be escaped", _ESCAPE_HINT)
    if not all(_HOST.fullmatch(host) for host in place.split(",")):
        return AddressProblem("the address of the store has a host or a port that is none", _HINT)
    return StoreAddress(text, f"postgresql://{shown(place or 'this machine')}/{shown(path)}")


def has_password(text: str) -> bool:
    """Whether an address holds a password, before the host or among its parameters."""
    _scheme, _mark, rest = text.partition("://")
    place, _mark, query = rest.partition("?")
    user = place.partition("/")[0].rpartition("@")[0]
    return ":" in user or any(
        pair.partition("=")[0].replace("%", "").lower() in _SECRET for pair in query.replace(";", "&").split("&")
    )


_SECRET = frozenset({"password", "sslpassword", "passfile"})


def file_problem(text: str) -> AddressProblem | None:
    """Say why a configuration file cannot have this address; None if it can."""
    if has_password(text):
        return AddressProblem("a configuration file holds no password of a database", _PASSWORD_HINT)
    found = read_address(text)
    return found if isinstance(found, AddressProblem) else None


def chosen_store(settings: Mapping[str, Any], environ: Mapping[str, str]) -> StoreAddress | None:
    """Return the shared store, None for the workspace's own files. The environment counts before `[store] url`."""
    text = environ.get(VARIABLE)
    source = VARIABLE
    if not text:
        text, source = settings.get("store", {}).get("url", OWN_FILES), "[store] url"
    found = read_address(text)
    if isinstance(found, AddressProblem):
        raise InputError(f"{source}: {found.problem}", hint=found.hint)
    return found
