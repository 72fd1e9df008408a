"""Addresses that a program could not reach, and names that it could not look up. Pure.

Nothing leaves a sandbox but HTTP and TLS, through the proxy, where a rule opens a host. So what is refused below that
is reported as the host that it was meant for, as far as that is known.

System calls that no program in a sandbox may make, and why. Pure.
"""

from __future__ import annotations

from errno import EADDRNOTAVAIL, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.sandbox.diagnose.finding import CALL, HELD, NETWORK, NEVER, RefusalFinding, built_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from byleave.core.decision import Verdict
    from byleave.sandbox.diagnose.diagnosis import Scene
    from byleave.sandbox.diagnose.traced_calls import Observed


_INET, _INET6 = 2, 10  # AF_INET, AF_INET6
_DNS = 53
_SCHEMES = {80: "http", 443: "https"}
_LOOPBACK = "the loopback of this machine is not the sandbox's"
_UNASKED = "the rules open it, but only for programs that use the proxy (http_proxy and https_proxy name it)"
_OTHER = "only HTTP and TLS leave a sandbox, by the proxy: if it is one of them, a rule opens it"


class SocketAddress(Struct, frozen=True):
    """An internet address and a port."""

    family: int
    host: str
    port: int

    @property
    def text(self) -> str:
        """The address as a person writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class RefusedNetwork:
    """Judges what was observed of a program's network."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def denied(self, url: str, reason: str) -> RefusalFinding:
        """Return the finding about a URL that the proxy did not open."""
        verdict = self._scene.ask("url", url=url)
        if verdict.allowed:  # the rule holds, but something else did not
            return RefusalFinding(NETWORK, ("reach",), (url,), reason, verdict.because[0], group=reason)
        return self._by_policy("reach", url, verdict)

    def refused(self, observed: Observed) -> Iterator[RefusalFinding]:
        """Yield what a call to an address was refused, if it would have come through without a sandbox."""
        address = read_address(observed.address)
        if address is None:
            return
        name = read_question(observed.question) if address.port == _DNS else None
        if name is not None:
            yield self._looked_up(name)
        elif observed.call == "bind":
            yield from self._bound(observed, address)
        elif observed.error:
            yield from self._unreached(observed, address)

    def tidied(self, found: Iterable[RefusalFinding]) -> list[RefusalFinding]:
        """Leave out names that were only made up from a name: a resolver tries it with its own domains, too."""
        kept = list(found)
        names = {name for each in kept if each.verbs == ("look up",) for name in each.subjects}
        made_up = {name for name in names if any(name.startswith(f"{other}.") for other in names)}
        return [each for each in kept if each.verbs != ("look up",) or each.subjects[0] not in made_up]

    def _looked_up(self, name: str) -> RefusalFinding:
        verdict = self._scene.ask("url", url=f"https://{name}/")
        if verdict.allowed:
            return _never("look up", name, _UNASKED)
        return self._by_policy("look up", name, verdict)

    def _bound(self, observed: Observed, address: SocketAddress) -> Iterator[RefusalFinding]:
        if observed.error == EADDRNOTAVAIL:
            why = "there is only loopback in the sandbox, and no other program could connect to it"
        elif self._scene.outside.may_listen_at(address.port):
            why = "ports below 1024 need a privilege, and a sandbox has none"
        else:
            return
        yield _never("listen at", address.text, why)

    def _unreached(self, observed: Observed, address: SocketAddress) -> Iterator[RefusalFinding]:
        outside, where = self._scene.outside, ip_address(address.host)
        if where.is_loopback or where.is_unspecified:
            if observed.error == ECONNREFUSED and outside.listens(address.port):
                yield self._to_neighbour(address)
        elif observed.error in (ENETUNREACH, EHOSTUNREACH) and outside.reaches(*_fields(address)):
            yield self._to_address(address)

    def _to_neighbour(self, address: SocketAddress) -> RefusalFinding:
        """Somebody listens there, on this machine: the sandbox cannot see it."""
        verdict = self._scene.ask("url", url=_url(address))
        if verdict.allowed:
            return _never("connect to", address.text, _UNASKED)
        found: RefusalFinding = structs.replace(
            self._by_policy("connect to", address.text, verdict), rule=built_in(_LOOPBACK)
        )
        return _unsure(structs.replace(found, why=_LOOPBACK), address)

    def _to_address(self, address: SocketAddress) -> RefusalFinding:
        verdict = self._scene.ask("url", url=_url(address))
        if verdict.allowed:
            return _never("connect to", address.text, _UNASKED)
        return _unsure(self._by_policy("connect to", address.text, verdict), address)

    def _by_policy(self, verb: str, subject: str, verdict: Verdict) -> RefusalFinding:
        suggestion = verdict.suggestion
        if verb == "look up" and suggestion is not None:  # for what is not known yet
            lines = [line for line in suggestion.splitlines() if not line.startswith(("scheme =", "port ="))]
            suggestion = "\n".join(lines)
        return RefusalFinding(
            NETWORK,
            (verb,),
            (subject,),
            verdict.reason,
            verdict.because[0],
            suggestion=suggestion,
            rank=HELD,
            group=subject,
        )


def _unsure(found: RefusalFinding, address: SocketAddress) -> RefusalFinding:
    """Say of a port that is not one of the web's that a rule may not be enough."""
    return found if address.port in _SCHEMES else structs.replace(found, why=_OTHER)


def _never(verb: str, subject: str, why: str) -> RefusalFinding:
    return RefusalFinding(NETWORK, (verb,), (subject,), why, built_in(why), rank=NEVER, group=why)


def read_address(raw: bytes) -> SocketAddress | None:
    """Return the internet address in a struct sockaddr; None if it is of another family."""
    family = int.from_bytes(raw[:2], "little")
    size, start = {_INET: (4, 4), _INET6: (16, 8)}.get(family, (0, 0))
    packed = raw[start : start + size]
    if not size or len(packed) < size:
        return None
    address = ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return SocketAddress(family, str(mapped or address), int.from_bytes(raw[2:4], "big"))


def read_question(packet: bytes) -> str | None:
    """Return the name that a question to a name server is about, as far as it is a name of a host."""
    labels, at = [], 12
    while at < len(packet) and packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]])
        at += 1 + packet[at]
    name = b".".join(labels).decode("ascii", "replace").lower()
    return name if name and all(char.isalnum() or char in "-_." for char in name) else None


def _fields(address: SocketAddress) -> tuple[int, str, int]:
    family = _INET6 if ":" in address.host else _INET
    return family, address.host, address.port


def _url(address: SocketAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{_SCHEMES.get(address.port, 'http')}://{host}:{address.port}/"


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


def refused_call(observed: Observed) -> Iterator[RefusalFinding]:
    """Yield the finding about a call that the filter refused, or that needs a privilege."""
    if not observed.refused:
        yield _refused_calls_never("call", observed.call, "a sandbox has one user, and a program in it stays who it is")
    elif observed.call == "socket":
        name = _FAMILIES.get(observed.flags, f"a socket of family {observed.flags}")
        why = _UNIX_SOCKETS if observed.flags == _UNIX else _SOCKETS
        yield _refused_calls_never("make", name, f"{_FILTER}: {why}")
    else:
        why = next((why for names, why in _REASONS if observed.call.startswith(names)), _USUAL)
        yield _refused_calls_never("call", observed.call, f"{_FILTER}: {why}")


def _refused_calls_never(verb: str, subject: str, why: str) -> RefusalFinding:
    return RefusalFinding(CALL, (verb,), (subject,), why, built_in(why), rank=NEVER, group=why)
