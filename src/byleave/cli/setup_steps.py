"""The steps of `byleave setup` and of its undoing: what each would do, and the doing.

A step that is in place already is skipped; one that fails says why and does not keep the others from being done. Every
step can be repeated: a setup that was killed is finished by the next one.

Start at `SetupSteps.plan`. How they are shown and agreed to: `setup_command`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.cli import init_command
from byleave.cli.arguments import ParsedArguments
from byleave.cli.commands import ROOT
from byleave.cli.hook_command import INSTALL, UNINSTALL, plan_change
from byleave.cli.setup_record import (
    imported_block,
    is_as_imported,
    load_record,
    save_record,
    with_block,
    without_block,
)
from byleave.cli.trust_command import effects_of
from byleave.errors import ByleaveError, ConfigErrors, StateError
from byleave.guard.persist_rule import PersistentRule
from byleave.hooks.install import carry_out, installed_commands, is_switched_off
from byleave.hooks.probe import probe
from byleave.hooks.snippets import PLACES
from byleave.policy.agent_permissions import READABLE
from byleave.policy.dirs import PROJECT_FILES, home_directory
from byleave.policy.import_permissions import import_permissions
from byleave.sandbox.can_confine import machine_problem
from byleave.store.approvals import now
from byleave.text import shown
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from byleave.cli.setup_record import SetupRecord
    from byleave.policy.load import Workspace
    from byleave.store.approvals import Fingerprint

INIT, IMPORT, TRUST, HOOK, PROBE = "init", "import", "trust", "hook", "probe"
WOULD, DONE, SKIPPED, FAILED = "would", "done", "skipped", "failed"
NO_PROJECT = "this is no project: run byleave setup in one, to have its rules written"
NO_FILE = "there is no project file"
_WRITTEN = ("byleave.toml", ".byleave/.gitignore", "byleave.policy-test.toml")


class SetupStep(Struct, frozen=True):
    """One step, and how it stands. `lines` are shown beneath it; `act` does it, and returns what was done."""

    step: str
    status: str
    detail: str
    agent: str | None = None
    lines: tuple[str, ...] = ()
    act: Callable[[], str] | None = None

    @property
    def tree(self) -> dict[str, str]:
        """The step for programs."""
        of = {} if self.agent is None else {"agent": self.agent}
        return {"step": self.step, **of, "status": self.status, "detail": self.detail}

    def is_same(self, other: SetupStep) -> bool:
        """Whether the user who agreed to the other step agreed to this one."""
        return (self.step, self.agent, self.detail, self.lines) == (other.step, other.agent, other.detail, other.lines)

    def done(self) -> SetupStep:
        """Do it; an error becomes a step that failed."""
        if self.act is None:
            return self
        try:
            return structs.replace(self, status=DONE, detail=self.act(), act=None)
        except (ByleaveError, ConfigErrors, OSError) as error:
            return structs.replace(self, status=FAILED, detail=problem_of(error), act=None)


def problem_of(error: Exception) -> str:
    """Return an error as one sentence, with what to do about it."""
    if isinstance(error, ByleaveError):
        return f"{error.problem}; {error.hint}"
    if isinstance(error, ConfigErrors):
        return str(error.exceptions[0]).partition("\n")[0]
    return f"{getattr(error, 'filename', None) or ''}: {getattr(error, 'strerror', None) or error}".lstrip(": ")


class SetupSteps:
    """Plans the steps for one user, one workspace and some agents. The first workspace is that of the environment.

    A hook reads no variables: where they lead elsewhere, a second workspace has the same root and the hook's places.
    """

    def __init__(self, workspaces: Sequence[Workspace], home: str, agents: Sequence[str]) -> None:
        self._workspaces = workspaces
        self._homes = workspaces[0].homes
        self._root = workspaces[0].root.path
        self._home = home
        self._agents = agents

    def plan(self) -> list[SetupStep]:
        """Return the steps as they stand now."""
        record = load_record(self._homes)
        init = self._init(record)
        steps = [init, *[self._import(record, agent) for agent in self._agents if agent in READABLE]]
        steps.append(self._trust(record, written=init.status == WOULD))
        hooks = [self._hook(record, agent) for agent in self._agents]
        return [*steps, *hooks, *[self._probe(record, hook) for hook in hooks]]

    def plan_undo(self) -> list[SetupStep]:
        """Return the steps that take away what was put in place."""
        record = load_record(self._homes)
        agents = [agent for agent in record.hooks if not self._agents or agent in self._agents]
        imports = [agent for agent in record.imports if not self._agents or agent in self._agents]
        steps = [self._unhook(record, agent) for agent in agents]
        steps += [self._unimport(record, agent) for agent in imports]
        project = None if self._agents else record.projects.get(self._root)
        if project is not None and project.trusted is not None:
            steps.append(self._untrust(record, project.trusted))
        if project is not None and project.files:
            steps.append(self._remove_files(record))
        return steps

    @property
    def state(self) -> str:
        """Where byleave keeps what setup has done."""
        return self._homes.state

    @property
    def other_projects(self) -> list[str]:
        """The other workspaces that setup has written to."""
        return [root for root in load_record(self._homes).projects if root != self._root]

    def _init(self, record: SetupRecord) -> SetupStep:
        if self._root in (home_directory(self._homes), "/"):
            return SetupStep(INIT, SKIPPED, NO_PROJECT)
        there = [name for name in PROJECT_FILES if os.path.lexists(os.path.join(self._root, name))]
        if there:
            return SetupStep(INIT, SKIPPED, f"{there[0]} is there")
        weak = machine_problem(self._homes.memory)
        strict = "; the strict rules, because commands cannot be fully confined here" if weak else ""
        return SetupStep(
            INIT,
            WOULD,
            f"write byleave.toml, the rules of this project, and cases for it{strict}",
            act=lambda: self._write(record),
        )

    def _write(self, record: SetupRecord) -> str:
        spec = next(command for command in ROOT.subcommands if command.name == INIT)
        before = {name for name in _WRITTEN if os.path.lexists(os.path.join(self._root, name))}
        project = record.project(self._root)
        project.files = {name: "" for name in _WRITTEN if name not in before}
        save_record(self._homes, record)
        init_command.run(ParsedArguments(spec, (INIT,), {"root": [self._root], "quiet": [""]}, {}, ()))
        project.files = {name: self._sha256(name) for name in project.files}
        save_record(self._homes, record)
        return "wrote byleave.toml"

    def _sha256(self, name: str) -> str:
        try:
            with open(os.path.join(self._root, name), "rb") as file:
                return digest(file.read())
        except OSError:
            return ""

    def _import(self, record: SetupRecord, agent: str) -> SetupStep:
        found = import_permissions(agent, self._home, self._root)
        if found.unreadable:
            return SetupStep(IMPORT, FAILED, found.unreadable[0], agent)
        title = PLACES[agent].title
        files = [PersistentRule(workspace, "default") for workspace in self._workspaces]
        rules = found.toml.encode()
        try:
            blocks = [imported_block(file.content(), agent) for file in files]
            changed = [block for block in blocks if block is not None and digest(block) != record.imports.get(agent)]
        except ByleaveError as error:
            return SetupStep(IMPORT, FAILED, problem_of(error), agent)
        if blocks == [rules] * len(files) or (not rules and not any(blocks)):
            return SetupStep(
                IMPORT, SKIPPED, f"{found.carried} permissions are there" if rules else "there are none", agent
            )
        if changed:
            return SetupStep(IMPORT, SKIPPED, "you changed what was imported, so it stays", agent)
        lost = f"; {len(found.lost)} are left to {title} (byleave policy import {agent})" if found.lost else ""
        number = f"{found.carried} permission{'' if found.carried == 1 else 's'}"
        detail = f"add {number} of {title} to your own rules{lost}"
        if not rules:
            detail = f"remove permissions that {title} does not have any more from your own rules"

        def act() -> str:
            record.imports[agent] = digest(rules)
            save_record(self._homes, record)
            for file in files:
                file.change(lambda before: with_block(before, agent, rules) if rules else without_block(before, agent))
            return f"your own rules have {number} of {title}"

        return SetupStep(IMPORT, WOULD, detail, agent, found.summaries, act)

    def _trust(self, record: SetupRecord, *, written: bool) -> SetupStep:
        if written:
            return SetupStep(TRUST, WOULD, "trust byleave.toml as it is written", act=lambda: self._trust_file(record))
        name = next((each for each in PROJECT_FILES if os.path.lexists(os.path.join(self._root, each))), None)
        if name is None:
            return SetupStep(TRUST, SKIPPED, NO_FILE)
        try:
            prints = [_print_of(workspace, name) for workspace in self._workspaces]
        except (ByleaveError, ConfigErrors) as error:
            return SetupStep(TRUST, FAILED, problem_of(error))
        if all(
            workspace.approvals.trusts(print_) for workspace, (print_, _) in zip(self._workspaces, prints, strict=True)
        ):
            return SetupStep(TRUST, SKIPPED, f"{name} is trusted, as it is now")
        print_, effects = prints[0]
        act: Callable[[], str] = lambda: self._trust_file(record, name, only=print_.sha256)  # noqa: E731
        return SetupStep(TRUST, WOULD, f"trust {name} as it is now", None, tuple(effects), act)

    def _trust_file(self, record: SetupRecord, name: str = PROJECT_FILES[0], *, only: str | None = None) -> str:
        """Trust the file with the content that was shown, or that was just written."""
        if only is None:
            only = record.project(self._root).files.get(name) or "not written"
        record.project(self._root).trusted = name
        save_record(self._homes, record)
        for workspace in self._workspaces:
            print_, _effects = _print_of(workspace, name)
            if print_.sha256 != only:
                raise StateError(f"{name} has changed meanwhile", hint="look at it, then run `byleave trust`")
            workspace.approvals.trust(print_, now=now())
            workspace.trusted_texts.keep(name, workspace.files.read_project_file(name))  # checked by its hash later
        return f"{name} is trusted, as it is now"

    def _hook(self, record: SetupRecord, agent: str) -> SetupStep:
        place = PLACES[agent]
        try:
            plan = plan_change(_no_arguments(), INSTALL, agent, self._home)
            off = is_switched_off(plan)
        except (ByleaveError, ValueError) as error:
            return SetupStep(HOOK, FAILED, _first_line(problem_of(error)), agent)
        if off:
            return SetupStep(HOOK, FAILED, f"hooks are switched off in {shown(plan.file)}", agent)
        if not plan.changes:
            return SetupStep(HOOK, SKIPPED, f"{place.title} has the hook", agent)

        def act() -> str:
            record.hooks = [*dict.fromkeys([*record.hooks, agent])]
            save_record(self._homes, record)
            carry_out(plan)
            return f"{place.title} asks byleave before every tool call"

        return SetupStep(
            HOOK, WOULD, f"have {place.title} ask byleave before every tool call", agent, (plan.file,), act
        )

    def _probe(self, record: SetupRecord, hook: SetupStep) -> SetupStep:
        agent = hook.agent or ""
        title = PLACES[agent].title
        if hook.status == FAILED:
            return SetupStep(PROBE, SKIPPED, f"{title} has no hook", agent)
        if hook.status == SKIPPED and record.proved.get(agent) == self._commands(agent):
            return SetupStep(PROBE, SKIPPED, f"the hook of {title} has denied what it must deny", agent)

        def act() -> str:
            problem = probe(agent, self._home, self._root)
            if problem is not None:
                raise StateError(problem, hint="run `byleave doctor`")
            record.proved[agent] = self._commands(agent)
            save_record(self._homes, record)
            return f"the hook of {title} has denied what it must deny"

        return SetupStep(PROBE, WOULD, f"send a real event of {title} through its hook", agent, act=act)

    def _commands(self, agent: str) -> str:
        """Return what changes when the command in the agent's settings does."""
        try:
            return digest(repr(list(installed_commands(agent, self._home))).encode("utf-8", "replace"))
        except (ByleaveError, ValueError):
            return ""

    def _unhook(self, record: SetupRecord, agent: str) -> SetupStep:
        title = PLACES[agent].title
        try:
            plan = plan_change(_no_arguments(), UNINSTALL, agent, self._home)
        except ByleaveError as error:
            return SetupStep(HOOK, FAILED, _first_line(problem_of(error)), agent)

        def act() -> str:
            if plan.changes:
                carry_out(plan)
            record.hooks = [each for each in record.hooks if each != agent]
            record.proved.pop(agent, None)
            save_record(self._homes, record)
            kept = plan.kept_copy if plan.changes else None
            beside = f"; what its settings were before: {shown(kept)}" if kept else ""
            return f"{title} asks byleave no more{beside}"

        return SetupStep(HOOK, WOULD, f"have {title} ask byleave no more", agent, (plan.file,), act)

    def _unimport(self, record: SetupRecord, agent: str) -> SetupStep:
        title = PLACES[agent].title
        files = [PersistentRule(workspace, "default") for workspace in self._workspaces]
        try:
            contents = [file.content() for file in files]
        except ByleaveError as error:
            return SetupStep(IMPORT, FAILED, problem_of(error), agent)
        held = [content for content in contents if imported_block(content, agent) is not None]
        if held and not all(is_as_imported(content, agent, record) for content in held):
            return SetupStep(IMPORT, SKIPPED, f"you changed the rules from {title}, so they stay", agent)

        def act() -> str:
            for file in files:
                file.change(lambda before: without_block(before, agent))
            record.imports.pop(agent, None)
            save_record(self._homes, record)
            return f"removed the permissions of {title} from your own rules"

        return SetupStep(IMPORT, WOULD, f"remove the permissions of {title} from your own rules", agent, act=act)

    def _untrust(self, record: SetupRecord, name: str) -> SetupStep:
        def act() -> str:
            for workspace in self._workspaces:
                workspace.approvals.untrust(name)
                workspace.trusted_texts.forget(name)
            record.project(self._root).trusted = None
            save_record(self._homes, record)
            return f"{name} is not trusted any more"

        return SetupStep(TRUST, WOULD, f"stop trusting {name}", act=act)

    def _remove_files(self, record: SetupRecord) -> SetupStep:
        project = record.project(self._root)
        same = [name for name, sha256 in project.files.items() if sha256 and self._sha256(name) == sha256]
        there = os.path.lexists(os.path.join(self._root, PROJECT_FILES[0]))
        if there and PROJECT_FILES[0] in project.files and PROJECT_FILES[0] not in same:
            return SetupStep(INIT, SKIPPED, "byleave.toml has changed since, so it stays")

        def act() -> str:
            for name in reversed(same):  # the file itself last: until then the step can be repeated
                os.unlink(os.path.join(self._root, name))
            place = os.path.join(self._root, ".byleave")
            if not os.path.islink(place) and os.path.isdir(place) and not os.listdir(place):
                os.rmdir(place)
            del record.projects[self._root]
            save_record(self._homes, record)
            return "removed byleave.toml"

        return SetupStep(INIT, WOULD, "remove byleave.toml, which is as setup wrote it", act=act)


def _print_of(workspace: Workspace, name: str) -> tuple[Fingerprint, list[str]]:
    """Return what trusting a project file means now: for byleave, and in lines for a person."""
    content = workspace.files.read_project_file(name)
    layer = workspace.files.parse_project_file(name, content)
    print_ = workspace.print_of(name, content, layer.tree)
    return print_, list(effects_of(name, layer.tree, print_))


def _no_arguments() -> ParsedArguments:
    """Return the command line `byleave hook` without any flag."""
    return ParsedArguments(ROOT, ("hook",), {}, {}, ())


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
