"""`approvals.json`: what this user has agreed to in this workspace.

    {"mounts":        [{"rule_path", "canonical_target", "approved_at"}],
     "project_files": [{"path", "sha256", "scripts": {name: sha256}, "approved_at"}],
     "actions":       [{"key", "kind", "subject", "status", "session", "created", "by"?, "decided_at"?, "asked"?,
                        "until"?, "spent"?, "spent_until"?}],
     "revoked":       [{"kind", ..., "revoked_at"}]}

A mount is approved by target: a path of the workspace may lead to one place and no other. An action is known by a key
made of everything that was shown (`guard.approval_key`); here only its masked text is kept, and `asked`, the masked
action with its verdict and all else that a person was shown. An approval with `until` is for one request, and lapses
then. One with `spent` is used up but for the other event of the same call (`Approvals.spend`).

Trust in a project file is for its content and for the scripts of the workspace that its tools run (`Fingerprint`). Keys
that this version does not know are left as they are. What MCP servers say of their tools is kept beside this file
(`store.tool_definitions`).

The file is written whole or not at all, under a lock, so that two writers lose nothing. A damaged file counts as empty,
is kept beside the new one, and is warned about: forgetting a yes is safe.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from byleave.errors import StateError
from byleave.record import Record
from byleave.store.tool_definitions import Definitions
from byleave.text import quoted, sentence_list, shown
from byleave.user_files import ParseCache, digest, read_private, rewrite, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    ReadScript = Callable[[str], tuple[str, str] | None]
    from collections.abc import Sequence

    Tree = dict[str, Any]


UNREAD = ""  # the hash of a script that could not be read whole: it cannot be trusted
_SHELL = str.maketrans(dict.fromkeys("\"'`$(){};|&<>,@", " "))


class Fingerprint(Record):
    """The hash of a project file, and of every script inside the workspace that it would start."""

    file: str
    sha256: str
    scripts: tuple[tuple[str, str], ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        """The scripts that could not be read whole."""
        return tuple(name for name, sha256 in self.scripts if sha256 == UNREAD)


def fingerprint(file: str, content: bytes, tree: Mapping[str, Any], read_script: ReadScript) -> Fingerprint:
    """Return the fingerprint of a project file as it is now."""
    words = dict.fromkeys(command_words(tree))
    found = {script[0]: script[1] for word in words if (script := read_script(word)) is not None}
    return Fingerprint(file, digest(content), tuple(sorted(found.items())))


def command_words(tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield whatever in a command could name a file: words, `--option=FILE`, and what a shell would split."""
    for tool in (*tree.get("tools", {}).values(), *tree.get("servers", {}).values()):
        for word in tool.get("command", ()):
            yield word
            for part in word.translate(_SHELL).split():
                yield part
                _option, _mark, value = part.partition("=")
                if value:
                    yield value


LARGEST = 16 << 20
MOST_ACTIONS = 10_000  # the oldest are forgotten: forgetting a yes is safe
LARGEST_WAITING = 2 << 20  # characters of all questions; the oldest are forgotten: they were refused, and ask again
_KINDS = ("mounts", "project_files", "actions", "revoked")
_LATER = _KINDS[2:]
_FILE_FIELDS = ("path", "sha256", "approved_at")
_OF_ONE_REQUEST = ("until", "spent", "spent_until")  # fields that end with the next answer
PENDING, APPROVED, REVOKED = "pending", "approved", "revoked"
CALL, TOOL_DEFINITION = "call", "tool_definition"
BY_LIST = "approvals"  # the way of `byleave approvals approve`
ID_LENGTH = 12  # characters of an id: as many as people type. Two things may have the same one


