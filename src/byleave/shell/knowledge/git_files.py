"""Files that subcommands of git name in ways of their own: revisions, pathspecs, patches, what is stashed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_operands import NamedFiles, names_given
from byleave.shell.knowledge.possible_files import DELETE, READ, WRITE, PossibleFile, in_script, perhaps
from byleave.shell.knowledge.transfers import below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Command


def git_patch(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git apply PATCH`: what is changed stands in the patch."""
    yield from names.operands()
    if names_given(names, "--apply") or not names.hold("--check", "--stat", "--numstat", "--summary"):
        yield PossibleFile(".", WRITE, tree=True)


def repository(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git init DIRECTORY`: without one, the working directory. The hooks of a template are copied there."""
    texts = [word.text for word in names.words[:1]] or ["."]
    if names.value("--template"):
        yield from [PossibleFile(below(text, ".git/hooks/post-checkout"), WRITE) for text in texts]
    yield from [PossibleFile(text, WRITE, repository=True) for text in texts]


def checkout(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git checkout REVISION -- FILES`: without `--`, a word is a file only if there is one of that name."""
    words = [word.text for word in names.command.words]
    if names.value("-b", "-B", "--orphan"):
        return
    if "--" in words:
        end = words.index("--")
        yield from [PossibleFile(word.text, WRITE, tree=True) for word in names.command.words[end + 1 :]]
        return
    if names.value("--pathspec-from-file"):
        yield PossibleFile(":/", WRITE, tree=True)
    for word in names.words:
        if word.text is not None and len(names.words) == 1 and word.text not in (".", ":/"):
            yield PossibleFile(word.text, WRITE, perhaps=True)
        else:
            yield PossibleFile(word.text, WRITE, tree=True)


def revisions(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git show REVISION:FILE` reads that file."""
    for named in names.operands():
        path = _behind_revision(named.text)
        if path is None:
            yield named
        else:
            yield named.replace(text=f":/{path.removeprefix('/')}")
            yield named.replace(text=path)
    if "only" in names.entry and not names.has("only"):
        for word in names.words:
            path = _behind_revision(word.text)
            if path is not None:
                yield from [PossibleFile(path, READ), PossibleFile(f":/{path}", READ)]


def _behind_revision(text: str | None) -> str | None:
    """Return the path of `REVISION:PATH`, `:PATH` (of the index) or `:1:PATH`; None for anything else."""
    if text is None or ":" not in text or text.startswith((":/", ":(", ":!", ":^")):
        return None
    path = text.partition(":")[2]
    return path[2:] if path[:2] in ("0:", "1:", "2:", "3:") else path


def git_config(names: NamedFiles) -> Iterator[PossibleFile]:
    """Setting a value writes the configuration: the repository's own, the user's, or the machine's."""
    reading = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "--get-color", "--get-colorbool")
    modes = ("get", "list", "set", "unset", "edit", "rename-section", "remove-section")
    words = [word for word in names.words if word.text not in modes]
    first = names.words[0].text if names.words else None
    if names.hold(*reading) or first in ("get", "list") or names.value("-f", "--file"):
        return
    changing = ("--unset", "--unset-all", "--add", "--replace-all", "-e", "--edit")
    sections = ("--rename-section", "--remove-section")
    if len(words) < 2 and not names_given(names, *changing, *sections) and first not in modes:
        return
    if names_given(names, "--global"):
        yield PossibleFile(".gitconfig", WRITE, at_home=True)
    else:
        yield PossibleFile(".git/config", WRITE)


def difference(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git diff REVISION:FILE FILE`; with `--no-index` two files or directories, of which everything is read."""
    tree = names_given(names, "--no-index")
    yield from [named.replace(tree=tree) for named in revisions(names)]


def archive(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git archive REVISION PATHS`: without paths, everything."""
    yield from revisions(names)
    if len(names.words) < 2 and not any(_behind_revision(word.text) for word in names.words):
        yield PossibleFile(":/", READ, tree=True)


def stash(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git stash push FILES` puts them away: they are read, and written as the last commit has them."""
    words = names.words
    verb = words[0].text if words else None
    if names_given(names, "-u", "--include-untracked", "-a", "--all"):
        yield PossibleFile(".", READ, tree=True, top=True)
    if verb in ("push", "save"):
        for word in words[1:] if verb == "push" else ():
            yield from names.role(word, "edit", tree=True)
    elif verb in ("show", "list", "drop", "pop", "apply", "clear", "branch", "create", "store", None):
        yield from [each for word in words[1:] if word.text for each in perhaps(word.text)]
    else:
        yield from names.operands()


def index_files(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git checkout-index` writes files as the index has them: those it names, or all."""
    into = names.value("--prefix") or [""]
    if names_given(names, "-a", "--all", "--stdin"):
        yield from [PossibleFile(text or ".", WRITE, tree=True) for text in into]
    for prefix in into:
        yield from [
            PossibleFile(None if None in (prefix, word.text) else f"{prefix}{word.text}", WRITE) for word in names.words
        ]


_LISTING = ("--pathspec-from-file", "--stdin-paths", "--stdin", "--index-info", "--batch", "--batch-command")
# What happens to the files that another file or the input names.
_LISTED = {
    **dict.fromkeys(["add", "stage", "commit", "stash", "hash-object", "cat-file", "update-index"], READ),
    **dict.fromkeys(["checkout", "restore"], WRITE),
    "rm": DELETE,
}


def named_elsewhere(command: Command) -> Iterator[PossibleFile]:
    """Yield what `ext::COMMAND` names as an address, and files whose names git reads from a file or its input."""
    texts = [word.text or word.prefix for word in command.words[1:]]
    for text in texts:
        if "ext::" in text:
            yield from in_script(text.partition("ext::")[2])
    if any(text.startswith(_LISTING) and not text.startswith("--batch-check") for text in texts):
        yield from [PossibleFile(None, op) for name, op in _LISTED.items() if name in texts[:6]]
