"""Memory in an agent's own configuration: its server, its hooks and a word about when to use it."""
