"""From observations to findings, without a sandbox: what is told, what is not, and how it reads."""

import errno
import os
import struct
from typing import Any

import pytest

from byleave.cli.diagnose import Destination, finding_lines, finding_tree
from byleave.core.decision import ALLOW, DENY, RuleRef, Verdict
from byleave.sandbox.diagnose.diagnosis import diagnose
from byleave.sandbox.diagnose.finding import Attempt, RefusalFinding, Scene, attempts_of, gather, merged
from byleave.sandbox.diagnose.refusals import read_address, read_question
from byleave.sandbox.diagnose.traced_calls import CALLS, DroppedObservations, Observed, Reader, rows_for, write_rows
from byleave.sandbox.linux.seccomp import MARK, TRACE, TRAP, FilterOptions, make_filter, make_watching_filter
from byleave.sandbox.plan.plan import (
    DIRECTORY,
    EVERYTHING,
    FILE,
    NOTHING,
    PRIVATE,
    READING,
    Approximation,
    Held,
    PathGrant,
    SandboxPlan,
)

ROOT, HOME = "/proj/ws", "/home/me"
PLAN = SandboxPlan(
    ROOT,
    (
        PathGrant("/etc", READING, DIRECTORY, "the system's own files"),
        PathGrant("/etc/shadow", NOTHING, FILE, "not every user may read it"),
        PathGrant("/home/me", EVERYTHING, PRIVATE, "private to the sandbox, and empty"),
        PathGrant("/tmp", EVERYTHING, PRIVATE, "private to the sandbox, and empty"),
        PathGrant(ROOT, EVERYTHING, DIRECTORY, "fs .: all"),
        PathGrant("/proj/ws/secret", NOTHING, DIRECTORY, "fs secret: nothing"),
    ),
    held=(Held("/proj/ws/.vscode"),),
    home=HOME,
)
CLOSED = RuleRef("fs secret: nothing", "byleave.toml:3", DENY)
OPEN = RuleRef("fs .: all", "byleave.toml:1", ALLOW)


class Outside:
    """A machine in memory: what exists, and what its user may not do."""

    def __init__(self, *paths: str, closed: tuple[str, ...] = (), ports: tuple[int, ...] = ()) -> None:
        self.paths = {above for path in paths for above in _upwards(path)}
        self.closed = closed
        self.ports = ports

    def exists(self, path: str) -> bool:
        return path in self.paths

    def real(self, path: str, *, follows: bool = True) -> str:  # noqa: ARG002 -- there are no links here
        return os.path.normpath(path)

    def could(self, op: str, path: str) -> bool:
        there = os.path.dirname(path) if op == "create" else path
        return path not in self.closed and self.exists(there)

    def reaches(self, family: int, host: str, port: int) -> bool:  # noqa: ARG002 -- one host is out of reach
        return host != "fd00::1"

    def listens(self, port: int) -> bool:
        return port in self.ports

    def may_listen_at(self, port: int) -> bool:  # noqa: ARG002 -- its user is root
        return True


def _upwards(path: str) -> list[str]:
    found = [path]
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found


def decide(action: dict[str, Any]) -> Verdict:
    """A policy that closes `secret` and the network."""
    kind = action["kind"]
    if kind == "url":
        rule = RuleRef("no network", "built-in", DENY)
        return Verdict(DENY, "reaching it: no network", "denied", (rule,), "[[tools.t.access.net]]\nhost = 1")
    if kind == "spawn":
        return Verdict(ALLOW, "any", "ok", (OPEN,))
    path = action["path"]
    if path.split("/")[0] == "secret":
        suggestion = f'[[tools.t.access.fs]]\npath = "{path}"\n{kind} = true'
        return Verdict(DENY, f"{kind} is denied: {CLOSED.rule}", "denied", (CLOSED,), suggestion)
    if path.startswith(".vscode"):
        rule = RuleRef("protected place .vscode", "built-in", DENY)
        return Verdict(DENY, "it is protected", "denied", (rule,), '[[tools.t.access.fs]]\npath = ".vscode"')
    return Verdict(ALLOW, "granted", "ok", (OPEN,))


class Heard:
    def __init__(self, *calls: Observed) -> None:
        self.calls = dict.fromkeys(calls, 1)
        self.denied: dict[tuple[str, str], int] = {}
        self.unlisted: dict[tuple[str, ...], int] = {}


