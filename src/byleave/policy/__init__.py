"""From configuration files to a live policy: `dirs` (where), `layers` (what is read), `compile`, `live_policy`.

Only a file that is new or wrong needs `parse`, which uses `toml_text`, `mcp_json`, `schema_types` and `diagnostics`.
"""
