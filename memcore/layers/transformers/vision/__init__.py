"""Vision towers of transformers, and how each family puts what they see before its decoder, line by line."""
