"""Programs for whoever works on this: measuring, generating, checking."""
