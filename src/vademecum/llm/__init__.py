"""Language models: an answer as text or as a typed value, within limits; having none is a normal state."""
