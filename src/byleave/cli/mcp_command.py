"""`byleave mcp`: the gateway before every MCP server. Standard output is the client's, and carries nothing of ours.

`byleave mcp --check`: start every server once, and say what it offers, who would see it, what would confine it.
`byleave mcp --check --deploy`: say what is unsafe where several people share it (`deploy_check`).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from byleave.cli.mcp_workers import Workers, read_count
from byleave.cli.mount_command import mount_first
from byleave.cli.output import complain, fitted, paint, say, say_json
from byleave.cli.shared_store import hide_variables, open_shared
from byleave.cli.workspace import load_policy, open_workspace, origins
from byleave.core.action import LOCAL
from byleave.core.url import parse_url
from byleave.errors import ByleaveError, ConfigError, ConfigErrors, InputError
from byleave.gateway.access_log import AccessLog
from byleave.gateway.catalog import Visibility
from byleave.gateway.context import client_approval
from byleave.gateway.gateway import Gateway
from byleave.gateway.http_front import ROUTES, serve_http
from byleave.gateway.interfaces import Caller, DownError
from byleave.gateway.local_tools import CallerAsker
from byleave.gateway.log_lines import JSON, Log
from byleave.gateway.pins import HAS_CHANGED, hidden_characters, named_characters, rows
from byleave.gateway.replica_directory import SharedDirectory, StaticDirectory, new_name
from byleave.gateway.replicas import Replicas
from byleave.gateway.server_info import WELCOME_TIME
from byleave.gateway.server_listing import KINDS
from byleave.gateway.spawn import BEHIND
from byleave.gateway.stdio_front import serve_stdio
from byleave.gateway.telemetry_plan import plan_telemetry
from byleave.guard.open_guard import guard_for
from byleave.net.peers import PeerAddress
from byleave.store.tool_definitions import INSTRUCTIONS
from byleave.text import quoted, shown, shown_lines
from byleave.toolhost.authorize import WithRunModes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
    from typing import Any

    from byleave.cli.arguments import ParsedArguments
    from byleave.cli.mcp_workers import WorkerPlace
    from byleave.gateway.session import Session
    from byleave.guard.guard import Guard
    from byleave.policy.load import Workspace
    from byleave.policy.servers import ServerConfig
    from byleave.store.postgres.shared_store import SharedStore


_ENDED_BY_SIGNAL = 128
_TURN = 0.001  # seconds that the loop waits for a thread that records definitions; five times as long by default
_YOUNG = 10_000  # values that are made and not dropped before the next collection; 700 by default


def run(given: ParsedArguments) -> int:
    """Serve clients until they, or the user, have had enough."""
    try:
        _refuse_misuse(given)
        place = _worker(given)
        return place if isinstance(place, int) else _run(given, place)
    except (ByleaveError, ConfigErrors) as error:
        complain(
            fitted(f"byleave: {shown_lines(str(error))}", sys.stderr)
        )  # also with --json: the client does not expect it
        return error.exit_code


def _refuse_misuse(given: ParsedArguments) -> None:
    if any(os.environ.get(name) == value for name, value in BEHIND.items()):
        problem = "this gateway was started as a server of another one"
        raise InputError(problem, hint="take `byleave mcp` out of the .mcp.json, or the [servers], that byleave reads")
    is_deploy = given.flag("deploy")
    if is_deploy and not given.flag("check"):
        raise InputError("--deploy says what --check looks at", hint="write byleave mcp --check --deploy")
    modes = (
        ("stdio", "check") if is_deploy else ("stdio", "http", "check")
    )  # with --deploy, --http says where it listens
    given_modes = [flag for flag in modes if flag in given.options]
    if len(given_modes) > 1:
        raise InputError(f"--{given_modes[0]} and --{given_modes[1]} exclude each other", hint="give one of them")
    if given.one("agent") is not None and given.one("http") is not None:
        hint = "over HTTP every client says who it is: see `byleave agents token`"
        raise InputError("--agent names the one client on standard input", hint=hint)
    if given.one("agent") == "":
        raise InputError("the name of the agent is empty", hint="write --agent NAME, or leave it out")
    if given.one("peers") is not None and given.one("http") is None:
        raise InputError("--peers is for gateways over HTTP", hint="add --http HOST:PORT, or leave --peers out")
    if given.one("workers") is not None and given.one("http") is None:
        hint = "one client on standard input is served by one process; add --http HOST:PORT, or leave --workers out"
        raise InputError("--workers is for clients over HTTP", hint=hint)


def _worker(given: ParsedArguments) -> WorkerPlace | int | None:
    """Become one of several workers, where there are any; in their parent, return the exit code when all have ended."""
    count = 1 if given.one("workers") is None else read_count(given.one("workers") or "")
    return None if count == 1 else Workers(*_host_and_port(given.one("http") or ""), count).start()


def _run(given: ParsedArguments, place: WorkerPlace | None) -> int:
    workspace = open_workspace(given)
    if place is None or place.is_first:
        with redirect_stdout(sys.stderr):
            mount_first(given, workspace, own=False)
    policy = load_policy(given, workspace)
    if given.flag("verbose"):
        for line in origins(policy):
            complain(fitted(f"byleave: {line}", sys.stderr))
    if given.flag("deploy"):
        from byleave.cli.deploy_check import check_deployment  # heavy: the service of clients needs none of it

        address = given.one("http")
        return check_deployment(given, workspace, policy, None if address is None else _host_and_port(address)[0])
    authorizing: Any = WithRunModes(policy, by_hand=False)
    session = given.one("session") or "default"
    approval = client_approval(over_http=given.one("http") is not None)
    shared = open_shared(workspace, policy.compiled.settings)
    hide_variables()
    form = "text" if given.flag("check") else policy.compiled.gateway.log_format
    warning = paint("byleave: warning:", "ask", sys.stderr)
    log = Log(form, warning=warning, is_quiet=given.flag("quiet"))
    if shared is not None and not given.flag("check"):
        shared.use_spool(workspace.homes.state, policy.compiled.settings, log.note)
    guard = guard_for(
        workspace,
        "mcp",
        client_approves=approval,
        policy=authorizing,
        session=session,
        asker=CallerAsker(),
        shared=shared,
    )
    try:
        if shared is not None:
            shared.maintain(policy.compiled.settings, log.note)
        for sentence in guard.warnings:
            log.note(sentence)
        loop = None if given.one("http") is None else event_loop(os.environ)
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(_serve(given, workspace, guard, log, shared=shared, place=place))
    finally:
        guard.close()
        if shared is not None:
            shared.close()
        for sentence in guard.troubles:
            log.note(sentence)
        log.close()
        gc.freeze()  # what the last collection would find is not worth it, and msgspec 0.22 frees some of it twice


def event_loop(environment: Mapping[str, str]) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the event loop: uvloop's, where it is installed and BYLEAVE_LOOP is not `asyncio`."""
    said = environment.get("BYLEAVE_LOOP", "")
    if said not in ("", "asyncio", "uvloop"):
        raise InputError(f"BYLEAVE_LOOP is {quoted(said)}", hint="set it to asyncio or uvloop, or not at all")
    if said == "asyncio":
        return None
    try:
        return cast("Callable[[], asyncio.AbstractEventLoop]", import_module("uvloop").new_event_loop)
    except ImportError:
        if said:
            raise InputError(
                "BYLEAVE_LOOP is uvloop, which is not here", hint="pip install 'byleave[uvloop]'"
            ) from None
        return None


