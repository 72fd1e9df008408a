"""What is known of programs: their options, what runs or writes, what wraps another command.

The source is `program_options.toml`; `generate_program_options` writes `program_options_table.py` from it, because
reading TOML takes longer than the interpreter takes to start. Users add programs with `ProgramTables.extended`.

Option tables have a compact notation, one word an option:

    -n,--max-count=    two spellings of an option with a value     --color[=]   a value that can only be attached
    -W*                the value is the rest of the word           -I+          the rest of the word, or the next word
    -#                 a number, as in `tail -5`                   !--exec=     known, and not harmless
    --                 what follows is harmless behind `--`, where the words go to another program
    -o=>  -f=<  -p=!   the value is a file that is written, read, executed; `=>/` and `=</`: a directory
    --tb=short|long    only these values are harmless              -c=~config   only values that `values` calls harmless

Words that begin with a colon set the table itself: `:word`, `:stops`, `:exact` (no abbreviations), `:subs` (it has
subcommands), `:safe` (no option of the program executes or writes), `:open` (what is not listed is an operand), `:at`
(operands may begin with `@`), `:slash` (an operand that begins with `/` is an option), `:inside` (operands stay below
the working directory), `:twodash` (`--name` is `-name`), `:letters` (in `-ab` every letter is an option, `a` as well if
it has a value), `:inorder` (the same, and the values are the words that follow, in order), `:shell` (words become text
of a shell's command).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from byleave.record import Record
from byleave.shell.knowledge.harmless import options_of
from byleave.shell.knowledge.program_options_table import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.shell.syntax.tree import Word

T = TypeVar("T")


IN_ORDER = "in order"  # how values of several letters in one word are found
FILES = {">": "write", "<": "read", "!": "exec", ">/": "write_dir", "</": "read_dir"}
SETTINGS: Mapping[str, tuple[str, Any]] = {
    ":word": ("style", "word"),
    ":stops": ("stops", True),
    ":exact": ("abbreviates", "no"),
    ":subs": ("subcommands", True),
    ":safe": ("safe", True),
    ":open": ("closed", False),
    ":at": ("at", True),
    ":slash": ("slash", True),
    ":inside": ("inside", True),
    ":twodash": ("twodash", True),
    ":letters": ("letters", "flags"),
    ":inorder": ("letters", IN_ORDER),
    ":shell": ("shell", True),
}


class OptionNotation(Record):
    """What one text of the notation says. Names are the first spelling of each option."""

    settings: Mapping[str, Any]
    groups: tuple[tuple[str, ...], ...]
    values: frozenset[str]
    optional: frozenset[str]
    joined: frozenset[str]
    refused: frozenset[str]
    files: Mapping[str, str]
    checks: Mapping[str, str]
    passed: str | None


def read_spec(text: str) -> OptionNotation:
    """Return the options that a text of the notation lists."""
    text, dashes, passed = " ".join(["", *text.split(), ""]).partition(" -- ")
    settings: dict[str, Any] = {}
    groups: list[tuple[str, ...]] = []
    kinds: dict[str, set[str]] = {"=": set(), "[": set(), "*": set(), "!": set()}
    files: dict[str, str] = {}
    checks: dict[str, str] = {}
    words = text.split()
    for word in words:
        if word[0] == ":":
            key, value = SETTINGS[word]
            settings[key] = value
    twodash = settings.pop("twodash", False)
    for word in words:
        if word[0] == ":":
            continue
        names, kind, rest = _parts(word.removeprefix("!"))
        first = names[0]
        groups.append((*names, *[f"-{name}" for name in names if name[1] != "-"]) if twodash else names)
        if kind in "=[+":
            kinds["[" if kind == "[" else "="].add(first)
        if kind in "*+":
            kinds["*"].add(first)
        if rest in FILES:
            files[first] = FILES[rest]
        elif rest:
            checks[first] = rest
        if word[0] == "!":
            kinds["!"].add(first)
    return OptionNotation(
        settings,
        tuple(groups),
        frozenset(kinds["="]),
        frozenset(kinds["["]),
        frozenset(kinds["*"]),
        frozenset(kinds["!"]),
        files,
        checks,
        passed if dashes else None,
    )


def _parts(word: str) -> tuple[tuple[str, ...], str, str]:
    """Return the spellings, the sign behind them (`=`, `[`, `*`, `+` or none) and what stands behind that."""
    ends = [place for sign in "=[*+" if (place := word.find(sign, 1)) > 0]
    if not ends:
        return tuple(word.split(",")), " ", ""
    end = min(ends)
    kind, rest = word[end], word[end + 1 :]
    if kind == "[":
        rest = rest.strip("=]")
    return tuple(word[:end].split(",")), kind, rest


KEYS = frozenset(
    [
        "like",
        "style",
        "stops",
        "abbreviates",
        "values",
        "optional",
        "flags",
        "same",
        "executes",
        "writes",
        "subcommands",
        "aliases",
        "sub",
        "wrap",
        "directory",
        "script",
        "runs",
        "most",
        "bundle",
        "assigns",
        "writer",
        "harmless",
        "options",
        "closed",
        "dry",
        "ends",
    ]
)
WRAP_KEYS = frozenset(
    [
        "skip",
        "transparent",
        "assigns",
        "joins",
        "script",
        "elsewhere",
        "appends",
        "after",
        "chdir",
        "none",
        "replaces",
        "stop",
        "again",
    ]
)


class ProgramFacts(Record):
    """One program's table. `canonical` maps every spelling of a listed option to the first of its group.

    `style`: `gnu` joins letters, `word` has options of one word such as `-name`. `stops`: options end at the first
    operand. `abbreviates`: `yes` (and every long option is listed), `maybe`, `no`. `executes` and `writes`: options
    that run another program or write a file; with a value in `harmless` they do not. `runs`: beginnings of operands
    that do. `most`: more operands than this write. `dry`: options with which a program that writes by nature does not.
    `ends`: options behind which all words are operands. `bundle`: the first word holds letters of options even without
    a dash. `assigns`: operands `NAME=value` reach a shell. `script`: the language of the first operand.

    `closed`: an option that is not known to be harmless goes beyond the program's plain use. The harmless ones are
    `covered` (None: all that are listed), with the values that `checks` accepts. `joined`: options whose value is the
    rest of their word. `letters`: letters behind one that has a value are options, too; `in order`: and the values are
    the words that follow. `shell`: the program puts its words into a command of a shell. `files`: options whose value
    names a file, and what happens to it. `safe`: no option at all executes or writes. `at`, `slash`: operands may begin
    with `@`; one with a slash is an option. `inside`: operands are names of files below the working directory.
    `passed`: the table for words behind `--`, where these go to another program.
    """

    name: str
    style: str
    stops: bool
    abbreviates: str
    canonical: Mapping[str, str]
    values: frozenset[str]
    optional: frozenset[str]
    executes: frozenset[str]
    writes: frozenset[str]
    directory: frozenset[str]
    runs: tuple[str, ...]
    script: str | None
    most: int | None
    writer: bool
    dry: frozenset[str]
    ends: frozenset[str]
    bundle: bool
    assigns: bool
    harmless: Mapping[str, tuple[str, ...]]
    closed: bool
    covered: frozenset[str] | None
    checks: Mapping[str, str]
    joined: tuple[str, ...]
    files: Mapping[str, str]
    safe: bool
    at: bool
    slash: bool
    inside: bool
    letters: str
    shell: bool
    passed: ProgramFacts | None
    subcommands: bool
    known_subcommands: bool
    aliases: Mapping[str, str]
    sub: Mapping[str, Any]
    wrap: Mapping[str, Any] | None
    wrapping: frozenset[str]
    behind: dict[str, ProgramFacts]

    def may_wrap(self, words: tuple[Word, ...]) -> bool:
        """Return whether a command with these words can be a wrapper; a quick look before sorting them."""
        if self.wrap is not None:
            return True
        return bool(self.wrapping) and any(word.text is None or word.text in self.wrapping for word in words)

    def with_subcommand(self, name: str) -> ProgramFacts:
        """Return the table for words behind the subcommand: its own options, then the global ones."""
        found = self.behind.get(name)
        if found is None:
            raw = self.sub.get(name)
            key = name if raw is not None else ""  # all subcommands without a table of their own share one
            if raw is None and "" in self.behind:
                return self.behind[""]
            given = {"style": self.style, "abbreviates": self.abbreviates, **(raw or {})}
            found = self.behind[key] = _behind(self, _compiled(f"{self.name} {key}".rstrip(), given))
        return found


class ProgramTables:
    """The tables of all known programs, compiled as they are asked for."""

    __slots__ = ("_compiled", "raw")

    def __init__(self, raw: Mapping[str, Mapping[str, Any]]) -> None:
        self.raw = raw
        self._compiled: dict[str, ProgramFacts] = {}

    def table(self, name: str) -> ProgramFacts | None:
        """Return what is known of a program, by its name without directory."""
        found = self._compiled.get(name)
        if found is None:
            raw = self._source(name)
            if raw is None:
                return None
            found = self._compiled[name] = _compiled(name, raw)
        return found

    def is_plain(self, name: str) -> bool:
        """Return whether a program wraps nothing and changes no directory, as far as is known."""
        raw = self.raw.get(name)
        return raw is None or NOT_PLAIN.isdisjoint(raw)  # the harmless options say nothing of that

    def extended(self, raw: Mapping[str, Mapping[str, Any]]) -> ProgramTables:
        """Return these tables with more programs, or more about known ones: lists are joined, other keys replaced.

        Raises ValueError for a key that means nothing here, with its name.
        """
        tables = {name: dict(table) for name, table in self.raw.items()}
        for name, table in raw.items():
            check_keys(name, table)
            known = tables.get(name) or ({} if options_of(name) else {"closed": False})
            tables[name] = _combined(known, _with_known(table))
        return ProgramTables(tables)

    def __contains__(self, name: object) -> bool:
        return name in self.raw or (isinstance(name, str) and options_of(name) is not None)

    def _source(self, name: str) -> Mapping[str, Any] | None:
        """Return the written table of a program, with the options that are harmless, and with what it is like."""
        raw, options = self.raw.get(name), options_of(name)
        if raw is None and options is None:
            return None
        made = dict(raw or {})
        if "like" in made:
            made = {**(self._source(made.pop("like")) or {}), **made}
        for behind, spec in (options or {}).items():
            table = made
            for subcommand in behind.split():
                tables = table["sub"] = dict(table.get("sub", {}))
                table = tables[subcommand] = dict(tables.get(subcommand, {}))
            table["options"] = spec
        return made


NOT_PLAIN = frozenset(["wrap", "sub", "directory", "like"])


def check_keys(name: str, table: Mapping[str, Any]) -> None:
    """Refuse a table with a key that means nothing here."""
    unknown = [key for key in table if key not in KEYS]
    unknown += [f"wrap.{key}" for key in table.get("wrap", {}) if key not in WRAP_KEYS]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} for the program {name!r}")
    for subcommand, behind in table.get("sub", {}).items():
        check_keys(f"{name} {subcommand}", behind)


def _with_known(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user's table with the options that it lists as harmless ones, for a program that has a table of ours."""
    listed = [option for key in ("flags", "values", "optional") for option in table.get(key, ())]
    behind = {name: _with_known(each) for name, each in table.get("sub", {}).items()}
    return {**table, "known": listed, **({"sub": behind} if behind else {})}


