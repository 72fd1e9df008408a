"""The files that programs which fetch and send name: curl, wget, git clone."""

from byleave.shell.named import Names, is_given
from byleave.shell.perhaps import READ, STANDARD_STREAMS, WRITE, Named, is_local, local_path, perhaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BRACES = 16  # of one URL
MOST_URLS = 256  # that the braces of one URL may become


def curl(names: Names) -> "Iterator[Named]":
    """Yield what curl writes by the name of a URL, what it sends, and `file:` URLs."""
    urls = [word.text for word in names.words] + names.value("--url")
    if any(word.text is None and is_local(word.prefix.rpartition("=")[2]) for word in names.command.words):
        yield Named(None, READ)
    plain = _has(names, "-g", "--globoff")
    by_default = "file" in [(text or "").lower() for text in names.value("--proto-default")]
    into = names.value("--output-dir") or ["."]
    remote = _has(names, "-O", "--remote-name", "--remote-name-all")
    for url in urls:
        for each in [url] if url is None or plain else _each_url(url):
            if each is not None and (is_local(each) or (by_default and "://" not in each)):
                yield Named(local_path(each) if is_local(each) else each, READ)
            elif each is None and (url is None or is_local(url)):
                yield from [Named(None, READ)] if url is not None else ()
            elif each is not None:
                yield from perhaps(each)
            if remote:
                yield from [Named(below(place, url_name(each)), WRITE) for place in into]
    if remote and _has(names, "-J", "--remote-header-name"):
        yield Named(None, WRITE)  # the server says its name
    for output in names.value("-o", "--output"):
        if output is not None and "#" in output and not plain:
            yield Named(None, WRITE)  # a part of the URL is put there
        elif into != ["."] and output not in STANDARD_STREAMS:
            yield from [Named(below(place, output), WRITE) for place in into]
    for sent in names.value("-T", "--upload-file"):
        if sent is not None and any(char in sent for char in "{[") and not plain:
            yield from [Named(each, READ) for each in _each_url(sent)]
    if _has(names, "-K", "--config"):
        yield Named(None, WRITE)  # which files, that file says


def _each_url(text: str) -> "list[str | None]":
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


def wget(names: Names) -> "Iterator[Named]":
    """Yield what wget writes: one document, or files by the names of the URLs."""
    outputs = names.value("-O", "--output-document")
    yield from [Named(text, WRITE) for text in outputs if text not in STANDARD_STREAMS]
    if outputs:
        return
    recursive = _has(
        names,
        *("-r", "-m", "-p", "-x", "--recursive", "--mirror", "--page-requisites", "--force-directories"),
    )
    for place in names.value("-P", "--directory-prefix") or ["."]:
        yield from [Named(below(place, url_name(word.text)), WRITE, tree=recursive) for word in names.words]
        if recursive:
            yield Named(place, WRITE, tree=True)
    if _has(names, "-i", "--input-file", "--content-disposition", "--trust-server-names"):
        yield Named(None, WRITE)  # a file or the server says its name


def clone(names: Names) -> "Iterator[Named]":
    words = names.words
    for word in words[:1]:
        if word.text is not None and is_local(word.text):
            yield Named(local_path(word.text), READ, tree=True)
        elif word.text is None or not (is_url(word.text) or is_remote(word.text)):
            yield Named(word.text, READ, tree=True)
    if len(words) > 1:
        yield Named(words[1].text, WRITE)
    elif words:
        text = words[0].text
        yield Named(None if text is None else last_name(text).rpartition(":")[2].removesuffix(".git"), WRITE)


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


def _has(names: Names, *options: str) -> bool:
    return any(is_given(option, names.given, names.command.words) for option in options)
