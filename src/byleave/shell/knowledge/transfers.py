"""The files named by programs that fetch or send (curl, wget, git clone) or pack or unpack (tar, unzip, 7z, patch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from byleave.shell.knowledge.derived_names import of_patch
from byleave.shell.knowledge.file_operands import NamedFiles, is_given
from byleave.shell.knowledge.possible_files import (
    DELETE,
    READ,
    STANDARD_STREAMS,
    WRITE,
    PossibleFile,
    is_local,
    local_path,
    perhaps,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


MOST_BRACES = 16  # of one URL
MOST_URLS = 256  # that the braces of one URL may become


def curl(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield what curl writes by the name of a URL, what it sends, and `file:` URLs."""
    urls = [word.text for word in names.words] + names.value("--url")
    if any(word.text is None and is_local(word.prefix.rpartition("=")[2]) for word in names.command.words):
        yield PossibleFile(None, READ)
    plain = _has(names, "-g", "--globoff")
    by_default = "file" in [(text or "").lower() for text in names.value("--proto-default")]
    into = names.value("--output-dir") or ["."]
    remote = _has(names, "-O", "--remote-name", "--remote-name-all")
    for url in urls:
        for each in [url] if url is None or plain else _each_url(url):
            if each is not None and (is_local(each) or (by_default and "://" not in each)):
                yield PossibleFile(local_path(each) if is_local(each) else each, READ)
            elif each is None and (url is None or is_local(url)):
                yield from [PossibleFile(None, READ)] if url is not None else ()
            elif each is not None:
                yield from perhaps(each)
            if remote:
                yield from [PossibleFile(below(place, url_name(each)), WRITE) for place in into]
    if remote and _has(names, "-J", "--remote-header-name"):
        yield PossibleFile(None, WRITE)  # the server says its name
    for output in names.value("-o", "--output"):
        if output is not None and "#" in output and not plain:
            yield PossibleFile(None, WRITE)  # a part of the URL is put there
        elif into != ["."] and output not in STANDARD_STREAMS:
            yield from [PossibleFile(below(place, output), WRITE) for place in into]
    for sent in names.value("-T", "--upload-file"):
        if sent is not None and any(char in sent for char in "{[") and not plain:
            yield from [PossibleFile(each, READ) for each in _each_url(sent)]
    if _has(names, "-K", "--config"):
        yield PossibleFile(None, WRITE)  # which files, that file says
    if _has(names, "-n", "--netrc", "--netrc-optional"):
        yield PossibleFile(".netrc", READ, at_home=True)
    for text in names.value("-w", "--write-out"):
        for part in (text or "").split("%output{")[1:]:
            yield PossibleFile(part.partition("}")[0].removeprefix(">>"), WRITE)


def _each_url(text: str) -> list[str | None]:
    """Return what curl makes of the braces in a URL; None for one with ranges, or too many."""
    if "[" in text and "]" in text.partition("[")[2]:
        return [None]
    head, brace, rest = text.partition("{")
    inside, end, tail = rest.partition("}")
    if not brace or not end:
        return [text]
    if text.count("{") > MOST_BRACES:
        return [None]
    tails = _each_url(tail)
    choices = inside.split(",")
    if None in tails or len(choices) * len(tails) > MOST_URLS:
        return [None]
    return [f"{head}{choice}{each}" for choice in choices for each in tails]


