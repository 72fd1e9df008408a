"""One process per directory that is worked in: it forks a process for every request, which answers it and ends.

The forked process has all modules loaded and the workspace's policy compiled; else it does what the command does when
it is started by itself, with the same code and the same files. It changes to the caller's directory, takes over its
variables and its three streams, and runs the command. Nothing of a request stays behind, and a request that hangs or
crashes hangs or crashes alone.

There is always one process that waits for the next request, so that a fork is not what a caller waits for. It takes
the request from the socket by itself: the worker only learns of it (`_Notice`), and forks the next one.

    server  --request, 3 descriptors-->  socket  --taken by-->  waiting process  --A, G, output, X-->  front

Between `A` (taken) and `G` (go) nothing has happened: a front that has given up meanwhile closes, and runs the command
itself. After `G` it never does. Start at `be_worker`.
"""

from __future__ import annotations

import fcntl
import gc
import json
import locale
import os
import select
import signal
import socket
import stat
import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from byleave.caller import Front, FrontGoneError, answer_for, end_when_given_up, leave
from byleave.policy.dirs import UserDirs
from byleave.policy.load import Workspace, made_up_layers, take_loads
from byleave.sandbox.linux.backends import keep_tried, take_tried
from byleave.sandbox.plan.build import rehearse_plan
from byleave.sandbox.plan.private_files import (
    forget_search,
    keep_search,
    kernel_secrets,
    take_missed_search,
    use_search_once,
)
from byleave.service.directory import caller_of, peer_of, share_of
from byleave.service.page_copies import copy_pages
from byleave.service.protocol import (
    DESCRIPTORS,
    GO,
    LARGEST,
    NOT_SERVED,
    STREAMS,
    TAKEN,
    BadRequestError,
    read_request,
)
from byleave.toolhost.process import make_room_for_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, NoReturn

    from byleave.service.protocol import Request

    Answer = Callable[[bool, list[str]], int]

LONGEST_MESSAGE = 256
_LONGEST_HEAD = 64  # bytes of a request's first line
_LARGEST_NOTICE = 65536
_TAKEN, _DONE, _LOADED, _RUNS, _WORKS, _SEARCHED = b"T", b"D", b"L", b"R", b"W", b"S"
WAITS = 5.0  # seconds that a process waits for a request; then the worker itself watches for one
_SOON = 0.05  # seconds after which the next process is there, also if the last one is not done
_GO_LIMIT = 5.0  # seconds for the front's word
_CHECK_LIMIT = 30.0  # seconds for `check`, which is at work all that time
MOST_AT_ONCE = 64  # processes that answer, apart from those of running commands
_NAP = 1.0
_RENEWED = 30.0  # seconds after which the system's private files are searched for again, between two requests
_UNKEPT = 60.0  # seconds without another search where the last one could not be kept
_OFTEN, _RECENT = 3, 60.0  # requests, and within how many seconds
_PLAIN_LOCALES = ("C", "POSIX")
_BETTER_LOCALES = ("C.UTF-8", "C.utf8", "UTF-8")  # in this order


def be_worker(requests: socket.socket, package: str, answer: Answer) -> NoReturn:
    """Serve what comes from the socket until its other end is closed. `answer` runs a command and returns its code."""
    try:
        gc.disable()  # what lives long is frozen, and a process that answers ends before collecting would pay
        Worker(requests, package, answer).run()
    finally:
        os._exit(0)


