"""Follow a tree through success and failure, and list the commands it can run.

The order is that of the text: a command, then the children it wraps, then the commands inside its words. Directories,
functions and numbers are followed in a `State`; what cannot be followed is refused. Wrappers: `wrappers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from byleave.shell.builtins import CHECKERS, DECLARING, declared, reached
from byleave.shell.knowledge.option_values import harmless_in_shell
from byleave.shell.knowledge.options import worked_in
from byleave.shell.knowledge.program_input import announces_code, is_interpreter, reads_script, takes_data
from byleave.shell.model import Assignment, Command, NotUnderstoodError, Redirect, Via
from byleave.shell.state import (
    MOST_FORMS,
    NOTHING_KNOWN,
    UNKNOWN,
    ShellState,
    assigned_forms,
    assigned_in,
    forms_of,
    is_followed,
    looped,
    merged,
    pinned,
    plain,
    relative_value,
    splits_oddly,
    unsplit,
    without,
)
from byleave.shell.syntax.cursor import ZSH, keeps_characters, refused_at
from byleave.shell.syntax.grammar import parse
from byleave.shell.syntax.redirects import redirect_of
from byleave.shell.syntax.tree import (
    NUMBER_PRINTERS,
    AndOr,
    Arithmetic,
    Case,
    EvaluatedText,
    Function,
    Group,
    If,
    Loop,
    Piece,
    Pipeline,
    Sequence,
    Sets,
    Simple,
    Substitution,
    is_decimal,
    yields_number,
    yields_object,
    yields_program,
)
from byleave.shell.syntax.vocabulary import (
    BUILTIN_NAMES,
    COUNTERS,
    EVALUATED,
    EVALUATED_BY_ZSH,
    SET_BY_SHELL,
    SHELL_VARIABLES,
)
from byleave.shell.wrapped_command import TOP, CommandCall, Frame
from byleave.shell.wrappers import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.state import Flow, Values
    from byleave.shell.syntax.grammar import Grammar
    from byleave.shell.syntax.tree import AssignmentNode, Effect, Node, Number, RedirectNode, Word

    Words = tuple[Word, ...]

KEEPING = frozenset("xrgp")  # options of `declare` that leave a value as it is
NOT_A_NUMBER = "arithmetic on a value that may not be a number"


class Walker:
    """Lists the commands of one text, and of the texts inside it."""

    __slots__ = (
        "ascii",
        "bodies",
        "calls",
        "commands",
        "depth",
        "dialect",
        "follows_values",
        "frame",
        "functions",
        "movers",
        "odd",
        "programs",
        "start",
        "tainted",
        "used",
        "waiting",
    )

    def __init__(
        self, grammar: Grammar, commands: list[Command], start: str, programs: ProgramTables, frame: Frame = TOP
    ) -> None:
        self.commands = commands
        self.programs = programs
        self.start = start
        self.frame = frame
        self.dialect = grammar.dialect
        self.ascii = grammar.text.isascii()
        self.depth = grammar.depth
        self.odd = splits_oddly(grammar.text)  # values may be split at other characters than blanks
        self.functions = grammar.functions
        self.tainted = grammar.tainted
        self.follows_values = True
        self.used: set[str] = set()  # variables whose values arithmetic has relied on
        self.movers: set[str] = set()  # functions that may change the directory
        self.bodies: list[int] = []  # places of the commands inside of functions
        self.calls = 0  # calls of functions so far
        self.waiting: tuple[Redirect, ...] = ()  # redirections of a group, until its first command
        if not self.functions.isdisjoint(BUILTIN_NAMES | NUMBER_PRINTERS):
            self.refuse("a function that replaces a builtin, or a program that prints numbers", 0)

    def refuse(self, reason: str, at: int) -> NoReturn:
        raise NotUnderstoodError(reason, at)

    def sequence(self, node: Sequence, state: ShellState | None) -> Flow:
        flow: Flow = (state, state)
        for item, background in node.items:
            state = merged(*flow)
            flow = self.follow(item, state if state is not None else UNKNOWN)
            if state is None:
                flow = (None, None)
            elif background:
                after = state.lost() if self.dialect == ZSH and isinstance(item, AndOr) else state
                flow = (after, after)
        return flow

    def follow(self, node: Node, state: ShellState) -> Flow:
        kind = type(node)
        if kind is Simple:
            return self._simple(node, state)  # type: ignore[arg-type]
        flow: Flow = FOLLOWERS[kind](self, node, state)  # type: ignore[operator]
        return flow

    def _and_or(self, node: AndOr, state: ShellState) -> Flow:
        success, failure = self.follow(node.first, state)
        for operator, part in node.rest:
            entry = success if operator == "&&" else failure
            after, otherwise = self.follow(part, entry if entry is not None else UNKNOWN)
            if entry is None:
                continue
            if operator == "&&":
                success, failure = after, merged(failure, otherwise)
            else:
                success, failure = merged(success, after), otherwise
        return success, failure

    def _pipeline(self, node: Pipeline, state: ShellState) -> Flow:
        if len(node.stages) == 1:
            success, failure = self._timed(node, node.stages[0], state)
            return (failure, success) if node.negated else (success, failure)
        stages: list[tuple[int, bool]] = []
        for stage in node.stages:
            begin, calls = len(self.commands), self.calls
            self._timed(node, stage, state)
            stages.append((begin, self.calls > calls))
        self._mark_piped(stages)
        if self.dialect == ZSH:
            state = state.lost()  # its last stage runs in the shell itself
        return state, state

    def _timed(self, node: Pipeline, stage: Node, state: ShellState) -> Flow:
        if not node.timed:
            return self.follow(stage, state)
        frame = self.frame
        via = (*frame.via, Via("time", transparent=True))
        self.frame = Frame(via, frame.assignments, inside=frame.inside, here=frame.here)
        flow = self.follow(stage, state)
        self.frame = frame
        return flow

    def _mark_piped(self, stages: list[tuple[int, bool]]) -> None:
        """Mark the commands whose output reaches an interpreter that reads its script from there, or may.

        A stage is given as the place of its first command, and whether it calls a function.
        """
        commands = self.commands
        self._feed(range(stages[1][0], len(commands)))
        if any(calls for _, calls in stages[1:]):
            self._feed(self.bodies)
        inside = [reads_script(commands[place], self.programs) for place in self.bodies]
        last: dict[bool | None, int] = {}  # the last stage that reads a script, or may
        for index, (begin, calls) in enumerate(stages[1:], start=1):
            end = stages[index + 1][0] if index + 1 < len(stages) else len(commands)
            for answer in [reads_script(command, self.programs) for command in commands[begin:end]]:
                last[answer] = index
            if calls:
                last.update(dict.fromkeys(inside, index))
        for piped in (True, None):
            if piped in last:
                self._mark(range(stages[0][0], stages[last[piped]][0]), piped=piped)
                if any(calls for _, calls in stages[: last[piped]]):
                    self._mark(self.bodies, piped=piped)

    def _feed(self, places: Iterable[int]) -> None:
        for place in places:
            self.commands[place] = self.commands[place].replace(fed=True)

    def _mark(self, places: Iterable[int], *, piped: bool | None) -> None:
        for place in places:
            if self.commands[place].piped_to_shell is not True:
                self.commands[place] = self.commands[place].replace(piped_to_shell=piped)

    def _group(self, node: Group, state: ShellState) -> Flow:
        self._hold(node.redirects, state)
        flow = self.sequence(node.body, state)
        self._release(node.redirects, state)
        return (state, state) if node.subshell else flow

    def _if(self, node: If, state: ShellState) -> Flow:
        self._hold(node.redirects, state)
        entry: ShellState | None = state
        success: ShellState | None = None
        failure: ShellState | None = None
        for condition, body in node.branches:
            holds, entry = self.sequence(condition, entry)
            after = self.sequence(body, holds)
            success, failure = merged(success, after[0]), merged(failure, after[1])
        if node.otherwise is not None:
            after = self.sequence(node.otherwise, entry)
            success, failure = merged(success, after[0]), merged(failure, after[1])
        else:
            success = merged(success, entry)
        self._release(node.redirects, state)
        return success, failure

    def _loop(self, node: Loop, state: ShellState) -> Flow:
        self._hold(node.redirects, state)
        known = without(state.values, assigned_in(node))
        inside = (state.at(None, None) if node.moves else state).knowing(known)
        inside = self._counted(node.effects, inside)
        for word in node.words:
            self._each_effect(word.effects, state)
        if node.name is not None:
            self.check_exotic(node.name, node.at)
            if node.name not in self.tainted:
                inside = inside.counting(node.name)
            inside = inside.knowing(known if self.odd else _each_value(node, state, known))
        entry: ShellState | None = inside
        if node.condition is not None:
            holds, fails = self.sequence(node.condition, inside)
            entry = fails if node.until else holds
        self.sequence(node.body, entry if entry is not None else UNKNOWN)
        self._release(node.redirects, state)
        after = (state.at(None, None) if node.moves else state).knowing(known)
        return after, after

    def _case(self, node: Case, state: ShellState) -> Flow:
        self._hold(node.redirects, state)
        self._each_effect(node.word.effects, state)
        success: ShellState | None = state
        failure: ShellState | None = state
        entry: ShellState | None = state
        for patterns, body in node.branches:
            for pattern in patterns:
                self._each_effect(pattern.effects, state)
            after = self.sequence(body, entry)
            success, failure = merged(success, after[0]), merged(failure, after[1])
            entry = merged(state, merged(*after))  # `;&` falls through
        self._release(node.redirects, state)
        return success, failure

    def _function(self, node: Function, state: ShellState) -> Flow:
        """List the body where it is defined; it runs in whatever directory it is called from."""
        if node.moves:
            self.movers.add(node.name)
        defined = ShellState(state.places, state.previous, state.numeric, state.functions | {node.name})
        begin = len(self.commands)
        self.follow(node.body, ShellState(None, None, frozenset(), defined.functions))
        self.bodies.extend(range(begin, len(self.commands)))
        return defined, defined  # without values: a call may set any

    def _evaluation(self, node: EvaluatedText, state: ShellState) -> Flow:
        self._hold(node.redirects, state)
        after = self._counted(node.effects, state)
        self._release(node.redirects, state)
        return after, after

    def _counted(self, effects: tuple[Effect, ...], state: ShellState) -> ShellState:
        """Follow effects one after the other; return the state with the variables that now hold numbers."""
        for effect in effects:
            self._each_effect((effect,), state)
            if isinstance(effect, Arithmetic) and effect.sure:
                for name in effect.sets:
                    if name not in self.tainted:
                        state = state.counting(name)
        return state

    def _hold(self, redirects: tuple[RedirectNode, ...], state: ShellState) -> None:
        if redirects:
            self.waiting = (*self.waiting, *[_redirect(node, state) for node in redirects])

    def _release(self, redirects: tuple[RedirectNode, ...], state: ShellState) -> None:
        """Read what the words of a group's redirections do; give the redirections a place if none took them."""
        if not redirects:
            return
        if self.waiting:
            self.emit(CommandCall((), (), (), state, redirects[0].at, redirects[-1].at))
        self._redirect_effects(redirects, state)

    def _simple(self, node: Simple, state: ShellState) -> Flow:
        assignments = self._assignments(node.assignments) if node.assignments else ()
        redirects = tuple([_redirect(item, state) for item in node.redirects]) if node.redirects else ()
        flow = self._run(CommandCall(node.words, assignments, redirects, state, node.start, node.end), node)
        for assignment in node.assignments:
            self._each_effect(assignment.effects, state)
            self._each_effect(assignment.value.effects, state)
            for word in assignment.values or ():
                self._each_effect(word.effects, state)
        begin = len(self.commands)
        for word in node.words:
            if word.effects:
                self._each_effect(word.effects, state)
        if node.redirects:
            self._redirect_effects(node.redirects, state)
        if len(self.commands) > begin and node.words:
            self._mark_substituted(node, begin)
        return self._with_values(node, state, flow)

    def _with_values(self, node: Simple, before: ShellState, flow: Flow) -> Flow:
        """Return the flow behind a command, with what its variables may hold from there on."""
        if node.words and not before.values and node.words[0].text not in DECLARING:
            return flow
        values = without(before.values, assigned_in(node))
        if node.words and node.words[0].text in self.functions:
            values = NOTHING_KNOWN
        made: dict[str, tuple[tuple[Piece, ...], ...]] = {}
        if not node.words:
            for item in node.assignments:  # in order: a later one may use an earlier one
                forms = pinned(assigned_forms(item, {**before.values, **made}), before.places)
                if forms:
                    made[item.name] = forms
                else:
                    made.pop(item.name, None)
        elif node.words[0].text in DECLARING:
            texts = [word.text for word in node.words[1:] if word.text is not None]
            plain = [text.partition("=") for text in texts]
            made = {name: ((Piece("literal", value),),) for name, equals, value in plain if equals}
            if any(text[:1] in ("-", "+") and not KEEPING.issuperset(text[1:]) for text in texts):
                self.follows_values = False  # the variable changes what is put into it
        if made and self.odd:
            made = {name: unsplit(forms) for name, forms in made.items()}
        if made:
            values = {**values, **made}
        if not self.follows_values:
            values = NOTHING_KNOWN
        success, failure = flow
        return success and success.knowing(values), failure and failure.knowing(values)

    def _mark_substituted(self, node: Simple, begin: int) -> None:
        """Mark the commands inside `bash <(..)`: their output is the script of a shell."""
        words = [*node.words, *[item.target for item in node.redirects if item.target is not None]]
        bodies = [item.body for item in node.redirects if item.body is not None]
        effects = [word.effects for word in words] + [body.effects for body in bodies]
        kinds = frozenset(each.kind for some in effects for each in some if isinstance(each, Substitution))
        if any(is_interpreter(word.text) or word.text in ("source", ".") for word in node.words):
            given = bodies or any(item.operator == "<<<" for item in node.redirects)
            if given or not kinds <= {"command"} or announces_code(node.words):
                self._mark(range(begin, len(self.commands)), piped=True)
        elif kinds <= {"command"}:
            return
        elif not takes_data(Command(node.words)):
            self._mark(range(begin, len(self.commands)), piped=None)

    def _run(self, call: CommandCall, node: Simple) -> Flow:
        state = call.state
        if not call.words:
            self.emit(call)
            for assignment in node.assignments:
                if assignment.name not in self.tainted:
                    state = state.counting(assignment.name)
            return state, state
        if call.words[0].text in self.functions:
            return self._called(call)
        return self.run(call)

    def _called(self, call: CommandCall) -> Flow:
        """Follow a call to a function of this text: its body is listed where it is defined."""
        name = call.words[0].text or ""
        state = call.state
        if name not in state.functions:
            self.refuse("a function that may not be defined yet", call.start)
        if call.assignments or call.redirects:
            self.emit(CommandCall((), call.assignments, call.redirects, state, call.start, call.end))
        self.calls += 1
        if name in self.movers:
            state = state.at(None, None)
        return state, state

    def run(self, call: CommandCall) -> Flow:
        """List a command and its children; return the flow behind it."""
        if call.words[0].text is None:
            self.emit(call)
            lost = call.state.lost() if self.frame.inside else call.state
            return lost, lost
        return unwrap(self, call.words[0].text, call)

    def _listed(self, word: Word, state: ShellState) -> Word:
        """Return a word as it is listed: without what it does, with what it may become."""
        forms = forms_of(word, state.values) if word.text is None else ()
        prefix = word.prefix
        if not prefix and forms and all(_is_rooted(form) for form in forms):
            prefix = "/"  # it starts at the home directory or at this one: no option
        left = () if forms else word.pieces
        splits = word.splits and not _ends_in_number(word) and (self.odd or not _is_one_number(word, state))
        if splits and not self.odd and not self.functions and len(word.effects) == 1:
            splits = not (isinstance(word.effects[0], Substitution) and yields_program(word.effects[0]))
        made = word.replace(effects=(), number=None, pieces=left, forms=forms, prefix=prefix, splits=splits)
        return made.replace(is_object=True) if self._is_object(word) else made

    def _is_object(self, word: Word) -> bool:
        """Whether a word begins with a substitution that prints the name of an object of git, and with no dash."""
        pieces = [piece for piece in word.pieces if piece.kind == "unknown" or piece.text]
        if self.odd or "git" in self.functions or word.glob:
            return False
        if len(word.effects) != 1 or not pieces or pieces[0].kind != "unknown":
            return False
        if any(piece.kind not in ("raw", "literal") or piece.text[:1] == "-" for piece in pieces[1:]):
            return False
        return isinstance(word.effects[0], Substitution) and yields_object(word.effects[0])

    def plain(self, call: CommandCall) -> Flow:
        """List a command that wraps nothing, and follow it if it is a builtin."""
        checker = CHECKERS.get(call.words[0].text or "") if self.frame.inside else None
        if checker is None:
            self.emit(call)
            return call.state, call.state
        flow = checker(self, call.words, call.state)
        if call.words[0].text in DECLARING:
            made = call.assignments + declared(call.words)
            call = CommandCall(call.words, made, call.redirects, call.state, call.start, call.end)
        self.emit(call)
        return flow

    def emit(self, call: CommandCall, wraps: str | None = None) -> None:
        """Put a command on the list."""
        frame, words, state = self.frame, call.words, call.state
        assignments, redirects = call.assignments, call.redirects
        if self.waiting:
            redirects, self.waiting = redirects + self.waiting, ()
        if frame.assignments:
            assignments = frame.assignments + assignments
        places = base = state.places if frame.here else None
        if words and not self.programs.is_plain(_base_name(words[0])):
            places = worked_in(words, self.programs, base, lambda word, at: reached(word, state.at(at, None), ""))
        followed = None
        if any(is_followed(place) for place in (*(places or ()), *(base or ()))):
            followed = (places, base)
            places, base = plain(places), plain(base)
        cwd = places[0] if places is not None and len(places) == 1 else None
        if cwd == "." and self.start == ".":
            cwd = None
        kept = tuple(
            [word if word.text is not None and not word.effects else self._listed(word, state) for word in words]
        )
        self.commands.append(
            Command(
                kept,
                assignments,
                redirects,
                cwd,
                places,
                base,
                frame.via,
                wraps,
                piped_to_shell=False,
                start=call.start,
                end=call.end,
                elsewhere=not frame.here,
                followed=followed,
            )
        )

    def script(self, text: str, frame: Frame, state: ShellState, dialect: str, at: int) -> None:
        """Read a text that another shell runs; nothing of it stays behind in this one."""
        grammar, tree = self._parsed(text, dialect, at)
        for assignment in frame.assignments:
            if not text.isascii() and not self.ascii:
                self.check_variable(assignment.name, at, assignment.value)
        walker = Walker(grammar, self.commands, self.start, self.programs, frame)
        walker.odd = walker.odd or self.odd
        try:
            walker.sequence(tree, ShellState(state.places, None, frozenset(), frozenset()))
        except NotUnderstoodError as problem:
            self.refuse(problem.reason, at)

    def evaluate(self, text: str, frame: Frame, state: ShellState, at: int) -> tuple[Flow, bool]:
        """Read a text that this very shell runs; return the flow behind it and whether it may change directory."""
        grammar, tree = self._parsed(text, self.dialect, at)
        if grammar.functions:
            self.refuse("a function defined by evaluation", at)
        for name in grammar.tainted:
            self.taint(name, at)
        outside, self.frame = self.frame, frame
        try:
            flow = self.sequence(tree, state)
        except NotUnderstoodError as problem:
            self.refuse(problem.reason, at)
        self.frame = outside
        return flow, grammar.moves > 0

    def _parsed(self, text: str, dialect: str, at: int) -> tuple[Grammar, Sequence]:
        if refused_at(text) >= 0:
            self.refuse("a script with control characters", at)
        try:
            return parse(text, dialect=dialect, depth=self.depth + 1)
        except NotUnderstoodError as problem:
            self.refuse(problem.reason, at)

    def _assignments(self, nodes: tuple[AssignmentNode, ...]) -> tuple[Assignment, ...]:
        made: list[Assignment] = []
        for node in nodes:
            value = None if node.values is not None else node.value.text
            self.check_variable(node.name, node.at, value)
            self.check_evaluated(node.name, node.at, value)
            relative = relative_value(node.name, node.value) if node.values is None else None
            made.append(Assignment(node.name, value, node.append, relative))
        return tuple(made)

    def _redirect_effects(self, nodes: tuple[RedirectNode, ...], state: ShellState) -> None:
        for node in nodes:
            if node.target is not None:
                self._each_effect(node.target.effects, state)
            elif node.body is not None:
                self._each_effect(node.body.effects, state)

    def _each_effect(self, effects: tuple[Effect, ...], state: ShellState) -> None:
        for effect in effects:
            if isinstance(effect, Substitution):
                waiting, self.waiting = self.waiting, ()
                self.sequence(effect.body, state)
                self.waiting = waiting
            elif isinstance(effect, Sets):
                self.check_exotic(effect.name, effect.at)
            else:
                self._arithmetic(effect, state)

    def _arithmetic(self, effect: Arithmetic, state: ShellState) -> None:
        for use in effect.uses:
            self.check_number(use, state, effect.at)
        for name in effect.sets:
            self.check_exotic(name, effect.at)

    def check_number(self, number: Number, state: ShellState, at: int, why: str = NOT_A_NUMBER) -> None:
        """Refuse what may hold anything but a number."""
        if number is True:
            return
        if isinstance(number, str) and number not in self.tainted and number not in SET_BY_SHELL:
            self.used.add(number)
            if number in state.numeric or number in COUNTERS:
                return
        if isinstance(number, Substitution) and yields_number(number) and not self.functions:
            return
        self.refuse(why, at)

    def check_numbers(self, words: Iterable[Word], state: ShellState) -> None:
        for word in words:
            self.check_number(word.number, state, word.start, "a word that may become an operator or an option")

    def check_variable(self, name: str, at: int, value: str | None = None) -> None:
        """Refuse to follow a shell whose own working is changed."""
        if name in SHELL_VARIABLES:
            self.refuse(f"{name} changes how the shell works", at)
        if not self.ascii and (name == "LANG" or name.startswith("LC_")) and not keeps_characters(value):
            self.refuse(f"{name} changes how the characters of this text are read", at)

    def check_evaluated(self, name: str, at: int, value: str | None = None) -> None:
        """Refuse to set a variable that the shell keeps as a number to anything else: it would be evaluated."""
        evaluated = EVALUATED_BY_ZSH if self.dialect == ZSH else EVALUATED
        if name in evaluated and (value is None or (value and not is_decimal(value))):
            self.refuse(f"the shell evaluates what {name} is set to", at)

    def check_exotic(self, name: str, at: int) -> None:
        """Refuse to set, other than by a plain assignment, a variable that changes what runs."""
        self.check_variable(name, at)
        self.check_evaluated(name, at)
        if not harmless_in_shell(name):
            self.refuse(f"{name} changes what later commands run", at)

    def taint(self, name: str, at: int) -> None:
        """Note that a variable may hold anything from here on."""
        if name in self.used:
            self.refuse(NOT_A_NUMBER, at)
        self.tainted.add(name)


