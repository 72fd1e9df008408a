"""What telemetry is sent where: `[gateway.telemetry]`, then the variables that all of OpenTelemetry reads.

A key of the table wins over its variable, so that an organisation's configuration holds whatever a shell exports. One
variable wins over everything: `OTEL_SDK_DISABLED=true` is the switch with which a person turns it off.

A table that cannot be followed is an error. The variables alone may be meant for other programs: what of them we cannot
follow is a note, and the gateway goes on without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from byleave.errors import ConfigError
from byleave.policy.gateway_settings import TelemetrySettings, endpoint_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

_BASE = "OTEL_EXPORTER_OTLP"
_DEFAULT = "http://localhost:4318"
_SPOKEN = "http/protobuf"
_INTERVAL = 60.0  # seconds
_LONGEST, _SHORTEST = 3600.0, 1.0
_HINT = "see docs/telemetry.md; OTEL_SDK_DISABLED=true switches it off"


class TelemetryPlan(Struct, frozen=True):
    """Where spans and figures go: whole URLs, empty where they are not sent. `sample` None: as the environment says."""

    traces: str
    metrics: str
    service_name: str
    sample: float | None
    interval: float


def plan_telemetry(settings: TelemetrySettings | None, environment: Mapping[str, str]) -> TelemetryPlan | None:
    """Return what is to be sent; None if nothing is. A ConfigError if it cannot be done as it is asked for."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    given = settings or TelemetrySettings()
    traces, metrics = (
        _url(signal, given, environment, is_asked=settings is not None) if is_requested else ""
        for signal, is_requested in (
            ("traces", _wants(given.traces, environment.get("OTEL_TRACES_EXPORTER"))),
            ("metrics", _wants(given.metrics, environment.get("OTEL_METRICS_EXPORTER"))),
        )
    )
    if not traces and not metrics:
        return None
    name = given.service_name or environment.get("OTEL_SERVICE_NAME", "").strip()
    interval = given.interval or _interval(environment.get("OTEL_METRIC_EXPORT_INTERVAL", ""))
    return TelemetryPlan(traces, metrics, name, given.sample, interval)


def _wants(given: bool | None, exporter: str | None) -> bool:  # noqa: FBT001 -- a setting, as it is given
    """Whether a signal is sent. Of exporters we have one."""
    if given is not None or not exporter:
        return given is not False
    return "otlp" in [word.strip() for word in exporter.split(",")]


def _url(signal: str, given: TelemetrySettings, environment: Mapping[str, str], *, is_asked: bool) -> str:
    if given.endpoint is not None:
        return _joined(given.endpoint, signal)
    whole = environment.get(f"{_BASE}_{signal.upper()}_ENDPOINT", "").strip()
    base = environment.get(f"{_BASE}_ENDPOINT", "").strip()
    if not whole and not base and not is_asked:
        return ""
    protocol = environment.get(f"{_BASE}_{signal.upper()}_PROTOCOL") or environment.get(f"{_BASE}_PROTOCOL")
    if protocol and protocol.strip() != _SPOKEN:
        raise ConfigError(f"byleave speaks {_SPOKEN} with collectors, and the environment names another", hint=_HINT)
    problem = endpoint_problem(whole or base or _DEFAULT)
    if problem:
        raise ConfigError(problem, hint=_HINT)
    return whole or _joined(base or _DEFAULT, signal)


def _joined(endpoint: str, signal: str) -> str:
    return f"{endpoint.removesuffix('/')}/v1/{signal}"


def _interval(milliseconds: str) -> float:
    try:
        return min(_LONGEST, max(_SHORTEST, float(milliseconds) / 1000))
    except ValueError:
        return _INTERVAL
