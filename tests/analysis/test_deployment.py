"""What `byleave mcp --check --deploy` makes of facts: each code has a case, and a careful deployment has no finding."""

from ipaddress import ip_network
from typing import Any

import pytest
from msgspec import structs

from byleave.analysis.deployment import (
    CODES,
    DeploymentFacts,
    HostFacts,
    PlaceFacts,
    ServerFacts,
    StoreFacts,
    deployment_findings,
    is_local,
)
from byleave.analysis.findings import SEVERITIES
from byleave.policy.gateway_settings import CallLimit, GatewaySettings, JwtSettings, TelemetrySettings

ISSUER = JwtSettings("https://id.example.com", ("https://mcp.example.com/mcp",))
SETTINGS = GatewaySettings(
    require_identity=True,
    rate=600,
    max_result=1 << 20,
    trusted_proxies=(ip_network("192.0.2.7"),),
    public_url="https://mcp.example.com/mcp",
    issuers=(ISSUER,),
    access_log=True,
    new_tools="ask",
)
KEY = PlaceFacts("key", "/etc/byleave/store.key", 1000, 1000, 0o400)
STORE = StoreFacts(("db.example.com",), "verify-full", has_password=False, key="file", key_file=KEY)
FILE = PlaceFacts("configuration", "/etc/byleave/gateway.toml", 0, 0, 0o644)
TMP = PlaceFacts("directory of the code", "/tmp", 0, 0, 0o1777)
CODE = PlaceFacts("code", "/opt/byleave", 0, 0, 0o755)
SERVERS = (
    ServerFacts("git", "gateway.toml:3", is_started=True, has_access=True),
    ServerFacts("far", "gateway.toml:9", url="https://far.example.com/mcp"),
    ServerFacts("near", "gateway.toml:12", url="http://127.0.0.1:9000/mcp"),
)
CAREFUL = DeploymentFacts(
    SETTINGS,
    audit={"keep_days": 365},
    bound=frozenset({"backend"}),
    servers=SERVERS,
    store=STORE,
    files=(FILE, TMP, CODE),
    host=HostFacts(groups=frozenset({1000})),
    places={"gateway.approve": "gateway.toml:20"},
)


def settings(**changed: Any) -> DeploymentFacts:
    return structs.replace(CAREFUL, settings=structs.replace(SETTINGS, **changed))


def store(**changed: Any) -> DeploymentFacts:
    return structs.replace(CAREFUL, store=structs.replace(STORE, **changed))


def server(**changed: Any) -> DeploymentFacts:
    return structs.replace(CAREFUL, servers=(structs.replace(SERVERS[0], **changed),))


def host(**changed: Any) -> DeploymentFacts:
    return structs.replace(CAREFUL, host=structs.replace(CAREFUL.host, **changed))


def facts(**changed: Any) -> DeploymentFacts:
    return structs.replace(CAREFUL, **changed)


def file(**changed: Any) -> DeploymentFacts:
    return facts(files=(structs.replace(FILE, **changed),))


