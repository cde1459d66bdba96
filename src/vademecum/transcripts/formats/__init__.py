"""Transcripts as other agents leave them, one file for each format."""
