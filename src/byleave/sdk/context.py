"""What a tool is told about its work: the root, the action, and what it may touch.

The same resolver and the same tables as the host's. A check is a courtesy that gives good messages; the sandbox and the
host enforce the same policy without it.
"""

from byleave.core.access import COOPERATIVE, Access, with_defaults
from byleave.core.commands import CommandRule, CommandTable
from byleave.core.env import EnvRule, EnvTable
from byleave.core.fs import WRITES, FsRule, FsTable, FsTarget, Refused, fs_rule
from byleave.core.paths import collapse, refuse_input
from byleave.core.protected import Protected, Protection, resolved_places
from byleave.core.verdict import ALLOW
from byleave.errors import FsAccessError, InputError
from byleave.text import quoted, sentence_list
from byleave.workspace.resolve import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.core.net import NetTable

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
    def from_json(cls, text: str | bytes) -> "Context":
        """Read the context as the host writes it; anything unexpected is an error, never a wider access."""
        import json

        try:
            tree = json.loads(text, object_pairs_hook=_no_duplicates)
        except (ValueError, RecursionError):
            raise InputError("the context is not JSON", hint=_HINT) from None
        return cls.from_tree(tree)

    @classmethod
    def from_tree(cls, tree: object) -> "Context":
        """Read the context from its JSON object."""
        if not isinstance(tree, dict) or not isinstance(tree.get("root"), str):
            raise InputError("the context has no root", hint=_HINT)
        action = tree.get("action", "run")
        if action not in _ACTIONS:
            raise InputError("the context has an unknown action", hint=f"it is {sentence_list(_ACTIONS)}")
        access = tree.get("access")
        return cls(tree["root"], action=action, access=None if access is None else _access(access))

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
        """Return the absolute path if the tool may remove it; raise FsAccessError otherwise."""
        return self._check(path, "delete")

    def check_execute(self, path: str) -> str:
        """Return the absolute path if the tool may run it; raise FsAccessError otherwise."""
        return self._check(path, "execute")

    def _check(self, path: str, capability: str) -> str:
        place = self._root.resolve_input(path)
        if isinstance(place, Refused):
            raise self._denial(place.code, path, capability, place.problem)
        access = self.access if self.access is not None else COOPERATIVE
        tree = capability == "delete" and place.directory
        answer = access.judge_file(place, capability, tree=tree)
        if answer.decision is not ALLOW:
            said = f": {answer.rule.text}" if answer.rule is not None else ""
            raise self._denial(answer.code, path, capability, f"{capability} on {quoted(path)} is denied{said}")
        protection = self._protection(place, tree=tree) if capability in WRITES else None
        if protection is not None and (protection.final or not _names(answer.rule, protection)):
            raise self._denial("denied", path, capability, f"{quoted(protection.place)} is a protected place")
        return place.canonical

    def _protection(self, place: FsTarget, *, tree: bool) -> Protection | None:
        if self._protected is None:
            self._protected = Protected(resolved_places(self._root.resolve_rule))
        return self._protected.of(place, subtree=tree)

    def _denial(self, code: str, path: str, capability: str, problem: str) -> FsAccessError:
        table = self.access.fs if self.access is not None else None
        grants = table.grants(capability) if isinstance(table, FsTable) else ()
        hint = f"{capability} is granted at {sentence_list(grants)}" if grants else f"no rule grants {capability}"
        return FsAccessError(problem, hint=hint, code=code, path=path, capability=capability, grants=grants)


def _names(rule: FsRule | None, protection: Protection) -> bool:
    return rule is not None and protection.named_by(rule.path)


def _access(tree: object) -> Access:
    """Read the policy on the wire. An empty or absent list leaves its type unrestricted, as the seed says."""
    if not isinstance(tree, dict):
        raise InputError("access must be an object or null", hint=_HINT)
    fs, env = _rules(tree, "fs"), _rules(tree, "env")
    commands = tree.get("commands")
    return with_defaults(
        COOPERATIVE,
        fs=FsTable([_fs(rule) for rule in fs]) if fs else None,
        net=_net(_rules(tree, "net")),
        env=EnvTable([EnvRule(_text(rule, "name"), rule.get("read") is True) for rule in env]) if env else None,
        commands=None if commands is None else _commands(commands),
    )


def _rules(tree: "Mapping[str, Any]", name: str) -> "list[dict[str, Any]]":
    rules = tree.get(name)
    if rules is None:
        return []
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InputError(f"access.{name} must be a list of rules", hint=_HINT)
    return rules


def _fs(tree: "Mapping[str, Any]") -> FsRule:
    path = _text(tree, "lexical_path" if "path" not in tree else "path")
    lexical = collapse(path) if refuse_input(path) is None else None
    if lexical is None:
        raise InputError(f"the rule path {quoted(path)} is not inside the workspace", hint=_HINT)
    for name, value in tree.items():
        if name in _FLAGS and not isinstance(value, bool | None):
            raise InputError(f"{name} must be true or false in the rule for {quoted(path)}", hint=_HINT)
    rule = fs_rule(tree, path=lexical)
    if not rule.external:
        return rule
    target = tree.get("approved_target")
    if not isinstance(target, str) or not target.startswith("/"):
        dropped: FsRule = rule.replace(dropped=f"the external path {lexical} has no approved target")
        return dropped
    approved: FsRule = rule.replace(approved_target=target.rstrip("/") or "/")
    return approved


_FLAGS = frozenset({"external", "read", "write", "create", "update", "delete", "execute"})


def _net(rules: "list[dict[str, Any]]") -> "NetTable | None":
    if not rules:
        return None
    from byleave.core.net import NetRule, NetTable

    names = ("host", "scheme", "port", "path_prefix", "allow", "private")
    try:
        return NetTable(
            [NetRule(**{name: rule[name] for name in names if rule.get(name) is not None}) for rule in rules]
        )
    except (TypeError, ValueError, AttributeError):
        raise InputError("a network rule of the context cannot be used", hint=_HINT) from None


def _commands(tree: object) -> CommandTable:
    if not isinstance(tree, dict):
        raise InputError("access.commands must be an object", hint=_HINT)
    rules = []
    for program, entry in tree.items():
        args = entry.get("args") if isinstance(entry, dict) else ()
        rules.append(CommandRule(program, None if args is None else tuple(tuple(words) for words in args)))
    return CommandTable(rules)


def _text(tree: "Mapping[str, Any]", name: str) -> str:
    value = tree.get(name)
    if not isinstance(value, str):
        raise InputError(f"a rule of the context lacks its {name}", hint=_HINT)
    return value


def _no_duplicates(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    """Refuse an object that says one thing twice: readers would disagree about it."""
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("duplicate key")
    return tree
