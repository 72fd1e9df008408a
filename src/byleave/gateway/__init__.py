"""The MCP gateway: every MCP server behind one policy.

    client -> front (stdio, HTTP) -> conversation -> guard -> upstream -> link (stdio, HTTP, SSE) -> server

Fronts and links carry bytes and know nothing of the policy. Start at `gateway`; what the two ends promise each other is
in `ends`.
"""
