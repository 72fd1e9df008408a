"""Rules as Python: builders that read like prose, and are the very tables of the configuration file underneath.

ruleset = Ruleset([
    Rule(Matcher.command("git").with_subcommands(["status", "log"]), Outcome.ALLOW),
    Rule(Matcher.command("git").with_subcommand("push").with_flag("--force"), Outcome.DENY),
])
ruleset.evaluate(Operation.execute("git status"))     # Outcome.ALLOW
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.core.decision import Decision
from byleave.policy.load import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from byleave.core.decision import Verdict
    from byleave.policy.live_policy import LivePolicy

Outcome = Decision


class _OnBoth:
    """A method that starts a new matcher on the class, and adds to the one at hand on an instance."""

    def __init__(self, function: Callable[..., Matcher]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Matcher | None, owner: type[Matcher]) -> Callable[..., Matcher]:
        subject = instance if instance is not None else owner({})

        def bound(*values: Any, **named: Any) -> Matcher:
            return self._function(subject, *values, **named)

        return bound


class Matcher:
    """A predicate over operations. Every method returns a new matcher; the old one stays as it was."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.table = table

    def __repr__(self) -> str:
        return f"Matcher({self.table!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matcher) and self.table == other.table

    def __hash__(self) -> int:
        return hash(repr(self.table))

    @classmethod
    def command(cls, *names: str) -> Matcher:
        """Match a program by name, or any of several."""
        return cls({"command": list(names)})

    @classmethod
    def any_execute(cls) -> Matcher:
        """Match any command."""
        return cls({"any_command": True})

    @classmethod
    def group(cls, name: str) -> Matcher:
        """Match a ready-made group."""
        return cls({"group": name})

    @classmethod
    def path(cls, *globs: str, ops: Sequence[str] | None = None) -> Matcher:
        """Match file operations by path."""
        return cls({"path": list(globs)} if ops is None else {"path": list(globs), "ops": list(ops)})

    @classmethod
    def url(cls, **parts: Any) -> Matcher:
        """Match fetches by host, scheme, port, path_prefix and method."""
        return cls({"url": parts})

    @classmethod
    def call(cls, **parts: Any) -> Matcher:
        """Match MCP calls by server, tool and one argument."""
        return cls({"call": parts})

    @classmethod
    def operation(cls, *kinds: str) -> Matcher:
        """Match operations by kind."""
        return cls({"operation": list(kinds)})

    @classmethod
    def all_of(cls, matchers: Iterable[Matcher]) -> Matcher:
        """Match what all of the matchers match."""
        return cls({"all": [matcher.table for matcher in matchers]})

    @classmethod
    def any_of(cls, matchers: Iterable[Matcher]) -> Matcher:
        """Match what any of the matchers matches."""
        return cls({"any": [matcher.table for matcher in matchers]})

    @classmethod
    def none_of(cls, matcher: Matcher) -> Matcher:
        """Match everything but what the matcher matches."""
        return cls({"not": matcher.table})

    def with_subcommand(self, name: str) -> Matcher:
        """Match only this subcommand."""
        return self.with_subcommands([name])

    def with_subcommands(self, names: Iterable[str]) -> Matcher:
        """Match only these subcommands."""
        return self._with(subcommand=list(names))

    def with_flag(self, flag: str) -> Matcher:
        """Match only where this flag is given, in any of its spellings."""
        return self._with(flags=[*self.table.get("flags", ()), flag])

    def with_args(self, words: Iterable[str]) -> Matcher:
        """Match only this argument list; a last `**` is anything after."""
        return self._with(args=list(words))

    def with_any_options(self) -> Matcher:
        """Cover options that execute programs or write files, too."""
        return self._with(options="any")

    @_OnBoth
    def within_directory(self, directory: str) -> Matcher:
        """Match only commands that run in this directory or below it."""
        return self._with(within=directory)

    @_OnBoth
    def piped_to_shell(self) -> Matcher:
        """Match only commands whose output goes to a shell."""
        return self._with(piped_to_shell=True)

    def _with(self, **keys: Any) -> Matcher:
        return Matcher({**self.table, **keys})


class Rule(Struct, frozen=True):
    """A matcher with its outcome."""

    matcher: Matcher
    outcome: Decision
    why: str | None = None

    @property
    def table(self) -> dict[str, Any]:
        """The rule as it would stand in a configuration file."""
        tree: dict[str, Any] = {self.outcome.word: self.matcher.table}
        return tree if self.why is None else {**tree, "why": self.why}


class Operation(Struct, frozen=True):
    """Something an agent attempts."""

    action: dict[str, Any]

    @classmethod
    def execute(cls, command: str, *, cwd: str | None = None) -> Operation:
        """A shell command."""
        return cls({"kind": "command", "command": command, "cwd": cwd})

    @classmethod
    def read(cls, path: str) -> Operation:
        """Reading a file."""
        return cls({"kind": "read", "path": path})

    @classmethod
    def edit(cls, path: str, *, new: bool = False) -> Operation:
        """Changing a file, or writing a new one."""
        return cls({"kind": "create" if new else "update", "path": path})

    @classmethod
    def delete(cls, path: str) -> Operation:
        """Removing a file."""
        return cls({"kind": "delete", "path": path})

    @classmethod
    def move(cls, path: str, to: str) -> Operation:
        """Moving or renaming a file."""
        return cls({"kind": "move", "path": path, "to": to})

    @classmethod
    def search(cls, path: str = ".", query: str | None = None) -> Operation:
        """Searching below a directory."""
        return cls({"kind": "search", "path": path, "query": query})

    @classmethod
    def fetch(cls, url: str, *, method: str | None = None) -> Operation:
        """Retrieving a URL."""
        return cls({"kind": "url", "url": url, "method": method})

    @classmethod
    def think(cls) -> Operation:
        """Reasoning, which touches nothing."""
        return cls({"kind": "other", "name": "think"})

    @classmethod
    def switch_mode(cls) -> Operation:
        """Switching the mode of a session."""
        return cls({"kind": "other", "name": "switch_mode"})

    @classmethod
    def other(cls, name: str) -> Operation:
        """Anything else, by name."""
        return cls({"kind": "other", "name": name})


class Ruleset:
    """An ordered list of rules; the first that matches decides, nothing matched is `Outcome.ASK`."""

    def __init__(self, rules: Iterable[Rule], *, root: str = ".") -> None:
        self.rules = tuple(rules)
        self._root = root
        self._policy: LivePolicy | None = None

    def evaluate(self, operation: Operation) -> Decision:
        """Return the outcome for an operation."""
        return self.explain(operation).decision

    def explain(self, operation: Operation) -> Verdict:
        """Return the whole verdict: the outcome, its reason, and every rule that had a say."""
        if self._policy is None:
            self._policy = Workspace(self._root).compile_tree({"rules": [rule.table for rule in self.rules]})
        return self._policy.decide(operation.action)
