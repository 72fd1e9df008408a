"""What is unsafe about a gateway that several people share: `byleave mcp --check --deploy`. Pure.

Facts come in (`DeploymentFacts`), findings go out, the gravest first. An error is what lets a stranger in, gives a
secret away, or loosens what the policy says. A warning is a line of defence that is missing. A note is a choice that
somewhere else would be another.

| table      | what it is about                                   |
|------------|----------------------------------------------------|
| `_callers` | who may call, and by which proof                   |
| `_wires`   | what travels, over which connections               |
| `_limits`  | how much one caller may take, what is kept of it   |
| `_store`   | the database that replicas share                   |
| `_servers` | what servers are given, and what holds them        |
| `_machine` | the user, the files and the kernel under all of it |

Start at `deployment_findings`. The facts are gathered in `cli.deploy_check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.analysis.findings import ERROR, NOTE, SEVERITIES, WARNING
from byleave.core.observing import OBSERVE
from byleave.core.url import BadUrl, parse_url
from byleave.gateway.http_trust import is_loopback_host
from byleave.policy.gateway_settings import ASK_NEW, CLIENT
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from byleave.policy.gateway_settings import GatewaySettings, Network

ANYWHERE = "0.0.0.0"  # noqa: S104 -- the address that counts where none is given: the one that all can reach
_WRITABLE, _OTHERS = 0o022, 0o004  # bits of a mode: what others can write, what all others can read
_GROUP, _STICKY = 0o040, 0o1000  # in a sticky directory only owners exchange what is there
_FEW_DAYS = 30  # that records are kept: an incident is often found weeks later
_WIDEST = {4: 16, 6: 48}  # bits of a network of public addresses that one organisation may have
_VERIFIED, _ENCRYPTED = "verify-full", ("require", "verify-ca")  # words of libpq's sslmode
_DEBUGGING = ("PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONINSPECT", "PYTHONPATH", "PYTHONSTARTUP")
_SPARE_FILES = 200  # descriptors beside those of connections: servers, logs, the database

# code: severity, and how to mend it
CODES: Mapping[str, tuple[str, str]] = {
    "no_identity": (ERROR, "give each agent a token (`byleave agents token NAME`), or configure [[gateway.issuers]]"),
    "unknown_agents": (ERROR, "remove deny_on_missing_agent = false"),
    "client_approves": (ERROR, 'write [gateway] approve = "person"'),
    "plain_http": (ERROR, "listen on 127.0.0.1 behind a proxy with TLS, or name that proxy in trusted_proxies"),
    "wide_proxies": (ERROR, "name the addresses of your proxies alone"),
    "public_url_plain": (ERROR, "write the https URL that clients use"),
    "server_plain_http": (ERROR, "reach the server by https, or on this machine"),
    "secret_in_file": (ERROR, "write ${VARIABLE}, and set the variable where the gateway is started"),
    "store_plain": (ERROR, "add ?sslmode=verify-full to the address, or set PGSSLMODE=verify-full"),
    "store_password": (ERROR, "take the password out of the address, and name a file in PGPASSFILE"),
    "store_key_missing": (ERROR, "put 64 hexadecimal digits into the file store.key beside config.toml, mode 400"),
    "store_key_readable": (ERROR, "run: chmod 400 on it, as the user of the gateway"),
    "store_lent": (ERROR, "take the variable out of the server's env and access.env"),
    "sandbox_off": (ERROR, 'remove os_sandbox = "off"'),
    "sandbox_missing": (ERROR, "see `byleave doctor`; in a container: docs/deploy.md"),
    "root_user": (ERROR, "start the gateway as a user of its own, without rights"),
    "file_writable": (ERROR, "have root own it, and run: chmod go-w"),
    "clock_wrong": (ERROR, "set the clock, and keep it with a time service: tokens expire by it"),
    "identity_optional": (WARNING, "write [gateway] require_identity = true"),
    "default_agent": (WARNING, "write [gateway] require_identity = true, or remove the default agent"),
    "observe_mode": (WARNING, "remove [defaults] mode"),
    "no_public_url": (WARNING, "write [gateway] public_url: clients find the issuer by it"),
    "issuer_plain": (WARNING, "reach the issuer by https"),
    "telemetry_plain": (WARNING, "send telemetry by https, or to a collector on this machine"),
    "no_rate": (WARNING, "write [gateway] rate, calls a minute of one agent, or [[gateway.limits]]"),
    "short_audit": (WARNING, f"keep records for {_FEW_DAYS} days or more: [audit] keep_days"),
    "pins_off": (WARNING, "remove [gateway] pin_tools = false"),
    "store_unverified": (WARNING, "use sslmode=verify-full, with sslrootcert"),
    "store_password_exposed": (WARNING, "put the password into a file, and name it in PGPASSFILE"),
    "store_key_exposed": (WARNING, "put the key into the file store.key beside config.toml, and unset the variable"),
    "server_open": (WARNING, "write the access table that `byleave mcp --check` prints"),
    "sandbox_weaker": (WARNING, "allow user namespaces to the gateway: docs/deploy.md"),
    "landlock_missing": (WARNING, "use a kernel with Landlock, from 5.13 on, and have it switched on"),
    "clock_unsynchronized": (WARNING, "run a time service: tokens expire by the clock"),
    "debugging": (WARNING, "unset the variable"),
    "core_dumps": (WARNING, "set the limit to 0: LimitCORE=0, or ulimit -c 0"),
    "few_files": (WARNING, "raise the limit of open files: LimitNOFILE, or ulimit -n"),
    "own_files": (NOTE, "point [store] url at PostgreSQL before a second replica is started: docs/fleet.md"),
    "spooling": (NOTE, "keep the state directory on a disk that outlives the process"),
    "no_result_limit": (NOTE, "write [gateway] max_result"),
    "no_access_log": (NOTE, "write [gateway] access_log = true"),
    "new_tools": (NOTE, 'write [gateway] new_tools = "ask"'),
    "default_retention": (NOTE, "write [audit] keep_days, as your rules for records say"),
    "project_file": (NOTE, "name the gateway's file by --policy, outside of the workspace"),
    "metrics_unproven": (NOTE, "give that agent a token, or remove it from metrics_agents"),
    "own_code": (NOTE, "have root own what is installed"),
}


class DeploymentFinding(Struct, frozen=True):
    """One finding; `where` is a file and its line, a path, a variable, or empty."""

    code: str
    message: str
    where: str = ""

    @property
    def severity(self) -> str:
        return CODES[self.code][0]

    @property
    def fix(self) -> str:
        return CODES[self.code][1]

    @property
    def tree(self) -> dict[str, str]:
        """The finding for programs."""
        return {key: getattr(self, key) for key in ("code", "severity", "message", "where", "fix")}


class PlaceFacts(Struct, frozen=True):
    """A file or a directory: what it is to the gateway, whose, and with which mode."""

    what: str
    path: str
    owner: int
    group: int
    mode: int


class ServerFacts(Struct, frozen=True):
    """A server: what is known of it without starting it. `literals` are names of secrets that stand in the file."""

    name: str
    where: str
    is_started: bool = False  # by the gateway, as a process
    has_access: bool = False
    url: str = ""
    literals: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()  # variables of the database that it may read


class StoreFacts(Struct, frozen=True):
    """The database that gateways share. `key` says where its key is: "environment", "file", or nowhere."""

    hosts: tuple[str, ...]
    sslmode: str
    has_password: bool
    key: str
    key_file: PlaceFacts | None = None
    on_failure: str = "deny"
    where: str = ""


class HostFacts(Struct, frozen=True):
    """What is under the gateway: its user, the sandbox, the clock, and the limits of its process.

    `sandbox` is empty where none works; `weaker` is what it does not hold. `is_synchronized` None: not known.
    """

    user: int = 1000
    groups: frozenset[int] = frozenset()
    sandbox: str = "namespaces"
    weaker: str = ""
    landlock: int = 6
    is_late: bool = False  # the clock is behind the installation of byleave itself
    is_synchronized: bool | None = True
    core_size: int = 0
    open_files: int = 1 << 16
    environment: frozenset[str] = frozenset()  # names of variables that are set


class DeploymentFacts(Struct, frozen=True):
    """All that is looked at. `places` are where settings stand, by their names with dots."""

    settings: GatewaySettings
    address: str = ANYWHERE
    defaults: Mapping[str, Any] = {}
    audit: Mapping[str, Any] = {}
    bound: frozenset[str] = frozenset()  # agents that prove who they are
    has_default_agent: bool = False
    project_files: tuple[str, ...] = ()  # files of the workspace that count
    servers: tuple[ServerFacts, ...] = ()
    has_local_tools: bool = False
    store: StoreFacts | None = None
    files: tuple[PlaceFacts, ...] = ()
    host: HostFacts = HostFacts()
    places: Mapping[str, str] = {}

    def at(self, setting: str) -> str:
        """Return where a setting stands; empty where it is not written down."""
        return self.places.get(setting, "")


def deployment_findings(facts: DeploymentFacts) -> list[DeploymentFinding]:
    """Return what is unsafe, the gravest first."""
    parts = (_callers, _wires, _limits, _store, _servers, _machine)
    found = [finding for part in parts for finding in part(facts)]
    return sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))


def _callers(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    settings = facts.settings
    has_identity = bool(facts.bound or settings.all_issuers)
    if not has_identity:
        yield DeploymentFinding("no_identity", "no agent has a token, and no issuer is configured: no caller is known")
    elif not settings.require_identity:
        message = "a program of the gateway's own user needs no token: it may claim to be an agent, and reads /metrics"
        yield DeploymentFinding("identity_optional", message, facts.at("gateway.require_identity"))
        if facts.has_default_agent:
            message = "a caller without a token is the default agent"
            yield DeploymentFinding("default_agent", message, facts.at("gateway.default_agent"))
    if facts.defaults.get("deny_on_missing_agent", True) is False:
        message = "an agent that is not listed counts as the default one, or may call anything"
        yield DeploymentFinding("unknown_agents", message, facts.at("defaults.deny_on_missing_agent"))
    if settings.approve == CLIENT:
        message = "a client approves what the policy asks about: an agent can approve its own calls"
        yield DeploymentFinding("client_approves", message, facts.at("gateway.approve"))
    if facts.defaults.get("mode") == OBSERVE:
        message = "hooks and the ACP proxy only record what the rules decide, wherever this file holds"
        yield DeploymentFinding("observe_mode", message, facts.at("defaults.mode"))
    for agent in [name for name in settings.metrics_agents if name not in facts.bound]:
        message = f"the agent {quoted(agent)} sees the figures of all, and has no token by which it could prove itself"
        yield DeploymentFinding("metrics_unproven", message, facts.at("gateway.metrics_agents"))
    for file in facts.project_files:
        yield DeploymentFinding("project_file", "a file of the workspace counts: who writes there, configures", file)


def _wires(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    settings = facts.settings
    if not is_local(facts.address) and not settings.trusted_proxies:
        message = f"the gateway speaks plain HTTP, and {facts.address} is reached from elsewhere: tokens can be read"
        yield DeploymentFinding("plain_http", f"{message} on the way, unless a proxy with TLS is before it")
    for network in settings.trusted_proxies:
        if _is_wide(network):
            message = f"{network} holds addresses of strangers, who could claim to call for any address"
            yield DeploymentFinding("wide_proxies", message, facts.at("gateway.trusted_proxies"))
    if settings.public_url is None and settings.all_issuers:
        yield DeploymentFinding("no_public_url", "clients without a token do not learn where to get one")
    elif settings.public_url is not None and _is_plain(settings.public_url):
        message = "clients are sent to plain http, where their tokens can be read"
        yield DeploymentFinding("public_url_plain", message, facts.at("gateway.public_url"))
    for each in settings.all_issuers:
        if _is_plain(each.jwks) or (not each.jwks and _is_plain(each.issuer)):
            message = f"the keys of {shown(each.issuer)} come by plain http: who changes them on the way, signs tokens"
            place = "gateway.jwt" if each is settings.jwt else "gateway.issuers"
            yield DeploymentFinding("issuer_plain", message, facts.at(place))
    endpoint = None if settings.telemetry is None else settings.telemetry.endpoint
    if endpoint is not None and _is_plain(endpoint) and not _is_near(endpoint):
        message = "telemetry goes to another machine by plain http"
        yield DeploymentFinding("telemetry_plain", message, facts.at("gateway.telemetry"))


def _limits(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    settings, days = facts.settings, facts.audit.get("keep_days")
    if settings.rate is None and not any(limit.rate for limit in settings.limits):
        yield DeploymentFinding(
            "no_rate", "one agent may call as often as it can, and take the servers from all others"
        )
    if settings.max_result is None:
        yield DeploymentFinding("no_result_limit", "a result of a server may be of any size")
    if not settings.access_log:
        yield DeploymentFinding("no_access_log", "requests over HTTP are not logged; calls are, in the audit log")
    if days is None:
        yield DeploymentFinding("default_retention", "records are kept for 90 days, because nothing else is said")
    elif days < _FEW_DAYS:
        message = f"records are removed after {days} days: what is found out later cannot be looked up"
        yield DeploymentFinding("short_audit", message, facts.at("audit.keep_days"))
    if not settings.pin_tools:
        message = "a server may change what its tools say of themselves, and no person is asked"
        yield DeploymentFinding("pins_off", message, facts.at("gateway.pin_tools"))
    elif settings.new_tools != ASK_NEW:
        yield DeploymentFinding("new_tools", "tools that a known server adds are served without a person's yes")


def _store(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    store = facts.store
    if store is None:
        yield DeploymentFinding("own_files", "records and approvals are in files of this machine: this is one gateway")
        return
    far = [host for host in store.hosts if not is_local(host)]
    if far and store.sslmode != _VERIFIED:
        named = sentence_list([shown(host) for host in far])
        if store.sslmode in _ENCRYPTED:
            message = f"sslmode={store.sslmode} does not check that it is {named} which answers"
            yield DeploymentFinding("store_unverified", message, store.where)
        else:
            message = f"the connection to {named} may be plain text (sslmode={store.sslmode})"
            yield DeploymentFinding("store_plain", message, store.where)
    if store.has_password:
        message = "the address of the database holds its password, which everyone sees who may look at the process"
        yield DeploymentFinding("store_password", message, store.where)
    if "PGPASSWORD" in facts.host.environment:
        message = (
            "the password of the database is in the environment, where tools that show containers and units show it"
        )
        yield DeploymentFinding("store_password_exposed", message, "PGPASSWORD")
    yield from _key(facts, store)
    if store.on_failure == "spool":
        message = "records wait on this machine while the database is away: with its disk they would be lost"
        yield DeploymentFinding("spooling", message, facts.at("store.on_failure"))


def _key(facts: DeploymentFacts, store: StoreFacts) -> Iterator[DeploymentFinding]:
    if not store.key:
        yield DeploymentFinding("store_key_missing", "there is no key for approvals in the database: nothing starts")
    if store.key == "environment":
        message = "the key of approvals is in the environment, where tools that show containers and units show it"
        yield DeploymentFinding("store_key_exposed", message, "BYLEAVE_STORE_KEY")
    file = store.key_file
    if store.key != "file" or file is None:
        return
    by_others = file.mode & _OTHERS or (file.mode & _GROUP and file.group not in facts.host.groups)
    if by_others:
        message = f"other users can read the key of approvals (mode {file.mode & 0o777:o}): they could approve calls"
        yield DeploymentFinding("store_key_readable", message, file.path)


def _servers(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    for server in facts.servers:
        named = f"the server {shown(server.name)}"
        if server.url and _is_plain(server.url) and not _is_near(server.url):
            message = f"{named} is reached by plain http: calls, results and its token can be read on the way"
            yield DeploymentFinding("server_plain_http", message, server.where)
        if server.literals:
            held = sentence_list([shown(name) for name in server.literals])
            message = f"{named} has {held} written in the file, where everyone finds it who reads the file"
            yield DeploymentFinding("secret_in_file", message, server.where)
        if server.lent:
            message = f"{named} may read {sentence_list(list(server.lent))}, by which it reaches the database"
            yield DeploymentFinding("store_lent", message, server.where)
        if server.is_started and not server.has_access:
            message = f"{named} has no access table: it reads the workspace and reaches every public address"
            yield DeploymentFinding("server_open", message, server.where)
    yield from _sandbox(facts)


def _sandbox(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    """Yield what does not hold the programs that the gateway starts, if it starts any."""
    if not facts.has_local_tools and not any(server.is_started for server in facts.servers):
        return
    if facts.defaults.get("os_sandbox") == "off":
        message = "nothing holds the programs that the gateway starts: they can do whatever it can"
        yield DeploymentFinding("sandbox_off", message, facts.at("defaults.os_sandbox"))
        return
    host = facts.host
    if not host.sandbox:
        yield DeploymentFinding("sandbox_missing", f"no program can be confined here: {host.weaker}")
    elif host.weaker:
        yield DeploymentFinding("sandbox_weaker", f"{host.sandbox} holds the programs: {host.weaker}")
    if not host.landlock:
        yield DeploymentFinding("landlock_missing", "the kernel has no Landlock: one line of defence is missing")


def _machine(facts: DeploymentFacts) -> Iterator[DeploymentFinding]:
    host = facts.host
    if host.user == 0:
        yield DeploymentFinding("root_user", "the gateway runs as root")
    for place in facts.files:
        if place.owner not in (0, host.user):
            message = f"the {place.what} belongs to user {place.owner}, who can change it"
            yield DeploymentFinding("file_writable", message, place.path)
        elif place.mode & _WRITABLE and not place.mode & _STICKY:
            message = f"others can change the {place.what} (mode {place.mode & 0o7777:o})"
            yield DeploymentFinding("file_writable", message, place.path)
        elif place.what == "code" and place.owner == host.user != 0:
            yield DeploymentFinding("own_code", "the user of the gateway can change the gateway's code", place.path)
    if host.is_late:
        yield DeploymentFinding("clock_wrong", "the clock is behind the time at which byleave was installed")
    elif host.is_synchronized is False:
        yield DeploymentFinding("clock_unsynchronized", "the kernel says that no time service keeps the clock")
    for name in [name for name in _DEBUGGING if name in host.environment]:
        yield DeploymentFinding("debugging", "Python loads other code by it, or says more than it should", name)
    if host.core_size:
        yield DeploymentFinding("core_dumps", "a crash writes the memory to a file, with the tokens that are in it")
    if host.open_files < facts.settings.max_connections + _SPARE_FILES:
        message = f"{host.open_files} open files are too few for {facts.settings.max_connections} connections"
        yield DeploymentFinding("few_files", message, facts.at("gateway.max_connections"))


def is_local(host: str) -> bool:
    """Whether a host is this machine: loopback, or a directory of a socket; nothing is looked up."""
    return not host or host.startswith(("/", "@")) or is_loopback_host(host)


def _is_wide(network: Network) -> bool:
    return network.prefixlen < _WIDEST[network.version] and not network.is_private


def _is_plain(url: str) -> bool:
    return url.lower().startswith("http://")


def _is_near(url: str) -> bool:
    target = parse_url(url)
    return not isinstance(target, BadUrl) and is_local(target.host)
