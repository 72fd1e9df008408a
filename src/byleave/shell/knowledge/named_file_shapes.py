"""Ways of naming files that a role for each operand does not say: copying, packing, fetching, revisions.

Each shape takes the words of one command and yields what they name. Which program has which: `program_files`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_operands import (
    NamedFiles,
    find_roots,
    is_given,
    is_process,
    loose,
    may_be_several,
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
from byleave.shell.knowledge.transfers import (
    below,
    clone,
    curl,
    is_remote,
    is_url,
    last_name,
    patch_file,
    seven,
    tar,
    unzip,
    wget,
)
from byleave.shell.syntax.tree import Word

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def names_given(names: NamedFiles, *options: str) -> bool:
    return any(is_given(option, names.given, names.command.words) for option in options)


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


def _git_patch(names: NamedFiles) -> Iterator[PossibleFile]:
    yield from names.operands()
    if not names_given(names, "--check", "--stat", "--numstat", "--summary"):
        yield PossibleFile(".", WRITE, tree=True)


def _whole(names: NamedFiles) -> Iterator[PossibleFile]:
    yield from names.operands()
    yield PossibleFile(".", WRITE, tree=True)


def _sed(names: NamedFiles) -> Iterator[PossibleFile]:
    in_place = names_given(names, "-i", "--in-place") or any(
        (word.text or "").startswith(("-i", "--in-place")) for word in names.command.words[1:]
    )
    instead = names.has("instead")
    scripts = names.value("-e", "--expression") + ([] if instead else [word.text for word in names.words[:1]])
    for script in scripts:
        yield from _in_sed(script or "")
    for word in names.words if instead else names.words[1:]:
        yield from names.role(word, "edit" if in_place else "read")


def _awk(names: NamedFiles) -> Iterator[PossibleFile]:
    """Variables that the command line sets hold names of files, or commands, if the script opens or runs any."""
    yield from names.operands()
    in_place = any((text or "").startswith("inplace") for text in names.value("-i", "--include"))
    for word in names.words if in_place or names.value("-W") else ():
        yield from names.role(word, "edit" if in_place else "other")  # `-W exec FILE`
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


def _unpacked(names: NamedFiles) -> Iterator[PossibleFile]:
    """`gzip FILE` makes FILE.gz, `gzip -d FILE.gz` makes FILE, and deletes the other."""
    yield from names.operands()
    if names.has("read_only"):
        return
    for word in names.words:
        stem, dot, ending = (word.text or "").rpartition(".")
        if dot and ending in _PACKED:
            yield PossibleFile(stem + _PACKED[ending], WRITE)


_PACKED = {**dict.fromkeys(["gz", "bz2", "xz", "lzma", "zst", "Z", "z"], ""), **dict.fromkeys(["tgz", "txz"], ".tar")}


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


def _repository(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git init DIRECTORY`: without one, the working directory. The hooks of a template are copied there."""
    texts = [word.text for word in names.words[:1]] or ["."]
    if names.value("--template"):
        yield from [PossibleFile(below(text, ".git/hooks/post-checkout"), WRITE) for text in texts]
    yield from [PossibleFile(text, WRITE, repository=True) for text in texts]


