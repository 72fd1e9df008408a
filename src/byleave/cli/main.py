"""Read the command line, load and run its command, turn errors into text and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from byleave import __version__
from byleave.cli.arguments import ParsedArguments, help_text, read_arguments
from byleave.cli.commands import COMMON, ROOT, VERSION
from byleave.cli.output import buffer_output, complain, fitted, open_closed_streams, say, say_json, silence
from byleave.errors import ByleaveError, ConfigErrors
from byleave.text import shown, shown_lines

FAILED = 1
MISUSED = 2
INTERRUPTED = 130


def run() -> int:
    """Run the command line of this process and return its exit code."""
    return main(sys.argv[1:])


def main(argv: list[str]) -> int:
    """Run one command; whatever goes wrong becomes a sentence and an exit code, never a traceback."""
    try:
        open_closed_streams()
        buffer_output()
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        code = _answer(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        silence(sys.stdout)
        return FAILED
    except OSError as error:
        place = f"{shown(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
        complain(f"byleave: {place}{error.strerror or error}")
        silence(sys.stdout)
        return FAILED
    except Exception as error:  # noqa: BLE001 -- the outermost frame: a defect must not look like a decision
        return _defect(error, verbose="-v" in argv or "--verbose" in argv)
    return code


def _answer(argv: list[str]) -> int:
    try:
        return _dispatch(argv)
    except (ByleaveError, ConfigErrors) as error:
        if "--json" in argv[: argv.index("--") if "--" in argv else None]:
            say_json({"error": {"code": error.code, "message": shown_lines(str(error))}})
        else:
            complain(fitted(_with_docs(f"byleave: {shown_lines(str(error))}"), sys.stderr))
        return error.exit_code


def _dispatch(argv: list[str]) -> int:
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    given = read_arguments(ROOT, (*COMMON, VERSION), argv)
    if given.flag("version") and given.flag("json"):
        from byleave.cli.version import version_tree  # looks at files, which the plain answer does not need

        say_json(version_tree())
        return 0
    if given.flag("version"):
        say(f"byleave {__version__}")
        return 0
    if given.flag("help"):
        say(_with_docs(_help(given)))
        return 0
    if not given.command.module or _is_bare(given):
        complain(_help(given))
        return MISUSED
    module = import_module(f"byleave.cli.{given.command.module}_command")
    code: int = module.run(given)
    return code


def _help(given: ParsedArguments) -> str:
    return help_text(given.command, given.path, COMMON if given.path else (*COMMON, VERSION))


def _with_docs(text: str) -> str:
    """Return a text that names a page of the documentation with where the pages are."""
    if "see docs/" not in " ".join(text.lower().split()):
        return text
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for around in (package, os.path.dirname(os.path.dirname(package))):  # installed, or beside the sources
        if os.path.isfile(os.path.join(around, "docs", "configuration.md")):
            return f"{text}\n\ndocs/ is in {shown(around)}"
    return text


def _is_bare(given: ParsedArguments) -> bool:
    alone = given.command.alone
    return bool(given.command.subcommands) and not (alone and given.flag(alone))


def _defect(error: Exception, *, verbose: bool) -> int:
    complain(f"byleave: internal error: {type(error).__name__}: {shown(str(error))}")
    complain("  hint: please report this; -v shows where it was")
    if verbose:
        complain(shown_lines("".join(traceback.format_exception(error)).rstrip()))
    return FAILED
