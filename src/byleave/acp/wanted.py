"""What the agent wants the editor to do, as a call that can be judged, and as a question that a person can answer."""

from byleave.acp.replies import OUR_OPTIONS
from byleave.acp.wishes import READ, TERMINAL, WRITE
from byleave.private import digest
from byleave.text import shown
from byleave.translate.call import Call
from byleave.translate.lists import is_script_option, known_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from byleave.acp.wishes import Permission, Wish
    from byleave.core.verdict import Verdict

_KINDS = {READ: "read", WRITE: "edit", TERMINAL: "execute"}
_VERBS = {READ: "Read", WRITE: "Write", TERMINAL: "Run"}
_LONGEST = 300  # characters of a title; the whole is in the text
_MOST_PLACES = 100
_SHELL_ARGS = 2  # -c TEXT
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%")


def readings(wish: "Wish") -> tuple[Call, ...]:
    """Return the wish as a tool call, in every way in which an editor may understand it.

    A method of `fs/` that nobody knows stays a thing that nobody understands, and may do anything to what it names.
    """
    kind = _KINDS.get(wish.method)
    if kind is None:
        places = list(dict.fromkeys(_places_in(wish.params)))[:_MOST_PLACES]
        touched = [Call(kind=each, raw={"path": place}) for place in places for each in ("read", "edit", "delete")]
        return (Call(title=wish.method, tool=wish.method), *touched)
    if wish.method != TERMINAL:
        return (Call(kind=kind, raw={"path": wish.params["path"]}),)
    given = {name: wish.params[name] for name in ("command", "args", "cwd") if wish.params.get(name) is not None}
    given |= _environment(wish.params.get("env"))
    calls = [Call(kind=kind, raw=given)]
    if _differs_in_a_shell(given):
        calls.append(Call(kind=kind, raw={**given, "command": _words(wish.params), "args": None}))
    return tuple(calls)


def _places_in(tree: "Any", depth: int = 4) -> "Iterator[str]":
    """Yield everything in the params that looks like a place."""
    if isinstance(tree, str):
        if tree.startswith("/"):
            yield tree
    elif depth and isinstance(tree, dict | list):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from _places_in(each, depth - 1)


def question_about(wish: "Wish", id_: str, verdict: "Verdict", cwd: str | None) -> "dict[str, Any]":
    """Return the request for permission that we send in the agent's place. It shows all that a yes would cover."""
    params = wish.params
    what = _words(params) if wish.method == TERMINAL else str(params.get("path", wish.method))
    title = shown(f"{_VERBS.get(wish.method, wish.method)} {what}")
    text = "\n".join([f"byleave: {shown(verdict.reason)}", *_details(wish, cwd)])
    tool_call: dict[str, Any] = {
        "toolCallId": id_,
        "title": title if len(title) <= _LONGEST else f"{title[:_LONGEST]}…",
        "kind": _KINDS.get(wish.method, "other"),
        "status": "pending",
        "rawInput": {name: value for name, value in params.items() if name not in ("sessionId", "_meta")},
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
    }
    if isinstance(params.get("path"), str):
        tool_call["locations"] = [{"path": params["path"]}]
    if wish.method == WRITE and isinstance(params.get("content"), str):
        tool_call["content"].append({"type": "diff", "path": params["path"], "newText": params["content"]})
    options = [{"optionId": option.id, "name": option.name, "kind": option.kind} for option in OUR_OPTIONS]
    return {"sessionId": wish.session, "toolCall": tool_call, "options": options}


def _details(wish: "Wish", cwd: str | None) -> list[str]:
    """Return what a title has no room for: the whole command, where it would run, and with which variables."""
    if wish.method != TERMINAL:
        return []
    params = wish.params
    lines = ["```", *(shown(line) for line in _words(params).splitlines()), "```"]
    if params.get("cwd") not in (None, cwd):
        lines.append(f"in {shown(str(params['cwd']))}")
    return lines + [f"with {shown(str(each))}" for each in _variables(params.get("env"))]


def _variables(env: "Any") -> list[str]:
    if isinstance(env, list) and all(isinstance(each, dict) for each in env):
        return [f"{each.get('name')}={each.get('value')}" for each in env]
    return [str(env)] if env else []


def _differs_in_a_shell(given: "Mapping[str, Any]") -> bool:
    """Whether a command would be another one for an editor that joins its words with blanks for a shell to read.

    Some do (Zed is one), others start the program with its arguments. A shell's own `-c TEXT` is judged as that text.
    """
    args = given.get("args")
    if not isinstance(args, list) or not args:
        return False
    if len(args) == _SHELL_ARGS and known_shell(given["command"]) and is_script_option(str(args[0])):
        return False
    return not all(isinstance(word, str) and word and set(word) <= _HARMLESS for word in (given["command"], *args))


def _environment(env: "Any") -> "Mapping[str, Any]":
    """Return the variables of a command as a table; what has another shape is handed on for nobody to understand."""
    if not env:
        return {}
    if isinstance(env, list) and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in env):
        return {"env": {each["name"]: each.get("value") for each in env}}
    return {"env": env}


def _words(params: "Mapping[str, Any]") -> str:
    args = params.get("args")
    return " ".join([str(params["command"]), *(str(word) for word in args or () if isinstance(args, list))])


def strays(wish: "Wish") -> bool:
    """Whether a wish names a place in a way that editors resolve each from where they stand: it should be absolute."""
    named = [wish.params.get(name) for name in ("path", "cwd")]
    return any(isinstance(place, str) and not place.startswith("/") for place in named)


def content_of(wish: "Wish") -> str | None:
    """Return the hash of what a wish would write; None if it writes nothing."""
    content = wish.params.get("content") if wish.method == WRITE else None
    return _hash(content) if isinstance(content, str) else None


def shown_contents(wish: "Permission") -> "dict[str, str]":
    """Return, by path, the hash of the new content that a request for permission shows."""
    blocks = [block for block in wish.call.get("content") or () if isinstance(block, dict)]
    diffs = [(block.get("path"), block.get("newText")) for block in blocks if block.get("type") == "diff"]
    return {path: _hash(text) for path, text in diffs if isinstance(path, str) and isinstance(text, str)}


def _hash(text: str) -> str:
    return digest(text.encode("utf-8", "surrogatepass"))
