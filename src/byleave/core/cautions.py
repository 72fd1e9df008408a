"""What a person should know before a rule for a command is added, and which commands a wider rule is safe for. Pure.

It reads words, not meanings, and rather warns once too often: whether a command may run is decided elsewhere. Loaded
only where a rule is suggested.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from byleave.core.command_groups import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Table = dict[str, Any]

_GROUP_CAUTIONS = {
    "destructive": "it deletes or overwrites what may not come back",
    "privilege": "it changes what others may do on this machine",
    "administration": "it changes this machine",
    "installing": "it installs programs of others, which may run at once",
    "publishing": "others see what it publishes",
    "network": "it reaches other machines, and may send files there",
    "remote": "it reaches other machines, and may send files there",
}
_DELETES: Table = {
    "any": [
        {"command": ["rm", "rmdir", "unlink", "mkfs", "dropdb", "mv", "tee", "kill", "pkill", "killall"]},
        {"command": "git", "subcommand": ["restore", "reset", "rebase", "checkout", "filter-branch", "gc", "prune"]},
        {"command": ["docker", "podman", "nerdctl"], "subcommand": ["prune", "down", "kill", "stop"]},
        {"command": "rsync", "flags": ["--delete"]},
    ]
}
_RUNS: Table = {
    "any": [
        {"command": ["sh", "bash", "dash", "zsh", "fish", "ksh", "eval", "exec", "source", ".", "env", "xargs"]},
        {"command": ["python", "python2", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "Rscript"]},
        {"command": ["npx", "bunx", "pnpx", "uvx", "pipx", "ts-node", "tsx", "watch", "parallel", "entr", "expect"]},
        {
            "command": [
                "make",
                "gmake",
                "just",
                "task",
                "ninja",
                "rake",
                "gradle",
                "mvn",
                "ant",
                "tmux",
                "screen",
                "nohup",
            ]
        },
        {"command": ["npm", "pnpm", "yarn"], "subcommand": ["run", "run-script", "exec", "x", "dlx", "start", "stop"]},
        {
            "command": ["uv", "poetry", "pdm", "hatch", "rye", "cargo", "go", "dotnet", "swift", "conda"],
            "args": ["run"],
        },
        {
            "command": ["docker", "podman", "nerdctl", "kubectl", "oc"],
            "subcommand": ["run", "exec", "compose", "build"],
        },
        {"command": "git", "subcommand": ["bisect", "submodule", "filter-branch", "difftool", "mergetool"]},
        {"command": "find", "args": ["-exec"]},
        {"command": "find", "args": ["-execdir"]},
        {"command": "find", "args": ["-ok"]},
    ]
}
_OWN_CAUTIONS = (
    (_DELETES, _GROUP_CAUTIONS["destructive"]),
    (_RUNS, "it runs whatever its arguments, or files that can change, say"),
)
# What a project builds or tests may run what stands in its files; that is what the command is for.
_PROJECT: Table = {
    "any": [
        {"command": ["npm", "pnpm", "yarn", "cargo", "go", "dotnet", "swift"], "subcommand": ["test", "bench"]},
        {"command": "cargo", "subcommand": ["build", "check", "clippy", "doc"]},
        {"command": ["pytest", "jest", "vitest", "mocha", "tox", "nox", "rspec", "phpunit", "ctest", "bats"]},
    ]
}
# Programs that reach any machine that their words name.
_NETWORKS: Table = {"command": ["curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "socat", "telnet", "ftp"]}
_RUNS_PROJECT = "it runs code of the project, which can change"
UNKNOWN_OPTION = "one of its options may run or write something"
_BY_KIND = {"delete": "it deletes what may not come back", "exec": "it runs a file that can change"}
# Parts of the names of MCP tools.
_TOOL_WORDS = ("delete", "remove", "drop", "destroy", "purge", "truncate", "wipe", "exec", "eval", "shell", "command")

# A rule by subcommand reaches only options that are known to be harmless, and with these no operand does harm either.
_WIDE_GROUPS = ("read_only_git", "safe_npm", "package_listing", "tests")
_WIDE: dict[str, tuple[str, ...]] = {
    "git": ("add", "commit"),
    "cargo": ("build", "check", "clippy", "doc", "fmt"),
    "go": ("build", "vet"),
    "ruff": ("check", "format"),
}


def command_cautions(words: Sequence[str]) -> list[str]:
    """Return what is to be known before these words may be run without a question."""
    return [*_harms(words), *([_RUNS_PROJECT] if _may_be(_PROJECT, words) else [])]


def _harms(words: Sequence[str]) -> list[str]:
    behind = words[1:]
    found = [said for table, said in _cautions_of(words[0].rpartition("/")[2]) if _has_words(table, behind)]
    if "/" in words[0] and not words[0].startswith(("/usr/", "/bin/")):
        found.append(_BY_KIND["exec"])
    return list(dict.fromkeys(found))


def kind_caution(kind: str) -> str | None:
    """Return what is to be known before files may be touched in this way."""
    return _BY_KIND.get(kind)


def call_caution(tool: str | None) -> str | None:
    """Return what is to be known before a tool of an MCP server may be called, as far as its name says it."""
    if tool is None:
        return "it opens every tool of the server"
    name = tool.lower()
    return "by its name it may delete or run something" if any(word in name for word in _TOOL_WORDS) else None


def wide_subcommand(words: Sequence[str]) -> str | None:
    """Return the subcommand that a rule may name instead of all these words; None if it is better to name them all."""
    if len(words) < 2 or _harms(words):
        return None
    return words[1] if words[1] in _wide_subcommands(words[0]) else None


@lru_cache(maxsize=256)
def _wide_subcommands(program: str) -> frozenset[str]:
    tables = (table for name in _WIDE_GROUPS for table in GROUPS[name]["any"])
    listed = (
        subcommand
        for table in tables
        if set(table) == {"command", "subcommand"} and program in _listed(table["command"])
        for subcommand in _listed(table["subcommand"])
    )
    return frozenset((*_WIDE.get(program, ()), *listed))


# Words behind which a rule may leave open what follows, although it runs something: scripts that the project names.
_NAMED_SCRIPTS: Table = {"command": ["npm", "pnpm", "yarn"], "subcommand": ["run", "run-script"]}
_NEVER_OPEN = (
    _GROUP_CAUTIONS["destructive"],
    _GROUP_CAUTIONS["privilege"],
    _GROUP_CAUTIONS["administration"],
    _GROUP_CAUTIONS["installing"],
    _BY_KIND["exec"],
)


def may_stay_open(words: Sequence[str]) -> bool:
    """Whether a rule may leave open which words follow these: what deletes or runs anything is named word by word."""
    found = _harms(words)
    if any(said in _NEVER_OPEN for said in found) or _may_be(_NETWORKS, words):
        return False
    return not _may_be(_RUNS, words) or _may_be(_NAMED_SCRIPTS, words[:2])


DESTRUCTIVE = "destructive"  # the group of commands that delete or overwrite


def can_destroy(program: str) -> bool:
    """Whether there is a form of this program that the group `destructive` names."""
    return _mentions(GROUPS[DESTRUCTIVE], program.rpartition("/")[2])


def _mentions(table: Table, program: str) -> bool:
    return program in _listed(table.get("command", ())) or any(
        _mentions(each, program) for each in table.get("any", ())
    )


@lru_cache(maxsize=256)
def _cautions_of(program: str) -> tuple[tuple[Table, str], ...]:
    """Return the tables behind all cautions that name this program, each with what it says: a few of hundreds."""
    groups = ((GROUPS[name], said) for name, said in _GROUP_CAUTIONS.items())
    return tuple((each, said) for table, said in (*_OWN_CAUTIONS, *groups) for each in _about(table, program))


def _about(table: Table, program: str) -> Iterator[Table]:
    """Yield what a table has about one program."""
    if "any" in table:
        for each in table["any"]:
            yield from _about(each, program)
        return
    named = table["command"]
    if program == named if isinstance(named, str) else program in named:
        yield table


def _may_be(table: Table, words: Sequence[str]) -> bool:
    """Whether the words have all that a table of a rule names, in whatever order."""
    return any(_has_words(each, words[1:]) for each in _about(table, words[0].rpartition("/")[2]))


def _has_words(table: Table, behind: Sequence[str]) -> bool:
    """Whether these words behind the program have all that one table about it names."""
    return (
        ("subcommand" not in table or any(word in behind for word in _listed(table["subcommand"])))
        and all(word in behind for word in table.get("args", ()) if word != "**")
        and all(any(_has_flag(word, flag) for word in behind) for flag in table.get("flags", ()))
    )


def _has_flag(word: str, flag: str) -> bool:
    if flag.startswith("--"):
        return word.partition("=")[0] == flag
    return word == flag or (len(flag) == 2 and word[:1] == "-" and word[:2] != "--" and flag[1] in word)


def _listed(value: str | Sequence[str]) -> Iterator[str]:
    yield from (value,) if isinstance(value, str) else value
