"""What a stateless request says about itself, held against the official SDK's own reading."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp.shared import inbound

import amounts
from byleave.gateway.message import ClientParams
from byleave.gateway.revisions import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Mismatch,
    RequestMeta,
    header_text,
    header_value,
    param_headers,
    read_envelope,
    routing_headers,
    wrong_param_header,
)
from byleave.gateway.server_listing import LONGEST, flat_name, may_be_cut, split_name

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "n": {"type": "integer", "x-mcp-header": "N"},
        "deep": {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}},
        "plain": {"type": "string"},
    },
}
values = st.one_of(st.none(), st.booleans(), st.integers(), texts, st.floats(allow_nan=False, allow_infinity=False))
arguments = st.fixed_dictionaries(
    {}, optional={"region": values, "n": values, "deep": st.fixed_dictionaries({}, optional={"flag": values})}
)


@settings(max_examples=amounts.of(200, 60), deadline=None)
@given(text=texts)
@example(text="=?base64?x?=")
@example(text=" edge")
@example(text="")
def test_a_header_carries_any_text_as_the_sdk_reads_it(text: str) -> None:
    assert header_text(header_value(text)) == text
    assert inbound.decode_header_value(header_value(text)) == text
    assert header_text(inbound.encode_header_value(text)) == text


@pytest.mark.parametrize("value", ["=?base64?!!?=", "=?base64?QQ?=", "=?base64?/w==?=", "=?base64?QR==?="])
def test_a_header_that_is_wrapped_wrongly_is_no_text(value: str) -> None:
    assert header_text(value) is None
    assert inbound.decode_header_value(value) is None


@settings(max_examples=amounts.of(150, 50), deadline=None)
@given(told=arguments, sent=arguments)
def test_headers_that_repeat_arguments_are_judged_as_the_sdk_judges_them(told: Any, sent: Any) -> None:
    ours = dict(param_headers(SCHEMA, told))
    assert ours == inbound.mcp_param_headers(inbound.x_mcp_header_map(SCHEMA), told)
    lowered = {name.lower(): value for name, value in ours.items()}
    refused = inbound.validate_mcp_param_headers(SCHEMA, sent, lowered) is not None
    assert bool(wrong_param_header(SCHEMA, sent, lowered)) == refused


@pytest.mark.parametrize(
    ("meta", "headers", "number"),
    [
        ({}, {}, -32602),
        ({VERSION_KEY: "2026-07-28"}, {}, -32602),
        ({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: []}, {}, -32602),
        ({VERSION_KEY: 7, CAPABILITIES_KEY: {}}, {}, -32602),
        ({VERSION_KEY: "2031-01-01", CAPABILITIES_KEY: {}}, {}, UNSUPPORTED_VERSION),
        ({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}, {"mcp-protocol-version": "2025-11-25"}, HEADER_MISMATCH),
        ({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}, {"mcp-protocol-version": "2026-07-28"}, HEADER_MISMATCH),
    ],
)
def test_a_request_that_does_not_say_what_it_is_is_refused(meta: Any, headers: dict[str, str], number: int) -> None:
    params = ClientParams({"name": "a", "_meta": meta})
    found = read_envelope("tools/call", params, headers)
    assert isinstance(found, Mismatch)
    assert found.number == number


def test_headers_must_name_the_same_tool_as_the_body() -> None:
    meta = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"sampling": {}}}
    params = ClientParams({"name": "é", "_meta": meta})
    headers = {name.lower(): value for name, value in routing_headers("tools/call", params.tree)}
    told = {"mcp-protocol-version": "2026-07-28", **headers}
    assert read_envelope("tools/call", params, told) == RequestMeta("2026-07-28", {"sampling": {}}, None)
    wrong = read_envelope("tools/call", params, {**told, "mcp-name": "e"})
    assert isinstance(wrong, Mismatch)
    assert "Mcp-Name" in wrong.problem


names = st.text("abc_-.", min_size=1, max_size=80)


@settings(max_examples=amounts.of(200, 60), deadline=None)
@given(one=names, other=names)
def test_a_flat_name_fits_and_is_one_of_its_kind(one: str, other: str) -> None:
    flat = flat_name("a-server", one)
    assert len(flat) <= LONGEST
    assert (flat == flat_name("a-server", other)) == (one == other)
    if not may_be_cut(flat):
        assert split_name(flat) == ("a-server", one)
