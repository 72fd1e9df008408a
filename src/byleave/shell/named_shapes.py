"""Ways of naming files that a role for each operand does not say: copying, packing, fetching, revisions.

Each shape takes the words of one command and yields what they name. Which program has which: `file_table`.
"""

from byleave.shell.named import (
    DELETE,
    READ,
    STANDARD_STREAMS,
    WRITE,
    Named,
    Names,
    find_roots,
    is_given,
    is_process,
    local_path,
    loose,
    perhaps,
)
from byleave.shell.programs import BUILT_IN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.shell.model import Word


def _last_name(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2]


def _is_remote(text: str) -> bool:
    head, colon, _ = text.partition(":")
    return bool(colon) and "/" not in head


def _copy(names: Names, *, source: str = "read") -> "Iterator[Named]":
    """Copying: all operands but the last are read, the last is written; with -t all are read."""
    words = names.words
    tree = names.has("tree")
    into = names.value("-t", "--target-directory")
    program = names.command.program
    if program in ("install", "ginstall") and names_given(names, "-d", "--directory"):
        yield from [Named(word.text, WRITE) for word in words]
        return
    sources, targets = (words, into) if into else (words[:-1], [word.text for word in words[-1:]])
    remote = bool(names.entry.get("remote"))
    for word in sources:
        if is_process(word) or (remote and word.text is not None and _is_remote(word.text)):
            continue
        yield from names.role(word, source, tree=tree or source == "delete")
    put = tuple([_last_name(word.text) for word in sources if word.text is not None])
    for target in targets:
        if remote and target is not None and _is_remote(target):
            continue
        if target not in STANDARD_STREAMS:
            yield Named(target, WRITE, tree=tree, names=put)
    if len(put) < len(sources) and any(target is not None for target in targets):
        yield from [Named(target, WRITE, tree=True) for target in targets if target is not None]


def names_given(names: Names, *options: str) -> bool:
    return any(is_given(option, names.given, names.command.words) for option in options)


def _move(names: Names) -> "Iterator[Named]":
    yield from _copy(names, source="delete")
    words = names.words if names.value("-t", "--target-directory") else names.words[:-1]
    for word in words:
        yield from names.role(word, "read", tree=True)


def _link(names: Names) -> "Iterator[Named]":
    """A link makes its target readable and writable under another name."""
    words = names.words
    into = names.value("-t", "--target-directory")
    if len(words) == 1 and not into:
        sources, targets = words, [_last_name(words[0].text) if words[0].text is not None else None]
    else:
        sources, targets = (words, into) if into else (words[:-1], [word.text for word in words[-1:]])
    put = tuple([_last_name(word.text) for word in sources if word.text is not None])
    for word in sources:
        for op in (READ, WRITE):
            yield Named(word.text, op, tree=True)
            for target in targets:
                yield Named(word.text, op, tree=True, beside=target)
    yield from [Named(target, WRITE, names=put) for target in targets]


def _dd(names: Names) -> "Iterator[Named]":
    for word in names.command.words[1:]:
        text = word.text if word.text is not None else word.prefix
        key, _, value = text.partition("=")
        if key in ("if", "of"):
            yield Named(value if word.text is not None else None, READ if key == "if" else WRITE)
        elif word.text is None and "=" not in word.prefix:
            yield Named(None, WRITE)


def _tar(names: Names) -> "Iterator[Named]":
    archives = names.value("-f", "--file")
    extracts = names_given(names, "-x", "--extract", "--get")
    lists = names_given(names, "-t", "--list")
    creates = names_given(names, "-c", "--create", "-r", "--append", "-u", "--update", "-A", "--concatenate")
    places = names.value("-C", "--directory") or ["."]
    for archive in archives:
        if archive not in STANDARD_STREAMS:
            yield Named(archive, READ if (extracts or lists) and not creates else WRITE)
    yield from [Named(text, READ) for text in names.value("-T", "--files-from", "-X", "--exclude-from")]
    if lists and not extracts and not creates:
        return
    for place in places:
        inside = [_below(place, word.text) for word in names.words]
        if extracts or not creates:
            if names_given(names, "-O", "--to-stdout"):
                continue
            yield from [Named(text, WRITE, tree=True) for text in inside] or [Named(place, WRITE, tree=True)]
        else:
            yield from [Named(text, READ, tree=True) for text in inside]


