"""Write the manual pages, one for byleave and one for each command, from the table of commands.

    python tools/manual.py DIRECTORY

The wheel brings them along (hatch_build.py): `man byleave`, `man byleave-run`. The text is that of `byleave help`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src"))

from byleave import __version__
from byleave.cli.arguments import usage
from byleave.cli.commands import COMMON, EXIT_CODES, ROOT, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.cli.arguments import CommandSpec, OptionSpec

_FILES = (
    ("byleave.toml", "the policy of a project"),
    (".byleave/local.toml", "your own policy for a project, which is not shared"),
    ("~/.config/byleave/config.toml", "your own policy for every project"),
    ("/etc/byleave/config.toml", "the policy of the machine"),
)


def manual_pages() -> dict[str, str]:
    """Return every page by its file name."""
    pages = {"byleave.1": "".join(_page((), ROOT))}
    for command in ROOT.subcommands:
        pages[f"byleave-{command.name}.1"] = "".join(_page((command.name,), command))
    return pages


def _page(path: tuple[str, ...], command: CommandSpec) -> Iterator[str]:
    title = "-".join(("byleave", *path))
    yield f'.TH {title.upper()} 1 "{_date()}" "byleave {__version__}" "byleave"\n'
    yield f".SH NAME\n{_text(title)} \\- {_text(command.help.rstrip('.'))}\n"
    yield f".SH SYNOPSIS\n.nf\n{_text(usage(command, path))}\n.fi\n"
    if command.details:
        yield f".SH DESCRIPTION\n{_paragraphs(command.details)}"
    if not path:
        yield ".SH COMMANDS\n"
        yield from (_entry(f"byleave-{each.name}(1)", each.help) for each in command.subcommands)
    else:
        yield from (_part(path, child) for child in command.subcommands)
    yield from _words(command)
    if command.options:
        yield ".SH OPTIONS\n"
        yield from map(_option, command.options)
    yield ".SH COMMON OPTIONS\n"
    yield from map(_option, COMMON if path else (*COMMON, VERSION))
    if not path:
        yield ".SH EXIT STATUS\n"
        yield from (_entry(str(code), text) for code, text in EXIT_CODES)
        yield ".SH FILES\n"
        yield from (_entry(name, text) for name, text in _FILES)
        yield ".SH SEE ALSO\n" + _listed(f"byleave-{each.name}" for each in command.subcommands)
    else:
        yield ".SH SEE ALSO\n" + _listed(["byleave"])


def _date() -> str:
    """Return the day of the sources, by which two builds of them are the same; "" where it is not known."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.strftime("%Y-%m-%d", time.gmtime(int(epoch))) if epoch else ""


def _part(path: tuple[str, ...], command: CommandSpec) -> str:
    """Return the part of a page that describes one command below the page's own."""
    here = (*path, command.name)
    parts = [
        f".SH {_text(' '.join(here)).upper()}\n{_text(command.help)}\n.PP\n.nf\n{_text(usage(command, here))}\n.fi\n"
    ]
    parts += [f".PP\n{_paragraphs(command.details)}"] if command.details else []
    parts += [*_words(command, ""), *map(_option, command.options)]
    return "".join(parts)


def _words(command: CommandSpec, heading: str = ".SH ARGUMENTS\n") -> Iterator[str]:
    if command.positionals:
        yield heading
    for each in command.positionals:
        yield _entry(each.name, f"{each.help} ({', '.join(each.choices)})" if each.choices else each.help)


def _option(option: OptionSpec) -> str:
    value = "" if option.value is None else f"[={option.value}]" if option.optional else f" {option.value}"
    return _entry(f"{', '.join(option.names)}{value}", option.help)


def _entry(name: str, text: str) -> str:
    return f".TP\n.B {_text(name)}\n{_text(text)}\n"


def _listed(names: Iterable[str]) -> str:
    *first, last = [f".BR {_text(name)} (1)" for name in names]
    return "".join(f"{line},\n" for line in first) + f"{last}\n"


def _paragraphs(details: str) -> str:
    parts = []
    for paragraph in details.split("\n\n"):
        if paragraph.startswith(" "):  # an example, as it is
            parts.append(".nf\n{}\n.fi\n".format("\n".join(map(_text, paragraph.split("\n")))))
        else:
            parts.append(f"{_text(' '.join(paragraph.split()))}\n")
    return ".PP\n".join(parts)


def _text(text: str) -> str:
    """Return a line that the formatter takes as it is: no requests, no ligatures of quotes and dashes."""
    marked = text.replace("\\", "\\(rs").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    marked = marked.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{marked}" if marked.startswith((".", "'", "\\(aq")) else marked


def main() -> None:
    """Write every page into the directory that is named."""
    (directory,) = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    for name, text in manual_pages().items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
