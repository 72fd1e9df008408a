"""Which options of which program are harmless: closed tables in the notation of `specs`, one module a family.

A module is loaded when a program of its family is first asked about: a decision pays for the programs it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FAMILIES = {
    "builds": """
bazel bazelisk buck buck2 c++ cargo cc clang clang++ cmake ctest dotnet g++ gcc gmake go gofmt goimports
golangci-lint gradle gradlew javac make mvn mvnd mvnw ninja rustc rustfmt swift
""",
    "files": """
[ base64 basename bc bzcat bzgrep cat chmod cksum cmp column comm cp cut date df diff dirname du echo egrep
expand false fd fdfind fgrep file find fmt fold free gfind grep gzcat head hexdump hostname id join jq ldd
ln ls md5sum mkdir mv nl nm nproc objdump od paste printenv printf pwd readelf readlink realpath rev rg rm
rmdir seq sha1sum sha256sum sha512sum shasum sleep sort stat strings tac tail tar tee test touch tr tree
true uname uniq unzip wc whereis which whoami xxd xzcat xzgrep zcat zgrep zip
""",
    "git": """
git
""",
    "node": """
bun bunx deno eslint jest mocha node nodejs npm npx playwright pnpm prettier tsc vitest yarn
""",
    "python": """
black compileall coverage dmypy flake8 isort json.tool mypy nox pip pip3 poetry py.test py_compile pylint
pypy3 pyright pytest python python2 python3 python3.10 python3.11 python3.12 python3.13 python3.14
python3.15 python3.6 python3.7 python3.8 python3.9 ruff timeit tox unittest uv venv
""",
    "system": """
apt apt-cache apt-get awk bats brew bundle composer curl docker dpkg gawk gem gh gsed helm ip journalctl
just kill kubectl lsof lua mawk mix nawk netstat openssl perl pgrep php phpunit podman ps rake rspec rubocop
ruby sed shellcheck sqlite3 ss systemctl task terraform tofu uptime wget
""",
}
_FAMILY_OF = {program: family for family, programs in FAMILIES.items() for program in programs.split()}


def options_of(program: str) -> Mapping[str, str] | None:
    """Return the harmless options of a program: by subcommand, `""` for those of the program itself."""
    family = _FAMILY_OF.get(program)
    if family is None:
        return None
    return _loaded(family)[program]


def _loaded(family: str) -> Mapping[str, Mapping[str, str]]:
    """Return the tables of one family; the others stay on the disk."""
    match family:
        case "builds":
            from byleave.shell.knowledge.harmless.builds import OPTIONS
        case "files":
            from byleave.shell.knowledge.harmless.files import OPTIONS
        case "git":
            from byleave.shell.knowledge.harmless.git import OPTIONS
        case "node":
            from byleave.shell.knowledge.harmless.node import OPTIONS
        case "python":
            from byleave.shell.knowledge.harmless.python import OPTIONS
        case _:
            from byleave.shell.knowledge.harmless.system import OPTIONS
    return OPTIONS