def _is_one_number(word: Word, state: ShellState) -> bool:
    """Whether a word is a number known only at run time, which no usual shell splits: `$#`, `$((n + 1))`, `$n`."""
    number = word.number
    return number is True or (isinstance(number, str) and number in state.numeric)


def _ends_in_number(word: Word) -> bool:
    """Whether a word is plain text and then a number known only at run time, as `-j$(nproc)` is: it stays one word."""
    kinds = [piece.kind for piece in word.pieces]
    effects = word.effects
    return kinds == ["raw", "unknown"] and len(effects) == 1 and _is_number(effects[0])


def _is_number(effect: Effect) -> bool:
    return isinstance(effect, Substitution) and yields_number(effect)


def _is_rooted(form: tuple[Piece, ...]) -> bool:
    first = next((piece for piece in form if piece.text or piece.kind != "literal"), None)
    return first is not None and first.kind in ("home", "here")


def _redirect(node: RedirectNode, state: ShellState) -> Redirect:
    """Return a redirection as it is reported, with what its target may become."""
    made = redirect_of(node)
    if node.target is None or made.target is not None or made.kind != "file":
        return made
    return made.replace(forms=forms_of(node.target, state.values))


def _each_value(node: Loop, state: ShellState, known: Values) -> Values:
    """Return the values inside a `for`: its variable holds each of its words, one at a time (`each`)."""
    forms = [forms_of(word, state.values) for word in node.words]
    held = tuple(dict.fromkeys([looped(each) for word in forms for each in pinned(word, state.places)]))
    changed = assigned_in((node.condition, node.body, node.effects))
    if not node.words or () in forms or len(held) > MOST_FORMS or changed is None or node.name in changed:
        return known
    return {**known, node.name or "": held}


def _base_name(word: Word) -> str:
    name = word.text or ""
    return name[name.rfind("/") + 1 :]


FOLLOWERS = {
    Simple: Walker._simple,  # noqa: SLF001 -- the table of this module's own followers
    Pipeline: Walker._pipeline,  # noqa: SLF001
    AndOr: Walker._and_or,  # noqa: SLF001
    Sequence: Walker.sequence,
    Group: Walker._group,  # noqa: SLF001
    If: Walker._if,  # noqa: SLF001
    Loop: Walker._loop,  # noqa: SLF001
    Case: Walker._case,  # noqa: SLF001
    Function: Walker._function,  # noqa: SLF001
    EvaluatedText: Walker._evaluation,  # noqa: SLF001
}
