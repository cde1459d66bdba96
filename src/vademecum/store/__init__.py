"""Markdown truth: everything that is kept, and the only code that writes it."""
