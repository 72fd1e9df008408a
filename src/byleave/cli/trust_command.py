"""`byleave trust` and `byleave untrust`: a project file, exactly as it is now, is in effect or not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.cli.output import fitted, say, say_json, say_verbose
from byleave.cli.terminal import consents, record_answers
from byleave.cli.workspace import open_workspace, working_directory
from byleave.core.suggest import toml_key, toml_string
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.policy.dirs import FOREIGN_FILES, LOCAL_FILE, PROJECT_FILES
from byleave.policy.servers import variables_in
from byleave.store.approvals import now
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace
    from byleave.store.approvals import Fingerprint

REFUSED = 1
_FAMILIES = ("fs", "net", "env")
_MOST_LINES = 20_000  # of two versions of a file; the time to compare them grows with their product


def run(given: ParsedArguments) -> int:
    """Trust or untrust the named file, or every project file there is."""
    workspace = open_workspace(given)
    say_verbose(given, [f"the workspace is {workspace.root.path}"])
    names = _names(given, workspace)
    if given.command.name == "untrust":
        return _untrust(given, workspace, names)
    trusted = _trust(given, workspace, names)
    return _done(given, "trusted", [], REFUSED) if trusted is None else _done(given, "trusted", trusted)


def trust_file(given: ParsedArguments, workspace: Workspace, name: str, *, sha256: str) -> bool:
    """Show what a project file would make active, ask, and trust it, if it still has this hash."""
    return bool(_trust(given, workspace, [name], only=sha256))


def _trust(
    given: ParsedArguments, workspace: Workspace, names: list[str], *, only: str | None = None
) -> list[str] | None:
    """Return the files that are trusted now and were not before, None if the user does not agree."""
    effects: list[str] = []
    prints = []
    for name in names:
        content = workspace.files.read_project_file(name)
        layer = workspace.files.parse_project_file(name, content)
        print_ = workspace.print_of(name, content, layer.tree)
        if only not in (None, print_.sha256):
            raise InputError(
                f"{quoted(name)} changed during the question", hint="look at `byleave approvals list` again"
            )
        if workspace.approvals.trusts(print_):
            effects.append(f"{shown(name)} is trusted already, as it is now")
            continue
        prints.append((print_, content))
        effects += _changes_of(workspace, name, content, print_) or effects_of(name, layer.tree, print_)
    _print_lines(given, effects)
    new = [print_.file for print_, _content in prints]
    if new and not consents(given, f"Trust {sentence_list(new)} as it is now?", about=effects):
        return None
    for print_, content in prints:
        # What was shown is what is remembered: a file that changed meanwhile has another hash, and is not trusted.
        workspace.approvals.trust(print_, now=now())
        workspace.trusted_texts.keep(print_.file, content)
    record_answers(given, workspace, [f"{print_.file} (sha256 {print_.sha256})" for print_, _content in prints])
    return new


def _changes_of(workspace: Workspace, name: str, content: bytes, print_: Fingerprint) -> list[str]:
    """Return what this version changes of the one that was trusted; nothing where that is not known.

    All lines that differ, so that the consent is to no less than before, and then what they mean for actions.
    """
    before = workspace.trusted_texts.text(name, workspace.approvals.trusted_hash(name))
    if before is None or before == content:
        return []
    from difflib import unified_diff

    from byleave.cli.diff_text import diff_lines
    from byleave.cli.policy_diff_command import compare, project_layer

    label = f"{name} (as trusted)"
    try:
        old, new = project_layer(workspace, name, before, label=label), project_layer(workspace, name, content)
        comparison = compare(workspace, [old], [new])
    except (
        ByleaveError,
        ConfigErrors,
    ):  # one of them cannot be used by itself: the whole file says more than the error
        return []
    prints = (print_.replace(scripts=()), print_)  # what scripts there are is said in any case
    was, now_is = (list(effects_of(name, one.tree, of))[1:] for one, of in zip((old, new), prints, strict=True))
    if len(was) + len(now_is) > _MOST_LINES:
        return []
    changed = [line for line in unified_diff(was, now_is, lineterm="", n=0) if not line.startswith("@@")][2:]
    heading = f"{shown(name)} (sha256 {print_.sha256[:16]}) was trusted before; this version changes:"
    lines = [line for line in diff_lines(comparison.diff, comparison.settings) if line]
    return [heading, *(f"  {line[0]} {line[1:].lstrip()}" for line in changed), "  which means:", *_indented(lines)]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _untrust(given: ParsedArguments, workspace: Workspace, names: list[str]) -> int:
    if not consents(given, f"Stop trusting {sentence_list(names)}?"):
        return _done(given, "untrusted", [], REFUSED)
    known = [name for name in names if workspace.approvals.untrust(name)]
    for name in known:
        workspace.trusted_texts.forget(name)
    record_answers(given, workspace, known)
    _print_lines(given, [f"{shown(name)} was not trusted" for name in names if name not in known])
    return _done(given, "untrusted", known)


def _print_lines(given: ParsedArguments, lines: list[str]) -> None:
    if not given.flag("quiet") and not given.flag("json"):
        for line in lines:
            say(fitted(line))


def _done(given: ParsedArguments, word: str, names: list[str], code: int = 0) -> int:
    if given.flag("json"):
        say_json({word: names})
    elif not given.flag("quiet"):
        say(f"{word}: {', '.join(shown(name) for name in names)}" if names else "nothing was changed")
    return code


def _names(given: ParsedArguments, workspace: Workspace) -> list[str]:
    known = (*PROJECT_FILES, LOCAL_FILE, *FOREIGN_FILES)
    named = given.words.get("FILE")
    if named is None:
        found = [name for name in known if os.path.lexists(os.path.join(workspace.root.path, name))]
        if found:
            return found
        problem = f"there is no project file in {quoted(workspace.root.path)}"
        raise InputError(problem, hint="`byleave init` writes one")
    name = os.path.normpath(named)
    if name not in known:
        name = os.path.relpath(os.path.join(working_directory(), named), workspace.root.path)
    if name not in known:
        raise InputError(f"{quoted(named)} is not a project file", hint=f"project files are {sentence_list(known)}")
    return [name]


def effects_of(name: str, tree: dict[str, Any], print_: Fingerprint) -> Iterator[str]:
    """Yield what would become active: commands, variables, grants, settings, scripts."""
    yield f"{shown(name)} (sha256 {print_.sha256[:16]}) makes active:"
    for tool_name, tool in tree.get("tools", {}).items():
        settings = {key: value for key, value in tool.items() if key != "access"}
        yield f"  {shown(f'[tools.{toml_key(tool_name)}]')} {_fields(settings)}".rstrip()
        yield from (f"    {line}" for line in _grants(tool.get("access", {})))
    rules = tree.get("rules", {})
    if rules.get("strategy", "prepend") != "prepend":
        yield f"  rules: the rules below {rules['strategy']} those of weaker layers"
    yield from (f"  rule: {_fields(rule)}" for rule in rules.get("value", ()))
    for server_name, server in tree.get("servers", {}).items():
        yield from (f"  {line}" for line in _server(server_name, server))
    for agent_name, agent in tree.get("agents", {}).items():
        yield from (f"  {line}" for line in _agent(agent_name, agent))
    if "shell" in tree:
        settings = {key: value for key, value in tree["shell"].items() if key != "access"}
        yield f"  [shell] {_fields(settings)}".rstrip()
        yield from (f"    {line}" for line in _grants(tree["shell"].get("access", {})))
    for key, value in tree.items():
        if key not in ("tools", "rules", "servers", "agents", "shell") and not key.startswith("#"):
            yield f"  {shown(toml_key(key))} = {_toml(value)}"
    for script, sha256 in print_.scripts:
        known = f"(sha256 {sha256[:16]}), as it is now" if sha256 else "(cannot be read whole, so it cannot be trusted)"
        yield f"  the script {quoted(script)} {known}"


def _server(name: str, server: dict[str, Any]) -> Iterator[str]:
    """Yield what a server is reached by, which of the user's variables go there, and what its process may touch."""
    settings = {key: value for key, value in server.items() if key not in ("access", "tools")}
    yield f"{shown(f'[servers.{toml_key(name)}]')} {_fields(settings)}".rstrip()
    texts = [*server.get("command", ()), server.get("url", ""), *server.get("env", {}).values()]
    used = variables_in([*texts, *server.get("headers", {}).values()])
    if used:
        yield f"  your variables: {sentence_list(used, most=50)}"
    yield from (f"  {line}" for line in _grants(server.get("access", {})))
    for tool, entry in server.get("tools", {}).items():
        yield from (f"  {shown(toml_key(tool))}: {line}" for line in _grants(entry.get("access", {})))