def _below(place: str | None, text: str | None) -> str | None:
    if text is None or (place is None and not text.startswith("/")):
        return None
    return text if place in (None, ".") or text.startswith("/") else f"{place}/{text}"


def _unzip(names: Names) -> "Iterator[Named]":
    words = names.words
    yield from [Named(word.text, READ) for word in words[:1]]
    if names_given(names, "-l", "-v", "-t", "-p", "-c", "-Z"):
        return
    for place in names.value("-d") or ["."]:
        members = [_below(place, word.text) for word in words[1:]]
        yield from [Named(text, WRITE) for text in members] or [Named(place, WRITE, tree=True)]


def _seven(names: Names) -> "Iterator[Named]":
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
        yield from [Named(word.text, READ, tree=True) for word in words[2:]]


def _patch_file(names: Names) -> "Iterator[Named]":
    """`patch FILE PATCH`: without a file, the patch says which files are changed."""
    words = names.words
    for word in words[:1]:
        yield from names.role(word, "edit")
    yield from [Named(word.text, READ) for word in words[1:2]]
    if not words:
        for place in names.value("-d", "--directory") or ["."]:
            yield Named(place, WRITE, tree=True)


def _git_patch(names: Names) -> "Iterator[Named]":
    yield from names.operands()
    if not names_given(names, "--check", "--stat", "--numstat", "--summary"):
        yield Named(".", WRITE, tree=True)


def _whole(names: Names) -> "Iterator[Named]":
    yield from names.operands()
    yield Named(".", WRITE, tree=True)


def _sed(names: Names) -> "Iterator[Named]":
    in_place = names_given(names, "-i", "--in-place") or any(
        (word.text or "").startswith(("-i", "--in-place")) for word in names.command.words[1:]
    )
    words = names.words if names.has("instead") else names.words[1:]
    for word in words:
        yield from names.role(word, "edit" if in_place else "read")


def _jq(names: Names) -> "Iterator[Named]":
    """`--rawfile NAME FILE` and its like take two words, which stand among the operands."""
    words = list(names.command.words[1:])
    rest: list[Word] = []
    filtered = names_given(names, "-f", "--from-file")
    index = 0
    while index < len(words):
        text = words[index].text or ""
        if text in ("--rawfile", "--slurpfile", "--argfile"):
            yield from [Named(word.text, READ) for word in words[index + 2 : index + 3]]
            index += 3
        elif text in ("--arg", "--argjson"):
            index += 3
        elif text in ("--indent", "-L", "--library-path"):
            index += 2
        elif text in ("-f", "--from-file"):
            yield from [Named(word.text, READ) for word in words[index + 1 : index + 2]]
            index += 2
        elif text in ("--args", "--jsonargs"):
            break
        else:
            if not text.startswith("-") or text == "-":
                rest.append(words[index])
            index += 1
    for word in rest if filtered else rest[1:]:
        yield from names.role(word, "read")


_FIND_READS = frozenset(["-newer", "-anewer", "-cnewer", "-samefile"])
_FIND_WRITES = frozenset(["-fprint", "-fprint0", "-fls", "-fprintf"])


def _find(names: Names) -> "Iterator[Named]":
    words = names.command.words[1:]
    roots = list(find_roots(words))
    for index, word in enumerate(words):
        following = words[index + 1 : index + 2]
        if word.text in _FIND_WRITES:
            yield from [Named(each.text, WRITE) for each in following]
        elif word.text == "-files0-from":
            yield from [Named(each.text, READ) for each in following]
        elif word.text == "-delete":
            yield from [Named(root.text, DELETE, tree=True) for root in roots] or [Named(".", DELETE, tree=True)]


