"""Memory inside agent frameworks: one module for each, the only one that needs that library."""
