"""Ways of naming files that a role for each operand does not say: copying, packing, fetching, revisions.

Each shape takes the words of one command and yields what they name. Which program has which: `program_files`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.derived_names import backups, derived, in_place, pieces, suffixes_in_place, unpacked
from byleave.shell.knowledge.file_operands import (
    NamedFiles,
    find_roots,
    is_process,
    loose,
    may_be_several,
    names_given,
    text_of,
)
from byleave.shell.knowledge.git_files import (
    archive,
    checkout,
    difference,
    git_config,
    git_patch,
    index_files,
    repository,
    revisions,
    stash,
)
from byleave.shell.knowledge.possible_files import (
    DELETE,
    READ,
    STANDARD_STREAMS,
    WRITE,
    PossibleFile,
    in_code,
    in_commands,
    in_script,
    perhaps,
)
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.shell.knowledge.scripts import SED_DELIMITERS, WRITES, awk_danger, sed_danger
from byleave.shell.knowledge.shared_files import (
    addresses,
    cloud_copy,
    cluster_copy,
    fetched,
    jar,
    mounted,
    packs,
    python_archive,
    served,
    serves,
    volumes,
    zip_archive,
)
from byleave.shell.knowledge.transfers import (
    below,
    clone,
    curl,
    is_remote,
    last_name,
    patch_file,
    seven,
    tar,
    unzip,
    wget,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.syntax.tree import Word


def _copy(names: NamedFiles, *, source: str = "read") -> Iterator[PossibleFile]:
    """Copying: all operands but the last are read, the last is written; with -t all are read."""
    words = names.words
    tree = names.has("tree")
    into = names.value("-t", "--target-directory")
    program = names.command.program
    if program in ("install", "ginstall") and names_given(names, "-d", "--directory"):
        yield from [PossibleFile(word.text, WRITE) for word in words]
        return
    sources, targets = (words, into) if into else (words[:-1], [word.text for word in words[-1:]])
    remote = bool(names.entry.get("remote"))
    removes = program == "rsync" and names_given(names, "--remove-source-files", "--remove-sent-files")
    for word in sources:
        if is_process(word) or (remote and word.text is not None and is_remote(word.text)):
            continue
        yield from names.role(word, source, tree=tree or source == "delete")
        if removes:
            yield from names.role(word, "delete", tree=True)
    whole = _keeps_path(names)
    put = tuple([_put_name(names, word.text, whole=whole) for word in sources if word.text is not None])
    if program in _WITH_T and names_given(names, "-T", "--no-target-directory"):
        put = ()
    for target in targets:
        if remote and target is not None and is_remote(target):
            continue
        if target not in STANDARD_STREAMS:
            yield PossibleFile(target, WRITE, tree=tree, names=put)
        if program in ("cp", "gcp") and names_given(names, "-s", "--symbolic-link", "-l", "--link"):
            yield from [
                PossibleFile(word.text, op, tree=True, beside=target) for word in sources for op in (READ, WRITE)
            ]
    yield from backups(names, targets, put)
    if names.value("--files-from"):
        yield PossibleFile(None, READ)  # a file says which
    if None in [word.text for word in sources] and any(target is not None for target in targets):
        yield from [PossibleFile(target, WRITE, tree=True) for target in targets if target is not None]


_WITH_T = frozenset(["cp", "gcp", "mv", "gmv", "install", "ginstall"])


def _keeps_path(names: NamedFiles) -> bool:
    """Whether a copy is put below the directories of its name, too."""
    program = names.command.program
    options = ("--parents",) if program in _WITH_T else ("-R", "--relative")
    return program not in ("scp", "mv") and names_given(names, *options)


def _put_name(names: NamedFiles, text: str, *, whole: bool) -> str:
    """Return the name that a copy gets in a directory; empty where everything in the source is put there."""
    if names.entry.get("remote") and is_remote(text):
        text = text.partition(":")[2]
    if names.command.program == "rsync" and text.endswith("/"):
        return ""
    if whole:
        return text.lstrip("/")
    return last_name(text)


def _move(names: NamedFiles) -> Iterator[PossibleFile]:
    yield from _copy(names, source="delete")
    words = names.words if names.value("-t", "--target-directory") else names.words[:-1]
    for word in words:
        yield from names.role(word, "read", tree=True)
    if names_given(names, "-T", "--no-target-directory"):  # with a backup, it takes the place of a whole directory
        yield from [PossibleFile(word.text, WRITE, tree=True) for word in names.words[-1:]]


def _link(names: NamedFiles) -> Iterator[PossibleFile]:
    """A link makes its target readable and writable under another name."""
    words = names.words
    into = names.value("-t", "--target-directory")
    if len(words) == 1 and not into:
        sources, targets = words, [last_name(words[0].text) if words[0].text is not None else None]
    else:
        sources, targets = (words, into) if into else (words[:-1], [word.text for word in words[-1:]])
    put = tuple([last_name(word.text) for word in sources if word.text is not None])
    for word in sources:
        for op in (READ, WRITE):
            yield PossibleFile(word.text, op, tree=True)
            for target in targets:
                yield PossibleFile(word.text, op, tree=True, beside=target)
    yield from [PossibleFile(target, WRITE, names=put) for target in targets]


def _dd(names: NamedFiles) -> Iterator[PossibleFile]:
    for word in names.command.words[1:]:
        text = word.text if word.text is not None else word.prefix
        key, _, value = text.partition("=")
        if key in ("if", "of"):
            yield PossibleFile(value if word.text is not None else None, READ if key == "if" else WRITE)
        elif word.text is None and "=" not in word.prefix:
            yield PossibleFile(None, WRITE)


def _whole(names: NamedFiles) -> Iterator[PossibleFile]:
    yield from names.operands()
    yield PossibleFile(".", WRITE, tree=True)


def _sed(names: NamedFiles) -> Iterator[PossibleFile]:
    edits = names_given(names, "-i", "--in-place") or any(
        (word.text or "").startswith(("-i", "--in-place")) for word in names.command.words[1:]
    )
    instead = names.has("instead")
    scripts = names.value("-e", "--expression") + ([] if instead else [word.text for word in names.words[:1]])
    for script in scripts:
        yield from _in_sed(script or "")
    files = names.words if instead else names.words[1:]
    for word in files:
        yield from names.role(word, "edit" if edits else "read")
    if edits:
        yield from in_place(files, suffixes_in_place(names.command.words[1:]))


def _awk(names: NamedFiles) -> Iterator[PossibleFile]:
    """Variables that the command line sets hold names of files, or commands, if the script opens or runs any."""
    yield from names.operands()
    edits = any((text or "").startswith("inplace") for text in names.value("-i", "--include"))
    for word in names.words if edits or names.value("-W") else ():
        yield from names.role(word, "edit" if edits else "other")  # `-W exec FILE`
    scripts = [*names.value("-e", "--source")] if names.has("instead") else [word.text for word in names.words[:1]]
    if not names_given(names, "-f", "--file", "-E", "--exec") and all(
        awk_danger(text or "") is None for text in scripts
    ):
        return
    values = [text for text in names.value("-v", "--assign") if text is not None]
    for text in [*values, *[word.text for word in names.words if word.text is not None and "=" in word.text]]:
        yield from perhaps(text)
        yield from in_commands(text.partition("=")[2])


LONGEST_SCRIPT = 2000  # of sed, with files in it: which, is not looked for in a longer one


def _in_sed(script: str) -> Iterator[PossibleFile]:
    """Yield the files of `r` and `w`: whatever stands behind such a letter, to the end of the line."""
    danger = sed_danger(script)
    if danger is None:
        return
    writes = danger == WRITES
    if len(script) > LONGEST_SCRIPT:
        yield from [PossibleFile(None, op) for op in (READ, WRITE)]
        return
    if not writes:
        yield from _run_by_sed(script)
    for line in script.split("\n"):
        for place, letter in enumerate(line):
            if letter not in "rRwWe":
                continue
            name = line[place + 1 :].strip()
            if letter in "wW" and writes and name not in STANDARD_STREAMS:
                yield PossibleFile(name, WRITE)
            yield from [PossibleFile(name, op, perhaps=True) for op in (READ, WRITE) if name]
            if letter == "e":
                yield from in_script(name)


def _run_by_sed(script: str) -> Iterator[PossibleFile]:
    """Yield what the parts of `s/../COMMAND/e` may name, whatever stands between them."""
    for delimiter in SED_DELIMITERS.intersection(script):
        for part in script.replace(f"\\{delimiter}", "\0").split(delimiter):
            yield from in_script(part.replace("\0", delimiter))


def _jq(names: NamedFiles) -> Iterator[PossibleFile]:
    """`--rawfile NAME FILE` and its like take two words, which stand among the operands."""
    words = list(names.command.words[1:])
    rest: list[Word] = []
    filtered = names_given(names, "-f", "--from-file")
    values = False  # whether the operands are values instead of files; options are still options
    index = 0
    while index < len(words):
        text = words[index].text or ""
        if text in ("--rawfile", "--slurpfile", "--argfile"):
            yield from [PossibleFile(word.text, READ) for word in words[index + 2 : index + 3]]
            index += 3
        elif text in ("--arg", "--argjson"):
            index += 3
        elif text in ("--indent", "-L", "--library-path"):
            index += 2
        elif text in ("-f", "--from-file"):
            yield from [PossibleFile(word.text, READ) for word in words[index + 1 : index + 2]]
            index += 2
        else:
            values = values or text in ("--args", "--jsonargs")
            if (not text.startswith("-") or text == "-") and not (values and rest):
                rest.append(words[index])
            index += 1
    for word in rest if filtered else rest[1:]:
        yield from names.role(word, "read")
    if any(may_be_several(word) for word in words):
        yield PossibleFile(None, READ)
    libraries = [*names.value("-L", "--library-path"), "."]
    for word in () if filtered else rest[:1]:
        yield from _imported(word.text or "", libraries)


def _imported(script: str, libraries: list[str | None]) -> Iterator[PossibleFile]:
    """Yield the modules of jq that a script takes in: `import "NAME" as $x;` reads NAME.json or NAME.jq."""
    if "import" not in script and "include" not in script:
        return
    for name in script.split('"')[1::2]:
        files = [f"{name}{ending}" for ending in ("", ".jq", ".json")]
        files += [f"{name}/{name.rpartition('/')[2]}{ending}" for ending in (".jq", ".json")]
        yield from [PossibleFile(below(place, file), READ, perhaps=True) for place in libraries for file in files]


def _yq(names: NamedFiles) -> Iterator[PossibleFile]:
    """`yq eval EXPRESSION FILES`: an expression may load files."""
    for word in names.words[:2]:
        yield from in_code(word.text or "")
        yield PossibleFile(word.text, READ, perhaps=True)  # a file takes the place of the expression
    yield from names.operands()


def _editor(names: NamedFiles) -> Iterator[PossibleFile]:
    """Editors take commands as words that start with a plus sign; which word is one, `-s` decides in its own way."""
    for word in names.command.words[1:]:
        if word.text is not None and (word.text[:1] == "+" or " " in word.text):
            yield from in_script(word.text.removeprefix("+"))
    for word in names.words:
        if (word.text or "").startswith("+"):
            continue
        if ":" in (word.text or "") and names.command.program in ("code", "subl", "hx", "kak", "micro"):
            yield from perhaps(word.text or "")  # a file, then a line
        else:
            yield from names.role(word, "edit")


_FIND_READS = frozenset(["-newer", "-anewer", "-cnewer", "-samefile"])
_FIND_ALL = frozenset(
    ["-delete", "-depth", "-d", "-print", "-mount", "-xdev", "-ignore_readdir_race"]
)  # nothing is left out
_FIND_WRITES = frozenset(["-fprint", "-fprint0", "-fls", "-fprintf"])


def _find(names: NamedFiles) -> Iterator[PossibleFile]:
    words = names.command.words[1:]
    roots = list(find_roots(words))
    for index, word in enumerate(words):
        following = words[index + 1 : index + 2]
        if word.text in _FIND_WRITES:
            yield from [PossibleFile(each.text, WRITE) for each in following]
        elif word.text == "-files0-from":
            yield from [PossibleFile(each.text, READ) for each in following]
        elif word.text == "-delete":
            everything = all(each.text in _FIND_ALL for each in words[len(roots) :])
            yield from [
                PossibleFile(text, DELETE, tree=True, gone=everything)
                for text in [root.text for root in roots] or ["."]
            ]


def _inner(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield what may be named in commands that a program runs: `git bisect run`, `git submodule foreach`, `gdb -ex`."""
    for word in names.words:
        yield from [*perhaps(word.text or ""), *in_script(word.text or "")]
    for item in names.given:
        yield from in_script(text_of(item.value) or "")