def wget(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield what wget writes: one document, or files by the names of the URLs."""
    outputs = names.value("-O", "--output-document")
    yield from [PossibleFile(text, WRITE) for text in outputs if text not in STANDARD_STREAMS]
    if outputs:
        return
    recursive = _has(
        names,
        *("-r", "-m", "-p", "-x", "--recursive", "--mirror", "--page-requisites", "--force-directories"),
    )
    for place in names.value("-P", "--directory-prefix") or ["."]:
        yield from [PossibleFile(below(place, url_name(word.text)), WRITE, tree=recursive) for word in names.words]
        if recursive:
            yield PossibleFile(place, WRITE, tree=True)
    if _has(names, "-i", "--input-file", "--content-disposition", "--trust-server-names"):
        yield PossibleFile(None, WRITE)  # a file or the server says its name


def clone(names: NamedFiles) -> Iterator[PossibleFile]:
    words = names.words
    for word in words[:1]:
        if word.text is not None and is_local(word.text):
            yield PossibleFile(local_path(word.text), READ, tree=True)
        elif word.text is None or not (is_url(word.text) or is_remote(word.text)):
            yield PossibleFile(word.text, READ, tree=True)
    if len(words) > 1:
        yield PossibleFile(words[1].text, WRITE, repository=True)
    elif words:
        text = words[0].text
        yield PossibleFile(None if text is None else last_name(text).rpartition(":")[2].removesuffix(".git"), WRITE)


def last_name(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2]


def is_remote(text: str) -> bool:
    """Whether a text is `host:path`."""
    head, colon, _ = text.partition(":")
    return bool(colon) and "/" not in head


def below(place: str | None, text: str | None) -> str | None:
    """Return a name as it is from outside the directory in which it is used."""
    if text is None or (place is None and not text.startswith("/")):
        return None
    return text if place in (None, ".") or text.startswith("/") else f"{place}/{text}"


def is_url(text: str | None) -> bool:
    return text is not None and ("://" in text or text.startswith(("www.", "localhost")))


def url_name(text: str | None) -> str | None:
    """Return the name under which what a URL leads to is kept."""
    if text is None:
        return None
    path = text.partition("://")[2] or text
    path = path.partition("#")[0].partition("?")[0]
    return path.rpartition("/")[2] or "index.html" if "/" in path else "index.html"


def _has(names: NamedFiles, *options: str) -> bool:
    return any(is_given(option, names.given, names.command.words) for option in options)


def _named_packing_has(names: NamedFiles, *options: str) -> bool:
    return any(is_given(option, names.given, names.command.words) for option in options)


MOST_MEMBERS = 1000  # of a tar: directories that it moves to, times the names below them
_RENAMES = ("--transform", "--xform", "--strip-components", "--one-top-level", "-s")


def tar(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield the archive, and what is packed or unpacked below each directory that `-C` names."""
    archives = names.value("-f", "--file")
    extracts = _named_packing_has(names, "-x", "--extract", "--get")
    lists = _named_packing_has(names, "-t", "--list")
    compares = _named_packing_has(names, "-d", "--diff", "--compare")
    creates = _named_packing_has(
        names, "-c", "--create", "-r", "--append", "-u", "--update", "-A", "--concatenate", "--delete"
    )
    for archive in archives:
        if archive not in STANDARD_STREAMS:
            yield PossibleFile(
                archive, READ if (extracts or lists or compares) and not creates else WRITE, started=True
            )
    listed = names.value("-T", "--files-from", "-X", "--exclude-from")
    yield from [PossibleFile(text, READ, started=True) for text in listed if text not in STANDARD_STREAMS]
    if lists and not extracts and not creates:
        return
    members = [word.text for word in names.words]
    places = _moved(names.value("-C", "--directory", "--cd"))
    if len(places) * len(members) > MOST_MEMBERS:
        yield PossibleFile(None, READ if creates or compares else WRITE)
        return
    for place in places:
        inside = [below(place, text) for text in members]
        if creates or compares:
            yield from [PossibleFile(text, READ, tree=True, started=True) for text in inside]
            yield from [each.replace(started=True) for text in members for each in perhaps(text or "")]
        elif not _named_packing_has(names, "-O", "--to-stdout"):
            whole = not inside or _named_packing_has(names, *_RENAMES)
            yield from [PossibleFile(text, WRITE, tree=True, started=True) for text in ([place] if whole else inside)]
            tops = names.value("--one-top-level")
            yield from [PossibleFile(below(place, text), WRITE, tree=True, started=True) for text in tops]
    if not creates and not compares and _named_packing_has(names, "-P", "--absolute-names"):
        yield PossibleFile(None, WRITE)  # the archive says where
    if creates and names.value("-T", "--files-from"):
        yield PossibleFile(None, READ)  # a file says which


def _moved(places: Sequence[str | None]) -> list[str | None]:
    """Return the directories in which a program works one after the other; each `-C` is read from the one before."""
    found: list[str | None] = []
    for place in places:
        found.append(below(found[-1], place) if found else place)
    return found or ["."]


def unzip(names: NamedFiles) -> Iterator[PossibleFile]:
    words = names.words
    yield from [PossibleFile(word.text, READ) for word in words[:1]]
    if _named_packing_has(names, "-l", "-v", "-t", "-p", "-c", "-Z") and not names.late_options:
        return
    for place in names.value("-d") or ["."]:
        members = [below(place, word.text) for word in words[1:]]
        wild = any(text is None or any(char in text for char in "*?[") for text in members)
        yield from [PossibleFile(text, WRITE) for text in members if text is None or text not in STANDARD_STREAMS]
        if wild or not members:
            yield PossibleFile(place, WRITE, tree=True)


def seven(names: NamedFiles) -> Iterator[PossibleFile]:
    words = names.words
    letter = words[0].text if words else None
    outputs = [word.text[2:] for word in names.command.words if word.text is not None and word.text.startswith("-o")]
    if letter in ("l", "t"):
        yield from [PossibleFile(word.text, READ) for word in words[1:2]]
    elif letter in ("x", "e"):
        yield from [PossibleFile(word.text, READ) for word in words[1:2]]
        yield from [PossibleFile(place, WRITE, tree=True) for place in outputs or ["."]]
    else:
        yield from [PossibleFile(word.text, WRITE) for word in words[1:2]]
        packed = [word.text for word in words[2:]] or ["."]
        for word in names.command.words:  # `-ir!PATTERN`
            option, mark, text = (word.text or "").partition("!")
            packed += [text] if mark and option.startswith("-i") else []
        everywhere = any((word.text or "").startswith(("-r", "-ir")) for word in names.command.words)
        yield from [PossibleFile(_started(text, everywhere=everywhere), READ, tree=True) for text in packed]
        if any(word.text == "-sdel" for word in names.command.words):
            yield from [PossibleFile(text, DELETE, tree=True, gone=True) for text in packed]
        yield from [PossibleFile((text or "").lstrip("@"), READ, perhaps=True) for text in packed]


def _started(text: str | None, *, everywhere: bool) -> str | None:
    """Return where a pattern begins that the program itself expands; a name that it looks for everywhere is one."""
    if text is None or not (everywhere or any(char in text for char in "*?")):
        return text
    marked = min([place for place in (text.find("*"), text.find("?")) if place >= 0], default=len(text))
    return text[:marked].rpartition("/")[0] or "."


def patch_file(names: NamedFiles) -> Iterator[PossibleFile]:
    """`patch FILE PATCH`: without a file, the patch says which files are changed."""
    words = names.words
    for word in words[:1]:
        yield from names.role(word, "edit")
    yield from [PossibleFile(word.text, READ) for word in words[1:2]]
    yield from of_patch(names)
    if not words:
        for place in names.value("-d", "--directory") or ["."]:
            yield PossibleFile(place, WRITE, tree=True, started=True)
