"""Review proposed rules at the terminal: accept, edit, narrow, reject, or deny from now on.

Each rule is shown with the answers that it comes from and with what else it would allow. What is accepted is returned,
not written. A rejected rule is remembered in the user's own state, and is not proposed again.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec

from byleave.cli.output import fitted, paint, say
from byleave.cli.terminal import ask_person
from byleave.core.suggest import cautions_apart
from byleave.errors import ByleaveError, StateError
from byleave.text import shown, shown_lines
from byleave.user_files import make_private_directory, read_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.analysis.learn import Learner, Proposal

_FILE = "learn.json"
_LARGEST = 1 << 20
_MOST_REJECTED = 500
_LONGEST = 120  # characters of an example
_CHOICES = {"a": "accept", "e": "edit", "n": "narrow", "r": "reject", "d": "deny", "s": "skip", "q": "quit", "": "skip"}
_ASKED = "[a]ccept, [e]dit, [n]arrow, [r]eject, [d]eny from now on, [s]kip or [q]uit? "
_MOST_TYPOS = 3


class Rejections:
    """The rules that the user does not want to see again, in one workspace."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, _FILE)

    def rules(self) -> list[str]:
        """Return the rejected rules, without their cautions; none where they cannot be read."""
        try:
            tree: Any = msgspec.json.decode(read_private(self._path, limit=_LARGEST) or b"{}")
            return [rule for rule in tree.get("rejected", ()) if isinstance(rule, str)]
        except (ByleaveError, msgspec.MsgspecError, AttributeError, TypeError):
            return []

    def add(self, rule: str) -> None:
        """Remember one more; of too many, the oldest go."""
        kept = [*dict.fromkeys([*self.rules(), cautions_apart(rule)[0]])][-_MOST_REJECTED:]
        try:
            make_private_directory(self._directory)
            write_private(self._path, msgspec.json.encode({"rejected": kept}))
        except (StateError, OSError):
            say("this could not be remembered: the rule may be proposed again")


def proposal_lines(proposal: Proposal) -> list[str]:
    """Return what is to be said of a rule: where it comes from, what else it would allow, what to look out for."""
    times = "once" if proposal.covers == 1 else f"{proposal.covers} times"
    what = "sandboxed runs were refused this" if proposal.refused else "you approved this"
    lines = [f"{what} {times}, such as: {_listed(proposal.examples)}"]
    found = proposal.over_grant
    if found.also_allowed:
        lines.append(
            f"would also allow {found.also_allowed} of {found.tried} others that were tried, "
            f"such as: {_listed(found.examples)}"
        )
    elif found.tried:
        lines.append(f"would allow none of {found.tried} others that were tried")
    return lines


def _listed(examples: Sequence[str]) -> str:
    return "; ".join(_cut(shown(each)) for each in examples[:3])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def review(learner: Learner, proposals: Sequence[Proposal], rejections: Rejections) -> list[str]:
    """Put each proposal to the person at the terminal, and return the rules that they want."""
    chosen: list[str] = []
    waiting = list(proposals)
    number = 0
    while waiting:
        proposal = waiting.pop(0)
        number += 1
        _show(proposal, number, number + len(waiting))
        choice = _choice()
        if choice == "quit":
            break
        if choice == "accept":
            chosen.append(proposal.toml)
        elif choice == "edit":
            chosen += _edited(learner, proposal)
        elif choice == "narrow":
            narrower = learner.narrowed(proposal)
            if not narrower:
                say("there is no narrower rule for this that your answers support")
                narrower = [proposal]
                number -= 1
            waiting = [*narrower, *waiting]
        elif choice == "reject":
            rejections.add(proposal.toml)
        elif choice == "deny":
            chosen += _denied(proposal, rejections)
    return chosen


def _show(proposal: Proposal, number: int, total: int) -> None:
    say("")
    say(f"{paint(f'rule {number} of {total}', 'bold')}")
    toml, cautions = cautions_apart(proposal.toml)
    for line in shown_lines(toml).split("\n"):
        say(f"    {line}".rstrip())
    for line in proposal_lines(proposal):
        say(fitted(f"  {line}"))
    for caution in cautions:
        say(fitted(f"  {paint('caution', 'ask')}: {shown(caution)}"))


def _choice() -> str:
    typed = ask_person(_ASKED)
    for _ in range(_MOST_TYPOS):
        if typed is None:
            return "quit"
        found = _CHOICES.get(typed.lower()[:1])
        if found is not None:
            return found
        typed = ask_person(f"Type one of the letters. {_ASKED}")
    return "skip"


def _denied(proposal: Proposal, rejections: Rejections) -> Iterator[str]:
    """Yield the deny in the place of the allow; what is no rule about agents' actions can only be rejected."""
    rejections.add(proposal.toml)
    toml, _cautions = cautions_apart(proposal.toml)
    if set(tomllib.loads(toml)) == {"rules"}:
        yield "\n".join(
            line.replace("allow = ", "deny = ", 1) if line.startswith("allow = ") else line for line in toml.split("\n")
        )
    else:
        say("it stays refused, and is not proposed again")


def _edited(learner: Learner, proposal: Proposal) -> Iterator[str]:
    """Yield the rule as the person has changed it in their editor, if it can be used."""
    text = _in_editor(proposal.toml)
    if text is None or not text.strip():
        say("nothing was taken over")
        return
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        say(f"this is no TOML: {shown(str(error))}; nothing was taken over")
        return
    if learner.try_rule(text) is None:
        say(
            "nothing was taken over: the rule cannot be used here, or it would allow something that you or a rule "
            "have refused"
        )
        return
    yield text


def _in_editor(text: str) -> str | None:
    from shlex import split

    words = split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="byleave-") as directory:  # which only the user can read
        path = os.path.join(directory, "rule.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
        try:
            subprocess.run([*words, path], check=True)  # noqa: S603 -- the editor that the user has named
            with open(path, encoding="utf-8") as file:
                return file.read(_LARGEST).strip("\n")
        except (OSError, ValueError, subprocess.CalledProcessError):
            say("the editor could not be started, or it failed; EDITOR names it")
            return None
