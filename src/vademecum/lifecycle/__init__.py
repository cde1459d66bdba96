"""How memory stays true: passes that only propose, and one runner that acts."""
