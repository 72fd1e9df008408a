"""The official conformance suite passes through the gateway wherever it passes without it, in both roles. On demand.

The scores that `docs/mcp-conformance.md` names are printed: `BYLEAVE_AGENT_TESTS=1 pytest -n 0 -s` with this file.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.conformance import LEGACY, MODERN, NAME, Score, against_client, against_server, reference_server
from agents.real_agents import NotInstalledError
from fakes.mcp_sdk import Place, over_http

DOCUMENT = Path(__file__).parents[2] / "docs" / "mcp-conformance.md"
REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with reference_server() as url:
        yield url


@pytest.fixture(scope="module")
def gateway_url(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    policy = f"""
[gateway]
default_agent = "ops"
[servers.{NAME}]
url = "{server_url}"
[agents.ops]
allow.servers = ["*"]
"""
    with over_http(Place(tmp_path_factory.mktemp("place"), policy)) as running:
        yield running.url


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
def test_the_gateway_passes_as_a_client_as_its_own_client_does_without_it(revision: str) -> None:
    try:
        without = against_client(revision)
    except NotInstalledError as error:
        pytest.fail(str(error))
    compare("client", revision, without, against_client(revision, "through"))
