"""How spans and figures leave: by a thread and a bounded queue each, so that no call ever waits for a collector.

A collector that is down, slow or refuses costs what is in the queue, and nothing else: the oldest goes when it is full,
and is counted. What a collector answers is read up to a limit, and redirects are not followed: headers with credentials
would go along.
"""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Generic, TypeVar

import requests
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from byleave.gateway.metrics import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from opentelemetry.sdk.resources import Resource

    from byleave.gateway.metrics import Family, Key

Item = TypeVar("Item")
SCOPE = "byleave.gateway"
FLUSH = 3.0  # seconds that the end of the gateway waits for what is not sent yet
_LARGEST_ANSWER = 1 << 16  # bytes of a collector's answer that are read
_SUCCESS, _REDIRECT = 200, 300
# Histograms that the conventions of OpenTelemetry for MCP name.
_NAMES = {
    "byleave_mcp_request_seconds": "mcp.server.operation.duration",
    "byleave_mcp_upstream_seconds": "mcp.client.operation.duration",
}
_LABELS = {"method": "mcp.method.name"}


class ExportQueue(Generic[Item]):
    """Hands what is put into it to `send`, in another thread, by batches. `send` returns whether it was delivered."""

    def __init__(
        self,
        name: str,
        send: Callable[[list[Item]], bool],
        *,
        most: int,
        batch: int,
        pause: float | None,
        on_stop: Callable[[], None],
    ) -> None:
        """`most` items wait at a time. What is there is sent after `pause` seconds, or when a batch is full."""
        self._send = send
        self._most = most
        self._batch = batch
        self._pause = pause
        self._on_stop = on_stop
        self._items: deque[Item] = deque()
        self._wake = threading.Event()
        self._ends_at: float | None = None
        self._overflowed = 0
        self._undelivered = 0  # of the thread alone, as the other is of the loop
        self._thread = threading.Thread(target=self._run, name=f"byleave-{name}", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many were not delivered."""
        return self._overflowed + self._undelivered

    def put(self, item: Item) -> None:
        """Have it sent; never waits."""
        items = self._items
        if len(items) >= self._most:
            try:
                items.popleft()
                self._overflowed += 1
            except IndexError:  # the thread was quicker
                pass
        items.append(item)
        if len(items) >= self._batch and not self._wake.is_set():
            self._wake.set()

    def close(self, seconds: float) -> None:
        """Send what is there for at most so long, and stop."""
        self._ends_at = monotonic() + seconds
        self._wake.set()
        self._thread.join(seconds)
        self._on_stop()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(self._pause)
            self._wake.clear()
            is_last = self._ends_at is not None  # after the clear: an end that comes later wakes us again
            while self._items and (self._ends_at is None or monotonic() < self._ends_at):
                batch = self._taken()
                try:
                    is_sent = self._send(batch)
                except Exception:  # noqa: BLE001 -- whatever a library raises: the next batch may go out
                    is_sent = False
                self._undelivered += 0 if is_sent else len(batch)

    def _taken(self) -> list[Item]:
        batch: list[Item] = []
        try:
            while len(batch) < self._batch:
                batch.append(self._items.popleft())
        except IndexError:
            pass
        return batch


class CollectorSession(requests.Session):
    """Sends to a collector, and keeps in `trouble` how it went wrong last: a status, or the name of an error."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.trouble = ""
        self.proxies = requests.utils.get_environ_proxies(url)
        self.trust_env = False  # else a netrc file gives away passwords

    def request(self, *args: Any, **more: Any) -> requests.Response:
        """Return the answer, of which no more is read than a collector has to say."""
        try:
            response = super().request(*args, **{**more, "stream": True, "allow_redirects": False})
            try:
                response._content = response.raw.read(_LARGEST_ANSWER)  # noqa: SLF001 -- what `content` returns
            finally:
                response.close()
        except Exception as error:
            self.trouble = type(error).__name__
            raise
        if not _SUCCESS <= response.status_code < _REDIRECT:
            self.trouble = f"status {response.status_code}"
        if _REDIRECT <= response.status_code < 400:
            raise requests.exceptions.TooManyRedirects(self.trouble)  # else it would count as delivered
        return response


def figures(families: Iterable[Family], resource: Resource, version: str, since: int) -> MetricsData:
    """Return what is counted as OTLP has it. `since`: when the counting began, in nanoseconds.

    A collector that writes it for Prometheus makes the names of `/metrics` of it: dots become underscores, and the
    endings for units and counters come back.
    """
    now = time_ns()
    metrics = [_metric(family, since, now) for family in families if family.samples or family.timings]
    scope = ScopeMetrics(InstrumentationScope(SCOPE, version), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: Family, since: int, now: int) -> Metric:
    def named(key: Key) -> dict[str, str]:
        pairs = zip(family.labels, key, strict=True)
        return {_LABELS.get(label, f"byleave.{label}"): clean(value) for label, value in pairs}

    name = _NAMES.get(family.name) or family.name.removesuffix("_total").removesuffix("_seconds").replace("_", ".")
    total = AggregationTemporality.CUMULATIVE
    numbers = [NumberDataPoint(named(key), since, now, value) for key, value in family.samples.items()]
    if family.kind == "counter":
        return Metric(name, family.help, "", Sum(numbers, total, is_monotonic=True))
    if family.kind == "gauge":
        return Metric(name, family.help, "", Gauge(numbers))
    unknown: Any = None  # the least and the most are not kept
    points = [
        HistogramDataPoint(
            named(key), since, now, each.count, each.seconds, tuple(each.counts), BUCKETS, unknown, unknown
        )
        for key, each in family.timings.items()
    ]
    return Metric(name, family.help, "s", Histogram(points, total))


def clean(text: str) -> str:
    """Return a text that protobuf can hold: what is no text at all is replaced."""
    return text.encode("utf-8", "replace").decode()
