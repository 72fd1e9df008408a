"""A stand-in for Claude Code: sends each command through the hook in the settings, and runs what the hook answers."""

import json
import os
import subprocess
import sys
import textwrap

with open(os.path.expanduser("~/.claude/settings.json")) as file:
    hook = json.load(file)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
for number, command in enumerate(sys.argv[1:]):
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": "demo",
        "cwd": os.getcwd(),
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": f"call-{number}",
    }
    done = subprocess.run(["sh", "-c", hook], input=json.dumps(event), capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    text = f"{answer['permissionDecision']}: {answer['permissionDecisionReason']}"
    print(f"\nagent: {command}\n{textwrap.fill(text, 80, initial_indent='  ', subsequent_indent='    ')}", flush=True)
    if answer["permissionDecision"] == "allow":
        subprocess.run(["bash", "-c", answer.get("updatedInput", {}).get("command", command)], check=False)
