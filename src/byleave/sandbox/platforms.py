"""On which systems there is a sandbox at all. Pure, and imports nothing that only some systems have."""

from byleave.errors import SandboxError

_LINUX = "linux"


def obstacle_on(system: str) -> str | None:
    """Return why nothing is enforced by this system, named as `sys.platform` does; None where something can be."""
    if system == _LINUX:
        return None
    return (
        f"there is none for this system ({system}): `byleave run` refuses to run anything here, "
        "and tools are held only by the checks that they and the doors make themselves"
    )


def refuse_elsewhere(system: str) -> None:
    """Raise a SandboxError on a system where no sandbox can be set up: nothing runs in less than was asked for."""
    if obstacle_on(system) is not None:
        raise SandboxError(
            f"there is no sandbox for this system ({system}), so nothing was run",
            hint="run the program without byleave, or on Linux; `byleave check` and the hooks answer here too",
        )
