"""Other names of subcommands and options, for rules that name one of them: `npm pub`, `docker container run`.

True is the same command under another name. None is one that may be: an abbreviation, a group of subcommands, a
plumbing command that does the same. Only True lets an allow through; both hold a deny.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from byleave.shell.knowledge.options import Scan
    from byleave.shell.knowledge.programs import ProgramTables
    from byleave.shell.model import Command


def _names(**meanings: str) -> "dict[str, str]":
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
ALIASES: "Mapping[str, Mapping[str, str]]" = {
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
_GROUPS: "Mapping[str, Mapping[str, Mapping[str, str]]]" = {
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


def is_alias(command: "Command", programs: "ProgramTables", given: str, expected: str) -> bool | None:
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


def _abbreviates(given: str, expected: str, known: "Mapping[str, str]") -> bool:
    full = given.replace("_", "-").lower()
    names = [expected, *[alias for alias, name in known.items() if name == expected]]
    return bool(full) and any(name.startswith(full) or name.replace("-", "").startswith(full) for name in names)


def may_have_flag(command: "Command", found: "Scan", flag: str, canonical: "Mapping[str, str]") -> bool:
    """Return whether other words of the command do what an option that it does not have would do."""
    program = _LIKE.get(command.program or "", command.program or "")
    if program == "git" and found.subcommand in ("push", "send-pack", "http-push"):
        return _forces(command, found, canonical.get(flag, flag), canonical)
    together = _TOGETHER.get((program, found.subcommand or "", flag))
    if together is None:
        return False
    given = frozenset(option.name for option in found.given)
    return all(canonical.get(option, option) in given for option in together)


def _forces(command: "Command", found: "Scan", flag: str, canonical: "Mapping[str, str]") -> bool:
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


def may_be_args(command: "Command", found: "Scan", programs: "ProgramTables", expected: tuple[str, ...]) -> bool:
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


def _means(found: "Scan", text: str | None) -> bool:
    """Whether a word is the subcommand that was found, or one of its listed aliases."""
    aliases = found.table.aliases if found.table is not None else {}
    return text is not None and found.subcommand in (text, aliases.get(text))


def _in_order(command: "Command", programs: "ProgramTables", given: "list[str | None]", operands: list[str]) -> bool:
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
