"""Formulas of memory that Megatron Bridge and Megatron-LM publish."""
