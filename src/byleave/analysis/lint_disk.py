"""What a policy means on this disk: secrets that lie open, names that collide, links that lead out.

The walk is bounded in files; what it did not look at, it says. Nothing is opened and no link is followed: names and
kinds are enough. What may be read is decided by the policy itself, never guessed here.

Start at `look_at_disk`, then `lint_disk`.
"""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.findings import NOTE, WARNING, Finding
from byleave.core.access import Default
from byleave.core.action import CommandAction, FileAction
from byleave.core.decision import ALLOW, BUILT_IN
from byleave.core.fs_rules import fold, is_under
from byleave.core.patterns import name_matches
from byleave.errors import ByleaveError
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from byleave.core.decision import RuleRef
    from byleave.core.sensitive_places import Sensitive
    from byleave.policy.live_policy import LivePolicy

MOST_ENTRIES = 200_000
_EVERY = 5_000  # names between two reports of progress
_MOST_SECRETS = 40  # that are tried; each for every tool
_MOST_COLLISIONS = 50
_MOST_LINKS = 1_000
_MOST_RULE_PATHS = 2_000
_MOST_NAMED = 3
# Directories that tools fill: their own secrets and links are not the project's.
_FILLED = frozenset({".git", "node_modules", "site-packages", ".venv", "venv", "__pycache__", ".tox", ".nox", "target"})
_EXAMPLES = ("*.example", "*.sample", "*.template", "*.dist", "*.pub")
SECRET_NAMES = (
    *(".env", ".env.*", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa"),
    *("id_ed25519", ".netrc", ".pgpass", ".git-credentials", ".pypirc", ".htpasswd", "credentials.json"),
    *("service-account*.json", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", "*.pem"),
)


class DiskView(Struct):
    """What the walk found, by names relative to the root. `complete`: nothing was left out."""

    files: int = 0
    complete: bool = True
    secrets: list[str] = []
    outward: list[tuple[str, str]] = []
    hard: list[str] = []
    alike: list[tuple[str, str]] = []

    @property
    def count(self) -> str:
        """How many files there are, in words."""
        number = f"{self.files:,} file{'' if self.files == 1 else 's'}"
        return number if self.complete else f"more than {number}"


def look_at_disk(
    root: str, sensitive: Sensitive, *, progress: Callable[[int], None] | None = None, most: int = MOST_ENTRIES
) -> DiskView:
    """Walk the workspace, at most so many names, and note what a policy should be held against."""
    view = DiskView()
    seen = 0
    waiting = [(root, "", False)]
    while waiting:
        directory, name, filled = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:  # not ours to look into
            continue
        folded: dict[str, str] = {}
        for entry in entries:
            seen += 1
            if seen > most:
                view.complete = False
                return view
            if progress is not None and seen % _EVERY == 0:
                progress(seen)
            path = f"{name}/{entry.name}" if name else entry.name
            other = folded.setdefault(fold(entry.name), path)
            if other is not path and len(view.alike) < _MOST_COLLISIONS:
                view.alike.append((other, path))
            if _note(entry, path, root, view, sensitive, filled=filled):
                waiting.append((entry.path, path, filled or entry.name in _FILLED))
    return view


def _note(entry: os.DirEntry[str], path: str, root: str, view: DiskView, sensitive: Sensitive, *, filled: bool) -> bool:
    """Note one entry, and say whether it is a directory to go into."""
    try:
        if entry.is_symlink():
            target = os.path.realpath(entry.path)
            if not filled and len(view.outward) < _MOST_LINKS and not is_under(target, root):
                view.outward.append((path, target))
            return False
        if entry.is_dir(follow_symlinks=False):
            return True
        found = entry.stat(follow_symlinks=False)
    except OSError:  # it is gone
        return False
    if not stat.S_ISREG(found.st_mode):
        return False
    view.files += 1
    if not filled:
        if found.st_nlink > 1 and len(view.hard) < _MOST_LINKS:
            view.hard.append(path)
        example = any(name_matches(pattern, entry.name.lower()) for pattern in _EXAMPLES)
        if not example and (is_secret(entry.name) or sensitive.at(entry.path) is not None):
            view.secrets.append(path)
    return False


def is_secret(name: str) -> bool:
    """Whether files of this name usually hold secrets."""
    lowered = name.lower()
    return any(name_matches(pattern, lowered) for pattern in SECRET_NAMES)


class _Reader(Struct, frozen=True):
    """Who may read a file: a tool, an agent by its own tools, or a command; and the rule that says so."""

    who: str
    rule: str
    source: str


def lint_disk(policy: LivePolicy, view: DiskView, agents: Sequence[str | None]) -> Iterator[Finding]:
    """Yield what is wrong with a policy on the disk that was looked at."""
    yield from _secrets(policy, view, agents)
    yield from _collisions(policy, view)
    yield from _misspelled(policy)
    yield from _links(policy, view)


def _secrets(policy: LivePolicy, view: DiskView, agents: Sequence[str | None]) -> Iterator[Finding]:
    open_to: dict[_Reader, list[str]] = {}
    for path in sorted(view.secrets, key=lambda name: (name.count("/"), name))[:_MOST_SECRETS]:
        for reader in _readers(policy, path, agents):
            open_to.setdefault(reader, []).append(path)
    more = len(view.secrets) > _MOST_SECRETS
    for reader, paths in open_to.items():
        named = sentence_list([shown(path) for path in paths], most=_MOST_NAMED)
        number = (
            f"{len(paths)} files that usually hold secrets" if len(paths) > 1 else "a file that usually holds a secret"
        )
        message = f"{reader.who} may read {number}: {named}{', and maybe more' if more else ''}"
        by_default = reader.source == BUILT_IN
        fix = 'close it: a rule with its path that grants nothing, or deny = { path = ["**/.env"] } among rules'
        yield Finding("secret_readable", NOTE if by_default else WARNING, reader.rule, reader.source, message, fix)


def _readers(policy: LivePolicy, path: str, agents: Sequence[str | None]) -> Iterator[_Reader]:
    for tool in policy.compiled.tools:
        ref = _allowing(policy, FileAction("read", path, tool))
        if ref is not None:
            yield _Reader(f"the tool {shown(tool)}", f"tools.{shown(tool)}: {ref.rule}", ref.source)
    for agent in agents:
        who = "an agent" if agent is None else f"the agent {shown(agent)}"
        ref = _allowing(policy, FileAction("read", path, None, agent))
        if ref is not None:
            yield _Reader(who, ref.rule, ref.source)
        line = f"cat {shlex.quote(path)}"
        ref = _allowing(policy, CommandAction(command=line, agent=agent))
        if ref is not None:
            yield _Reader(f"a command of {who}", ref.rule, ref.source)


def _allowing(policy: LivePolicy, action: FileAction | CommandAction) -> RuleRef | None:
    try:
        verdict = policy.decide(action, confines=isinstance(action, CommandAction))
    except ByleaveError:
        return None
    return verdict.because[0] if verdict.decision is ALLOW else None


def _collisions(policy: LivePolicy, view: DiskView) -> Iterator[Finding]:
    """Yield names on the disk that differ only in case or normal form, where the policy decides them differently."""
    for one, other in view.alike:
        for tool in (None, *policy.compiled.tools):
            first, second = (_decided(policy, path, tool) for path in (one, other))
            if first != second:
                who = "for agents" if tool is None else f"for the tool {shown(tool)}"
                names = f"{quoted(one)} and {quoted(other)}"
                message = f"{names} differ only in case or in the form of letters, and {who} the decisions differ"
                fix = "rename one of the two, or write rules for both"
                yield Finding("case_collision", WARNING, names, shown(other), message, fix)
                break


def _decided(policy: LivePolicy, path: str, tool: str | None) -> tuple[object, ...]:
    try:
        return tuple(policy.decide(FileAction(kind, path, tool)).decision for kind in ("read", "update"))
    except ByleaveError:
        return ()


def _misspelled(policy: LivePolicy) -> Iterator[Finding]:
    """Yield file rules whose path is not there, while one is that differs only in case or normal form."""
    names: dict[str, dict[str, str]] = {}
    looked = 0
    for tool, compiled in policy.compiled.policy.views[0].tools.items():
        if isinstance(compiled.access.fs, Default):
            continue
        for rule in compiled.access.fs.rules:
            looked += 1
            if rule.source == BUILT_IN or not rule.path or looked > _MOST_RULE_PATHS:
                continue
            above, _, last = rule.path.rpartition("/")
            place = os.path.join(policy.root.path, above)
            if above not in names:
                names[above] = _listed(place)
            there = names[above].get(fold(last))
            if there is None or there == last or os.path.lexists(os.path.join(place, last)):
                continue
            spelled = f"{above}/{there}" if above else there
            message = f"{quoted(rule.path)} does not exist, and {quoted(spelled)} does: on this disk they are two names"
            text = f"tools.{shown(tool)}: {rule.text}"
            yield Finding("case_collision", WARNING, text, rule.source, message, f"write {quoted(spelled)}")


def _listed(place: str) -> dict[str, str]:
    try:
        return {fold(name): name for name in os.listdir(place)}
    except OSError:
        return {}


def _links(policy: LivePolicy, view: DiskView) -> Iterator[Finding]:
    known = {external.name for external in policy.compiled.externals}
    outward = [(path, target) for path, target in view.outward if path not in known]
    for path, target in outward[:_MOST_NAMED]:
        message = f"the link leads out of the workspace, to {quoted(target)}; a command that is not confined follows it"
        fix = "remove it, or mount it with `byleave mount` if tools need it"
        yield Finding("leaves_workspace", NOTE, f"link {shown(path)}", shown(path), message, fix)
    if len(outward) > _MOST_NAMED:
        more = f"{len(outward) - _MOST_NAMED} more links lead out of the workspace"
        yield Finding(
            "leaves_workspace", NOTE, "links", shown(outward[_MOST_NAMED][0]), more, "look at them with `find -type l`"
        )
    if view.hard and not policy.compiled.policy.strict_links:
        named = sentence_list([shown(path) for path in view.hard], most=_MOST_NAMED)
        message = (
            f"{named} {'has' if len(view.hard) == 1 else 'have'} further names, which may lie outside of the workspace"
        )
        fix = "copy them, or set strict_links = true to be asked before one is changed"
        yield Finding("leaves_workspace", NOTE, "hard links", shown(view.hard[0]), message, fix)
