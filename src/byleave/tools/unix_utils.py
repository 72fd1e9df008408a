"""Run one of the old utilities that read files and print."""

from typing import Annotated

from byleave.sdk.tool import ToolError, tool
from byleave.sdk.vfs_errors import NotFound
from byleave.tools.texts import LONGEST_TEXT
from byleave.tools.unix_options import UTILS, problem_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from byleave.sdk.vfs import Completed, Host


@tool
def unix_utils(
    host: "Host",
    util: Annotated[str, f"one of {', '.join(UTILS)}"],
    args: Annotated[list[str] | None, "its options and operands; paths are relative to the workspace"] = None,
) -> "list[dict[str, Any]]":
    """Run a utility that reads files and prints, such as wc, sort or diff, in the workspace.

    The first block is what it printed. A second tells the exit code, if it is not 0, and what it said on stderr.
    Options that write, execute or wait for more are refused, as are paths that leave the workspace. There is no input
    to read from: name files.
    """
    problem = problem_with(util, args or [])
    if problem is not None:
        raise ToolError(problem)
    try:
        done = host.run(util, args or [])
    except NotFound:
        raise ToolError(f"{util} is not installed here") from None
    return _blocks(done)


def _blocks(done: "Completed") -> "list[dict[str, Any]]":
    blocks = [{"type": "text", "text": _shown(done.stdout)}]
    notes = [f"exit code {done.exit_code}"] if done.exit_code else []
    notes += [_shown(done.stderr).rstrip("\n")] if done.stderr else []
    return [*blocks, {"type": "text", "text": "\n".join(notes)}] if notes else blocks


def _shown(output: str | bytes) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n... ({len(text)} characters)"


@unix_utils.formatter
def _format(arguments: "Mapping[str, Any]") -> str:
    from shlex import join

    return f"run {join([arguments['util'], *(arguments.get('args') or [])])}"
