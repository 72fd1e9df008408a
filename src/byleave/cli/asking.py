"""Put the guard's questions to the person at the terminal: the whole action, why it is asked, what a yes covers."""

from time import monotonic

from byleave.cli.output import paint
from byleave.cli.terminal import YES, ask_person
from byleave.core.action import action_tree
from byleave.guard.asking import FOR_GOOD, FOR_SESSION, NO, NOBODY, ONCE, SILENCE
from byleave.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.guard.asking import Question

_CHOICES = {
    "o": ONCE,
    "once": ONCE,
    "y": ONCE,
    "yes": ONCE,
    "s": FOR_SESSION,
    "session": FOR_SESSION,
    "a": FOR_GOOD,
    "always": FOR_GOOD,
}
_HIDDEN = ("kind", "agent")


class TerminalAsker:
    """Asks at the controlling terminal. Whatever is not a clear yes is a no."""

    name = "terminal"

    def ask(self, question: "Question", patience: float) -> str:
        """Return what the person says; silence, if they say nothing in time."""
        until = monotonic() + patience
        offers = "[o]nce, for this [s]ession, " + ("[a]lways" if question.rule is not None else "")
        asked = f"{chr(10).join(_lines(question))}\n{offers.rstrip(', ')} or [N]o? "
        typed = ask_person(asked, timeout=patience)
        if typed is None:
            return NOBODY
        choice = _CHOICES.get(typed.lower(), NO)
        if choice is FOR_GOOD:
            return self._for_good(question, until)
        return SILENCE if not typed and monotonic() >= until else choice

    def _for_good(self, question: "Question", until: float) -> str:
        """Show the rule before it is written; a no to the rule is a no."""
        if question.rule is None:
            return NO
        rule = "\n".join(f"    {shown(line)}" for line in question.rule.split("\n"))
        asked = f"This rule would be added to your own configuration:\n{rule}\nAdd it? [y/N] "
        typed = ask_person(asked, timeout=max(0.0, until - monotonic()))
        return FOR_GOOD if typed is not None and typed.lower() in YES else NO


def _lines(question: "Question") -> "Iterator[str]":
    """Yield what is asked. Every line of a text from outside begins with a bar, so that none can pass for ours."""
    tree = action_tree(question.judged.action)
    who = question.who.agent
    asker = (
        "somebody" if who is None else f"{shown(who)}{'' if question.who.identity == 'verified' else ' (unverified)'}"
    )
    yield f"{paint('byleave:', 'bold')} {asker} asks: {shown(str(tree['kind']))}"
    for key, value in tree.items():
        if key not in _HIDDEN:
            first, *others = str(value).split("\n")
            yield f"  {key}: {shown(first)}"
            yield from (f"  | {shown(line)}" for line in others)
    yield f"  why: {shown(question.judged.verdict.reason)}"
