"""What is said of one file that a command names, clause by clause: whether it is listed, and what stands against it."""

from pathlib import Path
from typing import Any

import pytest

import byleave
from byleave.core.command_files import TouchedFile, check_files
from byleave.core.decision import ALLOW
from byleave.core.fs_rules import FsTarget, RefusedPath
from byleave.core.match_context import MatchPart, NamedFile
from byleave.core.matchers import All, AnyOf, CommandMatcher, Matcher, OperationMatcher
from byleave.core.protected import Protected, builtin_places
from byleave.core.rules import CompiledRule
from fakes.known_commands import Known

Rules = list[dict[str, Any]]
PROTECTED = Protected(builtin_places(), ["/home/u/.byleave"])
NOTHING: Rules = []
READS: Rules = [{"deny": {"path": "secret/**", "ops": ["read"]}}]
CREATES: Rules = [{"deny": {"path": "secret/**", "ops": ["create"]}}]
RUNS: Rules = [{"ask": {"path": "secret/**", "ops": ["exec"]}}]
ALL: Rules = [{"deny": {"path": "secret/**"}, "why": "it is secret"}, {"deny": {"path": ".zshrc"}}]
NAMED: Rules = [{"allow": {"path": ".vscode/**"}}, {"allow": {"path": ".i*/**"}}, {"deny": {"path": ".zed/**"}}]
SPELLED = CommandMatcher(("rm",), args=("-r", "x"))
OPEN = CommandMatcher(("rm",), args=("-r", "**"))
PLAIN = CommandMatcher(("rm",))


def inside(path: str, *, exists: bool = True, directory: bool = False) -> FsTarget:
    return FsTarget(f"/ws/{path}".rstrip("/"), path, exists=exists, directory=directory)


def of(op: str, place: FsTarget | RefusedPath | None, text: str = "a-b", **more: Any) -> NamedFile:
    return NamedFile(text, op, place, **more)


NONE, ODD = None, RefusedPath("denied", "it is odd")
SECRET, NEW = inside("secret/x"), inside("secret/new", exists=False)
HOOK, RC = inside(".git/hooks/x"), inside(".bashrc", exists=False)
OWN, GIT, SRC = inside("byleave.toml"), inside(".git", directory=True), inside("src", directory=True)

