"""What a person can type in a chat instead of words: `/status`, `/memory search`, …"""