def _combined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(old)
    for key, value in new.items():
        if isinstance(value, list):
            made[key] = [*old.get(key, []), *value]
        elif key == "sub":
            tables = old.get(key, {})
            made[key] = {**tables, **{name: _combined(tables.get(name, {}), table) for name, table in value.items()}}
        elif isinstance(value, dict):
            made[key] = {**old.get(key, {}), **value}
        else:
            made[key] = value
    return made


def _compiled(name: str, raw: Mapping[str, Any]) -> ProgramFacts:
    canonical: dict[str, str] = {}
    for group in raw.get("same", ()):
        for spelling in group:
            canonical[spelling] = group[0]
    for key in ("values", "optional", "flags", "executes", "writes", "directory"):
        for option in raw.get(key, ()):
            canonical.setdefault(option, option)
    spec = read_spec(raw.get("options", ""))
    raw = {**raw, **spec.settings}
    named = {group[0]: _name_of(group, canonical) for group in spec.groups}

    def options(*keys: str) -> frozenset[str]:
        return frozenset([canonical[option] for key in keys for option in raw.get(key, ())])

    def listed(*parts: frozenset[str]) -> frozenset[str]:
        return frozenset([named[option] for part in parts for option in part])

    dangerous = options("executes", "writes")
    files = {named[option]: use for option, use in spec.files.items()}
    refused = listed(spec.refused)
    writes = frozenset([option for option in refused if files.get(option, "").startswith("write")])
    return ProgramFacts(
        name=name,
        style=raw.get("style", "gnu"),
        stops=raw.get("stops", False),
        abbreviates=raw.get("abbreviates", "maybe"),
        canonical=canonical,
        values=options("values", "directory") | listed(spec.values),
        optional=options("optional") | listed(spec.optional),
        executes=options("executes") | (refused - writes - options("writes")),
        writes=options("writes") | writes,
        directory=options("directory"),
        runs=tuple(raw.get("runs", ())),
        script=raw.get("script"),
        most=raw.get("most"),
        writer=raw.get("writer", False),
        dry=frozenset([canonical.get(option, option) for option in raw.get("dry", ())]),
        ends=frozenset([canonical.get(option, option) for option in raw.get("ends", ())]),
        bundle=raw.get("bundle", False),
        assigns=raw.get("assigns", False),
        harmless={canonical.get(option, option): tuple(values) for option, values in raw.get("harmless", {}).items()},
        closed=raw.get("closed", True),
        covered=(frozenset(named.values()) | options("known")) - refused - dangerous if "options" in raw else None,
        checks={named[option]: check for option, check in spec.checks.items()},
        joined=tuple(sorted(listed(spec.joined), key=len, reverse=True)),
        files=files,
        safe=raw.get("safe", False),
        at=raw.get("at", False),
        slash=raw.get("slash", False),
        inside=raw.get("inside", False),
        letters=raw.get("letters", ""),
        shell=raw.get("shell", False),
        passed=None if spec.passed is None else _compiled(f"{name} --", {"options": spec.passed}),
        subcommands=raw.get("subcommands", "sub" in raw),
        known_subcommands="sub" in raw or raw.get("subcommands", False),
        aliases=raw.get("aliases", {}),
        sub=raw.get("sub", {}),
        wrap=raw.get("wrap"),
        wrapping=_wrapping(raw),
        behind={},
    )