# Its name, the rules, the file, what allows the command; which files are listed; what stands against it, by which rule.
ROWS: list[tuple[str, Rules, NamedFile, Matcher | None, list[str], list[str]]] = [
    (
        "a read of what is not known",
        READS,
        of("read", NONE),
        None,
        [],
        ["soft ask: the file it reads is known only at run time", "names of what is read, known only at run time"],
    ),
    ("one that no rule is about", CREATES, of("read", NONE), None, [], []),
    ("one of what may be no file", READS, of("read", NONE, perhaps=True), None, [], []),
    (
        "a write of what is not known",
        NOTHING,
        of("write", NONE),
        None,
        [],
        ["soft ask: the file it writes is known only at run time", "names known only at run time"],
    ),
    (
        "a delete of what is not known",
        NOTHING,
        of("delete", NONE),
        None,
        [],
        ["soft ask: the file it deletes is known only at run time", "names known only at run time"],
    ),
    (
        "a run of what is not known",
        RUNS,
        of("exec", NONE),
        None,
        [],
        ["soft ask: the file it runs is known only at run time", "names of what is read, known only at run time"],
    ),
    ("a run that no rule is about", READS, of("exec", NONE), None, [], []),
    (
        "a read of an odd name",
        READS,
        of("read", ODD),
        None,
        [],
        ['ask: it reads "a-b": it is odd', "names known only at run time"],
    ),
    (
        "a write to an odd name",
        NOTHING,
        of("write", ODD),
        None,
        [],
        ['ask: it writes "a-b": it is odd', "names known only at run time"],
    ),
    ("a read", ALL, of("read", inside("x")), None, ["read x: None"], []),
    (
        "a read of a closed file",
        ALL,
        of("read", SECRET),
        None,
        ["read secret/x: deny"],
        ['deny: it reads "secret/x": it is secret (rule `deny path secret/**`)', "deny path secret/**"],
    ),
    (
        "a write to a closed file",
        ALL,
        of("write", SECRET),
        None,
        ["update secret/x: deny"],
        ['deny: it changes "secret/x": it is secret (rule `deny path secret/**`)', "deny path secret/**"],
    ),
    (
        "a new closed file",
        ALL,
        of("write", NEW),
        None,
        ["create secret/new: deny"],
        ['deny: it makes "secret/new": it is secret (rule `deny path secret/**`)', "deny path secret/**"],
    ),
    (
        "a closed file that is perhaps none",
        ALL,
        of("read", SECRET, perhaps=True),
        None,
        ["read secret/x: deny"],
        ['deny: it reads "secret/x": it is secret (rule `deny path secret/**`)', "deny path secret/**"],
    ),
    ("a missing file that is perhaps none", ALL, of("read", NEW, perhaps=True), None, [], []),
    ("an open file that is perhaps none", ALL, of("read", inside("x"), perhaps=True), None, [], []),
    (
        "a likely new file",
        ALL,
        of("write", NEW, perhaps=True, likely=True),
        None,
        ["create secret/new: deny"],
        ['deny: it makes "secret/new": it is secret (rule `deny path secret/**`)', "deny path secret/**"],
    ),
    ("an unlikely new file", ALL, of("write", NEW, perhaps=True), None, [], []),
    ("an unlikely read of a likely file", ALL, of("read", NEW, perhaps=True, likely=True), None, [], []),
    (
        "an unlikely new file in a protected place",
        ALL,
        of("write", RC, ".bashrc", perhaps=True),
        None,
        ["create .bashrc: ask"],
        ["ask: it writes .bashrc, which is protected", "protected place .bashrc"],
    ),
    ("one that is a plain word", ALL, of("write", RC, "bashrc", perhaps=True), None, [], []),
    (
        "one that a rule closes, too",
        ALL,
        of("write", inside(".zshrc", exists=False), perhaps=True),
        None,
        ["create .zshrc: ask"],
        ["ask: it writes .zshrc, which is protected", "protected place .zshrc"],
    ),
    (
        "a tree with closed places",
        ALL,
        of("read", SRC, tree=True, covered=("a", "b")),
        None,
        ["read src: None"],
        ['soft ask: it reads everything in "src", also "a" and "b"', "closed places below src"],
    ),
    (
        "a tree that is too large",
        ALL,
        of("read", SRC, tree=True, complete=False),
        None,
        ["read src: None"],
        [
            'soft ask: it reads everything in "src", which holds too many files to look through',
            "closed places below src",
        ],
    ),
    (
        "all of the workspace",
        NOTHING,
        of("delete", inside("", directory=True), whole=True),
        None,
        ["delete .: ask"],
        ['ask: it removes "." and with it the whole workspace', "places above the workspace"],
    ),
    (
        "files of some kinds, one of them protected",
        NOTHING,
        of("write", SRC, kinds=("py",), guarded="src/.x"),
        None,
        ["update src: None"],
        ['soft ask: it changes files in "src", also "src/.x", which is protected', "protected place src/.x"],
    ),
    ("files of some kinds", NOTHING, of("write", GIT, tree=True, kinds=("py",)), None, ["update .git: None"], []),
    (
        "files of some kinds in a protected place",
        NOTHING,
        of("write", HOOK, kinds=("py",)),
        None,
        ["update .git/hooks/x: ask"],
        ["ask: it writes .git/hooks, which is protected", "protected place .git/hooks"],
    ),
    (
        "a directory with a guarded file",
        NOTHING,
        of("delete", SRC, gone=True, guarded="src/own"),
        None,
        ["delete src: None"],
        ['soft deny: it removes "src" and with it "src/own", which is protected', "protected place src/own"],
    ),
    (
        "a protected one with a guarded file",
        NOTHING,
        of("delete", HOOK, guarded="own"),
        None,
        ["delete .git/hooks/x: deny"],
        ['deny: it removes ".git/hooks/x" and with it "own", which is protected', "protected place own"],
    ),
    (
        "a guarded one with a guarded file",
        NOTHING,
        of("delete", OWN, guarded="own"),
        None,
        ["delete byleave.toml: deny"],
        ["deny: it writes byleave.toml, which is protected", "protected place byleave.toml"],
    ),
    (
        "a guarded file",
        NOTHING,
        of("write", OWN),
        SPELLED,
        ["update byleave.toml: deny"],
        ["deny: it writes byleave.toml, which is protected", "protected place byleave.toml"],
    ),
    ("a guarded file that is read", NOTHING, of("read", OWN), None, ["read byleave.toml: None"], []),
    (
        "a protected file",
        NOTHING,
        of("write", HOOK),
        None,
        ["update .git/hooks/x: ask"],
        ["ask: it writes .git/hooks, which is protected", "protected place .git/hooks"],
    ),
    ("one in a command that is spelled out", NOTHING, of("write", HOOK), SPELLED, ["update .git/hooks/x: None"], []),
    (
        "one in a command that is left open",
        NOTHING,
        of("write", HOOK),
        OPEN,
        ["update .git/hooks/x: ask"],
        ["ask: it writes .git/hooks, which is protected", "protected place .git/hooks"],
    ),
    (
        "one in a command by its program",
        NOTHING,
        of("write", HOOK),
        PLAIN,
        ["update .git/hooks/x: ask"],
        ["ask: it writes .git/hooks, which is protected", "protected place .git/hooks"],
    ),
    (
        "one in one of two commands, spelled out",
        NOTHING,
        of("write", HOOK),
        AnyOf((SPELLED, OPEN)),
        ["update .git/hooks/x: None"],
        [],
    ),
    (
        "one in a command of an operation, or another",
        NOTHING,
        of("write", HOOK),
        AnyOf((All((OperationMatcher(("execute",)), SPELLED)), PLAIN)),
        ["update .git/hooks/x: None"],
        [],
    ),
    (
        "one in a command of an operation",
        NOTHING,
        of("write", HOOK),
        All((OperationMatcher(("execute",)), SPELLED)),
        ["update .git/hooks/x: None"],
        [],
    ),
    (
        "a protected file that a rule names",
        NAMED,
        of("write", inside(".vscode/x")),
        None,
        ["update .vscode/x: allow"],
        [],
    ),
    (
        "one that a rule only reaches",
        NAMED,
        of("write", inside(".idea/x")),
        None,
        ["update .idea/x: ask"],
        ["ask: it writes .idea, which is protected", "protected place .idea"],
    ),
    (
        "one that a rule names to deny it",
        NAMED,
        of("write", inside(".zed/x")),
        None,
        ["update .zed/x: deny"],
        [
            'deny: it changes ".zed/x" (rule `deny path .zed/**`)',
            "deny path .zed/**",
            "ask: it writes .zed, which is protected",
            "protected place .zed",
        ],
    ),
    (
        "a directory above a protected place",
        NOTHING,
        of("delete", GIT),
        None,
        ["delete .git: None"],
        ['soft ask: it deletes everything in ".git": .git/config there is protected', "protected place .git/config"],
    ),
    (
        "one whose files are all written",
        NOTHING,
        of("write", GIT, tree=True),
        None,
        ["update .git: None"],
        ['soft ask: it changes everything in ".git": .git/config there is protected', "protected place .git/config"],
    ),
    ("one that is only written itself", NOTHING, of("write", GIT), None, ["update .git: None"], []),
    ("one that is perhaps none", NOTHING, of("delete", GIT, perhaps=True), None, [], []),
    ("one in a command that is spelled out, too", NOTHING, of("delete", GIT), SPELLED, ["delete .git: None"], []),
    (
        "one in a command by its program, too",
        NOTHING,
        of("delete", GIT),
        PLAIN,
        ["delete .git: None"],
        ['soft ask: it deletes everything in ".git": .git/config there is protected', "protected place .git/config"],
    ),
    (
        "a place outside",
        NOTHING,
        of("write", FsTarget("/home/u/.byleave/x", None)),
        None,
        ["update /home/u/.byleave/x: deny"],
        ["deny: it writes .byleave, which is protected", "protected place .byleave"],
    ),
]


