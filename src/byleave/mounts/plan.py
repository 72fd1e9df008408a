"""What a mount would do: where its link stands, what it leads to, who gets which rules. Changes nothing.

Several mounts are planned one after the other, each as if the ones before it were done, so that all of them are known
to be good before the first is.

No mount, of whichever command, may reach byleave's own files, hook settings, or the workspace itself.

Start at `plan_mounts`. How a plan is carried out: `apply`.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.fs_rules import CAPABILITIES, FsTarget, RefusedPath, fold, fs_rule, is_under
from byleave.core.paths import collapse, refuse_name
from byleave.errors import ByleaveError, ConfigErrors, MountError
from byleave.mounts.session_layer import fs_rules, read_session, with_fs_rules, with_session
from byleave.mounts.spec import READ_WRITE, name_inside, named_rule, parse_spec, rule_path_of
from byleave.policy.dirs import real_path
from byleave.policy.layers import ENCLOSING
from byleave.policy.normalize import LEGACY
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.mounts.session_layer import SessionFile
    from byleave.mounts.spec import MountSpec
    from byleave.policy.compile import Compiled, CompiledTool
    from byleave.policy.layers import Layer
    from byleave.policy.load import Workspace
    from byleave.workspace.resolve import Root

    Rule = dict[str, Any]


_OF_THE_KERNEL = ("/proc", "/sys", "/dev")  # processes, settings and devices of the machine
_FOREIGN_STORAGE = (".jp",)  # of the program that the rules come from


def refuse_target(workspace: Workspace, compiled: Compiled, path: str, target: str, *, writes: bool) -> None:
    """Refuse a target that is in the workspace, holds it, or reaches what steers byleave and the agents."""
    root = workspace.root
    if root.relative(target) is not None:
        hint = "what lies in the workspace needs no mount: write a rule for its path"
        raise MountError(f"{quoted(path)} lies in the workspace", hint=hint, code="inside_workspace")
    if is_under(root.path, target):
        hint = "mount something that does not hold the workspace"
        raise MountError(f"{quoted(path)} contains the workspace", hint=hint, code="contains_workspace")
    kernel = next((place for place in _OF_THE_KERNEL if is_under(target, place)), None)
    if kernel is not None:
        hint = "a sandbox has its own: mount ordinary files and directories"
        raise MountError(f"{quoted(path)} lies in {kernel}, which is the kernel's", hint=hint, code="managed_storage")
    files = [real_path(layer.path) for layer in compiled.layers if layer.path]
    foreign = [place for place in _foreign_names(root) if place.startswith("/")]
    for place in (*workspace.homes.own_places(root.path), *files, *foreign):
        if is_under(place, target) or is_under(target, place):
            raise _managed(path, place)
    protection = compiled.policy.protected.of(
        FsTarget(target, None, directory=os.path.isdir(target)), subtree=os.path.isdir(target)
    )
    if writes and protection is not None and protection.final:
        raise _managed(path, protection.path)


def refuse_mount_name(workspace: Workspace, compiled: Compiled, name: str, path: str) -> None:
    """Refuse names at, under and above what steers byleave and the agents: a mount would exchange all of it."""
    root = workspace.root
    protection = compiled.policy.protected.of(FsTarget(os.path.join(root.path, path), path), subtree=True)
    folded = fold(path)
    foreign = any(is_under(folded, place) or is_under(place, folded) for place in _foreign_names(root))
    if foreign or (protection is not None and protection.final):
        place = path if foreign or protection is None else protection.place
        problem = f"{quoted(name)} would change {quoted(place)}, which is not for mounts"
        raise MountError(problem, hint="choose another name", code="managed_storage")


def _managed(path: str, place: str) -> MountError:
    hint = "mount something that does not hold byleave's own files, or another program's"
    return MountError(f"{quoted(path)} reaches {quoted(place)}", hint=hint, code="managed_storage")


def _foreign_names(root: Root) -> Iterator[str]:
    """Yield the names of other programs' storage, and where they lead: in the workspace, or absolute."""
    for name in _FOREIGN_STORAGE:
        yield name
        place = root.resolve_rule(name)
        if isinstance(place, FsTarget) and place.relative != "":
            yield place.canonical if place.relative is None else fold(place.relative)


_STDIO_DEFAULT: Rule = {"path": ".", "read": True, "write": True, "execute": True}
_VFS_DEFAULT: Rule = {"path": ".", "read": True}


