"""What an agent is told of its memory before it begins: one builder, one renderer."""
