"""A config with nothing left open: what is run, by whose loop, and how it is divided."""
