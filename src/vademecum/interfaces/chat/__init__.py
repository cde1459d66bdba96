"""The terminal agent, `vade chat`: a host that shows the whole memory at work."""
