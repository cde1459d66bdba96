"""The known agents: one module for each, with everything specific to it.

This package only describes and parses. `interfaces` answers hooks and writes configuration; `transcripts` and
`knowledge` import files.
"""
