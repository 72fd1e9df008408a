"""How much a rule allows that no person has seen: actions of the same kind are tried with it and without it.

Commands are tried on the corpus and on every option and subcommand that is known of the rule's program, files on those
of the workspace, URLs on the same host and on those of the corpus, calls on those that were seen. The number is that of
the actions which the policy would allow with the rule and does not allow now; it is a lower bound of what there is.

Start at `trials`, then `over_grant`. `learn` uses both, and so may everything that offers a rule for good.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from byleave.analysis.answers import action_key
from byleave.analysis.corpus import example_commands
from byleave.analysis.rule_trial import allows
from byleave.core.access import SHELL_TOOL
from byleave.core.url import BadUrl, parse_url
from byleave.shell.knowledge.harmless import options_of
from byleave.shell.knowledge.program_options_table import PROGRAMS
from byleave.shell.reader import read_command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from byleave.policy.live_policy import LivePolicy

    Tree = dict[str, Any]

MOST_EXAMPLES = 5
MUCH = 10  # actions, from which on a person should look twice
_MOST_OPTIONS = 200  # of one program and subcommand
_MOST_FILES = 2000
_CAPABILITIES = {
    "read": ("read",),
    "write": ("create", "update", "delete"),
    "create": ("create",),
    "update": ("update",),
    "delete": ("delete",),
    "execute": ("exec",),
}
_PLAIN_FIELDS = ("kind", "command", "path", "to", "url", "server", "name", "program", "args")
_URL = re.compile(r"https?://[^\s'\"<>|;)]+")
_VALUE = "value"  # in the place of what an option takes
_ANYTHING = "**"


class OverGrant(Struct, frozen=True):
    """How many actions were tried, how many of them a rule would also allow, and some of those."""

    tried: int
    also_allowed: int
    examples: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree:
        """The numbers for programs."""
        return {"tried": self.tried, "also_allowed": self.also_allowed, "examples": list(self.examples)}

    @property
    def caution(self) -> str | None:
        """What a person should know of it; None where it is little."""
        if self.also_allowed < MUCH:
            return None
        return f"it would also allow {self.also_allowed} of {self.tried} other actions that were tried"


def over_grant(
    rule: str, tried: Sequence[Tree], *, before: LivePolicy, after: LivePolicy, seen: Collection[str] = ()
) -> OverGrant:
    """Count what `after`, the policy with the rule, allows and `before` does not; `seen` are keys to leave out."""
    others = [action for action in tried if action_key(action) not in seen]
    reach = _Reach(_parsed(rule))
    found = [
        action for action in others if reach.may_be(action) and allows(after, action) and not allows(before, action)
    ]
    return OverGrant(len(others), len(found), tuple(text_of(action) for action in _spread(found)))


def _spread(found: list[Tree]) -> list[Tree]:
    """Return some actions from all over a list: neighbours in it look alike."""
    step = max(1, len(found) // MOST_EXAMPLES)
    return found[::step][:MOST_EXAMPLES]


def text_of(action: Tree) -> str:
    """Return an action in a few words: a command as it is, everything else with its kind."""
    kind = action.get("kind")
    if kind == "command":
        return str(action.get("command"))
    subject = next((str(action[name]) for name in ("path", "url", "program", "server", "name") if action.get(name)), "")
    if kind == "spawn":
        return " ".join([subject, *map(str, action.get("args") or ())])
    more = f" {action['tool']}" if kind == "call" and action.get("tool") else ""
    return f"{kind} {subject}{more}"


def plain_action(action: Tree, path: str | None = None) -> Tree:
    """Return an action without the circumstances that no rule is about."""
    named = {name: action[name] for name in _PLAIN_FIELDS if action.get(name) is not None}
    if action.get("tool") is not None:
        named["tool"] = action["tool"]
    return named if path is None or "path" not in named else {**named, "path": path}


class _Reach:
    """Knows which actions a rule cannot be about, so that they need not be decided twice.

    A rule that allows a command needs the very program, and the very words that it names; where a word of the command
    is known only at run time, no such rule allows it.
    """

    def __init__(self, tree: Tree) -> None:
        rules = [rule.get("allow", {}) for rule in tree.get("rules", ())]
        plain = all(
            set(rule) <= {"command", "args", "subcommand", "not"} and isinstance(rule.get("command"), str)
            for rule in rules
        )
        self._rules = rules if rules and plain and set(tree) == {"rules"} else None

    def may_be(self, action: Tree) -> bool:
        if self._rules is None:
            return True
        if action.get("kind") != "command":
            return False
        return any(_names(rule, words) for words in _commands_of(str(action["command"])) for rule in self._rules)


def _names(rule: Mapping[str, Any], words: tuple[str | None, ...]) -> bool:
    if not words or words[0] is None or words[0].rpartition("/")[2] != str(rule["command"]).rpartition("/")[2]:
        return False
    args = tuple(rule.get("args", (_ANYTHING,)))
    if args[-1:] == (_ANYTHING,):
        return words[1 : len(args)] == args[:-1]
    return words[1:] == args


@cache
def _commands_of(line: str) -> tuple[tuple[str | None, ...], ...]:
    reading = read_command(line)
    return tuple(tuple(command.argv) for command in reading.commands)


def trials(
    rule: str, *, files: Sequence[str] = (), seen: Iterable[Tree] = (), commands: Sequence[str] | None = None
) -> list[Tree]:
    """Return the actions that a rule is tried on, each once.

    `files` are those of the workspace, by paths relative to it; `seen` are actions that were recorded; `commands` take
    the place of the corpus.
    """
    tree = _parsed(rule)
    lines = example_commands() if commands is None else tuple(commands)
    known = list(seen)
    found: list[Tree] = []
    for each in tree.get("rules", ()):
        allow = each.get("allow", {})
        if "command" in allow:
            found += [{"kind": "command", "command": line} for line in (*lines, *_variants(allow))]
        if "path" in allow:
            found += _files(files, allow.get("ops") or ("read", "create", "update", "delete", "exec"))
        if "url" in allow:
            found += [{"kind": "url", "url": url} for url in _urls(allow["url"], lines, known)]
        if "call" in allow:
            found += [action for action in known if action.get("kind") == "call"]
    for tool, access in _accesses(tree):
        for grant in access.get("fs", ()):
            kinds = [kind for name, kinds in _CAPABILITIES.items() if grant.get(name) is True for kind in kinds]
            found += [{**action, "tool": tool} for action in _files(files, kinds)]
        for grant in access.get("net", ()):
            found += [{"kind": "url", "url": url, "tool": tool} for url in _urls(grant, lines, known)]
    return list({action_key(action): action for action in found}.values())


def _parsed(rule: str) -> Tree:
    try:
        return tomllib.loads(rule)
    except tomllib.TOMLDecodeError:
        return {}


def _accesses(tree: Tree) -> Iterator[tuple[str, Tree]]:
    if "shell" in tree:
        yield SHELL_TOOL, tree["shell"].get("access", {})
    for tool, settings in tree.get("tools", {}).items():
        yield tool, settings.get("access", {})


def _variants(allow: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command of a rule with each option that is known of it, and the program with each other subcommand."""
    from shlex import join

    command = allow["command"]
    if isinstance(command, list):
        for program in command:
            yield from _variants({**allow, "command": program})
        return
    program = str(command)
    named = allow.get("subcommand", allow.get("args", ()))
    words = [named] if isinstance(named, str) else [word for word in named if word != _ANYTHING]
    yield join([program, *words])
    for option in _options(program, words)[:_MOST_OPTIONS]:
        yield join([program, *words, *option])
    for subcommand in _subcommands(program):
        yield join([program, *subcommand.split()])


