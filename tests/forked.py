"""Commands that start by a fork of a process that has the modules loaded already: in half the time or less.

Each is a process of its own, in a session of its own, with the streams, the environment, the directory and the umask
that it is given, as if it were started anew. What only the start of an interpreter can do (to choose an encoding, say)
is not done again: see `request`. With BYLEAVE_SLOW_TESTS every command is started anew.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_LONGEST = 60_000  # bytes of a request: the kernel takes three times as many at once
_AT_THE_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")  # variables that are looked at when an interpreter starts
_LOADED = (
    *("_strptime", "csv", "hashlib", "re2", "shutil", "sqlite3", "termios"),
    *("byleave.cli.main", "byleave.cli.check_command", "byleave.cli.run_command", "byleave.cli.diagnose"),
    *("byleave.cli.approvals_command", "byleave.cli.audit_command", "byleave.cli.doctor_command"),
    *("byleave.cli.hook_command", "byleave.cli.mount_command", "byleave.cli.policy_command"),
    *("byleave.cli.trust_command", "byleave.cli.unmount_command", "byleave.hooks.hook", "byleave.mounts.apply"),
    *("byleave.policy.sandbox_settings", "byleave.policy.parse", "byleave.policy.rule_types"),
    *("byleave.policy.command_lines", "byleave.policy.compile_rules", "byleave.policy.named_files"),
    *("byleave.shell.reader", "byleave.shell.knowledge.harmless.git", "byleave.store.audit.table_writer"),
    *("byleave.store.audit.log", "byleave.guard.guard", "byleave.guard.evaluation", "byleave.sandbox.linux.backends"),
    *("byleave.sandbox.diagnose.diagnosis", "byleave.core.decision", "byleave.core.sensitive_places"),
    *("byleave.cli.init_command", "byleave.cli.setup_command", "byleave.cli.policy_import_command"),
    *("byleave.cli.policy_lint_command", "byleave.cli.policy_diff_command", "byleave.cli.policy_replay_command"),
    *("byleave.cli.policy_test_command", "byleave.cli.policy_learn_command", "byleave.analysis.lint"),
    *("byleave.cli.call_command", "byleave.cli.mcp_command", "byleave.cli.acp_command", "byleave.sandbox.terminal"),
    *("byleave.shell.knowledge.harmless.builds", "byleave.shell.knowledge.harmless.files"),
    *("byleave.shell.knowledge.harmless.node", "byleave.shell.knowledge.harmless.python"),
    *("byleave.shell.knowledge.harmless.system", "byleave.hooks.probe"),
)
_SEARCH_AGAIN = 30.0  # seconds; what was found counts for a minute at most
_LOOK = 1.0  # seconds between two looks at whether the code was changed: one look takes as long as a short command


class Forker:
    """The process that forks, as the tests see it. It ends with us, or when it is closed."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._written = _written()
        self._looked = time.monotonic()
        self._start = _at_the_start(os.environ)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,  # all are pipes, as those of the commands are
                pass_fds=[theirs.fileno()],
                cwd="/",
                start_new_session=True,
            )

    def is_of_this_code(self) -> bool:
        """Look now and then whether the code has changed since it was loaded."""
        if time.monotonic() - self._looked < _LOOK:
            return True
        self._looked = time.monotonic()
        return self._written == _written()

    def close(self) -> None:
        self._ours.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()

    def request(
        self, words: Sequence[str | bytes], cwd: Path | str | None, env: Mapping[str, str], program: str | None = None
    ) -> bytes | None:
        """Return the request to run byleave, or a program in Python; None if that takes an interpreter of its own."""
        if _at_the_start(env) != self._start:
            return None
        try:
            directory = os.path.abspath(cwd or ".")
        except OSError:  # the current one is gone
            return None
        if not os.access(directory, os.R_OK | os.X_OK):
            return None
        tree = [program, [os.fsdecode(word) for word in words], directory, dict(env), _umask()]
        request = json.dumps(tree).encode()
        return None if len(request) > _LONGEST or b"\\u0000" in request else request

    def run(self, request: bytes, feed: bytes, timeout: float) -> tuple[int, bytes, bytes]:
        """Run a command to its end; return its exit code as `subprocess` does, what it said, and its errors."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes = [os.pipe() for _ in range(3)]
        (stdin, feeding), (out, stdout), (err, stderr) = pipes
        given = [stdin, stdout, stderr, theirs.fileno()]
        with ours:
            with theirs:
                socket.send_fds(self._ours, [request], given)
            for descriptor in given[:3]:
                os.close(descriptor)
            pid = self._number(ours)
            try:
                said = _converse(feeding, feed, [out, err], timeout)
                ours.settimeout(timeout)
                return self._number(ours), said[0], said[1]
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(str(request[:200]), timeout) from None
            finally:
                os.close(out)
                os.close(err)

    def _number(self, replies: socket.socket) -> int:
        if not (message := replies.recv(99)):
            raise RuntimeError(f"the process that forks has ended: {self._process.communicate()[0]!r}")
        return int(message)


def _converse(feeding: int, feed: bytes, heard: list[int], timeout: float) -> list[bytes]:
    """Write to one pipe and read from others until they are closed."""
    deadline = time.monotonic() + timeout
    said = {descriptor: bytearray() for descriptor in heard}
    rest = memoryview(feed)
    os.set_blocking(feeding, False)
    poll = select.poll()
    for descriptor in heard:
        poll.register(descriptor, select.POLLIN)
    poll.register(feeding, select.POLLOUT)
    open_ = {feeding, *heard}
    try:
        while open_:
            ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not ready:
                raise TimeoutError
            for descriptor, _events in ready:
                if descriptor == feeding:
                    try:
                        rest = rest[os.write(feeding, rest) :] if rest else rest
                    except BrokenPipeError:
                        rest = memoryview(b"")
                    going_on = bool(rest)
                else:
                    data = os.read(descriptor, 1 << 16)
                    said[descriptor] += data
                    going_on = bool(data)
                if not going_on:
                    poll.unregister(descriptor)
                    open_.remove(descriptor)
                    if descriptor == feeding:
                        os.close(feeding)
    finally:
        if feeding in open_:
            os.close(feeding)
    return [bytes(said[descriptor]) for descriptor in heard]


def _at_the_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_AT_THE_START)}


def _umask() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("Umask:")[2].split()[0], 8)


def _written() -> tuple[int, ...]:
    """Return when each of byleave's modules was written."""
    return tuple(os.stat(file).st_mtime_ns for file in _MODULES if os.path.exists(file))


