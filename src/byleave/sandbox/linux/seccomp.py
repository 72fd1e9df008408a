"""The system call filter of a sandbox, as the BPF program that the kernel runs before every call. Pure.

What is not named here is allowed: a program needs most calls for ordinary work, and the view, Landlock and the lack of
capabilities hold it as well. Named are the calls that reach past those three, and those that offer the kernel's least
tested corners to any program. The kernel remembers which calls are always allowed, so they cost nothing.
"""

from __future__ import annotations

from struct import pack, unpack
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from byleave.sandbox.diagnose.traced_calls import SystemCall

EPERM, EACCES, EAFNOSUPPORT, ENOSYS = 1, 13, 97, 38

# The calls that are looked at, and their numbers on x86-64 and on arm64; None where there is no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "delete_module": (176, 106),
    "execveat": (322, 281),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "ioprio_set": (251, 30),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}

# The same for calls that reach other programs of this machine, where namespaces do not keep those out of reach.
SHARED_NUMBERS = {
    "ioprio_set": (251, 30),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "prlimit64": (302, 261),
    "process_mrelease": (448, 448),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setpriority": (141, 140),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
}
_SCHEDULING = ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler")
_WHOM = {
    "prlimit64": 0,
    "setpriority": 1,
    "ioprio_set": 1,
    **dict.fromkeys(_SCHEDULING, 0),
}  # whose; 0: the caller's own
# The first argument that means a process. The others mean a group or a user, and 0 is then all that is the caller's.
_FOR_A_PROCESS = {"setpriority": 0, "ioprio_set": 1}

# Refused whatever their arguments are. ENOSYS where programs know how to do without.
_UNREPORTED = (
    "clone3",
    "listmount",
    "openat2",
    "statmount",
)  # tried by every C library or every tool, and no program misses them
# `openat2` takes its mode from memory, where a filter cannot look.
_ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "openat2")
# Which argument is the mode of a file; for the last ones, only where the flags before it say that a file is made.
_MODES = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
_OPENING = {"open": 2, "openat": 3}
_GROUPS = {"setpriority": 1, "ioprio_set": 2}  # PRIO_PGRP, IOPRIO_WHO_PGRP: our caller is in our process group
_BY_ARGUMENT = (
    *("clone", "execveat", "ioctl", "memfd_create", "personality", "socket", "socketpair", "unshare"),
    *(*_MODES, *_OPENING, *_GROUPS),
)
_REFUSED = tuple(name for name in NUMBERS if name not in (*_ABSENT, *_BY_ARGUMENT))

