"""A small downstream MCP server on stdin/stdout, standard library only, to try a gateway against.

    python sample_server.py [NAME]

Tools: price, stock, refund_small, refund_all, close, query, echo, fail, steps (progress), confirm (elicitation),
slow, big, crash. Listings come in two pages. It writes nothing to stdout but JSON-RPC lines.
"""

import json
import os
import sys
import threading
import time

NAME = sys.argv[1] if len(sys.argv) > 1 else "shop"
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
lock = threading.Lock()
waiting = {}  # id of a request of ours -> [event, answer]
cancelled = set()


def schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


STRING, NUMBER = {"type": "string"}, {"type": "number"}
TOOLS = [
    {
        "name": "price",
        "description": "The price of an article.",
        "inputSchema": schema(["article"], article=STRING),
        "outputSchema": schema(["cents"], cents={"type": "integer"}),
        "annotations": {"readOnlyHint": True},
    },
    {"name": "stock", "description": "How many are left.", "inputSchema": schema(article=STRING)},
    {"name": "refund_small", "description": "Pay back up to 10.", "inputSchema": schema()},
    {
        "name": "refund_all",
        "description": "Pay everything back.",
        "inputSchema": schema(),
        "annotations": {"destructiveHint": True},
    },
    {"name": "close", "description": "Close the shop.", "inputSchema": schema()},
    {"name": "query", "description": "Run SQL.", "inputSchema": schema(["sql"], sql=STRING)},
    {"name": "echo", "description": "Give back the arguments.", "inputSchema": {"type": "object"}},
    {"name": "fail", "description": "Always an error result.", "inputSchema": schema()},
    {"name": "steps", "description": "Reports progress three times.", "inputSchema": schema()},
    {"name": "confirm", "description": "Asks the user first.", "inputSchema": schema()},
    {"name": "slow", "description": "Sleeps.", "inputSchema": schema(seconds=NUMBER)},
    {"name": "big", "description": "A long text.", "inputSchema": schema(length=NUMBER)},
    {"name": "crash", "description": "Ends the process in the middle of the call.", "inputSchema": schema()},
]


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method, params):
    """A request to the client; blocks this call's thread until the answer is there."""
    key = f"{NAME}-{time.monotonic_ns()}"
    event, answer = waiting[key] = [threading.Event(), []]
    send({"id": key, "method": method, "params": params})
    event.wait(60)
    return answer[0] if answer else None


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def call(request):
    name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
    if name == "price":
        return text('{"cents": 250}', structuredContent={"cents": 250})
    if name == "echo":
        return text(json.dumps(arguments), structuredContent={"arguments": arguments})
    if name == "fail":
        return text("out of order", isError=True, structuredContent={"code": 7})
    if name == "steps":
        token = (request["params"].get("_meta") or {}).get("progressToken")
        for step in range(1, 4):
            if token is not None:
                send(
                    {
                        "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"},
                    }
                )
        return text("done")
    if name == "confirm":
        answer = ask("elicitation/create", {"message": "Really?", "requestedSchema": schema(sure={"type": "boolean"})})
        return text(json.dumps(answer))
    if name == "slow":
        end = time.monotonic() + float(arguments.get("seconds", 2))
        while time.monotonic() < end:
            if request["id"] in cancelled:
                return None
            time.sleep(0.02)
        return text("slept")
    if name == "big":
        return text("x" * int(arguments.get("length", 1_000_000)))
    if name == "crash":
        os._exit(3)
    if any(tool["name"] == name for tool in TOOLS):
        return text(f"{NAME}: {name} done")
    return text(f"no tool {name}", isError=True)


def answer(request):
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        wanted = params.get("protocolVersion")
        result = {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": "1"},
        }
    elif method == "ping":
        result = {}
    elif method == "tools/list":
        result = {"tools": TOOLS[8:]} if params.get("cursor") == "2" else {"tools": TOOLS[:8], "nextCursor": "2"}
    elif method == "tools/call":
        result = call(request)
        if result is None:
            return
    else:
        send({"id": request["id"], "error": {"code": -32601, "message": f"no method {method}"}})
        return
    send({"id": request["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        event, box = waiting.pop(message["id"], [None, None])
        if event:
            box.append(message.get("result") or message.get("error"))
            event.set()
    elif "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
    elif message["method"] == "notifications/cancelled":
        cancelled.add(message["params"]["requestId"])