def found_by(*calls: Observed, outside: Outside | None = None, **more: Any) -> tuple[RefusalFinding, ...]:
    machine = outside or Outside("/proj/ws/secret/a", "/proj/ws/secret/b", "/home/me/.cargo/config", "/etc/shadow")
    sensitive = {"/home/me/.ssh/id": "~/.ssh"}.get
    return diagnose(Heard(*calls), Scene(PLAN, (), "t", decide, sensitive, machine, **more))


def opened(path: str, error: int, flags: int = os.O_RDONLY) -> Observed:
    return Observed("openat", error, flags=flags, paths=(path,))


def lines_of(*found: RefusalFinding, missing: int = 0) -> str:
    where = Destination("t", "access.toml", alone=True)
    return "\n".join(finding_lines(found, where, {"read": ["/opt/x"]}, HOME, missing))


# What is told, and what is not


@pytest.mark.parametrize(
    ("observed", "what"),
    [
        (opened("/proj/ws/secret/a", errno.EACCES), [("read", "secret/a")]),
        (opened("/proj/ws/secret/a", errno.ENOENT), [("read", "secret/a")]),
        (opened("/proj/ws/secret/none", errno.EACCES), []),
        (opened("/proj/ws/none", errno.ENOENT), []),
        (opened("/etc/none", errno.ENOENT), []),
        (opened("/home/me/.cargo/config", errno.ENOENT), [("read", "~/.cargo/config")]),
        (opened("/home/me/.none", errno.ENOENT), []),
        (opened("/etc/shadow", errno.EACCES), [("read", "/etc/shadow")]),
        (opened("/etc/new", errno.EROFS, os.O_CREAT | os.O_WRONLY), [("create", "/etc/new")]),
        (opened("/none/new", errno.ENOENT, os.O_CREAT | os.O_WRONLY), []),
        (opened("/proc/1/environ", errno.EACCES), []),
        (Observed("mkdir", errno.EEXIST, paths=("/proj/ws/there",)), []),
        (Observed("mkdir", errno.EEXIST, paths=("/proj/ws/.vscode",)), [("create", ".vscode")]),
        (Observed("mkdir", errno.EROFS, paths=("/proj/ws/.vscode/x",)), [("create", ".vscode/x")]),
        (Observed("stat", errno.ENOENT, paths=("/home/me/.cargo/config",)), [("look", "~/.cargo/config")]),
        (Observed("execve", errno.EACCES, paths=("/proj/ws/secret/a",)), [("exec", "secret/a")]),
        (Observed("chown", errno.EPERM, paths=("/proj/ws/secret",)), [("own", "secret")]),
        (Observed("setuid", errno.EPERM), [("call", "setuid")]),
        (Observed("ptrace", errno.EPERM, True), [("call", "ptrace")]),
        (Observed("number 9999", errno.EPERM, True), [("call", "number 9999")]),
        (Observed("openat", errno.EACCES, paths=("",)), []),
        (Observed("openat", errno.EACCES, paths=("/a\0b",)), []),
    ],
)
def test_only_what_would_have_worked_outside_is_told(observed: Observed, what: list[tuple[str, str]]) -> None:
    found = found_by(observed)
    assert [(each.verbs[0], each.subjects[0]) for each in found] == what


def test_what_its_user_may_not_do_outside_either_is_not_told() -> None:
    assert found_by(opened("/etc/shadow", errno.EACCES), outside=Outside("/etc/shadow", closed=("/etc/shadow",))) == ()


def test_things_with_one_reason_are_told_together_and_counted() -> None:
    found = found_by(
        opened("/proj/ws/secret/a", errno.EACCES),
        opened("/proj/ws/secret/b", errno.EACCES),
        opened("/proj/ws/secret/a", errno.EACCES, os.O_RDWR),
    )
    assert [(each.verbs, each.subjects, each.times) for each in found] == [
        (("read", "update"), ("secret/a",), 3),
        (("read",), ("secret/b",), 1),
    ]
    assert found[0].suggestion == '[[tools.t.access.fs]]\npath = "secret/a"\nread = true\nupdate = true'


def test_several_places_get_a_rule_for_their_directory() -> None:
    (only,) = found_by(opened("/proj/ws/secret/a", errno.EACCES), opened("/proj/ws/secret/b", errno.EACCES))
    assert only.suggestion == '[[tools.t.access.fs]]\npath = "secret"\nread = true'


def test_a_look_at_what_is_also_read_is_not_told_twice() -> None:
    look = Observed("stat", errno.ENOENT, paths=("/home/me/.cargo/config",))
    (only,) = found_by(look, opened("/home/me/.cargo/config", errno.ENOENT))
    assert only.verbs == ("read",)


