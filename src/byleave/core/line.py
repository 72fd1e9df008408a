"""Judge a command line: every command in it, every file its redirections write, the strictest answer.

Pure: the line arrives read (shell) and its paths resolved. A line that was not understood is never allowed.
"""

from byleave.core.files import names_place
from byleave.core.fs import FsTarget, Refused
from byleave.core.matchers import All, AnyOf, CommandMatcher, OperationMatcher
from byleave.core.policy import NO_RULE
from byleave.core.rules import CODES, VERBS, RuleTable, Ruling
from byleave.core.selfguard import GUARDED_COMMANDS, changes_trust
from byleave.core.subject import Subject
from byleave.core.suggest import suggest_command_rule, suggest_path_rule
from byleave.core.verdict import ALLOW, ASK, BUILT_IN, DENY, PartVerdict, RuleRef, Verdict
from byleave.record import Record
from byleave.text import quoted, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from byleave.core.matchers import Matcher
    from byleave.core.protected import Protected, Protection
    from byleave.core.subject import Part
    from byleave.core.verdict import Decision

MOST_SPELLINGS = 1000  # more than any rule that a person writes has
_NOTHING = RuleRef("a comment runs nothing", BUILT_IN, ALLOW)
_SELF_GUARD = RuleRef("byleave guards itself", BUILT_IN, DENY)


class Redirection(Record):
    """A file that a redirection touches; None stands for a name known only at run time."""

    text: str
    writes: bool
    place: "FsTarget | Refused | None"


