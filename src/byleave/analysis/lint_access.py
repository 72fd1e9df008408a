"""Rules of a tool's `access` that never decide, or that change nothing: files, network, environment, programs. Pure.

Each family has a precedence of its own, and the findings follow it exactly. Files: the longest path, of equal ones the
last. Network: the rule that names most parts, of equals the last. Environment: the exact name, else the longest prefix,
of equal ones the last. Programs: one entry each, with lists of arguments that are all allowed.

Start at `lint_access`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.findings import ERROR, NOTE, WARNING, Finding
from byleave.core.access import Default
from byleave.core.command_rules import ANYTHING
from byleave.core.decision import BUILT_IN
from byleave.core.fs_rules import CAPABILITIES, fold
from byleave.core.net_rules import NetTable
from byleave.core.url import DEFAULT_PORTS, Target, normal_host, prefix_segments
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from byleave.analysis.findings import WrittenPlace
    from byleave.analysis.written_rules import WrittenRules
    from byleave.core.access import Access
    from byleave.core.command_rules import CommandRule
    from byleave.core.env_rules import EnvRule
    from byleave.core.fs_rules import FsRule
    from byleave.core.net_rules import NetRule

    AnyRule = FsRule | NetRule | EnvRule

_MOST_OF_HOST = 8  # rules of one host up to which it is looked for those that change nothing
_MOST_LOOKED_AT = 300  # rules that may change nothing; more are not looked at
_GRANTING = (*CAPABILITIES, "write", "allow", "substitute")
_USUAL = {"fs": ("read", "write"), "net": ("allow",), "env": ("read",)}
_OTHER_SCHEME = "other"  # one that no rule names


class Overridden(Struct, frozen=True):
    """A rule that never decides, and the one that decides in its place."""

    rule: int
    by: int
    same: bool  # both match exactly the same


def lint_access(owner: str, access: Access, written: WrittenRules) -> Iterator[Finding]:
    """Yield what is wrong with the rules of one tool, which the findings call `owner`."""
    if not isinstance(access.fs, Default):
        rules = access.fs.rules
        yield from _lint_family(
            "fs", owner, rules, written, overridden=overridden_fs(rules), redundant=redundant_fs(rules)
        )
        yield from _alike_paths(owner, rules)
    if not isinstance(access.net, Default):
        nets = access.net.rules
        yield from _lint_family(
            "net", owner, nets, written, overridden=overridden_net(nets), redundant=redundant_net(nets)
        )
    if not isinstance(access.env, Default):
        envs = access.env.rules
        yield from _lint_family(
            "env", owner, envs, written, overridden=overridden_env(envs), redundant=redundant_env(envs)
        )
    if not isinstance(access.commands, Default):
        for command in access.commands.rules.values():
            yield from _lint_arguments(owner, command)


def _lint_family(
    family: str,
    owner: str,
    rules: Sequence[AnyRule],
    written: WrittenRules,
    *,
    overridden: Iterable[Overridden],
    redundant: Iterable[tuple[int, int | None]],
) -> Iterator[Finding]:
    places = [written.place(family, rule.source, _known_as(rule)) for rule in rules]
    for found in overridden:
        if rules[found.rule].source != BUILT_IN:
            yield _overridden(owner, rules, found, place=places[found.rule])
    for number, other in redundant:
        rule = rules[number]
        if rule.source == BUILT_IN:
            continue
        if other is None and not written.says(places[number], *_GRANTING):
            message = (
                "it grants nothing, and nothing above it grants anything either: a rule that gives access names it"
            )
            fix = f"add {' or '.join(f'{key} = true' for key in _USUAL[family])}, or remove it"
            yield Finding("empty_allow", WARNING, _text(owner, rule), rule.source, message, fix)
            continue
        same = "nothing grants it anyway" if other is None else f"{_named(rules[other])} says the same of it"
        message = f"without it every decision is the same: {same}"
        yield Finding("no_effect", NOTE, _text(owner, rule), rule.source, message, "remove it", places[number])


def _known_as(rule: AnyRule) -> str:
    name = getattr(rule, "name", None) or getattr(rule, "host", None)
    return str(name) if name is not None else str(getattr(rule, "path", "")) or "."


def _text(owner: str, rule: AnyRule) -> str:
    return f"{owner}: {rule.text}"


def _named(rule: AnyRule) -> str:
    return f"`{rule.text}` ({shown(rule.source)})"


def _overridden(owner: str, rules: Sequence[AnyRule], found: Overridden, *, place: WrittenPlace | None) -> Finding:
    rule, other = rules[found.rule], rules[found.by]
    same_file = rule.source.rpartition(":")[0] == other.source.rpartition(":")[0]
    if found.same and _grants(rule) == _grants(other):
        message = f"{_named(other)} says the same"
        return Finding("duplicate", NOTE, _text(owner, rule), rule.source, message, "remove one of the two", place)
    if found.same and same_file:
        message = f"{_named(other)} is about the same and says otherwise: that one counts"
        fix = "remove the one that is not meant"
        return Finding("contradicts", WARNING, _text(owner, rule), rule.source, message, fix)
    looser = not _grants(rule) >= _grants(other)
    severity = NOTE if found.same or _grants(rule) == _grants(other) else ERROR if looser else WARNING
    message = f"{_named(other)} always decides in its place, so this rule never decides anything"
    kept = place if severity == NOTE and same_file else None
    fix = "remove it" if severity == NOTE else "make it more specific than that one, or remove it"
    return Finding("shadowed", severity, _text(owner, rule), rule.source, message, fix, kept)


def _grants(rule: AnyRule) -> frozenset[str]:
    """Return what a rule gives, in words that are the same for all rules of its family."""
    keys = (*CAPABILITIES, "allow", "private", "substitute", "external", "approved_target")
    return frozenset(f"{key}={value}" for key in keys if (value := getattr(rule, key, None)))


def overridden_fs(rules: Sequence[FsRule]) -> list[Overridden]:
    """Return the file rules that never decide: of those for one path the last counts."""
    last = {rule.path: number for number, rule in enumerate(rules)}
    return [
        Overridden(number, last[rule.path], same=True)
        for number, rule in enumerate(rules)
        if last[rule.path] != number and not rule.external
    ]


def redundant_fs(rules: Sequence[FsRule]) -> list[tuple[int, int | None]]:
    """Return the file rules that say what the rule above them says, with that rule; None stands for no rule at all."""
    last = {rule.path: number for number, rule in enumerate(rules)}
    written = Counter(rule.path for rule in rules)
    folded: dict[str, set[str]] = {}
    for path in last:
        folded.setdefault(fold(path), set()).add(path)
    found: list[tuple[int, int | None]] = []
    for path, number in last.items():
        rule = rules[number]
        if not path or not _is_plain(rule) or len(folded[fold(path)]) > 1 or written[path] > 1:
            continue
        above = _above(path, last)
        other = None if above is None else rules[last[above]]
        if other is not None and not _is_plain(other):
            continue
        alike = all(rule.grants(name) == (other is not None and other.grants(name)) for name in CAPABILITIES)
        if alike and not _differs_in_spelling(path, folded):
            found.append((number, None if above is None else last[above]))
    return found


def _is_plain(rule: FsRule) -> bool:
    return not rule.external and rule.dropped is None and not rule.written


def _above(path: str, known: dict[str, int]) -> str | None:
    """Return the nearest path above that has a rule."""
    while path:
        path = path.rpartition("/")[0]
        if path in known:
            return path
    return None


def _differs_in_spelling(path: str, folded: dict[str, set[str]]) -> bool:
    """Whether a rule above is for the same place but for case or normal form: its deny may hold, then."""
    while path:
        path = path.rpartition("/")[0]
        if folded.get(fold(path), set()) - {path}:
            return True
    return False


def _alike_paths(owner: str, rules: Sequence[FsRule]) -> Iterator[Finding]:
    """Yield rules for paths that many disks take for one, and that say different things."""
    last = {rule.path: rule for rule in rules}
    by_fold: dict[str, FsRule] = {}
    for rule in last.values():
        other = by_fold.setdefault(fold(rule.path), rule)
        if other is not rule and _grants(other) != _grants(rule):
            message = (
                f"{_named(other)} differs from it only in case or in the form of its letters, and says otherwise; "
                "many disks take the two for one place"
            )
            yield Finding("case_collision", WARNING, _text(owner, rule), rule.source, message, "keep one spelling")


def overridden_net(rules: Sequence[NetRule]) -> list[Overridden]:
    """Return the network rules that never decide, whatever the scheme, the port and the path of a URL are."""
    numbers = {id(rule): number for number, rule in enumerate(rules)}
    found = []
    for group in _by_host(rules).values():
        table = NetTable(group)
        last = {(_key(rule)): rule for rule in group}
        for rule in group:
            winners = [table.match(target) for target in _targets(rule, group)]
            if any(winner is rule for winner in winners):
                continue
            other = last[_key(rule)]
            winner = other if other is not rule else next((each for each in winners if each is not None), rule)
            if winner is not rule:
                found.append(Overridden(numbers[id(rule)], numbers[id(winner)], same=winner is other))
    return found


def redundant_net(rules: Sequence[NetRule]) -> list[tuple[int, int | None]]:
    """Return network rules without which every decision is the same, each with the rule that then decides.

    At most one of each host: of two that stand for each other, one has to stay. Hosts with many rules are passed over.
    """
    numbers = {id(rule): number for number, rule in enumerate(rules)}
    found: list[tuple[int, int | None]] = []
    looked = 0
    for group in _by_host(rules).values() if len(rules) > 1 else ():  # without any rule, the tool's default holds
        if len(group) > _MOST_OF_HOST:
            continue
        table = NetTable(group)
        dead = {each.rule for each in overridden_net(group)}
        for number, rule in enumerate(group):
            without = NetTable([each for each in group if each is not rule])
            own = list(_targets(rule, group))
            if number in dead or any(_said(table, target) != _said(without, target) for target in own):
                continue
            looked += 1
            if looked > _MOST_LOOKED_AT:
                return found
            if all(_said(table, target) == _said(without, target) for target in _all_targets(group)):
                then = next((winner for target in own if (winner := without.match(target)) is not None), None)
                found.append((numbers[id(rule)], None if then is None else numbers[id(then)]))
                break
    return found


def _all_targets(group: Sequence[NetRule]) -> Iterator[Target]:
    """Yield a place for every way in which the rules of a host can treat any URL, whatever it is read as."""
    paths = list(dict.fromkeys(_key(rule)[1] for rule in group))
    ports = {rule.port for rule in group if rule.port is not None}
    host = normal_host(group[0].host) or group[0].host
    named = {rule.scheme.lower() for rule in group if rule.scheme is not None}
    for scheme in sorted({*named, *DEFAULT_PORTS, _OTHER_SCHEME}):
        for port in {DEFAULT_PORTS.get(scheme), *ports}:
            for path in paths:
                yield Target(scheme, host, port, False, path, path, tainted=True)
                yield from (Target(scheme, host, port, False, path, other) for other in paths)


def _said(table: NetTable, target: Target) -> tuple[bool, bool]:
    rule = table.match(target)
    return (rule is not None and rule.allow, rule is not None and rule.allow and rule.private)


def _by_host(rules: Sequence[NetRule]) -> dict[str, list[NetRule]]:
    hosts: dict[str, list[NetRule]] = {}
    for rule in rules:
        hosts.setdefault(normal_host(rule.host) or rule.host, []).append(rule)
    return hosts


def _key(rule: NetRule) -> tuple[tuple[str | None, int | None], tuple[str, ...]]:
    scheme = None if rule.scheme is None else rule.scheme.lower()
    return (scheme, rule.port), prefix_segments(rule.path_prefix or "", allow=rule.allow) or ()


def _targets(rule: NetRule, group: Sequence[NetRule]) -> Iterator[Target]:
    """Yield a place for every way in which the rules of a host can treat what one of them matches.

    A path as long as the rule's own has the fewest rivals. A path that servers may read in several ways is decided by
    the rules that deny and by those without a path.
    """
    (scheme, port), path = _key(rule)
    named = {each.scheme.lower() for each in group if each.scheme is not None}
    host = normal_host(rule.host) or rule.host
    for tried in (scheme,) if scheme is not None else sorted({*named, *DEFAULT_PORTS, _OTHER_SCHEME}):
        number = port if port is not None else DEFAULT_PORTS.get(tried)
        yield Target(tried, host, number, False, path, path)
        if not (rule.allow and path):
            yield Target(tried, host, number, False, path, path, tainted=True)


def overridden_env(rules: Sequence[EnvRule]) -> list[Overridden]:
    """Return the environment rules that never decide: of those for one name the last counts."""
    last = {rule.name: number for number, rule in enumerate(rules)}
    return [
        Overridden(number, last[rule.name], same=True) for number, rule in enumerate(rules) if last[rule.name] != number
    ]


def redundant_env(rules: Sequence[EnvRule]) -> list[tuple[int, int | None]]:
    """Return the environment rules that say what the next shorter prefix says; None stands for no rule at all."""
    last = {rule.name: number for number, rule in enumerate(rules)}
    written = Counter(rule.name for rule in rules)
    found: list[tuple[int, int | None]] = []
    for name, number in last.items():
        rule = rules[number]
        literal = name.removesuffix("*")
        lengths = range(len(literal) - (name != literal), -1, -1)
        other = next((last[prefix] for length in lengths if (prefix := f"{literal[:length]}*") in last), None)
        given = (False, False) if other is None else (rules[other].read, rules[other].substitute)
        if given == (rule.read, rule.substitute) and len(last) > 1 and written[name] == 1:
            found.append((number, other))
    return found


def _lint_arguments(owner: str, rule: CommandRule) -> Iterator[Finding]:
    """Yield the argument lists of a program that another of its lists allows already."""
    if rule.args is None:
        return
    prefixes = {words[:-1] for words in rule.args if words[-1:] == (ANYTHING,)}
    seen: set[tuple[str, ...]] = set()
    text = f"{owner}: {rule.text}"
    for words in rule.args:
        said = " ".join(shown(word) for word in words) or "(none)"
        kept = words[:-1] if words[-1:] == (ANYTHING,) else words
        longest = len(kept) if kept is words else len(kept) - 1
        wider = next((prefix for length in range(longest + 1) if (prefix := kept[:length]) in prefixes), None)
        if words in seen:
            message = f"its args list {said} twice"
            yield Finding("duplicate", NOTE, text, rule.source, message, "remove one of the two")
        elif wider is not None:
            covering = " ".join([*(shown(word) for word in wider), ANYTHING])
            message = f"its args {covering} allow {said} already"
            yield Finding("shadowed", NOTE, text, rule.source, message, f"remove {said}")
        seen.add(words)
