"""The system call filter, run by a small interpreter of the kernel's: which call gets which answer?"""

import os
import subprocess
from struct import unpack_from

import pytest

from byleave.sandbox.diagnose import traced_calls
from byleave.sandbox.linux import seccomp
from byleave.sandbox.linux.seccomp import (
    ALLOW,
    EACCES,
    EAFNOSUPPORT,
    ENOSYS,
    EPERM,
    ERRNO,
    KILL,
    NUMBERS,
    FilterOptions,
    make_filter,
)
from byleave.sandbox.native import build

X86, ARM = "x86_64", "aarch64"
ARCHITECTURES = {X86: (0xC000003E, 0), ARM: (0xC00000B7, 1)}
PLAIN = FilterOptions()
LISTED = FilterOptions(listed_programs_only=True)


def answer(machine: str, wanted: FilterOptions, number: int, *arguments: int, architecture: int | None = None) -> int:
    return walk(make_filter(machine, wanted), machine, number, *arguments, architecture=architecture)


def walk(program: bytes, machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Walk the program as the kernel does; only the instructions that it uses are known here."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = {0: number, 4: ARCHITECTURES[machine][0] if architecture is None else architecture}
    data |= {16 + 8 * place: value & 0xFFFFFFFF for place, value in enumerate(padded)}
    at, loaded = 0, 0
    while True:
        operation, if_true, if_false, value = (int(each) for each in unpack_from("=HBBI", program, at * 8))
        at += 1
        match operation:
            case 0x20:
                loaded = data[value]
            case 0x15:
                at += if_true if loaded == value else if_false
            case 0x35:
                at += if_true if loaded >= value else if_false
            case 0x45:
                at += if_true if loaded & value else if_false
            case 0x05:
                at += value
            case 0x54:
                loaded &= value
            case 0x06:
                return value
            case _:
                raise AssertionError(f"operation {operation:#x}")


def call(name: str, *arguments: int, machine: str = X86, wanted: FilterOptions = PLAIN) -> int:
    number = NUMBERS[name][ARCHITECTURES[machine][1]]
    assert number is not None
    return answer(machine, wanted, number, *arguments)


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize(
    "name",
    [
        *("mount", "umount2", "setns", "ptrace", "bpf", "keyctl", "perf_event_open", "userfaultfd", "open_tree"),
        *("process_vm_readv", "pidfd_getfd", "open_by_handle_at", "kexec_load", "init_module", "syslog", "chroot"),
    ],
)
def test_calls_that_reach_past_the_sandbox_are_refused(machine: str, name: str) -> None:
    assert call(name, machine=machine) == ERRNO | EPERM


@pytest.mark.parametrize("name", ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"])
def test_calls_that_programs_can_do_without_are_said_to_be_missing(name: str) -> None:
    assert call(name) == ERRNO | ENOSYS


@pytest.mark.parametrize("number", [0, 1, 2, 59, 60, 257, 262, 332, 439])
def test_ordinary_calls_are_allowed(number: int) -> None:
    assert answer(X86, PLAIN, number) == ALLOW


def test_every_call_has_exactly_the_answer_of_its_name() -> None:
    looked_at = {numbers[0] for numbers in NUMBERS.values()}
    others = [number for number in range(500) if number not in looked_at]
    assert all(answer(X86, PLAIN, number) == ALLOW for number in others)


def test_another_architecture_ends_the_program() -> None:
    assert answer(X86, PLAIN, 1, architecture=0x40000003) == KILL


def test_the_x32_way_in_is_shut() -> None:
    assert answer(X86, PLAIN, 0x40000000 | 41) == ERRNO | ENOSYS


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80])
@pytest.mark.parametrize("name", ["clone", "unshare"])
def test_no_namespace_can_be_made(name: str, flag: int) -> None:
    assert call(name, flag | 17) == ERRNO | EPERM


def test_threads_and_processes_can_be_made() -> None:
    assert call("clone", 0x3D0F00) == ALLOW
    assert call("clone", 17) == ALLOW
    assert call("unshare", 0x200 | 0x400) == ALLOW


@pytest.mark.parametrize("request_", [0x5412, 0x541C, 0x1_0000_5412])
def test_nobody_types_into_the_terminal(request_: int) -> None:
    assert call("ioctl", 0, request_) == ERRNO | EPERM
    assert call("ioctl", 0, 0x5413) == ALLOW


@pytest.mark.parametrize(
    ("family", "protocol", "wanted"),
    [
        (2, 0, ALLOW),
        (10, 6, ALLOW),
        (16, 0, ALLOW),
        (16, 9, ERRNO | EAFNOSUPPORT),
        (1, 0, ERRNO | EAFNOSUPPORT),
        (17, 0, ERRNO | EAFNOSUPPORT),
        (38, 0, ERRNO | EAFNOSUPPORT),
        (40, 0, ERRNO | EAFNOSUPPORT),
    ],
)
def test_families_of_sockets(family: int, protocol: int, wanted: int) -> None:
    assert call("socket", family, 1, protocol) == wanted


@pytest.mark.parametrize("flags", [0, 0o2000000 | 0o4000])
def test_a_pair_of_datagram_sockets_would_reach_others_by_path(flags: int) -> None:
    assert call("socketpair", 1, 2 | flags, 0) == ERRNO | EACCES
    assert call("socketpair", 1, 1 | flags, 0) == ALLOW
    assert call("socketpair", 1, 5 | flags, 0) == ALLOW


@pytest.mark.parametrize("kind", [2, 3, 4, 10])
def test_only_streams_and_packets_come_in_pairs(kind: int) -> None:
    assert call("socketpair", 1, kind, 0) == ERRNO | EACCES


