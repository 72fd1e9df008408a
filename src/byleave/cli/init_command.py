"""`byleave init`: write a commented byleave.toml that fits what is found in the project, and cases that test it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.cli.init_rules import cases_text, rules_text
from byleave.cli.output import say, say_json, say_verbose
from byleave.cli.workspace import open_workspace, working_directory
from byleave.core.suggest import toml_string
from byleave.errors import ByleaveError, InputError
from byleave.launch.toolchain_view import Disk
from byleave.policy.dirs import PROJECT_FILES, find_homes, find_root
from byleave.sandbox.can_confine import machine_problem
from byleave.text import quoted, shown
from byleave.workspace.registries import find_registries
from byleave.workspace.toolchains import find_managers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import ParsedArguments
    from byleave.workspace.registries import RegistryHost


class ProjectKind(Struct, frozen=True):
    """A kind of project: the files that give it away, and the commands that build and test it."""

    name: str
    markers: tuple[str, ...]
    program: str
    args: tuple[tuple[str, ...], ...]


KINDS = (
    ProjectKind("git", (".git",), "git", (("status", "**"), ("diff", "**"), ("log", "**"), ("show", "**"))),
    ProjectKind("npm", ("package.json",), "npm", (("test", "**"), ("run", "build"), ("run", "lint"))),
    ProjectKind(
        "cargo", ("Cargo.toml",), "cargo", (("build", "**"), ("check", "**"), ("test", "**"), ("clippy", "**"))
    ),
    ProjectKind("uv", ("pyproject.toml", "uv.lock"), "uv", (("run", "pytest", "**"), ("sync",), ("lock",))),
    ProjectKind("go", ("go.mod",), "go", (("build", "**"), ("test", "**"), ("vet", "**"))),
    ProjectKind("make", ("Makefile", "makefile", "GNUmakefile"), "make", (("test",), ("build",), ("check",))),
)
SOURCE_DIRECTORIES = ("src", "lib", "app", "pkg", "cmd", "packages", "tests", "test", "docs")
CASE_FILE = "byleave.policy-test.toml"
SECRETS = (".env", ".env.local", "secrets")

_HEAD = """\
# What the tools of AI agents may touch in this project. Nothing touches your machine but by your leave.
#
#   byleave trust                                    put this file into effect, as it is now
#   byleave policy show                              every rule, with its file and line
#   byleave check update README.md --tool editor     what the policy decides, and why
#   byleave policy test                              try the cases in byleave.policy-test.toml
#   byleave schema --editor                          have your editor complete and check this file

[defaults]
os_sandbox = "auto"     # auto | require | off: what to do where the kernel cannot enforce this
"""

_TOOLS = """
# Tools that byleave runs itself (`byleave call`, `byleave mcp`). A tool without rules of some type (fs, net, env,
# commands) keeps the default of that type; the first rule closes the type but for what the rules grant. The longest
# path decides; a rule stands alone, nothing is inherited.
"""

_READER = """
# Looks at everything but secrets.
[tools.reader]
source = "local"
runtime = "vfs"         # vfs: may read the workspace, nothing else; stdio: an ordinary program in a sandbox
run = "unattended"      # ask | unattended | edit | skip

[[tools.reader.access.fs]]
path = "."
read = true
"""

_EDITOR = """
# Changes what is written by hand.
[tools.editor]
source = "local"
runtime = "vfs"
run = "ask"

