"""The shape of `rules`, as types: outcomes, matchers and their combinators. `policy.schema_types` has the other tables.

`Merge` is the shape of a list that says how it joins the lists of weaker layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, field

from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Container


Item = TypeVar("Item")


class ConfigTable(Struct, kw_only=True, forbid_unknown_fields=True):
    """A table that knows its keys and refuses all others. `one_of`: exactly one of these keys is needed."""

    one_of: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.one_of and sum(getattr(self, key) is not UNSET for key in self.one_of) != 1:
            raise ValueError(f"exactly one of {', '.join(self.one_of)} is needed")


class Merge(ConfigTable, Generic[Item]):
    """A list that says how it joins the lists of weaker layers."""

    strategy: Annotated[
        Literal["append", "prepend", "replace", "dedup"],
        Meta(
            description="append: after the weaker layers. prepend: before them. replace: instead of them. "
            "dedup: as append, and nothing stands there twice.",
            examples=["append"],
        ),
    ]
    value: Annotated[list[Item], Meta(description="The list itself.", examples=[[]])]


Words = str | list[str]
Op = Literal["read", "create", "update", "delete", "exec"]
Scalar = str | int | float | bool


class UrlMatch(ConfigTable):
    """A URL by its parts; every key that is there must hold."""

    host: Annotated[str | UnsetType, Meta(description="Host name or address.", examples=["paste.example.com"])] = UNSET
    scheme: Annotated[str | UnsetType, Meta(description="Only this scheme.", examples=["https"])] = UNSET
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | UnsetType, Meta(description="Only this port.", examples=[443])
    ] = UNSET
    path_prefix: Annotated[
        str | UnsetType, Meta(description="Only paths at or below this one.", examples=["/admin"])
    ] = UNSET
    method: Annotated[Words | UnsetType, Meta(description="Only these HTTP methods.", examples=["POST"])] = UNSET


class CallMatch(ConfigTable):
    """An MCP call by server, tool and one argument."""

    server: Annotated[str | UnsetType, Meta(description="Glob over server names.", examples=["postgres"])] = UNSET
    tool: Annotated[str | UnsetType, Meta(description="Glob over tool names.", examples=["query"])] = UNSET
    arg: Annotated[
        str | UnsetType,
        Meta(description="JSON pointer to one argument; needs one of the tests below.", examples=["/sql"]),
    ] = UNSET
    equals: Annotated[Scalar | UnsetType, Meta(description="It is exactly this.", examples=["main"])] = UNSET
    prefix: Annotated[str | UnsetType, Meta(description="It starts with this.", examples=["docs/"])] = UNSET
    glob: Annotated[str | UnsetType, Meta(description="It matches this glob.", examples=["*.md"])] = UNSET
    regex: Annotated[
        str | UnsetType, Meta(description="It matches this pattern (RE2 syntax).", examples=["(?i)\\bdrop\\b"])
    ] = UNSET
    inside: Annotated[str | UnsetType, Meta(description="It is a path below this one.", examples=["/srv"])] = UNSET
    host: Annotated[str | UnsetType, Meta(description="It is a URL of this host.", examples=["example.com"])] = UNSET


class MatchTable(ConfigTable):
    """What a rule is about. All keys in one table must hold."""

    command: Annotated[
        Words | UnsetType,
        Meta(description="Program, or several; a bare name in an allow means the system's own.", examples=["git"]),
    ] = UNSET
    subcommand: Annotated[
        Words | UnsetType, Meta(description="Its subcommand, or any of several.", examples=["status"])
    ] = UNSET
    flags: Annotated[
        Words | UnsetType, Meta(description="Flags that must all be there, in any spelling.", examples=[["--force"]])
    ] = UNSET
    args: Annotated[
        list[str] | UnsetType,
        Meta(description="The whole argument list; a last '**' is anything after.", examples=[["run", "test", "**"]]),
    ] = UNSET
    operands: Annotated[
        Annotated[int, Meta(ge=0)] | UnsetType,
        Meta(description="At most this many words that are neither options nor the subcommand.", examples=[0]),
    ] = UNSET
    within: Annotated[
        str | UnsetType, Meta(description="The command runs in this directory or below.", examples=["."])
    ] = UNSET
    options: Annotated[
        Literal["any"] | UnsetType,
        Meta(description="The rule also covers options that execute or write.", examples=["any"]),
    ] = UNSET
    text: Annotated[
        str | UnsetType,
        Meta(
            description="Glob over the text of one command, only in ask and deny: * is anything, ? one letter.",
            examples=["git push * --force"],
        ),
    ] = UNSET
    piped_to_shell: Annotated[bool | UnsetType, Meta(description="Its output goes to a shell.", examples=[True])] = (
        UNSET
    )
    any_command: Annotated[bool | UnsetType, Meta(description="Any command.", examples=[True])] = UNSET
    group: Annotated[
        str | UnsetType, Meta(description="A ready-made group of commands.", examples=["read_only_git"])
    ] = UNSET
    path: Annotated[Words | UnsetType, Meta(description="Glob over paths.", examples=["migrations/**"])] = UNSET
    ops: Annotated[
        list[Op] | UnsetType, Meta(description="Only these file actions.", examples=[["create", "update"]])
    ] = UNSET
    url: Annotated[UrlMatch | UnsetType, Meta(description="A URL.", examples=[{"host": "paste.example.com"}])] = UNSET
    call: Annotated[CallMatch | UnsetType, Meta(description="An MCP call.", examples=[{"server": "db"}])] = UNSET
    operation: Annotated[
        Words | UnsetType, Meta(description="Kind of operation, as editors name it.", examples=["fetch"])
    ] = UNSET
    agent: Annotated[Words | UnsetType, Meta(description="Glob over agents.", examples=["claude*"])] = UNSET
    all: Annotated[list[MatchTable] | UnsetType, Meta(description="All of these.", examples=[[]])] = UNSET
    any: Annotated[list[MatchTable] | UnsetType, Meta(description="Any of these.", examples=[[]])] = UNSET
    not_: Annotated[MatchTable | UnsetType, Meta(description="Not this.", examples=[{}])] = field(
        default=UNSET, name="not"
    )


class RuleDefinition(ConfigTable):
    """One rule: exactly one of allow, ask and deny."""

    one_of = ("allow", "ask", "deny")

    allow: Annotated[MatchTable | UnsetType, Meta(description="Allow it.", examples=[{"command": "git"}])] = UNSET
    ask: Annotated[MatchTable | UnsetType, Meta(description="Ask the user.", examples=[{"command": "git"}])] = UNSET
    deny: Annotated[MatchTable | UnsetType, Meta(description="Refuse it.", examples=[{"command": "sudo"}])] = UNSET
    why: Annotated[str | UnsetType, Meta(description="Shown with an ask or a deny.", examples=["why not"])] = UNSET
    match: Annotated[
        list[str] | UnsetType,
        Meta(description="Examples it must match; checked when the file loads.", examples=[["git push --force"]]),
    ] = UNSET
    not_match: Annotated[
        list[str] | UnsetType,
        Meta(description="Examples it must not match; checked when the file loads.", examples=[["git push"]]),
    ] = UNSET
    sandbox: Annotated[
        bool | UnsetType,
        Meta(
            description="true: only for a command that runs confined, as [shell] says. false: it runs plainly. "
            "Absent: as [shell] says."
        ),
    ] = UNSET
    unread: Annotated[
        bool | UnsetType,
        Meta(description="Beside sandbox = true: also a line that cannot be read to the end."),
    ] = UNSET


class Wrap(Struct, forbid_unknown_fields=True):
    """How a program runs another; the keys are explained in shell/knowledge/program_options.toml."""

    skip: int = 0
    transparent: bool = False
    assigns: bool = False
    joins: bool = False
    elsewhere: bool = False
    appends: bool = False
    after: str | None = None
    script: list[str] = []
    chdir: list[str] = []
    none: list[str] = []
    replaces: list[str] = []
    stop: list[str] = []


class ProgramTable(Struct, forbid_unknown_fields=True):
    """What a user adds to what is known of one program; shell/knowledge/program_options.toml explains the keys."""

    like: str | None = None
    style: Literal["gnu", "word"] = "gnu"
    abbreviates: Literal["yes", "maybe", "no"] = "maybe"
    script: Literal["sed", "awk", "sqlite"] | None = None
    closed: bool = False
    stops: bool = False
    subcommands: bool = False
    bundle: bool = False
    assigns: bool = False
    writer: bool = False
    most: Annotated[int, Meta(ge=0)] | None = None
    values: list[str] = []
    optional: list[str] = []
    flags: list[str] = []
    executes: list[str] = []
    writes: list[str] = []
    directory: list[str] = []
    runs: list[str] = []
    ends: list[str] = []
    dry: list[str] = []
    same: list[Annotated[list[str], Meta(min_length=1)]] = []
    aliases: dict[str, str] = {}
    harmless: dict[str, list[str]] = {}
    sub: dict[str, ProgramTable] = {}
    wrap: Wrap | None = None


def _sub_like(tables: dict[str, Any]) -> str | None:
    """Return the first subcommand whose table says that it is like a program, at any depth."""
    for name, table in tables.items():
        if "like" in table:
            return name
        deeper = _sub_like(table.get("sub", {}))
        if deeper is not None:
            return f"{name} {deeper}"
    return None


def program_problem(name: str, programs: dict[str, Any], known: Container[str]) -> str | None:
    """Say what is wrong with the table of one program, or None. `known` are the programs with a table of ours."""
    try:
        convert(programs[name], ProgramTable)
    except ValidationError as error:
        return str(error)
    behind = _sub_like(programs[name].get("sub", {}))
    if behind is not None:
        return (
            f"`like` means nothing for the subcommand {quoted(behind)}: it takes over a whole program; list its options"
        )
    seen = [name]
    while (like := programs.get(seen[-1], {}).get("like")) is not None:
        if like in seen:
            return f"{quoted(name)} is like itself"
        if like not in programs:
            return None if like in known else f"there is no program {quoted(like)} to be like"
        seen.append(like)
    return None
