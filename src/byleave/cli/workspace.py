"""The workspace and the policy that the common flags name; with `-v`, what was read for them."""

import os

from byleave.api import Workspace
from byleave.cli.output import tell, warn
from byleave.config.layers import ENCLOSING
from byleave.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.cli.arguments import Given
    from byleave.guard.judge import Policy


def working_directory() -> str:
    """Return the working directory, which somebody may have removed meanwhile."""
    try:
        return os.getcwd()
    except OSError as error:
        raise InputError(
            f"the working directory cannot be used: {error.strerror}", hint="go to one that exists, or give --root DIR"
        ) from None


def open_workspace(given: "Given", root: str | None = None) -> Workspace:
    """Return the workspace at `root`, else at `--root`, else around the working directory."""
    wanted = root if root is not None else given.one("root")
    if wanted == "":
        raise InputError("the root is empty", hint="name a directory, or leave the root out to have it found")
    return Workspace(wanted)


def load_policy(given: "Given", workspace: Workspace) -> "Policy":
    """Return the policy that the common flags ask for."""
    session = given.one("session")
    return workspace.load(files=given.options.get("policy", ()), session=session if session is not None else "default")


def open_policy(given: "Given") -> "Policy":
    """Return the policy of the workspace, and show its warnings and, with `-v`, where it came from."""
    policy = load_policy(given, open_workspace(given))
    tell(given, origins(policy))
    warn(given, policy.warnings)
    return policy


def origins(policy: "Policy") -> "Iterator[str]":
    """Yield a sentence for everything that was read."""
    yield f"the workspace is {policy.root.path}"
    for layer in policy.compiled.layers:
        around = ", which only tightens" if layer.name == ENCLOSING else ", which is not trusted"
        trust = "" if layer.trusted else around
        yield f"read {layer.file} ({layer.name}){trust}"
    if not policy.compiled.layers:
        yield "no configuration was found: only the built-in rules hold"
