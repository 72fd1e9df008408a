"""Resolve what an action names, then decide it: the one way from an action to a verdict.

A `LivePolicy` is long-lived. Meanwhile its files may be edited, an approval revoked, the places that its rules name
replaced by links. It looks at all of them again after a while, and compiles anew when something has changed.

A delete or a move is decided by the name that it is about (`core.file_decision`). Where that is a link, or a directory
that holds links, `decide_entries` adds what the name alone does not say; it only tightens:

- A link that leads out of the workspace is a way out, or a mount. The place where it leads decides as well.
- A rule names a place by a path, and where that path leads through a link, the link is a part of the policy: without
  it, or with another one, the same rule would speak of another place. No tool removes, replaces or lays such a link.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from byleave.core.action import CommandAction, FileAction, MoveAction, SearchAction, parse_action
from byleave.core.calls import could_call, could_use, decide_use
from byleave.core.decide import decide
from byleave.core.decision import BUILT_IN, DENY, RuleRef, Verdict, strictest
from byleave.core.file_decision import with_grants
from byleave.core.fs_rules import FsTarget, RefusedPath, is_under
from byleave.core.paths import collapse
from byleave.core.place_access import closed_places
from byleave.core.search import SearchedFiles
from byleave.core.selection import selection_of
from byleave.record import Record
from byleave.text import quoted
from byleave.workspace.closed_paths import covered_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from byleave.core.action import Action
    from byleave.core.closed_places import Covered
    from byleave.core.command_line import CommandLine
    from byleave.core.policy import CompiledPolicy as Rules
    from byleave.policy.compile import Compiled
    from byleave.workspace.resolve import Root

    Place = FsTarget | RefusedPath


class PolicySource(Protocol):
    """What a policy is compiled from, so that it can be compiled again: see `policy.load`."""

    def stamp(self) -> object:
        """Return what changes whenever the source does."""
        ...

    def compile_again(self, before: Compiled) -> Compiled: ...


REVALIDATE_AFTER = 0.1  # seconds; longer where looking takes long, so that it never costs more than a twentieth
_SHARE = 20
_MOST_NAMED = 8  # closed files of one search; one is enough to ask


class ResolvedAction(Record):
    """An action, where its paths led when the policy decided it, and the verdict.

    `touched` are the places a command runs in, redirects to and names to write. `scripts` are the files whose content
    it runs. `wraps`: it starts other commands through a program that is no plain way to do so.
    """

    action: Action
    places: tuple[FsTarget | RefusedPath, ...]
    verdict: Verdict
    touched: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    wraps: bool = False


class LivePolicy:
    """A compiled policy in its workspace. `decide` takes an action as a record or as its JSON object."""

    def __init__(
        self,
        compiled: Compiled,
        root: Root,
        source: PolicySource | None = None,
        *,
        home: str | None = None,
        known: object = None,
        keeps_walks: bool = False,
    ) -> None:
        self.compiled = compiled
        self.root = root
        self._source = source
        self._home = home
        self._walks: dict[object, Covered] | None = {} if keeps_walks else None
        self._known = known  # taken before the files were read: a change in between is seen
        self._look_again = monotonic() + REVALIDATE_AFTER
        self._alone = allocate_lock()  # several threads may ask; one compiles

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know about this policy."""
        return self.compiled.warnings

    def decide(self, action: Action | Mapping[str, Any], *, confines: bool = False) -> Verdict:
        """Return the verdict on `action`; an input error if it cannot be read or names an unknown tool.

        `confines`: who asks can run a command as `[shell]` says; else an allow that needs it is an ask.
        """
        return self.evaluate(action, confines=confines).verdict

    def evaluate(self, action: Action | Mapping[str, Any], *, confines: bool = False) -> ResolvedAction:
        """Return the verdict together with the action as it was read and the places as they were resolved."""
        asked = action if isinstance(action, Record) else parse_action(_plain(action))
        places: tuple[FsTarget | RefusedPath, ...] = ()
        entry = False
        if isinstance(asked, (FileAction, SearchAction)):
            entry = asked.kind == "delete" if isinstance(asked, FileAction) else False
            places = (self._place(asked.path, asked.tool, entry=entry),)
        elif isinstance(asked, MoveAction):
            entry = True
            places = tuple(self._place(path, asked.tool, entry=True) for path in (asked.path, asked.to))
        if monotonic() >= self._look_again:
            self._revalidate()
        if isinstance(asked, CommandAction) and self.compiled.read_line is not None:
            line = self._with_covered(self.compiled.read_line.read(asked.command, asked.cwd, asked.shell), asked)
            return _resolved_line(asked, line, decide(self.compiled.policy, asked, (line,), confines=confines))
        if isinstance(asked, SearchAction) and asked.tool is None:  # a tool's search decides each file by itself
            looked = self._look_below(asked, places[0])
            if looked is not None:
                touched = tuple(each.path for each in looked.covered.places)
                return ResolvedAction(asked, places, decide(self.compiled.policy, asked, (*places, looked)), touched)
        verdict = decide(self.compiled.policy, asked, places)
        linked = any(isinstance(place, FsTarget) and (place.link or place.directory) for place in places)
        if isinstance(asked, (FileAction, MoveAction)) and asked.tool is not None and linked and entry:
            verdict = decide_entries(self.compiled, self.root, asked, places, verdict)
        elif isinstance(asked, (FileAction, MoveAction)) and asked.tool is None and entry:
            verdict = self._with_named_links(asked, places, verdict)
        return ResolvedAction(asked, places, verdict)

    def decide_both(self, action: CommandAction, line: CommandLine | None) -> tuple[Verdict, Verdict]:
        """Decide a line, once read, for a caller that can run it confined, and for one that cannot."""
        places = () if line is None else (self._with_covered(line, action),)
        confined, plain = [
            decide(self.compiled.policy, action, places, confines=confines) for confines in (True, False)
        ]
        return confined, plain

    def _with_covered(self, line: CommandLine, action: CommandAction) -> CommandLine:
        """Return the line with the closed places that lie below the directories which it names."""
        if not any(file.tree for part in line.parts for file in part.files):
            return line
        from byleave.policy.command_lines import with_covered  # heavy: only commands need it

        return with_covered(line, self.compiled.policy, self.root, action.agent, self._walks)

    def _with_named_links(
        self, action: FileAction | MoveAction, places: tuple[FsTarget | RefusedPath, ...], verdict: Verdict
    ) -> Verdict:
        """Decide a delete or a move of an agent's own tool by the links that it names, too: it may mean either."""
        paths = (action.path, action.to) if isinstance(action, MoveAction) else (action.path,)
        links = [self.root.link_named(path, home=self._home) for path in paths]
        if not any(links):
            return verdict
        named = tuple(link or place for link, place in zip(links, places, strict=True))
        return strictest([verdict, decide(self.compiled.policy, action, named)])

    def _look_below(self, action: SearchAction, place: FsTarget | RefusedPath) -> SearchedFiles | None:
        """Look for the closed files that a search can select; None where no rule closes any place."""
        if not isinstance(place, FsTarget) or (place.exists and not place.directory):
            return None
        if next(self.compiled.policy.rule_tables(), None) is None:
            return None

        root, policy = self.root, self.compiled.policy
        closed = closed_places(policy, ("read",), root.path, action.agent, "search")
        if not closed:
            return None
        selection = selection_of(action.glob)
        found = covered_below(root, place.canonical, closed, selection=selection, most_found=_MOST_NAMED)
        return SearchedFiles(closed, selection, found)

    def could_call(self, agent: str | None, server: str, tool: str | None) -> bool:
        """Whether some arguments exist for which a call is not denied; without a tool, whether the server is open."""
        return could_call(self._current(), agent, server, tool)

    def could_use(self, agent: str | None, server: str, kind: str, name: str) -> bool:
        """Whether a server's resource (by its URI) or prompt is not denied; `kind` is "resources" or "prompts"."""
        return could_use(self._current(), agent, server, kind, name)

    def decide_use(self, agent: str | None, server: str, kind: str, name: str) -> Verdict:
        """Return the verdict on a resource or prompt of a server."""
        return decide_use(self._current(), agent, server, kind, name)

    def _current(self) -> Rules:
        if monotonic() >= self._look_again:
            self._revalidate()
        return self.compiled.policy

    def _leads_elsewhere(self, path: str, known: str | None) -> bool:
        place = self.root.resolve_any(path)
        return (place.canonical if isinstance(place, FsTarget) else None) != known

    def under(self, policy: Rules) -> LivePolicy:
        """Return what would answer if this policy held here. It follows no changes."""
        return LivePolicy(self.compiled.replace(policy=policy), self.root, home=self._home)

    def expire(self) -> None:
        """Let the next question about a file look at the paths of the rules again, however fresh they are."""
        self._look_again = 0.0

    def look_again(self) -> None:
        """Compile again now, if a file of the policy has changed or a path of it leads elsewhere."""
        self._revalidate()

    def is_as_before(self, unlinked: Callable[[str], bool]) -> bool:
        """Whether nothing has changed that this policy rests on: its files, and where its paths lead.

        `unlinked` says of a path that it is known to lead through no link; such a path is not resolved again.
        """
        if self._source is not None and self._source.stamp() != self._known:
            return False
        if self.compiled.machine is not None and self.compiled.machine.changed():
            return False
        resolve = self.root.resolve_input
        linked = [(path, known) for path, known in list(self.compiled.places.items()) if not unlinked(path)]
        return not any(_moved(known, resolve(path)) for path, known in linked)

    def _place(self, path: str, tool: str | None, *, entry: bool = False) -> FsTarget | RefusedPath:
        """Resolve a path: a tool's own, or one that an agent names, where `~` is the user's home.

        `entry`: the name itself is removed or replaced, so a link that a tool names is meant itself. What an agent's
        own tool does to a link is not known; where the link leads decides, and then its name.
        """
        if tool is not None:
            return self.root.resolve_entry(path) if entry else self.root.resolve_input(path)
        return self.root.resolve_any(path, home=self._home)

    def _reload(self, source: PolicySource) -> None:
        """Compile again if the files, the scripts they start or the approvals have changed.

        What is known is noted before anything is read: a change in between is seen the next time. If it fails, it is
        tried again at the next question.
        """
        now = source.stamp()
        if now != self._known:
            self.compiled = source.compile_again(self.compiled)
            self._known = now

    def _revalidate(self) -> None:
        """Compile again if a file of the policy has changed, or a path of it leads elsewhere now.

        If the latter fails it is tried again at the next question, so the error stands until the rule or the path is
        mended.
        """
        with self._alone:
            self._look_round()

    def _look_round(self) -> None:
        source = self._source
        if source is None:
            return
        started = monotonic()
        self._reload(source)
        # A thread that decides the first write adds places meanwhile.
        places, directories, machine = (
            list(self.compiled.places.items()),
            self.compiled.directories,
            self.compiled.machine,
        )
        moved = any(_moved(known, self.root.resolve_input(path)) for path, known in places)
        moved = moved or any(self._leads_elsewhere(path, known) for path, known in directories.items())
        if moved or (machine is not None and machine.changed()):
            self.compiled = source.compile_again(self.compiled)
        finished = monotonic()
        self._look_again = finished + max(REVALIDATE_AFTER, _SHARE * (finished - started))


