"""From configuration files to a live policy: `dirs` (where), `layers` (what is read), `compile`, `live_policy`.

Only a file that is new or wrong needs `toml_text`, `toml_spans`, `schema_types`, `diagnostics` and `mcp_json`.
"""
