"""The official conformance suite passes through the gateway wherever it passes without it, in both roles. On demand.

The scores that `docs/mcp-conformance.md` names are printed: `BYLEAVE_AGENT_TESTS=1 pytest -n 0 -s` with this file.
"""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agents.conformance import LEGACY, MODERN, NAME, Score, against_client, against_server, reference_server
from agents.real_agents import NotInstalledError
from fakes.mcp_sdk import Place, over_http
from fakes.round_robin import RoundRobin
from postgres_server import KEY, PostgresServer, missing

DOCUMENT = Path(__file__).parents[2] / "docs" / "mcp-conformance.md"
REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with reference_server() as url:
        yield url


def policy_for(server_url: str) -> str:
    return f"""
[gateway]
default_agent = "ops"
[servers.{NAME}]
url = "{server_url}"
[agents.ops]
allow.servers = ["*"]
"""


@pytest.fixture(scope="module")
def gateway_url(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with over_http(Place(tmp_path_factory.mktemp("place"), policy_for(server_url))) as running:
        yield running.url


@pytest.fixture(scope="module", params=["workers", "replicas"])
def fleet_url(
    request: pytest.FixtureRequest, server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Three workers behind one port, or two replicas on one database behind a proxy that knows nothing."""
    place = Place(tmp_path_factory.mktemp("place"), policy_for(server_url))
    if request.param == "workers":
        with over_http(place, "--workers", "3") as running:
            yield running.url
        return
    if missing():
        pytest.skip(missing())
    database = PostgresServer()
    try:
        database.start()
        place.env |= {"BYLEAVE_STORE": database.url("postgres"), "BYLEAVE_STORE_KEY": KEY}
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]  # the same for all: a request must name the port of the gateway
        hosts = ("127.0.0.2", "127.0.0.3")
        with (
            over_http(place, address=f"{hosts[0]}:{port}"),
            over_http(place, address=f"{hosts[1]}:{port}"),
            closing(RoundRobin(*[(host, port) for host in hosts], port=port)) as proxy,
        ):
            yield proxy.url
    finally:
        database.remove()


def compare(role: str, revision: str, without: Score, through: Score) -> None:
    """Hold what passes through the gateway against what passes without it, and against what we publish."""
    row = f"| {role} | {revision} | {without} | {through} |"
    print(row)  # noqa: T201 -- what the document says is copied from here
    assert through.checks.keys() == without.checks.keys()
    assert without.passing <= through.passing, through.output[-5000:]
    assert row in DOCUMENT.read_text()


@REVISIONS
def test_servers_pass_through_the_gateway_as_they_pass_without_it(
    server_url: str, gateway_url: str, revision: str
) -> None:
    try:
        without = against_server(server_url, revision)
    except NotInstalledError as error:
        pytest.fail(str(error))
    compare("server", revision, without, against_server(gateway_url, revision, prefixed=True))


@REVISIONS
def test_servers_pass_through_several_processes_as_they_pass_through_one(
    server_url: str, fleet_url: str, revision: str
) -> None:
    without, through = against_server(server_url, revision), against_server(fleet_url, revision, prefixed=True)
    print(f"| server, several processes | {revision} | {without} | {through} |")  # noqa: T201 -- as above
    assert through.checks.keys() == without.checks.keys()
    assert without.passing <= through.passing, through.output[-5000:]


@REVISIONS
def test_the_gateway_passes_as_a_client_as_its_own_client_does_without_it(revision: str) -> None:
    try:
        without = against_client(revision)
    except NotInstalledError as error:
        pytest.fail(str(error))
    compare("client", revision, without, against_client(revision, "through"))
