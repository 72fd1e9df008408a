"""When a hook may have a command run confined, by changing the agent's call; and why not, in a sentence.

A changed call is only as good as the agent that carries it out. So a hook confines only where it is known to work: in
versions of the agent in which a real run proved it, where no other hook answers for the shell tool, on a machine that
can confine, and as long as no command of this agent is known to have run without its confinement.

Everywhere else an allow that needs confinement is an ask. Where just this call cannot be confined, or because of
something that commands of this agent can bring about, every allow needs it, also with `confine = "auto"`: no agent
chooses to run plainly. Start at `confinable`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from byleave.core.fs_rules import is_under
from byleave.hooks.agent_process import FoundAgent, find_agent
from byleave.hooks.agents import CLAUDE_CODE, CODEX, GEMINI, OPENCODE
from byleave.hooks.other_hooks import other_hooks
from byleave.hooks.own_lists import OwnLists, own_lists
from byleave.policy.dirs import real_path
from byleave.policy.sandbox_settings import shell_layer
from byleave.record import Record
from byleave.store.tickets import confining_ended
from byleave.text import shown
from byleave.translate.ticketed_command import fits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.core.action import CommandAction
    from byleave.hooks.event_reader import Hook, HookToolCall
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace


class ShellTool(Record):
    """A tool that runs commands, in an agent whose hooks can change a call.

    `since` is the oldest version in which a real run proved that what the hook changed is what runs; later ones of the
    same major version count as well. `asks`: also after a question that the hook has the agent put to its user.
    `keeps_directory`: the agent's next command starts where this one ended. `questions`: the agent may put a question
    of its own to its user after the hook's allow, so that an unredeemed ticket alone proves nothing.
    """

    name: str
    field: str
    since: tuple[int, ...]
    asks: bool = False
    keeps_directory: bool = False
    questions: bool = True


# Each row was proved by tests/agents/test_confined_commands.py.
SHELL_TOOLS: Mapping[str, ShellTool] = {
    CLAUDE_CODE: ShellTool("Bash", "command", (2, 1, 185), asks=True, keeps_directory=True, questions=False),
    CODEX: ShellTool("Bash", "command", (0, 166, 0)),
    GEMINI: ShellTool("run_shell_command", "command", (0, 61, 0)),
    OPENCODE: ShellTool("bash", "command", (1, 18, 33)),
}


class Confinable(Record):
    """Whether a call can be confined: `why_not` is empty then.

    `agent` is the agent's process, if it was found. `layers` hold the agent's own lists, for a call that is changed;
    where no agent may choose to run plainly, they hold that every command has to be confined.
    """

    why_not: str = ""
    agent: FoundAgent = FoundAgent()
    layers: tuple[Layer, ...] = ()


def confinable(
    hook: Hook, tool_call: HookToolCall, action: CommandAction, workspace: Workspace, policy: LivePolicy
) -> Confinable:
    """Return whether this call of a shell tool can be changed so that its command runs confined by the policy."""
    tool, root = SHELL_TOOLS.get(hook.agent), workspace.root.path
    if tool is None:
        return Confinable(f"byleave cannot change calls of {shown(tool_call.tool)} in this agent")
    agent = find_agent(hook.agent, root)
    problem = _agent_problem(agent, tool)
    if problem:
        return Confinable(problem, agent)
    problem = _machine_problem(policy, workspace, hook.profile or hook.agent)
    if problem:
        return Confinable(f"this machine cannot confine: {problem}", agent)
    projects = tuple(dict.fromkeys([root, *[each for each in (tool_call.project, tool_call.cwd) if each is not None]]))
    settings = _settings(hook.agent, agent, workspace, projects)
    if settings.problem and _settings(hook.agent, agent, workspace, (root,)).problem:
        return Confinable(settings.problem, agent)
    evasion = _evasion(hook, tool_call, action, workspace) or settings.problem
    if not evasion:
        return Confinable("", agent, settings.layers)

    return Confinable(evasion, agent, (shell_layer(confine="require"),))


def _agent_problem(agent: FoundAgent, tool: ShellTool) -> str:
    """Return why calls of this agent are not changed, "" if they are."""
    if agent.problem:
        return f"the version of the agent is not known: {agent.problem}"
    if agent.version and (agent.version[0] != tool.since[0] or agent.version < tool.since):
        known = ".".join([str(number) for number in tool.since])
        found = ".".join([str(number) for number in agent.version])
        return f"changed calls are proved from version {known} on, and this one is {found}"
    return ""


def _settings(name: str, agent: FoundAgent, workspace: Workspace, projects: tuple[str, ...]) -> OwnLists:
    """Return the agent's own lists for these directories of projects, or what stands against a changed call there."""
    others = other_hooks(name, workspace.homes.user, projects, agent.words, workspace.memory)
    if others:
        return OwnLists((), f"another hook may answer for this tool as well: {others}")
    return own_lists(name, workspace.homes.user, projects, workspace.memory)


def _evasion(hook: Hook, tool_call: HookToolCall, action: CommandAction, workspace: Workspace) -> str:
    """Return why just this call cannot be changed, or what a command of this agent has done; "" if nothing."""
    tool, root = SHELL_TOOLS[hook.agent], workspace.root.path
    if tool_call.tool != tool.name:
        return f"byleave cannot change calls of {shown(tool_call.tool)} in this agent"
    if tool_call.raw.get(tool.field) != action.command or not fits(action.command):
        return "the text of this command cannot be passed on exactly"
    if not is_under(real_path(os.path.join(root, action.cwd or ".")), root):
        return "its working directory lies outside of the workspace"
    ended = confining_ended(workspace.homes.workspace(root), hook.agent)
    if ended is not None:
        way = f"look at it, then run `byleave hook --resume {hook.agent}` yourself"
        return f"confining has ended for this agent, because {ended}: {way}"
    return ""


def _machine_problem(policy: LivePolicy, workspace: Workspace, agent: str) -> str:
    """Return why this machine cannot hold the policy, "" if it can: by Landlock alone, where that is all there is."""
    from byleave.sandbox.can_confine import can_confine  # heavy: only where commands run confined

    return can_confine(policy, workspace, agent) or ""
