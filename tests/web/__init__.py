"""The page in a real browser: one file per view."""
