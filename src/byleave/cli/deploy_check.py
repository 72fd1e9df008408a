"""`byleave mcp --check --deploy`: what is unsafe about this gateway where several people share it.

Gathers facts: from the configuration, the environment, files and the kernel. No server is started, and no database is
asked. What the facts mean is said in `analysis.deployment`.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

import byleave
from byleave.analysis.deployment import (
    ANYWHERE,
    CODES,
    DeploymentFacts,
    HostFacts,
    PlaceFacts,
    ServerFacts,
    StoreFacts,
    deployment_findings,
)
from byleave.analysis.findings import ERROR, NOTE, SEVERITIES, WARNING
from byleave.cli.doctor_command import HeldBy, held_by, requires_sandbox
from byleave.cli.output import fitted, paint, say, say_json
from byleave.core.action import EnvAction
from byleave.core.agents import DEFAULT
from byleave.core.decide import decide
from byleave.core.decision import ALLOW
from byleave.core.redact import Redactor, is_secret_name
from byleave.errors import ByleaveError
from byleave.policy.layers import LOCAL, PROJECT, locate_layer
from byleave.sandbox import host
from byleave.sandbox.linux.backends import Machine
from byleave.sandbox.native.build import find_launcher
from byleave.store.address import KEY_VARIABLE, VARIABLE, chosen_store, has_password
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from byleave.analysis.deployment import DeploymentFinding
    from byleave.cli.arguments import ParsedArguments
    from byleave.policy.layers import Layer
    from byleave.policy.live_policy import LivePolicy
    from byleave.policy.load import Workspace
    from byleave.policy.servers import ServerConfig

_PAINTS = {ERROR: "deny", WARNING: "ask", NOTE: "dim"}
_TABLES = ("gateway", "defaults", "audit", "store")
_DATABASE = ("PGPASSWORD", "PGPASSFILE", VARIABLE, KEY_VARIABLE)  # by which a program reaches the database
_USUAL_SSLMODE = "prefer"  # of libpq: plain text, if the database has no TLS
_KEY_FILE = "store.key"
_UNSYNCHRONIZED = 5  # TIME_ERROR of adjtimex(2)
_TIMEX = 512  # bytes: more than struct timex has on any machine


def check_deployment(given: ParsedArguments, workspace: Workspace, policy: LivePolicy, address: str | None) -> int:
    """Print every finding; exit 1 if one of them is an error. `address` is the host that it listens at, if given."""
    findings = deployment_findings(gather_facts(workspace, policy, address, os.environ))
    failed = any(finding.severity == ERROR for finding in findings)
    if given.flag("json"):
        say_json({"findings": [finding.tree for finding in findings], "ok": not failed})
    else:
        _show(findings, is_quiet=given.flag("quiet"))
    return int(failed)


def _show(findings: Sequence[DeploymentFinding], *, is_quiet: bool) -> None:
    for finding in findings:
        where = f" {shown(finding.where)}" if finding.where else ""
        say(fitted(f"{paint(finding.severity, _PAINTS[finding.severity])} {paint(finding.code, 'bold')}{where}"))
        if not is_quiet:
            say(fitted(f"  {finding.message}"))
            say(fitted(f"  fix: {finding.fix}"))
    if not is_quiet:
        counts = [(each, sum(finding.severity == each for finding in findings)) for each in reversed(SEVERITIES)]
        words = [f"{number} {each}{'' if number == 1 else 's'}" for each, number in counts if number]
        say(f"{', '.join(words) or 'nothing'} of {len(CODES)} things that are looked at")


def gather_facts(
    workspace: Workspace, policy: LivePolicy, address: str | None, environ: Mapping[str, str]
) -> DeploymentFacts:
    """Look at everything that the findings rest on."""
    compiled = policy.compiled
    trusted = [layer for layer in compiled.layers if layer.trusted]
    places = dict(_places(trusted))
    servers = tuple([_server(each, policy) for each in compiled.servers.values() if each.enabled])
    starts = bool(compiled.tools) or any(server.is_started for server in servers)
    agents = [name for layer in trusted for name in layer.tree.get("agents", {})]
    return DeploymentFacts(
        compiled.gateway,
        ANYWHERE if address is None else address,
        defaults=compiled.settings.get("defaults", {}),
        audit=compiled.settings.get("audit", {}),
        bound=compiled.bound_agents,
        has_default_agent=compiled.gateway.default_agent is not None or DEFAULT in agents,
        project_files=tuple([layer.file or "" for layer in trusted if layer.name in (PROJECT, LOCAL)]),
        servers=servers,
        has_local_tools=bool(compiled.tools),
        store=_store(workspace, policy, environ, places),
        files=tuple(_files(trusted)),
        host=_host(workspace, policy, environ, starts=starts),
        places=places,
    )


def _places(layers: Sequence[Layer]) -> Iterator[tuple[str, str]]:
    """Yield where settings stand; of a setting that several files have, the strongest comes last."""
    for layer in layers:
        keys = [(table, key) for table in _TABLES for key in layer.tree.get(table, {}) if not key.startswith("#")]
        if layer.file is None or not keys:
            continue
        spots = locate_layer(layer)
        for at in keys:
            yield ".".join(at), layer.source(spots.line((*layer.inside, *at[layer.around :])))


def _server(server: ServerConfig, policy: LivePolicy) -> ServerFacts:
    plain = Redactor()
    named = [name for name, value in (*server.env.items(), *server.headers.items()) if _is_literal(name, value)]
    words = [word for word in (*(server.command or ()), server.url or "") if "${" not in word]
    held = ["a secret in its command or URL"] if any(plain.text(word) != word for word in words) else []
    is_started = server.transport == "stdio"
    lent = [name for name in _DATABASE if name in server.variables or (is_started and _may_read(server, name, policy))]
    return ServerFacts(
        server.name,
        server.source,
        is_started=is_started,
        has_access=server.has_access,
        url=server.url or "",
        literals=(*named, *held),
        lent=tuple(lent),
    )


def _may_read(server: ServerConfig, name: str, policy: LivePolicy) -> bool:
    return decide(policy.compiled.policy, EnvAction(name, server.tool)).decision is ALLOW


def _is_literal(name: str, value: str) -> bool:
    return bool(value.strip()) and "${" not in value and is_secret_name(name)


def _store(
    workspace: Workspace, policy: LivePolicy, environ: Mapping[str, str], places: Mapping[str, str]
) -> StoreFacts | None:
    settings = policy.compiled.settings
    address = chosen_store(settings, environ)
    if address is None:
        return None
    hosts, parameters = _read_url(address.url)
    file = os.path.join(workspace.homes.config, _KEY_FILE)
    found = _place("key", file)
    key = "environment" if environ.get(KEY_VARIABLE) else "file" if found is not None else ""
    return StoreFacts(
        hosts or tuple(environ.get("PGHOST", "").split(",")),
        parameters.get("sslmode") or environ.get("PGSSLMODE") or _USUAL_SSLMODE,
        has_password(address.url),
        key,
        found,
        on_failure=settings.get("store", {}).get("on_failure", "deny"),
        where=VARIABLE if environ.get(VARIABLE) else places.get("store.url", ""),
    )


def _read_url(url: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the hosts and the parameters of an address that `read_address` took, as libpq reads them."""
    place, _mark, query = url.partition("://")[2].partition("?")
    parameters = dict(parse_qsl(query))
    authority = place.partition("/")[0].rpartition("@")[2]
    named = [unquote(parameters.get(key, "")) for key in ("hostaddr", "host")]
    texts = [*authority.split(","), *(host for text in named for host in text.split(","))]
    return tuple([_without_port(unquote(text)) for text in texts if text]), parameters


