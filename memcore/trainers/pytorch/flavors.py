"""torchtitan's models by its own names."""

from __future__ import annotations

from collections.abc import Mapping

FLAVORS: Mapping[str, Mapping[str, str]] = {
    full: {"model.name": name, "model.flavor": size}
    for name, start, sizes in (
        ("llama3", "meta-llama/Llama-3.1", ("8B", "70B", "405B")),
        *(("llama2", f"meta-llama/Llama-2-{size.lower()}-hf", (size,)) for size in ("7B", "13B", "70B")),
        ("qwen3", "Qwen/Qwen3", ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B")),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V3", ("671B",)),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V2", ("236B",)),
        ("deepseek_v3", "deepseek-ai/DeepSeek-V2-Lite", ("16B",)),
        ("llama4", "meta-llama/Llama-4-Scout-17B-16E", ("17bx16e",)),
        ("llama4", "meta-llama/Llama-4-Maverick-17B-128E", ("17bx128e",)),
    )
    for size in sizes
    for full in ([start] if name in ("deepseek_v3", "llama4", "llama2") else [f"{start}-{size}"])
}
"""torchtitan's flavors (models/*/__init__.py) that are models of the catalog, or of the same sizes; Llama 2 until 2025
(models/llama/__init__.py)."""
