"""System calls that no program in a sandbox may make, and why. Pure."""

from byleave.sandbox.finding import CALL, NEVER, Finding, built_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from byleave.sandbox.watched import Observed

_FILTER = "the filter of system calls"
_USUAL = "it reaches past what a sandbox can hold"
# By the beginning of a name.
_REASONS = (
    ("io_uring", "what it does passes by the filter of system calls; programs do without"),
    ("ptrace", "other processes are not to be looked into or steered"),
    ("process_", "other processes are not to be looked into or steered"),
    ("pidfd_getfd", "other processes are not to be looked into or steered"),
    ("kcmp", "other processes are not to be looked into or steered"),
    ("unshare", "no program in a sandbox makes namespaces of its own"),
    ("clone", "no program in a sandbox makes namespaces of its own"),
    ("setns", "no program in a sandbox makes namespaces of its own"),
    (("mount", "umount", "move_mount", "open_tree", "fs", "pivot_root", "chroot"), "what is mounted stays as it is"),
    (("add_key", "keyctl", "request_key"), "the kernel's keys are not the sandbox's"),
    (("bpf", "perf_event_open", "userfaultfd"), "it offers corners of the kernel that are little tested"),
    ("ioctl", "it would type into the terminal that the sandbox was started from"),
    (("memfd_create", "execveat"), "only listed programs may run, and this would run what has no name"),
)
_FAMILIES = {1: "a unix socket", 16: "a netlink socket", 17: "a packet socket", 38: "a crypto socket", 40: "a vsock"}
_UNIX = 1
_SOCKETS = "only internet sockets can be made"
_UNIX_SOCKETS = "unix sockets lead out of a sandbox by the file system; pairs of them (socketpair) work"


def refused_call(observed: "Observed") -> "Iterator[Finding]":
    """Yield the finding about a call that the filter refused, or that needs a privilege."""
    if not observed.refused:
        yield _never("call", observed.call, "a sandbox has one user, and a program in it stays who it is")
    elif observed.call == "socket":
        name = _FAMILIES.get(observed.flags, f"a socket of family {observed.flags}")
        why = _UNIX_SOCKETS if observed.flags == _UNIX else _SOCKETS
        yield _never("make", name, f"{_FILTER}: {why}")
    else:
        why = next((why for names, why in _REASONS if observed.call.startswith(names)), _USUAL)
        yield _never("call", observed.call, f"{_FILTER}: {why}")


def _never(verb: str, subject: str, why: str) -> Finding:
    return Finding(CALL, (verb,), (subject,), why, built_in(why), rank=NEVER, group=why)