def checked(rules: Rules, allowing: Matcher | None, root: str, *files: NamedFile) -> TouchedFile:
    (table,) = byleave.compile_policy({"rules": rules}, root=root).compiled.policy.rule_tables()
    part = MatchPart("rm", "rm", Known(texts=("rm",), exact=True), (), files=files)
    rule = None if allowing is None else CompiledRule(ALLOW, allowing)
    return check_files(part, table, PROTECTED, None, allowing=rule)


def answer(rules: Rules, file: NamedFile, allowing: Matcher | None, root: str) -> tuple[list[str], list[str]]:
    """Return the files that are listed, and what stands against the command."""
    touched = checked(rules, allowing, root, file)
    listed = [f"{each.op} {each.path}: {each.decision and each.decision.word}" for each in touched.files]
    against = [
        text
        for each in touched.objections
        for text in (f"{'soft ' if each.soft else ''}{each.decision.word}: {each.why}", each.ref.rule)
    ]
    return listed, against


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_file_of_a_command_is_listed_and_objected_to_as_the_row_says(
    row: tuple[str, Rules, NamedFile, Matcher | None, list[str], list[str]], tmp_path: Path
) -> None:
    _name, rules, file, allowing, listed, against = row
    assert answer(rules or [{"allow": {"command": "ls"}}], file, allowing, str(tmp_path)) == (listed, against)


def test_every_file_counts_behind_one_that_does_not(tmp_path: Path) -> None:
    files = (of("read", NEW, perhaps=True), of("read", NONE, perhaps=True), of("read", SECRET))
    touched = checked(ALL, None, str(tmp_path), *files)
    assert ([each.path for each in touched.files], len(touched.objections)) == (["secret/x"], 1)
