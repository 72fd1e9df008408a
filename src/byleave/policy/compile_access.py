"""Compile the rules of one tool: check each against what its family can mean, resolve paths, build the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.command_rules import CommandRule, CommandTable, args_problem
from byleave.core.env_rules import EnvRule, EnvTable, name_problem
from byleave.core.fs_rules import CAPABILITIES, FsRule, FsTable, FsTarget, RefusedPath, fs_rule, is_under
from byleave.core.net_rules import NetRule, NetTable
from byleave.core.paths import collapse, is_absolute
from byleave.core.url import normal_host, prefix_segments
from byleave.policy.layers import SESSION
from byleave.policy.normalize import AT, LINE
from byleave.record import Record
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.policy.context import CompileContext
    from byleave.policy.layers import Layer, Problems
    from byleave.policy.normalize import Item

_SCHEME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")


class ExternalRule(Record):
    """A rule of a tool that leaves the workspace: whose it is, where it leads, and the layer that says so.

    `name` is the path as it is written. `rule.path` is the last link that leads out: the same, unless the written path
    leads there by another link. `rule.approved_target` is set where the user has agreed to all of these names,
    `unapproved` are those that the user has not agreed to. `target` is None where nothing is at the end of it.
    """

    tool: str
    rule: FsRule
    target: str | None
    layer: Layer
    name: str
    unapproved: tuple[str, ...] = ()


class AccessCompiler:
    """Turns merged entries into tables. Problems and warnings are collected, never raised one by one."""

    def __init__(
        self, context: CompileContext, layers: Sequence[Layer], problems: Problems, warnings: list[str]
    ) -> None:
        self._context = context
        self._layers = layers
        self._problems = problems
        self._warnings = warnings
        self.places: dict[str, FsTarget | RefusedPath] = {}
        self.externals: list[ExternalRule] = []

    def resolve(self, path: str) -> FsTarget | RefusedPath:
        """Return where a path of the workspace leads, and note that the policy rests on it."""
        place = self.places.get(path)
        if place is None:
            place = self.places[path] = self._context.root.resolve_rule(path)
        return place

    def fs(
        self, items: Sequence[Item], *, floor: tuple[FsRule, ...] = (), noted_for: str | None = None
    ) -> FsTable | None:
        """Return the table of the file rules, None if there are none; they stand on those of the `floor`.

        With `noted_for`, the rules that leave the workspace are noted as those of that tool.
        """
        written = [pair for item in items for pair in self._fs_rules(item, noted_for)]
        return FsTable([*floor, *in_order(written)]) if items else None

    def net(self, items: Sequence[Item]) -> NetTable | None:
        """Return the table of the network rules, None if there are none."""
        rules = [rule for item in items if (rule := self._net_rule(item)) is not None]
        return NetTable(rules) if items else None

    def env(self, items: Sequence[Item], *, floor: tuple[EnvRule, ...] = ()) -> EnvTable | None:
        """Return the table of the environment rules, None if there are none; they stand on those of the `floor`."""
        for item in items:
            if (problem := name_problem(item.tree["name"])) is not None:
                self._problem(item, "name", problem, 'name one variable, or a prefix such as "AWS_*"')
        rules = [_env_rule(item) for item in items]
        return EnvTable([*floor, *rules]) if items else None

    def commands(self, entries: Mapping[str, Mapping[str, Any]]) -> CommandTable:
        """Return the table of the command rules; an empty one lets nothing start."""
        return CommandTable([self._command_rule(program, entry) for program, entry in entries.items()])

    def _fs_rules(self, item: Item, noted_for: str | None) -> Iterator[tuple[str, FsRule]]:
        """Yield what an entry says, each time with the path as it is written."""
        path: str = item.tree["path"]
        place = self.resolve(path)
        if isinstance(place, RefusedPath):
            self._refused_path(item, path, place)
            return
        written = collapse(path) or ""
        if item.tree.get("external"):
            yield from self._external(item, written, place, noted_for)
        elif place.relative is None:
            hint = "grant a path inside, or write `external = true` and approve its target"
            self._problem(item, "path", f"the path {quoted(path)} leads outside the workspace", hint)
        else:
            rule = fs_rule(item.tree, path=place.relative, source=_source(item))
            yield written, rule if written == place.relative else rule.replace(written=(written,))

    def _external(
        self, item: Item, written: str, place: FsTarget, noted_for: str | None
    ) -> Iterator[tuple[str, FsRule]]:
        """Compile a rule that may leave the workspace: approved, or a deny at its place; never wider.

        A yes is a yes to one path and one target. A link that is turned to some other approved link has neither.
        """
        problem = self._external_problem(item, place)
        if problem is not None:
            self._problem(item, "path", *problem)
            return
        door = place.door or place.relative or written
        names = tuple(dict.fromkeys([written, door]))
        approvals = self._context.approvals
        unapproved = tuple(
            name for name in names if approvals is None or not approvals.approves_mount(name, place.canonical)
        )
        rule = fs_rule(item.tree, path=door, source=_source(item))
        if not place.exists:
            rule = self._dropped(rule, written, "its target does not exist here")
        elif unapproved:
            remedy = "; approve it with `byleave approvals approve`"
            rule = self._dropped(rule, written, "its target is not approved", remedy)
        else:
            rule = rule.replace(approved_target=place.canonical)
        if noted_for is not None:
            target = place.canonical if place.exists else None
            self.externals.append(ExternalRule(noted_for, rule, target, item.layer, written, unapproved))
        yield written, rule
        if rule.dropped is not None and written != door:
            yield written, rule.replace(path=written)

    def _external_problem(self, item: Item, place: FsTarget) -> tuple[str, str] | None:
        """Return what makes a rule no external one, and what to do about it."""
        path = item.tree["path"]
        if place.relative is not None and place.exists:
            hint = "remove `external`: it is for a link that leads out of the workspace"
            if item.layer.name == SESSION:
                hint = f"`byleave unmount {shown(path)}` takes the rule away; or put the link back"
            return f"external is set, but {quoted(path)} lies inside the workspace", hint
        reach = self._reaches_too_far(place.canonical) if place.exists else None
        if reach is not None:
            return f"{quoted(path)} leads to {reach}", "link to a directory that does not hold it"
        return None

    def _dropped(self, rule: FsRule, path: str, why: str, remedy: str = "") -> FsRule:
        self._warnings.append(f"{rule.source}: the external path {quoted(path)} grants nothing: {why}{remedy}")
        return rule.replace(dropped=f"the external path {shown(path)} grants nothing: {why}")

    def _reaches_too_far(self, target: str) -> str | None:
        if is_under(self._context.root.path, target):
            return "a directory that holds the workspace"
        for place in self._context.own_places(self._layers):
            if is_under(place, target) or is_under(target, place):
                return "byleave's own files"
        return None

    def _refused_path(self, item: Item, path: str, place: RefusedPath) -> None:
        hint = "write a path relative to the workspace root"
        root = self._context.root.path
        if is_absolute(path) and is_under(path, root):
            inside = path[len(root) :].strip("/") or "."
            hint = f"write the relative form: path = {quoted(inside)}"
        self._problem(item, "path", f"the path of a rule cannot be used: {place.problem}", hint)

    def _net_rule(self, item: Item) -> NetRule | None:
        tree = item.tree
        host = normal_host(tree["host"])
        if host is None:
            hint = "write one host name or address, without scheme, port, path or `*`"
            self._problem(item, "host", f"{quoted(tree['host'])} is no host", hint)
            return None
        allow = bool(tree.get("allow"))
        scheme, prefix = tree.get("scheme"), tree.get("path_prefix")
        if scheme is not None and not _is_scheme(scheme):
            self._problem(item, "scheme", f"{quoted(scheme)} is no scheme", 'write "https", without "://"')
            return None
        if prefix is not None and prefix_segments(prefix, allow=allow) is None:
            hint = 'write a plain path such as "/repos"'
            self._problem(item, "path_prefix", f"no URL can match the path_prefix {quoted(prefix)}", hint)
            return None
        if prefix and not prefix.startswith("/"):
            self._warnings.append(f"{_source(item)}: path_prefix {quoted(prefix)} is read as {quoted('/' + prefix)}")
        return NetRule(
            host=host,
            scheme=None if scheme is None else scheme.lower(),
            port=tree.get("port"),
            path_prefix=prefix,
            allow=allow,
            private=bool(tree.get("private")),
            source=_source(item),
        )

    def _command_rule(self, program: str, entry: Mapping[str, Any]) -> CommandRule:
        layer, at = entry["layer"], entry[AT]
        args = tuple(item.tree for item in entry["args"].items) if "args" in entry else None
        envs = tuple(item.tree for item in entry["envs"].items) if "envs" in entry else ()
        problem = args_problem(args) if args is not None else None
        if problem is not None:
            self._problems.add(layer, problem, hint='put "**" last, to allow anything after', at=(*at, "args"))
        if not program:
            self._problems.add(layer, "a command needs a name", hint="name the program", at=at)
        return CommandRule(program, args, envs, layer.source(entry[LINE]))

    def _problem(self, item: Item, key: str, problem: str, hint: str) -> None:
        at = item.tree[AT]
        # The older spelling has the value itself at that path, the newer one a table with the key in it.
        older = at[3 if at[0] == "conversation" else 2] == "sandbox"
        self._problems.add(item.layer, problem, hint=hint, at=at if older else (*at, key))


def in_order(written: Sequence[tuple[str, FsRule]]) -> list[FsRule]:
    """Return rules, each given with its path as written, so that of those for one place the last holds.

    A rule that came to its place by a link opens nothing there that a rule of the place itself closes, and gives no
    more than rules that lie above the place and not above the link: a directory may have become a link since. Outside
    of the workspace it gives no more than any other rule for the place: each link there was approved by itself.
    """
    if all(path == rule.path for path, rule in written):  # the usual case, also with 100,000 of them
        return [rule for _path, rule in written]
    direct = {rule.path: rule for path, rule in written if path == rule.path}
    ordered: list[FsRule] = []
    outside: dict[str, FsRule] = {}
    for path, rule in written:
        if path == rule.path:
            ordered.append(rule)  # also one that is replaced: it still names what it opened
            continue
        other = _in_the_way(direct, rule.path, path)
        closes = other is not None and not any(other.grants(name) for name in CAPABILITIES)
        held = rule if other is None else rule.narrowed_by(other)
        if rule.external:
            known = outside.get(rule.path)
            outside[rule.path] = held if known is None else held.narrowed_by(known)
        else:
            ordered.append(rule if other is not None and other.path == rule.path and not closes else held)
    return [*ordered, *outside.values()]


def _in_the_way(direct: Mapping[str, FsRule], place: str, written: str) -> FsRule | None:
    """Return the rule that holds at a place, unless it holds for the path as it is written as well."""
    above = place
    while above not in direct:
        if not above:
            return None
        above = above.rpartition("/")[0]
    return None if not above or is_under(written, above) else direct[above]


def _env_rule(item: Item) -> EnvRule:
    tree = item.tree
    return EnvRule(tree["name"], bool(tree.get("read")), bool(tree.get("substitute")), _source(item))


def _source(item: Item) -> str:
    source: str = item.layer.source(item.tree[LINE])
    return source


def _is_scheme(text: str) -> bool:
    return text[:1].isalpha() and text.isascii() and set(text.lower()) <= _SCHEME_LETTERS
