# Before MCP servers. Read by ../walk.sh, after the files before it.

say "18. Before MCP servers: which agent may call what, evaluated, recorded, and only then forwarded"
cat > shop.py <<'PY'
import json, sys
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("price", "refund", "query")]
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}},
        "tools/list": {"tools": TOOLS},
        "tools/call": {"content": [{"type": "text", "text": "the shop did it"}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
PY
cat > gateway.toml <<'TOML'
[servers.shop]
command = ["python3", "shop.py"]

[agents.clerk]
allow.servers = ["shop"]
deny.tools.shop = ["refund*"]

[[rules]]
ask = { call = { server = "shop", tool = "query", arg = "/sql", regex = "(?i)drop" } }
TOML
{
  printf '%s\n' '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}}}'
  printf '%s\n' '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "shop__price", "arguments": {}}}'
  printf '%s\n' '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "shop__refund", "arguments": {}}}'
  printf '%s\n' '{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "shop__query", "arguments": {"sql": "drop table sales"}}}'
} > client
try 20 byleave check call --agent clerk shop refund --policy gateway.toml
try 0 byleave mcp --check --policy gateway.toml
try 0 byleave mcp --agent clerk --policy gateway.toml < client
try 0 byleave approvals list
try 0 byleave audit list --door mcp
