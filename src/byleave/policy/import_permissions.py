"""Turn the permissions of an agent into the text of a configuration file, and say what is not carried over.

The denies stand first, then the asks, then the allows, so that the text never allows what the agent asks about or
denies. How single permissions become rules: `agent_permissions`. The formats that are no lists of an agent:
`import_gateway` and `import_jp`. What the text looks like: `imported_text`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.policy.agent_permissions import AgentPermissions, LostPermission, permissions_of
from byleave.policy.agent_settings import LOCAL, MANAGED, USER, SettingsSource, settings_sources
from byleave.policy.dirs import real_path
from byleave.policy.import_gateway import import_gateway
from byleave.policy.import_jp import import_jp
from byleave.policy.imported_text import ImportedPermissions, imported_rules
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

GATEWAY, JP = "agent-mcp-gateway", "jp"
_LARGEST_INDEX = 64 << 20  # bytes
_PLAIN_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")  # of an index that spells every name out
_AT_HOME = {
    GATEWAY: (".config/agent-mcp-gateway/.mcp-gateway-rules.json", ".config/agent-mcp-gateway/.mcp.json"),
    JP: (".config/jp/config.toml", ".config/jp/config.json"),
}
_IN_PROJECT = {GATEWAY: (".mcp-gateway-rules.json", ".mcp.json"), JP: (".jp/config.toml", ".jp.toml", "jp.toml")}


def import_permissions(agent: str, home: str, root: str) -> ImportedPermissions:
    """Return what the user has said to an agent: in all projects, and the allows that hold in this one.

    What the machine's own files say comes with it, since they may deny what the user allows. What the project's own
    files deny or ask is left out: it holds in the project, where the agent's hook reads it. A personal file that may
    have come with the project is left out, too.
    """
    if agent in _AT_HOME:
        return _of_user(agent, home, root)
    sources = settings_sources(agent, home, root, further=True)
    of_user = permissions_of(agent, [each for each in sources if each.scope in (USER, MANAGED)], root)
    personal = [each for each in sources if each.scope == LOCAL and os.path.lexists(each.path)]
    of_project = permissions_of(agent, [each for each in personal if _is_untracked(root, each.path)], root)
    strange = [
        LostPermission(each.path, "", "it may have come with the project: name the file to import it")
        for each in personal
        if not _is_untracked(root, each.path)
    ]
    found = AgentPermissions(
        (*of_user.rules, *[rule for rule in of_project.rules if rule.outcome == "allow"]),
        (*of_user.unreadable, *of_project.unreadable),
        (*of_user.lost, *of_project.lost, *strange),
    )
    return imported_rules(found)


def _of_user(agent: str, home: str, root: str) -> ImportedPermissions:
    files = [os.path.join(home, name) for name in _AT_HOME[agent]]
    found = import_files(agent, [file for file in files if os.path.lexists(file)], root)
    beside = [path for name in _IN_PROJECT[agent] if os.path.lexists(path := os.path.join(root, name))]
    why = "it came with the project: name the file to import it"
    if agent == GATEWAY:
        why = "byleave reads it where it is, once you trust it; name the file to import it"
    lost = [LostPermission(shown(path), "", why) for path in beside]
    return ImportedPermissions(found.toml, found.carried, (*found.lost, *lost), found.unreadable, found.summaries)


def import_files(agent: str, files: Sequence[str], root: str) -> ImportedPermissions:
    """Return what these files say, as if they were the user's own."""
    paths = [os.path.abspath(file) for file in files]
    if agent == GATEWAY:
        return import_gateway(paths)
    if agent == JP:
        return import_jp(paths)
    return imported_rules(permissions_of(agent, [_named(path, root) for path in paths], root))


def _named(path: str, root: str) -> SettingsSource:
    """What lies in the workspace holds in the workspace."""
    directory = os.path.dirname(path)
    start = os.path.dirname(directory) if directory.endswith("/.claude") else directory
    return SettingsSource(LOCAL if is_under(real_path(path), root) else USER, path, start, root)


def _is_untracked(root: str, path: str) -> bool:
    """Whether a file of the workspace is known not to have come with it: a plain index of git does not name it."""
    try:
        with open(os.path.join(root, ".git", "index"), "rb") as file:
            index = file.read(_LARGEST_INDEX + 1)
        shared = any(name.startswith("sharedindex.") for name in os.listdir(os.path.join(root, ".git")))
    except OSError:
        return False
    spelled = index[:4] == b"DIRC" and index[4:8] in _PLAIN_VERSIONS and len(index) <= _LARGEST_INDEX and not shared
    return spelled and os.fsencode(os.path.relpath(path, root)) not in index
