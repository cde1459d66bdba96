"""What was learned, how far it is trusted, in which order it is told, and what a text says of the code."""