class Worker:
    """The processes of one directory."""

    def __init__(self, requests: socket.socket, package: str, answer: Answer) -> None:
        self._requests = requests
        self._requests.setblocking(False)
        self._package = package
        self._answer = answer
        self._notices, self.notify = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._waiting = 0  # the process that waits for a request
        self.busy: set[int] = set()  # those that answer one
        self._next_at = 0.0  # when the next waiting process is to be there, 0 for not before a request comes
        self._recent: deque[float] = deque(maxlen=_OFTEN)  # when the last requests came
        self._searches = False  # whether there are requests that need the system's private files
        self._search_at = 0.0  # when it is worth trying, after what was found could not be kept

    def run(self) -> None:
        """Have requests answered until the server closes the socket."""
        watched = select.poll()
        watched.register(self._notices, select.POLLIN)
        while True:
            now = time.monotonic()
            has_room = len(self.busy) < MOST_AT_ONCE
            if self._waiting == 0 and has_room and self._next_at and now >= self._next_at:
                self._fork()
            if self._waiting == 0 and has_room:
                watched.register(self._requests, select.POLLIN)
            else:  # only its end is of interest
                watched.register(self._requests, 0)
            patience = _NAP if not self._next_at or not has_room else max(min(self._next_at - now, _NAP), 0.0)
            ready = dict(watched.poll(patience * 1000))
            if ready.get(self._requests.fileno(), 0) & (select.POLLHUP | select.POLLERR):
                return
            if self._requests.fileno() in ready and self._waiting == 0 and has_room:
                self._fork()
            self.look_after()

    def _fork(self) -> None:
        self._next_at = 0.0
        child = os.fork()
        if child == 0:
            try:
                self._notices.close()
                served = _ServedProcess(self._requests, self.notify, self._package, self._answer)
                often = self._is_used_often()
                served.run(ahead=often, starts=often and self._searches)
            finally:
                os._exit(1)
        self._waiting = child

    def _is_used_often(self) -> bool:
        """Whether requests come so often that the next one is worth work, and memory, ahead of it."""
        return len(self._recent) == _OFTEN and time.monotonic() - self._recent[0] < _RECENT

    def look_after(self) -> None:
        """Take note of what processes report, and of their ends.

        What an ended process reported is read before its end counts: else it would be busy for ever.
        """
        ended = list(_ended_children())
        with suppress(BlockingIOError):
            while True:
                self._hear(self._notices.recv(_LARGEST_NOTICE, socket.MSG_DONTWAIT))
        self.busy.difference_update(ended)
        if self._waiting in ended:
            self._waiting = 0

    def _hear(self, message: bytes) -> None:
        kind, body = message[:1], message[1:]
        if kind == _TAKEN:
            self._recent.append(time.monotonic())
            self.busy.add(int(body))
            if self._waiting == int(body):
                self._waiting = 0
                self._next_at = time.monotonic() + _SOON
        elif kind == _DONE:
            if self._waiting == 0:
                self._next_at = time.monotonic()
            if self._searches:
                self._search(unless_younger=_RENEWED)
        elif kind == _RUNS:
            self.busy.discard(int(body))
        elif kind == _LOADED:
            self._warm(json.loads(body))
        elif kind == _WORKS:
            keep_tried(*json.loads(body))
        elif kind == _SEARCHED:
            self._search(unless_younger=0.0)

    def _warm(self, load: dict[str, Any]) -> None:
        """Compile the policy that a request had to compile, so that the next one finds it."""
        try:
            workspace = Workspace(load["root"], homes=UserDirs(*load["homes"]))
            if load["tree"] is not None:
                policy, tools = workspace.warm_tree(load["tree"]), list(load["tree"].get("tools", ()))
            else:
                policy = workspace.warm(session=load["session"], extra=made_up_layers(load["tool"]))
                tools = [load["tool"]] if load["tool"] else []
            if policy is not None:
                for tool in tools:
                    rehearse_plan(policy, tool, workspace.root.path)
        except Exception:  # noqa: BLE001 -- what is wrong with the files is for the request that needs them
            return
        _settle()

    def _search(self, *, unless_younger: float) -> None:
        """Search for the system's private files, so that the next request need not."""
        if time.monotonic() < self._search_at:
            return
        self._searches = keep_search(unless_younger=unless_younger)
        if not self._searches:
            self._search_at = time.monotonic() + _UNKEPT
        _settle()


def _settle() -> None:
    """Let go of what is not used any more, and freeze the rest: forked processes share it longer."""
    gc.collect()
    gc.freeze()


