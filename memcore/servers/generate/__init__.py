"""Generation without a server: transformers, LitGPT."""