def _without_port(text: str) -> str:
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _files(layers: Sequence[Layer]) -> Iterator[PlaceFacts]:
    """Yield the files that decide what the gateway does, and every directory above them, each once."""
    code = os.path.dirname(os.path.realpath(byleave.__file__))
    given = [("configuration", layer.path or layer.file or "") for layer in layers if layer.file is not None]
    named = [
        *given,
        ("code", code),
        *(("interpreter", os.path.realpath(each)) for each in (sys.executable, sys.prefix)),
    ]
    seen: set[str] = set()
    for what, path in named:
        place = os.path.realpath(path)
        found = _place(what, place)
        if found is not None and place not in seen:
            yield found
        seen.add(place)
        while (above := os.path.dirname(place)) != place:
            place = above
            found = None if place in seen else _place(f"directory of the {what}", place)
            seen.add(place)
            if found is not None:
                yield found
    for directory, _directories, files in os.walk(code):
        for name in files:
            found = _place("code", os.path.join(directory, name))
            if found is not None and (found.mode & 0o022 or found.owner not in (0, os.geteuid())):
                yield found


def _place(what: str, path: str) -> PlaceFacts | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return PlaceFacts(what, path, found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


def _host(workspace: Workspace, policy: LivePolicy, environ: Mapping[str, str], *, starts: bool) -> HostFacts:
    """Look at the machine; whether a sandbox works is tried only where something is started."""
    machine = host.this_host(namespaces=True)
    held = HeldBy("namespaces")
    if starts:
        try:
            launcher = find_launcher(workspace.homes.memory)
            held = held_by(Machine(machine, host.base_view(), launcher), exact=requires_sandbox(policy))
        except ByleaveError as error:
            held = HeldBy("", error.problem)
    return HostFacts(
        os.geteuid(),
        frozenset({os.getegid(), *os.getgroups()}),
        held.backend,
        held.weaker,
        machine.landlock,
        is_late=time.time() < os.stat(byleave.__file__).st_mtime,
        is_synchronized=_is_synchronized(),
        core_size=resource.getrlimit(resource.RLIMIT_CORE)[0],
        open_files=_open_files(),
        environment=frozenset(environ),
    )


def _open_files() -> int:
    """Return how many files the gateway may open: it raises its limit as far as it may."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def _is_synchronized() -> bool | None:
    """Whether the kernel knows that its clock is kept; None where it does not say: some containers may not ask."""
    said = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX))
    return None if said < 0 else said != _UNSYNCHRONIZED
