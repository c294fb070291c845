"""Texts to keys and values, and back: JSON, TOML, YAML, command lines in scripts; how a tool is described."""
