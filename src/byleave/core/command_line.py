"""Decide a command line: every command in it, every file its redirections write, the strictest answer.

Pure: the line arrives read (shell) and its paths resolved. A line that was not understood is never allowed.
"""

from __future__ import annotations

from shlex import join
from typing import TYPE_CHECKING

from byleave.core.command_files import check_files, file_name, leaves
from byleave.core.decision import ALLOW, ASK, BUILT_IN, CODES, DENY, VERBS, FileTouch, PartVerdict, RuleRef, Verdict
from byleave.core.file_decision import names_place
from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.core.match_context import HELD, MatchContext
from byleave.core.matchers import All, AnyOf, CommandMatcher, OperationMatcher, TextMatcher, is_any_command
from byleave.core.policy import NO_RULE
from byleave.core.rules import RuleAnswer, RuleTable, uncovered
from byleave.core.self_protection import (
    ADD_FLAG,
    GUARDED_COMMANDS,
    HOW_TO_ASK,
    OUTSIDE,
    TICKET_FLAG,
    changes_trust,
    guarded_because,
    outside_command,
    runs_outside,
)
from byleave.core.suggest import suggest_command_rule, suggest_path_rule
from byleave.record import Record
from byleave.text import quoted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from byleave.core.command_files import FileObjection
    from byleave.core.decision import Decision
    from byleave.core.match_context import MatchPart
    from byleave.core.matchers import Matcher
    from byleave.core.protected import Protected
    from byleave.core.rules import CompiledRule

MOST_SPELLINGS = 1000  # more than any rule that a person writes has
_NOTHING = RuleRef("a comment runs nothing", BUILT_IN, ALLOW)
_SELF_GUARD = RuleRef("byleave guards itself", BUILT_IN, DENY)
_OUTSIDE = RuleRef("a command outside of the sandbox needs approval", BUILT_IN, ASK)
_REPOSITORY = RuleRef("a repository in a protected place needs approval", BUILT_IN, ASK)
_MISWRITTEN = RuleRef("byleave outside is the whole line, in literal words", BUILT_IN, DENY)


class Redirection(Record):
    """A file that a redirection touches; None stands for a name known only at run time."""

    text: str
    writes: bool
    place: FsTarget | RefusedPath | None


