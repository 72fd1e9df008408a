"""A collector on loopback: takes OTLP by HTTP, decodes what arrives, and can be as bad as collectors are."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from byleave.gateway.telemetry_plan import TelemetryPlan


class Collector:
    """Use by `with`. `manner`: ok, refuses, moved, hangs, floods."""

    def __init__(self, manner: str = "ok") -> None:
        self.manner = manner
        self.bodies: list[bytes] = []
        self.fields: list[dict[str, str]] = []
        self.traces = ExportTraceServiceRequest()
        self.metrics: list[Any] = []
        self.is_over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.is_over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def plan(self, **more: Any) -> TelemetryPlan:
        usual: dict[str, Any] = {"service_name": "", "sample": None, "interval": 3600.0}
        return TelemetryPlan(
            **{"traces": f"{self.url}/v1/traces", "metrics": f"{self.url}/v1/metrics", **usual, **more}
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector._take(self)

            def log_message(self, *_words: Any) -> None:
                pass

        return Handler

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        self.bodies.append(body)
        self.fields.append({name.lower(): value for name, value in handler.headers.items()})
        if self.manner == "hangs":
            self.is_over.wait(20)
            return
        if self.manner == "ok":
            if handler.path == "/v1/traces":
                self.traces.MergeFromString(body)
            else:
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        handler.send_response({"refuses": 400, "moved": 307}.get(self.manner, 200))
        if self.manner == "moved":
            handler.send_header("Location", f"{self.url}/elsewhere")
        handler.send_header("Content-Length", str(1 << 40) if self.manner == "floods" else "0")
        handler.end_headers()
        try:
            while self.manner == "floods" and not self.is_over.is_set():
                handler.wfile.write(bytes(1 << 16))
        except OSError:
            pass

    def spans(self) -> list[Any]:
        return [span for each in self.traces.resource_spans for scope in each.scope_spans for span in scope.spans]

    def span(self, start: str, kind: int | None = None) -> Any:
        """Return the one span whose name begins so."""
        (found,) = [each for each in self.spans() if each.name.startswith(start) and kind in (None, each.kind)]
        return found

    def resource(self) -> dict[str, Any]:
        return attributes(self.traces.resource_spans[0].resource)

    def figures(self) -> dict[str, Any]:
        """Return what the last export of figures has, by name."""
        (whole,) = self.metrics[-1].resource_metrics
        return {metric.name: metric for scope in whole.scope_metrics for metric in scope.metrics}


def attributes(holder: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes}


def until(condition: Any, seconds: float = 5.0) -> bool:
    """Wait for what another thread does."""
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.005)
    return bool(condition())


def points(metric: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    data = getattr(metric, metric.WhichOneof("data"))
    return ((attributes(point), point) for point in data.data_points)