def test_a_program_that_is_found_elsewhere_on_the_path_is_not_told() -> None:
    outside = Outside("/home/me/bin/ls", "/etc/bin/ls")
    look = Observed("stat", errno.ENOENT, paths=("/home/me/bin/ls",))
    assert found_by(look, outside=outside, search=("/home/me/bin", "/etc/bin")) == ()
    assert len(found_by(look, outside=outside, search=("/home/me/bin",))) == 1


def test_secrets_get_a_caution_instead_of_a_suggestion() -> None:
    (only,) = found_by(opened("/home/me/.ssh/id", errno.ENOENT), outside=Outside("/home/me/.ssh/id"))
    assert (only.suggestion, only.caution is not None) == (None, True)


def test_the_most_important_comes_first() -> None:
    found = found_by(
        Observed("stat", errno.ENOENT, paths=("/home/me/.cargo/config",)),
        Observed("ptrace", errno.EPERM, True),
        opened("/etc/new", errno.EROFS, os.O_CREAT | os.O_WRONLY),
        opened("/proj/ws/secret/a", errno.EACCES),
    )
    assert [each.verbs[0] for each in found] == ["read", "create", "call", "look"]


def test_what_the_kernel_cannot_hold_exactly_is_told_as_that() -> None:
    note = Approximation("file", "delete", "what is mounted cannot be removed")
    observed = Observed("unlink", errno.EBUSY, paths=("/proj/ws/file",))
    scene = Scene(PLAN, (note,), "t", decide, lambda _path: None, Outside("/proj/ws/file"))
    (only,) = diagnose(Heard(observed), scene)
    assert only.why == "the policy allows it, but what is mounted cannot be removed"
    assert only.suggestion is None


# The network


def connect(host: bytes, port: int, error: int, question: bytes = b"") -> Observed:
    return Observed("connect", error, address=struct.pack("=H", 2) + struct.pack(">H", port) + host, question=question)


QUESTION = b"\0\1\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"


def test_names_addresses_and_neighbours() -> None:
    found = found_by(
        connect(b"\x0a\0\0\1", 53, errno.ENETUNREACH, QUESTION),
        connect(b"\x0a\0\0\1", 53, errno.ENETUNREACH, QUESTION.replace(b"\3com\0", b"\3com\3lan\0")),
        connect(b"\x0a\0\0\2", 443, errno.ENETUNREACH),
        connect(b"\x7f\0\0\1", 5432, errno.ECONNREFUSED),
        connect(b"\x7f\0\0\1", 5433, errno.ECONNREFUSED),
        connect(b"\x0a\0\0\2", 80, 0),
        Observed("connect", errno.ENETUNREACH, address=b"\x0a\0\0\0" + bytes(4) + b"\xfd" + bytes(14) + b"\x01"),
        Observed("connect", errno.ENETUNREACH, address=b"\x02"),
        outside=Outside("/", ports=(5432,)),
    )
    assert [f"{each.verbs[0]} {each.subjects[0]}" for each in found] == [
        "look up example.com",
        "connect to 10.0.0.2:443",
        "connect to 127.0.0.1:5432",
    ]


@pytest.mark.parametrize("packet", [b"", b"x" * 11, QUESTION[:14], b"\0" * 40, QUESTION[:12] + b"\3a\xff\x1b\0"])
def test_what_is_no_question_is_no_name(packet: bytes) -> None:
    name = read_question(packet)
    assert name is None or name.isprintable()


def test_an_address_of_version_four_in_six_is_the_one_of_four() -> None:
    raw = struct.pack("=H", 10) + b"\x01\xbb" + bytes(4) + bytes(10) + b"\xff\xff\x0a\0\0\1"
    address = read_address(raw)
    assert address is not None
    assert address.text == "10.0.0.1:443"


# Attempts


@pytest.mark.parametrize(
    ("observed", "attempts"),
    [
        (Observed("open", 13, flags=os.O_RDONLY, paths=("/x",)), [Attempt("read", "/x")]),
        (Observed("open", 13, flags=os.O_WRONLY | os.O_CREAT, paths=("/x",)), [Attempt("create", "/x")]),
        (Observed("open", 13, flags=os.O_WRONLY | os.O_CREAT, paths=("/old",)), [Attempt("update", "/old")]),
        (
            Observed("openat", 13, flags=os.O_RDWR, paths=("/old",)),
            [Attempt("update", "/old"), Attempt("read", "/old")],
        ),
        (
            Observed("renameat2", 13, paths=("/old", "/new")),
            [Attempt("delete", "/old", follows=False), Attempt("create", "/new", follows=False)],
        ),
        (Observed("access", 13, flags=os.W_OK, paths=("/x",)), [Attempt("update", "/x", look=True)]),
        (Observed("lstat", 2, paths=("/x",)), [Attempt("read", "/x", look=True, follows=False)]),
        (Observed("unlinkat", 13, paths=("/x",)), [Attempt("delete", "/x", follows=False)]),
        (Observed("setuid", 1), []),
    ],
)
def test_calls_are_read_as_what_was_meant(observed: Observed, attempts: list[Attempt]) -> None:
    assert list(attempts_of(observed, {"/old"}.__contains__)) == attempts


