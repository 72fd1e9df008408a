"""The least rules that would have answered what people answered themselves.

Every rule is tried before it is proposed: with it, the policy has to allow enough of what was allowed, and nothing that
a person or a rule has ever refused, whether the rule stands beside the policy or alone. Narrow rules come first; a
wider one is proposed for what is left, and takes the place of those that it covers.

The values come from `answers`, the rules from `generalize`, what a rule allows beside from `over_grant`.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from byleave.analysis.answers import action_key, is_unsaid
from byleave.analysis.generalize import ProposedRule, Question, exact_rules, wider_rules
from byleave.analysis.over_grant import OverGrant, over_grant, plain_action, text_of, trials
from byleave.analysis.rule_trial import RuleTrial, allows
from byleave.core.action import CommandAction, parse_action
from byleave.core.decision import ASK, DENY
from byleave.core.fs_rules import FsTarget
from byleave.core.policy import NO_RULE
from byleave.core.suggest import cautions_apart
from byleave.errors import ByleaveError
from byleave.text import shown_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from byleave.analysis.answers import Evidence, Lesson
    from byleave.core.decision import Verdict
    from byleave.policy.live_policy import LivePolicy, ResolvedAction

    Tree = dict[str, Any]
    Report = Callable[[int, int], object]

TIMES = 3  # as often as one answers without having to think any more
MOST_EXAMPLES = 5
_SEVERAL = 2
_MOST_LESSONS = 2000  # different actions that are looked at: those that were answered most, the newest first
_WILD = frozenset("*?[")
_KINDS_OF = {
    "command": ("command",),
    "path": ("command", "read", "create", "update", "delete", "exec", "move", "search"),
    "url": ("url",),
    "call": ("call",),
}
_SPELLED_OTHERWISE = frozenset("$`{}*?[~\\'\"")  # with these a command may name a program without its letters in a row


class Proposal(Struct, frozen=True):
    """A rule, how many answers it would have spared, and what else it would allow."""

    toml: str
    covers: int
    examples: tuple[str, ...]
    over_grant: OverGrant
    caution: str | None = None
    refused: bool = False  # a sandboxed run was refused it; else a person allowed it

    @property
    def tree(self) -> Tree:
        """The proposal for programs."""
        tree = {
            "toml": self.toml,
            "covers": self.covers,
            "examples": list(self.examples),
            "over_grant": self.over_grant.tree,
        }
        return tree if self.caution is None else {**tree, "caution": self.caution}


class Learner:
    """Finds rules for the evidence of one log.

    `files` are those of the workspace; `times`: so many answers are needed for a rule; `rejected` are rules that the
    user does not want to see again.
    """

    def __init__(
        self,
        evidence: Evidence,
        trial: RuleTrial,
        *,
        times: int = TIMES,
        files: Sequence[str] = (),
        rejected: Collection[str] = (),
        report: Report | None = None,
    ) -> None:
        self._evidence = evidence
        self._trial = trial
        self._times = times
        self._files = files
        self._rejected = rejected
        self._report = report
        self._accepted: dict[str, _Accepted] = {}
        self._objections = [_Objection(action) for action in evidence.objections.values()]

    def proposals(self) -> list[Proposal]:
        """Return the rules, those that spare most answers first."""
        questions = list(self._questions())
        chosen: list[_Accepted] = []
        covered: set[int] = set()
        for rule in sorted(exact_rules(questions), key=lambda rule: -len(_answers(rule.questions))):
            self._choose(rule, chosen, covered)
        for rule in wider_rules(questions):
            fresh = [each for each in rule.questions if id(each) not in covered]
            if len(fresh) >= _SEVERAL and len(_answers(fresh)) >= self._times:
                self._choose(rule, chosen, covered)
        made = [self._proposal(each) for each in chosen]
        return sorted(made, key=lambda each: (-each.covers, each.toml))

    def narrowed(self, proposal: Proposal) -> list[Proposal]:
        """Return the rules that leave nothing open, for what one wider rule was proposed for."""
        accepted = self._accepted.get(proposal.toml)
        found = [] if accepted is None else exact_rules(accepted.questions)
        made = [
            self._proposal(_Accepted(each.toml, each.questions, after))
            for each in found
            if each.toml != proposal.toml and (after := self.try_rule(each.toml)) is not None
        ]
        return sorted(made, key=lambda each: (-each.covers, each.toml))

    def try_rule(self, toml: str) -> LivePolicy | None:
        """Return the policy with the rule, if nothing speaks against it: it can be used, and allows nothing refused."""
        if shown_lines(toml) != toml:  # what cannot be shown as it is cannot be agreed to
            return None
        after = self._trial.with_rule(toml)
        if after is None:
            return None
        alone = self._trial.alone(toml)
        about = _About(toml)
        for objection in self._objections:
            if about.may_be(objection) and (
                _allows(after, objection.action) or (alone is not None and _allows(alone, objection.action))
            ):
                return None
        return after

    def _questions(self) -> Iterator[Question]:
        newest = reversed(self._evidence.lessons.values())
        lessons = sorted(newest, key=lambda lesson: -len(lesson.answers))[:_MOST_LESSONS]
        for number, lesson in enumerate(lessons):
            if self._report is not None:
                self._report(number, len(lessons))
            question = _open_question(lesson, self._trial.before)
            if question is not None:
                yield question

    def _choose(self, rule: ProposedRule, chosen: list[_Accepted], covered: set[int]) -> None:
        """Take a rule if it holds what it promises; those that it covers are not needed any more."""
        if len(_answers(rule.questions)) < self._times or cautions_apart(rule.toml)[0] in self._rejected:
            return
        after = self.try_rule(rule.toml)
        if after is None:
            return
        held = [each for each in rule.questions if _allows(after, each.lesson.action)]
        if len(_answers(held)) < self._times:
            return
        own = {id(each) for each in held}
        chosen[:] = [each for each in chosen if not own.issuperset(id(question) for question in each.questions)]
        chosen.append(_Accepted(rule.toml, tuple(held), after))
        covered |= own

    def _proposal(self, accepted: _Accepted) -> Proposal:
        toml, held = accepted.toml, accepted.questions
        seen = [plain_action(each.lesson.action, each.path) for each in held]
        recorded = [*(lesson.action for lesson in self._evidence.lessons.values()), *self._evidence.objections.values()]
        tried = trials(toml, files=self._files, seen=[plain_action(action) for action in recorded])
        keys = {action_key(action) for action in seen}
        found = over_grant(toml, tried, before=self._trial.before, after=accepted.after, seen=keys)
        said = [*cautions_apart(toml)[1], *([found.caution] if found.caution else [])]
        self._accepted[toml] = accepted
        return Proposal(
            toml,
            len(_answers(held)),
            tuple(dict.fromkeys(text_of(action) for action in seen))[:MOST_EXAMPLES],
            found,
            "; ".join(said) or None,
            held[0].lesson.refusal,
        )


class _Accepted(Struct, frozen=True):
    toml: str
    questions: tuple[Question, ...]
    after: LivePolicy


def _answers(questions: Iterable[Question]) -> set[object]:
    return {answer for each in questions for answer in each.lesson.given}


def _open_question(lesson: Lesson, policy: LivePolicy) -> Question | None:
    """Return what still needs a rule; None if the policy decides it by now, or no rule of its kind exists."""
    # Where only confined runs can be allowed, a rule spares the questions of those.
    confines = policy.compiled.policy.shell == "require"
    try:
        resolved = policy.evaluate(parse_action(lesson.action), confines=confines)
    except ByleaveError:  # of a tool that is not configured any more, for one
        return None
    verdict = resolved.verdict
    if lesson.refusal:
        ref = verdict.because[0]
        refused = verdict.decision is DENY and is_unsaid(ref.rule, ref.source) and verdict.suggestion is not None
        return Question(lesson, verdict.suggestion, path=_path(resolved)) if refused else None
    if verdict.decision is not ASK:
        return None
    if isinstance(resolved.action, CommandAction):
        return _command_question(lesson, verdict, policy)
    return Question(lesson, verdict.suggestion, path=_path(resolved)) if verdict.suggestion is not None else None


def _path(resolved: ResolvedAction) -> str | None:
    place = resolved.places[0] if resolved.places else None
    return place.relative if isinstance(place, FsTarget) else None


def _command_question(lesson: Lesson, verdict: Verdict, policy: LivePolicy) -> Question | None:
    """Return the question with the words of the one command that needs approval, where there is only one."""
    asking = [number for number, part in enumerate(verdict.parts) if part.decision is ASK]
    reader = policy.compiled.read_line
    if len(asking) == 1 and reader is not None:
        action = lesson.action
        line = reader.read(str(action["command"]), action.get("cwd"), action.get("shell"))
        (number,) = asking
        if number < len(line.parts) and verdict.parts[number].rule == NO_RULE:
            words = tuple(word for word in line.argvs[number] if word is not None)
            if len(words) == len(line.argvs[number]) and words:
                return Question(lesson, verdict.suggestion, words, line.parts[number].knowledge)
    return Question(lesson, verdict.suggestion) if verdict.suggestion is not None else None


def _allows(policy: LivePolicy, action: Tree) -> bool:
    try:
        return allows(policy, parse_action(action))
    except ByleaveError:
        return False


class _Objection:
    """An action that must not be allowed, with what says quickly that a rule is not about it."""

    __slots__ = ("action", "kind", "letters")

    def __init__(self, action: Tree) -> None:
        self.action = action
        self.kind = str(action["kind"])
        text = f"{action.get('command', '')} {action.get('cwd') or ''}"
        self.letters = None if not _SPELLED_OTHERWISE.isdisjoint(text) else text


def _texts(value: object) -> list[str]:
    """Return what a rule names, as one text or as a list of them."""
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, str)]


class _About:
    """What a rule can be about: the programs, the names of files, or the kinds of action that it speaks of.

    It says no only where the rule cannot change the verdict: a command without redirections that names no part of a
    rule's path is the same with that rule and without it.
    """

    def __init__(self, toml: str) -> None:
        tree = tomllib.loads(toml)
        allowing = [rule.get("allow", {}) for rule in tree.get("rules", ())]
        programs = [program for allow in allowing for program in _texts(allow.get("command"))]
        self._words = [program.rpartition("/")[2] for program in programs]
        paths = [path for allow in allowing for path in _texts(allow.get("path"))]
        self._words += [name for path in paths for name in path.split("/") if name and _WILD.isdisjoint(name)]
        self._kinds = {kind for allow in allowing for key, kinds in _KINDS_OF.items() if key in allow for kind in kinds}
        self._is_known = set(tree) == {"rules"} and all(not _KINDS_OF.keys().isdisjoint(allow) for allow in allowing)
        self._has_paths = bool(paths)

    def may_be(self, objection: _Objection) -> bool:
        if not self._is_known:
            return True
        if objection.kind not in self._kinds:
            return False
        if objection.kind != "command" or objection.letters is None:
            return True
        written = self._has_paths and ">" in objection.letters
        return written or any(word in objection.letters for word in self._words)
