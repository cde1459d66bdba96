"""Memory inside other people's frameworks: one file for each, which needs that library and no other does."""