def test_no_file_gets_the_rights_of_its_owner() -> None:
    assert call("chmod", 0, 0o4755) == ERRNO | EPERM
    assert call("fchmodat", 0, 0, 0o2755) == ERRNO | EPERM
    assert call("mknodat", 0, 0, 0o104755) == ERRNO | EPERM
    assert call("openat", 0, 0, 0o101, 0o4755) == ERRNO | EPERM
    assert call("openat", 0, 0, 0o20200001, 0o4755) == ERRNO | EPERM
    assert call("openat", 0, 0, 0o1, 0o4755) == ALLOW
    assert call("openat", 0, 0, 0o101, 0o755) == ALLOW
    assert call("chmod", 0, 0o1777) == ALLOW
    assert call("openat2") == ERRNO | ENOSYS


def test_nobody_slows_the_process_group_of_the_caller_down() -> None:
    assert call("setpriority", 1, 0, 5) == ERRNO | EPERM
    assert call("setpriority", 0, 0, 5) == ALLOW
    assert call("ioprio_set", 2, 0, 5) == ERRNO | EPERM


def test_without_a_network_of_its_own_there_are_no_sockets() -> None:
    assert call("socket", 2, 1, 0, wanted=FilterOptions(sockets=False)) == ERRNO | EACCES


def test_reading_does_not_become_executing() -> None:
    assert call("personality", 0x0400000) == ERRNO | EPERM
    assert call("personality", 0xFFFFFFFF) == ALLOW
    assert call("personality", 0x0040000) == ALLOW


def test_where_programs_are_listed_memory_is_none() -> None:
    assert call("memfd_create", 0, 1, wanted=LISTED) == ERRNO | ENOSYS
    assert call("memfd_create", 0, 8 | 1, wanted=LISTED) == ERRNO | ENOSYS
    assert call("execveat", 3, 0, 0, 0, 0x1000, wanted=LISTED) == ERRNO | EPERM
    assert call("execveat", 3, 0, 0, 0, 0, wanted=LISTED) == ALLOW
    assert call("memfd_create", 0, 1) == ALLOW


@pytest.mark.parametrize("machine", [X86, ARM])
def test_numbers_between_those_that_are_looked_at_are_allowed(machine: str) -> None:
    """Numbers that follow each other and are treated alike are one range of the program."""
    column = ARCHITECTURES[machine][1]
    known = {numbers[column]: name for name, numbers in NUMBERS.items()}
    for number in range(600):
        if number not in known:
            assert answer(machine, PLAIN, number) == ALLOW, number
    refused = [name for number, name in known.items() if number is not None and answer(machine, PLAIN, number) != ALLOW]
    assert {"fsopen", "fspick", "io_uring_setup", "io_uring_register", "move_mount", "open_tree"} <= set(refused)


def test_the_program_is_short() -> None:
    """The kernel checks and translates it for every program that is started."""
    assert len(make_filter(X86, PLAIN)) // 8 < 180


@pytest.mark.parametrize("machine", [X86, ARM])
@pytest.mark.parametrize("wanted", [PLAIN, LISTED, FilterOptions(reported=True)])
def test_returns_that_stand_once_are_the_same_returns(
    monkeypatch: pytest.MonkeyPatch, machine: str, wanted: FilterOptions
) -> None:
    asked = [
        (number, value) for number in range(460) for value in (0, 1, 2, 16, 0o6000, 0x5412, 0x7E020080, 0xFFFFFFFF)
    ]
    shorter = make_filter(machine, wanted)
    monkeypatch.setattr(seccomp, "_each_return_once", list)
    longer = make_filter(machine, wanted)
    assert len(shorter) < len(longer)
    for number, value in asked:
        assert walk(shorter, machine, number, *[value] * 6) == walk(longer, machine, number, *[value] * 6), number


def test_a_program_that_is_too_long_keeps_its_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "_FARTHEST", 100)
    long = make_filter(X86, PLAIN)
    monkeypatch.setattr(seccomp, "_each_return_once", list)
    assert long == make_filter(X86, PLAIN)


def test_a_return_that_follows_no_comparison_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    allow = seccomp._code(0x06, ALLOW)  # noqa: SLF001 -- no filter of ours has such a return
    refuse = seccomp._code(0x06, ERRNO | EPERM)  # noqa: SLF001
    program = [seccomp._code(0x20, 0), seccomp._code(0x15, 1, 0, 1), allow, seccomp._code(0x20, 16), refuse, allow]  # noqa: SLF001
    assert seccomp._each_return_once(program) == program  # noqa: SLF001


@pytest.mark.parametrize(
    ("compiler", "column"),
    [(build.find_compiler(), {X86: 0, ARM: 1}.get(os.uname().machine)), (build.find_cross_compiler(ARM), 1)],
    ids=["this machine", ARM],
)
def test_numbers_are_those_of_the_kernels_headers(compiler: str | None, column: int | None) -> None:
    if compiler is None or column is None:
        pytest.skip("there is no C compiler for it")
    known: dict[str, tuple[int | None, int | None]] = {
        **NUMBERS,
        **seccomp.SHARED_NUMBERS,
        **{name: call.numbers for name, call in traced_calls.CALLS.items()},
    }
    text = "#include <sys/syscall.h>\n" + "".join(f"@ {name} SYS_{name}\n" for name in known)
    done = subprocess.run([compiler, "-E", "-P", "-"], input=text, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("@")]
    named = {name: int(number) if number.isdigit() else None for _mark, name, number in rows}
    newer = {name for name, numbers in known.items() if (numbers[column] or 0) > 450}  # than the headers of Linux 6.1
    assert {name: numbers[column] for name, numbers in known.items() if named[name] or name not in newer} == {
        name: number for name, number in named.items() if number or name not in newer
    }
