"""The tools that models get, each declared once: MCP, the chat and the adapters render them."""