class CommandLine(Record):
    """A command line, read and resolved. `problem` says why it was not understood, if it was not.

    `whole`: the first command is all of it, in literal words; the others are only what that one starts.
    """

    text: str
    parts: tuple[MatchPart, ...] = ()
    argvs: tuple[tuple[str | None, ...], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    problem: str | None = None
    loose_words: frozenset[str] = frozenset()  # where something was not understood: whatever could be a word
    whole: bool = False


class ConfinePolicy(Record):
    """How commands may run: what `[shell]` says (None without that table), and whether this caller can confine."""

    mode: str | None = None
    possible: bool = False


UNCONFINED = ConfinePolicy()


class _Answer(Record):
    """What one piece of the line comes to; `decision` None is silence.

    `soft`: it holds only where the command does not run confined; there `otherwise` allows it, if it needs a rule.
    `sandbox` is what the deciding rule says of that.
    """

    text: str
    decision: Decision | None
    why: str
    ref: RuleRef = NO_RULE
    code: str = "ok"
    soft: bool = False
    sandbox: bool | None = None
    otherwise: RuleRef | None = None
    runs: bool = False  # this is a command that some rule has to speak about, not a file or a wrapper
    part: int = 0
    also: tuple[RuleRef, ...] = ()  # rules that had a say behind the deciding one
    silent: bool = False  # it asks because no rule reaches this far, and one could


def decide_line(
    line: CommandLine,
    table: RuleTable,
    protected: Protected,
    agent: str | None = None,
    confining: ConfinePolicy = UNCONFINED,
) -> Verdict:
    """Return the verdict on a whole line, with one part for each command and each redirection."""
    if line.problem is not None:
        return _unread(line, table, confining, agent)
    if not line.parts and not line.redirections and line.text.strip():
        return Verdict(ALLOW, "it is a comment: nothing runs", "ok", (_NOTHING,), sandbox=(False, False))
    answers, files = _answers(line, table, protected, agent)
    if any(runs_outside(argv) for argv in line.argvs):
        return _outside(line, table, answers, files)
    way = _way(answers, confining)
    eased = way.confined and any(answer.soft for answer in answers)
    goes_outside = False
    if way.confined:
        held = list(_held_repositories(line))
        answers = [*held, *[_held_by_kernel(answer) if answer.soft else answer for answer in answers]]
        goes_outside = bool(held) and _is_one_command(line)
    elif way.required:
        answers = [_needs_confining(answer, confining) for answer in answers]
    heard = [answer for answer in answers if answer.decision is not None]
    if not heard:
        heard = [_Answer(line.text, ASK, "no rule matches it", NO_RULE, "no_match", silent=True)]
    first = max(heard, key=_strictness)
    said = [ref for answer in heard for ref in (answer.ref, *answer.also)]
    refs = dict.fromkeys([first.ref, *first.also, *said])
    decision = first.decision if first.decision is not None else ASK
    parts = _part_verdicts(answers, files)
    suggestion = _suggestion(line, answers, confining) if decision is ASK else None
    required = way.required or eased  # after a yes as well: it did not hear what the kernel was to hold
    confined = way.confined and decision is not DENY and not goes_outside
    sandbox = (True, required) if confined else (False, False)
    return Verdict(decision, _reason(first), first.code, tuple(refs), suggestion, parts=parts, sandbox=sandbox)


def _answers(
    line: CommandLine, table: RuleTable, protected: Protected, agent: str | None
) -> tuple[list[_Answer], list[tuple[FileTouch, ...]]]:
    """Return what is said of every command, of the files that it names, and of every redirection; the files by part."""
    files: list[tuple[FileTouch, ...]] = []
    answers: list[_Answer] = []
    for number, decided in enumerate(_commands(line, table, agent)):
        touched = check_files(line.parts[number], table, protected, agent, allowing=decided.allowing)
        files.append(touched.files)
        answers.append(decided.answer.replace(part=number))
        answers.extend([_of_file(line.parts[number], each).replace(part=number) for each in touched.objections])
    for number, (answer, touch) in enumerate(_redirections(line, table, protected, agent), start=len(files)):
        files.append(() if touch is None else (touch,))
        answers.append(answer.replace(part=number))
    return answers, files


def _outside(
    line: CommandLine, table: RuleTable, answers: list[_Answer], files: list[tuple[FileTouch, ...]]
) -> Verdict:
    """Decide a line with `byleave outside`: an ask that no rule allows, or a deny.

    A deny on the command that it starts holds, and what an ask says of it is shown.
    """
    argv = line.argvs[0]
    command = outside_command(argv) if line.whole else None
    nested = any(runs_outside(each) for each in line.argvs[1:]) or (command is not None and runs_outside(command))
    denied = [answer for answer in answers if answer.decision is DENY]
    if denied:
        first = denied[0]
    elif command is None or nested:
        first = _Answer(line.text, DENY, HOW_TO_ASK, _MISWRITTEN, "denied", runs=True)
    elif len(line.parts) == 1 and (rule := _worded(line, table)) is not None:  # what it starts is not understood
        why = f"it is not understood to the end, and it has the words of the rule `{rule.text}`"
        first = _Answer(line.text, DENY, why, rule.ref, "denied", runs=True)
    else:
        asked = [answer for answer in answers if answer.decision is ASK and not answer.silent]
        by = "" if argv[0] == "byleave" else f" (started by {quoted(line.text.partition(OUTSIDE)[0].strip())})"
        why = "; ".join(dict.fromkeys([f"it runs outside of the sandbox{by}", *[answer.why for answer in asked]]))
        text = line.parts[1].text if len(line.parts) > 1 else line.text
        also = tuple(ref for answer in asked for ref in (answer.ref, *answer.also))
        first = _Answer(text, ASK, why, _OUTSIDE, "no_match", runs=True, also=also)
        answers = [
            answer.replace(decision=ASK, why=why, ref=_OUTSIDE) if not answer.part else answer for answer in answers
        ]
    refs = tuple(dict.fromkeys([first.ref, *first.also, *[answer.ref for answer in denied]]))
    parts = _part_verdicts(answers, files)
    return Verdict(first.decision or ASK, _reason(first), first.code, refs, parts=parts, sandbox=(False, False))


def _worded(line: CommandLine, table: RuleTable) -> CompiledRule | None:
    """Return a deny rule all of whose words stand in a text that was not understood."""
    rules = [rule for rule in table.rules if rule.outcome is DENY]
    return next((rule for rule in rules if any(line.loose_words.issuperset(words) for words in rule.words)), None)


def _held_repositories(line: CommandLine) -> Iterator[_Answer]:
    """Yield an ask for each command that makes a repository where a confined run cannot: it would only fail.

    After a yes it runs outside of the sandbox if it is the whole line, so that nothing else goes along.
    """
    for number, part in enumerate(line.parts):
        made = [file.repository for file in part.files if file.repository]
        if not made or any(each != HELD for each in made):  # `cd a; git init`: perhaps elsewhere
            continue
        why = (
            "it writes the configuration and the hooks of a repository, which are protected: in a confined run it fails"
        )

        argv = [word for word in line.argvs[number] if word is not None]
        command = join(argv) if len(argv) == len(line.argvs[number]) else "git init"
        outside = f"`byleave {OUTSIDE} -- {shown(command)}`"
        way = f"after your yes it runs outside of the sandbox, as {outside} does"
        if not _is_one_command(line):
            way = f"have it run by itself first: {outside}"
        yield _Answer(part.text, ASK, f"{why}; {way}", _REPOSITORY, "no_match", part=number)


def _is_one_command(line: CommandLine) -> bool:
    """Whether a line is one command in literal words, and nothing else."""
    return line.whole and len(line.parts) == 1 and not line.redirections


class _Way(Record):
    """How a line runs: confined, and whether only that may be."""

    confined: bool
    required: bool


def _way(answers: Sequence[_Answer], confining: ConfinePolicy) -> _Way:
    """One part that runs confined confines the whole line; it runs plainly only where every rule says so."""
    confinements = [_confinement(answer.sandbox, confining.mode) for answer in answers if answer.runs]
    required = "required" in confinements
    possible = confining.possible and confining.mode is not None
    return _Way(possible and (required or "auto" in confinements), required)


def _confinement(sandbox: bool | None, mode: str | None) -> str:  # noqa: FBT001 -- what a rule says: true, false or nothing
    if sandbox is not None:
        return "required" if sandbox else "plain"
    return {"require": "required", "auto": "auto"}.get(mode or "off", "plain")


def _needs_confining(answer: _Answer, confining: ConfinePolicy) -> _Answer:
    """An allow that holds only for a confined run asks where nothing confines."""
    if not answer.runs or answer.decision is not ALLOW or _confinement(answer.sandbox, confining.mode) != "required":
        return answer
    why = "it is allowed only in a confined run, and this run is not confined"
    if confining.mode is None:
        why = "it is allowed only in a confined run, and there is no [shell] table"
    ref = RuleRef("a command that is allowed confined needs approval elsewhere", BUILT_IN, ASK)
    return answer.replace(decision=ASK, why=why, code="no_match", ref=ref, also=(answer.ref, *answer.also))


def _held_by_kernel(answer: _Answer) -> _Answer:
    """Return what becomes of an answer that the kernel gives instead, where the command runs confined."""
    if answer.otherwise is None:
        return answer.replace(decision=None, why="the sandbox enforces it")
    return answer.replace(
        decision=ALLOW,
        why=f"the rule `{answer.otherwise.rule}` matches it",
        ref=answer.otherwise,
        also=(),
        code="ok",
        sandbox=True,
    )


def _part_verdicts(answers: Sequence[_Answer], files: Sequence[tuple[FileTouch, ...]]) -> tuple[PartVerdict, ...]:
    said_of: list[list[_Answer]] = [[] for _ in files]
    for answer in answers:
        said_of[answer.part].append(answer)
    return tuple(_part_verdict(own, touched) for own, touched in zip(said_of, files, strict=True))


def _part_verdict(own: Sequence[_Answer], files: tuple[FileTouch, ...]) -> PartVerdict:
    """Return what one command came to: the strictest of what was said of it and of the files that it names."""
    first = max(own, key=_strictness)
    return PartVerdict(shown(own[0].text), first.decision or ALLOW, first.why, first.ref, files)


def _of_file(part: MatchPart, objection: FileObjection) -> _Answer:
    return _Answer(
        part.text, objection.decision, objection.why, objection.ref, CODES[objection.decision], objection.soft
    )


def _suggestion(line: CommandLine, answers: Sequence[_Answer], confining: ConfinePolicy) -> str | None:
    """Return the rules that would let the whole line run; None where a rule would not be enough."""
    blocks: list[str | None] = []
    for answer in answers:
        if answer.decision is not ASK:
            continue
        number = answer.part
        plain = answer.silent and answer.runs and line.parts[number].blocked is None
        if plain and not _is_placed(line.parts[number]):
            return None  # its name means another file elsewhere, and a rule could not say which
        if plain and line.parts[number].repository is not None:
            return None  # no words reach the configuration of another repository
        if plain and not confining.possible and _confinement(None, confining.mode) == "required":
            return None  # what it allows would have to run confined, and cannot
        knowledge = line.parts[number].knowledge if plain else None
        blocks.append(suggest_command_rule(line.argvs[number], knowledge) if plain else _suggest_write(line, answer))
    if None in blocks:
        return None
    return "\n\n".join(dict.fromkeys(block for block in blocks if block is not None)) or None


def _is_placed(part: MatchPart) -> bool:
    """Whether the name of the program means to a rule what it means here."""
    return part.at_root or part.name is None or "/" not in part.name or part.name.startswith("/")


def _suggest_write(line: CommandLine, answer: _Answer) -> str | None:
    """Return the rule for a file that a redirection writes, if nothing but a rule is missing."""
    place = next((each.place for each in line.redirections if each.text == answer.text), None)
    if not answer.silent or not isinstance(place, FsTarget):
        return None
    return suggest_path_rule(place, "update" if place.exists else "create", wide=True)


class _OfCommand(Record):
    """What was said of one command, and the rule that allows it, if one does."""

    answer: _Answer
    allowing: CompiledRule | None = None


def _commands(line: CommandLine, table: RuleTable, agent: str | None) -> Iterator[_OfCommand]:
    rulings: list[RuleAnswer] = []
    for number, part in enumerate(line.parts):
        subject = MatchContext("execute", agent, part)
        transparent = part.empty or (part.wraps == "transparent" and part.knowledge.uncovered((), ()) is None)
        ruling = table.decide(subject, restricting_only=transparent)
        if ruling.decision is None and not transparent and part.parent is not None:
            ruling = _named_by_wrapper(part, line.parts[part.parent], rulings[part.parent]) or ruling
        rulings.append(ruling)
        allowing = ruling.rules[0] if ruling.decision is ALLOW else None
        yield _OfCommand(_of_command(line, number, ruling, transparent=transparent), allowing)


def _of_command(line: CommandLine, number: int, ruling: RuleAnswer, *, transparent: bool) -> _Answer:
    part = line.parts[number]
    if changes_trust(line.argvs[number]):
        why = guarded_because(line.argvs[number])
        return _Answer(part.text, DENY, why, _SELF_GUARD, "denied", runs=True)
    rule = ruling.rules[0] if ruling.rules else None
    sandbox = None if rule is None else rule.sandbox
    if part.blocked is not None and ruling.decision in (None, ALLOW):
        ref = RuleRef(f"caution: {part.blocked}", BUILT_IN, ASK)
        said = _Answer(part.text, ASK, part.blocked, ref, "no_match", sandbox=sandbox, runs=True, also=ruling.refs[:1])
        return said.replace(soft=True, otherwise=rule.ref) if rule is not None and rule.unread else said
    if ruling.decision is None and transparent:
        return _Answer(part.text, None, "decided by the command that it runs")
    decided = _from_ruling(part.text, ruling).replace(sandbox=sandbox, runs=True)
    later = ruling.rules[1] if len(ruling.rules) > 1 and ruling.decision is ASK else None
    if later is not None and later.outcome is ALLOW:  # a deny or an ask that may be meant stands before it
        decided = decided.replace(sandbox=later.sandbox)
        decided = decided.replace(soft=True, otherwise=later.ref) if later.unread else decided
    return decided


def _named_by_wrapper(part: MatchPart, wrapper: MatchPart, ruling: RuleAnswer) -> RuleAnswer | None:
    """A rule that allows a wrapper with this very child covers the child's name, not its dangerous options."""
    if ruling.decision is not ALLOW or part.name is None or "/" in part.name:
        return None
    rule = ruling.rules[0]
    subject = MatchContext("execute", None, wrapper)
    names = any(part.name in _named_children(each) for each in leaves(rule.matcher, subject))
    if not names:
        return None
    beyond = uncovered(part)
    return RuleAnswer(ALLOW, (rule,)) if beyond is None else RuleAnswer(None, (), beyond)


def _named_children(matcher: CommandMatcher) -> Sequence[str]:
    return matcher.subcommands or (matcher.args or ())[:1]


def _redirections(
    line: CommandLine, table: RuleTable, protected: Protected, agent: str | None
) -> Iterator[tuple[_Answer, FileTouch | None]]:
    for redirection in line.redirections:
        place = redirection.place
        if place is None or isinstance(place, RefusedPath):
            if redirection.writes or table.restricts("read"):
                verb = "writes" if redirection.writes else "reads"
                why = (
                    place.problem if isinstance(place, RefusedPath) else f"the file it {verb} is known only at run time"
                )
                ref = RuleRef("redirections", BUILT_IN, ASK)
                yield _Answer(redirection.text, ASK, why, ref, "no_match", soft=place is None), None
            continue
        answer = _redirection(redirection, place, table, protected, agent)
        kind = ("update" if place.exists else "create") if redirection.writes else "read"
        decision = None if answer.silent else answer.decision
        yield answer, FileTouch(file_name(place), kind, decision)


def _redirection(
    redirection: Redirection, place: FsTarget, table: RuleTable, protected: Protected, agent: str | None
) -> _Answer:
    op = ("update" if place.exists else "create") if redirection.writes else "read"
    subject = MatchContext("edit" if redirection.writes else "read", agent, op=op, file=place)
    ruling = table.decide(subject)
    if not redirection.writes:
        closed = ruling.decision is not None and ruling.decision is not ALLOW
        return _from_ruling(redirection.text, ruling) if closed else _Answer(redirection.text, None, "reads")
    protection = protected.of(place, subtree=False)
    if protection is not None:
        named = bool(ruling.rules) and names_place(ruling.rules[0].matcher, protection)
        if protection.final or (ruling.decision in (None, ALLOW) and not named):
            decision = DENY if protection.final else ASK
            ref = RuleRef(f"protected place {shown(protection.place)}", BUILT_IN, decision)
            why = f"{shown(protection.place)} is protected"
            return _Answer(redirection.text, decision, why, ref, CODES[decision], also=ruling.refs[:1])
    answer = _from_ruling(redirection.text, ruling)
    return answer.replace(soft=True) if answer.silent else answer  # a confined command writes only where it may


def _from_ruling(text: str, ruling: RuleAnswer) -> _Answer:
    if ruling.decision is None:
        if ruling.withheld is not None:
            why = f"a rule allows the program, but not {shown(ruling.withheld)}"
            ref = RuleRef(f"caution: no rule names {shown(ruling.withheld)}", BUILT_IN, ASK)
            also = () if ruling.passed is None else (ruling.passed.ref,)
            return _Answer(text, ASK, why, ref, "no_match", also=also, silent=True)
        return _Answer(text, ASK, "no rule matches it", NO_RULE, "no_match", silent=True)
    decision = ruling.decision
    return _Answer(text, decision, ruling.why, ruling.refs[0], CODES[decision], also=ruling.refs[1:])


def names_guarded(words: AbstractSet[str]) -> bool:
    """Whether loose words could be a command of byleave that changes what is trusted."""
    if "byleave" not in words:
        return False
    return (
        not words.isdisjoint(GUARDED_COMMANDS)
        or {"check", ADD_FLAG} <= words
        or any(word.startswith(TICKET_FLAG) for word in words)
    )


def _unread(line: CommandLine, table: RuleTable, confining: ConfinePolicy, agent: str | None) -> Verdict:
    """Not understood: ask, or deny where a deny rule's own words stand in the text, or byleave's guarded ones.

    A rule with `unread = true` covers such a line where it runs confined.
    """
    unread = f"it is not understood ({line.problem})"
    if names_guarded(line.loose_words):
        reason = f"the command is denied: {unread}, and it names what byleave guards"
        return Verdict(DENY, reason, "unparsed", (_SELF_GUARD,), sandbox=(False, False))
    if line.loose_words.issuperset(("byleave", OUTSIDE)):
        reason = f"the command is denied: {unread}. {HOW_TO_ASK}"
        return Verdict(DENY, reason, "unparsed", (_MISWRITTEN,), sandbox=(False, False))
    if (rule := _worded(line, table)) is not None:
        reason = f"the command is denied: {unread}, and it has the words of the rule `{rule.text}`"
        return Verdict(DENY, reason, "unparsed", (rule.ref,), sandbox=(False, False))
    subject = MatchContext("execute", agent)
    covering = next((rule for rule in table.rules if rule.unread and is_any_command(rule.matcher, subject)), None)
    if covering is not None and confining.possible and confining.mode is not None:
        reason = f"the command is allowed in a confined run: {unread}, and the rule `{covering.text}` covers that"
        return Verdict(ALLOW, reason, "ok", (covering.ref,), sandbox=(True, True))
    ref = RuleRef("a command that is not understood needs approval", BUILT_IN, ASK)
    reason = f"the command needs your approval: it is not understood: {line.problem}"
    # It may hold whatever a rule allows only confined: then it runs confined after a yes as well.
    required = any(rule.sandbox and rule.outcome is ALLOW for rule in table.rules)
    ways = {_confinement(True if required else None, confining.mode), _confinement(None, confining.mode)}
    confined = confining.possible and confining.mode is not None and ways != {"plain"}
    return Verdict(ASK, reason, "unparsed", (ref,), sandbox=(confined, confined and "required" in ways))


def spellings(matcher: Matcher) -> tuple[tuple[str, ...], ...]:
    """Return the sets of literals that name what a matcher is about: program, subcommand, flags."""
    if isinstance(matcher, CommandMatcher):
        args = [word for word in matcher.args or () if word != "**"]
        tails = [(*((sub,) if sub else ()), *matcher.flags, *args) for sub in matcher.subcommands or ("",)]
        if not matcher.names:  # any command at all: no word is missing, unless it is about a place or a pipe
            return ((),) if matcher.within is None and not matcher.piped_to_shell else ()
        return tuple((name, *tail) for name in matcher.names for tail in tails)
    if isinstance(matcher, TextMatcher):
        return (tuple([word for word in matcher.pattern.split() if not any(mark in word for mark in "*?")]),)
    if isinstance(matcher, OperationMatcher):
        return ((),) if "execute" in matcher.kinds else ()
    if isinstance(matcher, AnyOf):
        return tuple(spelled for each in matcher.matchers for spelled in spellings(each))
    if isinstance(matcher, All):
        found = [spellings(each) for each in matcher.matchers]
        ways = _joined([each for each in found if each]) if any(found) else ()
        return ways if all(found) else tuple(way for way in ways if way)  # without a word, nothing may be left open
    return ()


def _joined(known: list[tuple[tuple[str, ...], ...]]) -> tuple[tuple[str, ...], ...]:
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
