"""Runs configs for real, on GPUs, on the CPU, or on fake tensors, and records what memory they held.

This is no part of the package: it needs PyTorch and transformers (`pip install memcore[validation]`).
"""
