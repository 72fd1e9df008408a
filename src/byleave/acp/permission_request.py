"""A request of the agent to the editor: as a call to evaluate, as a question to a person, and the lines that answer it.

Of the options that an agent offers, the proxy picks one that answers a request once and does nothing else. Ids mean
nothing, only kinds do; but several options can share a kind, and one of them may also switch a mode or let the person
edit the call first. Names are for people and in any language, so they are only used to rule options out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.acp.requests import READ, TERMINAL, WRITE, PermissionOption
from byleave.core.decision import shared_tree
from byleave.protocol.json_fast import FAST
from byleave.protocol.jsonrpc import (
    ACCESS_DENIED,
    INVALID_REQUEST,
    write_error,
    write_notification,
    write_request,
    write_result,
)
from byleave.text import shown
from byleave.translate.call import ToolCall
from byleave.translate.shell_text import is_script_option, known_shell
from byleave.user_files import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.acp.requests import AgentRequest, PermissionRequest
    from byleave.core.decision import Verdict
    from byleave.translate.call import Translation


ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE, REJECT_ALWAYS = "allow_once", "allow_always", "reject_once", "reject_always"

# Words in the name or id of an option that does more than answer.
_EFFECTS = frozenset(
    (  # noqa: SIM905 -- a list would take a line for each
        "mode switch auto automatically always never session remember permanent permanently forever all every future "
        "similar bypass yolo ask again chat conversation workspace folder until restart rest turn task trust and then "
        "also"
    ).split()
)
# Words that say so only where another option of the kind goes without: "Allow this edit" is as plain as can be.
_LIKELY_EFFECTS = frozenset(
    ("edit", "edits", "modify", "editor", "change", "plan", "any", "whole", "project", "directory", "but")
)
_JOINTS = frozenset({"and", "then", "also"})  # "no, and do something else instead" is still a no
_PLAIN = frozenset(
    (  # noqa: SIM905
        "allow yes approve approved accept accepted ok okay run once proceed continue confirm permit grant "
        "reject no deny denied refuse decline skip cancel dont don't not this time it just only one"
    ).split()
)


def plain_option(options: Sequence[PermissionOption], kind: str) -> PermissionOption | None:
    """Return the option of a kind that has no further effect; None where there is none, or its effect is unknown."""
    fitting = [option for option in options if option.kind == kind and not _options_words(_both(option)) & _EFFECTS]
    if len(fitting) > 1:
        fitting = [option for option in fitting if not _options_words(_both(option)) & _LIKELY_EFFECTS]
    if len(fitting) > 1:
        fitting = [option for option in fitting if _is_plain(option)]
    return fitting[0] if len(fitting) == 1 else None


def reject_option(options: Sequence[PermissionOption]) -> PermissionOption | None:
    """Return the option that rejects once: the plain one, else the first that changes nothing for later."""
    plain = plain_option(options, REJECT_ONCE)
    if plain is not None:
        return plain
    lasting = _EFFECTS - _JOINTS
    return next(
        (each for each in options if each.kind == REJECT_ONCE and not _options_words(_both(each)) & lasting), None
    )


def once_option(options: Sequence[PermissionOption], kind: str) -> PermissionOption | None:
    """Return an option for once in place of one for always, which a person has chosen: one that does no more."""
    harmless = [option for option in options if option.kind == kind and not _options_words(_both(option)) & _EFFECTS]
    return plain_option(options, kind) or next(iter(harmless), None)


def is_a_question(meant: Translation, request: PermissionRequest) -> bool:
    """Whether the agent has a question for its user, in the form of a request for permission to think.

    Only the person can answer that: its option says "Submit", or the like, and not yes.
    """
    if any(getattr(action, "name", None) != "think" for action in meant.actions):
        return False
    raw = request.call.get("rawInput")
    yes = [option for option in request.options if option.kind == ALLOW_ONCE]
    return (isinstance(raw, dict) and bool(raw.get("questions"))) or not all(_is_plain(option) for option in yes)


def _is_plain(option: PermissionOption) -> bool:
    return _options_words(option.name) <= _PLAIN or _options_words(option.id) <= _PLAIN


def _both(option: PermissionOption) -> str:
    return f"{option.name} {option.id}"


def _options_words(text: str) -> frozenset[str]:
    """Return the words of a name or id, however they are joined: `allow_once`, `allow-once`, `Allow once`."""
    spaced = "".join([_apart(char, text[position - 1] if position else "") for position, char in enumerate(text)])
    return frozenset(spaced.casefold().split())


def _apart(char: str, before: str) -> str:
    if char.isupper() and before.islower():  # camelCase
        return f" {char}"
    return char if char.isalnum() or char == "'" else " "


CANCELLED_REQUEST = -32800  # as the protocol numbers it
OUR_OPTIONS = (PermissionOption("allow", ALLOW_ONCE, "Allow"), PermissionOption("reject", REJECT_ONCE, "Reject"))


def permission(raw_id: Any, option: PermissionOption | None, verdict: Verdict | None) -> bytes:
    """Return the answer to a request for permission; with a deny, why, where agents that care can find it."""
    outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option.id}
    result: dict[str, Any] = {"outcome": outcome}
    if verdict is not None and not verdict.allowed:
        result["_meta"] = {"byleave": {"decision": "deny", "reason": shown(verdict.reason)}}
    return write_result(FAST, raw_id, result)


def denial(raw_id: Any, verdict: Verdict, root: str) -> bytes:
    """Return the error that a denied request gets. What would allow it is for the user to hear, not for the agent."""
    data = {name: value for name, value in shared_tree(verdict, root).items() if name != "suggestion"}
    return write_error(FAST, raw_id, ACCESS_DENIED, shown(verdict.reason), data)


def refusal(raw_id: Any, problem: str) -> bytes:
    """Return the error that a request gets which cannot be read for certain."""
    return write_error(FAST, raw_id, INVALID_REQUEST, f"byleave refuses this request: {problem}")


def result(raw_id: Any, value: Any) -> bytes:
    """Return the answer to a request that was done in the editor's place."""
    return write_result(FAST, raw_id, value)


