"""Hugging Face transformers 5.23, line by line."""
