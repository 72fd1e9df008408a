"""The configuration file's JSON Schema, so that editors complete keys and mark mistakes while people type.

Made from the types of policy.schema_types; nothing is written down twice. Nothing here reads or checks a file.
"""

from typing import Any

from byleave.policy.schema_types import RunRule

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTITY = "urn:byleave:schema:config"


def json_schema() -> dict[str, Any]:
    """Return the schema of `ConfigFile`: the same on every call, with the top of the file at the root."""
    import msgspec.json

    from byleave.policy.schema_types import ConfigFile

    definitions = msgspec.json.schema(ConfigFile)["$defs"]
    top = definitions.pop("ConfigFile")
    _say_one_of(definitions["RunRule"], RunRule.one_of)
    return {
        "$schema": DIALECT,
        "$id": IDENTITY,
        **top,
        "title": "byleave configuration",
        "description": "What AI agents' tools may touch. TOML, or the same tree as JSON.",
        "$defs": dict(sorted(definitions.items())),
    }


def _say_one_of(table: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Add to a table's schema that exactly one of `keys` is needed, which types alone do not say."""
    table["oneOf"] = [{"required": [key]} for key in keys]
