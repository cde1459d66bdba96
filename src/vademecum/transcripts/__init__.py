"""What was said: append-only logs of sessions, and views of them."""
