"""Spans and figures by OTLP: what is in them, whose children they are, and that no secret is."""

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from byleave.gateway.interfaces import MessageContext
from byleave.gateway.log_lines import REQUEST, RequestMark
from byleave.gateway.metrics import BUCKETS
from byleave.gateway.telemetry import Telemetry
from byleave.gateway.telemetry_export import ExportQueue
from fakes.mcp_talk import OPEN, FakeServer, FakeSink, Talk, Tree
from fakes.otlp_collector import Collector, attributes, points
from sandbox.machine import PYTHON, needs_sandbox

SERVER, CLIENT, INTERNAL = 2, 3, 1  # kinds of spans, as OTLP has them
ERROR = 2
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{PARENT}-01"
ASKS: Tree = {**OPEN, "rules": [{"ask": {"call": {"server": "shop"}}}]}
DENIES: Tree = {**OPEN, "rules": [{"deny": {"call": {"server": "shop", "tool": "close"}}}]}


def sending(talk: Talk, collector: Collector, **more: Any) -> Telemetry:
    telemetry = Telemetry(collector.plan(**more), talk.gateway.note)
    talk.gateway.send_telemetry(telemetry)
    return telemetry


def test_a_call_has_a_span_and_the_request_to_its_server_a_child_of_it(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client, shop = talk.client(), talk.servers["shop"]
            await client.begin()
            await client.names()
            meta = {"traceparent": GIVEN, "tracestate": "vendor=word", "baggage": "user=someone"}
            answer = await client.call("shop__price", {"a": 1}, _meta=meta)
            await talk.gateway.close()
            judged, sent = collector.span("tools/call", SERVER), collector.span("tools/call", CLIENT)
            assert (judged.trace_id.hex(), judged.parent_span_id.hex()) == (TRACE, PARENT)
            assert (sent.trace_id.hex(), sent.parent_span_id) == (TRACE, judged.span_id)
            (heard,) = shop.calls()
            assert heard["_meta"] == {**meta, "traceparent": f"00-{TRACE}-{sent.span_id.hex()}-01"}
            size = len(msgspec.json.encode(answer["result"]))
            shared = {
                "mcp.method.name": "tools/call",
                "mcp.protocol.version": "2025-11-25",
                "network.transport": "pipe",
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "price",
                "byleave.server": "shop",
                "byleave.result.size": size,
            }
            assert attributes(sent) == shared
            own = {"byleave.agent": "ops", "byleave.agent.identity": "verified", "byleave.outcome": "ok"}
            verdict = {"byleave.decision": "allow", "byleave.code": "ok", "byleave.rule.file": "inline"}
            assert attributes(judged) == {**shared, **own, **verdict}
            assert judged.name == sent.name == "tools/call price"
            assert judged.status.code == sent.status.code == 0
            assert judged.start_time_unix_nano <= sent.start_time_unix_nano <= sent.end_time_unix_nano
            assert collector.resource()["service.name"] == "byleave"

    play(scene)


MALFORMED = [
    None,
    7,
    "",
    "00-" + TRACE + "-" + PARENT,
    GIVEN.upper(),
    GIVEN + "-more",
    f"ff-{TRACE}-{PARENT}-01",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"{GIVEN}\n",
    f"{GIVEN}, {GIVEN}",
]


def test_a_malformed_parent_begins_a_new_trace_and_does_not_go_on(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            for given in MALFORMED:
                await client.call("shop__price", _meta={"traceparent": given, "tracestate": "vendor=word"})
            await talk.gateway.close()
            judged = [span for span in collector.spans() if span.kind == SERVER]
            assert TRACE not in [span.trace_id.hex() for span in judged]
            assert not any(span.parent_span_id for span in judged)
            sent = [span for span in collector.spans() if span.kind == CLIENT]
            ours = [f"00-{span.trace_id.hex()}-{span.span_id.hex()}-03" for span in sent]  # sampled, and random
            assert len(ours) == len(MALFORMED)
            assert [each["_meta"] for each in talk.servers["shop"].calls()] == [{"traceparent": each} for each in ours]

    play(scene)


def test_a_parent_comes_by_header_where_the_message_names_none(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            other = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
            for id_, meta in ((7, {}), (8, {"traceparent": GIVEN}), (9, {"traceparent": "odd"})):
                call: Tree = {"jsonrpc": "2.0", "id": id_, "method": "tools/call"}
                call["params"] = {"name": "shop__price", "_meta": meta}
                await client.session.handle(
                    json.dumps(call).encode(), FakeSink(), MessageContext({"traceparent": other})
                )
            await talk.gateway.close()
            traces = [span.trace_id.hex() for span in collector.spans() if span.kind == SERVER]
            assert traces[:2] == ["1" * 32, TRACE]
            assert traces[2] not in traces[:2]

    play(scene)


def test_without_telemetry_what_the_caller_says_of_traces_goes_on_untouched(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        client = talk.client()
        await client.begin()
        await client.call("shop__price", _meta={"traceparent": "odd", "tracestate": "=", "baggage": "a=b"})
        (heard,) = talk.servers["shop"].calls()
        assert heard["_meta"] == {"traceparent": "odd", "tracestate": "=", "baggage": "a=b"}

    play(scene)


def test_what_is_not_sampled_is_not_sent_and_says_so_to_the_server(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector, sample=0.0)
            client = talk.client()
            await client.begin()
            await client.call("shop__price")
            await client.call("shop__price", _meta={"traceparent": GIVEN})  # the caller's trace is sent
            await talk.gateway.close()
            first, second = [each["_meta"]["traceparent"] for each in talk.servers["shop"].calls()]
            assert first.endswith("-02")
            assert second.endswith("-01")
            assert {span.trace_id.hex() for span in collector.spans()} == {TRACE}

    play(scene)


def test_a_refused_call_says_by_which_rule(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            await client.names()
            await client.call("shop__close")
            await talk.gateway.close()
            (judged,) = collector.spans()
            found = attributes(judged)
            assert (found["byleave.decision"], found["byleave.outcome"]) == ("deny", "refused")
            assert (found["error.type"], judged.status.code, judged.status.message) == ("refused", ERROR, "")

    play(scene, DENIES)


def test_a_question_to_a_person_has_a_span(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client(elicitation={})
            client.on_request = lambda _request: {"result": {"action": "accept", "content": {}}}
            await client.begin()
            await client.call("shop__price")
            stateless = talk.stateless(elicitation={})
            await stateless.call("shop__price")
            await talk.gateway.close()
            asked, left = [span for span in collector.spans() if span.name == "ask"]
            judged = [span for span in collector.spans() if span.kind == SERVER]
            assert asked.kind == INTERNAL
            assert [asked.parent_span_id, left.parent_span_id] == [span.span_id for span in judged]
            assert attributes(asked)["byleave.decision"] == "allow"
            assert attributes(left)["byleave.outcome"] == "input_required"
            assert [attributes(span)["byleave.outcome"] for span in judged] == ["ok", "input_required"]

    play(scene, ASKS)


FAILURES: dict[str, tuple[Callable[..., Any], str, str]] = {
    "an error": (lambda _link, _request: {"error": {"code": -32001, "message": "no"}}, "failed", "-32001"),
    "an odd error": (lambda _link, _request: {"error": {"code": 10**12, "message": "no"}}, "failed", "_OTHER"),
    "isError": (lambda _link, _request: {"content": [], "isError": True}, "error", "tool_error"),
    "gone": (lambda link, _request: link.receiver.lost(None, "it fell over"), "down", "down"),
    "silence": (lambda _link, _request: None, "timeout", "timeout"),
}


@pytest.mark.parametrize(("fails", "outcome", "error"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_one_word(play: Callable[..., None], fails: Callable[..., Any], outcome: str, error: str) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            talk.servers["shop"].on_call = fails
            client = talk.client()
            await client.begin()
            await client.call("shop__price")
            await talk.gateway.close()
            judged, sent = collector.span("tools/call", SERVER), collector.span("tools/call", CLIENT)
            assert attributes(judged)["byleave.outcome"] == outcome
            for span in (judged, sent):
                assert (attributes(span)["error.type"], span.status.code) == (error, ERROR)

    play(scene, {**OPEN, "gateway": {"call_timeout": 0.05}})


def test_what_a_server_says_later_is_not_about_the_request_that_started_it(play: Callable[..., None]) -> None:
    seen: dict[str, RequestMark | None] = {}

    class Noting(FakeServer):
        def answer(self, link: Any, request: Tree) -> None:
            seen[request["method"]] = REQUEST.get()
            super().answer(link, request)

    async def scene(talk: Talk) -> None:
        REQUEST.set(RequestMark("first"))
        client = talk.client()
        await client.begin()
        await client.call("shop__price")
        assert seen["initialize"] is None
        assert seen["tools/call"] == RequestMark("first")

    play(scene, shop=Noting("price"))


# ---- Secrets -------------------------------------------------------------------------------------------------------

CANARY = "canary-7Yq2"


def test_no_text_of_a_caller_or_a_server_shows_up_anywhere(
    play: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    """Every place that takes text has a secret of its own in it; none is sent, counted or noted."""
    count = itertools.count(1)

    def secret() -> str:
        return f"{CANARY}{next(count)}"

    def fails(_link: object, request: Tree) -> Tree:
        if request["params"]["arguments"].get("ok"):
            return {"content": [{"type": "text", "text": secret()}], "isError": True, "_meta": {secret(): secret()}}
        return {"error": {"code": -32000, "message": secret(), "data": {secret(): secret()}}}

    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            shop = talk.servers["shop"]
            shop.on_call = fails
            shop.listed["resources"] = [{"uri": f"file:///home/{secret()}/x", "name": secret()}]
            shop.listed["prompts"] = [{"name": "greet", "description": secret()}]
            shop.instructions = secret()
            client = talk.client(elicitation={})
            await client.begin()
            await client.names()
            meta = {"traceparent": GIVEN, "tracestate": f"v={secret()}", "baggage": f"k={secret()}", secret(): secret()}
            headers = MessageContext({"traceparent": secret(), "tracestate": secret(), "x-byleave-agent": secret()})
            for name in ("shop__price", f"shop__{secret()}", f"{secret()}__x", secret()):
                for more in ({}, {"ok": True}):
                    await client.call(name, {secret(): secret(), **more}, _meta=meta)
            await client.ask("resources/read", {"uri": shop.listed["resources"][0]["uri"], "_meta": meta})
            await client.ask("prompts/get", {"name": "shop__greet", "arguments": {"a": secret()}, "_meta": meta})
            await client.ask("prompts/get", {"name": f"shop__{secret()}", "_meta": {"traceparent": secret()}})
            ref = {"type": "ref/prompt", "name": "shop__greet"}
            await client.ask("completion/complete", {"ref": ref, "argument": {"name": "a", "value": secret()}})
            call: Tree = {"jsonrpc": "2.0", "id": secret(), "method": "tools/call"}
            call["params"] = {"name": "shop__price", "arguments": {"a": secret()}}
            other = talk.client(secret())
            await other.begin()
            for session in (client.session, other.session):
                await session.handle(json.dumps(call).encode(), FakeSink(), headers)
            shop.on_call = lambda link, _request: link.receiver.lost(None, secret(), secret())
            await client.call("shop__price", {})
            talk.notes.clear()  # of what a server says when it falls over, the operator is told
            text = talk.gateway.metrics_text()
            await talk.gateway.close()
            assert len(collector.spans()) > 15
            assert collector.metrics
            shown = [str(span) for span in collector.spans() if CANARY in str(span)]
            assert shown == []
            assert CANARY.encode() not in b"".join(collector.bodies)
            assert CANARY not in text + str(talk.notes) + str(collector.fields)
            written = capfd.readouterr()
            assert CANARY not in written.out + written.err
            for span in collector.spans():
                assert span.name in ("tools/call", "tools/call price", "prompts/get", "prompts/get greet") or (
                    span.name in ("resources/read", "completion/complete", "completion/complete greet")
                )

    play(scene)


@needs_sandbox
def test_the_run_of_a_local_tool_has_a_span(play: Callable[..., None]) -> None:
    good = "print('canary-8Lq2')"
    tools = {
        name: {"source": "local", "run": "unattended", "command": [PYTHON, "-c", code], "access": {}}
        for name, code in {"good": good, "bad": f"{good}; raise SystemExit(3)"}.items()
    }

    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            await client.names()
            await client.call("local__good", {"text": "canary-8Lq2"})
            await client.call("local__bad", {"text": "canary-8Lq2"})
            await talk.gateway.close()
            judged = [span for span in collector.spans() if span.kind == SERVER]
            runs = [span for span in collector.spans() if span.kind == INTERNAL]
            assert [span.name for span in judged] == ["tools/call good", "tools/call bad"]
            assert [span.name for span in runs] == ["execute_tool good", "execute_tool bad"]
            assert [span.parent_span_id for span in runs] == [span.span_id for span in judged]
            assert [span.status.code for span in runs] == [0, ERROR]
            shared = {"byleave.server": "local", "gen_ai.operation.name": "execute_tool"}
            assert [attributes(span) for span in runs] == [
                {**shared, "gen_ai.tool.name": "good"},
                {**shared, "gen_ai.tool.name": "bad", "error.type": "tool_error"},
            ]
            assert b"canary-8Lq2" not in b"".join(collector.bodies)

    play(scene, {**OPEN, "tools": tools})


def test_a_flood_of_refusals_leaves_room_for_the_spans_of_callers(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            await client.call("shop__price")
            traces = [talk.gateway.refused("wrong_token", "198.51.100.7", status=401) for _ in range(5000)]
            talk.gateway.refused("no kind of ours", status=403)
            await talk.gateway.close()
            doors = [span for span in collector.spans() if span.name == "refused"]
            assert len(doors) < 70, "at most one a second of a kind, after a minute's at once"
            assert [trace for trace in traces if trace] == [span.trace_id.hex() for span in doors[:-1]]
            assert not any(span.parent_span_id for span in doors)
            assert attributes(doors[-1])["byleave.refused"] == "other"
            assert b"198.51.100.7" not in b"".join(collector.bodies)
            assert collector.span("tools/call", SERVER).status.code == 0
            assert talk.gateway.metrics.dropped["spans"]() == 0

    play(scene)


def test_names_of_tools_are_bounded_in_length_and_number(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("byleave.gateway.telemetry._MOST_NAMES", 2)

    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            await client.names()
            for name in ("t" * 129, "one", "two", "three", "one"):
                await client.call(f"shop__{name}")
            await talk.gateway.close()
            named = [attributes(span).get("gen_ai.tool.name") for span in collector.spans() if span.kind == SERVER]
            assert named == [None, "one", "two", None, "one"]

    play(scene, shop=FakeServer("t" * 129, "one", "two", "three"))


# ---- Figures -------------------------------------------------------------------------------------------------------


def test_figures_by_otlp_are_those_of_prometheus(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector)
            client = talk.client()
            await client.begin()
            await client.names()
            for name in ("shop__price", "shop__price", "shop__close"):
                await client.call(name)
            text = talk.gateway.metrics_text()
            await talk.gateway.close()
            found = collector.figures()
            for line in text.splitlines():
                if line.startswith("# TYPE"):
                    _hash, _type, name, kind = line.split()
                    dotted = name.removesuffix("_total").removesuffix("_seconds").replace("_", ".")
                    dotted = {
                        "byleave.mcp.request": "mcp.server.operation.duration",
                        "byleave.mcp.upstream": "mcp.client.operation.duration",
                    }.get(dotted, dotted)
                    sort = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[kind]
                    assert dotted not in found or found[dotted].WhichOneof("data") == sort
                    assert (dotted in found) is bool(re.search(rf"^{name}(_bucket)?[ {{]", text, re.MULTILINE))
            calls = {tuple(labels.values()): point.as_int for labels, point in points(found["byleave.mcp.calls"])}
            assert calls == {("shop", "ops", "allow", "ok"): 2, ("shop", "ops", "deny", "refused"): 1}
            assert found["byleave.mcp.calls"].sum.is_monotonic
            judged = {
                labels["byleave.decision"]: point for labels, point in points(found["mcp.server.operation.duration"])
            }
            ((labels, sent),) = points(found["mcp.client.operation.duration"])
            assert labels == {"byleave.server": "shop", "mcp.method.name": "tools/call", "byleave.outcome": "ok"}
            assert (judged["allow"].count, judged["deny"].count, sent.count) == (2, 1, 2)
            assert tuple(sent.explicit_bounds) == BUCKETS
            assert judged["allow"].sum >= sent.sum > 0
            assert found["mcp.client.operation.duration"].unit == "s"
            labels_ = '{server="shop",method="tools/call",decision="deny"}'
            assert f"byleave_mcp_request_seconds_count{labels_} 1\n" in text
            assert 'byleave_mcp_upstream_seconds_count{server="shop",method="tools/call",outcome="ok"} 2\n' in text

    play(scene, DENIES)


def test_figures_are_sent_from_time_to_time(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        with Collector() as collector:
            sending(talk, collector, interval=0.02, traces="")
            while len(collector.metrics) < 2:  # noqa: ASYNC110 -- another thread does it
                await asyncio.sleep(0.01)
            await talk.gateway.close()
            assert not collector.spans()

    play(scene)


# ---- Collectors that do not do what they should --------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("manner", ["refuses", "moved", "hangs", "floods", "gone", "tls"])
def test_a_bad_collector_delays_no_call_and_no_end(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    monkeypatch.setattr("byleave.gateway.telemetry.FLUSH", 0.3)
    monkeypatch.setattr("byleave.gateway.telemetry._PAUSE", 0.01)
    monkeypatch.setattr("byleave.gateway.telemetry._MOST_SPANS", 20)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")

    async def scene(talk: Talk) -> None:
        with Collector(manner) as collector:
            more = {"traces": "http://127.0.0.1:1/v1/traces"} if manner == "gone" else {}
            if manner == "tls":
                more = {"traces": collector.url.replace("http:", "https:") + "/v1/traces"}
            telemetry = sending(talk, collector, **more)
            client = talk.client()
            await client.begin()
            await client.names()
            slowest = 0.0
            for _ in range(60):
                began = time.monotonic()
                assert "result" in await client.call("shop__price")
                slowest = max(slowest, time.monotonic() - began)
            assert slowest < 0.8, "less than what the collector may take"
            queue: Any = telemetry._spans  # noqa: SLF001
            assert len(queue._items) <= 20  # noqa: SLF001
            if manner == "hangs":
                assert queue.dropped > 50
                assert f'byleave_mcp_dropped_total{{what="spans"}} {queue.dropped}' in talk.gateway.metrics_text()
            elif manner != "floods":
                while not talk.notes:  # noqa: ASYNC110 -- another thread does it
                    await asyncio.sleep(0.01)
                assert talk.notes[0].startswith("telemetry does not reach the collector (")
                assert queue.dropped > 0
            began = time.monotonic()
            await talk.gateway.close()
            assert time.monotonic() - began < 2
            assert not any("elsewhere" in str(fields) for fields in collector.fields)

    play(scene)


def test_what_is_put_just_before_the_end_is_sent() -> None:
    for _ in range(200):
        sent: list[int] = []

        def send(batch: list[int], sent: list[int] = sent) -> bool:
            sent += batch
            return True

        queue = ExportQueue("test", send, most=9, batch=1, pause=None, on_stop=lambda: None)
        queue.put(1)
        queue.put(2)
        queue.close(5)
        assert (sent, queue.dropped) == ([1, 2], 0)
