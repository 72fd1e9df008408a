"""The answer to an action: a `Decision`, and the `Verdict` that gives its reason and rules.

`verdict_tree` is the JSON shape that other programs rely on; `explain` is the text for people. Both use the words of
the verdict itself and never look at the rules a second time. What an allow permits to be done: `permit`.
"""

from __future__ import annotations

from binascii import b2a_base64
from enum import IntEnum
from typing import Any, Protocol

from byleave.record import Record
from byleave.text import sentence_list, shown


class Written(Protocol):
    """A rule, and where it is written."""

    @property
    def text(self) -> str: ...

    @property
    def source(self) -> str: ...


WORDS = ("allow", "ask", "deny")


class Decision(IntEnum):
    """Ordered by strictness, so the strictest of several is simply `max`. There are three, and no more."""

    ALLOW = 0
    ASK = 1
    DENY = 2

    @property
    def word(self) -> str:
        """The decision as it stands in JSON and in configuration."""
        return WORDS[self]

    def __repr__(self) -> str:
        return f"Decision.{self.name}"

    def __str__(self) -> str:
        return WORDS[self]


ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY

VERBS = {ALLOW: "is allowed", ASK: "needs your approval", DENY: "is denied"}  # of a reason: `"git push" is denied: ...`
CODES = {ALLOW: "ok", ASK: "no_match", DENY: "denied"}
BUILT_IN = "built-in"
INLINE = "inline"


class RuleRef(Record):
    """One rule that had a say: its text, where it was written, and what it answered."""

    rule: str
    source: str
    decision: Decision


class FileTouch(Record):
    """A file that a command names: where it is, what is done to it, what was said of that (None: nothing)."""

    path: str
    op: str
    decision: Decision | None


class PartVerdict(Record):
    """What one command or redirection of a command line came to, and why."""

    text: str
    decision: Decision
    why: str
    rule: RuleRef
    files: tuple[FileTouch, ...] = ()


class Verdict(Record):
    """The answer to one action. `because` names the deciding rule first and is never empty.

    `sandbox` is set for commands: whether the command runs confined, and whether only that is allowed.
    """

    decision: Decision
    reason: str
    code: str
    because: tuple[RuleRef, ...]
    suggestion: str | None = None
    canonical: str | None = None
    grants: tuple[str, ...] | None = None
    parts: tuple[PartVerdict, ...] = ()
    sandbox: tuple[bool, bool] | None = None

    @property
    def allowed(self) -> bool:
        return self.decision is ALLOW


def ref_to(rule: Written | None, *, allowed: bool, missing: RuleRef) -> RuleRef:
    """Return the reference to a rule that a verdict carries; `missing` stands for a rule that is not there."""
    if rule is None:
        return missing
    return RuleRef(rule.text, rule.source, ALLOW if allowed else DENY)


def strictest(verdicts: list[Verdict]) -> Verdict:
    """Return the strictest verdict, with the rules of the others behind its own."""
    if len(verdicts) == 1:
        return verdicts[0]
    first = max(verdicts, key=_strictness)
    others = [ref for verdict in verdicts if verdict is not first for ref in verdict.because]
    because = tuple(dict.fromkeys([*first.because, *others]))
    sandbox = first.sandbox
    if sandbox is not None and first.decision is not DENY:  # a confined allow is stricter than a plain one
        sandbox = max([verdict.sandbox for verdict in verdicts if verdict.sandbox is not None])
    return first.replace(because=because, sandbox=sandbox)


