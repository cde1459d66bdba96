"""Commands that agents run as hooks: at a session's start and end, before a prompt, and at a compaction."""