_NAMESPACES = 0x7E020080  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME
_READ_IMPLIES_EXEC = 0x0400000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI types into the terminal, TIOCLINUX pastes into it
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_TYPE_OF_SOCKET, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_SET_ID = 0o6000  # a process that runs such a file runs as its owner: outside the sandbox, too
_MAKES_A_FILE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_X32 = 0x40000000

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
TRAP, TRACE = 0x00030000, 0x7FF00000
USER_NOTIFICATION = 0x7FC00000
_TO_WRITE = 0o1003  # O_WRONLY, O_RDWR, O_TRUNC
# Calls that native/notes.c knows.
_WRITING: dict[str, tuple[int | None, int | None]] = {
    "open": (2, None),
    "openat": (257, 56),
    "creat": (85, None),
    "truncate": (76, 45),
    "unlink": (87, None),
    "rmdir": (84, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "link": (86, None),
    "linkat": (265, 37),
}
_LISTING: dict[str, tuple[int | None, int | None]] = {"getdents64": (217, 61)}  # native/listing.c reads them
MARK = 0x6200  # reported with a trap, and with it the error: native/trace.c knows by it that the refusal is ours
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN, _JUMP, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x05, 0x54
_INSTRUCTION = "=HBBI"  # struct sock_filter: operation, skipped if true, skipped if false, value
_A_RETURN = pack("=H", _RETURN)
_FARTHEST = 255  # instructions that a comparison can skip
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; each argument's low half comes first


class FilterOptions(msgspec.Struct, frozen=True):
    """What differs between sandboxes: whether internet sockets may be made, and whether only given programs may run.

    `reported` refusals are the same refusals, but the tracer of the program gets them.
    """

    sockets: bool = True
    listed_programs_only: bool = False
    reported: bool = False


def known_architecture(machine: str) -> bool:
    """Whether there is a filter for this kind of machine."""
    return machine in _ARCHITECTURES


def make_filter(machine: str, options: FilterOptions) -> bytes:
    """Return the program for a machine, as an array of struct sock_filter."""
    architecture, column = _ARCHITECTURES[machine]
    program = [
        _code(_LOAD, _ARCHITECTURE),
        _code(_EQUAL, architecture, 1, 0),
        _code(_RETURN, KILL),  # another architecture has other numbers: calls made by `int 0x80` are among them
        _code(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        program += [_code(_AT_LEAST, _X32, 0, 1), _refuse(ENOSYS)]
    named = [(NUMBERS[name][column], code) for name, code in _refusals(options)]
    table = sorted((number, code) for number, code in named if number is not None)
    return b"".join(_each_return_once([*program, *_search(table)]))


def make_watching_filter(machine: str) -> bytes:
    """Return a second program that refuses nothing, and stops for the tracer at the calls of `traced_calls`."""
    from byleave.sandbox.diagnose.traced_calls import rows_for  # few runs are traced

    _architecture, column = _ARCHITECTURES[machine]
    found = [(number, _watch(call, row)) for row, (number, call) in enumerate(rows_for(column))]
    return b"".join([_code(_LOAD, _NUMBER), *_search(sorted(found))])


def make_noting_filter(machine: str) -> bytes:
    """Return a further program that refuses nothing, and has the init look at calls that write files or list them."""
    _architecture, column = _ARCHITECTURES[machine]
    noted = {**_WRITING, **_LISTING}
    found = [(number, _noted(name)) for name, numbers in noted.items() if (number := numbers[column]) is not None]
    return b"".join([_code(_LOAD, _NUMBER), *_search(sorted(found))])


def _noted(name: str) -> list[bytes]:
    stop = [_code(_RETURN, USER_NOTIFICATION)]
    if name not in _OPENING:
        return stop
    return [_argument(_OPENING[name] - 1), _code(_ANY_BIT, _TO_WRITE, 1, 0), _allow(), *stop]


def make_shared_filter(machine: str) -> bytes:
    """Return a further program for where the host's processes and its shared memory are in reach."""
    _architecture, column = _ARCHITECTURES[machine]
    found = [(numbers[column], _only_ones_own(name)) for name, numbers in SHARED_NUMBERS.items()]
    return b"".join([_code(_LOAD, _NUMBER), *_search(sorted(found))])


def _only_ones_own(name: str) -> list[bytes]:
    if name not in _WHOM:
        return [_refuse(EPERM)]
    one = [_argument(_WHOM[name]), _code(_EQUAL, 0, 0, 1), _allow(), _refuse(EPERM)]
    if name not in _FOR_A_PROCESS:
        return one
    return [_argument(0), _code(_EQUAL, _FOR_A_PROCESS[name], 1, 0), _refuse(EPERM), *one]


def names_of_refused(machine: str) -> dict[int, str]:
    """Return the calls that a filter looks at, by their number on this kind of machine."""
    _architecture, column = _ARCHITECTURES[machine]
    return {number: name for name, numbers in NUMBERS.items() if (number := numbers[column]) is not None}


def column_of(machine: str) -> int:
    """Return which of a call's numbers is the one of this kind of machine."""
    return _ARCHITECTURES[machine][1]


def _watch(call: SystemCall, row: int) -> list[bytes]:
    stop = [_code(_RETURN, TRACE | row)]
    if call.empty_path >= 0:
        return [_argument(call.empty_path), _code(_ANY_BIT, _EMPTY_PATH, 0, 1), _allow(), *stop]
    if call.needs >= 0:
        halves = [_argument(call.needs), _code(_EQUAL, 0, 0, 3), _upper_half(call.needs), _code(_EQUAL, 0, 0, 1)]
        return [*halves, _allow(), *stop]
    return stop


def _search(table: Sequence[tuple[int, list[bytes]]]) -> list[bytes]:
    """Return code that finds a call by halves: the kernel walks the program once for every call that there is.

    The kernel translates the program for every program that is started, so the shorter the better.
    """
    return _halves(_ranges(table))


def _ranges(table: Sequence[tuple[int, list[bytes]]]) -> list[tuple[int, int, list[bytes]]]:
    """Return the same with one row for numbers that follow each other and are treated alike: first, last, code."""
    found: list[tuple[int, int, list[bytes]]] = []
    for number, code in table:
        if found and found[-1][1] == number - 1 and found[-1][2] == code:
            found[-1] = (found[-1][0], number, code)
        else:
            found.append((number, number, code))
    return found


def _halves(rows: Sequence[tuple[int, int, list[bytes]]]) -> list[bytes]:
    if len(rows) == 1:
        ((first, last, code),) = rows
        if first == last:
            return [_code(_EQUAL, first, 0, len(code)), *code, _allow()]
        return [_code(_AT_LEAST, first, 0, len(code) + 1), _code(_AT_LEAST, last + 1, len(code), 0), *code, _allow()]
    middle = len(rows) // 2
    below, above = _halves(rows[:middle]), _halves(rows[middle:])
    first = rows[middle][0]
    if len(below) <= _FARTHEST:
        return [_code(_AT_LEAST, first, len(below), 0), *below, *above]
    return [_code(_AT_LEAST, first, 0, 1), _code(_JUMP, len(below)), *below, *above]


def _each_return_once(program: list[bytes]) -> list[bytes]:
    """Return a program that does the same, in which equal returns stand once, at its end.

    Nothing but a comparison comes before a return, and a comparison says how many instructions are skipped. A program
    of another kind stays as it is.
    """
    codes: list[tuple[int, int, int, int]] = [unpack(_INSTRUCTION, each) for each in program]
    returns = list(dict.fromkeys(each for each in program if each[:2] == _A_RETURN))
    kept = [at for at, each in enumerate(program) if each[:2] != _A_RETURN]
    moved = {at: place for place, at in enumerate(kept)}
    moved |= {at: len(kept) + returns.index(each) for at, each in enumerate(program) if at not in moved}
    shorter: list[bytes] = []
    for place, at in enumerate(kept):
        operation, if_true, if_false, value = codes[at]
        if operation in (_EQUAL, _AT_LEAST, _ANY_BIT):
            if_true, if_false = (moved[at + 1 + skipped] - place - 1 for skipped in (if_true, if_false))
        elif moved[at + 1] != place + 1:
            return program
        if operation == _JUMP or max(if_true, if_false) > _FARTHEST:  # too long for that
            return program
        shorter.append(_code(operation, value, if_true, if_false))
    return [*shorter, *returns]


def _refusals(options: FilterOptions) -> list[tuple[str, list[bytes]]]:
    """Return for each call the code that decides about it; all of it ends in a return."""
    found = [(name, [_refuse(EPERM)]) for name in _REFUSED]
    found += [(name, [_refuse(ENOSYS)]) for name in _ABSENT]
    found += [(name, _unless_any_bit(0, _NAMESPACES)) for name in ("clone", "unshare")]
    found.append(("personality", _personality()))
    found.append(("ioctl", _unless_one_of(1, _TERMINAL_INPUT)))
    found.append(("socket", _sockets(options)))
    found.append(("socketpair", _pairs()))
    found += [(name, _unless_any_bit(mode, _SET_ID)) for name, mode in _MODES.items()]
    found += [(name, _opening(mode)) for name, mode in _OPENING.items()]
    found += [(name, _unless_one_of(0, (group,))) for name, group in _GROUPS.items()]
    if options.listed_programs_only:
        # Sealed or not: a seal keeps a memory file from being started, not from being mapped by the loader.
        found.append(("memfd_create", [_refuse(ENOSYS)]))
        found.append(("execveat", _unless_any_bit(4, _EMPTY_PATH)))
    if not options.reported:
        return found
    return [(name, code if name in _UNREPORTED else _reported(code)) for name, code in found]


def _reported(refusal: list[bytes]) -> list[bytes]:
    """Refuse by a signal that the tracer catches: the call is as impossible as before, and the tracer knows."""
    traps = {_refuse(error): _code(_RETURN, TRAP | MARK | error) for error in (EPERM, EACCES, EAFNOSUPPORT, ENOSYS)}
    return [traps.get(each, each) for each in refusal]


def _sockets(options: FilterOptions) -> list[bytes]:
    """Internet sockets and questions about interfaces; no unix sockets, which lead out by the file system."""
    if not options.sockets:
        return [_refuse(EACCES)]
    return [
        _argument(0),
        _code(_EQUAL, _AF_INET, 6, 0),
        _code(_EQUAL, _AF_INET6, 5, 0),
        _code(_EQUAL, _AF_NETLINK, 1, 0),
        _code(_RETURN, ERRNO | EAFNOSUPPORT),
        _argument(2),
        _code(_EQUAL, 0, 1, 0),  # NETLINK_ROUTE
        _refuse(EAFNOSUPPORT),
        _allow(),
    ]


def _pairs() -> list[bytes]:
    """Pairs of streams and of packets. One of a datagram pair can send to any unix socket by its path."""
    return [
        _argument(1),
        _code(_AND, _TYPE_OF_SOCKET),
        _code(_EQUAL, _SOCK_STREAM, 2, 0),
        _code(_EQUAL, _SOCK_SEQPACKET, 1, 0),
        _refuse(EACCES),
        _allow(),
    ]


def _opening(mode: int) -> list[bytes]:
    """Where nothing is made, the mode means nothing, and may be anything."""
    made = [_argument(mode), _code(_ANY_BIT, _SET_ID, 1, 0), _allow(), _refuse(EPERM)]
    return [_argument(mode - 1), _code(_ANY_BIT, _MAKES_A_FILE, 1, 0), _allow(), *made]


def _personality() -> list[bytes]:
    """0xffffffff asks which one holds; READ_IMPLIES_EXEC would turn every file that is read into code."""
    return [
        _argument(0),
        _code(_EQUAL, 0xFFFFFFFF, 1, 0),
        _code(_ANY_BIT, _READ_IMPLIES_EXEC, 1, 0),
        _allow(),
        _refuse(EPERM),
    ]


def _unless_any_bit(argument: int, bits: int) -> list[bytes]:
    return [_argument(argument), _code(_ANY_BIT, bits, 1, 0), _allow(), _refuse(EPERM)]


def _unless_one_of(argument: int, values: Sequence[int]) -> list[bytes]:
    tests = [_code(_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [_argument(argument), *tests, _allow(), _refuse(EPERM)]


def _argument(position: int) -> bytes:
    """Load the low half of an argument: all that the kernel looks at where it takes an int."""
    return _code(_LOAD, _ARGUMENTS + 8 * position)


def _upper_half(position: int) -> bytes:
    return _code(_LOAD, _ARGUMENTS + 8 * position + 4)


def _allow() -> bytes:
    return _code(_RETURN, ALLOW)


def _refuse(error: int) -> bytes:
    return _code(_RETURN, ERRNO | error)


def _code(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return pack(_INSTRUCTION, operation, if_true, if_false, value)