async def _serve(
    given: ParsedArguments,
    workspace: Workspace,
    guard: Guard,
    log: Log,
    *,
    shared: SharedStore | None,
    place: WorkerPlace | None,
) -> int:
    sys.setswitchinterval(_TURN)
    gateway = Gateway(
        workspace,
        guard,
        note=log.note,
        welcome_time=WELCOME_TIME,
        shared=shared,
    )
    try:
        if given.flag("check"):
            return await check(given, gateway)
        send_telemetry(gateway, os.environ)
        gateway.metrics.dropped["log_lines"] = lambda: log.writer.dropped
        gateway.start()
        gc.collect()
        gc.freeze()  # what is there by now stays: no collection has to look at it while clients wait
        gc.set_threshold(_YOUNG)  # a call makes and drops hundreds of values, and hardly any cycle
        address = given.one("http")
        work = _over_stdio(given, gateway) if address is None else _over_http(given, gateway, log, place)
        return await _until_stopped(work)
    finally:
        await gateway.close()


def send_telemetry(gateway: Gateway, environment: Mapping[str, str]) -> None:
    """Have telemetry sent, if any is to be sent.

    A ConfigError if the configuration asks for what cannot be done. Where only the environment asks, it is a note.
    """
    settings = gateway.settings.telemetry
    try:
        plan = plan_telemetry(settings, environment)
        if plan is None:
            return
        try:
            from byleave.gateway.telemetry import Telemetry  # the SDK takes long to load, and may not be there

            telemetry = Telemetry(plan, gateway.note)
        except ImportError:
            raise ConfigError(
                "telemetry needs the packages of OpenTelemetry, which are not installed",
                hint="pip install 'byleave[otel]'",
            ) from None
        except (ValueError, TypeError, RuntimeError) as error:  # its words may repeat a variable that holds a token
            raise ConfigError(
                f"the SDK of OpenTelemetry cannot use the environment ({type(error).__name__})",
                hint="look at the variables that begin with OTEL_",
            ) from None
        gateway.send_telemetry(telemetry)
    except ConfigError as error:
        if settings is not None:
            raise
        gateway.note(f"no telemetry is sent, though the environment asks for it: {error.problem} (hint: {error.hint})")


