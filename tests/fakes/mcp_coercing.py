"""A server on the official SDK, which reads its arguments as the SDK does and says what it has read."""

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

server = MCPServer("coercing")
Paths = Annotated[list[str], Field(default_factory=list)]


class Options(BaseModel):
    force: bool = False


def remove(
    *, force: bool = False, limit: int = 1, paths: Paths, options: Options | None = None, eager: bool = True
) -> dict[str, Any]:
    """Say what was read."""
    given = None if options is None else options.model_dump()
    return {"force": force, "limit": limit, "paths": paths, "options": given, "eager": eager}


for name in ("remove", "free"):
    server.add_tool(remove, name=name)

if __name__ == "__main__":
    server.run()
