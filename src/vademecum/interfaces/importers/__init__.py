"""What other systems kept, read where it lies; each reader makes pieces that memory can take in."""