async def _over_stdio(given: ParsedArguments, gateway: Gateway) -> int:
    if sys.stdin.isatty():
        complain("byleave: this speaks MCP with the client that starts it; `byleave mcp --check` shows what is there")
    agent = given.one("agent") or os.environ.get("BYLEAVE_AGENT") or None
    caller = Caller(agent, "default" if agent is None else "verified", "stdio")
    await serve_stdio(gateway.converse(caller), limit=gateway.settings.max_body)
    return 0


def _replicas(given: ParsedArguments, gateway: Gateway, host: str, place: WorkerPlace | None) -> Replicas | None:
    """Return the other processes of this gateway: those on the same store, else the other workers; None without."""
    shared, peers = gateway.context.shared, given.one("peers")
    if shared is None and peers is not None:
        raise InputError("--peers is for gateways that share a store", hint="see [store] url in docs/fleet.md")
    if shared is not None:
        own, holder = (new_name(), new_name()) if place is None else (place.name, place.holder)
        where, port = (host, 0) if peers is None else _host_and_port(peers)
        port += 0 if place is None or not port else place.number  # each worker has one of its own
        at = PeerAddress("127.0.0.1" if where.lower() == "localhost" else where, port)
        replicas = Replicas(own, shared.replica_key, SharedDirectory(shared.replicas, holder), at, gateway.note)
    elif place is not None:
        replicas = Replicas(place.name, place.key, StaticDirectory(place.places), place.places[place.name])
        gateway.context.counter = place.counter
    else:
        return None
    gateway.context.replica = replicas.own
    if place is not None:
        replicas.siblings = tuple([name for name in place.places if name != place.name])
    return replicas


async def _over_http(given: ParsedArguments, gateway: Gateway, log: Log, place: WorkerPlace | None) -> int:
    host, port = _host_and_port(given.one("http") or "")
    replicas = _replicas(given, gateway, host, place)
    port = port if place is None else place.port
    access_log, settings = None, gateway.settings
    if settings.access_log or settings.log_format == JSON or gateway.context.tracer is not None:
        access_log = AccessLog(log, where=settings.access_log, paths=ROUTES, knows=gateway.metrics.knows)
        gateway.metrics.dropped["access_lines"] = lambda: access_log.dropped
    front = await serve_http(
        gateway,
        host,
        port,
        warn=gateway.note,
        access_log=access_log,
        replicas=replicas,
        reuse_port=place is not None,
        **gateway.proofs,
    )
    gateway.on_change = front.renew
    for at in front.addresses if place is None or place.is_first else ():
        log.say(f"listening at http://{at.host}:{at.port}/mcp")
    if place is not None:
        place.ready()
        if place.instead_of:
            log.note(f"a worker ended by {place.instead_of}, and another one serves in its place")
    try:
        await asyncio.get_running_loop().create_future()  # until we are stopped
    finally:
        try:
            await front.drain()  # a second signal ends it
        finally:
            await front.close()
            if access_log is not None:
                access_log.close()
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


