"""The network: families, reading a `config.json`, parameters, and the catalog."""