def _plain(action: Mapping[str, Any]) -> object:
    """Return any mapping as the dictionary that `parse_action` reads; what is none, as it is."""
    return dict(action) if hasattr(action, "keys") and not isinstance(action, dict) else action


def _resolved_line(action: CommandAction, line: CommandLine, verdict: Verdict) -> ResolvedAction:
    """Return the verdict on a line, with what a person's yes to it would be for."""
    scripts: tuple[str, ...] = ()
    if verdict.decision is not DENY:
        from byleave.policy.script_files import scripts_of  # heavy: only commands need it

        scripts = scripts_of(line)
    wraps = any(part.wraps == "opaque" for part in line.parts)
    return ResolvedAction(action, (), verdict, tuple(_touched(line)), scripts, wraps)


def _touched(line: CommandLine) -> Iterator[str]:
    for part in line.parts:
        yield from part.directories or ("?",)
        yield from (each.place.canonical for each in part.files if isinstance(each.place, FsTarget))
    for redirection in line.redirections:
        place = redirection.place
        yield place.canonical if isinstance(place, FsTarget) else redirection.text


def _moved(known: FsTarget | RefusedPath, now: FsTarget | RefusedPath) -> bool:
    """Whether a rule's path leads elsewhere than when it was compiled."""
    if isinstance(known, FsTarget) and isinstance(now, FsTarget):
        outside = known.relative is None or now.relative is None
        return known.canonical != now.canonical or known.door != now.door or (outside and known.exists != now.exists)
    return known != now


