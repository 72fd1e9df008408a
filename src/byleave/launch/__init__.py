"""Start a program confined: the one way for tools, MCP servers, agents and commands. Start at `launch.start`."""