def _loosely(names: NamedFiles) -> Iterator[PossibleFile]:
    """Read the words as of a program without an entry, beside what the entry says; a child is listed by itself."""
    if names.command.wraps is None:
        yield from loose(names.command, BUILT_IN)


def _committed(names: NamedFiles) -> Iterator[PossibleFile]:
    """`hg commit -A` takes in every new file."""
    yield from loose(names.command, BUILT_IN)
    if names.has("tree"):
        yield PossibleFile(".", READ, tree=True)


def _spoken(names: NamedFiles) -> Iterator[PossibleFile]:
    """Words in a language of the program, in which names stand without quotes: `gnuplot -e "load 'FILE'"`."""
    yield from loose(names.command, BUILT_IN)
    for word in names.command.words[1:] if names.command.wraps is None else ():
        yield from in_script(word.text or "")


def _pager(names: NamedFiles) -> Iterator[PossibleFile]:
    """`less '+!COMMAND' FILE`: what stands behind a plus sign is a command of the pager."""
    yield from names.operands()
    for word in names.command.words[1:]:
        if (word.text or "").startswith("+"):
            yield from in_script((word.text or "").lstrip("+"))


def _sqlite(names: NamedFiles) -> Iterator[PossibleFile]:
    """`sqlite3 -A` packs and unpacks files as tar does."""
    yield from names.operands()
    if any((word.text or "").startswith(("-A", "--A")) for word in names.command.words[1:]):
        for word in names.command.words[1:]:
            yield from [] if word.text is None else [each.replace(tree=True) for each in perhaps(word.text)]
        yield PossibleFile(".", WRITE, tree=True)