def _curl(names: Names) -> "Iterator[Named]":
    """Yield what curl writes with -o and -O, what it sends, and `file:` URLs."""
    words = names.command.words
    for index, word in enumerate(words[1:], start=1):
        text = word.text
        if text is None:
            continue
        if text.startswith("file:"):
            yield Named(local_path(text), READ)
        if text in ("-O", "--remote-name", "--remote-name-all") or (
            text.startswith("-") and not text.startswith("--") and "O" in text[1:]
        ):
            yield from [Named(_url_name(each.text), WRITE) for each in words[1:] if _is_url(each.text)]
        name, equals, value = text.partition("=")
        following = words[index + 1].text if index + 1 < len(words) else None
        known = not (index + 1 < len(words) and following is None)
        attached = value if equals and text.startswith("--") else following
        if name in (
            "-o",
            "--output",
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--etag-save",
            "--hsts",
            "--alt-svc",
            "--libcurl",
            "--output-dir",
        ):
            if attached not in STANDARD_STREAMS:
                yield Named(attached if known or equals else None, WRITE)
        elif name in (
            "-T",
            "--upload-file",
            "-K",
            "--config",
            "--netrc-file",
            "-E",
            "--cert",
            "--key",
            "--cacert",
            "--etag-compare",
            "-b",
            "--cookie",
            "--proxy-cacert",
            "--proto-default",
            "--unix-socket",
        ):
            if attached is not None and attached not in STANDARD_STREAMS:
                yield from [Named(attached, READ, perhaps=True), Named(attached, READ)]
            elif not known:
                yield Named(None, READ)
        elif text.startswith("-") and not text.startswith("--") and len(text) > 2:
            letters = text[1:]
            for place, letter in enumerate(letters):
                rest = letters[place + 1 :]
                if letter in "oDc" and (rest or following):
                    yield Named(rest or following, WRITE)
                    break
                if letter in "TKEb" and (rest or following):
                    yield Named(rest or following, READ)
                    break
                if letter in "dFHXAeumxyYwzQrUC":
                    yield from perhaps(rest)
                    break
        if "@" in text or "<" in text:
            for mark in "@<":
                if mark in text:
                    yield Named(text.partition(mark)[2].partition(";")[0], READ, perhaps=True)
                    yield Named(text.rpartition(mark)[2].partition(";")[0], READ, perhaps=True)


def _wget(names: Names) -> "Iterator[Named]":
    outputs: list[str | None] = []
    places: list[str | None] = []
    words = names.command.words
    urls: list[str] = []
    for index, word in enumerate(words[1:], start=1):
        text = word.text
        if text is None:
            name, equals, _ = word.prefix.partition("=")
            if equals and name in ("--output-document", "--output-file", "--append-output", "--directory-prefix"):
                yield Named(None, WRITE)
            continue
        name, equals, value = text.partition("=")
        following = words[index + 1].text if index + 1 < len(words) else None
        attached = value if equals else following
        short = text[2:] if text[:1] == "-" and text[:2] != "--" and len(text) > 2 else following
        if _is_url(text):
            urls.append(text)
        elif name == "--output-document" or text[:2] == "-O":
            outputs.append(attached if text.startswith("--") else short)
        elif name in ("--output-file", "--append-output", "--save-cookies", "--warc-file", "--rejected-log"):
            yield Named(attached, WRITE)
        elif text[:2] in ("-o", "-a"):
            yield Named(short, WRITE)
        elif name == "--directory-prefix" or text[:2] == "-P":
            places.append(attached if text.startswith("--") else short)
        elif name in ("--post-file", "--body-file", "--input-file", "--load-cookies", "--config", "--private-key"):
            yield Named(attached, READ)
        elif text[:2] == "-i":
            yield Named(short, READ)
        elif not text.startswith("-") and (index == 1 or not (words[index - 1].text or "-").startswith("-")):
            urls.append(text)
        elif text.startswith("-") and not text.startswith("--") and "O" in text[1:]:
            outputs.append(following)
    yield from [Named(text, WRITE) for text in outputs if text not in STANDARD_STREAMS]
    if not outputs:
        recursive = names_given(names, "-r", "-m", "-p", "--recursive", "--mirror", "--page-requisites", "-x")
        for place in places or ["."]:
            yield from [Named(_below(place, _url_name(url)), WRITE, tree=recursive) for url in urls]
            if recursive:
                yield Named(place, WRITE, tree=True)


def _is_url(text: str | None) -> bool:
    return text is not None and ("://" in text or text.startswith(("www.", "localhost")))


