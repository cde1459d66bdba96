"""Install memory into an agent's own configuration: the MCP server, the hooks, and an instruction."""
