"""`byleave mcp`: the gateway before every MCP server. Standard output is the client's, and carries nothing of ours."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING

from byleave.cli.output import complain, warn_if_read
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.errors import ByleaveError, ConfigErrors, InputError
from byleave.gateway.gateway import Gateway
from byleave.gateway.interfaces import Caller
from byleave.gateway.local_tools import CallerAsker
from byleave.gateway.server_info import WELCOME_TIME
from byleave.gateway.spawn import BEHIND
from byleave.text import quoted, shown_lines
from byleave.toolhost.authorize import WithRunModes

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from byleave.api import Workspace
    from byleave.cli.arguments import ParsedArguments
    from byleave.guard.guard import Guard

_ENDED_BY_SIGNAL = 128
_TURN = 0.001  # seconds that the loop waits for a thread that records definitions; five times as long by default


def run(given: ParsedArguments) -> int:
    """Serve clients until they, or the user, have had enough."""
    try:
        _refuse_misuse(given)
        return _run(given)
    except (ByleaveError, ConfigErrors) as error:
        complain(f"byleave: {shown_lines(str(error))}")  # also with --json: the client does not expect it
        return error.exit_code


def _refuse_misuse(given: ParsedArguments) -> None:
    if any(os.environ.get(name) == value for name, value in BEHIND.items()):
        problem = "this gateway was started as a server of another one"
        raise InputError(problem, hint="take `byleave mcp` out of the .mcp.json, or the [servers], that byleave reads")
    given_modes = [flag for flag in ("stdio", "http", "check") if flag in given.options]
    if len(given_modes) > 1:
        raise InputError(f"--{given_modes[0]} and --{given_modes[1]} exclude each other", hint="give one of them")
    if given.one("agent") is not None and given.one("http") is not None:
        hint = "over HTTP every client says who it is: see `byleave agents token`"
        raise InputError("--agent names the one client on standard input", hint=hint)
    if given.one("agent") == "":
        raise InputError("the name of the agent is empty", hint="write --agent NAME, or leave it out")


def _run(given: ParsedArguments) -> int:
    from byleave.cli.mount_command import mount_first

    workspace = open_workspace(given)
    with redirect_stdout(sys.stderr):
        mount_first(given, workspace, own=False)
    policy = load_policy(given, workspace)
    if given.flag("verbose"):
        for line in origins(policy):
            complain(f"byleave: {line}")
    authorizing: Any = WithRunModes(policy, by_hand=False)
    session = given.one("session") or "default"
    guard = workspace.guard("mcp", policy=authorizing, session=session, asker=CallerAsker())
    try:
        warn_if_read(given, guard.warnings)
        return asyncio.run(_serve(given, workspace, guard))
    finally:
        guard.close()
        warn_if_read(given, guard.troubles)
        gc.freeze()  # what the last collection would find is not worth it, and msgspec 0.22 frees some of it twice


async def _serve(given: ParsedArguments, workspace: Workspace, guard: Guard) -> int:
    sys.setswitchinterval(_TURN)
    over_http = given.one("http") is not None
    gateway = Gateway(
        workspace,
        guard,
        note=lambda sentence: warn_if_read(given, [sentence]),
        over_http=over_http,
        welcome_time=WELCOME_TIME,
    )
    try:
        if given.flag("check"):
            from byleave.cli.mcp_check import check

            return await check(given, gateway)
        gateway.start()
        gc.collect()
        gc.freeze()  # what is there by now stays: no collection has to look at it while clients wait
        address = given.one("http")
        work = _over_stdio(given, gateway) if address is None else _over_http(gateway, address)
        return await _until_stopped(work)
    finally:
        await gateway.close()


async def _over_stdio(given: ParsedArguments, gateway: Gateway) -> int:
    from byleave.gateway.stdio_front import serve_stdio

    if sys.stdin.isatty():
        complain("byleave: this speaks MCP with the client that starts it; `byleave mcp --check` shows what is there")
    agent = given.one("agent") or os.environ.get("BYLEAVE_AGENT") or None
    caller = Caller(agent, "default" if agent is None else "verified", "stdio")
    await serve_stdio(gateway.converse(caller), limit=gateway.settings.max_body)
    return 0


async def _over_http(gateway: Gateway, address: str) -> int:
    from byleave.gateway.http_front import serve_http

    host, port = _host_and_port(address)
    front = await serve_http(gateway, host, port, warn=gateway.note, **gateway.proofs)
    gateway.on_change = front.renew
    for place in front.addresses:
        complain(f"byleave: listening at http://{place.host}:{place.port}/mcp")
    try:
        await asyncio.get_running_loop().create_future()  # until we are stopped
    finally:
        await front.close()
    return 0


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"{quoted(address)} is no HOST:PORT", hint="write --http 127.0.0.1:8808")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


async def _until_stopped(work: Coroutine[Any, Any, int]) -> int:
    """Do the work until it ends, or a signal ends it."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    stopped: list[int] = []

    def stop(number: int) -> None:
        stopped.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        return _ENDED_BY_SIGNAL + stopped[0] if stopped else 1
