"""Write our hook into an agent's settings, or take it out again; nothing else in the file changes.

A plan is made first, and shown; what is written is what was shown, or nothing. The file is replaced whole, beside it
stays what it was before. Where nothing else has changed since, taking the hook out puts that back, byte for byte.

Start at `plan_install` and `plan_uninstall`.

Change a JSON text in one place, and leave every other character as it is. Pure.

People keep their settings as they like them: what is added takes the look of its surroundings, what is removed leaves
no trace. A text that is not plain JSON (comments, names given twice) is not touched at all.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from json import JSONDecoder, dumps
from shlex import join
from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import StateError
from byleave.hooks.agents import CLAUDE_CODE, CLINE, COPILOT, GEMINI, OPENCODE, QWEN
from byleave.hooks.detect import oldest_version
from byleave.hooks.snippets import ENTRY, PATIENCE, PLACES, SettingsFile, hook_words, is_ours, items
from byleave.policy.dirs import find_homes, own_packages, real_path
from byleave.sandbox.native.build import find_front
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any


_BLANKS = " \t\r\n"
_DECODER = JSONDecoder()
_DEEPEST = 200


class NotPlainError(ValueError):
    """A text that is not JSON, or that can be read in two ways."""


class Node(Struct, frozen=True):
    """A value and where it stands. `parts` are the values in it; `names` theirs, if it is an object."""

    start: int
    end: int
    parts: tuple[Node, ...] = ()
    names: tuple[str, ...] | None = None
    starts: tuple[int, ...] = ()  # where each part begins: with its name, if it has one
    array: bool = False

    def part(self, name: str) -> Node | None:
        """Return the value of a member."""
        return dict(zip(self.names or (), self.parts, strict=True)).get(name) if self.names is not None else None


def read_node(text: str) -> Node:
    """Return the one value that a text is."""
    try:
        node = _json_edit_read(text, _skip(text, 0), 0)
    except NotPlainError:
        raise
    except (ValueError, IndexError, StopIteration, RecursionError):
        raise NotPlainError("it is not plain JSON") from None
    if _skip(text, node.end) != len(text):
        raise NotPlainError("something stands behind its end")
    return node


def add_member(text: str, container: Node, name: str, value: Any) -> str:
    """Return the text with a further member of an object, at its end."""
    return _add(text, container, f"{dumps(name)}: ", value)


def add_item(text: str, container: Node, value: Any) -> str:
    """Return the text with a further item of an array, at its end."""
    return _add(text, container, "", value)


def cut_part(text: str, container: Node, number: int) -> str:
    """Return the text without one part of an object or an array."""
    starts, parts = container.starts, container.parts
    if number > 0:
        return text[: parts[number - 1].end] + text[parts[number].end :]
    if len(parts) > 1:
        return text[: starts[0]] + text[starts[1] :]
    return text[: container.start + 1] + text[container.end - 1 :]


def _add(text: str, container: Node, label: str, value: Any) -> str:
    """Add a part behind the others, on a line of its own if they are on lines of their own."""
    if container.parts:
        end = container.parts[-1].end
        indent = _indent_before(text, container.starts[-1])
        return f"{text[:end]},{indent or ' '}{label}{_written(value, indent, _step(text))}{text[end:]}"
    before, behind = text[: container.start + 1], text[container.end - 1 :]
    outer = _line_indent(text, container.start)
    if outer is None:
        return f"{before}{label}{_written(value, '', '')}{behind}"
    inner = outer + _step(text)
    return f"{before}{inner}{label}{_written(value, inner, _step(text))}{outer}{behind}"


def _written(value: Any, indent: str, step: str) -> str:
    """Return a value as it is written behind this indent; in one line where there is none."""
    return dumps(value, indent=step).replace("\n", indent) if indent else dumps(value)


def _step(text: str) -> str:
    """Return what the first indented line begins with: each level is indented by so much."""
    margins = [line[: len(line) - len(line.lstrip(" \t"))] for line in text.split("\n") if line.strip()]
    return next((margin for margin in margins if margin), "  ")


def _indent_before(text: str, start: int) -> str:
    """Return the line's end and the blanks that stand before a part, "" if it does not begin a line."""
    at = start
    while at > 0 and text[at - 1] in " \t":
        at -= 1
    if at == 0 or text[at - 1] != "\n":
        return ""
    return text[at - (2 if text[at - 2 : at] == "\r\n" else 1) : start]