def verdict_tree(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict in the JSON shape that other programs rely on."""
    tree: dict[str, Any] = {
        "decision": WORDS[verdict.decision],
        "reason": verdict.reason,
        "code": verdict.code,
        "because": [
            {"rule": ref.rule, "source": ref.source, "decision": WORDS[ref.decision]} for ref in verdict.because
        ],
    }
    if verdict.canonical is not None:
        tree |= named_path("canonical", verdict.canonical)
    if verdict.grants is not None:
        spoken = _is_utf8("".join(verdict.grants))  # all at once: there may be thousands
        tree["grants"] = verdict.grants if spoken else [shown(path) for path in verdict.grants]
    if verdict.parts:
        tree["parts"] = [_part_tree(part) for part in verdict.parts]
    if verdict.sandbox is not None:
        confined, required = verdict.sandbox
        tree["sandbox"] = {"table": "shell", "required": required} if confined else None
    if verdict.decision is not ALLOW:
        tree["suggestion"] = verdict.suggestion
    return tree


def shared_tree(verdict: Verdict, root: str) -> dict[str, Any]:
    """Return the verdict as others may see it (agents, tools, records): where a mount leads is the user's own affair.

    A place outside the workspace at `root` is left out, and with it a suggestion that would name it.
    """
    place = verdict.canonical
    if any(file.path.startswith("/") for part in verdict.parts for file in part.files):
        verdict = verdict.replace(parts=tuple(_shared_part(part) for part in verdict.parts))
    if place is None or place == root or place.startswith(root if root.endswith("/") else f"{root}/"):
        return verdict_tree(verdict)
    tree = verdict_tree(verdict.replace(canonical=None))
    if verdict.suggestion is not None and place in verdict.suggestion:
        tree["suggestion"] = None
    return tree


def _shared_part(part: PartVerdict) -> PartVerdict:
    return part.replace(files=tuple(file for file in part.files if not file.path.startswith("/")))


def _part_tree(part: PartVerdict) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "text": part.text,
        "decision": WORDS[part.decision],
        "why": part.why,
        "source": part.rule.source,
    }
    if part.files:
        tree["files"] = [
            {
                **named_path("path", file.path),
                "op": file.op,
                "decision": None if file.decision is None else WORDS[file.decision],
            }
            for file in part.files
        ]
    return tree


def named_path(key: str, path: str) -> dict[str, str]:
    """Return a path for JSON; a name that is not UTF-8 is escaped, and its bytes stand beside it in base64."""
    if _is_utf8(path):
        return {key: path}

    try:
        raw = b2a_base64(path.encode("utf-8", "surrogateescape"), newline=False).decode()
    except UnicodeEncodeError:  # half of a character: no file can have that name
        return {key: shown(path)}
    return {key: shown(path), f"{key}_b64": raw}


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _strictness(verdict: Verdict) -> int:
    return verdict.decision


HOW_TO_ALLOW = "to allow it, add to your configuration:"


def explain(verdict: Verdict) -> str:
    """Return the verdict for a person: the decision and its reason, the rules behind it, and what would help."""
    lines = [f"{verdict.decision.word}: {verdict.reason}"]
    lines += _parts(verdict)
    lines += [f"  because: {shown(ref.rule)} ({ref.decision.word}, {shown(ref.source)})" for ref in verdict.because]
    if verdict.sandbox is not None and verdict.sandbox[0]:
        lines.append("  sandbox: it must run confined" if verdict.sandbox[1] else "  sandbox: it runs confined")
    if verdict.grants is not None:
        granted = sentence_list(verdict.grants) if verdict.grants else "nowhere"
        lines.append(f"  granted at: {granted}")
    if verdict.decision is not ALLOW and verdict.suggestion:
        lines.append(f"  {HOW_TO_ALLOW}")
        lines += [f"    {line}".rstrip() for line in verdict.suggestion.splitlines()]
    return "\n".join(lines)


def _parts(verdict: Verdict) -> list[str]:
    """Return a small table of the commands found, each with its decision; one command needs none."""
    if len(verdict.parts) < 2:
        return []
    width = min(48, max(len(part.text) for part in verdict.parts))
    return [
        f"  {part.decision.word:<5}  {_cut(part.text, width):<{width}}  {shown(part.why)}" for part in verdict.parts
    ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."
