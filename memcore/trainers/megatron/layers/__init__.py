"""Megatron-Core's layers, with TransformerEngine's modules or its own ("local") ones; tensors are (s, b, …)."""
