"""`byleave dashboard`: serve the dashboard on loopback until Ctrl-C, and open it in the browser."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from html import escape
from typing import TYPE_CHECKING

from byleave.cli.output import complain, say, say_json
from byleave.cli.terminal import started_by_agent
from byleave.cli.workspace import open_workspace
from byleave.dashboard.access import ADDRESS_SECONDS, OPENING_SECONDS
from byleave.dashboard.machine import Machine
from byleave.dashboard.server import Dashboard, serve_dashboard
from byleave.errors import InputError, StateError
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from byleave.cli.arguments import ParsedArguments

_PORTS = range(1, 65_536)
_PERIOD = 2.0  # seconds between two looks for what a notification could say
_LONGEST_NEWS = 200  # characters
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(given: ParsedArguments) -> int:
    """Serve until a signal; a person starts it, never an agent."""
    if started_by_agent():
        raise StateError(
            "the dashboard answers questions for you, and an agent or tool may have started this command",
            hint="run `byleave dashboard` yourself, in a terminal of your own",
        )
    if given.options.get("policy"):
        raise InputError("the dashboard shows what holds in your workspaces", hint="leave --policy out")
    asyncio.run(_serve(given, _port(given)))
    return 0


async def _serve(given: ParsedArguments, port: int) -> None:
    dashboard = Dashboard(Machine(open_workspace(given)))
    server = await serve_dashboard(dashboard, port, lambda text: complain(f"byleave: {shown(text)}"))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, stopped.set)
    try:
        address = dashboard.access.new_address()
        if given.flag("json"):
            say_json({"url": address, "port": server.addresses[0].port, "pid": os.getpid()})
        else:
            good = f"for {ADDRESS_SECONDS / 60:.0f} minutes"
            say(f"The dashboard is at\n\n{address}\n\nThe address works once, {good}. Ctrl-C ends the dashboard.")
        sys.stdout.flush()
        if not given.flag("no_open") and not given.flag("json"):
            _open_browser(dashboard.access.new_address(OPENING_SECONDS))
        notifying = asyncio.create_task(_notify(dashboard))
        await stopped.wait()
        notifying.cancel()
    finally:
        dashboard.close()
        await server.close(grace=1.0)


def _port(given: ParsedArguments) -> int:
    written = given.one("port")
    if written is None:
        return 0
    if not written.isascii() or not written.isdigit() or len(written) > 5 or int(written) not in _PORTS:
        raise InputError(f"--port cannot be {quoted(written)}", hint="write a number from 1 to 65535")
    return int(written)


async def _notify(dashboard: Dashboard) -> None:
    """Have the desktop show that questions wait, where it can and no page does."""
    notifier = shutil.which("notify-send")
    if notifier is None or not _has_desktop():
        return
    while True:
        await asyncio.sleep(_PERIOD)
        text = await dashboard.news()
        if text:
            _start(notification(notifier, text))


def notification(notifier: str, text: str) -> list[str]:
    """Return the command that shows a notification: desktops read markup in it, and the program reads options."""
    return [notifier, "--app-name=byleave", "--", "byleave", escape(shown(text[:_LONGEST_NEWS]), quote=False)]


def _has_desktop() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _start(words: list[str]) -> None:
    """Start a program of the desktop's, and do not wait for it."""
    quiet = subprocess.DEVNULL
    subprocess.Popen(  # noqa: S603 -- with words of ours
        words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


def _open_browser(address: str) -> None:
    """Open the user's browser where there is a desktop; its start is not waited for."""
    opener = shutil.which("xdg-open")
    if opener is not None and _has_desktop():
        _start([opener, address])