_PART_OF_A_RULE = RuleRef("links that rules lead through", BUILT_IN, DENY)


def decide_entries(
    compiled: Compiled,
    root: Root,
    action: FileAction | MoveAction,
    places: tuple[Place, ...],
    verdict: Verdict,
) -> Verdict:
    """Return the verdict on a delete or a move, at least as strict as `verdict`, which is about the names alone."""
    paths = (action.path, action.to) if isinstance(action, MoveAction) else (action.path,)
    verdicts = [verdict]
    led = tuple(_outside(root, path, place) or place for path, place in zip(paths, places, strict=True))
    if led != places:
        verdicts.append(decide(compiled.policy, action, led))
    for path, place in zip(paths, places, strict=True):
        if _is_part_of_a_rule(compiled, root, place):
            verdicts.append(_refused(path, place, "a rule leads through this link, or through one in it"))
    source, target = places[0], places[-1]
    if isinstance(action, MoveAction) and _lays_a_link(compiled, root, source, target):
        verdicts.append(_refused(action.to, target, "a rule names this place, and would lead through the link"))
    return with_grants(compiled.policy, action, strictest(verdicts))


def _outside(root: Root, path: str, place: Place) -> Place | None:
    """Return where a link leads if that is out of the workspace, or to nowhere that is known; else None."""
    if not isinstance(place, FsTarget) or not place.link:
        return None
    led = root.resolve_input(path)
    if isinstance(led, RefusedPath):  # a link to itself, or to what is below a file, is a link that leads nowhere
        return led if led.code not in ("io", "not_a_directory") else None
    return led if led.relative is None else None


