"""LitGPT's layers, and what its networks have that transformers' have not."""
