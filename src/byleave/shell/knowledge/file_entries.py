"""What an entry of `program_files` says: the files that a program names. Data beside `program_options.toml`.

An entry says what the operands are, one role each, the last one repeated; what the values of options are, by role; and
with which options a directory among the operands is walked. Roles:

- `read`, `write` (made or changed), `edit` (read and written), `delete`, `run` (read and executed)
- `bind`: `SOURCE:TARGET`, a directory that is read and written elsewhere with all that is in it
- `member`: `NAME=PLACE` or PLACE, a file or a directory whose files are read
- `data`: not a file, or one whose name is only listed or tested
- `other`: perhaps a file; it counts where it leads to a place that a rule or byleave closes
- `sent`, `encoded`, `form`: text, or the file of `@FILE`, `NAME@FILE`, `NAME=@FILE`
- `list`: files with commas between them; `manifests`: the same, and of a directory the files of its kinds are read
- `labelled`: `FILE#LABEL`; `joined`: files with bars between them, perhaps behind the name of a protocol
- `teed`: `FILE`, or several as `[OPTIONS]FILE|FILE`, which are written
- `code`: a text in some language; a string in it counts as `other`. `script`: the same for words of a shell script

`instead`: options that take the place of the first operand. `tree`: options with which directories are walked, `*` for
always, `-d=rec` for a value that starts so. `gone`: options with which a deleted directory goes away as a whole;
without the key it always does. `here`: without operands the working directory is walked. `only`: operands are `data`
unless such an option is given; `quiet`: or if one is, unless one of `loud` is given too. `whole`: options with which
everything in the repository is touched where no operand says what. `shape`: a way of naming files that roles do not
say; `named_file_shapes` knows it. `packing`: beginnings of the words behind the program with which it takes in, or
shows to others, everything below the working directory. `sub`: the same by subcommand; a subcommand without an entry
has operands of the role `other`. The values of options that no entry names are what the option tables say, else
`other`.

Formatters, clients of services, media tools and the like (`files_of_tools`) have more keys: `kinds` are the endings of
the files that a program touches in a directory that it walks, `skips` directories it leaves out there; `verbs` are
first operands, not counted; without one of them operands have the role `other`. More roles: `cookie` is text with an
equals sign, else a file; `at` is text, or holds a file behind `@`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Entry = dict[str, Any]


_SKIPPED = (
    *(".git", ".hg", ".svn", ".jj", ".sl", "node_modules", ".venv", "venv", ".tox", ".nox", ".direnv", ".eggs"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", "__pypackages__", "vendor", "target"),
)


def entry(operands: str, **more: Any) -> Entry:
    """Return the entry of a program by the roles of its operands."""
    return {"operands": tuple(operands.split()), **more}


def formatter(kinds: str, *writing: str, dry: str = "", here: bool = False, **options: str) -> Entry:
    """Return the entry of a program that walks directories for files of its languages.

    It writes them with the options of `writing`; without any, unless one of `dry` is given.
    """
    known = {role: names.split() for role, names in options.items()}
    known["data"] = [*known.get("data", ()), *_PLAIN]
    made = entry(
        "read" if writing else "edit", tree=["*"], kinds=tuple(kinds.split()), skips=_SKIPPED, here=here, options=known
    )
    if writing:
        made["read_and_write"] = list(writing)
    elif dry:
        made["read_only"] = dry.split()
    made["quiet"] = ["--check"]  # it says which files it would change, and shows nothing of them
    made["loud"] = ["--diff", *writing]
    return made


# Options of many formatters whose values are no files.
_PLAIN = (
    *("--select", "--ignore", "--extend-select", "--line-length", "--target-version", "--output-format", "--parser"),
    *("--ext", "--max-warnings", "--log-level", "--loglevel", "--exclude", "--extend-exclude", "--style", "--edition"),
)