def _checkout(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git checkout REVISION -- FILES`: without `--`, a word is a file only if there is one of that name."""
    words = [word.text for word in names.command.words]
    if names_given(names, "-b", "-B", "--orphan"):
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


def _revisions(names: NamedFiles) -> Iterator[PossibleFile]:
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


def _git_config(names: NamedFiles) -> Iterator[PossibleFile]:
    """Setting a value writes the configuration: the repository's own, the user's, or the machine's."""
    reading = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "--get-color", "--get-colorbool")
    modes = ("get", "list", "set", "unset", "edit", "rename-section", "remove-section")
    words = [word for word in names.words if word.text not in modes]
    first = names.words[0].text if names.words else None
    if names_given(names, *reading) or first in ("get", "list") or names.value("-f", "--file"):
        return
    changing = ("--unset", "--unset-all", "--add", "--replace-all", "-e", "--edit")
    sections = ("--rename-section", "--remove-section")
    if len(words) < 2 and not names_given(names, *changing, *sections) and first not in modes:
        return
    if names_given(names, "--global"):
        yield PossibleFile(".gitconfig", WRITE, at_home=True)
    else:
        yield PossibleFile(".git/config", WRITE)


def _difference(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git diff REVISION:FILE FILE`; with `--no-index` two files or directories, of which everything is read."""
    tree = names_given(names, "--no-index")
    yield from [named.replace(tree=tree) for named in _revisions(names)]


def _archive(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git archive REVISION PATHS`: without paths, everything."""
    yield from _revisions(names)
    if len(names.words) < 2 and not any(_behind_revision(word.text) for word in names.words):
        yield PossibleFile(":/", READ, tree=True)


def _stash(names: NamedFiles) -> Iterator[PossibleFile]:
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


def _index_files(names: NamedFiles) -> Iterator[PossibleFile]:
    """`git checkout-index` writes files as the index has them: those it names, or all."""
    into = names.value("--prefix") or [""]
    if names_given(names, "-a", "--all", "--stdin"):
        yield from [PossibleFile(text or ".", WRITE, tree=True) for text in into]
    for prefix in into:
        yield from [
            PossibleFile(None if None in (prefix, word.text) else f"{prefix}{word.text}", WRITE) for word in names.words
        ]


def _inner(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield what may be named in commands that a program runs: `git bisect run`, `git submodule foreach`, `gdb -ex`."""
    for word in names.words:
        yield from [*perhaps(word.text or ""), *in_script(word.text or "")]


def _container_copy(names: NamedFiles) -> Iterator[PossibleFile]:
    """`docker cp CONTAINER:FILE FILE`, in both directions."""
    words = names.words[1:] if names.words[:1] and names.words[0].text == "cp" else names.words
    for place, word in enumerate(words[:2]):
        if word.text is None or not is_remote(word.text):
            put = tuple([last_name(each.text.partition(":")[2]) for each in words[:1] if each.text]) if place else ()
            if word.text not in STANDARD_STREAMS:
                yield PossibleFile(word.text, WRITE if place else READ, tree=True, names=put)


def _first(names: NamedFiles) -> Iterator[PossibleFile]:
    """`flock FILE COMMAND` opens the file, and makes it where there is none. The command is listed by itself."""
    for word in names.words[:1]:
        yield from names.role(word, "write")


def _pieces(names: NamedFiles) -> Iterator[PossibleFile]:
    """`split FILE PREFIX` and `csplit -f PREFIX FILE`: the names that are made start with the prefix."""
    yield from names.operands()
    words = names.words
    prefixes = names.value("-f", "--prefix") if names.command.program == "csplit" else [w.text for w in words[1:2]]
    for prefix in prefixes:
        yield PossibleFile(None if prefix is None else f"{prefix}aa", WRITE)
        if prefix is not None and not prefix.endswith("/"):
            yield PossibleFile(prefix, WRITE, perhaps=True)


def _template(names: NamedFiles) -> Iterator[PossibleFile]:
    for word in names.words:
        yield PossibleFile(word.text, WRITE)


_VOLUMES = ("-v", "--volume", "--mount")
_FLAGS_OF_RUN = frozenset("ditPqT")  # letters that take no value
_COMPOSE = frozenset(["docker-compose", "podman-compose"])
_BUILD_WORDS = frozenset(["build", "buildx", "builder", "image"])


def _volumes(names: NamedFiles) -> Iterator[PossibleFile]:
    """A container is given directories of this machine: everything in them is read and written there."""
    words = names.command.words
    for index, word in enumerate(words[1:], start=1):
        text = word.text if word.text is not None else word.prefix
        name, equals, value = text.partition("=")
        letters, letter, rest = text[1:].partition("v") if text[:1] == "-" and text[:2] != "--" else ("", "", "")
        if name in _VOLUMES or (letter and not rest and _FLAGS_OF_RUN.issuperset(letters)):
            following = words[index + 1] if index + 1 < len(words) else word
            known = word.text is not None if equals else following.text is not None
            value = value if equals else following.text or ""
        elif letter and _FLAGS_OF_RUN.issuperset(letters):
            value, known = rest.lstrip("="), word.text is not None
        else:
            continue
        yield from _bound(value if known else None, mount=name == "--mount")
    if any(word.text == "cp" for word in words[1:3]):
        yield from _container_copy(names)
    for item in names.given:
        if item.name in ("--env-file", "--label-file") and isinstance(item.value, Word) and item.value.text is None:
            yield PossibleFile(None, READ)
    first = [word.text for word in words[1:6]]
    if "build" in first and "compose" not in first and names.command.program not in _COMPOSE:
        sent = [word for word in names.words if word.text not in _BUILD_WORDS][-1:]
        for word in [*sent, *[word for word in words[-1:] if word not in sent]]:  # the directory that is sent
            if not is_url(word.text):
                yield from names.role(word, "read", tree=True)
    yield from loose(names.command, BUILT_IN)


def _bound(value: str | None, *, mount: bool) -> Iterator[PossibleFile]:
    """Yield the directory of `SOURCE:TARGET`, or of `type=bind,source=SOURCE`; a plain name is a volume."""
    source = None if value is None else value.partition(":")[0]
    if mount and value is not None:
        keys = dict([part.partition("=")[::2] for part in value.replace('"', "").split(",")])
        source = keys.get("source", keys.get("src", ""))
    if source is None or "/" in source or source in (".", ".."):
        yield from [PossibleFile(source, op, tree=True) for op in (READ, WRITE)]


_CLOUD_VERBS = frozenset(
    ["cp", "mv", "sync", "rsync", "copy", "move", "put", "get", "copyto", "moveto", "mirror", "scp", "serve"]
)


def _cloud_copy(names: NamedFiles) -> Iterator[PossibleFile]:
    """`aws s3 cp FROM TO` and its like: a name with a scheme or a host is elsewhere. Values of `file://` are read."""
    words = names.words
    verb = next((place for place, word in enumerate(words) if word.text in _CLOUD_VERBS), None)
    operands = [] if verb is None else words[verb + 1 :]
    for place, word in enumerate(operands):
        written = place > 0 and place == len(operands) - 1 and words[verb or 0].text != "serve"
        start = word.text if word.text is not None else word.prefix
        if not (is_url(start) or is_remote(start)) and word.text not in STANDARD_STREAMS:
            put = tuple([last_name(each.text) for each in operands[:-1] if each.text]) if written else ()
            yield PossibleFile(word.text, WRITE if written else READ, tree=True, names=put)
    listed = {id(word) for word in operands}
    for word in names.command.words[1:]:
        if word.text is None and ("file://" in word.prefix or "fileb://" in word.prefix or "@" in word.prefix):
            yield PossibleFile(None, READ)
        elif word.text is not None and id(word) not in listed:
            yield from perhaps(word.text)


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


def _served(names: NamedFiles) -> Iterator[PossibleFile]:
    """`python -m http.server` shows everything in a directory to who asks for it."""
    options = names.entry.get("serves", ("-d", "--directory"))
    yield from [PossibleFile(text, READ, tree=True) for text in names.value(*options) or ["."]]


def _serves(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield what an interpreter or a tool serves that has a web server besides: `php -S`, `ruby -run -e httpd DIR`."""
    yield from loose(names.command, BUILT_IN)
    texts = [word.text or "" for word in names.command.words[1:]]
    if names.command.program == "openssl" and not {"-WWW", "-HTTP"}.isdisjoint(texts):
        yield PossibleFile(".", READ, tree=True)
    elif names.command.program == "php" and any(text.startswith("-S") for text in texts):
        roots = [after for text, after in pairwise([*texts, ""]) if text == "-t"]
        roots += [text[2:] for text in texts if text.startswith("-t") and text != "-t"]
        yield from [PossibleFile(text, READ, tree=True) for text in roots or ["."]]
    elif "-run" in texts or any(text.startswith("-run") for text in texts):
        behind = [place for place, text in enumerate(texts) if text.endswith("httpd")]
        roots = [text for text in texts[behind[0] + 1 :][:1] if text[:1] != "-"] if behind else []
        yield from [PossibleFile(text, READ, tree=True) for text in (roots or ["."] if behind else [])]


_PUBLISHING = frozenset(["publish", "pack"])


def _packs(names: NamedFiles) -> Iterator[PossibleFile]:
    """`npm publish` and `npm pack` take in the whole directory of the package."""
    yield from loose(names.command, BUILT_IN)
    texts = [word.text or "" for word in names.command.words[1:] if (word.text or "-")[:1] != "-"]
    if texts[:1] and texts[0] in _PUBLISHING and not names_given(names, "--dry-run"):
        yield from [PossibleFile(text, READ, tree=True) for text in texts[1:2] or ["."]]


def _python_archive(names: NamedFiles) -> Iterator[PossibleFile]:
    """`python -m zipfile -c ARCHIVE FILES` and `-e ARCHIVE DIRECTORY`; `tarfile` is alike."""
    creates, extracts = names_given(names, "-c", "--create"), names_given(names, "-e", "--extract")
    for word in names.words[:1]:
        yield from names.role(word, "write" if creates else "read")
    for word in names.words[1:]:
        yield from names.role(word, "write" if extracts else "read", tree=True)
    if extracts and len(names.words) == 1:
        yield PossibleFile(".", WRITE, tree=True)


def _jar(names: NamedFiles) -> Iterator[PossibleFile]:
    """`jar cf ARCHIVE FILES -C DIRECTORY FILES`: packed as tar does it; `jar xf` unpacks here."""
    words = [word for word in names.command.words[1:] if not is_process(word)]
    letters = (words[0].text or "").lstrip("-") if words else ""
    long = {word.text for word in words}
    creates = "c" in letters or "u" in letters or not {"--create", "--update"}.isdisjoint(long)
    place: str | None = "."
    following = iter(words[1:])
    for word in following:
        if word.text == "-C":
            place = next((each.text for each in following), None)
        elif creates and (word.text or "-")[:1] != "-":
            yield PossibleFile(below(place, word.text), READ, tree=True)
            place = "."
    if not creates and "x" in letters:
        yield PossibleFile(".", WRITE, tree=True)
    yield from loose(names.command, BUILT_IN)


def _cluster_copy(names: NamedFiles) -> Iterator[PossibleFile]:
    """`kubectl cp FILE POD:FILE`, in both directions; a pod may stand behind its namespace."""
    words = [word for word in names.words if word.text != "cp"]
    for place, word in enumerate(words[:2]):
        if word.text is None or ":" not in word.text:
            put = tuple([last_name(each.text.partition(":")[2]) for each in words[:1] if each.text]) if place else ()
            yield PossibleFile(word.text, WRITE if place else READ, tree=True, names=put)


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


def _mounted(names: NamedFiles) -> Iterator[PossibleFile]:
    """`mount --bind DIRECTORY PLACE`: everything in it has another name then."""
    yield from loose(names.command, BUILT_IN)
    texts = [word.text or "" for word in names.command.words[1:]]
    if any(text in ("-B", "-R", "-M") or "bind" in text or text.startswith("--move") for text in texts):
        for word in names.words[:1]:
            yield from [PossibleFile(word.text, op, tree=True) for op in (READ, WRITE)]


def _addresses(names: NamedFiles) -> Iterator[PossibleFile]:
    """`socat FILE:NAME -`: what stands behind the kind of an address may be a file, read and written."""
    for word in names.command.words[1:]:
        if word.text is not None:
            yield from perhaps(word.text)
            kind, colon, rest = word.text.partition(":")
            yield from in_script(rest) if colon and kind.upper() in _RUN_ADDRESSES else ()
            continue
        kind = word.prefix.partition(":")[0].upper()
        if ":" not in word.prefix or kind in _FILE_ADDRESSES:
            yield from [PossibleFile(None, op) for op in (READ, WRITE)]


_RUN_ADDRESSES = frozenset(["EXEC", "SYSTEM", "SHELL"])
_FILE_ADDRESSES = _RUN_ADDRESSES | {"FILE", "OPEN", "GOPEN", "CREATE", "CREAT", "PIPE", "FIFO"}


def _zip(names: NamedFiles) -> Iterator[PossibleFile]:
    """`zip -m` deletes what it has packed; `zip -R` looks for names below this directory, `zip -@` reads them."""
    yield from names.operands()
    letters = "".join([text for text in (word.text or "" for word in names.command.words[1:]) if text[:1] == "-"])
    if "R" in letters:
        yield PossibleFile(".", READ, tree=True)
    if "@" in letters:
        yield PossibleFile(None, READ)
    if names_given(names, "-m", "--move") or any(
        (word.text or "")[:1] == "-" and (word.text or "")[:2] != "--" and "m" in (word.text or "")
        for word in names.command.words[1:]
    ):
        yield from [named for word in names.words[1:] for named in names.role(word, "delete", tree=True)]


SHAPES = {
    "zip": _zip,
    "made": _made,
    "cloud_copy": _cloud_copy,
    "served": _served,
    "serves": _serves,
    "packs": _packs,
    "python_archive": _python_archive,
    "jar": _jar,
    "cluster_copy": _cluster_copy,
    "parallel": _parallel,
    "mounted": _mounted,
    "addresses": _addresses,
    "difference": _difference,
    "stash": _stash,
    "archive": _archive,
    "index_files": _index_files,
    "inner": _inner,
    "pieces": _pieces,
    "yq": _yq,
    "editor": _editor,
    "unpacked": _unpacked,
    "first": _first,
    "volumes": _volumes,
    "copy": _copy,
    "move": _move,
    "link": _link,
    "dd": _dd,
    "tar": tar,
    "unzip": unzip,
    "seven": seven,
    "patch_file": patch_file,
    "patch": _git_patch,
    "whole": _whole,
    "sed": _sed,
    "awk": _awk,
    "jq": _jq,
    "find": _find,
    "curl": curl,
    "wget": wget,
    "clone": clone,
    "repository": _repository,
    "checkout": _checkout,
    "revisions": _revisions,
    "git_config": _git_config,
    "template": _template,
}
