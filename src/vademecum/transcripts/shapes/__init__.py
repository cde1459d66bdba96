"""Messages in the shapes of providers and frameworks, one file for each: there and back without loss."""
