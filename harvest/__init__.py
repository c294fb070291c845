"""Keys, types and defaults of other tools, read from their own sources without importing them."""