def cancelled_request(raw_id: Any) -> bytes:
    """Return the error that a request gets which was given up."""
    return write_error(FAST, raw_id, CANCELLED_REQUEST, "the request was cancelled")


def request(id_: str, method: str, params: Any) -> bytes:
    """Return the line of a request of ours."""
    return write_request(FAST, id_, method, params)


def notification(method: str, params: Any) -> bytes:
    """Return the line of a notification of ours."""
    return write_notification(FAST, method, params)


_KINDS = {READ: "read", WRITE: "edit", TERMINAL: "execute"}
_VERBS = {READ: "Read", WRITE: "Write", TERMINAL: "Run"}
_LONGEST = 300  # characters of a title; the whole is in the text
_MOST_PLACES = 100
_SHELL_ARGS = 2  # -c TEXT
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%")


def readings(request: AgentRequest) -> tuple[ToolCall, ...]:
    """Return the request as a tool call, in every way in which an editor may understand it.

    An unknown method of `fs/` is not understood, and may do anything to what it names.
    """
    kind = _KINDS.get(request.method)
    if kind is None:
        places = list(dict.fromkeys(_places_in(request.params)))[:_MOST_PLACES]
        touched = [ToolCall(kind=each, raw={"path": place}) for place in places for each in ("read", "edit", "delete")]
        return (ToolCall(title=request.method, tool=request.method), *touched)
    if request.method != TERMINAL:
        return (ToolCall(kind=kind, raw={"path": request.params["path"]}),)
    given = {name: request.params[name] for name in ("command", "args", "cwd") if request.params.get(name) is not None}
    given |= _environment(request.params.get("env"))
    calls = [ToolCall(kind=kind, raw=given)]
    if _differs_in_a_shell(given):
        calls.append(ToolCall(kind=kind, raw={**given, "command": _words(request.params), "args": None}))
    return tuple(calls)


def _places_in(tree: Any, depth: int = 4) -> Iterator[str]:
    """Yield everything in the params that looks like a place."""
    if isinstance(tree, str):
        if tree.startswith("/"):
            yield tree
    elif depth and isinstance(tree, dict | list):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from _places_in(each, depth - 1)


