"""Traces and figures of the gateway by OTLP, with the SDK of OpenTelemetry, which the extra `byleave[otel]` brings.

    the request of a client        SERVER    from its coming to its answer, with the verdict
      the question to a person     INTERNAL
      the request to a server      CLIENT    whose context goes along in `_meta`
      the run of a local tool      INTERNAL
    a request that is turned away  SERVER    before its message is read: why, and the status

Nothing that a caller or a server writes is in a span: no arguments, results, errors, ids, URIs, headers, baggage, no
`tracestate`. Agents and servers are those of the configuration; a tool or a prompt is named if its server lists it, up
to a length, and up to a number of names. Names of attributes follow the conventions of OpenTelemetry for MCP where they
have one; the others begin with `byleave.`.

Start at `Telemetry.begin_call`. This module is imported only where telemetry is sent: `telemetry_plan` says whether.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from time import monotonic
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation import set_span_in_context

from byleave.core.decision import WORDS, Verdict
from byleave.gateway.authorize import NeedsAnswer, Refused
from byleave.gateway.interfaces import DownError, LateError
from byleave.gateway.limits import Buckets
from byleave.gateway.log_lines import REQUEST
from byleave.gateway.message import decoded, members_of
from byleave.gateway.metrics import OTHER, REFUSALS, Metrics
from byleave.gateway.revisions import HANDSHAKE, STATELESS
from byleave.gateway.telemetry_export import FLUSH, SCOPE, CollectorSession, ExportQueue, clean, figures
from byleave.gateway.trace_context import parent_in, written
from byleave.guard.evaluation import Evaluation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType
    from typing import Any, Self

    from msgspec import Raw
    from opentelemetry.trace import Span

    from byleave.gateway.metrics import Family
    from byleave.gateway.telemetry_plan import TelemetryPlan
    from byleave.gateway.tracing import TracedCall

_MOST_SPANS = 2048  # that wait for the collector
_BATCH = 512
_PAUSE = 1.0  # seconds after which spans are sent
_LONGEST_NAME = 128  # letters of a tool's name
_MOST_NAMES = 2000  # of tools and prompts that spans name
_MOST_REFUSED = 60  # spans a minute of each kind of refusal: strangers cannot push those of callers out of the queue
_REVISIONS = frozenset({*HANDSHAKE, *STATELESS})
_MOST_CODE = 100_000  # JSON-RPC has codes of five digits; others may be anything
_ERRORS = {"error": "tool_error"}  # what the conventions call it when a result says that it is an error
_FINE = frozenset({"ok", "input_required"})


class Telemetry:
    """Sends the spans and the figures of one gateway. Its methods are called in the event loop, and never wait."""

    def __init__(self, plan: TelemetryPlan, note: Callable[[str], None]) -> None:
        """`note` takes sentences for the operator, in the event loop."""
        from byleave import __version__

        _silence_the_sdk()
        self._plan = plan
        self._note = note
        self._version = __version__
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._families: Callable[[], Iterable[Family]] | None = None
        self._since = 0
        self._metrics = Metrics()  # until there are some
        self._names: set[tuple[str, str]] = set()
        self._refused = Buckets(_MOST_REFUSED)
        self.resource = _resource(plan.service_name, __version__)
        sampler = None if plan.sample is None else ParentBasedTraceIdRatio(plan.sample)
        provider = TracerProvider(sampler=sampler, resource=self.resource, shutdown_on_exit=False)
        self._spans = self._span_queue(plan.traces) if plan.traces else None
        self._figures = self._figure_queue(plan.metrics) if plan.metrics else None
        if self._spans is not None:
            provider.add_span_processor(_Queueing(self._spans))
        self._tracer = provider.get_tracer(SCOPE, __version__)

    def _span_queue(self, url: str) -> ExportQueue[ReadableSpan]:
        session = CollectorSession(url)
        exporter = OTLPSpanExporter(endpoint=url, session=session)

        def send(batch: list[ReadableSpan]) -> bool:
            return self._is_sent(exporter.export(batch) is SpanExportResult.SUCCESS, session)

        return ExportQueue("spans", send, most=_MOST_SPANS, batch=_BATCH, pause=_PAUSE, on_stop=exporter.shutdown)

    def _figure_queue(self, url: str) -> ExportQueue[MetricsData]:
        session = CollectorSession(url)
        exporter = OTLPMetricExporter(endpoint=url, session=session)

        def send(batch: list[MetricsData]) -> bool:
            return self._is_sent(exporter.export(batch[-1]) is MetricExportResult.SUCCESS, session)

        # Figures are sums over all time: newer ones stand for those that were not sent.
        return ExportQueue("figures", send, most=1, batch=1, pause=None, on_stop=exporter.shutdown)

    def _is_sent(self, is_sent: bool, session: CollectorSession) -> bool:  # noqa: FBT001 -- what was returned
        """Note for the operator what was not sent; called by the threads that send."""
        loop = self._loop
        if not is_sent and loop is not None and not loop.is_closed():
            sentence = f"telemetry does not reach the collector ({session.trouble or 'it could not be written'})"
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(self._note, sentence)
        return is_sent

    # ---- The life of it --------------------------------------------------------------------------------------------

    def start(self, metrics: Metrics, families: Callable[[], Iterable[Family]], since: int) -> None:
        """Begin to send figures. `since`: when their counting began, in nanoseconds."""
        self._loop = asyncio.get_running_loop()
        self._metrics, self._families, self._since = metrics, families, since
        if self._spans is not None:
            queue = self._spans
            metrics.dropped["spans"] = lambda: queue.dropped
        if self._figures is not None:
            self._reporting = self._loop.create_task(self._report())

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self._plan.interval)
            self._put_figures()

    def _put_figures(self) -> None:
        if self._figures is not None and self._families is not None:
            self._figures.put(figures(self._families(), self.resource, self._version, self._since))

    async def close(self) -> None:
        """Send what is there, for a few seconds at most."""
        if self._reporting is not None:
            self._reporting.cancel()
        self._put_figures()
        queues = [queue for queue in (self._spans, self._figures) if queue is not None]
        await asyncio.gather(*(asyncio.to_thread(queue.close, FLUSH) for queue in queues))

    # ---- Spans -----------------------------------------------------------------------------------------------------

    def begin_call(self, call: TracedCall) -> CallTrace:
        """Begin the span of a request."""
        parent = parent_in(call.meta, call.headers)
        context = Context()
        if parent is not None:
            remote = SpanContext(parent.trace, parent.span, is_remote=True, trace_flags=TraceFlags(parent.flags))
            context = set_span_in_context(NonRecordingSpan(remote), context)
        span = self.begin(call.method, context, SpanKind.SERVER)
        mark = REQUEST.get()
        if mark is not None:
            mark.trace = f"{span.get_span_context().trace_id:032x}"
        server = self._metrics.server_label(call.server)
        trace = CallTrace(self, span, call, server, "" if parent is None else parent.state)
        trace.attributes = {
            "mcp.method.name": call.method,
            "mcp.protocol.version": call.revision,
            "network.transport": "pipe" if call.over_pipe else "tcp",
            "byleave.server": server,
            "byleave.agent": clean(self._metrics.agent_label(call.agent)),
            "byleave.agent.identity": call.identity,
        }
        return trace

    def refused(self, why: str, status: int) -> str:
        """Send a span of a request that was refused before it was read; return its trace, empty if it has none.

        It begins a trace of its own: who is refused has no say in traces.
        """
        why = why if why in REFUSALS else OTHER
        if self._refused.take(why, monotonic()):
            return ""
        span = self.begin("refused", Context(), SpanKind.SERVER)
        if span.is_recording():
            noted = {"byleave.refused": why, "http.response.status_code": status, "network.transport": "tcp"}
            _finish(span, {**noted, "byleave.outcome": "refused"}, "refused")
        span.end()
        return f"{span.get_span_context().trace_id:032x}"

    def begin(self, name: str, context: Context, kind: SpanKind) -> Span:
        """Begin a span of our own; what goes wrong in it is never written into it by itself."""
        return self._tracer.start_span(
            name, context=context, kind=kind, record_exception=False, set_status_on_exception=False
        )

    def may_name(self, server: str, name: str) -> bool:
        """Whether a name that a server lists may stand in a span: so long, so many, and nothing but letters."""
        key = (server, name)
        if key in self._names:
            return True
        if len(name) > _LONGEST_NAME or not name.isprintable() or len(self._names) >= _MOST_NAMES:
            return False
        self._names.add(key)
        return True


class CallTrace:
    """The span of one request of a client, and what belongs to it. Used by `with`."""

    __slots__ = ("_call", "_context", "_last", "_server", "_span", "_state", "_telemetry", "attributes", "outcome")

    def __init__(self, telemetry: Telemetry, span: Span, call: TracedCall, server: str, state: str) -> None:
        """`server` is its name, as it may be sent; `state` the caller's `tracestate`, for the server."""
        self.attributes: dict[str, Any] = {}
        self.outcome = ""
        self._telemetry = telemetry
        self._span = span
        self._call = call
        self._server = server
        self._state = state
        self._context = set_span_in_context(span, Context())
        self._last: UpstreamTrace | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        span = self._span
        if span.is_recording():
            named = self._named(self.attributes)
            if named:
                span.update_name(f"{self._call.method} {named}")
            outcome = self.outcome or ("input_required" if error is None else _word_for(error))
            self.attributes["byleave.outcome"] = outcome
            _finish(span, self.attributes, outcome)
        span.end()

    def _named(self, attributes: dict[str, Any]) -> str:
        """Return the tool or the prompt that it is about, and note it there; empty where that cannot be said."""
        call = self._call
        kind, name = call.kind, call.name
        if kind == "tools":
            attributes["gen_ai.operation.name"] = "execute_tool"
        key = {"tools": "gen_ai.tool.name", "prompts": "gen_ai.prompt.name"}.get(kind)
        if key is None or not call.lists(kind, call.server, name) or not self._telemetry.may_name(call.server, name):
            return ""
        attributes[key] = name
        return name

    def decided(self, verdict: Verdict) -> None:
        """Note the verdict: its words are ours, its rule is named by file and line."""
        self.attributes |= _verdict_attributes(verdict)

    async def asked(self, asking: Coroutine[Any, Any, Any]) -> Any:
        """Return what comes of a question to a person, with a span of its own."""
        span = self._telemetry.begin("ask", self._context, SpanKind.INTERNAL)
        attributes: dict[str, Any] = {"byleave.server": self._server}
        outcome = "ok"
        try:
            answer = await asking
            if isinstance(answer, Evaluation | Refused):
                attributes |= _verdict_attributes(answer.verdict)
            elif isinstance(answer, NeedsAnswer):
                outcome = "input_required"
        except BaseException as error:
            outcome = _word_for(error)
            raise
        else:
            return answer
        finally:
            attributes["byleave.outcome"] = outcome
            _finish(span, attributes, outcome)
            span.end()

    def upstream(self, revision: str, transport: str) -> UpstreamTrace:
        """Begin the span of a request to a server. Used by `with`."""
        call = self._call
        span = self._telemetry.begin(call.method, self._context, SpanKind.CLIENT)
        self._last = UpstreamTrace(span, self._state)
        self._last.attributes = {
            "mcp.method.name": call.method,
            "network.transport": "pipe" if transport == "stdio" else "tcp",
            "byleave.server": self._server,
        }
        if revision in _REVISIONS:
            self._last.attributes["mcp.protocol.version"] = revision
        if span.is_recording():
            named = self._named(self._last.attributes)
            if named:
                span.update_name(f"{call.method} {named}")
        return self._last

    def local(self) -> LocalTrace:
        """Begin the span of one run of a tool of this workspace. Used by `with`."""
        span = self._telemetry.begin("execute_tool", self._context, SpanKind.INTERNAL)
        trace = LocalTrace(span)
        trace.attributes = {"byleave.server": self._server}
        if span.is_recording():
            named = self._named(trace.attributes)
            if named:
                span.update_name(f"execute_tool {named}")
        return trace

    def answered(self, result: Raw | None, error: Raw | None) -> None:
        """Note the size of a server's result, or the number of its error."""
        if error is not None:
            number = decoded(members_of(error).get("code", b"0"))
            is_code = type(number) is int and abs(number) < _MOST_CODE
            noted: dict[str, Any] = {"rpc.response.status_code": f"{number}" if is_code else "_OTHER"}
            noted["error.type"] = noted["rpc.response.status_code"]
        else:
            noted = {"byleave.result.size": 0 if result is None else len(memoryview(result))}
        self.attributes |= noted
        if self._last is not None:
            self._last.attributes |= noted