class Approval(Record):
    """One thing the user agreed to, took back, or has yet to answer. `detail` is what its kind knows of it.

    `asked` is what else was shown of an action; empty where that is not kept.
    """

    kind: str
    status: str
    subject: str
    created: str
    detail: Mapping[str, str]
    asked: Mapping[str, Any] = {}

    @property
    def full_id(self) -> str:
        """A hash that stays the same as long as this is about the same thing."""
        return digest("\0".join([self.kind, *_identity(self.kind, self.detail)]).encode("utf-8", "surrogatepass"))

    @property
    def id(self) -> str:
        """The short form of `full_id`. Agents choose what is hashed: never take it for a proof that two are one."""
        return self.full_id[:ID_LENGTH]

    @property
    def fingerprint(self) -> str:
        """A hash of all that is shown of it, and of all that a yes covers."""
        tree = [self.kind, self.subject, self.created, dict(self.detail), dict(self.asked)]
        return digest(json.dumps(tree, sort_keys=True).encode())

    def is_named(self, text: str) -> bool:
        """Whether this may be what a person means by an id: all of it, or more of it than is listed."""
        return len(text) >= ID_LENGTH and self.full_id.startswith(text)


def refuse_changed(seen: str, now: str) -> None:
    """Refuse an answer to another question than the one that was shown; `seen` is empty where none was."""
    if seen and seen != now:
        raise StateError("the question has changed since it was shown", hint="look at it again")


def definition_detail(server: str, what: str, name: str, sha256: str, workspace: str) -> dict[str, str]:
    """Return what an approval knows of a definition; `tool` is there for a tool alone.

    The same definition in another workspace is another question.
    """
    detail = {"server": server, "definition": what, "name": name, "sha256": sha256, "workspace": workspace}
    return {**detail, "tool": name} if what == "tool" else detail


