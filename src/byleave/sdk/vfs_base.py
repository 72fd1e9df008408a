"""What every host has, whichever way it waits: what the tool was told when it was started."""

from byleave.sdk.vfs_talk import Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Told:
    """The call as the host described it."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    @property
    def name(self) -> str:
        """The tool's name, as it is configured."""
        return self._talk.init.name

    @property
    def arguments(self) -> "Mapping[str, Any]":
        """The arguments of this call."""
        return self._talk.init.arguments

    @property
    def answers(self) -> "Mapping[str, Any]":
        """What the user answered to questions of earlier calls, under the ids of the questions."""
        return self._talk.init.answers

    @property
    def options(self) -> "Mapping[str, Any]":
        """The tool's own options, from its configuration."""
        return self._talk.init.options

    @property
    def context(self) -> "Mapping[str, Any]":
        """The root, the action and the access, as the host wrote them; empty if it did not."""
        return self._talk.init.context or {}

    @property
    def action(self) -> str:
        """What is wanted: `run`, or `format_arguments`."""
        return str(self.context.get("action", "run"))

    @property
    def methods(self) -> tuple[str, ...]:
        """What this host serves; empty if it does not say."""
        return self._talk.init.methods

    @property
    def protocol_version(self) -> str:
        """The version of the protocol that the host speaks."""
        return self._talk.init.protocol_version

    @property
    def ended(self) -> bool:
        """Whether the result has been given."""
        return self._talk.over

    @property
    def cancelled(self) -> bool:
        """Whether the host wants the tool to stop. Looks, and does not wait: good for long calculations."""
        if not self._talk.cancelled:
            self._talk.take(self._talk.wire.receive(0))
        return self._talk.cancelled
