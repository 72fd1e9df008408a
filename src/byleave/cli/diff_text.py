"""What changes between two policies, as lines that a person reads at 80 columns."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from byleave.analysis.rule_atoms import AGENTS
from byleave.analysis.witnesses import EXACT
from byleave.cli.output import paint
from byleave.core.action import action_tree
from byleave.store.audit.records import encode
from byleave.text import sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.analysis.policy_diff import Change, PolicyDiff, Side
    from byleave.analysis.setting_changes import SettingChange

WIDTH = 80
_LONGEST = 300  # letters of a value
_NAMED = {"fs": "files", "net": "the network", "env": "variables", "agents": "calls"}
_SUPPOSED = {
    "directory": "if that is a directory",
    "hard links": "if that file has hard links",
    "no link": "if nothing there now leads elsewhere",
}


def diff_lines(diff: PolicyDiff, settings: list[SettingChange]) -> Iterator[str]:
    """Yield what changes, loosened first, and how sure it is that this is all."""
    loosened = [change for change in diff.changes if change.loosens]
    tightened = [change for change in diff.changes if not change.loosens]
    for title, changes, colour in (("loosened", loosened, "deny"), ("tightened", tightened, "allow")):
        if changes:
            yield f"{paint(title, colour)}: {_count(len(changes), 'kind')} of action"
            for group in _alike(changes):
                yield from _change(group)
            yield ""
    if settings:
        yield f"settings changed: {len(settings)}"
        for setting in settings:
            yield from _setting(setting)
        yield ""
    if not diff.changes and not settings:
        yield "nothing changes"
    yield from _exactness(diff)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _alike(changes: list[Change]) -> Iterable[list[Change]]:
    """Return the changes in their order; those that differ in the kind of action alone are together."""
    groups: dict[object, list[Change]] = {}
    for change in changes:
        named = {**action_tree(change.witness.action), "kind": ""}
        key = (change.old, change.new, encode(named), change.supposes, change.unconfined)
        groups.setdefault(key, []).append(change)
    return groups.values()


def _change(group: list[Change]) -> Iterator[str]:
    change = group[0]
    tree = action_tree(change.witness.action)
    kinds = ", ".join(each.kind for each in group)
    words = [f"{_decision(change.old)} -> {_decision(change.new)}", action_words({**tree, "kind": kinds})]
    if change.supposes:
        words.append(f"({_SUPPOSED[change.supposes]})")
    if change.unconfined:
        words.append("(where commands cannot run confined)")
    yield from wrapped("  ".join(words), "  ")
    for word, side in (("old", change.old), ("new", change.new)):
        yield from wrapped(f"{word}: {shown(side.rule.rule)} ({shown(side.rule.source)})", "      ")


def _decision(side: Side) -> str:
    return f"{side.decision} (confined)" if side.sandbox is not None else side.decision


def action_words(tree: dict[str, Any]) -> str:
    """Return an action in a few words: its kind, what it names, and for whom it is done."""
    kind = tree["kind"]
    names = ["command", "path", "to", "url", "program", "args", "server", "tool" if kind == "call" else "", "arguments"]
    values = [tree[name] for name in (*names, "name") if tree.get(name) is not None]
    words = [kind, *(_word(value) for value in values)]
    if kind == "move":
        words.insert(2, "to")
    words += [f"by the tool {_word(tree['tool'])}"] if kind != "call" and tree.get("tool") is not None else []
    words += [f"for {_word(tree['agent'])}"] if tree.get("agent") is not None else []
    words += [f"at {_word(tree['address'])}"] if tree.get("address") is not None else []
    words += [_word(tree[name]) for name in ("method", "way") if tree.get(name) is not None]
    return " ".join(words)


def _word(value: object) -> str:
    text = value if isinstance(value, str) else encode(value)
    return shown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _setting(change: SettingChange) -> Iterator[str]:
    means = {True: "loosens", False: "does not loosen", None: "may loosen"}[change.loosens]
    yield from wrapped(f"{means}: {shown(change.setting)}", "  ")
    for word, value in (("old", change.old), ("new", change.new)):
        yield from wrapped(f"{word}: {'not set' if value is None else _word(value)}", "      ")


def _exactness(diff: PolicyDiff) -> Iterator[str]:
    exact = [_NAMED[family] for family in EXACT if diff.exact[family]]
    partly = [_NAMED[family] for family in EXACT if not diff.exact[family]]
    if exact:
        yield from wrapped(f"For {sentence_list(exact)} this is all that changes.", "")
    if partly:
        why = "a pattern of an argument cannot be tried in full" if partly == [_NAMED[AGENTS]] else "too many cases"
        yield from wrapped(f"For {sentence_list(partly)} there may be more: {why}.", "")
    tried = f"{_count(diff.commands_tried, 'command line')}: common ones, those of the rules, and those recorded here"
    if diff.commands_tried:
        yield from wrapped(f"Commands were compared on {tried}. Others may change too.", "")


def wrapped(text: str, indent: str) -> Iterable[str]:
    """Return a text in lines of 80 columns; those behind the first stand further in."""
    return wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=True, drop_whitespace=True
    )
