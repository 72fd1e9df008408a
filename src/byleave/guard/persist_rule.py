"""A yes for good is a rule in the user's own file: shown before it is written, and offered only where it works."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import ByleaveError, ConfigErrors, StateError
from byleave.policy.dirs import CONFIG_FILE, real_path
from byleave.policy.layers import LARGEST_FILE
from byleave.text import quoted, shown_lines
from byleave.user_files import LOCK_PATIENCE, Lock, make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.policy.live_policy import ResolvedAction
    from byleave.policy.load import Workspace


class OfferedRule(Struct, frozen=True):
    """A rule that would really decide, or why there is none."""

    rule: str | None
    why: str = ""


class PersistentRule:
    """Adds rules to the user's own file, through a link too if it is one."""

    def __init__(self, workspace: Workspace, session: str) -> None:
        self._workspace = workspace
        self._session = session
        self._directory = workspace.homes.config
        self._named = os.path.join(self._directory, CONFIG_FILE)
        self._path = real_path(self._named)

    @property
    def path(self) -> str:
        """Where the user's file is."""
        return self._path

    def offer(self, resolved: ResolvedAction) -> str | None:
        """Return the rule that would allow this for good; None if no rule of the user's alone would."""
        return self.consider(resolved).rule

    def consider(self, resolved: ResolvedAction, *, confines: bool = False) -> OfferedRule:
        """Return the rule that would allow this for good, or why there is none. It is tried out before."""
        rule = resolved.verdict.suggestion
        if resolved.scripts:  # a rule knows no content
            return OfferedRule(None, f"it runs {quoted(resolved.scripts[0])}, and a rule does not know what is in that")
        if resolved.wraps:
            return OfferedRule(None, "a rule would name the program that starts others, and not what it starts")
        if rule is None:
            return OfferedRule(None, "no rule of yours alone would allow it")
        if shown_lines(rule) != rule:
            return OfferedRule(None, "what cannot be shown as it is cannot be agreed to")
        try:
            would_hold = self._workspace.try_user_file(with_rule(self._read(), rule), self._session)
            verdict = would_hold.decide(resolved.action, confines=confines)
        except (ByleaveError, ConfigErrors) as error:
            return OfferedRule(None, f"your file would have an error with the rule: {error}")
        if verdict.allowed:
            return OfferedRule(rule)
        first = verdict.because[0]
        return OfferedRule(None, f"the rule would not decide: {first.rule} ({first.source}) stands before it")

    def keep(self, rule: str) -> None:
        """Write the rule behind what the user's file says already."""
        self.change(lambda before: with_rule(before, rule))

    def content(self) -> bytes:
        """Return what the user's file says."""
        return self._read()

    def change(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the user's file by what `change` makes of it, if that can be used; as a whole, or not at all."""
        before = self._read()
        after = change(before)
        if after == before:
            return
        try:
            self._workspace.try_user_file(after, self._session)
        except ConfigErrors as error:
            raise StateError(f"your file would have an error with this rule: {error}", hint="add it by hand") from None
        if len(after) > LARGEST_FILE:  # it could not be read again
            raise StateError(f"{quoted(self._path)} would be too large", hint="remove rules that are not needed")
        make_private_directory(self._directory)
        try:
            with Lock(os.path.join(self._directory, "config.lock"), patience=LOCK_PATIENCE):
                if self._read() != before:
                    raise StateError(f"{quoted(self._path)} has changed meanwhile", hint="try again")
                if after or os.path.islink(self._named):
                    write_private(self._path, after)
                else:  # nothing is left of it
                    os.unlink(self._path)
                self._workspace.files.settling.take(self._named)
        except OSError as error:
            hint = "check the permissions there, and the free space on the disk"
            raise StateError(f"{quoted(self._path)} cannot be written: {error.strerror}", hint=hint) from None

    def _read(self) -> bytes:
        return read_private(self._path, limit=LARGEST_FILE) or b""


def with_rule(content: bytes, rule: str) -> bytes:
    """Return the content of a configuration file with one more rule behind all others."""
    return appended(content, f"{rule}\n")


def appended(content: bytes, text: str) -> bytes:
    """Return the content of a file with a text behind it, after an empty line; with line ends as the file has them."""
    end = b"\r\n" if b"\r\n" in content and b"\n" not in content.replace(b"\r\n", b"") else b"\n"
    if content and not content.endswith(b"\n"):
        content += end
    return content + (end if content else b"") + text.encode().replace(b"\n", end)
