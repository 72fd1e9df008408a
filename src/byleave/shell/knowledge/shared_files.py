"""Files that containers, clouds, servers and packers are given: directories are taken in with all that is in them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_operands import NamedFiles, is_process, loose, names_given
from byleave.shell.knowledge.possible_files import READ, STANDARD_STREAMS, WRITE, PossibleFile, in_script, perhaps
from byleave.shell.knowledge.programs import BUILT_IN
from byleave.shell.knowledge.transfers import below, is_remote, is_url, last_name
from byleave.shell.syntax.tree import Word

if TYPE_CHECKING:
    from collections.abc import Iterator


def container_copy(names: NamedFiles) -> Iterator[PossibleFile]:
    """`docker cp CONTAINER:FILE FILE`, in both directions."""
    words = names.words[1:] if names.words[:1] and names.words[0].text == "cp" else names.words
    for place, word in enumerate(words[:2]):
        if word.text is None or not is_remote(word.text):
            put = tuple([last_name(each.text.partition(":")[2]) for each in words[:1] if each.text]) if place else ()
            if word.text not in STANDARD_STREAMS:
                yield PossibleFile(word.text, WRITE if place else READ, tree=True, names=put)


_VOLUMES = ("-v", "--volume", "--mount")

_FLAGS_OF_RUN = frozenset("ditPqT")  # letters that take no value

_COMPOSE = frozenset(["docker-compose", "podman-compose"])

_BUILD_WORDS = frozenset(["build", "buildx", "builder", "image"])


def volumes(names: NamedFiles) -> Iterator[PossibleFile]:
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
        yield from container_copy(names)
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


def cloud_copy(names: NamedFiles) -> Iterator[PossibleFile]:
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


def fetched(names: NamedFiles) -> Iterator[PossibleFile]:
    """`sftp HOST:FILE` writes what it fetches, under a name that may be known only at run time."""
    yield from names.operands()
    yield from loose(names.command, BUILT_IN)


def served(names: NamedFiles) -> Iterator[PossibleFile]:
    """`python -m http.server` shows everything in a directory to who asks for it."""
    options = names.entry.get("serves", ("-d", "--directory"))
    yield from [PossibleFile(text, READ, tree=True) for text in names.value(*options) or ["."]]


def serves(names: NamedFiles) -> Iterator[PossibleFile]:
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


def packing(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield the working directory where the words say that all of it is packed, sent or served: `cargo package`."""
    texts = [word.text or "" for word in names.command.words[1:]]
    if names.hold("--dry-run", "--list", "--help"):
        return
    plain = [(text, before) for before, text in pairwise(["", *texts]) if text[:1] not in ("", "-", "+")]
    while plain:
        for first in names.entry["packing"]:
            if tuple([text for text, _ in plain[: len(first)]]) == first:
                behind = [text for text, _ in plain[len(first) : len(first) + 1] if "/" in text or text == "."]
                yield from [PossibleFile(text, READ, tree=True) for text in behind or ["."]]
        if plain.pop(0)[1][:1] != "-":  # else it may be the value of an option in front of it
            return


_PUBLISHING = frozenset(["publish", "pack"])


def packs(names: NamedFiles) -> Iterator[PossibleFile]:
    """`npm publish` and `npm pack` take in the whole directory of the package."""
    yield from loose(names.command, BUILT_IN)
    texts = [word.text or "" for word in names.command.words[1:] if (word.text or "-")[:1] != "-"]
    if texts[:1] and texts[0] in _PUBLISHING and not names.hold("--dry-run"):
        places = [text for text in texts[1:] if text not in ("true", "false")]  # values of switches
        yield from [PossibleFile(text, READ, tree=True) for text in places[:1] or ["."]]


def python_archive(names: NamedFiles) -> Iterator[PossibleFile]:
    """`python -m zipfile -c ARCHIVE FILES` and `-e ARCHIVE DIRECTORY`; `tarfile` is alike."""
    creates, extracts = names_given(names, "-c", "--create"), names_given(names, "-e", "--extract")
    for word in names.words[:1]:
        yield from names.role(word, "write" if creates else "read")
    for word in names.words[1:]:
        yield from names.role(word, "write" if extracts else "read", tree=True)
    if extracts and len(names.words) == 1:
        yield PossibleFile(".", WRITE, tree=True)


def jar(names: NamedFiles) -> Iterator[PossibleFile]:
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


def cluster_copy(names: NamedFiles) -> Iterator[PossibleFile]:
    """`kubectl cp FILE POD:FILE`, in both directions; a pod may stand behind its namespace."""
    words = [word for word in names.words if word.text != "cp"]
    for place, word in enumerate(words[:2]):
        if word.text is None or ":" not in word.text:
            put = tuple([last_name(each.text.partition(":")[2]) for each in words[:1] if each.text]) if place else ()
            yield PossibleFile(word.text, WRITE if place else READ, tree=True, names=put)


def mounted(names: NamedFiles) -> Iterator[PossibleFile]:
    """`mount --bind DIRECTORY PLACE`: everything in it has another name then."""
    yield from loose(names.command, BUILT_IN)
    texts = [word.text or "" for word in names.command.words[1:]]
    if any(text in ("-B", "-R", "-M") or "bind" in text or text.startswith("--move") for text in texts):
        for word in names.words[:1]:
            yield from [PossibleFile(word.text, op, tree=True) for op in (READ, WRITE)]


def addresses(names: NamedFiles) -> Iterator[PossibleFile]:
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


def zip_archive(names: NamedFiles) -> Iterator[PossibleFile]:
    """`zip -m` deletes what it has packed; `zip -R` looks for names below this directory, `zip -@` reads them."""
    yield from names.operands()
    words = names.command.words
    for before, word in pairwise(words[1:]):
        if before.text in ("-TT", "--unzip-command"):
            yield from in_script(word.text or "")
    letters = "".join([text for text in (word.text or "" for word in words[1:]) if text[:1] == "-"])
    if "R" in letters:
        yield PossibleFile(".", READ, tree=True)
    if "@" in letters:
        yield PossibleFile(None, READ)
    if names_given(names, "-m", "--move") or any(
        (word.text or "")[:1] == "-" and (word.text or "")[:2] != "--" and "m" in (word.text or "")
        for word in names.command.words[1:]
    ):
        yield from [named for word in names.words[1:] for named in names.role(word, "delete", tree=True)]
