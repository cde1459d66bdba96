"""Lint: looks for what is wrong with a memory, and changes nothing.

One small file for each kind of finding; `reading` collects what they look at and `runner` asks them all.
"""
