"""An MCP server that declares no access: it reads the workspace and reaches public addresses, and nothing else."""

import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from byleave.core.net_rules import ANY_PUBLIC, may_dial
from byleave.sandbox.confinement import Confinement
from byleave.sandbox.sandbox import ToolSandbox
from sandbox.machine import PYTHON, needs_sandbox
from scene import Scene

FETCH = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).status)
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A service of this machine that no server should reach."""
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def run_inside(scene: Scene, *words: str) -> str:
    scene.say("user", "[servers.x]\ncommand = ['x']\n")
    policy = scene.load()
    confinement = Confinement(scene.workspace, policy, policy.compiled.servers["x"].tool)
    with ToolSandbox(confinement, policy.decide) as box:
        process = box.spawn(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, configured=True, variables={"GIVEN": "yes"}
        )
        assert process.stdout is not None
        with process.stdout as stream:
            said = stream.read()
        process.wait()
    return str(said.decode())


@needs_sandbox
def test_the_workspace_is_read_only_and_its_own_variables_are_there(tmp_path: Path) -> None:
    scene = Scene.build(tmp_path)
    (scene.root / "data").write_text("hello")
    said = run_inside(scene, "/bin/sh", "-c", "cat data; echo; touch new 2>/dev/null || echo kept; echo $GIVEN")
    assert said.split() == ["hello", "kept", "yes"]


@needs_sandbox
def test_what_listens_on_this_machine_is_out_of_reach(tmp_path: Path, port: int) -> None:
    urls = [f"http://127.0.0.1:{port}/", f"http://localhost:{port}/", f"http://[::1]:{port}/", f"http://127.1:{port}/"]
    said = run_inside(Scene.build(tmp_path), PYTHON, "-c", FETCH, *urls)
    assert [line[:4] for line in said.splitlines()] == ["403 "] * 4


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("192.168.0.1", False),
        ("not an address", False),
    ],
)
def test_a_name_that_leads_to_a_private_address_is_not_dialled(address: str, *, wanted: bool) -> None:
    assert may_dial(ANY_PUBLIC, address) is wanted
