"""What is known of one command's words, as the rules of `core` ask for it. None is "it depends" (on run time).

Three things make it more than reading options. A subcommand or option has other names (`npm pub`, `docker container
run`): True is the same command under another name, None one that may be, such as an abbreviation; only True lets an
allow through, both hold a deny. Words may spell another command (`mywrap rm -rf src`, `tool --run='rm -rf src'`): a
program that is not known to take its words as data may be a wrapper, which counts for rules that deny or ask. And an
option may go beyond the plain use of a program (`dangers`). Start at `CommandFacts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.dangers import UNKNOWN, Danger, dangerous_options
from byleave.shell.knowledge.options import (
    canonical_flags,
    has_flag,
    module_words,
    scan,
    subcommand,
    subcommand_is_unknown,
)
from byleave.shell.knowledge.program_input import is_interpreter, takes_data
from byleave.shell.syntax.tree import Piece, Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from byleave.shell.knowledge.options import Scan
    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command


def _names(**meanings: str) -> dict[str, str]:
    """Return a table from alias to name, given the aliases of each name as one text."""
    return {alias: name.replace("_", "-") for name, aliases in meanings.items() for alias in aliases.split()}


_NPM = _names(
    install="i in ins inst insta instal isnt isnta isntal isntall add",
    uninstall="un unlink remove rm r",
    update="up upgrade udpate",
    list="ls la ll",
    test="t tst",
    run="run-script rum urn",
    exec="x",
    view="v info show",
    search="s se find",
    explain="why",
    ci="clean-install ic install-clean isntall-clean",
    config="c",
    init="create innit",
    dedupe="ddp",
    link="ln",
    owner="author",
    docs="home",
    bugs="issues",
    help="hlep",
    dist_tag="dist-tags",
    version="verison",
    adduser="add-user login",
    install_test="it",
    install_ci_test="cit clean-install-test sit",
)
ALIASES: Mapping[str, Mapping[str, str]] = {
    "npm": _NPM,
    "pnpm": {**_NPM, **_names(remove="rm un uninstall r", unlink="dislink", patch_commit="patch")},
    "yarn": _names(install="i", remove="rm uninstall", upgrade="up", exec="x", list="ls"),
    "bun": _names(add="a", install="i", remove="rm", run="r", create="c", publish="p"),
    "cargo": _names(build="b", check="c", doc="d", test="t", run="r", remove="rm"),
    "docker": _names(rmi="rmi", container="containers"),
    "helm": _names(uninstall="del delete un", list="ls", dependency="dep dependencies", history="hist", show="inspect"),
    "git": _names(add="stage", blame="annotate", init="init-db"),
    "gh": _names(codespace="cs", extension="ext extensions", attestation="at"),
    "svn": _names(commit="ci", checkout="co", delete="del remove rm", copy="cp", move="mv rename ren", switch="sw"),
    "brew": _names(uninstall="rm remove", list="ls", install="instal", update="up"),
    "dnf": _names(remove="rm erase", install="in", upgrade="up update"),
    "yum": _names(remove="rm erase", install="in", update="up upgrade"),
    "zypper": _names(install="in", remove="rm", update="up", dist_upgrade="dup"),
    "conda": _names(remove="uninstall", update="upgrade"),
    "composer": _names(install="i", update="u upgrade", require="r", remove="rm uninstall"),
    "kubectl": {},
}
_LIKE = {"podman": "docker", "nerdctl": "docker", "mamba": "conda", "micromamba": "conda", "tofu": "terraform"}
# They take the beginning of a subcommand's name for the whole.
ABBREVIATING = frozenset(
    [
        *(
            "npm",
            "hg",
            "gem",
            "bundle",
            "composer",
            "gradle",
            "gradlew",
            "ip",
            "tc",
            "bridge",
            "nmcli",
            "fossil",
            "thor",
        ),
        *("rails", "artisan", "symfony", "console", "mix", "lxc", "virsh", "az", "ip6tables", "ipset", "cryptsetup"),
    ]
)
# Groups of subcommands in which another word is the real one, and the names of some of those outside of the group.
_GROUPS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "docker": {
        "container": {"ls": "ps", "list": "ps", "remove": "rm"},
        "image": {"rm": "rmi", "remove": "rmi", "ls": "images", "list": "images"},
        "builder": {},
        "buildx": {},
        "compose": {},
    },
    "yarn": {"npm": {}, "workspace": {}, "workspaces": {}, "global": {}},
    "pnpm": {"recursive": {}, "multi": {}, "m": {}},
    "dart": {"pub": {}},
    "flutter": {"pub": {}},
    "uv": {"pip": {}, "tool": {}},
}
# Subcommands that do what another one does: (given, named).
_SAME_WORK = {
    "git": frozenset([("send-pack", "push"), ("http-push", "push"), ("fetch-pack", "fetch"), ("subtree", "push")]),
}
# What does the same as a subcommand when an option stands with it: (given, option, named).
_BY_OPTION = {
    "terraform": (("apply", "-destroy", "destroy"), ("plan", "-destroy", "destroy")),
    "kubectl": (("replace", "--force", "delete"), ("apply", "--prune", "delete")),
}
# Options that do the same together as one: program, subcommand, option.
_TOGETHER = {
    ("git", "branch", "-D"): ("-d", "-f"),
    ("git", "branch", "-M"): ("-m", "-f"),
    ("git", "branch", "-C"): ("-c", "-f"),
}


def is_alias(command: Command, programs: ProgramTables, given: str, expected: str) -> bool | None:
    """Return whether the subcommand `given` is `expected`, or another name of it; None where it may be."""
    if given == expected:
        return True
    program = _LIKE.get(command.program or "", command.program or "")
    table = programs.table(command.program or "")
    listed = table.aliases if table is not None else {}
    known = {**ALIASES.get(program, {}), **listed}
    if known.get(given, given) == known.get(expected, expected):
        return True
    if program in ABBREVIATING and _abbreviates(given, expected, known):
        return None
    later = [word.text for word in command.words[1:]]
    group = _GROUPS.get(program, {}).get(given)
    if group is not None or given.startswith("+"):  # cargo +nightly publish
        return None if any(text is None or (group or {}).get(text, text) == expected for text in later) else False
    if (given, expected) in _SAME_WORK.get(program, ()):
        return None
    for instead, option, named in _BY_OPTION.get(program, ()):
        if (instead, named) == (given, expected) and any(
            (text or option).startswith((option, f"-{option}")) for text in later
        ):
            return None
    return False


def _abbreviates(given: str, expected: str, known: Mapping[str, str]) -> bool:
    full = given.replace("_", "-").lower()
    names = [expected, *[alias for alias, name in known.items() if name == expected]]
    return bool(full) and any(name.startswith(full) or name.replace("-", "").startswith(full) for name in names)


def may_have_flag(command: Command, found: Scan, flag: str, canonical: Mapping[str, str]) -> bool:
    """Return whether other words of the command do what an option that it does not have would do."""
    program = _LIKE.get(command.program or "", command.program or "")
    if program == "git" and found.subcommand in ("push", "send-pack", "http-push"):
        return _forces(command, found, canonical.get(flag, flag), canonical)
    together = _TOGETHER.get((program, found.subcommand or "", flag))
    if together is None:
        return False
    given = frozenset(option.name for option in found.given)
    return all(canonical.get(option, option) in given for option in together)


def _forces(command: Command, found: Scan, flag: str, canonical: Mapping[str, str]) -> bool:
    """Whether a push updates by force, or deletes, by its refspecs or by an option of its own."""
    given = frozenset(option.name for option in found.given)
    refs = [command.words[index] for index in found.operands]
    if flag == canonical.get("--force", "--force"):
        forced = any(word.prefix.startswith("+") for word in refs)
        return forced or any(name.startswith(("--force", "--mirror")) for name in given)
    if flag == canonical.get("--delete", "--delete"):
        return any(word.prefix.startswith((":", "+:")) for word in refs) or not given.isdisjoint(
            ["--prune", "--mirror"]
        )
    return False


def may_be_args(command: Command, found: Scan, programs: ProgramTables, expected: tuple[str, ...]) -> bool:
    """Return whether a command may mean the same as an argument list: options in front or between, other names.

    A last `**` is anything after.
    """
    open_end = expected[-1:] == ("**",)
    literal = expected[:-1] if open_end else expected
    operands = [word for word in literal if not word.startswith("-")]
    flags = [word for word in literal if word.startswith("-")]
    words = command.words
    given = [word.text for word in words[1:] if word.text is None or not word.text.startswith("-")]
    count = len(found.operands) + (found.subcommand is not None)
    if found.subcommand is not None:  # words in front of it are values of options
        at = next((place for place, text in enumerate(given) if _means(found, text)), 0)
        given = [found.subcommand, *given[at + 1 :]]
    if not operands or (not open_end and count > len(operands)):
        return False
    if not _in_order(command, programs, given, operands):
        return False
    names = [option.name for option in found.given] + [word.text for word in words[1:]]
    table = found.table
    canonical = table.canonical if table is not None else {}
    return all(
        bool(found.unknown) or flag in names or canonical.get(flag, flag) in names
        or may_have_flag(command, found, flag, canonical)
        for flag in flags
    )  # fmt: skip


def _means(found: Scan, text: str | None) -> bool:
    """Whether a word is the subcommand that was found, or one of its listed aliases."""
    aliases = found.table.aliases if found.table is not None else {}
    return text is not None and found.subcommand in (text, aliases.get(text))


def _in_order(command: Command, programs: ProgramTables, given: list[str | None], operands: list[str]) -> bool:
    """Whether the operands stand among the given ones in their order, the first of them as the subcommand."""
    if not given:
        return False
    first = given[0]
    if first is not None and is_alias(command, programs, first, operands[0]) is False:
        return False
    at = 1
    for operand in operands[1:]:
        while at < len(given) and given[at] not in (operand, None):
            at += 1
        if at >= len(given):
            return False
        at += given[at] is not None
    return True


# What stands between words in scripts, options with values, addresses and lists of any language.
_BREAKS = str.maketrans(dict.fromkeys("|&;()<>{}[]`$%\n\t\r'\"=:,!\\", " "))
_TEXTS = frozenset(["literal", "raw", "value"])  # kinds of pieces whose text is that of the word
_LONGEST = 64  # words of a spelled command that are looked at
_UNKNOWN = Word(None, "", splits=True)
_SUFFIXES = ("-cli.js", ".js", ".exe", ".cmd", ".bat")


def tokens(command: Command, *, executes: bool) -> tuple[Word, ...]:
    """Return the words behind the program's name as a wrapper of any kind could take them apart.

    Of a word known only at run time its literal pieces count, and what the line itself puts into its variables.
    `executes`: an option of the command runs something, so that not all of its words are data.
    """
    if command.name is None:
        return ()
    given = [item.body for item in command.redirects if item.body]  # what it reads may be a script
    if command.wraps is not None:  # its children are listed by themselves; they read what is given to it
        reads = any(is_interpreter(word.text) for word in command.words[1:])
        return tuple([word for text in given for word in _split(text)]) if reads else ()
    found = _own_names(command.name)
    if takes_data(command) and not found and not executes and command.piped_to_shell is False:
        return ()
    for word in (*command.words[1:], *[Word(text, text) for text in given]):
        for form in _forms(word):
            for piece in form:
                found += _split(piece) if piece else [_UNKNOWN]
    return tuple(found)


def _forms(word: Word) -> Iterator[list[str]]:
    """Yield the texts that a word is put together from, in each of its forms; an empty one stands for the unknown."""
    if word.text is not None:
        yield [word.text]
        return
    for form in word.forms or (word.pieces or (Piece("literal", word.prefix),),):
        yield [piece.text if piece.kind in _TEXTS else "" for piece in form] + [""]


def _split(text: str) -> Iterator[Word]:
    parts = text.translate(_BREAKS).split()
    if len(parts) > 1 and text[:1] == "-" and text[1:2].isalpha() and len(parts[0]) > 2:
        parts.insert(1, parts[0][2:])  # `-c'rm -rf src'`: the text is attached to the letter
    for part in parts:
        if part != "--":
            yield Word(part, part)


def _own_names(name: str) -> list[Word]:
    """Return the words that the program's own name stands for: `git push` for `git-push`, `npm` for `npm.cmd`."""
    base = name.rpartition("/")[2]
    if base.startswith("git-"):
        return [Word("git", "git"), Word(base[4:], base[4:])]
    if base == "hub":  # git with a few commands more
        return [Word("git", "git")]
    return [Word(other, other) for other in names_of(Word(base, base))[:0:-1]]  # the shortest stands last


