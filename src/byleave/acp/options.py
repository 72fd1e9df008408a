"""Which of the options that an agent offers answers a request once, and does nothing else.

Ids mean nothing, only kinds do; but several options can share a kind, and one of them may also switch a mode or let
somebody edit the call first. Names are for people and in any language, so they are only used to rule options out.
"""

from byleave.acp.wishes import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.acp.wishes import Permission
    from byleave.translate.call import Meaning

ALLOW_ONCE, ALLOW_ALWAYS, REJECT_ONCE, REJECT_ALWAYS = "allow_once", "allow_always", "reject_once", "reject_always"

# Words in the name or id of an option that does more than answer.
_EFFECTS = frozenset(
    (  # noqa: SIM905 -- a list would take a line for each
        "mode switch auto automatically always never session remember permanent permanently forever all every future "
        "similar bypass yolo ask again chat conversation workspace folder until restart rest turn task trust and then "
        "also"
    ).split()
)
# Words that say so only where another option of the kind goes without: "Allow this edit" is as plain as can be.
_LIKELY_EFFECTS = frozenset(
    ("edit", "edits", "modify", "editor", "change", "plan", "any", "whole", "project", "directory", "but")
)
_JOINTS = frozenset({"and", "then", "also"})  # "no, and tell it what to do instead" is still a no
_PLAIN = frozenset(
    (  # noqa: SIM905
        "allow yes approve approved accept accepted ok okay run once proceed continue confirm permit grant "
        "reject no deny denied refuse decline skip cancel dont don't not this time it just only one"
    ).split()
)


def plain_option(options: "Sequence[Option]", kind: str) -> Option | None:
    """Return the option of a kind that has no further effect; None where there is none, or it cannot be told."""
    fitting = [option for option in options if option.kind == kind and not _words(_both(option)) & _EFFECTS]
    if len(fitting) > 1:
        fitting = [option for option in fitting if not _words(_both(option)) & _LIKELY_EFFECTS]
    if len(fitting) > 1:
        fitting = [option for option in fitting if _is_plain(option)]
    return fitting[0] if len(fitting) == 1 else None


def reject_option(options: "Sequence[Option]") -> Option | None:
    """Return the option that rejects once: the plain one, else the first that changes nothing for later."""
    plain = plain_option(options, REJECT_ONCE)
    if plain is not None:
        return plain
    lasting = _EFFECTS - _JOINTS
    return next((each for each in options if each.kind == REJECT_ONCE and not _words(_both(each)) & lasting), None)


def once_option(options: "Sequence[Option]", kind: str) -> Option | None:
    """Return an option for once in place of one for always, which a person has chosen: one that does no more."""
    harmless = [option for option in options if option.kind == kind and not _words(_both(option)) & _EFFECTS]
    return plain_option(options, kind) or next(iter(harmless), None)


def is_a_question(meant: "Meaning", wish: "Permission") -> bool:
    """Whether the agent has a question for its user, in the form of a request for permission to think.

    Nobody else can answer that: its option says "Submit", or the like, and not yes.
    """
    if any(getattr(action, "name", None) != "think" for action in meant.actions):
        return False
    raw = wish.call.get("rawInput")
    yes = [option for option in wish.options if option.kind == ALLOW_ONCE]
    return (isinstance(raw, dict) and bool(raw.get("questions"))) or not all(_is_plain(option) for option in yes)


def _is_plain(option: Option) -> bool:
    return _words(option.name) <= _PLAIN or _words(option.id) <= _PLAIN


def _both(option: Option) -> str:
    return f"{option.name} {option.id}"


def _words(text: str) -> frozenset[str]:
    """Return the words of a name or id, however they are joined: `allow_once`, `allow-once`, `Allow once`."""
    spaced = "".join([_apart(char, text[position - 1] if position else "") for position, char in enumerate(text)])
    return frozenset(spaced.casefold().split())


def _apart(char: str, before: str) -> str:
    if char.isupper() and before.islower():  # camelCase
        return f" {char}"
    return char if char.isalnum() or char == "'" else " "