def _ended_children() -> Iterator[int]:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            yield ended


class _ServedProcess:
    """A process that waits for one request, answers it and ends."""

    def __init__(self, requests: socket.socket, notify: socket.socket, package: str, answer: Answer) -> None:
        self._requests = requests
        self._notify = notify
        self._package = package
        self._answer = answer

    def run(self, *, ahead: bool, starts: bool) -> NoReturn:
        """Take one request, if one comes, and answer it; do `ahead` what can be done before it comes.

        `starts`: it may well start a program, and then needs to know which of the kernel's files are covered.
        """
        if ahead:
            copy_pages(self._is_asked)
        if starts and not self._is_asked():
            kernel_secrets(os.geteuid())
        taken = self._take()
        if taken is None:
            os._exit(0)
        self._report(_TAKEN)
        parent, descriptors = taken
        asked, directory, connection = descriptors
        line = socket.socket(fileno=connection)
        request = self._read(asked)
        command = None if request is None else request.command(self._package)
        if request is None or command is None or not _has_its_share(command, line) or not _goes_to(directory):
            with suppress(OSError):
                line.send(NOT_SERVED)
            os._exit(0)
        line.settimeout(_GO_LIMIT)
        try:
            line.send(TAKEN)
            word, streams, _flags, _address = socket.recv_fds(line, LONGEST_MESSAGE, STREAMS + 1)
        except OSError:
            os._exit(0)
        if word != GO or len(streams) != STREAMS:  # it has given up, and runs the command itself
            os._exit(0)
        line.settimeout(None)
        front = _ReportingFront(line, parent, self)
        answer_for(front)
        _take_over(request, streams)
        self._run_command(command, front)

    def _is_asked(self) -> bool:
        waiting = select.poll()
        waiting.register(self._requests, select.POLLIN)
        return bool(waiting.poll(0))

    def _take(self) -> tuple[int, list[int]] | None:
        """Return the caller's parent and the descriptors of a request; None if none came, or all is over."""
        until = time.monotonic() + WAITS
        waiting = select.poll()
        waiting.register(self._requests, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            waiting.poll(left * 1000)
            try:
                head, found, _flags, _address = socket.recv_fds(self._requests, _LONGEST_HEAD, DESCRIPTORS + 1)
            except BlockingIOError:  # another process was faster
                continue
            if not head:
                return None
            for descriptor in found:
                os.set_inheritable(descriptor, False)
            if len(found) == DESCRIPTORS + 1:
                return int(head), list(found)
            for descriptor in found:
                os.close(descriptor)
        return None

    def _read(self, descriptor: int) -> Request | None:
        """Return the request in an anonymous file; None if it is not one."""
        try:
            fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)  # else it is another file, and reading might take for ever
            size = os.fstat(descriptor).st_size
            return read_request(os.pread(descriptor, size, 0)) if size <= LARGEST + LONGEST_MESSAGE else None
        except (OSError, BadRequestError):
            return None
        finally:
            os.close(descriptor)

    def _run_command(self, command: tuple[bool, tuple[str, ...]], front: Front) -> NoReturn:
        by_hook, words = command
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if words[0] == "check":
            signal.setitimer(signal.ITIMER_REAL, _CHECK_LIMIT)
        elif words[0] == "run":
            end_when_given_up()
        elif words[0] == "call":
            gc.enable()  # it may take long
            self._report(_RUNS)
            use_search_once()
            make_room_for_descriptors()
            front.follow()
        try:
            code = self._answer(by_hook, list(words))
        except FrontGoneError:
            os._exit(1)
        leave(code)

    def runs(self) -> None:
        """Report to the worker that this is a running command, which may take long."""
        self._report(_RUNS)
        self._report_prepared()
        forget_search()

    def done(self) -> None:
        """Report to the worker that the answer is out, and what had to be compiled or tried out for it."""
        for load in take_loads():
            described = json.dumps({name: getattr(load, name) for name in load.field_names()}).encode(
                "utf-8", "surrogatepass"
            )
            if len(described) < _LARGEST_NOTICE:
                self._notify_worker(_LOADED + described)
        for tried in take_tried():
            self._notify_worker(_WORKS + json.dumps(tried).encode("utf-8", "surrogatepass"))
        self._report_prepared()
        self._report(_DONE)

    def _report_prepared(self) -> None:
        """Report that the system's private files had to be searched for."""
        if take_missed_search():
            self._notify_worker(_SEARCHED)

    def _report(self, what: bytes) -> None:
        self._notify_worker(what + b"%d" % os.getpid())

    def _notify_worker(self, message: bytes) -> None:
        with suppress(OSError):
            self._notify.send(message, socket.MSG_DONTWAIT)


