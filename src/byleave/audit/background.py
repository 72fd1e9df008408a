"""Folding behind the back of whoever appends: a thread in a long-lived process, a child left behind by a short one."""

import os

from byleave.audit.locks import hold_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from byleave.audit.fold import Folder

WAIT_LOCK = "audit.fold.wait"
PERIOD = 0.25  # seconds between two looks of the thread
DELAY = 0.2  # seconds that a child waits for more records to come


class FoldThread:
    """Folds every now and then, if there is something, until it is stopped."""

    def __init__(self, folder: "Folder", warnings: "list[str]") -> None:
        import threading

        self._folder = folder
        self._warnings = warnings
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="byleave-audit-fold", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a fold that is under way is finished."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        from byleave.audit.fold import fold_or_keep

        while not self._ended.wait(PERIOD):
            if self._folder.waiting():
                fold_or_keep(self._folder, self._warnings, patient=False)


def fold_behind(directory: str, fold: "Callable[[], object]") -> None:
    """Leave a child behind that folds in a moment, unless one is waiting already. It never becomes a zombie of ours."""
    waiting = hold_file(os.path.join(directory, WAIT_LOCK), patient=False, inherited=True)
    if waiting is None:
        return
    try:
        child = os.fork()
        if child == 0:
            _leave_grandchild(waiting, fold)
        _wait_for(child)
    finally:
        os.close(waiting)  # the lock lives on in the grandchild, which has the same open file


def _wait_for(child: int) -> None:
    try:
        os.waitpid(child, 0)
    except ChildProcessError:  # whoever started us has children ignored, and the kernel has waited for it
        return


def _leave_grandchild(waiting: int, fold: "Callable[[], object]") -> None:
    """In the child: fork once more and end, so that the grandchild belongs to nobody who would have to wait for it."""
    try:
        os.setsid()
        if os.fork() == 0:
            _wait_and_fold(waiting, fold)
    finally:
        os._exit(0)


def _wait_and_fold(waiting: int, fold: "Callable[[], object]") -> None:
    import time
    from signal import SIG_DFL, SIGHUP, SIGINT, SIGTERM, signal

    for number in (SIGINT, SIGTERM, SIGHUP):
        signal(number, SIG_DFL)
    waiting = _let_go_of_everything(waiting)
    time.sleep(DELAY)
    os.close(waiting)  # from here on a new record needs a new child
    fold()


def _let_go_of_everything(kept: int) -> int:
    """Close every descriptor but one, which becomes 3, and lead the standard streams nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    kept, nowhere = os.dup2(kept, 60, inheritable=False), os.dup2(nowhere, 61, inheritable=False)
    for stream in range(3):
        os.dup2(nowhere, stream)
    os.dup2(kept, 3, inheritable=False)
    os.closerange(4, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 4096)
    os.chdir("/")
    return 3
