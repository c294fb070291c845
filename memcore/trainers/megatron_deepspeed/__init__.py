"""Megatron-DeepSpeed: Megatron-LM of 2023 under ZeRO."""