class _ReportingFront(Front):
    """A front whose requests the worker wants to know about."""

    def __init__(self, line: socket.socket, parent: int, process: _ServedProcess) -> None:
        super().__init__(line, parent)
        self._process = process

    def finish(self, code: int) -> None:
        first = not self.is_finished
        super().finish(code)
        if first:
            self._process.done()

    def launch(self, *given: Any, **named: Any) -> tuple[int, int]:
        started = super().launch(*given, **named)
        signal.setitimer(signal.ITIMER_REAL, 0)  # it has heard from us, and waits for the program
        self._process.runs()
        return started


def _has_its_share(command: tuple[bool, tuple[str, ...]], line: socket.socket) -> bool:
    """Whether what this process starts for a caller is held to the same share of the machine as the caller's own."""
    if command[1][0] != "call":  # what `run` starts is the front's child
        return True
    try:
        return share_of(peer_of(line)[0]) == share_of()
    except OSError:
        return False


def _goes_to(directory: int) -> bool:
    """Be where the caller is. A directory that may not be entered is fine for a process that is in it already."""
    try:
        os.fchdir(directory)
    except OSError:
        return False
    os.close(directory)
    return True


def _take_over(request: Request, streams: list[int]) -> None:
    """Have the caller's variables and its streams."""
    os.umask(request.umask)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _replace_environment(request.environment)
    time.tzset()
    errors = _take_over_locale(request.environment)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors=errors, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _writer(1, errors)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace")  # type: ignore[misc]


def _writer(number: int, errors: str) -> Any:
    """Return a stream as Python makes those of a process: in lines at a terminal, and for what goes wrong."""
    lines = number == 2 or os.isatty(number)
    stream = open(number, "w", buffering=1 if lines else -1, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
    if stat.S_ISCHR(os.fstat(number).st_mode) and not lines:
        stream.reconfigure(line_buffering=False)
    return stream


def _take_over_locale(environment: Mapping[str, str]) -> str:
    """Do what Python does with the locale when it starts, and return what its streams do with bytes that are no text.

    A locale that is plain, or not installed, it replaces, also for the programs that it starts.
    """
    try:
        named = locale.setlocale(locale.LC_CTYPE, "")
    except locale.Error:
        named = _PLAIN_LOCALES[0]
    if named in _PLAIN_LOCALES and not environment.get("LC_ALL"):
        for better in _BETTER_LOCALES:
            with suppress(locale.Error):
                named = locale.setlocale(locale.LC_CTYPE, better)
                os.environ["LC_CTYPE"] = better
                break
    return "surrogateescape" if named in (*_PLAIN_LOCALES, *_BETTER_LOCALES) else "strict"


def _replace_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    for name, value in environment.items():
        os.environ[name] = value


def parent_if_like_us(line: socket.socket, ours: tuple[bytes, ...], *, but_limits: bool = False) -> int | None:
    """Return the parent of the process that connected if it is this user's, and sees and may do what we do; else None.

    With `but_limits` it may have others: they change what a command can do, not who may ask for our state.
    """
    compared = slice(-1 if but_limits else None)  # the limits are the last
    caller = caller_of(line) if peer_of(line)[1] == os.geteuid() else None
    if caller is None:
        return None
    _process, parent, facts = caller
    return parent if facts[compared] == ours[compared] else None
