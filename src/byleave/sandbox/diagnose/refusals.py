"""Make findings of the calls that a program was refused. Pure.

`RefusedFiles`: a place is refused by the rule that holds there, or because the view has no such place.
`RefusedNetwork`: an address that was not reached, a name that was not looked up. Only HTTP and TLS leave a sandbox,
through the proxy, where a rule opens a host; so other traffic is reported as the host that it was meant for, as far as
that is known. `refused_call`: a system call that no program in a sandbox may make, and why.
"""

from __future__ import annotations

from errno import (
    EADDRNOTAVAIL,
    EBUSY,
    ECONNREFUSED,
    EEXIST,
    EHOSTUNREACH,
    EISDIR,
    ENETUNREACH,
    ENOENT,
    ENOTDIR,
    EXDEV,
    errorcode,
)
from ipaddress import ip_address
from os.path import commonpath, dirname, normpath
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.core.fs_rules import CAPABILITIES, is_under
from byleave.core.suggest import is_speakable, toml_string
from byleave.sandbox.diagnose.finding import (
    CALL,
    COMMAND,
    CREATE,
    DELETE,
    EXEC,
    FILE,
    HELD,
    LOOKED,
    NETWORK,
    NEVER,
    OUTSIDE,
    OWN,
    READ,
    SANDBOX,
    UPDATE,
    RefusalFinding,
    attempts_of,
    built_in,
    cautioned,
    merged,
)
from byleave.sandbox.plan.plan import PRIVATE
from byleave.text import shown

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from byleave.core.decision import Verdict
    from byleave.sandbox.diagnose.finding import Attempt, Scene
    from byleave.sandbox.diagnose.traced_calls import Observed
    from byleave.sandbox.plan.plan import PathGrant


LOOK = "look"
_ABSENT = (ENOENT, ENOTDIR)
_TAKEN = (EEXIST, EISDIR)
_CHANGES = frozenset({CREATE, UPDATE, DELETE, OWN})
_KERNEL = ("/proc", "/dev", "/sys")
# What every C library or language runtime looks at and does without.
_QUIET = (
    "/proc",
    "/run/nscd",
    "/run/systemd",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/var/lib/sss",
    "/var/run/nscd",
)
_CROWDED = ("", ".cache", ".config", ".local", ".local/lib", ".local/share", ".local/state")  # of a home directory
_SHARED = ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/usr", "/usr/local", "/var", "/var/cache", "/var/lib")
_DEVICES = "of the kernel's own files a sandbox has a few devices, and /proc to read"
_OWNERS = "a sandbox has one user, and gives nothing away to others"
_MOUNTS = "in the sandbox the two places are mounts of their own, so that nothing is renamed from one to the other"
_HELD_NAME = "it is held in place while the sandbox runs"
_PROTECTED = "protected place "
_UNREADABLE = "how paths are resolved"  # as core.file_decision calls it: no rule can name such a path


