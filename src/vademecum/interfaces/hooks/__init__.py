"""What agents run at moments of their own: a session begins, a prompt is sent, a window is compacted."""