def _agent(name: str, agent: dict[str, Any]) -> Iterator[str]:
    settings = {key: value for key, value in agent.items() if key not in ("allow", "deny")}
    yield f"{shown(f'[agents.{toml_key(name)}]')} {_fields(settings)}".rstrip()
    for side in ("allow", "deny"):
        for key, value in agent.get(side, {}).items():
            tables = [(f"{side}.{key}", value)]
            if key != "servers":
                tables = [(f"{side}.{key}.{toml_key(server)}", names) for server, names in value.items()]
            for where, names in tables:
                how = "" if names["strategy"] == "append" else f" ({names['strategy']})"
                yield f"  {shown(where)}{how} = {_toml([entry['name'] for entry in names['value']])}"


def _grants(access: dict[str, Any]) -> Iterator[str]:
    for family in _FAMILIES:
        patch = access.get(family, {})
        if patch.get("strategy", "append") != "append":
            yield f"{family}: the rules below {patch['strategy']} those of weaker layers"
        yield from (f"{family}: {_fields(rule)}" for rule in patch.get("value", ()))
    for program, entry in access.get("commands", {}).items():
        fields = _fields({key: value["value"] if isinstance(value, dict) else value for key, value in entry.items()})
        yield f"commands: {shown(toml_key(program))} with {fields or 'any arguments'}"


def _fields(tree: dict[str, Any]) -> str:
    return ", ".join(
        f"{shown(toml_key(key))} = {_toml(value)}" for key, value in tree.items() if not key.startswith("#")
    )


def _toml(value: Any) -> str:
    """Write a value as the file does, so that a name cannot be passed off as a setting."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return shown(toml_string(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{_fields(value)}}}"
    return shown(str(value))
