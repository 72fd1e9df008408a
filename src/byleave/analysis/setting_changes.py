"""What changes between two policies beside their rules: settings, servers, commands of tools, host paths, tokens.

No action shows these, but they can loosen as much as a rule does. Each is listed with its old and its new value, and
with what that means: it loosens, it does not, or that cannot be said of a value alone, as of another command to run.
Pure: the configuration trees of layers in, values out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# From the loosest value to the strictest; absent is what holds without it.
_ORDERS: dict[str, tuple[Any, ...]] = {
    "defaults.mode": ("observe", "enforce"),
    "defaults.os_sandbox": ("off", "auto", "require"),
    "defaults.deny_on_missing_agent": (False, True),
    "hooks.silent": ("agent", "ask"),
    "strict_links": (False, True),
    "shell.confine": ("off", "auto", "require"),
    "gateway.require_identity": (False, True),
    "gateway.pin_tools": (False, True),
    "gateway.new_tools": ("serve", "ask"),
    "gateway.approve": ("client", "person"),
}
_USUAL: dict[str, Any] = {
    "defaults.mode": "enforce",
    "defaults.os_sandbox": "auto",
    "defaults.deny_on_missing_agent": True,
    "hooks.silent": "ask",
    "strict_links": False,
    "shell.confine": "off",
    "gateway.require_identity": False,
    "gateway.pin_tools": True,
    "gateway.new_tools": "serve",
}
_OPENING = ("sandbox.read", "sandbox.write", "gateway.trusted_proxies")  # lists: what is added opens more
_CLOSING = ("sensitive_paths",)  # lists: what is removed closes less
_HARMLESS = ("description", "parameters", "format_arguments")
_COVERED = ("rules",)  # witnesses speak of them
_ABSENT = object()


class SettingChange(Struct, frozen=True):
    """One setting that differs; None as a value: it is not set. `loosens` is None where that cannot be said."""

    setting: str
    old: Any
    new: Any
    loosens: bool | None


def setting_changes(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[SettingChange]:
    """Return the settings that differ between the trees of two policies: what loosens, or may, first."""
    before, after = _flat(old), _flat(new)
    found = []
    for name in sorted({*before, *after}):
        was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if was != now:
            found.append(SettingChange(name, before.get(name), after.get(name), _loosens(name, was, now)))
    return sorted(found, key=lambda change: (change.loosens is False, change.setting))


def setting_tree(change: SettingChange) -> dict[str, Any]:
    """Return a change of a setting as JSON."""
    return {"setting": change.setting, "old": change.old, "new": change.new, "loosens": change.loosens}


def _flat(trees: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for tree in trees:
        if "shell" in tree and "confine" not in tree["shell"]:
            flat["shell.confine"] = "auto"
        for key, value in tree.items():
            if key not in _COVERED and not key.startswith("#"):
                flat |= _entries((key,), value)
    return flat


def _entries(at: tuple[str, ...], value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value below a table by its dotted name; the access of tools and agents is left to witnesses."""
    if isinstance(value, dict) and "strategy" in value and "value" in value:
        items = [item.get("name") if isinstance(item, dict) else item for item in value["value"]]
        yield ".".join(at), items if value["strategy"] in ("append", "prepend") else {value["strategy"]: items}
        return
    if not isinstance(value, dict):
        yield ".".join(at), value
        return
    for key, inner in value.items():
        if key.startswith("#") or _is_covered(at, key):
            continue
        yield from _entries((*at, key), inner)


def _is_covered(at: tuple[str, ...], key: str) -> bool:
    if key == "access" and at[0] in ("tools", "shell", "servers"):
        return True
    return at[0] == "agents" and len(at) == 3 and at[2] in ("allow", "deny") and key in ("servers", "tools")


def _loosens(name: str, was: Any, now: Any) -> bool | None:
    usual = _USUAL.get(name, _ABSENT)
    was, now = (usual if value is _ABSENT else value for value in (was, now))
    order = _ORDERS.get(name, ())
    if was in order and now in order:
        return order.index(now) < order.index(was)
    if name in (*_OPENING, *_CLOSING):
        before, after = (set(value) if isinstance(value, list) else set() for value in (was, now))
        return bool(after - before) if name in _OPENING else bool(before - after)
    return False if name.rpartition(".")[2] in _HARMLESS else None