def now() -> str:
    """Return the time as approvals keep it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later(moment: str, seconds: int) -> str:
    """Return the time that many seconds after another one, both as approvals keep them."""
    return (datetime.fromisoformat(moment) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Approvals:
    """The approvals of one workspace, in its private directory."""

    may_wait = False

    def __init__(self, directory: str, memory: ParseCache) -> None:
        self.directory = directory
        self._memory = memory
        self._path = os.path.join(directory, "approvals.json")
        self._read: Tree | None = None
        self.warnings: list[str] = []

    def refresh(self) -> None:
        """Read the file again at the next question: the user may have decided otherwise."""
        self._read = None
        self.warnings.clear()

    def approves_mount(self, rule_path: str, target: str) -> bool:
        """Whether the user agreed that this path of the workspace may lead to this very target."""
        return any(
            entry.get("rule_path") == rule_path and entry.get("canonical_target") == target
            for entry in self._entries("mounts")
        )

    def mount_target(self, rule_path: str) -> str | None:
        """Return where the user agreed that this path may lead, None if they never did."""
        return next((target for path, target, _at in self.mounts() if path == rule_path), None)

    def mounts(self) -> list[tuple[str, str, str]]:
        """Return the agreed paths, each with its target and the time of the agreement."""
        fields = ("rule_path", "canonical_target", "approved_at")
        return [(path, target, at) for path, target, at in (_texts(e, fields) for e in self._entries("mounts")) if path]

    def approve_mount(self, rule_path: str, target: str, *, now: str) -> None:
        """Remember that this path may lead to this target, and to no other."""
        entry = {"rule_path": rule_path, "canonical_target": target, "approved_at": now}
        self._change(lambda tree: _replaced(tree, "mounts", {"rule_path": rule_path}, entry))

    def forget_mount(self, rule_path: str, *, target: str | None = None) -> bool:
        """Forget the agreement about a path (with `target`, only to that one), and say whether there was any."""
        fields = {"rule_path": rule_path} | ({} if target is None else {"canonical_target": target})
        known = any(_has(entry, fields) for entry in self._entries("mounts"))
        if known:
            self._change(lambda tree: _replaced(tree, "mounts", fields))
        return known

    def recalls(self, key: str) -> bool:
        """Whether exactly the action that this key stands for was approved."""
        return self.approved_by(key) is not None

    def approved_by(self, key: str, *, now: str = "", step: str = "") -> str | None:
        """Return on which way exactly the action that this key stands for was approved; None if it was not.

        The way is empty where it was not kept: an older version did not. `step` as for `spend`.
        """
        for entry in self._entries("actions"):
            if entry.get("key") == key and _holds(entry, now, step):
                return BY_LIST if entry.get("decided_at") else _text(entry, "by")
        return None

    def spend(self, keys: Sequence[str], *, now: str, step: str = "", spent_until: str = "") -> bool:
        """Use up the approvals of these actions that are for one request, and say whether all actions are approved.

        Either all of them are used up, or none is: another process may want the same ones at the same time.

        `step` is the event by which the request came, where an agent has two events for one call: such an approval is
        then left for the other event, until `spent_until`.
        """
        requested = set(keys)
        lasting = {
            entry["key"] for entry in self._entries("actions") if _is_lasting(entry) and entry["key"] in requested
        }
        if lasting == requested:
            return True
        is_there: list[bool] = []

        def spend(tree: Tree) -> Tree | None:
            found = {e["key"] for e in tree["actions"] if _has_key(e, requested) and _holds(e, now, step)}
            is_there.append(found == requested)
            if not is_there[0]:
                return None
            left = []
            for entry in tree["actions"]:
                if not _has_key(entry, requested) or _is_lasting(entry):
                    left.append(entry)
                elif step and "spent" not in entry:
                    left.append({**entry, "spent": step, "spent_until": spent_until})
            return {**tree, "actions": left}

        self._change(spend)
        return is_there[0]

    def remember(
        self,
        key: str,
        *,
        kind: str,
        subject: str,
        session: str,
        status: str,
        now: str,
        by: str = "",
        asked: Mapping[str, Any] | None = None,
        spent: str = "",
        spent_until: str = "",
    ) -> None:
        """Keep an action as approved, or as one that waits for an answer; what was answered is not made to wait.

        `by` is the way on which it was answered, `asked` what is shown of a question. `spent` is
        the event of a call that was approved: the approval is for the other event of it alone (`spend`).
        What was revoked stays so when it is attempted again, with what was shown of it if that was not kept before.
        """
        entry: Tree = {"key": key, "kind": kind, "subject": subject, "status": status, "session": session}
        entry["created"] = now
        if by:
            entry["by"] = by
        if asked is not None:
            entry["asked"] = dict(asked)
        if spent:
            entry |= {"until": spent_until, "spent": spent, "spent_until": spent_until}

        def remember(tree: Tree) -> Tree | None:
            holding = (e for e in tree["actions"] if _has(e, {"key": key}) and not _is_over(e, now))
            known = next(holding, None)
            if known is None or status != PENDING:
                return _bounded(_replaced(tree, "actions", {"key": key}, entry))
            if asked is None or known.get("status") != REVOKED or "asked" in known:
                return None
            fuller = {**known, "subject": subject, "asked": dict(asked)}
            return _bounded(_replaced(tree, "actions", {"key": key}, fuller))

        self._change(remember)

    def all(self) -> list[Approval]:
        """Return everything that is remembered, whatever became of it."""
        found = [Approval("mount", APPROVED, *_mount_words(entry)) for entry in self._entries("mounts")]
        found += [Approval("project_file", APPROVED, *_file_words(entry)) for entry in self._entries("project_files")]
        found += [_action(entry) for entry in self._entries("actions")]
        for entry in self._entries("revoked"):
            words = _WORDS.get(_text(entry, "kind"), _action_words)
            found.append(Approval(_text(entry, "kind"), REVOKED, *words(entry)))
        return [*found, *self._all_definitions()]

    @property
    def definitions(self) -> Definitions:
        """The definitions of tools that MCP servers offer; in files of their own, which few programs need."""
        return Definitions(self.directory)

    def settle_definition(self, approval: Approval, *, status: str, now: str, seen: str = "") -> bool:
        """Approve or revoke exactly the definition that this approval is about.

        Return whether it is there, with the status that the approval has: another answer may have been faster. `seen`
        is the fingerprint of what was shown.
        """
        refuse_changed(seen, approval.fingerprint)
        was = None if status == REVOKED else approval.status
        server, name, sha256, what = (approval.detail[field] for field in ("server", "name", "sha256", "definition"))
        return self.definitions.settle(server, name, sha256, status=status, now=now, what=what, was=was)

    @property
    def workspace_id(self) -> str:
        """The name of the workspace among all of this user."""
        return os.path.basename(self.directory)

    def _all_definitions(self) -> Iterator[Approval]:
        for one in self.definitions.all(self.warnings):
            known, before = one.known, one.before
            detail = definition_detail(one.server, one.what, one.name, known.sha256, self.workspace_id)
            if before is not None or known.status == PENDING:
                detail |= {"old": "" if before is None else before.text, "new": known.text}
            subject = _DEFINITION_SUBJECTS[one.what].format(one.server, one.name)
            yield Approval(TOOL_DEFINITION, known.status, subject, known.created, detail)

    def forget_action(self, key: str, *, first: Callable[[], None] | None = None, seen: str = "") -> bool:
        """Forget an action that waits, because a rule decides it; return whether it still waited.

        `first` writes the rule. It is called while no other answer can be given, and only if none was: where it fails,
        the action goes on waiting.
        """

        def forget(_entry: Tree) -> None:
            if first is not None:
                first()

        return self.answer(key, forget, was=PENDING, seen=seen)

    def settle_action(
        self, key: str, *, status: str, now: str, until: str = "", was: str | None = PENDING, seen: str = ""
    ) -> bool:
        """Approve or revoke an action that is known by its key, and say whether there is one with the status `was`.

        None is any status. With `until`, the approval is for one request, and lapses then. `seen` is the fingerprint
        of what was shown: another question is not answered.
        """
        answer = {"status": status, "decided_at": now} | ({"until": until} if until else {})

        def settle(entry: Tree) -> Tree:
            return {name: entry[name] for name in entry if name not in _OF_ONE_REQUEST} | answer

        return self.answer(key, settle, was=was, seen=seen)

    def answer(self, key: str, answer: Callable[[Tree], Tree | None], *, was: str | None, seen: str) -> bool:
        """Replace the entry of an action by what `answer` makes of it, if it has the status `was`; return whether.

        None is any status. `seen` is the fingerprint of what was shown.
        """
        fields = {"key": key} if was is None else {"key": key, "status": was}
        won: list[bool] = []

        def change(tree: Tree) -> Tree | None:
            known = next((entry for entry in tree["actions"] if _has(entry, fields)), None)
            won.append(known is not None)
            if known is None:
                return None
            refuse_changed(seen, _action(known).fingerprint)
            return _replaced(tree, "actions", {"key": key}, *[each for each in [answer(known)] if each is not None])

        self._change(change)
        return won[0]

    def revoke(self, approval: Approval, *, now: str) -> bool:
        """Take an approval back; it stays listed as revoked. Say whether it was there."""
        if approval.kind == TOOL_DEFINITION:
            return self.settle_definition(approval, status=REVOKED, now=now)
        if approval.kind not in _LISTS:
            return self.settle_action(approval.detail["key"], status=REVOKED, now=now, was=None)
        name, field = _LISTS[approval.kind]
        fields = {field: approval.detail[field]}
        known = any(_has(entry, fields) for entry in self._entries(name))
        taken = {"kind": approval.kind, **approval.detail, "approved_at": approval.created, "revoked_at": now}

        def change(tree: Tree) -> Tree:
            return _replaced(_replaced(tree, name, fields), "revoked", {"kind": approval.kind, **fields}, taken)

        if known:
            self._change(change)
        return known

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the file does."""
        return stamp_of(self._path)

    def trusts(self, print_: Fingerprint) -> bool:
        """Whether the user trusted exactly this content of this file, and of the scripts it starts."""
        scripts = dict(print_.scripts)
        return not print_.unread and any(
            entry.get("scripts", {}) == scripts for entry in self._yeses(print_.file, print_.sha256)
        )

    def knows(self, file: str, sha256: str) -> bool:
        """Whether the user ever trusted this content of this file, whatever its scripts were."""
        return any(True for _ in self._yeses(file, sha256))

    def trusted_files(self) -> list[str]:
        """Return the project files that the user trusted, in whatever state they are now."""
        return [
            path for path, _sha256, _at in (_texts(e, _FILE_FIELDS) for e in self._entries("project_files")) if path
        ]

    def trusted_hash(self, file: str) -> str | None:
        """Return the hash of the content that the user trusted last in this file, None if there is none."""
        return next((_text(e, "sha256") for e in self._entries("project_files") if e.get("path") == file), None)

    def trust(self, print_: Fingerprint, *, now: str) -> None:
        """Remember that the user trusts this file as it is; an earlier yes to the same file is replaced."""
        if print_.unread:
            raise StateError(
                f"{quoted(print_.file)} cannot be trusted: its tools run {sentence_list(print_.unread)}, "
                "which cannot be read whole",
                hint="make it a readable file of moderate size, or keep the program outside the workspace",
            )
        entry = {
            "path": print_.file,
            "sha256": print_.sha256,
            "scripts": dict(print_.scripts),
            "approved_at": now,
        }
        self._change(lambda tree: _replaced(tree, "project_files", {"path": print_.file}, entry))

    def untrust(self, file: str) -> bool:
        """Forget the trust in a file, and say whether there was any."""
        known = any(entry.get("path") == file for entry in self._entries("project_files"))
        self._change(lambda tree: _replaced(tree, "project_files", {"path": file}))
        return known

    def _yeses(self, file: str, sha256: str) -> Iterator[Tree]:
        for entry in self._entries("project_files"):
            if entry.get("path") == file and entry.get("sha256") == sha256:
                yield entry

    def _entries(self, kind: str) -> list[Tree]:
        read = self._read  # another thread may forget it meanwhile
        if read is None:
            read = self._read = self._load()
        return [entry for entry in read[kind] if isinstance(entry, dict)]

    def _load(self) -> Tree:
        content = read_private(self._path, limit=LARGEST)
        if content is None:
            return nothing()
        tree = self._memory.recall(self._path, content, parse)
        if tree is None:
            self.warnings.append(
                f"{shown(self._path)} is damaged: nothing counts as approved until you approve it again"
            )
            return nothing()
        return tree

    def _change(self, change: Callable[[Tree], Tree | None]) -> None:
        """Replace the file by what `change` makes of it while no other process does; None leaves it as it is."""

        def changed() -> bytes | None:
            self._keep_damaged()
            tree = change(self._load())
            return None if tree is None else written(tree)

        rewrite(self._path, "approvals.lock", changed, limit=LARGEST)
        self._read = None

    def _keep_damaged(self) -> None:
        """Put a file we cannot read aside before it is replaced."""
        content = read_private(self._path, limit=LARGEST)
        if content is not None and parse(content) is None:
            os.replace(self._path, f"{self._path}.damaged")