_UNNAMED = "(no agent named)"
_LABELS = {kind: each.what or kind for kind, each in KINDS.items()} | {INSTRUCTIONS: INSTRUCTIONS}
_CHANGED = "its definition has changed since it was approved"


class Hidden(Struct, frozen=True):
    """Something that is hidden because its definition is not approved."""

    kind: str  # as in KINDS, or instructions
    name: str
    why: str
    approval: str  # the id of what to approve


class Unseen(Struct, frozen=True):
    """A definition that holds characters which no reader sees."""

    kind: str
    name: str
    definition: str  # canonical JSON
    characters: tuple[str, ...]


class ServerCheck(Struct, frozen=True):
    """What one server said when it was started."""

    name: str
    problem: str = ""
    offers: Mapping[str, tuple[str, ...]] = {}
    unlisted: Mapping[str, str] = {}  # kinds that it does not list though it has them, each with why
    hidden: tuple[Hidden, ...] = ()
    unseen: tuple[Unseen, ...] = ()


async def check(given: ParsedArguments, gateway: Gateway) -> int:
    """Start every server once; the exit code is 1 if one of them cannot be used."""
    session = gateway.converse(Caller(None, "default", "check"))
    names = [name for name, server in gateway.servers.items() if server.enabled]
    found = await asyncio.gather(*(_found(session, name) for name in names))
    if gateway.guard.policy.compiled.tools:
        found.append(await _found(session, LOCAL))
    if given.flag("json"):
        say_json({"servers": [_tree(gateway, each) for each in found], "agents": _agents_tree(gateway, found)})
    else:
        for line in _lines(gateway, found):
            say(fitted(line))
    return 1 if not found or any(each.problem for each in found) else 0


async def _found(session: Session, name: str) -> ServerCheck:
    offers, unlisted = {}, {}
    unseen: list[Unseen] = []
    for kind in KINDS:
        try:
            offers[kind] = tuple(await session.catalog.all_of(kind, name))
            unseen += [each async for each in _unseen(session, kind, name)]
        except DownError as error:
            if kind == "tools" or not session.servers.is_up(name):
                return ServerCheck(name, f"{error.problem} ({error.hint})")
            unlisted[kind] = error.problem
    await session.info.instructions(name)
    hidden = [Hidden(kind, each.name, _why(each.why), each.id) for kind, each in session.catalog.hidden_of(name)]
    return ServerCheck(name, "", offers, unlisted, tuple(hidden), tuple(unseen))


def _why(why: str) -> str:
    return _CHANGED if why == HAS_CHANGED else f"its definition {why}"


async def _unseen(session: Session, kind: str, name: str) -> AsyncIterator[Unseen]:
    """Yield what a server lists with characters that no reader sees, approved or not."""
    for definition in (await session.catalog.catalog(kind, name)).definitions:
        found = hidden_characters(definition.text)
        if found:
            yield Unseen(kind, definition.tool, definition.text, tuple(named_characters(found)))


def _agents(gateway: Gateway) -> list[str | None]:
    compiled = gateway.guard.policy.compiled
    named = [name for layer in compiled.layers if layer.trusted for name in layer.tree.get("agents", {})]
    return [*dict.fromkeys(named), None]


def _seen(gateway: Gateway, agent: str | None, found: list[ServerCheck]) -> dict[str, list[str]]:
    view = Visibility(gateway.guard.policy, agent)
    reachable = view.servers()
    return {
        each.name: [tool for tool in each.offers.get("tools", ()) if view.shows_tool(each.name, tool)]
        for each in found
        if each.name in reachable and not each.problem
    }


