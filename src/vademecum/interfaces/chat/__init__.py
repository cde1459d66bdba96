"""The terminal agent, `vade chat`: a chat with a model that uses all of vademecum's memory."""
