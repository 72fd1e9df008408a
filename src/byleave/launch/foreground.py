"""Run a program in the foreground of this process: its streams are ours, signals reach it, its end is ours.

A program that is started here is in a session of its own, where the terminal does not send it anything: what reaches
this process is passed on. `byleave run` uses it for programs and for the commands of agents.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from byleave.caller import front
from byleave.launch.start import start_confined
from byleave.sandbox.session import process_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from byleave.caller import Front
    from byleave.errors import SandboxError
    from byleave.launch.start import ProgramStart
    from byleave.net.proxy import Decide
    from byleave.sandbox.confinement import Confinement
    from byleave.sandbox.process import Process
    from byleave.sandbox.terminal import OwnTerminal
    from byleave.store.live_runs import LiveRun

TIMED_OUT = 124  # as timeout(1) says it
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_WAITING = (*_PASSED_ON, signal.SIGCHLD, signal.SIGTSTP, signal.SIGWINCH)


class ProgramEnd(Struct, frozen=True):
    """How a program ended: the exit code as a shell says it, what kept it from running, and where it was at its end.

    `unwritten` is what it tried to write where all is read-only, where that is noted. `longest` is how many seconds it
    was given, if it was ended because it took longer. `outlasted`: something that it left running goes on.
    """

    code: int
    problem: SandboxError | None = None
    directory: str | None = None
    unwritten: tuple[str, ...] = ()
    longest: float | None = None
    outlasted: bool = False


@contextmanager
def signals_held() -> Iterator[None]:
    """Have signals wait: none is lost between the start of a program and our waiting for it.

    None reaches another thread either, where it would end this process.
    """
    waiting = set(_WAITING)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # our parent may ignore it, and then we would never get it
    signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waiting)


class Attendance(Struct, frozen=True):
    """What is called beside a run: when the program was `started`, and as soon as it has `ended`.

    What it leaves running in an agent session goes on after that. `passes` says whether a signal is for the program.
    `live`: where hooks find the run, as long as anything of it goes on.
    """

    started: Callable[[], object] | None = None
    ended: Callable[[ProgramEnd], object] | None = None
    passes: Callable[[signal.struct_siginfo], bool] | None = None
    live: LiveRun | None = None


def run_in_foreground(
    confinement: Confinement, start: ProgramStart, *, decide: Decide, attendance: Attendance
) -> ProgramEnd:
    """Run a program to its end, at a terminal of its own if one of our streams is a terminal; signals must be held.

    A SandboxError if it may not or cannot be started. In an agent session, return when what it left running has ended.
    """
    from byleave.sandbox.terminal import own_terminal

    terminal = own_terminal()
    streams = structs.replace(start, stdin=None, stdout=None, stderr=None, terminal=terminal)
    try:
        process = _start(confinement, streams, decide, attendance.live)
    except BaseException:
        if terminal is not None:
            terminal.close()
        raise
    with process:
        try:
            if attendance.started is not None:
                attendance.started()
            if terminal is not None:
                terminal.serve(process, lambda: os.kill(os.getpid(), signal.SIGTSTP))
            end = _outcome(process, terminal, confinement.options.limits.wall_time, attendance)
            end = structs.replace(end, outlasted=process.is_outlasted)
            if terminal is not None and end.outlasted:
                terminal.leave()
        except BaseException:
            if terminal is not None:
                terminal.close()
            raise
        if terminal is not None and not end.outlasted:
            terminal.close()
        if attendance.ended is not None:
            attendance.ended(end)
        process.outlast()
    if terminal is not None and end.outlasted:
        terminal.close()
    return end


def _start(confinement: Confinement, start: ProgramStart, decide: Decide, live: LiveRun | None) -> Process:
    """Start the program, in the registry of live runs before it can do anything."""
    if live is None:
        return start_confined(confinement, start, decide=decide)
    try:
        live.enter()
        process = start_confined(confinement, start, decide=decide)
    except BaseException:
        live.close()
        raise
    process.at_end(live.close)
    try:
        first = process_of(process.pid)
        if first is not None:  # else it has ended
            live.started(first.pid, first.started)
    except BaseException:
        process.close()
        raise
    return process


def _outcome(
    process: Process, terminal: OwnTerminal | None, longest: float | None, attendance: Attendance
) -> ProgramEnd:
    """Wait for the end, passing signals on. A front passes them on by itself."""
    asking = front()
    if asking is None:
        in_time = _attend(process, terminal, longest, attendance)
    else:
        in_time = _attend_front(asking, process, longest)
    code = process.wait()
    if not in_time:
        return ProgramEnd(TIMED_OUT, None, process.directory, tuple(process.unwritten), longest)
    if process.problem is not None:
        return ProgramEnd(process.problem.exit_code, process.problem)
    return ProgramEnd(code if code >= 0 else 128 - code, None, process.directory, tuple(process.unwritten))


def _attend(process: Process, terminal: OwnTerminal | None, longest: float | None, attendance: Attendance) -> bool:
    """Pass signals on until the program has ended; return False if it had to be ended because it took too long."""
    end = None if longest is None else monotonic() + longest
    while process.poll() is None:
        if end is None:
            got = signal.sigwaitinfo(_WAITING)
        else:
            timed = signal.sigtimedwait(_WAITING, max(end - monotonic(), 0))
            if timed is None:
                process.kill()
                process.wait()
                return False
            got = timed
        if attendance.passes is None or attendance.passes(got):
            _pass_on(process, terminal, got)
    return True


def _attend_front(asking: Front, process: Process, longest: float | None) -> bool:
    """Wait until the program has ended; return False if it had to be ended because it took too long.

    A FrontGoneError if the front has ended: its program goes with it.
    """
    end = None if longest is None else monotonic() + longest
    watched = select.poll()
    watched.register(asking, select.POLLIN)
    for descriptor in process.end_descriptors:
        watched.register(descriptor, select.POLLIN)
    while process.poll() is None:
        ready = watched.poll(None if end is None else max(end - monotonic(), 0) * 1000)
        if not ready:
            process.kill()
            process.wait()
            return False
        if asking.fileno() in dict(ready) and process.poll() is None:
            asking.hear()
    return True


def _pass_on(process: Process, terminal: OwnTerminal | None, got: signal.struct_siginfo) -> None:
    """Do for the program what a signal asks of us."""
    number = got.si_signo
    if number == signal.SIGTSTP:
        _suspend(process, terminal, whole_job=got.si_pid == os.getpid())
    elif number == signal.SIGWINCH:
        if terminal is not None:
            terminal.resize()
    elif number in _PASSED_ON and got.si_code <= 0:  # sent to this process alone
        process.send_signal(number)
    elif number in (signal.SIGINT, signal.SIGQUIT) and terminal is not None and terminal.controls:
        terminal.signal(number)
    elif number in _PASSED_ON:
        process.signal_all(number)


def _suspend(process: Process, terminal: OwnTerminal | None, *, whole_job: bool) -> None:
    """Stop with the program until we are continued; the `whole_job`, if a key at the terminal stopped it."""
    process.signal_all(signal.SIGSTOP)
    if terminal is not None:
        terminal.pause()
    stopping = {signal.SIGTSTP}
    os.kill(0 if whole_job else os.getpid(), signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)  # here we stop
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    if terminal is not None:
        terminal.resume()
        terminal.resize()
    process.signal_all(signal.SIGCONT)