def _url_name(text: str | None) -> str | None:
    if text is None:
        return None
    path = text.partition("://")[2] or text
    path = path.partition("#")[0].partition("?")[0]
    return path.rpartition("/")[2] or "index.html" if "/" in path else "index.html"


def _clone(names: Names) -> "Iterator[Named]":
    words = names.words
    for word in words[:1]:
        if word.text is None or not (_is_url(word.text) or _is_remote(word.text)):
            yield Named(word.text, READ, tree=True)
    if len(words) > 1:
        yield Named(words[1].text, WRITE)
    elif words and words[0].text is not None:
        yield Named(_last_name(words[0].text).removesuffix(".git"), WRITE)


def _checkout(names: Names) -> "Iterator[Named]":
    """`git checkout REVISION -- FILES`: without `--`, a word is a file only if there is one of that name."""
    words = [word.text for word in names.command.words]
    if names_given(names, "-b", "-B", "--orphan"):
        return
    if "--" in words:
        end = words.index("--")
        yield from [Named(word.text, WRITE, tree=True) for word in names.command.words[end + 1 :]]
        return
    for word in names.words:
        if word.text is not None and len(names.words) == 1 and word.text not in (".", ":/"):
            yield Named(word.text, WRITE, perhaps=True)
        else:
            yield Named(word.text, WRITE, tree=True)


def _revisions(names: Names) -> "Iterator[Named]":
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
                yield from [Named(path, READ), Named(f":/{path}", READ)]


def _behind_revision(text: str | None) -> str | None:
    """Return the path of `REVISION:PATH`, `:PATH` (of the index) or `:1:PATH`; None for anything else."""
    if text is None or ":" not in text or text.startswith((":/", ":(", ":!", ":^")):
        return None
    path = text.partition(":")[2]
    return path[2:] if path[:2] in ("0:", "1:", "2:", "3:") else path


def _git_config(names: Names) -> "Iterator[Named]":
    """Setting a value writes the configuration: the repository's own, the user's, or the machine's."""
    reading = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "--get-color", "--get-colorbool")
    words = [word for word in names.words if word.text not in ("get", "list", "set", "unset")]
    first = names.words[0].text if names.words else None
    if names_given(names, *reading) or first in ("get", "list") or names.value("-f", "--file"):
        return
    changing = ("--unset", "--unset-all", "--add", "--replace-all", "-e", "--edit", "--rename-section")
    if len(words) < 2 and not names_given(names, *changing) and first not in ("set", "unset", "edit"):
        return
    yield Named("~/.gitconfig" if names_given(names, "--global") else ".git/config", WRITE)


def _template(names: Names) -> "Iterator[Named]":
    for word in names.words:
        yield Named(word.text, WRITE)


_VOLUMES = ("-v", "--volume", "--mount")


def _volumes(names: Names) -> "Iterator[Named]":
    """A container is given directories of this machine: everything in them is read and written there."""
    words = names.command.words
    for index, word in enumerate(words[1:], start=1):
        text = word.text if word.text is not None else word.prefix
        name, equals, value = text.partition("=")
        if name in _VOLUMES:
            following = words[index + 1] if index + 1 < len(words) else word
            known = word.text is not None if equals else following.text is not None
            value = value if equals else following.text or ""
        elif text.startswith("-v") and len(text) > 2:
            value, known = text[2:].lstrip("="), word.text is not None
        else:
            continue
        source = value.partition(":")[0]
        if name == "--mount":
            keys = dict([part.partition("=")[::2] for part in value.split(",")])
            source = keys.get("source", keys.get("src", ""))
        if not known or "/" in source or source in (".", ".."):
            yield from [Named(source if known else None, op, tree=True) for op in (READ, WRITE)]
    yield from loose(names.command, BUILT_IN)


SHAPES = {
    "volumes": _volumes,
    "copy": _copy,
    "move": _move,
    "link": _link,
    "dd": _dd,
    "tar": _tar,
    "unzip": _unzip,
    "seven": _seven,
    "patch_file": _patch_file,
    "patch": _git_patch,
    "whole": _whole,
    "sed": _sed,
    "jq": _jq,
    "find": _find,
    "curl": _curl,
    "wget": _wget,
    "clone": _clone,
    "checkout": _checkout,
    "revisions": _revisions,
    "git_config": _git_config,
    "template": _template,
}
