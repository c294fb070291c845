"""DeepSpeed: ZeRO."""
