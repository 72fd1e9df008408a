"""What one caller may see: the same policy that judges its calls, asked without arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.core.action import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.servers import ServerConfig


class Visibility:
    """The view of one agent, by the policy as it is now."""

    def __init__(self, policy: LivePolicy, agent: str | None) -> None:
        self._policy = policy
        self._agent = agent

    @property
    def agent(self) -> str | None:
        return self._agent

    @property
    def version(self) -> object:
        """What is another object whenever the policy is another one: its files, or what was approved."""
        return self._policy.compiled

    def servers(self) -> list[str]:
        """Return the servers that the caller may reach, in their own order; local tools are one of them."""
        known: Mapping[str, ServerConfig] = self._policy.compiled.servers
        names = [name for name, server in known.items() if server.enabled]
        if self._policy.compiled.tools:
            names.append(LOCAL)
        return [name for name in names if self._policy.could_call(self._agent, name, None)]

    def shows_tool(self, server: str, tool: str) -> bool:
        """Whether there are arguments with which the call would not be denied."""
        return self._policy.could_call(self._agent, server, tool)

    def shows(self, server: str, kind: str, name: str) -> bool:
        """Whether a resource or a prompt may be seen."""
        return self._policy.could_use(self._agent, server, kind, name)