[[tools.editor.access.fs]]
path = "."
read = true
"""

_BUILDER = """
# Builds and tests. Its files are the whole workspace (the default of stdio); its network is closed.
[tools.builder]
source = "local"
runtime = "stdio"
run = "ask"
"""

_NET_EXAMPLE = """
# To open a host:
# [[tools.builder.access.net]]
# host = "registry.example.org"
# scheme = "https"
# allow = true
"""


def run(given: ParsedArguments) -> int:
    """Write the file and its cases; never overwrite one."""
    agents = tuple(dict.fromkeys(given.options.get("for", ())))
    root = open_workspace(given).root.path if given.one("root") is not None else working_directory()
    for name in PROJECT_FILES:
        if _is_there(root, name):
            raise InputError(f"{name} exists already", hint="edit it, or remove it first")
    kinds = [kind for kind in KINDS if any(_is_there(root, marker) for marker in kind.markers)]
    obstacle = machine_problem(find_homes(os.environ).memory)
    strict = given.flag("strict") or bool(obstacle)
    rules = rules_text(strict=strict, agents=agents, hosts=_hosts(root))
    files = {
        "byleave.toml": "".join(_parts(root, kinds, rules)),
        ".byleave/.gitignore": "# personal settings stay personal\nlocal.toml\n",
        CASE_FILE: cases_text(strict=strict, agents=agents),
    }
    _refuse_odd_directory(root)
    written = [name for name, text in files.items() if _write(os.path.join(root, name), text)]
    say_verbose(given, [f"wrote {os.path.join(root, name)}" for name in written])
    _report(given, root, written, [kind.name for kind in kinds], obstacle)
    return 0


def _hosts(root: str) -> list[RegistryHost]:
    """Return the hosts that the project's package managers download from, as far as their settings say."""
    disk, real = Disk(), os.path.realpath(root)
    managers = [manager.name for manager in find_managers(real, disk)]
    return find_registries(managers, real, find_homes(os.environ).user, os.environ, disk)


def _report(given: ParsedArguments, root: str, written: list[str], found: list[str], obstacle: str) -> None:
    if given.flag("json"):
        say_json({"written": written, "found": found, "confined": not obstacle})
        return
    if given.flag("quiet"):
        return
    say(f"wrote byleave.toml (found: {', '.join(found) or 'nothing in particular'})")
    if CASE_FILE in written:
        say(f"  and {CASE_FILE}: `byleave policy test` tries what it should decide")
    above = find_root(root if os.path.dirname(root) == root else os.path.dirname(root))
    if _is_there(above, ".git") and not _is_there(root, ".git"):
        say(f"  note: the repository begins above, at {shown(above)}; this file holds for {shown(root)} only")
    if obstacle:
        say("  note: commands cannot be fully confined here, so the strict rules were written: the rest is asked")
        say(f"        {shown(obstacle)}")
    say("  next: read it, then put it into effect with `byleave trust`")


def _parts(root: str, kinds: list[ProjectKind], rules: str) -> Iterator[str]:
    yield _HEAD
    yield rules
    yield _TOOLS
    yield _READER
    yield from (_no_access("reader", name) for name in SECRETS if name == ".env" or _is_there(root, name))
    yield _EDITOR
    yield from (_writable("editor", name) for name in SOURCE_DIRECTORIES if _is_there(root, name))
    yield from (_no_access("editor", name) for name in SECRETS if name == ".env" or _is_there(root, name))
    if kinds:
        yield _BUILDER
        yield from map(_command, kinds)
        yield _NET_EXAMPLE


def _no_access(tool: str, path: str) -> str:
    return f"\n[[tools.{tool}.access.fs]]\npath = {toml_string(path)}      # grants nothing: stays closed\n"


def _writable(tool: str, path: str) -> str:
    return f"\n[[tools.{tool}.access.fs]]\npath = {toml_string(path)}\nread = true\nwrite = true\n"


def _command(kind: ProjectKind) -> str:
    lists = ", ".join(f"[{', '.join(map(toml_string, words))}]" for words in kind.args)
    return f'\n[tools.builder.access.commands.{kind.program}]\nargs = [{lists}]    # "**": anything after\n'


def _is_there(root: str, name: str) -> bool:
    return os.path.lexists(os.path.join(root, name))


def _refuse_odd_directory(root: str) -> None:
    """Refuse a link in the place of `.byleave`: it would have us write somewhere else."""
    place = os.path.join(root, ".byleave")
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
        raise InputError(".byleave is not a directory", hint="move it away: personal settings go there")


def _write(path: str, text: str) -> bool:
    """Write a new file, and say whether it was written; one that is there, even as a dangling link, is left alone."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
            file.write(text.encode())
    except FileExistsError:
        return False
    except OSError as error:
        raise ByleaveError(
            f"{quoted(path)} cannot be written: {error.strerror}", hint="run `byleave init` where you may write"
        ) from None
    return True