def _name_of(group: tuple[str, ...], canonical: dict[str, str]) -> str:
    """Return the name of an option that a spec lists, and note its spellings."""
    name = next((canonical[spelling] for spelling in group if spelling in canonical), group[0])
    for spelling in group:
        canonical[spelling] = name
    return name


def _wrapping(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the subcommands that run another command."""
    names = [name for name, table in raw.get("sub", {}).items() if "wrap" in table or "sub" in table]
    return frozenset(names + [alias for alias, name in raw.get("aliases", {}).items() if name in names])


def _behind(outer: ProgramFacts, own: ProgramFacts) -> ProgramFacts:
    return ProgramFacts(
        name=own.name,
        style=own.style,
        stops=own.stops,
        abbreviates=own.abbreviates,
        canonical={**outer.canonical, **own.canonical} if not own.stops else own.canonical,
        values=own.values | (outer.values - frozenset(own.canonical)),
        optional=own.optional | (outer.optional - frozenset(own.canonical)),
        executes=own.executes | (outer.executes - frozenset(own.canonical)),
        writes=own.writes | (outer.writes - frozenset(own.canonical)),
        directory=own.directory | (outer.directory - frozenset(own.canonical)),
        runs=own.runs + outer.runs,
        script=own.script,
        most=own.most,
        writer=own.writer or outer.writer,
        dry=own.dry | outer.dry,
        ends=own.ends,
        bundle=False,
        assigns=own.assigns or outer.assigns,
        harmless={**_not_of(own, outer.harmless), **own.harmless},
        closed=outer.closed,
        covered=_both_covered(outer, own),
        checks={**_not_of(own, outer.checks), **own.checks},
        joined=tuple(sorted({*outer.joined, *own.joined}, key=len, reverse=True)),
        files={**_not_of(own, outer.files), **own.files},
        safe=own.safe or outer.safe,
        at=own.at or outer.at,
        slash=own.slash or outer.slash,
        inside=own.inside or outer.inside,
        letters=own.letters or outer.letters,
        shell=own.shell or outer.shell,
        passed=own.passed or outer.passed,
        subcommands=own.subcommands,
        known_subcommands=True,
        aliases=own.aliases,
        sub=own.sub,
        wrap=own.wrap,
        wrapping=own.wrapping,
        behind={},
    )


def _not_of(own: ProgramFacts, given: Mapping[str, T]) -> dict[str, T]:
    """Return what is said of global options that the subcommand does not use otherwise."""
    return {option: value for option, value in given.items() if option not in own.canonical}


def _both_covered(outer: ProgramFacts, own: ProgramFacts) -> frozenset[str] | None:
    """Return the harmless options behind a subcommand: its own and the global ones that it does not use otherwise."""
    if outer.covered is None and own.covered is None:
        return None
    inner = own.covered if own.covered is not None else frozenset(own.canonical.values()) - own.executes - own.writes
    if own.stops:
        return inner
    outside = outer.covered if outer.covered is not None else frozenset(outer.canonical.values())
    return inner | (outside - frozenset(own.canonical))


BUILT_IN = ProgramTables(PROGRAMS)
