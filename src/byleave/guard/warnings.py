"""Secrets that the policy puts in reach: which places to warn the user about, and which values to mask in records.

`SensitiveWarnings` gives each warning once in a session. `sensitive_reaches` finds the sensitive places that a tool may
read, as the policy decides it: a closed place is not named. `mask_for` makes the mask for the values of all variables
that the policy grants to a tool.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from byleave.core.access import Default
from byleave.core.decision import BUILT_IN
from byleave.core.env_rules import MINIMAL_ENVIRONMENT, EnvRule, EnvTable
from byleave.core.redact import Redactor
from byleave.errors import StateError
from byleave.record import Record
from byleave.text import sentence_list, shown
from byleave.user_files import make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.core.policy import CompiledPolicy
    from byleave.core.sensitive_places import Sensitive
    from byleave.policy.live_policy import LivePolicy


_LARGEST = 1 << 20


class SensitiveWarnings:
    """Gives each warning once: the directory of the session remembers which were given."""

    def __init__(self, sensitive: Sensitive, directory: str) -> None:
        self._sensitive = sensitive
        self._path = os.path.join(directory, "noticed")
        self._given: set[str] | None = None

    def entry(self, place: str) -> str | None:
        """Return the entry of the list of sensitive places that covers an absolute path."""
        return self._sensitive.at(place)

    def once(self, entry: str, action: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the sentence about an action at a sensitive place, nothing if it was said in this session."""
        what = f"{action['kind']} {action.get('path', '')}"
        who = f"the tool {action['tool']}" if action.get("tool") else "an agent"
        about = f"{entry} {action.get('path', '')}"
        return self.say_once(about, f"{shown(who)} reaches a sensitive place ({shown(entry)}): {shown(what)}")

    def say_once(self, about: str, sentence: str) -> tuple[str, ...]:
        """Return the sentence unless something about the same was said in this session."""
        if self._given is None:
            self._given = self._load()
        if about in self._given:
            return ()
        self._given.add(about)
        self._save()
        return (sentence,)

    def _load(self) -> set[str]:
        try:
            content = read_private(self._path, limit=_LARGEST)
        except StateError:
            return set()
        return set((content or b"").decode("utf-8", "surrogateescape").splitlines())

    def _save(self) -> None:
        """Write down which warnings were given; where that fails, they are given again."""
        lines = "".join(f"{line}\n" for line in sorted(self._given or ()))
        try:
            make_private_directory(os.path.dirname(self._path))
            write_private(self._path, lines.encode("utf-8", "surrogateescape"), durable=False)
        except (StateError, OSError):
            return


_MOST_NAMES = 10_000  # of one directory; it is a warning, not a search


class ReachableSecret(Record):
    """A sensitive place that lies open, by its name in the workspace, and the tools that may read it."""

    entry: str
    name: str
    tools: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The warning."""
        return f"{sentence_list(self.tools)} may read {shown(self.name)}, a sensitive place ({shown(self.entry)})"


def sensitive_reaches(policy: LivePolicy, sensitive: Sensitive) -> list[ReachableSecret]:
    """Return what lies open at the top of the workspace and of every mount, and the well-known places below them."""
    found = []
    for entry, name in dict.fromkeys(_candidates(policy, sensitive)):
        tools = [tool for tool in policy.compiled.tools if _may_read(policy, tool, name)]
        if tools:
            found.append(ReachableSecret(entry, name, tuple(tools)))
    return found


def sensitive_in(place: str, sensitive: Sensitive) -> Iterator[tuple[str, str]]:
    """Yield what is sensitive of an absolute place: itself, or what lies at its top, and well-known places below."""
    if (entry := sensitive.at(place)) is not None:
        yield entry, ""
        return
    for name in _names(place):
        if (entry := sensitive.at(os.path.join(place, name))) is not None:
            yield entry, name
    for entry, known in sensitive.below(place):
        if os.path.lexists(known):
            yield entry, os.path.relpath(known, place)


def _candidates(policy: LivePolicy, sensitive: Sensitive) -> Iterator[tuple[str, str]]:
    mounts = [(one.rule.path, one.target) for one in policy.compiled.externals if one.rule.approved_target is not None]
    for base, place in [("", policy.root.path), *mounts]:
        if place is not None:
            yield from ((entry, os.path.join(base, name).rstrip("/")) for entry, name in sensitive_in(place, sensitive))


def _names(place: str) -> list[str]:
    try:
        return sorted(os.listdir(place))[:_MOST_NAMES]
    except OSError:  # a file, or not ours to look into
        return []


def _may_read(policy: LivePolicy, tool: str, name: str) -> bool:
    return policy.decide({"kind": "read", "path": name, "tool": tool}).allowed


# No secrets: masking a home directory or a language wherever it occurs would make every record unreadable.
_COMMON = ("PWD", "OLDPWD", "SHELL", "SHLVL", "LOGNAME", "HOSTNAME", "EDITOR", "PAGER", "COLORTERM", "DISPLAY", "XDG_*")
_KNOWN = EnvTable([EnvRule(name) for name in (*MINIMAL_ENVIRONMENT, *_COMMON)])


def mask_for(policy: CompiledPolicy, environment: Mapping[str, str]) -> Redactor:
    """Return the mask for everything this policy hands out of the environment."""
    return Redactor(_granted(policy, environment))


def _granted(policy: CompiledPolicy, environment: Mapping[str, str]) -> Iterator[str]:
    tables = [tool.access.env for view in policy.views for tool in view.tools.values()]
    for table in {id(table): table for table in tables}.values():
        if isinstance(table, Default):
            continue
        for name, value in environment.items():
            rule = table.match(name)
            known = rule is None or rule.source == BUILT_IN or _KNOWN.match(name) is not None
            if rule is not None and not known and (rule.read or rule.substitute):
                yield value
