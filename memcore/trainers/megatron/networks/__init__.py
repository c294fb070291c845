"""Megatron-Core's networks: its own arguments, other families as it runs them, and where parallelism puts them."""
