"""What telemetry is sent where: the configuration wins over the environment, and a switch over both."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from byleave.cli.mcp_command import send_telemetry
from byleave.errors import ConfigError
from byleave.gateway.telemetry_plan import TelemetryPlan, plan_telemetry
from byleave.gateway.trace_context import is_state, read_parent
from byleave.policy.gateway_settings import TelemetrySettings
from fakes.mcp_sdk import Place, over_http
from fakes.mcp_talk import OPEN, Talk
from fakes.otlp_collector import Collector, attributes

BASE = "OTEL_EXPORTER_OTLP"
HERE, THERE = "http://127.0.0.1:4318", "https://there.example/otlp"


def plan(traces: str, metrics: str, **more: Any) -> TelemetryPlan:
    return TelemetryPlan(traces, metrics, **{"service_name": "", "sample": None, "interval": 60.0, **more})


PLANS: dict[str, tuple[dict[str, Any] | None, dict[str, str], TelemetryPlan | None]] = {
    "nothing": (None, {}, None),
    "a name alone": (None, {"OTEL_SERVICE_NAME": "x"}, None),
    "the environment": (None, {f"{BASE}_ENDPOINT": HERE}, plan(f"{HERE}/v1/traces", f"{HERE}/v1/metrics")),
    "one signal": (None, {f"{BASE}_TRACES_ENDPOINT": f"{THERE}/t"}, plan(f"{THERE}/t", "")),
    "a table": ({}, {}, plan("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics")),
    "both": (
        {"endpoint": f"{HERE}/", "service_name": "mine", "sample": 0.5, "interval": 5.0},
        {f"{BASE}_ENDPOINT": THERE, f"{BASE}_TRACES_ENDPOINT": THERE, "OTEL_SERVICE_NAME": "yours"},
        plan(f"{HERE}/v1/traces", f"{HERE}/v1/metrics", service_name="mine", sample=0.5, interval=5.0),
    ),
    "what the table leaves out": (
        {"traces": True},
        {f"{BASE}_ENDPOINT": THERE, "OTEL_SERVICE_NAME": "yours", "OTEL_METRIC_EXPORT_INTERVAL": "2000"},
        plan(f"{THERE}/v1/traces", f"{THERE}/v1/metrics", service_name="yours", interval=2.0),
    ),
    "no figures": ({"metrics": False}, {}, plan("http://localhost:4318/v1/traces", "")),
    "none by the environment": (
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "console, otlp"},
        plan("", "http://localhost:4318/v1/metrics"),
    ),
    "the table wins": ({"traces": True, "metrics": False}, {"OTEL_TRACES_EXPORTER": "none"},
                       plan("http://localhost:4318/v1/traces", "")),
    "neither": ({"traces": False, "metrics": False}, {f"{BASE}_ENDPOINT": THERE}, None),
    "the switch": ({"endpoint": HERE}, {"OTEL_SDK_DISABLED": "True"}, None),
    "an endpoint of ours, a protocol of theirs": (
        {"endpoint": HERE},
        {f"{BASE}_PROTOCOL": "grpc"},
        plan(f"{HERE}/v1/traces", f"{HERE}/v1/metrics"),
    ),
    "an interval that is none": ({}, {"OTEL_METRIC_EXPORT_INTERVAL": "often"},
                                 plan("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics")),
}  # fmt: skip


@pytest.mark.parametrize(("table", "environment", "expected"), PLANS.values(), ids=PLANS)
def test_the_table_wins_over_the_environment(
    table: Mapping[str, Any] | None, environment: dict[str, str], expected: TelemetryPlan | None
) -> None:
    assert plan_telemetry(None if table is None else TelemetrySettings(**table), environment) == expected


UNUSABLE = {
    "another protocol": {f"{BASE}_ENDPOINT": HERE, f"{BASE}_PROTOCOL": "grpc"},
    "a password": {f"{BASE}_ENDPOINT": "https://user:secret@e.com"},
    "a query": {f"{BASE}_TRACES_ENDPOINT": "https://e.com/?key=secret"},
    "another scheme": {f"{BASE}_ENDPOINT": "grpc://secret"},
}


@pytest.mark.parametrize("environment", UNUSABLE.values(), ids=UNUSABLE)
def test_an_environment_that_cannot_be_followed_is_a_note_unless_the_configuration_asks(
    play: Callable[..., None], environment: dict[str, str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_telemetry(TelemetrySettings(), environment)
    assert "secret" not in str(caught.value)

    async def scene(talk: Talk) -> None:
        send_telemetry(talk.gateway, environment)
        (note,) = talk.notes
        assert note.startswith("no telemetry is sent, though the environment asks for it: ")
        assert "secret" not in note

    play(scene)


def test_without_the_packages_it_is_an_error_that_says_what_to_install(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "byleave.gateway.telemetry", raising=False)
    monkeypatch.delitem(sys.modules, "byleave.gateway.telemetry_export", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)

    async def asked(talk: Talk) -> None:
        with pytest.raises(ConfigError, match="which are not installed") as caught:
            send_telemetry(talk.gateway, {})
        assert caught.value.hint == "pip install 'byleave[otel]'"

    async def by_the_environment(talk: Talk) -> None:
        send_telemetry(talk.gateway, {f"{BASE}_ENDPOINT": HERE})
        assert ["not installed" in note for note in talk.notes] == [True]

    play(asked, {**OPEN, "gateway": {"telemetry": {"endpoint": HERE}}})
    play(by_the_environment)


def test_a_variable_that_the_sdk_cannot_use_is_named_without_its_value(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "secret")

    async def scene(talk: Talk) -> None:
        with pytest.raises(ConfigError, match="cannot use the environment") as caught:
            send_telemetry(talk.gateway, {})
        assert "secret" not in str(caught.value)

    play(scene, {**OPEN, "gateway": {"telemetry": {"endpoint": HERE}}})


def test_a_change_that_holds_after_a_new_start_alone_is_noted(play: Callable[..., None]) -> None:
    async def scene(talk: Talk) -> None:
        gateway: Any = talk.gateway
        before = talk.workspace.compile_tree({**OPEN, "gateway": {"log_format": "json"}}).compiled
        gateway._compiled = before  # noqa: SLF001 -- as if the file had been another one
        gateway._keep_up()  # noqa: SLF001
        assert [note for note in talk.notes if "holds after a new start" in note]

    play(scene)


def test_a_tracestate_goes_on_only_as_it_must_be_written() -> None:
    good = ["a=1", "a=1,b@c=2", " a=1 , b=2", "a=" + "x" * 256, "0a=1"]
    bad = [None, "", "a", "=1", "A=1", "a=1\n", "a=é", "a=", ",".join(f"k{n}=1" for n in range(33)), "a=" + "x" * 520]
    assert [is_state(each) for each in good] == [True] * len(good)
    assert [is_state(each) for each in bad] == [False] * len(bad)
    later = read_parent(f"01-{'1' * 32}-{'2' * 16}-ff-more", "a=1")
    assert later is not None
    assert (later.flags, later.state) == (3, "a=1")


def test_a_gateway_tells_in_json_and_sends_its_spans_at_its_end(tmp_path: Path) -> None:
    """The whole program: its log is JSON to the last line, requests are found in all three, and it ends soon."""
    with Collector() as collector:
        policy = f"""
