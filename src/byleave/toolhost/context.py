"""The policy as a tool receives it: the `Context` of one call, with every default written out.

A list that is left out, or empty, means to a `Context` that its type is unrestricted; so where something is closed, a
rule says so. What needs approval counts as closed. A rule for an external path that leads nowhere approved
goes out without a target: it grants nothing, and nothing shorter grants in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.access import Default
from byleave.core.decision import ALLOW, named_path
from byleave.core.fs_rules import CAPABILITIES, WRITES

if TYPE_CHECKING:
    from typing import Any

    from byleave.core.access import Access
    from byleave.core.command_rules import CommandTable
    from byleave.core.fs_rules import FsRule

RUN, FORMAT_ARGUMENTS = "run", "format_arguments"
_NO_HOST = {"host": "nowhere.invalid", "allow": False}  # RFC 2606: no host has such a name
_NO_VARIABLE = {"name": "*", "read": False}
_NO_PATH = {"path": ".", "external": False, "approved_target": None, **dict.fromkeys((*CAPABILITIES, "write"), False)}


def context_tree(root: str, action: str, access: Access | None) -> dict[str, Any]:
    """Return the context of a call. `access` is None where nothing but the tool's own checks holds it."""
    return {"root": root, "action": action, "access": None if access is None else access_tree(access)}


def access_tree(access: Access) -> dict[str, Any]:
    """Return an access policy as JSON."""
    fs, net, env, commands = access.fs, access.net, access.env, access.commands
    return {
        "fs": _default(fs, _NO_PATH) if isinstance(fs, Default) else [_fs(rule) for rule in fs.rules] or [_NO_PATH],
        "net": _default(net, _NO_HOST)
        if isinstance(net, Default)
        else [_net(rule) for rule in net.rules] or [_NO_HOST],
        "env": _default(env, _NO_VARIABLE)
        if isinstance(env, Default)
        else [_env(rule) for rule in env.rules] or [_NO_VARIABLE],
        "commands": _any_or_none(commands) if isinstance(commands, Default) else _commands(commands),
    }


def _default(default: Default, closed: dict[str, Any]) -> list[dict[str, Any]]:
    return [] if default.decision is ALLOW else [closed]


def _any_or_none(default: Default) -> dict[str, Any] | None:
    return None if default.decision is ALLOW else {}


def _fs(rule: FsRule) -> dict[str, Any]:
    given = {name: rule.grants(name) if rule.dropped is None else bool(getattr(rule, name)) for name in CAPABILITIES}
    return {
        **named_path("path", rule.path or "."),
        "external": rule.external,
        "approved_target": rule.approved_target if rule.dropped is None else None,
        **given,
        "write": all(given[name] for name in WRITES),
    }


def _net(rule: Any) -> dict[str, Any]:
    names = ("host", "scheme", "port", "path_prefix", "allow", "private")
    return {name: value for name in names if (value := getattr(rule, name)) is not None}


def _env(rule: Any) -> dict[str, Any]:
    return {"name": rule.name, "read": rule.read}


def _commands(table: CommandTable) -> dict[str, Any]:
    return {
        program: {} if rule.args is None else {"args": [list(words) for words in rule.args]}
        for program, rule in table.rules.items()
    }
