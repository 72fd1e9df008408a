"""Opens the dashboard as a browser does, has an agent ask for each command, and answers what the page then shows.

Each word is an answer and a command, or an address: `once: git push`, `deny: https://example.org/`. The agent is one
that cannot ask by itself (opencode).
"""

import http.client
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from urllib.parse import urlsplit

PATIENCE = 20  # seconds until a question must be there

board = subprocess.Popen(["byleave", "dashboard", "--no-open", "--json"], stdout=subprocess.PIPE)
address = urlsplit(json.loads(board.stdout.readline())["url"])


def ask(method, path, body=None, **fields):
    """Send a request to the dashboard, and return the answer and its body."""
    line = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
    line.request(method, path, body, fields)
    answer = line.getresponse()
    return answer, answer.read().decode()


def show(who, text):
    """Print what one of the three says."""
    print(textwrap.fill(f"{who}: {text}", 80, subsequent_indent="  "), flush=True)


try:
    cookie = ask("GET", f"/?{address.query}")[0].getheader("Set-Cookie").partition(";")[0]
    token = re.search('name="byleave-token" content="(.*?)"', ask("GET", "/approvals", Cookie=cookie)[1])[1]
    for number, words in enumerate(sys.argv[1:]):
        choice, _, command = words.partition(": ")
        is_url = command.startswith("https://")
        event = {
            "hook_event_name": "tool.execute.before",
            "tool": "webfetch" if is_url else "bash",
            "call_id": str(number),
            "session_id": "s",
            "args": {"url": command, "format": "text"} if is_url else {"command": command},
            "directory": os.getcwd(),
            "servers": [],
        }
        hook = subprocess.Popen(["byleave", "hook", "opencode"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        hook.stdin.write(json.dumps(event).encode())
        hook.stdin.close()
        end, waiting = time.monotonic() + PATIENCE, []
        while not waiting and time.monotonic() < end:
            found = json.loads(ask("GET", "/api/pending", Cookie=cookie)[1])["pending"]
            open_ones = [each for each in found if each["status"] == "pending"]
            waiting = [each for each in open_ones if command in each["action"].values()]
            time.sleep(0.1)
        if not waiting:
            sys.exit(f"no question about {command}; the hook answered {hook.stdout.read().decode()}")
        question = waiting[0]
        print()
        show("the page", f"{question['agent']} wants `{command}`: {question['why']}")
        sent = {"Cookie": cookie, "Origin": f"http://{address.netloc}", "X-Byleave-Token": token}
        answer = ask("POST", f"/api/pending/{question['id']}", json.dumps({"answer": choice}), **sent)
        show("the person", f"{choice} ({answer[0].status})")
        show("the agent hears", hook.stdout.read().decode().strip())
finally:
    board.terminate()
    board.wait()
