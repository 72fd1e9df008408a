"""The service's process: loads everything that an answer needs, and serves.

A command is answered as if it had been started by itself: `hook` as an agent's settings name it by `hooks.__main__`,
everything else by `cli.main`.
"""

from __future__ import annotations

import os
import pwd
import sys
from typing import TYPE_CHECKING

from byleave.cli.main import main
from byleave.errors import StateError
from byleave.policy.dirs import find_homes
from byleave.sandbox.native.build import know_launchers
from byleave.service.log import ServiceLog
from byleave.service.server import Server, ServiceAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCKED = 2
# What the commands load when they need it: here it is loaded once, before anything is forked.
WARM = (
    "byleave.cli.call_command",
    "byleave.cli.check_command",
    "byleave.cli.hook_command",
    "byleave.cli.mount_command",
    "byleave.cli.run_command",
    "byleave.cli.ticket_run",
    "byleave.core.cautions",
    "byleave.core.sensitive_places",
    "byleave.guard.open_guard",
    "byleave.guard.warnings",
    "byleave.hooks.authorize",
    "byleave.hooks.confining",
    "byleave.hooks.hook",
    "byleave.hooks.outcomes",
    "byleave.hooks.own_lists",
    "byleave.hooks.pausing",
    "byleave.launch.shell_run",
    "byleave.policy.command_lines",
    "byleave.policy.compile_rules",
    "byleave.policy.script_files",
    "byleave.sandbox.broker",
    "byleave.sandbox.tamper_check",
    "byleave.sandbox.terminal",
    "byleave.protocol.json_fast",
    "byleave.shell.knowledge.harmless.files",
    "byleave.shell.reader",
    "byleave.shell.walk",
    "byleave.store.audit.log",
    "byleave.store.audit.retention",
    "byleave.store.audit.table_writer",
    "byleave.toolhost.methods",
    "byleave.toolhost.process_methods",
    "byleave.toolhost.sandboxed_search",
    "byleave.toolhost.stdio_runtime",
    "byleave.translate.translate",
    "ctypes",
    "hashlib",
    "re2",
    "resource",
    "sqlite3",
    "termios",
)


def warm_up() -> None:
    """Do what every command would do by itself, and which is the same for all of them."""
    for name in WARM:
        __import__(name)
    know_launchers()


def serve(directory: str, key: str, package: str) -> int:
    """Serve at an address until there is a reason to end."""
    warm_up()
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
        log = ServiceLog(find_homes({"HOME": home}).state)
    except KeyError:  # a user without a name has no home either
        log = ServiceLog(None)
    try:
        Server(ServiceAddress(directory, key), package, answer, log).run()
    except StateError as error:
        log.write(f"not started: {error.problem}")
        return 1
    return 0


def answer(by_hook: bool, words: Sequence[str]) -> int:  # noqa: FBT001 -- as the worker calls it
    """Run a command in this process, which was forked for it, and return its exit code; a hook does not return."""
    if not by_hook:
        return main(list(words))
    from byleave.hooks.__main__ import main as hook_main

    try:
        hook_main(list(words))
    except BaseException as error:  # noqa: BLE001 -- the agent must not take it for a yes
        sys.stderr.write(f"byleave: the call is blocked, the hook cannot start: {type(error).__name__}: {error}\n")
    return _BLOCKED
