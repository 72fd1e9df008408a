"""Read what a person types into *Action to try*: a command, unless it says otherwise. Pure.

git push origin main            a command
https://example.com/a           a URL
read src/main.py                a file: read, create, update, delete, exec
call github create_issue {...}  a call of an MCP server's tool
env HOME                        a variable
{"kind": ...}                   any action, as JSON
"""

from __future__ import annotations

import json
from typing import Any

from byleave.errors import InputError

FILES = ("read", "create", "update", "delete")  # `exec` begins a shell command


def read_action(text: str) -> dict[str, Any]:
    """Return the action that a text means; an InputError if it means none."""
    text = text.strip()
    if not text:
        raise InputError("there is nothing to try", hint="type a command, a path, a URL or a call")
    if text.startswith("{"):
        return _json(text)
    word, _blank, rest = text.partition(" ")
    rest = rest.strip()
    if text.startswith(("http://", "https://")) and not rest:
        return {"kind": "url", "url": text}
    if word == "url" and rest:
        return {"kind": "url", "url": rest}
    if word in FILES and rest and "\n" not in rest:
        return {"kind": word, "path": rest}
    if word == "call" and rest:
        return _call(rest)
    if word == "env" and rest.isidentifier():
        return {"kind": "env", "name": rest}
    return {"kind": "command", "command": text}


def _call(rest: str) -> dict[str, Any]:
    names, mark, arguments = rest.partition("{")
    server, _blank, tool = names.strip().partition(" ")
    action: dict[str, Any] = {"kind": "call", "server": server}
    if tool.strip():
        action["tool"] = tool.strip()
    if mark:
        action["arguments"] = _json(mark + arguments)
    return action


def _json(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("this is not JSON", hint='write an object, such as {"kind": "read", "path": "src"}') from None
    if not isinstance(tree, dict):
        raise InputError("this is no object", hint='write one, such as {"kind": "read", "path": "src"}')
    return tree