def _agents_tree(gateway: Gateway, found: list[ServerCheck]) -> dict[str, Any]:
    return {agent or "": _seen(gateway, agent, found) for agent in _agents(gateway)}


def _tree(gateway: Gateway, found: ServerCheck) -> dict[str, Any]:
    server = gateway.servers.get(found.name)
    tree: dict[str, Any] = {"name": found.name, "ok": not found.problem}
    if found.problem:
        tree["problem"] = found.problem
    if server is not None and server.transport == "stdio":
        tree["access"] = None if server.has_access else "\n".join(_access(gateway, server))
    tree |= {kind: list(names) for kind, names in found.offers.items()}
    if found.unlisted:
        tree["unlisted"] = dict(found.unlisted)
    if found.hidden:
        tree["hidden"] = [
            {_LABELS[each.kind]: each.name, "why": each.why, "approval": each.approval} for each in found.hidden
        ]
    if found.unseen:
        tree["unseen"] = [
            {
                _LABELS[each.kind]: each.name,
                "characters": list(each.characters),
                "definition": json.loads(each.definition),
            }
            for each in found.unseen
        ]
    return tree


def _lines(gateway: Gateway, found: list[ServerCheck]) -> Iterator[str]:
    if not found:
        yield "no server is in effect: write [servers.NAME] into byleave.toml, or trust the file that has them already"
        yield "  hint: byleave trust"
    for each in found:
        yield from _server_lines(gateway, each)
    for agent in _agents(gateway) if found else ():
        yield paint(f"agent {shown(agent) if agent is not None else _UNNAMED}", "bold")
        seen = _seen(gateway, agent, found)
        for name, tools in seen.items():
            total = next(len(each.offers.get("tools", ())) for each in found if each.name == name)
            yield f"  {name}: {len(tools)} of {total} tools{_listed(tools) if tools else ''}"
        if not seen:
            yield "  sees no server"


def _named(kind: str) -> str:
    return "" if kind == "tools" else f"the {_LABELS[kind].replace('_', ' ')} "


def _listed(tools: list[str]) -> str:
    return f": {', '.join(shown(tool) for tool in tools)}"


def _server_lines(gateway: Gateway, found: ServerCheck) -> Iterator[str]:
    heading = paint(found.name, "bold")
    if found.problem:
        why = found.problem.removeprefix(f"the server {quoted(found.name)} cannot be used: ")  # the heading says it
        yield f"{heading}: {paint('cannot be used', 'deny')}: {shown_lines(why)}"
        return
    counts = [f"{len(names)} {kind}" for kind, names in found.offers.items() if names]
    yield f"{heading}: {', '.join(counts) or 'offers nothing'}"
    for kind, why in found.unlisted.items():
        yield f"  its {kind} cannot be listed: {shown_lines(why)}"
    for each in found.hidden:
        named = f"{_named(each.kind)}{shown(each.name)} is {paint('hidden', 'deny')}"
        yield f"  {named}: {each.why}; see `byleave approvals approve {each.approval}`"
    for unseen in found.unseen:
        yield f"  {_named(unseen.kind)}{shown(unseen.name)} holds characters that are not seen:"
        yield from (f"    {character}" for character in unseen.characters)
        yield from (f"    | {row}" for row in rows(unseen.definition))
    server = gateway.servers.get(found.name)
    if server is not None and server.transport == "stdio" and not server.has_access:
        yield "  it has no access table; this one would confine it to what it has used now:"
        for line in _access(gateway, server):
            yield f"    {line}"


def _access(gateway: Gateway, server: ServerConfig) -> Iterator[str]:
    """Yield the table that confines a server to what it used while it was started."""
    yield f"[[servers.{server.name}.access.fs]]"
    yield 'path = "."'
    yield "read = true"
    for place in sorted(gateway.visited.get(server.tool, ())):
        target = parse_url(place)
        yield f"[[servers.{server.name}.access.net]]"
        yield f'host = "{shown(getattr(target, "host", ""))}"'
        yield f'scheme = "{shown(getattr(target, "scheme", ""))}"'
        yield "allow = true"