UNPROVEN = structs.replace(SETTINGS, issuers=(), require_identity=False)
OPTIONAL = structs.replace(SETTINGS, require_identity=False)
CASES: list[tuple[str, DeploymentFacts]] = [
    ("no_identity", facts(settings=UNPROVEN, bound=frozenset())),
    ("identity_optional", facts(settings=OPTIONAL)),
    ("identity_optional default_agent", facts(settings=OPTIONAL, has_default_agent=True)),
    ("unknown_agents", facts(defaults={"deny_on_missing_agent": False})),
    ("client_approves", settings(approve="client")),
    ("observe_mode", facts(defaults={"mode": "observe"})),
    ("metrics_unproven", settings(metrics_agents=("backend", "prometheus"))),
    ("project_file", facts(project_files=("byleave.toml",))),
    ("plain_http", settings(trusted_proxies=())),
    ("plain_http", facts(settings=structs.replace(SETTINGS, trusted_proxies=()), address="::")),
    ("wide_proxies", settings(trusted_proxies=(ip_network("0.0.0.0/1"),))),
    ("wide_proxies", settings(trusted_proxies=(ip_network("2000::/3"),))),
    ("no_public_url", settings(public_url=None)),
    ("public_url_plain", settings(public_url="http://localhost:8808/mcp")),
    ("issuer_plain", settings(issuers=(JwtSettings("http://localhost:9", ("a",)),))),
    ("issuer_plain", settings(jwt=JwtSettings("words", ("a",), "HTTP://127.0.0.1/keys"))),
    ("telemetry_plain", settings(telemetry=TelemetrySettings("http://otel.example.com:4318"))),
    ("no_rate", settings(rate=None)),
    ("no_result_limit", settings(max_result=None)),
    ("no_access_log", settings(access_log=False)),
    ("default_retention", facts(audit={})),
    ("short_audit", facts(audit={"keep_days": 7})),
    ("pins_off", settings(pin_tools=False)),
    ("new_tools", settings(new_tools="serve")),
    ("own_files", facts(store=None)),
    ("store_plain", store(sslmode="prefer")),
    ("store_plain", store(hosts=("127.0.0.1", "db.example.org"), sslmode="disable")),
    ("store_unverified", store(sslmode="require")),
    ("store_password", store(has_password=True)),
    ("store_password_exposed", host(environment=frozenset({"PGPASSWORD"}))),
    ("store_key_missing", store(key="", key_file=None)),
    ("store_key_exposed", store(key="environment")),
    ("store_key_readable", store(key_file=structs.replace(KEY, mode=0o404))),
    ("store_key_readable", store(key_file=structs.replace(KEY, mode=0o440, group=7))),
    ("spooling", store(on_failure="spool")),
    ("server_plain_http", server(url="http://far.example.com/mcp")),
    ("secret_in_file", server(literals=("API_TOKEN",))),
    ("store_lent", server(lent=("PGPASSWORD",))),
    ("server_open", server(has_access=False)),
    ("sandbox_off", facts(defaults={"os_sandbox": "off"})),
    ("sandbox_missing", host(sandbox="", weaker="no namespaces")),
    ("sandbox_weaker", host(sandbox="landlock", weaker="it sees all processes")),
    ("landlock_missing", host(landlock=0)),
    ("root_user", host(user=0)),
    ("file_writable", file(mode=0o664)),
    ("file_writable", file(owner=4711)),
    ("own_code", facts(files=(structs.replace(CODE, owner=1000),))),
    ("clock_wrong", host(is_late=True, is_synchronized=False)),
    ("clock_unsynchronized", host(is_synchronized=False)),
    ("debugging", host(environment=frozenset({"PYTHONPATH", "PATH"}))),
    ("core_dumps", host(core_size=-1)),
    ("few_files", host(open_files=1024)),
]
FINE = [
    facts(settings=structs.replace(SETTINGS, trusted_proxies=()), address="127.0.0.1"),
    settings(trusted_proxies=(ip_network("10.0.0.0/8"), ip_network("fd00::/8"))),
    settings(telemetry=TelemetrySettings("http://127.0.0.1:4318")),
    settings(rate=None, limits=(CallLimit(rate=60),)),
    store(hosts=("/var/run/postgresql", "localhost"), sslmode="prefer"),
    store(key_file=structs.replace(KEY, owner=0, mode=0o440)),
    host(is_synchronized=None),
    facts(servers=SERVERS[1:], defaults={"os_sandbox": "off"}, host=HostFacts(sandbox="", landlock=0)),
]


def test_a_careful_deployment_has_no_finding() -> None:
    assert deployment_findings(CAREFUL) == []


@pytest.mark.parametrize("number", range(len(FINE)))
def test_what_is_safe_in_another_way_has_no_finding(number: int) -> None:
    assert deployment_findings(FINE[number]) == []


@pytest.mark.parametrize(("codes", "given"), CASES, ids=[f"{number}-{code}" for number, (code, _) in enumerate(CASES)])
def test_one_unsafe_fact_is_one_finding(codes: str, given: DeploymentFacts) -> None:
    assert [finding.code for finding in deployment_findings(given)] == codes.split()


def test_every_code_has_a_case_a_severity_and_a_fix() -> None:
    assert {code for codes, _given in CASES for code in codes.split()} == set(CODES)
    assert all(severity in SEVERITIES and fix for severity, fix in CODES.values())


def test_the_gravest_finding_comes_first_and_says_where_it_stands() -> None:
    found = deployment_findings(settings(approve="client", max_result=None, rate=None))
    assert [finding.severity for finding in found] == ["error", "warning", "note"]
    assert found[0].tree == {
        "code": "client_approves",
        "severity": "error",
        "message": "a client approves what the policy asks about: an agent can approve its own calls",
        "where": "gateway.toml:20",
        "fix": 'write [gateway] approve = "person"',
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("/run/postgresql", True),
        ("@abstract", True),
        ("LOCALHOST", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104 -- a text
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1", False),
    ],
)
def test_only_loopback_and_sockets_are_this_machine(text: str, *, expected: bool) -> None:
    assert is_local(text) is expected
