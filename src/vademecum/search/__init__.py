"""Answering: parse the query, ask both legs, merge, rank, explain."""
