"""`policy lint`: everything that is worth knowing about a policy before it is used.

Each family of findings has a module: `lint_rules` (ordered rules), `lint_access` (what a tool may touch),
`lint_agents`, `lint_commands` (by trying command lines), `lint_grants`, `lint_disk`. Here they are put together.

Start at `lint`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.findings import Finding, in_order
from byleave.analysis.lint_access import lint_access
from byleave.analysis.lint_agents import lint_agents
from byleave.analysis.lint_commands import (
    KnownPrograms,
    agents_of,
    decide_with,
    decided_line,
    lint_commands,
    programs_in,
    try_corpus,
)
from byleave.analysis.lint_disk import lint_disk, look_at_disk
from byleave.analysis.lint_grants import lint_access_grants, lint_empty, lint_grants, lint_names, lint_servers
from byleave.analysis.lint_rules import lint_rules
from byleave.analysis.written_rules import WrittenRules
from byleave.core.access import SHELL_TOOL, Default
from byleave.core.rules import RuleTable
from byleave.core.suggest import SERVERS
from byleave.policy.live_policy import LivePolicy
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from byleave.analysis.lint_disk import DiskView
    from byleave.core.rules import CompiledRule
    from byleave.policy.load import Workspace

_MOST_TRIED = 200  # rules that are left out in turn, to see what the corpus says without them
_MOST_COMPARED = 300  # rules, where nothing is tried
_NOT_COUNTED = "not counted"
_MOST_PROGRAMS = 50_000  # names on the PATH
_SHELL_WORDS = frozenset(
    (  # noqa: SIM905 -- a list would take a line for each
        ". : [ alias bg bind builtin caller cd command declare dirs disown echo enable eval exec exit export false fc "
        "fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readonly return "
        "set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait"
    ).split()
)
_NOT_TRIED = "not tried"  # stands for a line that the rule decides


class Surroundings(Struct, frozen=True):
    """What lint knows of the machine: the disk, if it was looked at, the programs, the variables, the home.

    `tries`: command lines are tried. Without that only what is proven is found, in little time.
    """

    disk: DiskView | None
    programs: KnownPrograms
    environment: tuple[str, ...]
    home: str
    tries: bool = True


def surroundings(
    workspace: Workspace,
    policy: LivePolicy,
    *,
    disk: bool,
    tries: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Surroundings:
    """Return what lint has to know of this machine; with `disk`, after a walk through the workspace."""
    root = workspace.root.path
    view = look_at_disk(root, workspace.sensitive(policy.compiled), progress=progress) if disk else None
    own = policy.compiled.settings.get("programs", {})

    def is_described(name: str) -> bool:
        return name in BUILT_IN or name in own or name in _SHELL_WORDS

    def is_file(name: str) -> bool:
        return os.path.lexists(os.path.join(root, name))

    programs = KnownPrograms(is_described, _on_path(), is_file)
    return Surroundings(view, programs, tuple(sorted(os.environ)), workspace.homes.user, tries)


def _on_path() -> frozenset[str]:
    names: set[str] = set()
    for directory in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        try:
            names.update(os.listdir(directory or "."))
        except OSError:  # a directory that is not there
            continue
        if len(names) > _MOST_PROGRAMS:
            break
    return frozenset(names)


def lint(policy: LivePolicy, around: Surroundings) -> list[Finding]:
    """Return every finding about a policy, the gravest first."""
    return in_order(_findings(policy, around))


def _findings(policy: LivePolicy, around: Surroundings) -> Iterator[Finding]:
    compiled = policy.compiled
    view = compiled.policy.views[0]
    rules = () if view.rules is None else view.rules.rules
    files = _NOT_COUNTED if around.disk is None else around.disk.count
    written = WrittenRules(compiled.layers)
    agents = agents_of(rules)
    if rules:
        yield from _of_rules(policy, rules, written, agents) if around.tries else _proven(policy, rules, written)
        yield from lint_grants(rules, root=policy.root.path, home=around.home, files=files)
    for name, tool in view.tools.items():
        owner = owner_of(name)
        configured = compiled.tools.get(name)
        source = "built-in" if configured is None else configured.layer.source(configured.line)
        yield from lint_access(owner, tool.access, written)
        yield from lint_access_grants(
            owner, tool.access, files=files, environment=around.environment, default_source=source
        )
        if not isinstance(tool.access.commands, Default):
            for command in tool.access.commands.rules.values():
                found = around.programs.finding(command.program, f"{owner}: {command.text}", command.source)
                yield from () if found is None else (found,)
    for rule in rules:
        for name in dict.fromkeys(programs_in(rule.matcher)):
            found = around.programs.finding(name, rule.text, rule.source)
            yield from () if found is None else (found,)
    if view.agents is not None:
        yield from lint_agents(view.agents, written)
    yield from lint_names(compiled, rules, view.agents)
    yield from lint_servers(compiled)
    yield from lint_empty(compiled.layers)
    if around.disk is not None:
        yield from lint_disk(policy, around.disk, agents)


def owner_of(tool: str) -> str:
    """Return how the configuration calls what a tool's access belongs to."""
    if tool == SHELL_TOOL:
        return "shell"
    return f"servers.{shown(tool.removeprefix(SERVERS))}" if tool.startswith(SERVERS) else f"tools.{shown(tool)}"


def _of_rules(
    policy: LivePolicy, rules: Sequence[CompiledRule], written: WrittenRules, agents: Sequence[str | None]
) -> Iterator[Finding]:
    mode = policy.compiled.policy.shell
    decide = cache(decide_with(policy))
    trial = try_corpus(decide, agents, confines=mode is not None)
    tried = 0

    def decides(number: int) -> str | None:
        nonlocal tried
        named = trial.named.get((rules[number].text, rules[number].source), [])
        if tried >= _MOST_TRIED:
            return named[0] if named else None  # what was not tried counts as decided
        tried += 1
        without = decide_with(_without(policy, number))
        return decided_line(rules[number], trial, decide, without, agents)

    yield from lint_rules(rules, written, decides, confines=mode is not None)
    yield from lint_commands(rules, decide, trial, mode=mode)


def _proven(policy: LivePolicy, rules: Sequence[CompiledRule], written: WrittenRules) -> Iterator[Finding]:
    """Yield what needs no trial; of very many rules, nothing: each is compared with all before it."""
    if len(rules) <= _MOST_COMPARED:
        confines = policy.compiled.policy.shell is not None
        yield from lint_rules(rules, written, lambda _number: _NOT_TRIED, confines=confines)


def _without(policy: LivePolicy, number: int) -> LivePolicy:
    """Return the policy as it would be without one of its ordered rules."""
    first, *others = policy.compiled.policy.views
    rules = () if first.rules is None else first.rules.rules
    table = RuleTable((*rules[:number], *rules[number + 1 :]))
    left = policy.compiled.policy.replace(views=(first.replace(rules=table), *others), known=None)
    return LivePolicy(policy.compiled.replace(policy=left), policy.root)
