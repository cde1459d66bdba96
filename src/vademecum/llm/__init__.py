"""Language models: an answer as text or as a typed value, within limits; it is normal to have no model."""