def test_every_watched_call_that_names_a_path_means_something() -> None:
    for name, call in CALLS.items():
        observed = Observed(name, errno.EACCES, paths=tuple("/x" for _ in call.paths))
        assert bool(list(attempts_of(observed, lambda _path: False))) == bool(call.paths), name


# Messages


def message(number: int, *texts: bytes, error: int = 13, refused: int = 0, letter: bytes = b"T") -> bytes:
    head = struct.pack("=cBHI6Q", letter, refused, error, number, 1, 2, 3, 4, 5, 6)
    return head + b"".join([struct.pack("=H", len(text)) + text for text in texts])


def test_messages_are_read() -> None:
    reader = Reader(0, {101: "ptrace"})
    assert reader.read(message(257, b"/base", b"x")) == Observed("openat", 13, flags=3, paths=("/base/x",))
    assert reader.read(message(257, b"", b"/x")) == Observed("openat", 13, flags=3, paths=("/x",))
    assert reader.read(message(59, b"", b"/x", b"x", b"-a")) == Observed("execve", 13, paths=("/x",), words=("x", "-a"))
    assert reader.read(message(101, refused=1)) == Observed("ptrace", 13, True)
    assert reader.read(message(7, letter=b"D")) == DroppedObservations(7)


@pytest.mark.parametrize("raw", [b"", b"T", b"L", b"E125 1 x y", message(257) + b"\xff", message(257, b"a") + b"\1"])
def test_no_message_does_harm(raw: bytes) -> None:
    assert isinstance(Reader(0, {}).read(raw), Observed | DroppedObservations | None)


# Filters


def instructions(code: bytes) -> list[tuple[int, int, int, int]]:
    return [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]


def run(code: bytes, number: int, arguments: tuple[int, ...] = (0, 0, 0, 0, 0, 0)) -> int:
    """Run a filter as the kernel does."""
    data = struct.pack("=IIQ6Q", number, 0xC000003E, 0, *arguments)
    program, at, held = instructions(code), 0, 0
    while True:
        operation, yes, no, value = program[at]
        at += 1
        match operation:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x54:
                held &= value
            case 0x05:
                at += value
            case 0x06:
                return value
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[operation]
                at += yes if holds else no
            case _:
                pytest.fail(f"unknown instruction {operation}")


@pytest.mark.parametrize("listed", [False, True])
def test_a_watched_program_is_refused_exactly_what_others_are(listed: bool) -> None:  # noqa: FBT001 -- a parameter
    plain = make_filter("x86_64", FilterOptions(listed_programs_only=listed))
    told = make_filter("x86_64", FilterOptions(listed_programs_only=listed, reported=True))
    patterns = [(0,) * 6, (1,) * 6, (2,) * 6, (16, 3, 9, 0, 0, 0), (0x10000000,) * 6, (3, 0x5412, 0, 0, 0x1000, 0)]
    for number in range(600):
        for arguments in patterns:
            one, other = run(plain, number, arguments), run(told, number, arguments)
            if one != other:
                assert one >> 16 == 0x0005, number
                assert other == TRAP | MARK | one & 0xFF, number


@pytest.mark.parametrize(("machine", "column"), [("x86_64", 0), ("aarch64", 1)])
def test_the_watching_filter_refuses_nothing_and_names_the_row(machine: str, column: int) -> None:
    code = make_watching_filter(machine)
    rows = {number: row for row, (number, _call) in enumerate(rows_for(column))}
    for number in range(600):
        expected = TRACE | rows[number] if number in rows else 0x7FFF0000
        assert run(code, number, (1,) * 6) == expected, number
    assert len(write_rows(column)) == 32 * len(rows)
    assert len(instructions(code)) <= 512


def test_calls_that_name_nothing_are_not_stopped() -> None:
    code = make_watching_filter("x86_64")
    assert run(code, 262, (3, 0, 0, 0x1000, 0, 0)) == 0x7FFF0000  # fstat by another name
    assert run(code, 44, (3, 0, 0, 0, 0, 0)) == 0x7FFF0000  # send
    assert run(code, 44, (3, 0, 0, 0, 1 << 32, 16)) != 0x7FFF0000


