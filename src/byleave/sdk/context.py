"""What a tool receives about its call: the root, the action, and what it may access.

The same resolver and the same tables as the host's. A check is a courtesy that gives good messages; the sandbox and the
host enforce the same policy without it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from byleave.core.access import COOPERATIVE, Access, with_defaults
from byleave.core.command_rules import CommandRule, CommandTable, args_problem
from byleave.core.decision import ALLOW
from byleave.core.env_rules import EnvRule, EnvTable, name_problem
from byleave.core.fs_rules import NO_FS_RULE, WRITES, FsRule, FsTable, FsTarget, RefusedPath, fs_rule, is_under
from byleave.core.net_rules import NetRule, NetTable
from byleave.core.paths import collapse, refuse_input
from byleave.core.protected import Protected, Protection, resolved_places
from byleave.errors import FsAccessError, InputError
from byleave.text import quoted, sentence_list, shown
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Mapping


_ACTIONS = ("run", "format_arguments")
_HINT = "pass on the context exactly as the host wrote it"


class Context:
    """One invocation of a tool. `access` is None where the tool is unrestricted inside the workspace."""

    def __init__(self, root: str, *, action: str = "run", access: Access | None = None) -> None:
        self.root = root
        self.action = action
        self.access = access
        self._root = Root.at(root)
        self._protected: Protected | None = None

    @classmethod
    def from_json(cls, text: str | bytes) -> Context:
        """Read the context as the host writes it; anything unexpected is an error, never a wider access."""
        try:
            tree = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise InputError("the context is not JSON", hint=_HINT) from None
        return cls.from_tree(tree)

    @classmethod
    def from_tree(cls, tree: object) -> Context:
        """Read the context from its JSON object."""
        if not isinstance(tree, dict) or not isinstance(tree.get("root"), str):
            raise InputError("the context has no root", hint=_HINT)
        action = tree.get("action", "run")
        if action not in _ACTIONS:
            raise InputError("the context has an unknown action", hint=f"it is {sentence_list(_ACTIONS)}")
        access = tree.get("access")
        return cls(tree["root"], action=action, access=None if access is None else _Reader(tree["root"]).access(access))

    def check_read(self, path: str) -> str:
        """Return the absolute path if the tool may read it; raise FsAccessError otherwise."""
        return self._check(path, "read")

    def check_create(self, path: str) -> str:
        """Return the absolute path if the tool may create it; raise FsAccessError otherwise."""
        return self._check(path, "create")

    def check_update(self, path: str) -> str:
        """Return the absolute path if the tool may change it; raise FsAccessError otherwise."""
        return self._check(path, "update")

    def check_delete(self, path: str) -> str:
        """Return the absolute path, of a link its own, if the tool may remove it; raise FsAccessError otherwise."""
        return self.check_entry(path, "delete").canonical

    def check_execute(self, path: str) -> str:
        """Return the absolute path if the tool may run it; raise FsAccessError otherwise."""
        return self._check(path, "execute")

    def check_entry(self, path: str, capability: str) -> FsTarget:
        """Return the place of a name that is removed, moved or replaced; raise FsAccessError if that may not be.

        A link at the end of the path is meant itself; one that leads out of the workspace also by where it leads.
        """
        place = self._checked(self._root.resolve_entry(path), path, capability)
        if place.link:
            led = self._root.resolve_input(path)
            nowhere = isinstance(led, RefusedPath) and led.code in ("io", "not_a_directory")
            if not nowhere and (isinstance(led, RefusedPath) or led.relative is None):
                self._checked(led, path, capability)
        return place

    def _check(self, path: str, capability: str) -> str:
        return self._checked(self._root.resolve_input(path), path, capability).canonical

    def _checked(self, place: FsTarget | RefusedPath, path: str, capability: str) -> FsTarget:
        if isinstance(place, RefusedPath):
            raise self._denial(place.code, path, capability, place.problem)
        access = self.access if self.access is not None else COOPERATIVE
        name = place.relative if place.relative is not None else place.door
        what = f"{capability} on {quoted((name if name is not None else path) or '.')}"
        tree = capability == "delete" and place.directory
        answer = access.decide_file(place, capability, below="delete" if tree else None)
        if answer.decision is not ALLOW:
            said = NO_FS_RULE.rule
            if answer.rule is not None:
                said = answer.rule.dropped or f"the rule `{answer.rule.text}` does not grant it"
            if answer.code == "escape":
                said = "it leads outside of what was approved"
            raise self._denial(answer.code, path, capability, f"{what} is denied: {said}")
        protection = self._protection(place, tree=tree) if capability in WRITES else None
        if protection is not None and (protection.final or not _names(answer.rule, protection)):
            said = f"{shown(protection.place)} is protected, and no rule names it"
            raise self._denial("denied", path, capability, f"{what} is denied: {said}")
        return place

    def _protection(self, place: FsTarget, *, tree: bool) -> Protection | None:
        if self._protected is None:
            self._protected = Protected(resolved_places(self._root.resolve_rule))
        return self._protected.of(place, subtree=tree)

    def _denial(self, code: str, path: str, capability: str, problem: str) -> FsAccessError:
        grants = (self.access if self.access is not None else COOPERATIVE).grants(capability)
        hint = f"{capability} is granted at {sentence_list(grants)}" if grants else f"no rule grants {capability}"
        return FsAccessError(problem, hint=hint, code=code, path=path, capability=capability, grants=grants)


def _names(rule: FsRule | None, protection: Protection) -> bool:
    return rule is not None and protection.named_by(rule.path)


class _Reader:
    """Reads the policy on the wire: a wrong type is refused, an external rule out of place grants nothing."""

    def __init__(self, root: str) -> None:
        self._root = Root.at(root).path

    def access(self, tree: object) -> Access:
        """Read the four types. An empty or absent list leaves its type unrestricted, as the seed says."""
        if not isinstance(tree, dict):
            raise InputError("access must be an object or null", hint=_HINT)
        fs, env = _rules(tree, "fs"), _rules(tree, "env")
        commands = tree.get("commands")
        return with_defaults(
            COOPERATIVE,
            fs=FsTable([self._fs(rule) for rule in fs]) if fs else None,
            net=_net(_rules(tree, "net")),
            env=EnvTable([_env(rule) for rule in env]) if env else None,
            commands=None if commands is None else _commands(commands),
        )

    def _fs(self, tree: Mapping[str, Any]) -> FsRule:
        path = _path(tree)
        for name in ("external", "read", "write", "create", "update", "delete", "execute"):
            _checked(tree, name, bool)
        rule = fs_rule(tree, path=path)
        if not rule.external:
            return rule
        target = _checked(tree, "approved_target", str)
        target = target and (target.rstrip("/") or "/")
        problem = self._target_problem(path, target)
        if problem is not None:
            return rule.replace(dropped=f"the external path {shown(path or '.')} {problem}")
        return rule.replace(approved_target=target)

    def _target_problem(self, path: str, target: str | None) -> str | None:
        """Return why an external rule grants nothing: the byleave host never writes one so."""
        if target is None:
            return "has no approved target"
        if not path:
            return "is the workspace itself"
        if target != f"/{collapse(target[1:])}":
            return "has an approved target that is no canonical path"
        return "has an approved target that holds the workspace" if is_under(self._root, target) else None


def _rules(tree: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rules = _checked(tree, name, list) or []
    if not all(isinstance(rule, dict) for rule in rules):
        raise InputError(f"access.{name} must be a list of rules", hint=_HINT)
    return rules


def _path(tree: Mapping[str, Any]) -> str:
    """Return the path of a file rule, collapsed; it has two spellings, and must not say two things."""
    paths = {_text(tree, name) for name in ("path", "lexical_path") if name in tree}
    if len(paths) != 1:
        raise InputError("a file rule of the context needs one path", hint=_HINT)
    (path,) = paths
    lexical = collapse(path) if refuse_input(path) is None else None
    if lexical is None:
        raise InputError(f"the rule path {quoted(path)} is not inside the workspace", hint=_HINT)
    return lexical


def _net(rules: list[dict[str, Any]]) -> NetTable | None:
    if not rules:
        return None

    try:
        return NetTable([_net_rule(rule) for rule in rules])
    except ValueError:
        raise InputError("a network rule of the context cannot be used", hint=_HINT) from None


def _net_rule(tree: Mapping[str, Any]) -> NetRule:
    scheme, port = _checked(tree, "scheme", str), _checked(tree, "port", int)
    if port is not None and not 0 < port < 65536:
        raise InputError(f"{port} is no port", hint=_HINT)
    return NetRule(
        host=_text(tree, "host"),
        scheme=None if scheme is None else scheme.lower(),
        port=port,
        path_prefix=_checked(tree, "path_prefix", str),
        allow=_checked(tree, "allow", bool) is True,
        private=_checked(tree, "private", bool) is True,
    )


def _env(tree: Mapping[str, Any]) -> EnvRule:
    name = _text(tree, "name")
    problem = name_problem(name)
    if problem is not None:
        raise InputError(problem, hint=_HINT)
    return EnvRule(name, _checked(tree, "read", bool) is True)


def _commands(tree: object) -> CommandTable:
    if not isinstance(tree, dict) or not all(isinstance(entry, dict) for entry in tree.values()):
        raise InputError("access.commands must be an object of objects", hint=_HINT)
    return CommandTable([CommandRule(program, _args(entry)) for program, entry in tree.items()])


def _args(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], ...] | None:
    """Return the argument lists of one program; None, and no list at all, mean any arguments."""
    lists = _checked(entry, "args", list)
    if lists is None:
        return None
    words = [word for given in lists for word in (given if isinstance(given, list) else [None])]
    if not all(isinstance(word, str) for word in words) or args_problem(lists) is not None:
        raise InputError("args must be lists of words in access.commands", hint=_HINT)
    return tuple(tuple(given) for given in lists)


def _text(tree: Mapping[str, Any], name: str) -> str:
    value = tree.get(name)
    if not isinstance(value, str):
        raise InputError(f"a rule of the context lacks its {name}", hint=_HINT)
    return value


def _checked(tree: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a value that may be absent or null; of another type than `kind`, it is refused."""
    value = tree.get(name)
    if value is not None and type(value) is not kind:  # not isinstance: `true` is no port
        raise InputError(f"{name} is not a {_KINDS[kind]} in the access of the context", hint=_HINT)
    return value


_KINDS = {bool: "boolean", int: "number", str: "text", list: "list"}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that says one thing twice: readers would disagree about it."""
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("duplicate key")
    return tree


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
