"""Manage a model's context window: decide which messages stay, without side effects but a few
host callbacks.
"""
