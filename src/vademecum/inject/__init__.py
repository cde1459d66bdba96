"""The block of memory that an agent gets at the start of a session and with prompts."""
