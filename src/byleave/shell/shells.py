"""Shells and other interpreters: where does their script come from?"""

from byleave.shell.model import Command


def reads_script(command: Command) -> bool:
    return command.program in ("sh", "bash") and len(command.words) == 1