# How it reads


def test_the_list_as_people_see_it() -> None:
    found = (
        RefusalFinding(
            "file",
            ("read", "update"),
            ("secret/a", "secret/b", "secret/c", "secret/d"),
            "read is denied: fs secret: nothing",
            CLOSED,
            suggestion='[[tools.t.access.fs]]\npath = "secret"\nread = true\nupdate = true',
            times=12,
        ),
        RefusalFinding(
            "file",
            ("create",),
            (".vscode",),
            "create is denied: it is protected, and no rule names it",
            RuleRef("protected place .vscode", "built-in", DENY),
            "what is written there is obeyed by others",
            '[[tools.t.access.fs]]\npath = ".vscode"\ncreate = true',
        ),
        RefusalFinding(
            "file",
            ("read",),
            ("~/.cargo/config",),
            "it is not in the view",
            RuleRef("it is not in the view", "built-in", DENY),
            None,
            '[sandbox]\nread = ["~/.cargo/config"]',
            "sandbox",
            listing=("read", "/home/me/.cargo/config"),
        ),
        RefusalFinding("call", ("call",), ("ptrace",), "not here", RuleRef("not here", "built-in", DENY), rank=2),
    )
    assert lines_of(*found, missing=3) == (
        "byleave: 4 things were refused\n"
        " 1. read and write to secret/a, secret/b, secret/c and 1 more (12 times)\n"
        "    because: fs secret: nothing (deny, byleave.toml:3)\n"
        " 2. create .vscode\n"
        "    create is denied: it is protected, and no rule names it\n"
        "    because: protected place .vscode (deny, built-in)\n"
        "    caution: what is written there is obeyed by others\n"
        " 3. read ~/.cargo/config\n"
        "    because: it is not in the view (deny, built-in)\n"
        " 4. call ptrace\n"
        "    because: not here (deny, built-in)\n"
        "    nothing allows it in a sandbox\n"
        " and 3 more that were not recorded: there were too many to keep them all\n"
        "\n"
        "to allow 1 and 2, add to access.toml:\n"
        "  [[access.fs]]\n"
        '  path = "secret"\n'
        "  read = true\n"
        "  update = true\n"
        "\n"
        "  [[access.fs]]\n"
        '  path = ".vscode"\n'
        "  create = true\n"
        "\n"
        "to allow 3, add to your configuration:\n"
        "  [sandbox]\n"
        '  read = ["/opt/x", "~/.cargo/config"]'
    )


def test_a_long_list_is_cut() -> None:
    found = [RefusalFinding("call", ("call",), (f"c{number}",), "no", rank=2) for number in range(20)]
    lines = lines_of(*found).splitlines()
    assert len([line for line in lines if "call c" in line]) == 15
    assert " and 5 more, which --json lists" in lines


def test_text_from_a_program_cannot_act_on_the_terminal() -> None:
    evil = RefusalFinding(
        "file", ("read",), ("a\x1b[2J\nbyleave: nothing was refused",), "a\x1b[0mb", RuleRef("x\n", "y\r", DENY)
    )
    text = lines_of(evil)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\nbyleave: nothing" not in text


def test_rules_for_a_tool_stay_as_they_are_in_the_configuration() -> None:
    finding = RefusalFinding("file", ("read",), ("a",), "no", CLOSED, suggestion='[[tools.t.access.fs]]\npath = "a"')
    assert (
        finding_tree(finding, Destination("t", "your configuration", alone=False))["suggestion"] == finding.suggestion
    )
    assert finding_tree(finding, Destination("t", "x", alone=True))["suggestion"] == '[[access.fs]]\npath = "a"'


def test_pieces_of_toml_become_one() -> None:
    keep = '[[access.fs]]\npath = "."\nread = true\nwrite = true'
    one, other = '[[access.fs]]\npath = "a"\nupdate = true', '[[access.fs]]\npath = "a"\nread = true'
    net = '[[access.net]]\nhost = "h"\nallow = true'
    together = '[[access.fs]]\npath = "a"\nread = true\nupdate = true'
    assert merged([f"{keep}\n\n{one}", f"{keep}\n\n{other}", net, net, None]) == f"{keep}\n\n{together}\n\n{net}"
    assert merged([None]) is None


def test_gathering_is_the_same_however_often_it_is_done() -> None:
    found = found_by(opened("/proj/ws/secret/a", errno.EACCES), opened("/proj/ws/secret/b", errno.EACCES))
    assert gather(gather(found)) == gather(found)
