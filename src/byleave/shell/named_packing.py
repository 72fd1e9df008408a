"""The files that programs which pack and unpack name: tar, unzip, 7z, patch."""

from byleave.shell.named import Names, is_given
from byleave.shell.named_fetching import below
from byleave.shell.perhaps import DELETE, READ, STANDARD_STREAMS, WRITE, Named, perhaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def _has(names: Names, *options: str) -> bool:
    return any(is_given(option, names.given, names.command.words) for option in options)


MOST_MEMBERS = 1000  # of a tar: directories that it moves to, times the names below them
_RENAMES = ("--transform", "--xform", "--strip-components", "--one-top-level", "-s")


def tar(names: Names) -> "Iterator[Named]":
    """Yield the archive, and what is packed or unpacked below each directory that `-C` names."""
    archives = names.value("-f", "--file")
    extracts = _has(names, "-x", "--extract", "--get")
    lists = _has(names, "-t", "--list")
    compares = _has(names, "-d", "--diff", "--compare")
    creates = _has(names, "-c", "--create", "-r", "--append", "-u", "--update", "-A", "--concatenate", "--delete")
    for archive in archives:
        if archive not in STANDARD_STREAMS:
            yield Named(archive, READ if (extracts or lists or compares) and not creates else WRITE, started=True)
    listed = names.value("-T", "--files-from", "-X", "--exclude-from")
    yield from [Named(text, READ, started=True) for text in listed if text not in STANDARD_STREAMS]
    if lists and not extracts and not creates:
        return
    members = [word.text for word in names.words]
    places = _moved(names.value("-C", "--directory", "--cd"))
    if len(places) * len(members) > MOST_MEMBERS:
        yield Named(None, READ if creates or compares else WRITE)
        return
    for place in places:
        inside = [below(place, text) for text in members]
        if creates or compares:
            yield from [Named(text, READ, tree=True, started=True) for text in inside]
            yield from [each.replace(started=True) for text in members for each in perhaps(text or "")]
        elif not _has(names, "-O", "--to-stdout"):
            whole = not inside or _has(names, *_RENAMES)
            yield from [Named(text, WRITE, tree=True, started=True) for text in ([place] if whole else inside)]
            tops = names.value("--one-top-level")
            yield from [Named(below(place, text), WRITE, tree=True, started=True) for text in tops]
    if not creates and not compares and _has(names, "-P", "--absolute-names"):
        yield Named(None, WRITE)  # the archive says where
    if creates and names.value("-T", "--files-from"):
        yield Named(None, READ)  # a file says which


def _moved(places: "Sequence[str | None]") -> "list[str | None]":
    """Return the directories in which a program works one after the other; each `-C` is read from the one before."""
    found: list[str | None] = []
    for place in places:
        found.append(below(found[-1], place) if found else place)
    return found or ["."]


def unzip(names: Names) -> "Iterator[Named]":
    words = names.words
    yield from [Named(word.text, READ) for word in words[:1]]
    if _has(names, "-l", "-v", "-t", "-p", "-c", "-Z"):
        return
    for place in names.value("-d") or ["."]:
        members = [below(place, word.text) for word in words[1:]]
        wild = any(text is None or any(char in text for char in "*?[") for text in members)
        yield from [Named(text, WRITE) for text in members if text is None or text not in STANDARD_STREAMS]
        if wild or not members:
            yield Named(place, WRITE, tree=True)


def seven(names: Names) -> "Iterator[Named]":
    words = names.words
    letter = words[0].text if words else None
    outputs = [word.text[2:] for word in names.command.words if word.text is not None and word.text.startswith("-o")]
    if letter in ("l", "t"):
        yield from [Named(word.text, READ) for word in words[1:2]]
    elif letter in ("x", "e"):
        yield from [Named(word.text, READ) for word in words[1:2]]
        yield from [Named(place, WRITE, tree=True) for place in outputs or ["."]]
    else:
        yield from [Named(word.text, WRITE) for word in words[1:2]]
        packed = [word.text for word in words[2:]] or ["."]
        yield from [Named(text, READ, tree=True) for text in packed]
        if any(word.text == "-sdel" for word in names.command.words):
            yield from [Named(text, DELETE, tree=True, gone=True) for text in packed]
        yield from [Named((text or "").lstrip("@"), READ, perhaps=True) for text in packed]


def patch_file(names: Names) -> "Iterator[Named]":
    """`patch FILE PATCH`: without a file, the patch says which files are changed."""
    words = names.words
    for word in words[:1]:
        yield from names.role(word, "edit")
    yield from [Named(word.text, READ) for word in words[1:2]]
    if not words:
        for place in names.value("-d", "--directory") or ["."]:
            yield Named(place, WRITE, tree=True, started=True)
