"""A class of ranks: what it holds and when, what its allocator makes of it, and its host."""
