"""`byleave policy diff`: which actions two policies decide differently, and what else of them differs."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.policy_diff import diff_policies, diff_tree
from byleave.analysis.setting_changes import setting_changes, setting_tree
from byleave.cli.diff_text import diff_lines
from byleave.cli.output import say, say_json, say_verbose
from byleave.cli.workspace import open_workspace, working_directory
from byleave.core.redact import Redactor
from byleave.errors import ByleaveError, ConfigError, ConfigErrors, InputError
from byleave.policy.dirs import FOREIGN_FILES, PROJECT_FILES
from byleave.policy.layers import COMMAND_LINE, LARGEST_PROJECT_FILE, PROJECT, Layer, LayerFiles, read_given_file
from byleave.policy.parse import parse_file
from byleave.store.audit.query import Filter
from byleave.text import quoted, speakable
from byleave.workspace.git_revision import GitRevision
from byleave.workspace.resolve import Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.analysis.policy_diff import PolicyDiff
    from byleave.analysis.setting_changes import SettingChange
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.load import Workspace

CHANGED = 1
GIT = "git:"
_NAMES = (*FOREIGN_FILES, *PROJECT_FILES)
_MOST_DIRECTORIES = 500
_MOST_RECORDS = 20_000


class Comparison(Struct, frozen=True):
    """What differs between two policies."""

    diff: PolicyDiff
    settings: list[SettingChange]

    @property
    def loosens(self) -> bool:
        """Whether something is let through that was not, or may be."""
        return self.diff.loosened > 0 or any(change.loosens is not False for change in self.settings)


def run(given: ParsedArguments) -> int:
    """Compare two policies and show what changes."""
    workspace = open_workspace(given)
    old, new = (_named(given, word, usual) for word, usual in (("OLD", f"{GIT}HEAD"), ("NEW", workspace.root.path)))
    say_verbose(given, [f"the workspace is {workspace.root.path}", f"comparing {old} with {new}"])
    sides = [layers_of(name, workspace) for name in (old, new)]
    comparison = compare(workspace, *sides, commands=_recorded(workspace))
    if given.flag("json"):
        settings = [setting_tree(change) for change in comparison.settings]
        say_json(speakable({**diff_tree(comparison.diff), "settings": settings}))
    elif not given.flag("quiet"):
        for line in diff_lines(comparison.diff, comparison.settings):
            say(line)
    return CHANGED if _fails(given.one("fail_on"), comparison) else 0


def _named(given: ParsedArguments, word: str, usual: str) -> str:
    name = given.words.get(word)
    return usual if name is None else name


def _fails(fail_on: str | None, comparison: Comparison) -> bool:
    if fail_on == "any":
        return bool(comparison.diff.changes or comparison.settings)
    return fail_on == "loosened" and comparison.loosens


def compare(workspace: Workspace, old: list[Layer], new: list[Layer], *, commands: Iterable[str] = ()) -> Comparison:
    """Compare two lists of layers in a workspace, each as if the user trusted it and there were no other."""
    settings = setting_changes([layer.tree for layer in old], [layer.tree for layer in new])
    policies = [workspace.compile_alone(side) for side in (old, new)]
    return Comparison(
        diff_policies(*policies, commands=commands, directories=_directories(workspace.root.path)), settings
    )


def layers_of(name: str, workspace: Workspace) -> list[Layer]:
    """Return the layers of a side: a file, the project files of a directory, or those of a git revision."""
    if name.startswith(GIT):
        revision = GitRevision(workspace.root.path, name.removeprefix(GIT))
        contents = revision.read(_NAMES, limit=LARGEST_PROJECT_FILE)
        _refuse_both(contents, name)
        return [project_layer(workspace, file, content, label=f"{name}:{file}") for file, content in contents.items()]
    place = os.path.join(working_directory(), name)
    if os.path.isdir(place):
        contents = dict(_project_files(place, workspace))
        _refuse_both(contents, name)
        inside = os.path.realpath(place) == workspace.root.path
        prefix = "" if inside else f"{name.rstrip('/')}/"
        return [project_layer(workspace, file, content, label=f"{prefix}{file}") for file, content in contents.items()]
    if not os.path.lexists(place):
        raise InputError(f"there is no {quoted(name)}", hint="name a file, a directory, or a revision as git:HEAD")
    return [project_layer(workspace, PROJECT_FILES[0], read_given_file(name, place), label=name, given=True)]


def project_layer(
    workspace: Workspace, name: str, content: bytes, *, label: str | None = None, given: bool = False
) -> Layer:
    """Return a project file as a trusted layer; it counts as lying where such a file lies, wherever it was read."""
    shown_as = name if label is None else label
    path = os.path.join(workspace.root.path, name)
    return Layer(COMMAND_LINE if given else PROJECT, parse_file(content, shown_as), shown_as, content, True, path)


def _project_files(place: str, workspace: Workspace) -> Iterator[tuple[str, bytes]]:
    root = Root.at(place)
    files = LayerFiles(root, workspace.homes, workspace.memory, trust=None)
    for name in _NAMES:
        path = os.path.join(root.path, name)
        if os.path.lexists(path) and not os.path.isdir(path):
            yield name, files.read_project_file(name)


def _refuse_both(contents: dict[str, bytes], name: str) -> None:
    if all(file in contents for file in PROJECT_FILES):
        problem = f"{quoted(name)} has a byleave.toml and a .byleave/config.toml"
        raise ConfigErrors([ConfigError(problem, hint="keep one of the two")])


def _directories(root: str) -> list[str]:
    """Return directories of the workspace: what happens to all below them is decided, too."""
    walk = os.walk(root)
    found: list[str] = []
    for here, names, _files in walk:
        names[:] = sorted(name for name in names if not os.path.islink(os.path.join(here, name)))
        inner = os.path.relpath(here, root)
        found += [name if inner == "." else os.path.join(inner, name) for name in names]
        if len(found) >= _MOST_DIRECTORIES:
            break
    return found[:_MOST_DIRECTORIES]


def _recorded(workspace: Workspace) -> list[str]:
    """Return the command lines of the newest records; a log that cannot be read has none."""
    log = workspace.audit_log(None, Redactor())
    found: dict[str, None] = {}
    try:
        for kept in log.query(Filter(kind="command", event="decision", limit=_MOST_RECORDS)):
            command = kept.tree.get("action", {}).get("command")
            if isinstance(command, str):
                found[command] = None
    except ByleaveError:
        return []
    finally:
        log.close()
    return list(islice(found, 2_000))
