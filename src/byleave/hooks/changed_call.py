"""A confined allow as a changed call: the ticket is issued, and the command's text becomes what redeems it.

Start at `CallChange`. When that may be: `confining`. The text: `translate.ticketed_command`.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from byleave.hooks.confining import SHELL_TOOLS
from byleave.policy.dirs import own_start, real_path
from byleave.store.tickets import Ticket, cwd_file, issue, new_id
from byleave.translate.ticketed_command import ticketed_text

if TYPE_CHECKING:
    from byleave.core.action import CommandAction
    from byleave.hooks.agent_process import FoundAgent
    from byleave.hooks.event_reader import Hook, HookToolCall
    from byleave.policy.load import Workspace


class CallChange:
    """What of a call is to be exchanged, once it is known that the call is let through."""

    def __init__(self, hook: Hook, tool_call: HookToolCall, action: CommandAction, workspace: Workspace) -> None:
        self._hook = hook
        self._tool_call = tool_call
        self._action = action
        self._workspace = workspace

    def issue(self, agent: FoundAgent, sequence: int | None, *, asked: bool) -> dict[str, Any]:
        """Issue the ticket and return the tool's input with the text that redeems it; an error blocks the call."""
        hook, call, root = self._hook, self._tool_call, self._workspace.root.path
        tool = SHELL_TOOLS[hook.agent]
        directory = self._workspace.homes.workspace(root)
        ticket = Ticket(
            id=new_id(),
            text=self._action.command,
            cwd=real_path(os.path.join(root, self._action.cwd or ".")),
            root=root,
            shell=self._action.shell,
            agent=hook.agent,
            session=call.session,
            agent_process=agent.process,
            call=call.call,
            sequence=sequence,
            asked=asked or tool.questions or agent.process is None,  # a probe of the hook runs nothing
            created=time.time(),
            profile=hook.profile,
            files=tuple([os.path.abspath(file) for file in hook.files]),
            store_session=hook.session,
        )
        issue(directory, ticket)
        home = ["--home", hook.home] if hook.home is not None else []
        text = ticketed_text(
            own_start(self._workspace.homes.memory),
            ticket.id,
            [*home, "--root", root],
            ticket.text,
            cwd_file=cwd_file(directory, ticket.id) if tool.keeps_directory else None,
        )
        return {**call.raw, tool.field: text}
