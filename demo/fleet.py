"""Two gateways on one PostgreSQL, each started in the scratch project: a yes for a call at one counts at the other.

The database is one of its own, in a scratch directory. Where PostgreSQL, or the package for it, is not installed, this
says so and is done.
"""

import http.client
import json
import os
import re
import subprocess
import sys

try:
    from postgres_server import KEY, PostgresServer, missing

    why = missing()
except ImportError as error:
    why = f"{error.name} is not installed"
if why:
    sys.exit(print(f"left out: {why}"))

REVISION = "2025-11-25"
POLICY = """
[servers.shop]
command = ["python3", "shop.py"]

[agents.clerk]
allow.servers = ["shop"]

[gateway]
default_agent = "clerk"

[[rules]]
ask = { call = { server = "shop", tool = "refund" } }
"""


class Client:
    """Speaks MCP with one of the gateways."""

    def __init__(self, port):
        self.port, self.fields = (
            port,
            {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
        )
        client = {"name": "demo", "version": "1"}
        self.ask("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client})

    def ask(self, method, params):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        line.request("POST", "/mcp", json.dumps(message), self.fields)
        answer = line.getresponse()
        if session := answer.getheader("Mcp-Session-Id"):
            self.fields |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
        return json.loads(answer.read())["result"]

    def refund(self):
        return self.ask("tools/call", {"name": "shop__refund", "arguments": {"order": 7}})["content"][0]["text"]


def gateway():
    argv = ["byleave", "mcp", "--http", "127.0.0.1:0", "--policy", "fleet.toml"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:  # warnings come first
        if address := re.search(r":(\d+)/mcp", line):
            return process, int(address[1])
    sys.exit(f"a gateway ended with {process.wait()} before it listened")


def shown(*words):
    print("$", *words, flush=True)
    subprocess.run(words, check=True)


with open("fleet.toml", "w") as file:
    file.write(POLICY)
server, gateways = PostgresServer(), []
try:
    server.start()
    os.environ |= {"BYLEAVE_STORE": server.emptied(), "BYLEAVE_STORE_KEY": KEY}
    gateways = [gateway() for _ in range(2)]
    first, second = (Client(port) for _process, port in gateways)
    print("a call at the first gateway: ", first.refund())
    print("the same at the second:      ", second.refund())
    listed = json.loads(subprocess.check_output(["byleave", "approvals", "list", "--json"]))
    (waiting,) = [each["id"] for each in listed if each["kind"] == "call"]
    shown("byleave", "approvals", "approve", waiting, "--yes")
    said = second.refund()
    print("the call at the second:      ", said)
    if said != "the shop did it":
        sys.exit("a yes at one gateway did not count at the other")
    shown("byleave", "audit", "verify")
finally:
    for process, _port in gateways:
        process.terminate()
        process.wait(20)
        process.stderr.close()
    server.remove()
