"""A plan as arguments for `bwrap`, where our own namespaces are refused and its are not. Pure.

Some systems let that one program make namespaces (it is setuid, or AppArmor has a profile for it). It builds the same
view; our launcher, as process 1 in there, does the rest: limits, Landlock, the filter, the program.
"""

from byleave.core.fs import is_under
from byleave.sandbox.linux import (
    COVER_DIRECTORY,
    EMPTY_DIRECTORY,
    PROXY_PORT,
    RDONLY,
    SHARED_DIRECTORIES,
    program_steps,
)
from byleave.sandbox.plan import DIRECTORY, LINK, PROXY, Approximation
from byleave.sandbox.tape import step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.sandbox.linux import Arrangement, Host, Mount
    from byleave.sandbox.plan import Plan
    from byleave.sandbox.tape import Step

PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap")  # never one that PATH merely names
LAUNCHER = "/.byleave/launcher"
UNTOLD = ("start",)  # approximations that nobody needs to be warned of
_MODES = {COVER_DIRECTORY: "0000", EMPTY_DIRECTORY: "0555"}
_BEGINNING = ("--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox")
_LENT = ("--cap-add", "CAP_SETPCAP")


def obstacle(plan: "Plan", launcher: "tuple[str, ...]") -> str | None:
    """Return why bwrap cannot hold a plan with this launcher; None if it can."""
    if len(launcher) > 1:
        return "the launcher in Python cannot run in its view"
    if plan.commands is not None:
        return "a list of commands needs namespaces of our own"
    return None


def wrapping(
    bwrap: str,
    plan: "Plan",
    arrangement: "Arrangement",
    launcher: str,
    *,
    lends: bool = True,
    kernel_secrets: "tuple[tuple[str, str], ...]" = (),
) -> tuple[str, ...]:
    """Return the words that start the launcher in a view like the one that our own steps build.

    `lends`: bwrap may leave our launcher the one capability by which it empties the bounding set. One that is setuid
    leaves none to an ordinary user, and empties the set itself.
    """
    return (
        bwrap,
        *_BEGINNING,
        *(_LENT if lends else ()),
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        *(word for path, kind in kernel_secrets for word in _shaded(path, kind)),
        *(word for link in plan.links for word in ("--symlink", link.target, link.path)),
        *_shown(arrangement),
        "--ro-bind",
        launcher,
        LAUNCHER,
        "--remount-ro",
        "/",
        "--chdir",
        "/",
        "--",
        LAUNCHER,
    )


def _shown(arrangement: "Arrangement") -> "Iterator[str]":
    """Yield mounts and private directories, those around others first."""
    mounts = {mount.path: mount for mount in arrangement.mounts if mount.kind != LINK}
    for path in sorted({*mounts, *arrangement.private}, key=_names):
        mount = mounts.get(path)
        if mount is None:
            yield from ("--perms", "1777" if path in SHARED_DIRECTORIES else "0700", "--tmpfs", path)
        else:
            yield from _mounted(mount)
    for mount in arrangement.mounts:
        if mount.hollow:
            yield from ("--remount-ro", mount.path)


def _mounted(mount: "Mount") -> tuple[str, ...]:
    if mount.hollow:
        return ("--perms", "0111", "--tmpfs", mount.path)
    if mount.cover in _MODES:
        return ("--perms", _MODES[mount.cover], "--tmpfs", mount.path, "--remount-ro", mount.path)
    if mount.cover is not None:  # a device on a mount without devices: nobody opens it
        return ("--ro-bind", "/dev/null", mount.path)
    return ("--ro-bind" if mount.attributes & RDONLY else "--bind", mount.source or mount.path, mount.path)


def _shaded(path: str, kind: str) -> tuple[str, ...]:
    if kind == DIRECTORY:
        return ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", "/dev/null", path)


def _names(path: str) -> list[str]:
    return path.strip("/").split("/")


def steps(plan: "Plan", arrangement: "Arrangement", host: "Host", filtering: bytes) -> "Iterator[Step]":
    """Yield what the launcher does in there, but for the last step, which names the program."""
    yield step("report")
    if plan.network == PROXY:
        yield step("listen", PROXY_PORT)
    yield step("spawn")
    yield from program_steps(plan, arrangement, host, filtering)


def approximations(plan: "Plan", arrangement: "Arrangement") -> "Iterator[Approximation]":
    """Yield what bwrap does not hold as our own steps do."""
    for mount in arrangement.mounts:
        if mount.kind == LINK:
            name = mount.path[len(plan.root) :].strip("/") if is_under(mount.path, plan.root) else mount.path
            why = "it is a link, and bwrap mounts nothing on a link: what it leads to is held, its own name is not"
            yield Approximation(name, "any", why, laxer=True)
    why = "bwrap follows a link that is put in the place of a directory at the moment of the start"
    yield Approximation(".", "start", why, laxer=True)
    why = "what somebody outside puts in the place of something that is held here is not held any more"
    yield Approximation(".", "exchange", why, laxer=True)