def parse(content: bytes) -> Tree | None:
    """Return the tree of a well-formed file with every kind of approval present; None if it is damaged."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(tree, dict) or not all(isinstance(tree.get(kind, []), list) for kind in _KINDS):
        return None
    return {**nothing(), **tree}


def written(tree: Tree) -> bytes:
    """Return the text of a file, in which the later kinds are left out while there is nothing of them."""
    lean = {key: value for key, value in tree.items() if value or key not in _LATER}
    return json.dumps(lean, indent=2, ensure_ascii=True).encode() + b"\n"


def nothing() -> Tree:
    """Return a tree without any approval."""
    return {kind: [] for kind in _KINDS}


def _replaced(tree: Tree, name: str, fields: Mapping[str, str], *added: Tree) -> Tree:
    """Return the tree with the entries of one list that hold `fields` exchanged for those `added`.

    What is agreed to again is no longer revoked.
    """
    kept = [entry for entry in tree[name] if not _has(entry, fields)]
    changed = {**tree, name: [*kept, *added]}
    kind = next((kind for kind, (list_name, _field) in _LISTS.items() if list_name == name), None)
    if added and kind is not None:
        again = {"kind": kind, **fields}
        changed["revoked"] = [entry for entry in tree["revoked"] if not _has(entry, again)]
    return changed


def _bounded(tree: Tree) -> Tree:
    """Forget the oldest actions where there are too many, and the oldest questions where they take too much room.

    Agents choose how many questions there are, and how long: the file must never be too large for an answer. Of what
    was answered long ago, it is forgotten what was shown.
    """
    kept: list[Any] = []
    room = room_of_answered = LARGEST_WAITING
    for entry in reversed(tree["actions"][-MOST_ACTIONS:]):
        if _has(entry, {"status": PENDING}):
            room -= len(json.dumps(entry))
            if room < 0 and kept:
                continue
        elif isinstance(entry, dict) and "asked" in entry:
            room_of_answered -= len(json.dumps(entry["asked"]))
            if room_of_answered < 0:
                kept.append({name: entry[name] for name in entry if name != "asked"})
                continue
        kept.append(entry)
    return {**tree, "actions": kept[::-1]}


def _has(entry: object, fields: Mapping[str, str]) -> bool:
    return isinstance(entry, dict) and all(entry.get(key) == value for key, value in fields.items())


def _has_lapsed(entry: Tree, now: str) -> bool:
    return "until" in entry and (not isinstance(entry["until"], str) or entry["until"] < now)


def _is_over(entry: Tree, now: str) -> bool:
    """Whether an approval for one request has lapsed, or is used up: the next such request is asked about anew."""
    return _has_lapsed(entry, now) or "spent" in entry


def _is_lasting(entry: object) -> bool:
    """Whether an entry is an approval for any number of requests."""
    return _has(entry, {"status": APPROVED}) and isinstance(entry, dict) and "until" not in entry and "key" in entry


def _has_key(entry: object, keys: set[str]) -> bool:
    return isinstance(entry, dict) and entry.get("key") in keys


def _holds(entry: Tree, now: str, step: str) -> bool:
    """Whether an entry approves a request that comes by the event `step`."""
    if entry.get("status") != APPROVED or _has_lapsed(entry, now):
        return False
    if "spent" not in entry:
        return True
    return bool(step) and entry["spent"] != step and _text(entry, "spent_until") >= now


def _action(entry: Tree) -> Approval:
    asked = entry.get("asked")
    kind = "call" if entry.get("kind") == "call" else "action"
    return Approval(kind, _text(entry, "status"), *_action_words(entry), asked if isinstance(asked, dict) else {})


def _text(entry: Tree, field: str) -> str:
    value = entry.get(field)
    return value if isinstance(value, str) else ""


def _texts(entry: Tree, fields: Sequence[str]) -> list[str]:
    return [_text(entry, field) for field in fields]


def _mount_words(entry: Tree) -> tuple[str, str, Mapping[str, str]]:
    path, target, at = _texts(entry, ("rule_path", "canonical_target", "approved_at"))
    return f"{path} -> {target}", at, {"rule_path": path, "canonical_target": target}


def _file_words(entry: Tree) -> tuple[str, str, Mapping[str, str]]:
    path, sha256, at = _texts(entry, _FILE_FIELDS)
    return f"{path} (sha256 {sha256[:16]})", at, {"path": path, "sha256": sha256}


def _action_words(entry: Tree) -> tuple[str, str, Mapping[str, str]]:
    key, subject, session, created = _texts(entry, ("key", "subject", "session", "created"))
    return subject, created, {"key": key, "session": session}


def _identity(kind: str, detail: Mapping[str, str]) -> list[str]:
    """Return what makes an approval this one: of a mount also its target, so that an id never changes its meaning."""
    return [detail.get(field, "") for field in _IDENTITIES.get(kind, ("key",))]


_DEFINITION_SUBJECTS = {
    "tool": "{}/{}",
    "prompt": "prompt {}/{}",
    "resource_template": "resource template {}/{}",
    "instructions": "instructions of {}",
}
_WORDS = {"mount": _mount_words, "project_file": _file_words}
_LISTS = {"mount": ("mounts", "rule_path"), "project_file": ("project_files", "path")}
_IDENTITIES = {
    "mount": ("rule_path", "canonical_target"),
    "project_file": ("path", "sha256"),
    TOOL_DEFINITION: ("workspace", "server", "definition", "name", "sha256"),
}