class Line(Record):
    """A command line, read and resolved. `problem` says why it was not understood, if it was not."""

    text: str
    parts: "tuple[Part, ...]" = ()
    argvs: tuple[tuple[str | None, ...], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    problem: str | None = None
    loose_words: frozenset[str] = frozenset()  # of a line that was not understood: whatever could be a word


class _Answer(Record):
    """What one piece of the line comes to; `decision` None is silence."""

    text: str
    decision: "Decision | None"
    why: str
    ref: RuleRef = NO_RULE
    code: str = "ok"


def judge_line(line: Line, table: RuleTable, protected: "Protected", agent: str | None = None) -> Verdict:
    """Return the verdict on a whole line, with one part for each command and each redirection."""
    if line.problem is not None:
        return _unread(line, table)
    if not line.parts and not line.redirections and line.text.strip():
        return Verdict(ALLOW, "it is a comment: nothing runs", "ok", (_NOTHING,))
    answers = [*_commands(line, table, protected, agent), *_redirections(line, table, protected, agent)]
    heard = [answer for answer in answers if answer.decision is not None]
    if not heard:
        heard = [_Answer(line.text, ASK, "no rule matches", NO_RULE, "no_match")]
    first = max(heard, key=_strictness)
    refs = dict.fromkeys([first.ref, *[answer.ref for answer in heard]])
    decision = first.decision if first.decision is not None else ASK
    parts = tuple(PartVerdict(shown(each.text), each.decision or ALLOW, each.why, each.ref) for each in answers)
    suggestion = _suggestion(line, answers) if decision is ASK else None
    return Verdict(decision, _reason(first), first.code, tuple(refs), suggestion, parts=parts)


def _suggestion(line: Line, answers: "Sequence[_Answer]") -> str | None:
    """Return the rules that would let the whole line run; None where a rule would not be enough."""
    blocks: list[str | None] = []
    for number, answer in enumerate(answers):
        if answer.decision is not ASK:
            continue
        plain = answer.ref == NO_RULE and number < len(line.parts) and line.parts[number].blocked is None
        if plain and not _is_placed(line.parts[number]):
            return None  # its name means another file elsewhere, and a rule could not say which
        blocks.append(suggest_command_rule(line.argvs[number]) if plain else _suggest_write(line, answer))
    if None in blocks:
        return None
    return "\n\n".join(dict.fromkeys(block for block in blocks if block is not None))


def _is_placed(part: "Part") -> bool:
    """Whether the name of the program means to a rule what it means here."""
    return part.at_root or part.name is None or "/" not in part.name or part.name.startswith("/")


def _suggest_write(line: Line, answer: _Answer) -> str | None:
    """Return the rule for a file that a redirection writes, if nothing but a rule is missing."""
    place = next((each.place for each in line.redirections if each.text == answer.text), None)
    if answer.ref != NO_RULE or not isinstance(place, FsTarget):
        return None
    return suggest_path_rule(place, "update" if place.exists else "create")


def _commands(line: Line, table: RuleTable, protected: "Protected", agent: str | None) -> "Iterator[_Answer]":
    rulings: list[Ruling] = []
    for number, part in enumerate(line.parts):
        subject = Subject("execute", agent, part)
        transparent = part.empty or (part.wraps == "transparent" and part.knowledge.uncovered((), ()) is None)
        ruling = table.judge(subject, restricting_only=transparent)
        if ruling.decision is None and not transparent and part.parent is not None:
            ruling = _named_by_wrapper(part, line.parts[part.parent], rulings[part.parent]) or ruling
        rulings.append(ruling)
        if changes_trust(line.argvs[number]):
            why = "this byleave command changes what is trusted; a person runs it, no tool and no agent does"
            yield _Answer(part.text, DENY, why, _SELF_GUARD, "denied")
        elif (kept := _kept(part, ruling, protected)) is not None:
            yield kept
        elif part.blocked is not None and ruling.decision in (None, ALLOW):
            yield _Answer(part.text, ASK, part.blocked, _ref(ruling), "no_match")
        elif ruling.decision is None and transparent:
            yield _Answer(part.text, None, "judged by what it runs")
        else:
            yield _from_ruling(part.text, ruling)


def _kept(part: "Part", ruling: Ruling, protected: "Protected") -> _Answer | None:
    """Return the answer where a command names a protected place to write it: no allow of a program covers that.

    What byleave obeys is denied by name. Another protected place, or a directory that holds one, makes an allow an ask.
    """
    if ruling.decision is DENY:
        return None
    named = [kept for place in part.writes if (kept := protected.of(place, subtree=False)) is not None]
    final = next((kept for kept in named if kept.final), None)
    if final is not None:
        return _keeping(part, final, DENY)
    above = (kept for place in part.writes if (kept := protected.of(place, subtree=True)) is not None)
    held = next(iter(named), None) or next(above, None)
    if held is None or ruling.decision is not ALLOW or _spells(ruling.rules[0].matcher, part):
        return None
    return _keeping(part, held, ASK)


def _keeping(part: "Part", protection: "Protection", decision: "Decision") -> _Answer:
    ref = RuleRef(f"protected place {shown(protection.place)}", BUILT_IN, decision)
    return _Answer(
        part.text, decision, f"it writes {shown(protection.place)}, which is protected", ref, CODES[decision]
    )


def _spells(matcher: "Matcher", part: "Part") -> bool:
    """Whether a rule spells the whole command out, and so the place in it."""
    subject = Subject("execute", None, part)
    return any(each.args is not None and each.args[-1:] != ("**",) for each in _leaves(matcher, subject))


def _named_by_wrapper(part: "Part", wrapper: "Part", ruling: Ruling) -> Ruling | None:
    """A rule that allows a wrapper with this very child covers the child's name, not its dangerous options."""
    if ruling.decision is not ALLOW or part.name is None or "/" in part.name:
        return None
    rule = ruling.rules[0]
    subject = Subject("execute", None, wrapper)
    names = any(part.name in _named_children(each) for each in _leaves(rule.matcher, subject))
    if not names:
        return None
    uncovered = part.knowledge.uncovered((), ())
    return Ruling(ALLOW, (rule,)) if uncovered is None else Ruling(None, (), uncovered)


def _named_children(matcher: CommandMatcher) -> "Sequence[str]":
    return matcher.subcommands or (matcher.args or ())[:1]


def _leaves(matcher: "Matcher", subject: Subject) -> "Iterator[CommandMatcher]":
    """Yield the command matchers that make this one match."""
    if isinstance(matcher, CommandMatcher):
        yield matcher
    elif isinstance(matcher, All):
        for each in matcher.matchers:
            yield from _leaves(each, subject)
    elif isinstance(matcher, AnyOf):
        for each in matcher.matchers:
            if each.match(subject, granting=True) is True:
                yield from _leaves(each, subject)


def _redirections(line: Line, table: RuleTable, protected: "Protected", agent: str | None) -> "Iterator[_Answer]":
    for redirection in line.redirections:
        place = redirection.place
        if place is None or isinstance(place, Refused):
            if redirection.writes or table.restricts_reading:
                verb = "writes" if redirection.writes else "reads"
                why = place.problem if isinstance(place, Refused) else f"the file it {verb} is known only at run time"
                yield _Answer(redirection.text, ASK, why, RuleRef("redirections", BUILT_IN, ASK), "no_match")
            continue
        yield _redirection(redirection, place, table, protected, agent)


def _redirection(
    redirection: Redirection, place: FsTarget, table: RuleTable, protected: "Protected", agent: str | None
) -> _Answer:
    op = ("update" if place.exists else "create") if redirection.writes else "read"
    subject = Subject("edit" if redirection.writes else "read", agent, op=op, file=place)
    ruling = table.judge(subject, restricting_only=not redirection.writes)
    if not redirection.writes:
        return _from_ruling(redirection.text, ruling) if ruling.decision else _Answer(redirection.text, None, "reads")
    protection = protected.of(place, subtree=False)
    if protection is not None:
        named = bool(ruling.rules) and names_place(ruling.rules[0].matcher, protection)
        if protection.final or (ruling.decision in (None, ALLOW) and not named):
            decision = DENY if protection.final else ASK
            ref = RuleRef(f"protected place {shown(protection.place)}", BUILT_IN, decision)
            return _Answer(redirection.text, decision, f"{shown(protection.place)} is protected", ref, CODES[decision])
    return _from_ruling(redirection.text, ruling)


def _from_ruling(text: str, ruling: Ruling) -> _Answer:
    if ruling.decision is None:
        if ruling.withheld is not None:
            why = f"a rule allows the program, but not {shown(ruling.withheld)}"
            return _Answer(text, ASK, why, NO_RULE, "no_match")
        return _Answer(text, ASK, "no rule matches", NO_RULE, "no_match")
    rule = ruling.rules[0]
    why = rule.why if rule.why and ruling.decision is not ALLOW else rule.text
    if ruling.decision is ASK and rule.outcome is not ASK:
        why = f"it may be what {rule.text} means"
    return _Answer(text, ruling.decision, why, rule.ref, CODES[ruling.decision])


def _ref(ruling: Ruling) -> RuleRef:
    return ruling.rules[0].ref if ruling.rules else NO_RULE


def names_guarded(words: "AbstractSet[str]") -> bool:
    """Whether loose words could be a command of byleave that changes what is trusted."""
    return "byleave" in words and not words.isdisjoint(GUARDED_COMMANDS)


def _unread(line: Line, table: RuleTable) -> Verdict:
    """Not understood: ask, or deny where a deny rule's own words stand in the text, or byleave's guarded ones."""
    if names_guarded(line.loose_words):
        reason = f"the command was not understood ({line.problem}), and it names what byleave guards"
        return Verdict(DENY, reason, "unparsed", (_SELF_GUARD,))
    for rule in table.rules:
        if rule.outcome is DENY and any(line.loose_words.issuperset(spelled) for spelled in rule.words):
            reason = f"the command was not understood ({line.problem}), and it names what {rule.text} forbids"
            return Verdict(DENY, reason, "unparsed", (rule.ref,))
    ref = RuleRef("what is not understood asks", BUILT_IN, ASK)
    return Verdict(ASK, f"the command was not understood: {line.problem}", "unparsed", (ref,))


def spellings(matcher: "Matcher") -> tuple[tuple[str, ...], ...]:
    """Return the sets of literals that name what a matcher is about: program, subcommand, flags."""
    if isinstance(matcher, CommandMatcher):
        args = [word for word in matcher.args or () if word != "**"]
        tails = [(*((sub,) if sub else ()), *matcher.flags, *args) for sub in matcher.subcommands or ("",)]
        if not matcher.names:  # any command at all: no word is missing, unless it is about a place or a pipe
            return ((),) if matcher.within is None and not matcher.piped_to_shell else ()
        return tuple((name, *tail) for name in matcher.names for tail in tails)
    if isinstance(matcher, OperationMatcher):
        return ((),) if "execute" in matcher.kinds else ()
    if isinstance(matcher, AnyOf):
        return tuple(spelled for each in matcher.matchers for spelled in spellings(each))
    if isinstance(matcher, All):
        found = [spellings(each) for each in matcher.matchers]
        ways = _joined([each for each in found if each]) if any(found) else ()
        return ways if all(found) else tuple(way for way in ways if way)  # without a word, nothing may be left open
    return ()


def _joined(known: "list[tuple[tuple[str, ...], ...]]") -> tuple[tuple[str, ...], ...]:
    """Return every way to take one spelling of each; where there are too many, the first matcher's alone."""
    ways: tuple[tuple[str, ...], ...] = ((),)
    for spelled in known:
        if len(ways) * len(spelled) > MOST_SPELLINGS:
            return known[0]
        ways = tuple((*way, *words) for way in ways for words in spelled)
    return ways


def _reason(answer: _Answer) -> str:
    return f"{quoted(answer.text)} {VERBS[answer.decision or ALLOW]}: {answer.why}"


def _strictness(answer: _Answer) -> int:
    return answer.decision if answer.decision is not None else 0
