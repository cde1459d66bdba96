"""Managing the window: pure policy over messages; effects through small callbacks of the host."""
