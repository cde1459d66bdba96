"""The server that offers memory to agents over the Model Context Protocol (MCP)."""