class MountRequest(Struct, frozen=True):
    """What was asked for, and from where: enough to plan it again when the lock is held."""

    specs: tuple[str, ...]
    cwd: str
    session: str = "default"
    files: tuple[str, ...] = ()


class MountPlan(Struct, frozen=True):
    """One mount. `link` is the text of the link to be made, None if one stands there that leads to the target.

    `closes` are the tools that were asked about every file and get their first file rule, `left_out` those that a mount
    for all of them cannot be given to.
    """

    spec: MountSpec
    rule_path: str
    target: str
    link: str | None
    directories: tuple[str, ...]
    tools: tuple[str, ...]
    rules: Mapping[str, Sequence[Rule]]
    approved: bool
    closes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything would be different afterwards."""
        return self.link is not None or any(self.rules.values()) or not self.approved

    @property
    def consent(self) -> object:
        """What a person agrees to: where it leads, for whom, and how."""
        return self.rule_path, self.target, self.tools, self.spec.mode

    def tree(self) -> dict[str, Any]:
        """Return the plan as programs read it."""
        return {
            "tool": self.spec.tool,
            "name": self.spec.name,
            "path": self.spec.path,
            "mode": self.spec.mode,
            "rule_path": self.rule_path,
            "target": self.target,
            "tools": list(self.tools),
            "rules": {tool: list(rules) for tool, rules in self.rules.items()},
        }


class MountPlans(Struct, frozen=True):
    """All the mounts of one request, and the session's file before and after."""

    request: MountRequest
    plans: tuple[MountPlan, ...]
    file: SessionFile
    tree: dict[str, Any]


def plan_mounts(workspace: Workspace, request: MountRequest) -> MountPlans:
    """Return what the request would do; a `MountError` if one of its mounts cannot be."""
    planned = _plan(workspace, request)
    if request.files:
        _refuse_other_rules(workspace, planned)
    return planned


def _plan(workspace: Workspace, request: MountRequest) -> MountPlans:
    specs = [parse_spec(text) for text in request.specs]
    planner = _Planner(workspace, request)
    plans = tuple([planner.plan(spec) for spec in specs])
    return MountPlans(request, plans, planner.file, planner.tree)


def _refuse_other_rules(workspace: Workspace, planned: MountPlans) -> None:
    """Refuse what only suits the files of the command line: the session is heard without them too."""
    try:
        found = _plan(workspace, structs.replace(planned.request, files=())).tree
    except (ByleaveError, ConfigErrors) as error:
        raise policy_file_error(str(error).partition("\n")[0]) from None
    if found != planned.tree:
        raise policy_file_error("without it, the session would get other rules")


def policy_file_error(why: str) -> MountError:
    """Return the refusal to write into the session what holds with other files only."""
    problem = f"the session also holds without --policy, and there this is not the same: {why}"
    return MountError(problem, hint="leave --policy out", code="policy_file")


def refuse_untrusted(layers: Sequence[Layer], tool: str) -> None:
    """Refuse to write down the rules of a tool that an untrusted file has closed: that must not be undone."""
    for layer in layers:
        if not layer.trusted and layer.name != ENCLOSING and _access(layer, tool).get("fs", {}).get("value"):
            file = shown(layer.file or "")
            problem = f"{file} has file rules for {quoted(tool)}, but is not trusted yet"
            hint = f"read it and `byleave trust {file}`, or remove its rules"
            raise MountError(problem, hint=hint, code="untrusted")


