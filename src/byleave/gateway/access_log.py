"""The access log: one line for each HTTP request, with the id by which it is found in other logs.

The id is what the client, or a proxy before us, sends as `X-Request-Id`, if it is a plain short word; else we make one.
The response repeats it. All else in a line is ours: a path that is none of the gateway's, a method that HTTP does not
have and an agent that is not of the configuration are `other`, and queries are left out: one holds the id of a session.
"""

from __future__ import annotations

import re
import secrets
from time import monotonic
from typing import TYPE_CHECKING

from byleave.gateway.log_lines import JSON, REQUEST, LineWriter, RequestMark, json_line, marked
from byleave.gateway.metrics import OTHER
from byleave.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from byleave.gateway.interfaces import Caller
    from byleave.gateway.log_lines import Log
    from byleave.net.http_server_exchange import ServerRequestHead

FIELD = "x-request-id"
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})
_ID_BYTES = 8


def request_id(given: str | None) -> str:
    """Return the id that a request has: the given one, if it is a plain short word."""
    return given if given is not None and _SANE.fullmatch(given) else secrets.token_hex(_ID_BYTES)


class AccessLog:
    """Writes the lines. With `writes` off there are none, but requests have their ids."""

    def __init__(
        self, log: Log, *, where: bool | str, paths: Collection[str], knows: Callable[[str | None], bool]
    ) -> None:
        """`where` as `[gateway] access_log` says it; `knows`: whether an agent is one of the configuration."""
        self._form = log.form
        self._own = LineWriter(log.dropped_line, where) if isinstance(where, str) else None
        self.writer = self._own or (log.writer if where else None)
        self._paths = frozenset(paths)
        self.further_paths: frozenset[str] = frozenset()  # that are the gateway's by its settings of the moment
        self._knows = knows

    def begin(self, head: ServerRequestHead) -> RequestWatch:
        """Watch one request; what is done for it from now on knows its id."""
        watch = RequestWatch(self, head, request_id(head.fields.get(FIELD)))
        REQUEST.set(watch.mark)
        return watch

    def refused(self, status: int) -> None:
        """Write the line of what could not be read as a request, or of a connection that was turned away."""
        self._write({"method": OTHER, "path": OTHER, "status": status, "bytes": 0, "seconds": 0.0})

    def over(self, watch: RequestWatch, *, is_lost: bool) -> None:
        """Write the line of a request that is over. `is_lost`: the client went away before."""
        if self.writer is None:
            return
        head, caller = watch.head, watch.caller
        fields: dict[str, Any] = {
            "method": head.method if head.method in _METHODS else OTHER,
            "path": head.path if head.path in self._paths or head.path in self.further_paths else OTHER,
            "status": watch.status,
            "bytes": watch.size,
            "seconds": round(monotonic() - watch.came, 6),
        }
        if caller is not None:
            agent = caller.agent
            fields["agent"] = agent if agent is None or self._knows(agent) else OTHER
            fields["identity"] = caller.identity
            fields["principal"] = caller.principal.partition(":")[0]
        if is_lost:
            fields["lost"] = True
        self._write({**fields, **marked(watch.mark)})

    def _write(self, fields: dict[str, Any]) -> None:
        if self.writer is None:
            return
        if self._form == JSON:
            self.writer.put(json_line("info", {"kind": "access", **fields}))
        else:
            words = (f"{key}={_word(key, value)}" for key, value in fields.items())
            self.writer.put(f"byleave: access {' '.join(words)}")

    @property
    def dropped(self) -> int:
        """How many lines of a file of our own were dropped; those on standard error count with the rest there."""
        return 0 if self._own is None else self._own.dropped

    def close(self) -> None:
        """Write what is there to a file of our own, for a little while at most."""
        if self._own is not None:
            self._own.close()


def _word(key: str, value: Any) -> str:
    """Return a value as text has it. Only the name of an agent can be more than a word: it is the configuration's."""
    return "-" if value is None else quoted(value) if key == "agent" else f"{value}"


class RequestWatch:
    """What is seen of one request and its response. `status` 0: there was none."""

    __slots__ = ("_log", "caller", "came", "head", "mark", "size", "status")

    def __init__(self, log: AccessLog, head: ServerRequestHead, id_: str) -> None:
        self._log = log
        self.head = head
        self.mark = RequestMark(id_)
        self.came = monotonic()
        self.caller: Caller | None = None
        self.status = 0
        self.size = 0

    def began(self, status: int, size: int) -> bytes:
        """Note how the response begins; return the line of its head that holds the id."""
        self.status, self.size = status, size
        return b"X-Request-Id: %b\r\n" % self.mark.id.encode()

    def ended(self, *, is_lost: bool = False) -> None:
        """Note that the response is complete, or the client gone."""
        self._log.over(self, is_lost=is_lost)
