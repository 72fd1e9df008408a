"""Which files a command names, and what it does to them: read, write, delete, execute.

Pure: words in, names out. The knowledge is in `file_table`; here is how operands and options become roles. Words known
only at run time are kept as names without a text. It errs towards naming more: what no rule closes adds nothing.
"""

from byleave.record import Record
from byleave.shell.file_table import FILES, MOVES
from byleave.shell.model import Word
from byleave.shell.options import scan
from byleave.shell.programs import BUILT_IN, Programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from byleave.shell.model import Command
    from byleave.shell.options import Given, Scan

READ, WRITE, DELETE, EXECUTE = "read", "write", "delete", "exec"
OPS = {
    "read": (READ,),
    "write": (WRITE,),
    "edit": (READ, WRITE),
    "delete": (DELETE,),
    "run": (READ, EXECUTE),
    "data": (),
    "data_file": (),
}
# Given in place of a file. The names of descriptors stay: what they open is judged where it was opened.
STANDARD_STREAMS = frozenset(["-", "/dev/null", "/dev/tty", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"])


class Named(Record):
    """A file that a command names. `text` is None where the name is known only at run time.

    `perhaps`: it may be no file at all, and counts only where it exists and something closes it. `tree`: everything
    below it is touched as well, if it is a directory. `names`: what would be put there, should it be a directory.
    `beside`: the name is read from the directory of that other name, as the text of a link is. `top`: it is read from
    the root of the repository.
    """

    text: str | None
    op: str
    tree: bool = False
    perhaps: bool = False
    names: tuple[str, ...] = ()
    beside: str | None = None
    top: bool = False


def named_files(command: "Command", programs: Programs = BUILT_IN) -> tuple[Named, ...]:
    """Return the files that a command names, in the order of their words as far as that matters."""
    if not command.words:
        return ()
    name = command.words[0].text
    found: list[Named] = []
    if name is not None and "/" in name:
        found.append(Named(name, EXECUTE))
    entry = FILES.get(command.program or "")
    if entry is None or command.elsewhere:
        found.extend(_loose(command, programs))
        return tuple(dict.fromkeys(found))
    own = _Names(command, scan(command, programs), entry).read()
    found.extend(own if command.program != "git" else [_by_pathspec(each) for each in own])
    return tuple(dict.fromkeys(found))


def _by_pathspec(named: Named) -> Named:
    """Return a file as git reads its name: patterns are its own business, `:/` is the root of the repository."""
    text = named.text
    if text is None or named.perhaps:
        return named
    if text.startswith(":/"):
        named = named.replace(text=text[2:] or ".", top=True)
    elif text.startswith((":(", ":!", ":^")):
        named = named.replace(text=".", top=True, tree=True)
    wild = [place for place, char in enumerate(named.text or "") if char in "*?["]
    if wild:
        named = named.replace(text=(named.text or "")[: wild[0]].rpartition("/")[0] or ".", tree=True)
    return named


def moving_values(command: "Command", programs: Programs = BUILT_IN) -> "tuple[tuple[str, str | None], ...]":
    """Return the options that move a program to another directory, each with that directory, None if not known."""
    options = MOVES.get(command.program or "")
    if options is None:
        return ()
    found = scan(command, programs)
    given = [(item.name, _text(item.value)) for item in found.given if item.name in options and item.value is not None]
    seen = {name for name, _ in given}
    return (*given, *[pair for pair in _spelled(command.words, options) if pair[0] not in seen])


def _spelled(words: "Sequence[Word]", options: "Sequence[str]") -> "Iterator[tuple[str, str | None]]":
    """Yield options as they stand, for programs whose tables do not know them."""
    for index, word in enumerate(words[1:], start=1):
        text = word.text if word.text is not None else word.prefix
        name, equals, value = text.partition("=")
        if name in options:
            following = words[index + 1].text if index + 1 < len(words) else None
            yield name, ((value if word.text is not None else None) if equals else following)


def _loose(command: "Command", programs: Programs) -> "Iterator[Named]":
    """Yield what the words of a program without an entry may name."""
    words: Sequence[Word] = command.words[1:]
    if command.wraps is not None:  # its operands are the child, which is listed by itself
        given = scan(command, programs).given
        words = [item.value for item in given if isinstance(item.value, Word)]
        words = [*words, *[Word(item.value, item.value) for item in given if isinstance(item.value, str)]]
    for word in words:
        if word.text is not None:
            yield from perhaps(word.text)


def perhaps(text: str) -> "Iterator[Named]":
    """Yield every path that a word may hold, as `-fFILE`, `--file=FILE`, `@FILE` or `FILE:/elsewhere` do."""
    candidates = [text] if not text.startswith("-") else []
    if text.startswith("-") and not text.startswith("--") and len(text) > 2:
        candidates.append(text[2:])
    for mark in "=@":
        if mark in text:
            candidates.append(text.partition(mark)[2])
            candidates.append(text.rpartition(mark)[2])
    for each in list(candidates):
        if each.startswith("file:"):
            candidates.append(_local(each))
        for mark in ":,;":
            if mark in each:
                candidates.extend(each.split(mark))
        candidates.append(each.lstrip("@<"))
    for each in dict.fromkeys(candidates):
        if each and each not in STANDARD_STREAMS:
            yield Named(each, READ, perhaps=True)
            yield Named(each, WRITE, perhaps=True)


class _Names:
    """The files of one command whose program has an entry."""

    def __init__(self, command: "Command", found: "Scan", entry: "Mapping[str, Any]") -> None:
        self._command = command
        self._scan = found
        self._whole_entry = entry
        self._behind = 0
        if "sub" in entry:
            entry = self._for_subcommand(entry)
        self._entry = entry
        self._given = {item.name for item in found.given}
        self._words = [command.words[index] for index in found.operands]

    def _for_subcommand(self, entry: "Mapping[str, Any]") -> "Mapping[str, Any]":
        own = entry["sub"].get(self._scan.subcommand)
        if own is None:
            return entry
        options = {**own.get("options", {})}
        for role, names in entry.get("options", {}).items():
            options[role] = [*options.get(role, ()), *names]
        return {**own, "options": options}

    def has(self, key: str) -> bool:
        """Whether one of the options that the entry lists under `key` is given, in any spelling that is known."""
        names = self._entry.get(key, ())
        return "*" in names or any(_is_given(name, self._scan.given, self._command.words) for name in names)

    def read(self) -> "Iterator[Named]":
        yield from self._values()
        shape = self._entry.get("shape")
        if shape is not None:
            yield from SHAPES[shape](self)
        else:
            yield from self.operands()

    def operands(self, words: "Sequence[Word] | None" = None) -> "Iterator[Named]":
        """Yield the operands by their roles."""
        entry = self._entry
        roles: tuple[str, ...] = entry["operands"]
        if self.has("instead") and len(roles) > 1:
            roles = roles[1:]
        silent = ("only" in entry and not self.has("only")) or ("quiet" in entry and self.has("quiet"))
        if silent:
            return
        walks = self.has("tree")
        words = self._words if words is None else words
        if entry.get("read_only") and self.has("read_only"):
            roles = ("read",)
        if entry.get("read_and_write") and self.has("read_and_write"):
            roles = (*roles[:-1], "edit")
        for number, word in enumerate(words):
            yield from self.role(word, roles[min(number, len(roles) - 1)], tree=walks)
        if walks and entry.get("here") and len(words) < len(roles):
            for op in OPS[roles[-1]]:
                yield Named(".", op, tree=True)
        if entry.get("whole") and self.has("whole"):
            yield Named(":/", READ, tree=True)

    def role(self, word: "Word", role: str, *, tree: bool = False) -> "Iterator[Named]":
        """Yield what a word is in a role."""
        if role == "other":
            if word.text is not None:
                yield from perhaps(word.text)
            return
        if is_process(word) or word.text in STANDARD_STREAMS:
            return
        for op in OPS[role]:
            yield Named(word.text, op, tree=tree or is_below(word))

    def _values(self) -> "Iterator[Named]":
        roles: Mapping[str, Sequence[str]] = self._entry.get("options", {})
        if "*" in roles.get("data", ()):
            known = {name: role for role, names in roles.items() if role != "data" for name in names}
        else:
            known = {name: role for role, names in roles.items() for name in names}
        for item in self._scan.given:
            role = known.get(item.name, "data" if "*" in roles.get("data", ()) else "other")
            if item.value is None:
                if role != "data" and not item.known:
                    yield from perhaps(item.name)
                continue
            word = item.value if isinstance(item.value, Word) else Word(item.value, item.value)
            yield from self.option_value(word, role)

    def option_value(self, word: "Word", role: str) -> "Iterator[Named]":
        if role == "line":  # of git log -L: a range, then a file
            text = word.text
            yield Named(text.rpartition(":")[2] if text is not None else None, READ)
        elif word.text is None and word.prefix:  # `--name=$value`: only a part is known
            if role != "data":
                yield from [Named(None, op) for op in OPS.get(role, ())]
        else:
            yield from self.role(word, role)

    @property
    def words(self) -> "list[Word]":
        return self._words

    @property
    def given(self) -> "tuple[Given, ...]":
        return self._scan.given

    @property
    def command(self) -> "Command":
        return self._command

    @property
    def entry(self) -> "Mapping[str, Any]":
        return self._entry

    def value(self, *names: str) -> "list[str | None]":
        """Return the values of options by these names."""
        return [_text(item.value) for item in self._scan.given if item.name in names and item.value is not None]


def is_process(word: "Word") -> bool:
    """Whether a word is a pipe from or to a process."""
    return len(word.forms) == 1 and len(word.forms[0]) == 1 and word.forms[0][0].kind == "process"


def is_below(word: "Word") -> bool:
    """Whether a word stands for everything that was found below it."""
    return word.text is not None and any(piece.kind == "below" for form in word.forms for piece in form)


def _is_given(name: str, given: "Sequence[Given]", words: "Sequence[Word]") -> bool:
    for item in given:
        if item.name == name:
            return True
        if not item.known and item.name.startswith("-") and not item.name.startswith("--"):
            if not name.startswith("--") and name[1:] in item.name[1:]:
                return True
        elif not item.known and len(item.name) > 2 and name.startswith(item.name):
            return True
    return any(word.text == name for word in words[1:]) or any(
        item.name.startswith(f"{name}=") or (item.known and item.name == name) for item in given
    )


def _text(value: "Word | str | None") -> str | None:
    return value if isinstance(value, str) or value is None else value.text


def _local(url: str) -> str:
    """Return the path of a `file:` URL."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    pieces = rest.split("%")
    return pieces[0] + "".join([_decoded(piece) for piece in pieces[1:]])


def _decoded(piece: str) -> str:
    """Return what stands behind a percent sign with its first two digits made a character."""
    try:
        return chr(int(piece[:2], 16)) + piece[2:]
    except ValueError:
        return f"%{piece}"


def _last_name(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2]


def _is_remote(text: str) -> bool:
    head, colon, _ = text.partition(":")
    return bool(colon) and "/" not in head


def _copy(names: _Names, *, source: str = "read") -> "Iterator[Named]":
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


def names_given(names: _Names, *options: str) -> bool:
    return any(_is_given(option, names.given, names.command.words) for option in options)


def _move(names: _Names) -> "Iterator[Named]":
    yield from _copy(names, source="delete")
    words = names.words if names.value("-t", "--target-directory") else names.words[:-1]
    for word in words:
        yield from names.role(word, "read", tree=True)


def _link(names: _Names) -> "Iterator[Named]":
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


def _dd(names: _Names) -> "Iterator[Named]":
    for word in names.command.words[1:]:
        text = word.text if word.text is not None else word.prefix
        key, _, value = text.partition("=")
        if key in ("if", "of"):
            yield Named(value if word.text is not None else None, READ if key == "if" else WRITE)
        elif word.text is None and "=" not in word.prefix:
            yield Named(None, WRITE)


def _tar(names: _Names) -> "Iterator[Named]":
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


def _unzip(names: _Names) -> "Iterator[Named]":
    words = names.words
    yield from [Named(word.text, READ) for word in words[:1]]
    if names_given(names, "-l", "-v", "-t", "-p", "-c", "-Z"):
        return
    for place in names.value("-d") or ["."]:
        members = [_below(place, word.text) for word in words[1:]]
        yield from [Named(text, WRITE) for text in members] or [Named(place, WRITE, tree=True)]


def _seven(names: _Names) -> "Iterator[Named]":
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


def _patch_file(names: _Names) -> "Iterator[Named]":
    """`patch FILE PATCH`: without a file, the patch says which files are changed."""
    words = names.words
    for word in words[:1]:
        yield from names.role(word, "edit")
    yield from [Named(word.text, READ) for word in words[1:2]]
    if not words:
        for place in names.value("-d", "--directory") or ["."]:
            yield Named(place, WRITE, tree=True)


def _git_patch(names: _Names) -> "Iterator[Named]":
    yield from names.operands()
    if not names_given(names, "--check", "--stat", "--numstat", "--summary"):
        yield Named(".", WRITE, tree=True)


def _whole(names: _Names) -> "Iterator[Named]":
    yield from names.operands()
    yield Named(".", WRITE, tree=True)


def _sed(names: _Names) -> "Iterator[Named]":
    in_place = names_given(names, "-i", "--in-place") or any(
        (word.text or "").startswith(("-i", "--in-place")) for word in names.command.words[1:]
    )
    words = names.words if names.has("instead") else names.words[1:]
    for word in words:
        yield from names.role(word, "edit" if in_place else "read")


def _jq(names: _Names) -> "Iterator[Named]":
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


def _find(names: _Names) -> "Iterator[Named]":
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


def find_roots(words: "Sequence[Word]") -> "Iterator[Word]":
    """Yield the words that say where `find` starts."""
    for word in words:
        text = word.text
        if text in ("-H", "-L", "-P") or (text or "").startswith(("-O", "-D")):
            continue
        if text is not None and (text[:1] in ("-", "(", "!", ")", ",")):
            return
        yield word


def _curl(names: _Names) -> "Iterator[Named]":
    """Yield what curl writes with -o and -O, what it sends, and `file:` URLs."""
    words = names.command.words
    for index, word in enumerate(words[1:], start=1):
        text = word.text
        if text is None:
            continue
        if text.startswith("file:"):
            yield Named(_local(text), READ)
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


def _wget(names: _Names) -> "Iterator[Named]":
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


def _clone(names: _Names) -> "Iterator[Named]":
    words = names.words
    for word in words[:1]:
        if word.text is None or not (_is_url(word.text) or _is_remote(word.text)):
            yield Named(word.text, READ, tree=True)
    if len(words) > 1:
        yield Named(words[1].text, WRITE)
    elif words and words[0].text is not None:
        yield Named(_last_name(words[0].text).removesuffix(".git"), WRITE)


def _checkout(names: _Names) -> "Iterator[Named]":
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


def _revisions(names: _Names) -> "Iterator[Named]":
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


def _git_config(names: _Names) -> "Iterator[Named]":
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


def _template(names: _Names) -> "Iterator[Named]":
    for word in names.words:
        yield Named(word.text, WRITE)


_VOLUMES = ("-v", "--volume", "--mount")


def _volumes(names: _Names) -> "Iterator[Named]":
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
    yield from _loose(names.command, BUILT_IN)


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
