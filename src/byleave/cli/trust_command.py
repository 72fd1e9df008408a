"""`byleave trust` and `byleave untrust`: say that a project file, exactly as it is now, speaks for the user."""

import os

from byleave.cli.check_command import open_workspace
from byleave.cli.output import say, say_json
from byleave.cli.terminal import consents
from byleave.config.homes import LOCAL_FILE, PROJECT_FILES
from byleave.errors import InputError
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from byleave.api import Workspace
    from byleave.approvals.fingerprint import Fingerprint
    from byleave.cli.arguments import Given

REFUSED = 1


def run(given: "Given") -> int:
    """Trust or untrust the named file, or every project file there is."""
    workspace = open_workspace(given)
    names = _names(given, workspace)
    return _trust(given, workspace, names) if given.command.name == "trust" else _untrust(given, workspace, names)


def _trust(given: "Given", workspace: "Workspace", names: "list[str]") -> int:
    prints = []
    for name in names:
        content = workspace.files.read_project_file(name)
        layer = workspace.files.parse_project_file(name, content)
        print_ = workspace.print_of(name, content, layer.tree)
        prints.append(print_)
        if not given.flag("quiet") and not given.flag("json"):
            for line in _effects(name, layer.tree, print_):
                say(line)
    if not consents(given, f"Trust {' and '.join(shown(name) for name in names)} as it is now?"):
        say("nothing was changed")
        return REFUSED
    for print_ in prints:
        # What was shown is what is remembered: a file that changed meanwhile has another hash, and is not trusted.
        workspace.approvals.trust(print_, now=_now())
    return _done(given, "trusted", names)


def _untrust(given: "Given", workspace: "Workspace", names: "list[str]") -> int:
    if not consents(given, f"Stop trusting {' and '.join(shown(name) for name in names)}?"):
        say("nothing was changed")
        return REFUSED
    for name in names:
        workspace.approvals.untrust(name)
    return _done(given, "untrusted", names)


def _done(given: "Given", word: str, names: "list[str]") -> int:
    if given.flag("json"):
        say_json({word: names})
    elif not given.flag("quiet"):
        say(f"{word}: {', '.join(shown(name) for name in names)}")
    return 0


def _names(given: "Given", workspace: "Workspace") -> "list[str]":
    known = (*PROJECT_FILES, LOCAL_FILE)
    wanted = given.words.get("FILE")
    if wanted is None:
        found = [name for name in known if os.path.lexists(os.path.join(workspace.root.path, name))]
        if found:
            return found
        raise InputError("there is no project file here", hint="`byleave init` writes one")
    name = os.path.relpath(os.path.join(os.getcwd(), wanted), workspace.root.path)
    candidates = [candidate for candidate in (name, os.path.normpath(wanted)) if candidate in known]
    if not candidates:
        raise InputError(f"{quoted(wanted)} is no project file", hint=f"project files are {', '.join(known)}")
    return candidates[:1]


def _effects(name: str, tree: "dict[str, Any]", print_: "Fingerprint") -> "Iterator[str]":
    """Yield what would become active: commands, variables, grants, settings, scripts."""
    yield f"{shown(name)} (sha256 {print_.sha256[:16]}) would make active:"
    for tool_name, tool in tree["tools"].items():
        words = [f"tool {shown(tool_name)}"]
        words += [f"runs: {' '.join(shown(word) for word in tool['command'])}"] if tool.get("command") else []
        words += [f"run = {shown(str(tool['run']))}"] if "run" in tool else []
        yield f"  {'; '.join(words)}"
        yield from (f"    {line}" for line in _grants(tool.get("access", {})))
    for key, value in tree.items():
        if key != "tools":
            yield f"  setting {shown(key)} = {shown(str(value))}"
    for script, digest in print_.scripts:
        yield f"  script {shown(script)} (sha256 {digest[:16]}), trusted as it is now"


def _grants(access: "dict[str, Any]") -> "Iterator[str]":
    for family in ("fs", "net", "env"):
        for rule in access.get(family, {}).get("value", ()):
            fields = ", ".join(f"{key} = {shown(str(value))}" for key, value in rule.items() if not key.startswith("#"))
            yield f"{family}: {fields}"
    for program, entry in access.get("commands", {}).items():
        args = entry.get("args", {}).get("value")
        yield f"command {shown(program)}: {'any arguments' if args is None else shown(str(args))}"


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