class LocalTrace:
    """The span of one run of a tool of this workspace."""

    __slots__ = ("_span", "attributes", "outcome")

    def __init__(self, span: Span) -> None:
        self.attributes: dict[str, Any] = {}
        self.outcome = "ok"
        self._span = span

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        outcome = self.outcome if error is None else _word_for(error)
        _finish(self._span, self.attributes, outcome)
        self._span.end()


class UpstreamTrace(LocalTrace):
    """The span of one request to a server. `context` goes along, so that the server's spans are its children."""

    __slots__ = ("context",)

    def __init__(self, span: Span, state: str) -> None:
        super().__init__(span)
        ours = span.get_span_context()
        self.context = written(ours.trace_id, ours.span_id, int(ours.trace_flags), state)


class _Queueing(SpanProcessor):
    """Puts spans that are over into the queue."""

    def __init__(self, queue: ExportQueue[ReadableSpan]) -> None:
        self._queue = queue

    def on_end(self, span: ReadableSpan) -> None:
        self._queue.put(span)


def _finish(span: Span, attributes: dict[str, Any], outcome: str) -> None:
    """Write down what is known at the end. A status has no words: those of an error may be anything."""
    if outcome not in _FINE:
        attributes.setdefault("error.type", _ERRORS.get(outcome, outcome))
        span.set_status(Status(StatusCode.ERROR))
    span.set_attributes(attributes)