[gateway]
log_format = "json"
access_log = "{tmp_path}/access.log"
[gateway.telemetry]
endpoint = "{collector.url}"
[agents.clerk]
allow.servers = ["*"]
[servers.shop]
url = "http://127.0.0.1:1/mcp"
"""
        place = Place(tmp_path / "place", policy)
        place.env |= {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test", "OTEL_SERVICE_NAME": "gateway-1"}
        with over_http(place) as running:
            meta: dict[str, Any] = {f"io.modelcontextprotocol/{key}": value for key, value in
                    (("protocolVersion", "2026-07-28"), ("clientCapabilities", {}))}  # fmt: skip
            params = {"name": "shop__price", "arguments": {"secret": "canary"}, "_meta": meta}
            headers = {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "tools/call",
                "Mcp-Name": "shop__price",
                "X-Byleave-Agent": "clerk",
                "X-Request-Id": "request-1",
            }
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            said = httpx2.post(running.url.partition('"')[0], json=message, headers=headers, trust_env=False)
            assert said.headers["x-request-id"] == "request-1"
            os.kill(running.process.pid, signal.SIGTERM)
            running.process.wait(10)
        (judged,) = [span for span in collector.spans() if span.kind == 2]
        assert attributes(judged)["byleave.outcome"] == "down"
        resource = collector.resource()
        assert (resource["service.name"], resource["deployment.environment.name"]) == ("gateway-1", "test")
        assert "byleave.mcp.calls" in collector.figures()
        lines = [json.loads(line) for line in running.said]
        assert "listening at" in lines[0]["message"]
        (access,) = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
        assert (access["agent"], access["principal"], access["status"]) == ("clerk", "user", said.status_code)
        assert (access["request_id"], access["trace_id"]) == ("request-1", judged.trace_id.hex())
        noted = [line for line in lines if line.get("request_id") == "request-1"]
        assert noted
        assert {line.get("trace_id") for line in noted} == {judged.trace_id.hex()}
        assert b"canary" not in b"".join(collector.bodies)
        assert str(tmp_path).encode() not in b"".join(collector.bodies)


def test_a_gateway_that_sends_nothing_loads_nothing_for_it() -> None:
    heavy = "[name for name in sys.modules if name.partition('.')[0] in ('opentelemetry', 'requests', 'google')]"
    code = f"import sys, byleave.cli.mcp_command; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