def _options(program: str, words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the options that are known of a program and its subcommand, each with a value if it takes one."""
    harmless = options_of(program) or {}
    facts = PROGRAMS.get(program, {})
    found: dict[tuple[str, ...], None] = {}
    subcommands = facts.get("sub", {})
    names = [name for length in (1, 2) if (name := " ".join(words[:length])) in harmless or name in subcommands]
    for name in names or ("",):
        for spec in harmless.get(name, "").split():
            found |= dict.fromkeys(_spelled(spec))
        table = subcommands.get(name, {}) if name else facts
        for key in ("flags", "executes", "writes", "optional"):
            found |= {(option,): None for option in table.get(key, ()) if option.startswith("-")}
        found |= {(option, _VALUE): None for option in table.get("values", ()) if option.startswith("-")}
    return list(found)


def _spelled(spec: str) -> Iterator[tuple[str, ...]]:
    """Yield the options of one entry of the tables of harmless ones: `-p,--patch`, `--stat[=]`, `!--output=>`."""
    name, mark, _value = spec.lstrip("!").partition("=")
    option = name.removesuffix("[").rpartition(",")[2]
    if option.startswith("-") and option not in ("-", "--", "-#"):
        yield (option, _VALUE) if mark and not name.endswith("[") else (option,)


def _subcommands(program: str) -> list[str]:
    facts = PROGRAMS.get(program, {}).get("sub", {})
    return list(dict.fromkeys([*(options_of(program) or {}), *facts]))


def _files(files: Sequence[str], kinds: Iterable[str]) -> list[Tree]:
    return [{"kind": kind, "path": path} for kind in kinds for path in files[:_MOST_FILES]]


def _urls(named: Mapping[str, Any], lines: Sequence[str], seen: Sequence[Tree]) -> Iterator[str]:
    """Yield other URLs of the host that a rule names, those of the corpus, and those that were seen."""
    host, prefix = str(named.get("host", "example.org")), str(named.get("path_prefix", "")).rstrip("/")
    parent = prefix.rpartition("/")[0]
    places = dict.fromkeys(["/", f"{prefix}/other", f"{prefix}/other/deeper", f"{parent}/other", prefix or "/other"])
    for scheme in ("https", "http"):
        yield from (f"{scheme}://{host}{place}" for place in places)
        yield from (f"{scheme}://{other}/" for other in (f"other.{host}", f"{host}:8443"))
    found = [url for line in lines for url in _URL.findall(line)]
    yield from (url for url in found if not isinstance(parse_url(url), BadUrl))
    yield from (str(action["url"]) for action in seen if action.get("kind") == "url" and action.get("url"))