class RefusedFiles:
    """Finds what a program was refused at its files."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._plan = scene.plan
        self._root = scene.plan.root
        self._held = frozenset(held.path for held in scene.plan.held)

    def refused(self, observed: Observed) -> Iterator[RefusalFinding]:
        """Yield what one call was refused, each thing that it tried by itself."""
        found = []
        for attempt in attempts_of(observed, self._exists):
            each = self._evaluate(attempt, observed)
            if each is not None:
                found.append(each)
        if not found and observed.error == EXDEV:
            found.extend(self._apart(observed))
        yield from found

    def _evaluate(self, attempt: Attempt, observed: Observed) -> RefusalFinding | None:
        """Return the finding about one attempt; None if it would have failed outside as well."""
        outside = self._scene.outside
        lexical = normpath(attempt.path) if ".." not in attempt.path.split("/") else outside.real(attempt.path)
        path = outside.real(attempt.path, follows=attempt.follows)
        if observed.error in _ABSENT and not self._is_hidden(attempt.op, path):
            return None
        if observed.error in _TAKEN and not any(is_under(path, held) for held in self._held):
            return None
        if attempt.op == READ and self._is_quiet(lexical, path):
            return None
        if not self._could(attempt.op, path):
            return None
        if (attempt.look or attempt.op == EXEC) and self._is_found_elsewhere(path):
            return None
        if self._plan.commands is not None and self._is_command(attempt, lexical):
            return self._command(attempt, lexical, observed.words)
        inside = next((each for each in (lexical, path) if is_under(each, self._root)), None)
        place = self._plan.at(path)
        if inside is not None and (place is None or not place.source):
            return self._by_policy(attempt, inside, observed.error)
        return None if observed.error == EXDEV else self._by_view(attempt, path, place)

    def _exists(self, path: str) -> bool:
        """Whether something is at a path outside, beside what holds its name."""
        return path not in self._held and self._scene.outside.exists(path)

    def _could(self, op: str, path: str) -> bool:
        """Whether it would have worked without a sandbox. Held names are not there, and where they are is."""
        while op == CREATE and dirname(path) in self._held:
            path = dirname(path)
        return self._scene.outside.could(op, path)

    def _is_hidden(self, op: str, path: str) -> bool:
        """Whether a place is there outside, but not in the view: what is absent in both was not refused."""
        place = self._plan.at(path)
        if place is not None and place.kind != PRIVATE and place.capabilities and not self._is_covered(path):
            return False
        return self._scene.outside.exists(dirname(path) if op == CREATE else path)

    def _is_covered(self, path: str) -> bool:
        """Whether a place is in a directory of programs that only listed ones are seen of."""
        programs = self._plan.programs
        return programs is not None and any(is_under(path, covered) for covered in programs.covered)

    def _is_found_elsewhere(self, path: str) -> bool:
        """Whether a shell that looks for a program in one directory of PATH finds it in another."""
        directory, _slash, name = path.rpartition("/")
        others = [other for other in self._scene.search if other != directory]
        if len(others) == len(self._scene.search):
            return False
        return any(
            not self._is_hidden(EXEC, found) and self._scene.outside.exists(found)
            for found in [self._scene.outside.real(f"{other}/{name}") for other in others]
        )

    @staticmethod
    def _is_quiet(*paths: str) -> bool:
        return any(is_under(path, quiet) for path in paths for quiet in _QUIET)

    def _is_command(self, attempt: Attempt, path: str) -> bool:
        """Whether a program was to be started: shells look for it first, and do not even try what is not there."""
        name = path.rpartition("/")[2]
        looked_for = attempt.look and dirname(path) in self._scene.search and name not in self._names()
        return looked_for or (attempt.op == EXEC and not attempt.look)

    def _names(self) -> Container[str]:
        return self._plan.commands.rules if self._plan.commands is not None else ()

    def _command(self, attempt: Attempt, path: str, words: Sequence[str]) -> RefusalFinding:
        """Only listed programs may run: say what would list this one."""
        name = path.rpartition("/")[2]
        verdict = self._scene.ask("spawn", program=name, args=list(words[1:]))
        subject = " ".join([name, *words[1:]])
        if verdict.allowed:
            why = "it is listed, but not to be started by this path"
            return RefusalFinding(COMMAND, (EXEC,), (subject,), why, built_in(why), rank=NEVER, group=subject)
        suggestion, caution = cautioned(verdict.suggestion)
        if attempt.look and suggestion is not None:  # its words are not known yet
            suggestion = suggestion.partition("\nargs = ")[0]
        said = (COMMAND, (EXEC,), (subject,), verdict.reason, verdict.because[0])
        return RefusalFinding(*said, suggestion=suggestion, caution=caution, group=subject)

    # In the workspace

    def _by_policy(self, attempt: Attempt, inside: str, error: int) -> RefusalFinding | None:
        """Return what the policy says: the same words that `byleave check` has for it."""
        verdict = self._asked(attempt.op, inside)
        if verdict.allowed:
            return None if error == EXDEV else self._in_spite(attempt, inside, error)
        rank = LOOKED if attempt.look else HELD
        verb = LOOK if attempt.look else attempt.op
        rule = verdict.because[0]
        group = ("rule", rule.rule, rule.source, verdict.code)
        return RefusalFinding(
            FILE, (verb,), (self._name(inside),), verdict.reason, rule, rank=rank, group=group, places=(inside,)
        )

    def _asked(self, op: str, path: str) -> Verdict:
        name = path[len(self._root) :].strip("/") or "."
        return self._scene.ask(UPDATE if op == OWN else op, path=name)

    def _in_spite(self, attempt: Attempt, inside: str, error: int) -> RefusalFinding:
        """The policy allows it and the kernel did not: say what stands in between."""
        why = self._approximation(attempt.op, inside)
        if attempt.op == OWN:
            why = _OWNERS
        elif why is None:
            refusal = f"the kernel refused it ({errorcode.get(error, error)})"
            why = _HELD_NAME if error in (EBUSY, *_TAKEN) else refusal
        why = f"the policy allows it, but {why}" if attempt.op != OWN else why
        rank = LOOKED if attempt.look else NEVER
        verb = LOOK if attempt.look else attempt.op
        subjects = (self._name(inside),)
        return RefusalFinding(FILE, (verb,), subjects, why, built_in(why), rank=rank, group=why, places=(inside,))

    def _approximation(self, op: str, path: str) -> str | None:
        name, capability = self._name(path), "execute" if op == EXEC else op
        for each in self._scene.approximate:
            if not each.laxer and each.op in (capability, "any") and (each.path == "." or is_under(name, each.path)):
                return each.why
        return None

    def _apart(self, observed: Observed) -> Iterator[RefusalFinding]:
        """Yield a rename between two places of the workspace that is none in the sandbox."""
        paths = [self._scene.outside.real(path, follows=False) for path in observed.paths]
        if len(paths) == 2 and all(is_under(path, self._root) for path in paths):
            subject = " to ".join([self._name(path) for path in paths])
            yield RefusalFinding(FILE, ("rename",), (subject,), _MOUNTS, built_in(_MOUNTS), rank=NEVER, group=_MOUNTS)

    # Outside of it

    def _by_view(self, attempt: Attempt, path: str, place: PathGrant | None) -> RefusalFinding | None:
        """Return what the view has to do with it."""
        changes = attempt.op in _CHANGES
        if attempt.look and changes:
            return None
        rank = LOOKED if attempt.look else OUTSIDE
        verb = LOOK if attempt.look else attempt.op
        if attempt.op == OWN or any(is_under(path, kernel) for kernel in _KERNEL):
            why = _OWNERS if attempt.op == OWN else _DEVICES
            return self._outside(verb, path, why, NEVER if rank == OUTSIDE else rank, ("never", why))
        why = _why(place, changes=changes)
        return self._outside(verb, path, why, rank, ("view", self._natural(path, attempt.op), why))

    def _outside(self, verb: str, path: str, why: str, rank: int, group: object) -> RefusalFinding:
        rule, names = built_in(why), (self._name(path),)
        return RefusalFinding(FILE, (verb,), names, why, rule, None, None, SANDBOX, rank, 1, group, (path,))

    def _natural(self, path: str, op: str) -> str:
        """Return what a place belongs to, as people speak of it: ~/.cargo, or /opt/tool. New names need a directory."""
        found = self._belonging(path)
        return dirname(path) if found == path and op in (CREATE, DELETE) else found

    def _belonging(self, path: str) -> str:
        home = self._plan.home
        if home and is_under(path, home) and path != home:
            names = path[len(home) :].strip("/").split("/")
            depth = 1
            while depth < len(names) and "/".join(names[:depth]) in _CROWDED:
                depth += 1
            if names[0].startswith("."):
                return f"{home}/{'/'.join(names[:depth])}"
        above = dirname(path)
        return path if above in (*_SHARED, home) or is_under(self._root, above) else above

    # Remedies

    def with_remedy(self, found: RefusalFinding) -> RefusalFinding:
        """Return a finding with what would allow it, or with the reason to leave it alone."""
        if found.kind != FILE or found.rank == NEVER or not found.places:
            return found
        sensitive = next((name for place in found.places if (name := self._scene.sensitive(place))), None)
        if sensitive is not None:
            caution = f"secrets are kept there ({shown(sensitive)}): let the program do without if you can"
            return structs.replace(found, caution=caution)
        return self._opened(found) if found.belongs == SANDBOX else self._ruled(found)

    def _ruled(self, found: RefusalFinding) -> RefusalFinding:
        """Suggest the rule for all places of a finding: their common directory, where there are several."""
        if found.rule.rule == _UNREADABLE:
            return found
        target = self._target(found)
        texts = [self._suggestion(READ if verb == LOOK else verb, target, found) for verb in found.verbs]
        caution = None
        if found.rule.rule.startswith(_PROTECTED):
            caution = "what is written there is obeyed by programs outside of the sandbox; open it only for this"
        suggestion = None if None in texts else merged(texts)
        return structs.replace(found, suggestion=suggestion, caution=caution if suggestion else None)

    def _suggestion(self, op: str, target: str, found: RefusalFinding) -> str | None:
        verdict = self._asked(op, target)
        return (self._asked(op, found.places[0]) if verdict.allowed else verdict).suggestion

    def _target(self, found: RefusalFinding) -> str:
        """Return what a rule would have to name: the kernel opens directories, not names that are not there yet."""
        if len(found.places) > 1:
            return commonpath(found.places)
        (place,) = found.places
        named = found.rule.rule == f"{_PROTECTED}{self._name(place)}"
        needs_directory = bool({CREATE, DELETE}.intersection(found.verbs)) and not named and place != self._root
        return dirname(place) if needs_directory else place

    def _opened(self, found: RefusalFinding) -> RefusalFinding:
        """Suggest a line of `[sandbox]`: the place itself if it is the only one, else what they all belong to."""
        changes = bool(_CHANGES.intersection(found.verbs))
        (first, *others) = found.places
        new = CREATE if {CREATE, DELETE}.intersection(found.verbs) else READ
        path = self._natural(first, new) if others or new == CREATE else first
        if others and not all(is_under(each, path) for each in found.places):
            path = commonpath(found.places)
        place = self._plan.at(first)
        covered = place is not None and not place.capabilities
        if covered or not self._can_be_listed(path):
            return structs.replace(found, caution="on this machine only few may read it" if covered else None)
        key = "write" if changes else "read"
        of_system = changes and place is not None and place.kind != PRIVATE
        return structs.replace(
            found,
            suggestion=sandbox_toml([(key, path)], self._scene.listed, self._plan.home),
            listing=(key, path),
            caution="what is changed there is changed for the whole machine" if of_system else None,
        )

    def _can_be_listed(self, path: str) -> bool:
        disjoint = not is_under(self._root, path) and not is_under(path, self._root)
        if path in ("/", self._plan.home) or not disjoint or not is_speakable(path):
            return False
        return path.isprintable() and not any(
            is_under(path, own) or is_under(own, path) for own in self._scene.own_places
        )

    def _name(self, path: str) -> str:
        """Name a place as its user does: from the workspace on, or from home."""
        for base, short in ((self._root, ""), (self._plan.home, "~")):
            if base and is_under(path, base):
                return f"{short}{path[len(base) :]}".removeprefix("" if short else "/") or "."
        return path


def sandbox_toml(listings: Sequence[tuple[str, str]], listed: Mapping[str, Sequence[str]], home: str) -> str:
    """Return the `[sandbox]` table that lists some paths, each by its key, beside those that are listed already."""
    lines = ["[sandbox]"]
    for key in ("read", "write"):
        paths = [path for each, path in listings if each == key]
        if paths:
            names = [toml_string(_from_home(path, home)) for path in dict.fromkeys([*listed.get(key, ()), *paths])]
            lines.append(f"{key} = [{', '.join(names)}]")
    return "\n".join(lines)


def _from_home(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and is_under(path, home) else path


def _why(place: PathGrant | None, *, changes: bool) -> str:
    if place is None:
        return "it is not in the view of the sandbox"
    if changes and place.capabilities and place.kind != PRIVATE:
        may = "+".join(name for name in CAPABILITIES if name in place.capabilities)
        return f"{shown(place.path)} may only be used for {may}: {place.why}"
    if place.kind == PRIVATE:
        return f"{shown(place.path)} is {place.why}"
    return f"{shown(place.path)} is covered: {place.why}"


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
    """Finds what a program was refused on the network."""

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
        """A process of this machine listens there: the sandbox cannot see it."""
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