def _verdict_attributes(verdict: Verdict) -> dict[str, Any]:
    noted: dict[str, Any] = {"byleave.decision": WORDS[verdict.decision], "byleave.code": verdict.code}
    file, colon, line = verdict.because[0].source.rpartition(":")
    if colon and line.isdecimal():
        noted["byleave.rule.line"] = int(line)
    else:
        file = verdict.because[0].source
    noted["byleave.rule.file"] = clean(os.path.basename(file))
    return noted


def _word_for(error: BaseException) -> str:
    """Return what went wrong in one word of ours: what an error says may be anything."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, DownError):
        return "timeout" if isinstance(error, LateError) else "down"
    return "timeout" if isinstance(error, TimeoutError) else "failed"


def _resource(service_name: str, version: str) -> Resource:
    """Return what is said of this gateway as a whole: OTEL_RESOURCE_ATTRIBUTES, and its name.

    Other detectors of the SDK are left out: they know the command line and the paths of this process.
    """
    said = Resource({"service.name": "byleave", "service.version": version}).merge(OTELResourceDetector().detect())
    return said.merge(Resource({"service.name": service_name})) if service_name else said


def _silence_the_sdk() -> None:
    """Keep the SDK from writing to standard error: what it says may hold what was sent. We say it ourselves."""
    for name in ("opentelemetry", "urllib3"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
