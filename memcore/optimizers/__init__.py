"""Optimizers: what each keeps for a parameter, and what its step needs for a moment."""