class _Planner:
    """Plans mounts one after the other. `tree` is the session's file as it would be after those planned so far."""

    def __init__(self, workspace: Workspace, request: MountRequest) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._request = request
        self._compiled = workspace.load(files=request.files, session=request.session).compiled
        self.file = read_session(workspace, request.session)
        self.tree = self.file.tree
        self._links: dict[str, str] = {}
        self._directories: set[str] = set()

    def plan(self, spec: MountSpec) -> MountPlan:
        lexical = name_inside(self._root, spec.name, self._request.cwd)
        rule_path, missing = self._place(spec, lexical)
        tools, left_out = self._tools(spec)
        given, target = self._target(spec)
        kept, rule_path = self._kept(spec, rule_path, target)
        rules = {tool.name: self._added(tool, spec, rule_path) for tool in tools}
        closes = [tool.name for tool in tools if rules[tool.name] and _asks(tool)]
        approved = rule_path in self._links or self._workspace.approvals.mount_target(rule_path) == target
        self._foresee(rule_path, target, missing, rules)
        return MountPlan(
            spec=spec,
            rule_path=rule_path,
            target=target,
            link=None if kept else given,
            directories=() if kept else missing,
            tools=tuple([tool.name for tool in tools]),
            rules=rules,
            approved=approved,
            closes=tuple(closes),
            left_out=left_out,
        )

    def _place(self, spec: MountSpec, lexical: str) -> tuple[str, tuple[str, ...]]:
        """Return the canonical name of the link to be, and the directories above it that are missing."""
        if not lexical:
            raise _occupied(spec.name, "is the workspace itself")
        refuse_mount_name(self._workspace, self._compiled, spec.name, lexical)
        above, _slash, last = lexical.rpartition("/")
        parent = self._root.resolve_input(above)
        if isinstance(parent, RefusedPath):
            code = "not_a_symlink" if parent.code == "not_a_directory" else "invalid_name"
            raise MountError(parent.problem, hint="choose another name", code=code)
        planned = next((name for name in self._links if parent.relative and is_under(parent.relative, name)), None)
        if parent.relative is None or planned is not None:
            hint = "choose a name whose directory really lies in the workspace"
            problem = f"{quoted(above)} leads out of the workspace"
            raise MountError(problem, hint=hint, code="outside_workspace")
        if parent.exists and not parent.directory:
            raise _occupied(above, "is a file")
        rule_path = f"{parent.relative}/{last}" if parent.relative else last
        self._refuse_odd(rule_path)
        refuse_mount_name(self._workspace, self._compiled, spec.name, rule_path)
        return rule_path, () if parent.exists else tuple(self._missing(parent.relative))

    def _missing(self, relative: str) -> Iterator[str]:
        names = relative.split("/")
        for count in range(1, len(names) + 1):
            path = "/".join(names[:count])
            if path not in self._directories and not os.path.lexists(os.path.join(self._root.path, path)):
                yield path

    def _refuse_odd(self, rule_path: str) -> None:
        """Refuse a name that the session's file could not hold, or that no tool could pass."""
        refused = refuse_name(rule_path)
        if refused is not None:
            raise MountError(refused.problem, hint="choose a plain name", code="invalid_name")
        try:
            rule_path.encode()
        except UnicodeEncodeError:
            hint = "choose a name that is UTF-8"
            raise MountError(f"{quoted(rule_path)} is not UTF-8", hint=hint, code="invalid_name") from None

    def _tools(self, spec: MountSpec) -> tuple[list[CompiledTool], tuple[str, ...]]:
        """Return the tools that the mount is for, and the names of those that cannot be among them."""
        local = {name: tool for name, tool in self._compiled.tools.items() if tool.settings["source"] == "local"}
        if spec.tool is None:
            enabled = [local[name] for name in sorted(local) if local[name].settings.get("enable", True)]
            found = [tool for tool in enabled if self._older(tool.name) is None]
            for tool in enabled if not found else ():
                self._refuse_older(tool.name)
            if not found:
                hint = 'configure a tool with source = "local"; `byleave policy show` lists what there is'
                raise MountError("there is no enabled local tool to mount it for", hint=hint, code="unknown_tool")
            return found, tuple(tool.name for tool in enabled if tool not in found)
        if spec.tool in local:
            return [local[spec.tool]], ()
        known = f"local tools: {sentence_list(sorted(local))}" if local else "there is no local tool here"
        why = "is no local tool" if spec.tool in self._compiled.tools else "is not configured"
        raise MountError(f"the tool {quoted(spec.tool)} {why}", hint=known, code="unknown_tool")

    def _target(self, spec: MountSpec) -> tuple[str, str]:
        """Return what the link will say, and where that really is."""
        path = os.path.join(self._request.cwd, self._expanded(spec.path))
        try:
            mode = os.stat(path).st_mode
            target = os.path.realpath(path, strict=True)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "no file can have that name"
            hint = "give the path of an existing directory or file"
            raise MountError(f"{quoted(spec.path)}: {why}", hint=hint, code="missing_target") from None
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            hint = "only directories and plain files can be mounted"
            problem = f"{quoted(spec.path)} is neither a directory nor a plain file"
            raise MountError(problem, hint=hint, code="missing_target")
        writes = spec.mode == READ_WRITE
        refuse_target(self._workspace, self._compiled, spec.path, target, writes=writes)
        return self._link_text(os.path.abspath(path), target), target

    def _expanded(self, path: str) -> str:
        if path == "~" or path.startswith("~/"):
            return f"{self._workspace.homes.user}{path[1:]}" if self._workspace.homes.user else path
        return os.path.expanduser(path)

    def _link_text(self, path: str, target: str) -> str:
        """Return the path as it was given, unless it means something else by now or leads through the workspace.

        Then the way in would be named after that other link, and not after the one we make.
        """
        place = self._root.resolve_place(path, "/")
        plain = isinstance(place, FsTarget) and place.canonical == target and place.door is None
        return path if plain else target

    def _kept(self, spec: MountSpec, rule_path: str, target: str) -> tuple[bool, str]:
        """Return whether a link that leads to the target stands there already, and by which name it is known."""
        planned = self._links.get(rule_path)
        where = os.path.join(self._root.path, rule_path)
        if planned is None:
            if rule_path in self._directories:
                raise _occupied(spec.name, "is to be a directory")
            try:
                mode = os.lstat(where).st_mode
            except FileNotFoundError:
                return False, rule_path
            if not stat.S_ISLNK(mode):
                raise _occupied(spec.name, "is a directory" if stat.S_ISDIR(mode) else "is no link")
        now = planned or os.path.realpath(where)
        if now != target:
            hint = f"remove the link, or `byleave unmount {shown(spec.name)}`, or choose another name"
            problem = f"{quoted(spec.name)} leads to {quoted(now)} already, not to {quoted(target)}"
            raise MountError(problem, hint=hint, code="other_target")
        known = rule_path if planned else rule_path_of(self._root, rule_path)
        self._refuse_odd(known)
        refuse_mount_name(self._workspace, self._compiled, spec.name, known)
        return True, known

    def _added(self, tool: CompiledTool, spec: MountSpec, rule_path: str) -> list[Rule]:
        """Return the rules that the session would get for a tool: none if the very same grant holds already."""
        mount: Rule = {"path": rule_path, "external": True, "read": True}
        if spec.mode == READ_WRITE:
            mount["write"] = True
        items = tool.lists["fs"].items
        standing = [item.tree for item in items if collapse(item.tree["path"]) == rule_path]
        if standing and standing[-1].get("external") and _grants(standing[-1]) == _grants(mount):
            return []
        self._refuse_older(tool.name)
        if items or (tool.runtime == "vfs" and tool.declares):
            return [mount]
        refuse_untrusted(self._compiled.layers, tool.name)
        return [dict(_VFS_DEFAULT if tool.runtime == "vfs" else _STDIO_DEFAULT), mount]

    def _refuse_older(self, tool: str) -> None:
        """Refuse a tool whose rules are in the older spelling: that has no word for what a mount is."""
        layer = self._older(tool)
        if layer is not None:
            problem = f"the tool {quoted(tool)} has its rules in the older `sandbox` form ({shown(layer.file or '')})"
            raise MountError(problem, hint="move them to `access`, or name another tool", code="older_rules")

    def _older(self, tool: str) -> Layer | None:
        """Return the layer that has the rules of a tool in the older spelling, if one does."""
        layers = self._compiled.layers
        return next((layer for layer in layers if _access(layer, tool).get(LEGACY)), None)

    def _foresee(
        self, rule_path: str, target: str, missing: tuple[str, ...], rules: Mapping[str, Sequence[Rule]]
    ) -> None:
        """Let the session's file, and what further mounts are planned on, be as after this one."""
        self._links[rule_path] = target
        self._directories.update(missing)
        for tool, added in rules.items():
            if added:
                kept = [rule for rule in fs_rules(self.tree, tool) if not named_rule(rule, rule_path)]
                self.tree = with_fs_rules(self.tree, tool, [*kept, *added])
        if self.tree != self.file.tree:
            layers = with_session(self._compiled.layers, self.file, self.tree)
            self._compiled = self._workspace.compile(layers)


def _access(layer: Layer, tool: str) -> Mapping[str, Any]:
    access: Mapping[str, Any] = layer.tree["tools"].get(tool, {}).get("access", {})
    return access


def _asks(tool: CompiledTool) -> bool:
    """Whether every file is a question for this tool: it has rules for other things, and none for files."""
    return tool.runtime == "vfs" and tool.declares and not tool.lists["fs"].items


def _grants(rule: Rule) -> list[bool]:
    compiled = fs_rule(rule, path="")
    return [compiled.grants(name) for name in CAPABILITIES]


def _occupied(name: str, why: str) -> MountError:
    hint = "choose a name where nothing stands yet"
    return MountError(f"{quoted(name)} {why}, and stays as it is", hint=hint, code="not_a_symlink")
