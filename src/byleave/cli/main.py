"""The entrance: read the command line, load the one command that was asked for, turn errors into text."""

import os
import sys

from byleave.cli.arguments import Given, help_text, read_arguments
from byleave.cli.commands import COMMON, ROOT, VERSION
from byleave.errors import ByleaveError, ConfigErrors

FAILED = 1
INTERRUPTED = 130


def run() -> int:
    """Run the command line of this process and return its exit code."""
    return main(sys.argv[1:])


def main(argv: "list[str]") -> int:
    """Run one command; whatever goes wrong becomes a sentence and an exit code, never a traceback."""
    try:
        return _dispatch(argv)
    except (ByleaveError, ConfigErrors) as error:
        return _report(error, as_json="--json" in argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return FAILED
    except OSError as error:
        _say(f"byleave: {error.strerror or error}")
        return FAILED
    except Exception as error:  # noqa: BLE001 -- the outermost frame: a defect of ours must not look like an answer
        return _defect(error, verbose="-v" in argv or "--verbose" in argv)


def _dispatch(argv: "list[str]") -> int:
    given = read_arguments(ROOT, (*COMMON, VERSION), argv)
    if given.flag("version"):
        from byleave import __version__

        print(f"byleave {__version__}")  # noqa: T201 -- the command line speaks on stdout
        return 0
    if given.flag("help") or not given.command.module or _is_bare(given):
        print(help_text(given.command, given.path, COMMON))  # noqa: T201 -- as above
        return 0 if given.flag("help") else 2
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # `__import__`, because importlib costs half a millisecond that `check` does not have.
    module = __import__(f"byleave.cli.{given.command.module}_command", fromlist=["run"])
    code: int = module.run(given)
    return code


def _is_bare(given: Given) -> bool:
    return bool(given.command.subcommands) and not given.flag("batch")


def _report(error: ByleaveError | ConfigErrors, *, as_json: bool) -> int:
    if as_json:
        import json

        print(json.dumps({"error": {"code": error.code, "message": str(error)}}))  # noqa: T201 -- as above
    else:
        _say(f"byleave: {error}")
    return error.exit_code


def _defect(error: Exception, *, verbose: bool) -> int:
    _say(f"byleave: internal error: {type(error).__name__}: {error}\n  hint: please report this; -v shows where it was")
    if verbose:
        import traceback

        traceback.print_exception(error)
    return FAILED


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
    except (OSError, ValueError):
        return


def _silence_stdout() -> None:
    """Nobody reads any more: keep the interpreter from complaining about it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
