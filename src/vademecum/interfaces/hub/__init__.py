"""The hub: where machines and members meet, on PostgreSQL."""