def question_about(request: AgentRequest, id_: str, verdict: Verdict, cwd: str | None) -> dict[str, Any]:
    """Return the request for permission that we send in the agent's place. It shows all that a yes would cover."""
    params = request.params
    what = _words(params) if request.method == TERMINAL else str(params.get("path", request.method))
    title = shown(f"{_VERBS.get(request.method, request.method)} {what}")
    text = "\n".join([f"byleave: {shown(verdict.reason)}", *_details(request, cwd)])
    tool_call: dict[str, Any] = {
        "toolCallId": id_,
        "title": title if len(title) <= _LONGEST else f"{title[:_LONGEST]}…",
        "kind": _KINDS.get(request.method, "other"),
        "status": "pending",
        "rawInput": {name: value for name, value in params.items() if name not in ("sessionId", "_meta")},
        "content": [{"type": "content", "content": {"type": "text", "text": text}}],
    }
    if isinstance(params.get("path"), str):
        tool_call["locations"] = [{"path": params["path"]}]
    if request.method == WRITE and isinstance(params.get("content"), str):
        tool_call["content"].append({"type": "diff", "path": params["path"], "newText": params["content"]})
    options = [{"optionId": option.id, "name": option.name, "kind": option.kind} for option in OUR_OPTIONS]
    return {"sessionId": request.session, "toolCall": tool_call, "options": options}


def _details(request: AgentRequest, cwd: str | None) -> list[str]:
    """Return what a title has no room for: the whole command, where it would run, and with which variables."""
    if request.method != TERMINAL:
        return []
    params = request.params
    lines = ["```", *(shown(line) for line in _words(params).splitlines()), "```"]
    if params.get("cwd") not in (None, cwd):
        lines.append(f"in {shown(str(params['cwd']))}")
    return lines + [f"with {shown(str(each))}" for each in _variables(params.get("env"))]


def _variables(env: Any) -> list[str]:
    if isinstance(env, list) and all(isinstance(each, dict) for each in env):
        return [f"{each.get('name')}={each.get('value')}" for each in env]
    return [str(env)] if env else []


def _differs_in_a_shell(given: Mapping[str, Any]) -> bool:
    """Whether a command would be another one for an editor that joins its words with blanks for a shell to read.

    Some do (Zed is one), others start the program with its arguments. A shell's own `-c TEXT` counts as that text.
    """
    args = given.get("args")
    if not isinstance(args, list) or not args:
        return False
    if len(args) == _SHELL_ARGS and known_shell(given["command"]) and is_script_option(str(args[0])):
        return False
    return not all(isinstance(word, str) and word and set(word) <= _HARMLESS for word in (given["command"], *args))


def _environment(env: Any) -> Mapping[str, Any]:
    """Return the variables of a command as a table; what has another shape stays as it is, and is not understood."""
    if not env:
        return {}
    if isinstance(env, list) and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in env):
        return {"env": {each["name"]: each.get("value") for each in env}}
    return {"env": env}


def _words(params: Mapping[str, Any]) -> str:
    args = params.get("args")
    return " ".join([str(params["command"]), *(str(word) for word in args or () if isinstance(args, list))])


def strays(request: AgentRequest) -> bool:
    """Whether a request names a relative path: each editor resolves it from a directory of its own."""
    named = [request.params.get(name) for name in ("path", "cwd")]
    return any(isinstance(place, str) and not place.startswith("/") for place in named)


def content_of(request: AgentRequest) -> str | None:
    """Return the hash of what a request would write; None if it writes nothing."""
    content = request.params.get("content") if request.method == WRITE else None
    return _hash(content) if isinstance(content, str) else None


def shown_contents(request: PermissionRequest) -> dict[str, str]:
    """Return, by path, the hash of the new content that a request for permission shows."""
    blocks = [block for block in request.call.get("content") or () if isinstance(block, dict)]
    diffs = [(block.get("path"), block.get("newText")) for block in blocks if block.get("type") == "diff"]
    return {path: _hash(text) for path, text in diffs if isinstance(path, str) and isinstance(text, str)}


def _hash(text: str) -> str:
    return digest(text.encode("utf-8", "surrogatepass"))
