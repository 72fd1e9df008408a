"""A proxy that is loaded when the first program connects to it: most programs in a sandbox never do."""

from __future__ import annotations

import os
import select
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from byleave.net.proxy import HttpProxy


class LateProxy:
    """Waits at a listener, which belongs to it, and has a proxy serve it from the first connection on."""

    def __init__(self, listener: socket.socket, opened: Callable[[], HttpProxy]) -> None:
        self._listener = listener
        self._opened = opened
        self._proxy: HttpProxy | None = None
        self._over = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = Thread(target=self._wait, name="byleave-late-proxy", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        waiting.register(self._over, select.POLLIN)
        ready = {descriptor for descriptor, _event in waiting.poll()}
        try:
            if self._over not in ready:
                proxy = self._opened()
                proxy.start(self._listener)
                self._proxy = proxy
        finally:
            if self._proxy is None:  # it is not needed any more, or cannot be served: then it refuses everything
                self._listener.close()

    def close(self) -> None:
        """End every connection. A second call does nothing."""
        if self._over < 0:
            return
        os.eventfd_write(self._over, 1)
        self._thread.join()
        over, self._over = self._over, -1
        os.close(over)
        if self._proxy is not None:
            self._proxy.close()
