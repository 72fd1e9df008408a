"""One thing that a program was refused, as it is reported to a person; and how several of them become one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.decision import BUILT_IN, DENY, RuleRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Key = Callable[["RefusalFinding"], object]
    Join = Callable[["RefusalFinding", "RefusalFinding"], "RefusalFinding"]

FILE, NETWORK, COMMAND, CALL = "file", "network", "command", "call"
# Where a suggestion belongs: to the rules of the tool, or to what every sandbox sees.
ACCESS, SANDBOX = "access", "sandbox"
# The most important first: what a rule or default holds back, what lies outside, what nothing allows, mere looks.
HELD, OUTSIDE, NEVER, LOOKED = range(4)
NOWHERE = RuleRef("", "", DENY)


class RefusalFinding(Struct, frozen=True):
    """What was refused (`verbs` and `subjects`), why, by which rule, and what would allow it.

    Those of one `group` have one reason and one remedy, and are reported together.
    """

    kind: str
    verbs: tuple[str, ...]
    subjects: tuple[str, ...]
    why: str
    rule: RuleRef = NOWHERE
    caution: str | None = None
    suggestion: str | None = None
    belongs: str = ACCESS
    rank: int = HELD
    times: int = 1
    group: object = None
    places: tuple[str, ...] = ()  # absolute paths, where there are any
    listing: tuple[str, str] | None = None  # the key of `[sandbox]` that would list it, and the path


def built_in(why: str) -> RuleRef:
    """Return the rule of a refusal that no policy file states: it is the reason itself."""
    return RuleRef(why, BUILT_IN, DENY)


def gather(found: Iterable[RefusalFinding]) -> list[RefusalFinding]:
    """Return findings with equal ones counted, and those of one group put together, the most important first.

    First everything that was tried with one subject, then all subjects with which the same was tried.
    """
    by_subject = _joined(found, lambda each: (each.kind, each.group, each.subjects), _with_verbs)
    joined = _joined(by_subject, lambda each: (each.kind, each.group, each.verbs, each.rank), _with_subjects)
    return sorted(joined, key=lambda each: each.rank)


def _joined(found: Iterable[RefusalFinding], key: Key, join: Join) -> Iterator[RefusalFinding]:
    known: dict[object, RefusalFinding] = {}
    for each in found:
        name = key(each)
        known[name] = join(known[name], each) if name in known else each
    return iter(known.values())


def _with_verbs(one: RefusalFinding, other: RefusalFinding) -> RefusalFinding:
    """Join two findings about one subject: the better reason stays, and the remedy is for both."""
    first = one if one.rank <= other.rank else other
    verbs = tuple(dict.fromkeys((*one.verbs, *other.verbs)))
    if other.rank != one.rank:  # a program that did it has looked before
        verbs = first.verbs
    both = one.rank == other.rank
    suggestion = merged([one.suggestion, other.suggestion]) if both else first.suggestion
    return structs.replace(first, verbs=verbs, suggestion=suggestion, times=one.times + other.times)


def _with_subjects(one: RefusalFinding, other: RefusalFinding) -> RefusalFinding:
    return structs.replace(
        one,
        subjects=tuple(dict.fromkeys((*one.subjects, *other.subjects))),
        places=tuple(dict.fromkeys((*one.places, *other.places))),
        times=one.times + other.times,
        caution=one.caution or other.caution,
    )


def merged(suggestions: Iterable[str | None]) -> str | None:
    """Return several pieces of TOML as one that says all they say: blocks about one thing become one block."""
    blocks: dict[tuple[str, ...], list[list[str]]] = {}
    for text in suggestions:
        for block in (text or "").split("\n\n"):
            lines = block.splitlines()
            if lines:
                about = 2 if lines[0].endswith(".fs]]") else len(lines) if lines[0].startswith("[[") else 1
                blocks.setdefault(tuple(lines[:about]), []).append(lines[about:])
    written = ["\n".join([*head, *_joined_lines(head, said)]) for head, said in blocks.items()]
    return "\n\n".join(written) or None


def _joined_lines(head: tuple[str, ...], said: list[list[str]]) -> Iterable[str]:
    if head[0].startswith("[["):
        return _without_doubles(dict.fromkeys(line for lines in said for line in lines))
    # A command: its lists of arguments are all allowed; without any, every argument is.
    lists = [line.removeprefix(_ARGUMENTS).removesuffix("]") for lines in said for line in lines]
    return [f"{_ARGUMENTS}{', '.join(dict.fromkeys(lists))}]"] if all(said) else []


def _without_doubles(lines: Iterable[str]) -> list[str]:
    """Leave out what `write = true` says already, and put the lines in their usual order."""
    kept = list(lines)
    if "write = true" in kept:
        kept = [line for line in kept if line.partition(" ")[0] not in ("create", "update", "delete")]
    return sorted(kept, key=lambda line: _ORDER.get(line.partition(" ")[0], 0))


_ARGUMENTS = "args = ["
_ORDER = {name: place for place, name in enumerate(("read", "write", "create", "update", "delete", "execute"))}
