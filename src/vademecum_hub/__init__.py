"""The hub's server: it keeps workspaces in PostgreSQL, so that machines and members can sync through it.

A distribution of its own, `vademecum-hub`; `vademecum` never imports it.
"""
