"""Run configured tools. `byleave call` and the MCP gateway use it.

`authorize` decides whether a call runs. `host` runs it: a mediated tool (`runtime = "vfs"`) in a `conversation`, whose
requests `methods`, `http_methods` and `process_methods` serve through the guard; a plain one in `stdio_runtime`.
`process` starts processes in sandboxes and reads them to their end, `handles` keeps stateful tools.
"""
