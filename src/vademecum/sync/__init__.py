"""Sync memory between machines: exchange facts that never change, and make the files from all facts."""
