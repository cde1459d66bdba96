"""How memory stays true."""
