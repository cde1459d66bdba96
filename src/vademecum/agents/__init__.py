"""The agents that are known: one module for each, with all that is particular to it.

Descriptions and parsers alone. What acts on them stands elsewhere: hooks are answered and configuration is
written by `interfaces`, files are taken in by `transcripts` and `knowledge`.
"""
