"""Serving: what inference servers need for weights, caches and buffers."""
