"""Embedders, which make vectors of unit length from texts."""