_MODULES = sorted(str(file) for file in (Path(__file__).parents[1] / "src").rglob("*.py"))
_starting = threading.Lock()
_forkers: list[Forker] = []


def forker() -> Forker | None:
    """Return the process that forks for this one, if there is to be one."""
    if "BYLEAVE_SLOW_TESTS" in os.environ or not os.path.exists("/proc/self/status"):
        return None
    with _starting:
        if not _forkers or not _forkers[-1].is_of_this_code():  # it is being changed: old and new do not mix
            _forkers.append(Forker())
        return _forkers[-1]


def close() -> None:
    while _forkers:
        _forkers.pop().close()


# From here on: the process itself.


def _serve(requests: int) -> Any:
    """Fork for every request, and return it in the child; in the end there are no more."""
    from byleave.sandbox.plan import private_files

    asked = socket.socket(fileno=requests)
    searched, watch = -_SEARCH_AGAIN, None
    waiting: dict[int, tuple[int, int]] = {}  # a process and where to report its end, by the descriptor that says so
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    while True:
        for descriptor, _events in poll.poll():
            if descriptor in waiting:
                poll.unregister(descriptor)
                child, reply = waiting.pop(descriptor)
                _report(reply, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                os.close(descriptor)
                os.close(reply)
                continue
            request, given, _flags, _address = socket.recv_fds(asked, 2 * _LONGEST, 4)
            if not request:
                os._exit(0)
            if time.monotonic() - searched > _SEARCH_AGAIN:
                private_files.keep_search()  # as the service does, for the processes that are forked from it
                searched, watch = time.monotonic(), _watch()
            child = os.fork()
            if child == 0:
                asked.detach()
                for number, stream in enumerate(given[:3]):
                    os.dup2(stream, number)
                tree = json.loads(request)
                if tree[0] is not None or watch is None:  # only byleave itself looks for private files
                    private_files.forget_search()
                    watch = 2
                private_files.use_search_once()
                os.closerange(3, watch)
                os.closerange(watch + 1, 4096)
                return tree
            *streams, reply = given
            for stream in streams:
                os.close(stream)
            _report(reply, child)
            ended = os.pidfd_open(child)
            waiting[ended] = child, reply
            poll.register(ended, select.POLLIN)


def _watch() -> int | None:
    """Return the descriptor by which the kernel reports that private files may have changed."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}") == "anon_inode:inotify":
                return int(number)
    return None


def _report(reply: int, number: int) -> None:
    with suppress(OSError):  # the test does not wait for it any more
        os.write(reply, str(number).encode())


def _main() -> None:
    from left_behind import c_library, die_with_parent

    c_library()
    del sys.path[0]
    for name in _LOADED:
        with suppress(Exception):  # the test that needs it fails
            __import__(name)
    gc.collect()
    gc.freeze()  # at the end of a child it need not be gone through
    program, words, directory, variables, umask = _serve(int(sys.argv[1]))
    die_with_parent()
    os.setsid()
    os.umask(umask)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()  # a module that is loaded may have looked at the time zone
    os.chdir(directory)
    try:
        _run(program, words)
    except SystemExit as ending:
        if isinstance(ending.code, int | None):
            _leave(ending.code or 0)
        raise
    _leave(0)


def _run(program: str | None, words: list[str]) -> None:
    if program is not None:
        sys.argv = ["-c", *words]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 -- a test's own
        return
    from byleave.cli import main

    sys.argv = [os.path.join(os.path.dirname(os.path.dirname(main.__file__)), "__main__.py"), *words]
    sys.exit(main.run())


def _leave(code: int) -> None:
    """End as an interpreter does, but leave the memory to the kernel.

    To take all modules apart takes four times as long as the fork. Where something cannot be written any more, the
    interpreter says so itself.
    """
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 -- waits for threads, as an interpreter does
    atexit._run_exitfuncs()  # noqa: SLF001
    with suppress(Exception):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    _main()
