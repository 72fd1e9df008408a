"""The values of this room: a tool call in the agent's own words, where it would happen, and what it amounts to."""

from byleave.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from byleave.core.action import Action


class Call(Record):
    """A tool call as far as its agent told: nothing here is checked, and everything may be missing.

    `kind` is one of ACP's kinds (read, edit, delete, move, search, execute, fetch, think, switch_mode, other), or what
    a table of ours says about a known tool. `raw` is the structured input: None where nobody told it, empty where it is
    known to be empty. `content` and `locations` have ACP's shapes. `tool` is the agent's own name for its tool, where
    it gave one. `kinds` are other kinds the same call was given before.
    """

    kind: str | None = None
    title: str | None = None
    raw: "Mapping[str, Any] | None" = None
    content: "tuple[Any, ...]" = ()
    locations: "tuple[Any, ...]" = ()
    tool: str | None = None
    kinds: tuple[str, ...] = ()
    takes_directory: bool = True


class Where(Record):
    """Where a call would happen. `cwd` is absolute; None where nobody said: then what is relative is not understood.

    `exists` answers for an absolute path whether something is there (links followed). `shell` is the name of the shell
    that the agent gives its commands to; None where that is not known.
    """

    root: str
    cwd: str | None
    exists: "Callable[[str], bool]"
    shell: str | None = None


class Meaning(Record):
    """What a call amounts to. There is always at least one action.

    `understood` is false where it cannot be told what would be done, or not all of it: then the answer is at least ask,
    whatever the policy allows, and `problem` says why in a sentence. `sources` names, for each derived field (command,
    cwd, path, to, url, kind, ...), where it was found: "rawInput.command", "title", "locations", "content", "session".
    `is_own_question`: the agent asks its user something in its own name, which byleave answers for nobody.
    """

    actions: "tuple[Action, ...]"
    sources: "Mapping[str, str]"
    understood: bool = True
    problem: str = ""
    is_own_question: bool = False
