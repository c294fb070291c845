"""Serving jobs that people start from, and their parts under the names of the question.

The first is the usual exercise: what a small model needs to answer one prompt on one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memcore.records import dataclass

if TYPE_CHECKING:  # commands that name presets need nothing of servers
    from memcore.serving.estimate import ServingEstimate

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "single-gpu-inference": {
        "model": "phi-2",
        "inference": {
            "batch_size": 1,
            "prompt_length": 2047,
            "output_length": 1,
            "max_model_len": 2048,
            "weight_dtype": "bf16",
            "use_cache": True,
        },
        "engine": {"type": "transformers"},
        "hardware": {"accelerator": "rtx-4090", "num_gpus": 1},
    },
    "vllm-8b": {
        "model": "llama-3.1-8b",
        "inference": {"max_model_len": 32768, "mean_length": 4096},
        "engine": {"type": "vllm"},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 1},
    },
}
"""Configs by name."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes under a name that people ask for."""

    name: str
    bytes: int
    within: str = ""
    """The category of the ledger that it is a piece of, if it is no whole one."""


_VOCABULARY = ("embed", "wte", "lm_head", "word_embeddings", "embedding", "output_embedding")


def question_parts(found: ServingEstimate) -> list[Part]:
    """Weights, embeddings, cache, inputs and temporaries of one GPU."""
    entries = found.ledger.entries
    tables = [
        entry for entry in entries if entry.category == "weights" and any(name in entry.module for name in _VOCABULARY)
    ]
    inputs = [entry for entry in entries if entry.title == "token ids and mask"]
    embeddings, given = sum(entry.bytes for entry in tables), sum(entry.bytes for entry in inputs)
    sums = found.ledger.sum
    parts = [
        Part("model weights", sums("weights", "adapters", "draft model") - embeddings),
        Part("embeddings and head", embeddings, within="weights"),
        Part("KV cache", sums("KV cache", "recurrent states")),
        Part("input data", given, within="activations"),
        Part("temporary activations", sums("activations", "workspaces", "CUDA graphs") - given),
        Part("CUDA context and libraries", sums("outside the allocator")),
    ]
    return [part for part in parts if part.bytes]