def _is_part_of_a_rule(compiled: Compiled, root: Root, place: Place) -> bool:
    """Whether a link is there, or below there, that the path of a rule goes through."""
    if not isinstance(place, FsTarget) or not (place.link or place.directory):
        return False
    return any(is_under(link, place.canonical) for path in _linked(compiled, root) for link in root.links_on(path))


def _linked(compiled: Compiled, root: Root) -> Iterator[str]:
    """Yield the paths of rules that lead elsewhere than they say."""
    for path, known in compiled.places.items():
        if not isinstance(known, FsTarget) or known.relative != collapse(path):
            yield path
    for path, canonical in compiled.directories.items():
        if canonical != os.path.normpath(os.path.join(root.path, path)):
            yield path


def _lays_a_link(compiled: Compiled, root: Root, source: Place, target: Place) -> bool:
    """Whether a move puts a link where the path of a rule goes through."""
    if not isinstance(source, FsTarget) or not isinstance(target, FsTarget):
        return False
    if not (source.link or source.directory):
        return False
    for place in _named_places(compiled, root):
        if is_under(place, target.canonical):
            moved = source.canonical + place[len(target.canonical) :]
            if source.link or any(is_under(link, source.canonical) for link in root.links_on(moved)):
                return True
    return False


def _named_places(compiled: Compiled, root: Root) -> Iterator[str]:
    """Yield the absolute paths that rules name, as they are written and where they lead."""
    for path, known in compiled.places.items():
        yield os.path.normpath(os.path.join(root.path, path))
        if isinstance(known, FsTarget):
            yield known.canonical
    for path, canonical in compiled.directories.items():
        yield os.path.normpath(os.path.join(root.path, path))
        if canonical is not None:
            yield canonical


def _refused(path: str, place: Place, why: str) -> Verdict:
    canonical = place.canonical if isinstance(place, FsTarget) else None
    return Verdict(
        DENY, f"moving or removing {quoted(path)} is denied: {why}", "denied", (_PART_OF_A_RULE,), None, canonical
    )