def _renamed(names: NamedFiles) -> Iterator[PossibleFile]:
    """`rename EXPRESSION FILES`: an expression makes the new names."""
    yield from names.operands()
    yield from [named for word in names.words for named in in_script(word.text or "")]
    if not names.hold("-n", "--nono", "--no-act", "--dry-run"):
        yield PossibleFile(None, WRITE)


def _first(names: NamedFiles) -> Iterator[PossibleFile]:
    """`flock FILE COMMAND` opens the file, and makes it where there is none. The command is listed by itself."""
    for word in names.words[:1]:
        yield from names.role(word, "write")


def _template(names: NamedFiles) -> Iterator[PossibleFile]:
    for word in names.words:
        yield PossibleFile(word.text, WRITE)


def _made(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield what code of make names: makefiles that `--eval` includes, files and commands in variables."""
    yield from loose(names.command, BUILT_IN)
    for item in names.given:
        if item.name == "--eval" and item.value is not None:
            yield from in_script(item.value if isinstance(item.value, str) else item.value.text or "")
    for word in names.command.words[1:]:
        name, equals, value = (word.text or "").partition("=")
        if equals and ("$" in value or "`" in value or name.endswith("!")):
            yield from in_script(value)


def _parallel(names: NamedFiles) -> Iterator[PossibleFile]:
    """`parallel COMMAND :::: FILES` reads words from those files. The command is listed by itself."""
    yield from loose(names.command, BUILT_IN)
    listing = False
    for word in names.command.words[1:]:
        text = word.text or ""
        if text.startswith(":::"):
            listing = text.startswith("::::")
        elif listing:
            yield from names.role(word, "read")


SHAPES = {
    "zip": zip_archive,
    "made": _made,
    "cloud_copy": cloud_copy,
    "fetched": fetched,
    "served": served,
    "serves": serves,
    "packs": packs,
    "python_archive": python_archive,
    "jar": jar,
    "cluster_copy": cluster_copy,
    "parallel": _parallel,
    "mounted": mounted,
    "addresses": addresses,
    "difference": difference,
    "stash": stash,
    "archive": archive,
    "index_files": index_files,
    "inner": _inner,
    "pieces": pieces,
    "yq": _yq,
    "editor": _editor,
    "unpacked": unpacked,
    "derived": derived,
    "loosely": _loosely,
    "committed": _committed,
    "spoken": _spoken,
    "pager": _pager,
    "sqlite": _sqlite,
    "renamed": _renamed,
    "first": _first,
    "volumes": volumes,
    "copy": _copy,
    "move": _move,
    "link": _link,
    "dd": _dd,
    "tar": tar,
    "unzip": unzip,
    "seven": seven,
    "patch_file": patch_file,
    "patch": git_patch,
    "whole": _whole,
    "sed": _sed,
    "awk": _awk,
    "jq": _jq,
    "find": _find,
    "curl": curl,
    "wget": wget,
    "clone": clone,
    "repository": repository,
    "checkout": checkout,
    "revisions": revisions,
    "git_config": git_config,
    "template": _template,
}
