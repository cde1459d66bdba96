"""The doors to memory: each parses, makes one call, and renders the answer."""
