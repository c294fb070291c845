"""Layers that several trainers use: the forward pass of each, written against `memcore.tensors` like the original."""