def names_of(word: Word) -> tuple[str, ...]:
    """Return the names of programs that a word may stand for."""
    base = (word.text or "").rpartition("/")[2]
    others = [base.removesuffix(suffix) for suffix in _SUFFIXES if base.endswith(suffix)]
    others += [base.partition("@")[0]] if "@" in base[1:] else []
    others += [base.lower()] if base != base.lower() else []  # where the file system takes both for one
    return (base, *others)


def started_as(command: Command, found: tuple[Word, ...], name: str) -> Iterator[Command]:
    """Yield the commands that begin with the program `name` among the words found."""
    for index, word in enumerate(found):
        if name in names_of(word):
            words = (Word(name, name), *found[index + 1 : index + _LONGEST])
            yield command.replace(words=words, wraps=None)


ANYTHING = "**"


class CommandFacts:
    """Answers about one command; what is slow to find out is found out once."""

    __slots__ = ("_command", "_dangers", "_flags", "_looks_inside", "_programs", "_spelled", "_subcommand", "_tokens")

    def __init__(self, command: Command, programs: ProgramTables, *, looks_inside: bool = True) -> None:
        self._command = command
        self._programs = programs
        self._dangers: tuple[Danger, ...] | None = None
        self._flags: dict[str, bool | None] = {}
        self._subcommand: tuple[str | None, bool] | None = None
        self._looks_inside = looks_inside
        self._tokens: tuple[Word, ...] = ()
        self._spelled: frozenset[str] | None = None

    @property
    def texts(self) -> tuple[str | None, ...]:
        """Its words, the program first; None for one that is known only at run time."""
        return tuple([word.text for word in self._command.words])

    @property
    def spelled(self) -> frozenset[str]:
        """The names of programs that its words hold, where it may be a wrapper that starts one of them."""
        if self._spelled is None:
            if self._looks_inside:
                self._tokens = tokens(self._command, executes=self.uncovered((), ()) is not None)
            self._spelled = frozenset(name for word in self._tokens for name in names_of(word))
        return self._spelled

    def started_as(self, name: str) -> Iterator[CommandFacts]:
        """Yield what is known of the commands that its words spell from a program's name on."""
        for command in started_as(self._command, self._tokens, name):
            yield CommandFacts(command, self._programs, looks_inside=False)

    def is_subcommand(self, expected: str) -> bool | None:
        """Whether the subcommand is `expected`, or one is an alias of the other."""
        if self._subcommand is None:
            unknown = subcommand_is_unknown(self._command, self._programs)
            self._subcommand = subcommand(self._command, self._programs), unknown
        given, unknown = self._subcommand
        if unknown:
            return None if self._may_be_subcommand(expected) else False
        if given is None:
            return False
        answer = is_alias(self._command, self._programs, given, expected)
        return None if answer is False and self._may_follow(given, expected) else answer

    def _may_follow(self, given: str, expected: str) -> bool:
        """Whether `given` may be the value of an option in front that is not known, and `expected` the subcommand."""
        texts = [word.text for word in self._command.words]
        place = texts.index(given) if given in texts else len(texts)
        unknown = [option for option in scan(self._command, self._programs).given if not option.known]
        if not any(option.index < place for option in unknown):
            return False
        return any(
            text is None or is_alias(self._command, self._programs, text, expected) is not False
            for text in texts[place + 1 :]
            if text is None or not text.startswith("-")
        )

    def _may_be_subcommand(self, expected: str) -> bool:
        """Whether some word is the subcommand, or could become it at run time."""
        return any(
            word.text is None or is_alias(self._command, self._programs, word.text, expected) is not False
            for word in self._command.words[1:]
        )

    def asks_for_version(self) -> bool:
        """Whether the command is `PROGRAM --version` or `PROGRAM --help` and no more, as the program spells it."""
        words = self._command.words
        table = self._programs.table(self._command.program or "") if len(words) == 2 else None
        if table is None:
            return False
        canonical = table.canonical
        name = canonical.get(words[1].text or "")
        return name is not None and name in (canonical.get("--version"), canonical.get("--help"))

    def has_flag(self, flag: str) -> bool | None:
        """Whether a flag is given, in any of its spellings."""
        if flag not in self._flags:
            given = has_flag(self._command, flag, self._programs)
            if given is False:
                found = scan(self._command, self._programs)
                canonical = found.table.canonical if found.table is not None else {}
                given = None if may_have_flag(self._command, found, flag, canonical) else False
            self._flags[flag] = given
        return self._flags[flag]

    def has_operands(self, *, most: int, behind: bool) -> bool | None:
        """Whether there are at most so many words that are no options; `behind` a subcommand, without that one."""
        found = scan(self._command, self._programs)
        counted = found.operands[1:] if behind and found.subcommand is None else found.operands
        certain = [index for index in counted if not self._command.words[index].many]
        if len(certain) > most:
            return False
        depends = len(certain) < len(counted) or found.unknown or found.subcommand_unknown or found.doubtful
        return None if depends else True

    def args_match(self, expected: tuple[str, ...]) -> bool | None:
        """Whether the words after the program are exactly these, a last `**` being anything after."""
        words = self._command.words[1:]
        open_end = expected[-1:] == (ANYTHING,)
        literal = expected[:-1] if open_end else expected
        for number, text in enumerate(literal):
            if number >= len(words):
                return False
            word = words[number]
            if word.many:
                return None  # from here on it is open which word stands where
            if word.text is None:
                return None if text.startswith(word.prefix) else False
            if word.text != text:
                return False
        if open_end or len(words) == len(literal):
            return True
        return None if all(word.many for word in words[len(literal) :]) else False

    def may_be_args(self, expected: tuple[str, ...]) -> bool:
        """Whether options in front or between, or another name, make the words mean the same as these."""
        return may_be_args(self._command, scan(self._command, self._programs), self._programs, expected)

    def uncovered(self, flags: tuple[str, ...], args: tuple[str, ...]) -> str | None:
        """Return an option that executes or writes and that a rule with these flags and arguments does not name."""
        if self._dangers is None:
            self._dangers = _dangers(self._command, self._programs)
        if not self._dangers:
            return None
        named = frozenset(name for flag in flags for name in canonical_flags(self._command, flag, self._programs))
        spelled = len(args) - (args[-1:] == (ANYTHING,))
        for danger in self._dangers:
            if danger.kind == UNKNOWN:
                return "a word known only at run time, which could be an option that executes or writes"
            if danger.option not in named and danger.index > spelled:
                return danger.option
        return None


def _dangers(command: Command, programs: ProgramTables) -> tuple[Danger, ...]:
    found = dangerous_options(command, programs)
    module = module_words(command)
    if not module:
        return found
    inner = dangerous_options(command.replace(words=module), programs)  # `python -m pytest` takes the options of pytest
    before = len(command.words) - len(module)
    return (*found, *[danger.replace(index=danger.index + before) for danger in inner])
