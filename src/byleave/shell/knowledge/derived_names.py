"""Names that no word holds, because a program makes them from other names: `gpg -c FILE` writes FILE.gpg.

Pure. Results of encrypting, signing and packing, backups of what is replaced, pieces of a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from byleave.shell.knowledge.file_operands import names_given
from byleave.shell.knowledge.possible_files import WRITE, PossibleFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from byleave.shell.knowledge.file_operands import NamedFiles
    from byleave.shell.syntax.tree import Word

_GPG_MAKES = {
    (".gpg", ".asc"): (
        "-c",
        "--symmetric",
        "-e",
        "--encrypt",
        "-s",
        "--sign",
        "--encrypt-files",
        "--store",
        "--dearmor",
    ),
    (".sig", ".asc"): ("-b", "--detach-sign", "--detach-sig"),
    (".asc",): ("--clearsign", "--clear-sign", "--enarmor"),
}
# With these gpg writes nothing beside what it reads.
_GPG_READS = (
    *("-d", "--decrypt", "--verify", "--verify-files", "--import", "--list-packets", "--show-keys", "--export"),
    *("-k", "--list-keys", "-K", "--list-secret-keys", "--fingerprint", "--print-md", "--print-mds", "--recv-keys"),
)


def derived(names: NamedFiles) -> Iterator[PossibleFile]:
    """Yield the operands, and what the program makes from their names."""
    yield from names.operands()
    program = names.command.program
    if program in ("gpg", "gpg2"):
        yield from _by_gpg(names)
    elif program == "zcompile":
        for word in names.words[:1]:
            yield from [*_with(word.text, ".zwc"), *names.role(word, "write" if len(names.words) > 1 else "read")]
    elif program == "minisign" and names_given(names, "-S") and not names.value("-x"):
        yield from [named for text in names.value("-m") for named in _with(text, ".minisig")]
    elif program == "ssh-keygen":
        yield from [named for text in names.value("-f") for named in _with(text, ".pub", "-cert.pub")]


def _by_gpg(names: NamedFiles) -> Iterator[PossibleFile]:
    if names.value("-o", "--output") and not names_given(names, "--multifile", "--encrypt-files", "--decrypt-files"):
        return
    endings = [ending for made, options in _GPG_MAKES.items() for ending in made if names_given(names, *options)]
    for word in names.words:
        yield from _with(word.text, *dict.fromkeys(endings))
        stem, dot, ending = (word.text or "").rpartition(".")
        if not endings and dot and ending in ("gpg", "asc", "pgp", "sig") and not names.hold(*_GPG_READS):
            yield PossibleFile(stem, WRITE)


def _with(text: str | None, *endings: str) -> Iterator[PossibleFile]:
    for ending in endings:
        yield PossibleFile(None if text is None else f"{text}{ending}", WRITE)


def backups(names: NamedFiles, targets: Sequence[str | None], put: Sequence[str]) -> Iterator[PossibleFile]:
    """`cp -b`, `mv -S SUFFIX`: what was there gets another name. `put`: the names in a directory."""
    if not names_given(names, "-b", "--backup", "-S", "--suffix"):
        return
    for suffix in names.value("-S", "--suffix") or ["~"]:
        for target in targets:
            if target is None or suffix is None:
                yield PossibleFile(None, WRITE)
                continue
            yield PossibleFile(f"{target}{suffix}", WRITE)
            yield from [PossibleFile(f"{target.rstrip('/')}/{name}{suffix}", WRITE, perhaps=True) for name in put]


def of_patch(names: NamedFiles) -> Iterator[PossibleFile]:
    """`patch -z SUFFIX FILE`, `patch -B PREFIX FILE`: the name of what was there before."""
    suffixes = [*names.value("-z", "--suffix"), ".orig"]
    prefixes = [*names.value("-B", "--prefix"), *names.value("-Y", "--basename-prefix")]
    for word in names.words[:1]:
        for text in (
            *[_joined(word.text, each) for each in suffixes],
            *[_joined(each, word.text) for each in prefixes],
        ):
            yield PossibleFile(text, WRITE)


def _joined(first: str | None, second: str | None) -> str | None:
    return None if first is None or second is None else f"{first}{second}"


def in_place(words: Sequence[Word], suffixes: Sequence[str]) -> Iterator[PossibleFile]:
    """`sed -i.bak FILE`, `perl -i'old/*' FILE`: an asterisk stands for the name, in the directory of the file."""
    for suffix in suffixes:
        for word in words:
            directory, slash, name = (word.text or "").rpartition("/")
            made = suffix.replace("*", name) if "*" in suffix else f"{name}{suffix}"
            if word.text is not None and name:
                yield PossibleFile(made if "/" in made else f"{directory}{slash}{made}", WRITE, perhaps=True)


def suffixes_in_place(words: Sequence[Word]) -> list[str]:
    """Return the suffixes that options such as `-i.bak`, `-pi.bak` and `--in-place=.bak` give."""
    found = []
    for word in words:
        option = re.match(r"--in-place=|-(?!-)[A-Za-z0-9]*?i", word.text or "")
        rest = (word.text or "")[option.end() :] if option else ""
        found += [rest] if rest else []
    return found


_FORMAT = re.compile(r"%[^A-Za-z%]*[A-Za-z]")


def pieces(names: NamedFiles) -> Iterator[PossibleFile]:
    """`split FILE PREFIX` and `csplit -f PREFIX FILE`: the names that are made start with the prefix."""
    yield from names.operands()
    split = names.command.program != "csplit"
    prefixes = [word.text for word in names.words[1:2]] if split else names.value("-f", "--prefix")
    endings = names.value("--additional-suffix") if split else names.value("-b", "--suffix-format")
    for prefix in prefixes or (["x"] if split else ["xx"]):
        yield from _with(prefix, "aa")
        for ending in endings:
            made = ending if split or ending is None else _FORMAT.sub("00", ending)
            yield PossibleFile(_joined(_joined(prefix, "aa" if split else ""), made), WRITE)
        if prefix is not None and not prefix.endswith("/"):
            yield PossibleFile(prefix, WRITE, perhaps=True)


_UNPACKED = {**dict.fromkeys(["gz", "bz2", "xz", "lzma", "zst", "Z", "z"], ""), **dict.fromkeys(["tgz", "txz"], ".tar")}
_PACKED = {
    **dict.fromkeys(["gzip", "pigz", "zopfli"], ".gz"),
    **dict.fromkeys(["bzip2", "pbzip2"], ".bz2"),
    **dict.fromkeys(["xz", "pixz"], ".xz"),
    "lzma": ".lzma",
    "zstd": ".zst",
    "compress": ".Z",
    "lz4": ".lz4",
    "lzop": ".lzo",
    "brotli": ".br",
}


def unpacked(names: NamedFiles) -> Iterator[PossibleFile]:
    """`gzip FILE` makes FILE.gz, `gzip -d FILE.gz` makes FILE, and deletes the other."""
    yield from names.operands()
    if names.surely("read_only"):
        return
    endings = [_PACKED.get(names.command.program or "", "")]
    endings += [each if each[:1] == "." else f".{each}" for each in names.value("-S", "--suffix") if each]
    for word in names.words:
        stem, dot, ending = (word.text or "").rpartition(".")
        if dot and ending in _UNPACKED:
            yield PossibleFile(stem + _UNPACKED[ending], WRITE)
        elif word.text is not None:
            yield from _with(word.text, *[each for each in endings if each])
