"""The JSON Schema that editors read."""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from byleave.policy.schema_types import ConfigFile, json_schema


def tables_of(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"File": schema, **schema["$defs"]}


def references_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (found for item in value.values() for found in references_in(item))
        yield from (value["$ref"],) if isinstance(value.get("$ref"), str) else ()
    elif isinstance(value, list):
        yield from (found for item in value for found in references_in(item))


def test_the_schema_is_the_same_every_time() -> None:
    assert json.dumps(json_schema()) == json.dumps(json_schema())


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = (files("byleave.policy") / "byleave.schema.json").read_text()
    assert shipped == json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def test_the_schema_says_what_it_is() -> None:
    schema = json_schema()
    assert {key: schema[key] for key in ("$schema", "$id", "title", "type")} == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:byleave:schema:config",
        "title": "byleave configuration",
        "type": "object",
    }


def test_every_reference_leads_somewhere() -> None:
    schema = json_schema()
    definitions = {f"#/$defs/{name}" for name in schema["$defs"]}
    assert set(references_in(schema)) == definitions


def test_every_table_refuses_unknown_keys() -> None:
    assert {name: table["additionalProperties"] for name, table in tables_of(json_schema()).items()} == (
        dict.fromkeys(tables_of(json_schema()), False)
    )


def test_every_key_is_described() -> None:
    undescribed = [
        f"{name}.{key}"
        for name, table in tables_of(json_schema()).items()
        for key, property_ in table["properties"].items()
        if not property_.get("description")
    ]
    assert undescribed == []


REQUIRED = {
    "FsRuleTable": ["path"],
    "NetRuleTable": ["host"],
    "EnvRuleTable": ["name"],
    "RunRule": ["arg", "mode"],
    "CommandRuleTable": [],
    "ToolTable": [],
}


@pytest.mark.parametrize(("table", "keys"), REQUIRED.items())
def test_a_table_requires_what_it_cannot_do_without(table: str, keys: list[str]) -> None:
    assert json_schema()["$defs"][table]["required"] == keys


def test_a_run_rule_needs_exactly_one_condition() -> None:
    assert json_schema()["$defs"]["RunRule"]["oneOf"] == [
        {"required": [key]} for key in ("prefix", "equals", "glob", "regex", "inside")
    ]


def test_a_port_has_its_range_and_a_mode_its_words() -> None:
    definitions = json_schema()["$defs"]
    port, mode = definitions["NetRuleTable"]["properties"]["port"], definitions["RunRule"]["properties"]["mode"]
    assert (port["minimum"], port["maximum"], mode["enum"]) == (
        1,
        65535,
        ["ask", "edit", "skip", "unattended"],
    )


def test_every_example_at_the_top_is_one_that_the_types_take() -> None:
    examples = [
        {key: example}
        for key, property_ in json_schema()["properties"].items()
        for example in property_.get("examples", [])
    ]
    assert [msgspec.convert(example, ConfigFile, strict=True) for example in examples]


def test_every_example_of_a_tool_is_one_that_the_types_take() -> None:
    examples = [
        {"tools": {"t": {key: example}}}
        for key, property_ in json_schema()["$defs"]["ToolTable"]["properties"].items()
        for example in property_.get("examples", [])
    ]
    assert [msgspec.convert(example, ConfigFile, strict=True) for example in examples]
