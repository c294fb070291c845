"""What makes room in llama.cpp, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.serving.changes import NO_DRAFT, SHORTER, Becomes, ServerChange, fewer_tokens
from memcore.serving.inference import Inference

_FEW = ("q8_0", "q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q4_0", "q3_k_m", "q2_k")
"""Formats of 8 bits and fewer."""

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "llama.cpp": (
        ServerChange(
            title="Flash attention",
            kind="free",
            note="attention scores are not stored, and the kernel is faster",
            how=Becomes({LlamaCppSettings.flash_attn: True}),
        ),
        fewer_tokens(LlamaCppSettings.n_ubatch, 64),
        NO_DRAFT,
        ServerChange(
            title="KV cache in q8_0",
            kind="precision",
            note="keys and values are rounded to 8 bits in blocks of 32",
            how=Becomes(
                {
                    LlamaCppSettings.cache_type_k: "q8_0",
                    LlamaCppSettings.cache_type_v: "q8_0",
                    LlamaCppSettings.flash_attn: True,
                },
                {LlamaCppSettings.cache_type_k: ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")},
            ),
        ),
        ServerChange(
            title="Weights in Q8_0",
            kind="precision",
            note="weights are rounded to 8 bits in blocks of 32",
            how=Becomes({Inference.quantization: "q8_0"}, {Inference.quantization: _FEW}),
        ),
        ServerChange(
            title="Weights in Q4_K_M",
            kind="precision",
            note="most matrices in 4.5 bits, some in 6.6",
            how=Becomes({Inference.quantization: "q4_k_m"}, {Inference.quantization: _FEW[4:]}),
        ),
        SHORTER,
    ),
}
"""In order of harm, in which the ladder climbs them."""