def _line_indent(text: str, at: int) -> str | None:
    """Return the line's end and the blanks that the line of this place begins with; None if all is one line."""
    if "\n" not in text and text.strip(_BLANKS) != "{}":
        return None
    newline = "\r\n" if "\r\n" in text else "\n"
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:at]
    return newline + line[: len(line) - len(line.lstrip(" \t"))]


def _json_edit_read(text: str, at: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise NotPlainError("it is nested too deeply")
    if text[at] in "{[":
        return _read_parts(text, at, depth, is_object=text[at] == "{")
    _value, end = _DECODER.raw_decode(text, at)
    return Node(at, end)


def _read_parts(text: str, begin: int, depth: int, *, is_object: bool) -> Node:
    closing = "}" if is_object else "]"
    parts: list[Node] = []
    names: list[str] = []
    starts: list[int] = []
    at = _skip(text, begin + 1)
    while text[at] != closing or parts:
        starts.append(at)
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            if not isinstance(name, str) or name in names:
                raise NotPlainError("a name is given twice")
            names.append(name)
            at = _skip(text, _expect(text, _skip(text, at), ":"))
        part = _json_edit_read(text, at, depth + 1)
        parts.append(part)
        at = _skip(text, part.end)
        if text[at] == closing:
            break
        at = _skip(text, _expect(text, at, ","))
    return Node(begin, at + 1, tuple(parts), tuple(names) if is_object else None, tuple(starts), not is_object)


def _expect(text: str, at: int, mark: str) -> int:
    if text[at] != mark:
        raise NotPlainError("it is not plain JSON")
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


BACKUP = ".before-byleave"
LARGEST = 4 << 20
# Agents that have a file for our hook alone, and what we put there.
_PLUGINS = {OPENCODE: "opencode.js", CLINE: "cline.sh"}
_OURS = "byleave hook --install {}"
_FIRST_LINES = 2  # one of which says whose the file is


class InstallPlan(Struct, frozen=True):
    """A change of one file. `before` is None if there is no file, `after` if none is to be left.

    `original`: the file held our hook, and `after` is what it was without it, so nothing has to be kept beside it.
    """

    agent: str
    file: str
    before: str | None
    after: str | None
    snippet: str = ""
    original: bool = False

    @property
    def keeps(self) -> bool:
        """Whether what the file was before is to be kept beside it."""
        return self.before is not None and not self.original and not _is_kept(self)

    @property
    def place(self) -> SettingsFile:
        return PLACES[self.agent]

    @property
    def changes(self) -> bool:
        return self.before != self.after

    @property
    def backup(self) -> str:
        return f"{self.file}{BACKUP}"

    @property
    def kept_copy(self) -> str | None:
        """The file beside it that has what it was before, if there is one, and the change leaves it there."""
        kept = self.before is not None and not self.original and os.path.exists(self.backup)
        return self.backup if kept else None


def is_switched_off(plan: InstallPlan) -> bool:
    """Whether the file, as it will be, has the agent run no hooks, or not ours."""
    if plan.agent not in _SWITCHES or plan.after is None:
        return False
    return _SWITCHES[plan.agent](json.loads(plan.after))


def is_off(agent: str, file: str) -> bool:
    """Whether a settings file of the agent, the user's or a project's, has it run no hooks, or not ours."""
    if agent not in _SWITCHES:
        return False
    try:
        tree = json.loads(_read(file) or "{}")
    except (StateError, ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and _SWITCHES[agent](tree)


def installed_items(agent: str, file: str) -> dict[tuple[str, ...], object]:
    """Return our item in each list of the agent's settings that has it; a file of ours as a whole counts as one."""
    text = _read(file)
    if text is None or not text.strip():
        return {}
    if agent in _PLUGINS:
        return {(): text.splitlines()} if _is_our_plugin(agent, text) else {}
    return _ours(agent, text)


def _gemini_is_off(tree: Any) -> bool:
    settings = tree.get("hooksConfig")
    if not isinstance(settings, dict):
        return False
    return settings.get("enabled") is False or "byleave" in (settings.get("disabled") or ())


_SWITCHES: Mapping[str, Callable[[Any], bool]] = {
    CLAUDE_CODE: lambda tree: tree.get("disableAllHooks") is True,
    GEMINI: _gemini_is_off,
    QWEN: lambda tree: tree.get("disableAllHooks") is True,
    COPILOT: lambda tree: tree.get("disableAllHooks") is True,
}


def settings_file(agent: str, home: str) -> str:
    """Return where the agent of the user with this home reads its hooks."""
    return os.path.join(home, PLACES[agent].file)


def our_words(agent: str, options: Sequence[str]) -> list[str]:
    """Return the command that this very installation of byleave is started with, behind the front if there is one."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parent = os.path.dirname(package)
    if not os.path.isabs(sys.executable):
        raise StateError("it is not known which Python this is", hint="start byleave by its absolute path")
    front = find_front(find_homes(os.environ).memory)
    words = hook_words(sys.executable, os.path.join(parent, ENTRY), own_packages(), options, agent)
    return words if front is None else [front, *words]


def plan_install(agent: str, file: str, words: Sequence[str]) -> InstallPlan:
    """Return the change that puts the hook into the file; one of ours that is there already is replaced."""
    before = _read(file)
    if agent in _PLUGINS:
        if before is not None and not _is_our_plugin(agent, before):
            raise StateError(f"{quoted(file)} was not written by byleave", hint="rename it, then try again")
        return InstallPlan(agent, file, before, _plugin(agent, words), _plugin(agent, words))
    requested = items(agent, words, _oldest_version(agent, file))
    snippet = _with_ours(agent, "{}\n", requested)
    try:
        text = before if before is not None and before.strip() else "{}\n"
        if _holds(agent, text, requested):
            return InstallPlan(agent, file, before, before, snippet)
        known = _original(agent, file, text)
        bare = _without_ours(agent, text) if known is None else known if known.strip() else "{}\n"
        after = _with_ours(agent, bare, requested)
    except NotPlainError as error:
        raise _refusal(file, str(error), snippet) from None
    return InstallPlan(agent, file, before, after, snippet)


def plan_uninstall(agent: str, file: str) -> InstallPlan:
    """Return the change that takes the hook out of the file."""
    before = _read(file)
    if agent in _PLUGINS:
        ours = before is None or _is_our_plugin(agent, before)
        return InstallPlan(agent, file, before, None if ours else before, original=ours)
    if before is None or not before.strip():
        return InstallPlan(agent, file, before, before)
    try:
        original = _original(agent, file, before)
        if original is not None:
            return InstallPlan(agent, file, before, original, original=True)
        after = _without_ours(agent, before, _kept(agent, file))
        if after != before and _is_only_ours(agent, after) and not os.path.lexists(f"{file}{BACKUP}"):
            return InstallPlan(agent, file, before, None, original=True)
        return InstallPlan(agent, file, before, after)
    except NotPlainError as error:
        hint = "take it out with an editor: it is what starts " + quoted(ENTRY)
        raise StateError(f"{quoted(file)} cannot be changed: {error}", hint=hint) from None


def carry_out(plan: InstallPlan) -> None:
    """Write what was planned, unless the file has changed meanwhile."""
    target = real_path(plan.file)  # a link, to a dotfiles repository for instance, stays one
    try:
        if _read(plan.file) != plan.before:
            raise StateError(f"{quoted(plan.file)} has changed meanwhile", hint="try again")
        like = None if plan.before is None else os.stat(target)
        if plan.keeps and plan.before is not None:
            _replace(plan.backup, plan.before, like)
        if plan.after is None:
            os.unlink(plan.file)
            return
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        _replace(target, plan.after, like)
        if plan.original:
            os.unlink(plan.backup)
    except OSError as error:
        hint = "check the permissions there, and the free space on the disk"
        raise StateError(f"{quoted(plan.file)} cannot be written: {error.strerror}", hint=hint) from None


def _original(agent: str, file: str, text: str) -> str | None:
    """Return what the file was before our hook came into it; None if that is not known, or something else has changed.

    It is what is kept beside the file, if our hook put into it makes exactly the text that is there.
    """
    ours = _ours(agent, text)
    try:
        kept = _read(f"{file}{BACKUP}") if ours else None
        if kept is None or _ours(agent, kept if kept.strip() else "{}\n"):
            return None
        made = _with_ours(agent, kept if kept.strip() else "{}\n", ours)
    except (StateError, NotPlainError, ValueError):
        return None
    return kept if made == text else None


def _ours(agent: str, text: str) -> dict[tuple[str, ...], object]:
    """Return our item as it stands in each of the lists that have it: an older byleave put it into fewer of them."""
    read_node(text)
    found: dict[tuple[str, ...], object] = {}
    for path in PLACES[agent].all_lists:
        number = _position(agent, text, path)
        if number is not None:
            tree = json.loads(text)
            for name in path:
                tree = tree[name]
            found[path] = tree[number]
    return found


def _is_kept(plan: InstallPlan) -> bool:
    """Whether what the user had is kept already: a hook of ours that is replaced is not what they had."""
    if plan.agent in _PLUGINS or plan.before is None or not plan.before.strip():
        return plan.agent in _PLUGINS
    return os.path.lexists(plan.backup) and plan.after is not None and bool(_ours(plan.agent, plan.before))


def _is_only_ours(agent: str, text: str) -> bool:
    """Whether a text that our hook was taken out of holds nothing but what we put in besides."""
    return json.loads(text) in ({}, dict(PLACES[agent].needs))


def _with_ours(agent: str, text: str, ours: Mapping[tuple[str, ...], object]) -> str:
    place = PLACES[agent]
    for name, value in place.needs.items():
        root = _object(text, ())
        if root.part(name) is None:
            text = add_member(text, root, name, value)
    for path, value in ours.items():
        text = _appended(text, path, value)
    return text


def _appended(text: str, path: tuple[str, ...], value: object) -> str:
    """Return the text with an item at the end of the list at `path`; what is missing on the way is made."""
    for depth, name in enumerate(path):
        container = _object(text, path[:depth])
        if container.part(name) is None:
            missing = _nested(path[depth + 1 :], [value])
            return add_member(text, container, name, missing)
    found = read_node(text)
    for name in path:
        found = found.part(name) or found
    if not found.array:
        raise NotPlainError(f"{'.'.join(path)} is no list")
    return add_item(text, found, value)


def _nested(names: tuple[str, ...], value: object) -> object:
    for name in reversed(names):
        value = {name: value}
    return value


def _kept(agent: str, file: str) -> dict[str, Any] | None:
    """Return the settings that are kept beside the file; None if there are none, or none that can be read.

    What an older byleave had put into them is not the user's.
    """
    try:
        text = _read(f"{file}{BACKUP}")
        read_node(text or "")
        tree = json.loads(_without_ours(agent, text or "null"))
    except (StateError, NotPlainError):
        return None
    return tree if isinstance(tree, dict) else None


def _without_ours(agent: str, text: str, kept: dict[str, Any] | None = None) -> str:
    """Take our hook out, and what held only that, or came with it; not what was there before, as `kept` says."""
    found = False
    for path in PLACES[agent].all_lists:
        while (number := _position(agent, text, path)) is not None:
            text, found = _cut(text, path, number, kept or {}), True
    if not found or kept is None:
        return text
    for name, value in PLACES[agent].needs.items():
        root = read_node(text)
        if name not in kept and root.names is not None and json.loads(text).get(name) == value:
            text = cut_part(text, root, root.names.index(name))
    return text


def _position(agent: str, text: str, path: tuple[str, ...]) -> int | None:
    """Return the number of the first item of ours in the list at `path`."""
    tree = json.loads(text)
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    if not isinstance(tree, list):
        return None
    return next((number for number, value in enumerate(tree) if is_ours(agent, value)), None)


def _was_there(kept: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(kept, dict) or name not in kept:
            return False
        kept = kept[name]
    return True


def _cut(text: str, path: tuple[str, ...], number: int, kept: dict[str, Any]) -> str:
    """Cut one item out of the list at `path`, and with the last of them what held only that and was not `kept`."""
    way = [read_node(text)]
    for name in path:
        way.append(way[-1].part(name) or way[-1])
    while len(way) > 1 and len(way[-1].parts) == 1 and not _was_there(kept, path[: len(way) - 1]):
        way.pop()
        number = (way[-1].names or ()).index(path[len(way) - 1])
    return cut_part(text, way[-1], number)


def _object(text: str, path: tuple[str, ...]) -> Node:
    node = read_node(text)
    for name in path:
        node = node.part(name) or node
    if node.names is None:
        raise NotPlainError(f"{'.'.join(path) or 'all of it'} is no object")
    return node


def _oldest_version(agent: str, file: str) -> tuple[int, ...]:
    """Return the oldest version of the agent that the user of this settings file has; () if it is not known."""
    place = PLACES[agent]
    if not place.newer or not file.endswith(f"/{place.file}"):
        return ()

    return oldest_version(agent, file.removesuffix(f"/{place.file}"), os.environ.get("PATH", ""))


def _holds(agent: str, text: str, requested: Mapping[tuple[str, ...], object]) -> bool:
    """Whether every list has our item, as it would be written now, once; and no list that is not to have one."""
    read_node(text)  # plain, so that `json` reads it as every other reader does
    for path in PLACES[agent].all_lists:
        tree = json.loads(text)
        for name in path:
            tree = tree.get(name) if isinstance(tree, dict) else None
        ours = [value for value in tree if is_ours(agent, value)] if isinstance(tree, list) else []
        if ours != ([requested[path]] if path in requested else []):
            return False
    return True


def _refusal(file: str, problem: str, snippet: str) -> StateError:
    return StateError(
        f"{quoted(file)} is left as it is: {problem}", hint=f"paste this into it, where it belongs:\n{snippet.rstrip()}"
    )


def _is_our_plugin(agent: str, text: str) -> bool:
    return any(_OURS.format(agent) in line for line in text.split("\n")[:_FIRST_LINES])


def _plugin(agent: str, words: Sequence[str]) -> str:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), _PLUGINS[agent]), encoding="utf-8") as file:
        text = file.read()
    command = join(words) if agent == CLINE else json.dumps(list(words))
    return text.replace("@COMMAND@", command).replace("@PATIENCE@", str(PATIENCE * 1000))


def _read(file: str) -> str | None:
    """Return the content of a settings file, None if there is none; what is no plain text file is refused."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if os.path.islink(file):
            raise StateError(f"{quoted(file)} is a link that leads nowhere", hint="mend it, or remove it") from None
        return None
    except OSError as error:
        raise StateError(f"{quoted(file)} cannot be read: {error.strerror}", hint="check its permissions") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StateError(f"{quoted(file)} is no plain file", hint="move it away")
    with os.fdopen(descriptor, "rb") as opened:
        content = opened.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise StateError(f"{quoted(file)} is larger than {LARGEST >> 20} MB", hint="are these the settings?")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise StateError(f"{quoted(file)} is not UTF-8", hint="write it anew, as UTF-8") from None


def _replace(path: str, content: str, like: os.stat_result | None) -> None:
    """Replace a file whole or not at all; mode and owner are those of the file that it is like."""
    fresh = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode())
            file.flush()
            if like is not None:
                os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            os.fsync(descriptor)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


_PLUGIN_COMMAND = "const COMMAND = "  # how the plugin begins the line with our words


def installed_commands(agent: str, home: str) -> Iterator[str | list[str]]:
    """Yield the commands of byleave that decide, as they stand in the agent's settings: for a shell, or as words."""
    file = settings_file(agent, home)
    text = _read(file) or ""
    if agent == CLINE:  # a script of ours: what it starts stands in it
        yield from [["/bin/sh", file]] if _is_our_plugin(agent, text) else []
        return
    if agent == OPENCODE:
        line = next((each for each in text.split("\n") if each.startswith(_PLUGIN_COMMAND)), None)
        if line is not None:
            yield json.loads(line.removeprefix(_PLUGIN_COMMAND))
        return
    try:
        read_node(text or "{}")
    except NotPlainError:
        return
    tree: Any = json.loads(text or "{}")
    for name in PLACES[agent].lists[0]:
        tree = tree.get(name) if isinstance(tree, dict) else None
    for value in tree if isinstance(tree, list) else []:
        if is_ours(agent, value):
            single = [value[name] for name in ("command", "bash") if name in value]
            yield from single or [each["command"] for each in value["hooks"]]
