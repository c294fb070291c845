"""Settings of SGLang, as it names them on its command line."""

from __future__ import annotations

from memcore.config.kinds import Flag, Integer, Number
from memcore.config.schema import Section, setting

_SGLANG = ("sglang",)


class SglangSettings(Section, path="engine"):
    """What SGLang can be told besides the job itself."""

    mem_fraction_static = setting(
        Number(0.01, 1),
        "Static memory fraction",
        "SGLang's share of the GPU for weights and the cache pool; activations and graphs live outside of it.",
        flag="mem-fraction-static",
        engines=_SGLANG,
        default="by SGLang's rule from the GPU, the chunk size and the graphs",
    )
    chunked_prefill_size = setting(
        Integer(unit="tokens"),
        "Chunked prefill",
        "Tokens of a prompt that one step computes.",
        flag="chunked-prefill-size",
        engines=_SGLANG,
        default="2048, 4096, 8192 or 16384 by GPU memory",
        advanced=True,
    )
    cuda_graph_max_bs = setting(
        Integer(unit="sequences"),
        "Largest graph",
        "The largest batch for which a CUDA graph is captured.",
        flag="cuda-graph-max-bs",
        engines=_SGLANG,
        default="by GPU memory",
        advanced=True,
    )
    swa_full_tokens_ratio = setting(
        Number(0.01, 1),
        "Window pool",
        "Tokens of the pool for layers with windows, as a share of the other pool's.",
        flag="swa-full-tokens-ratio",
        engines=_SGLANG,
        default="0.8",
        advanced=True,
    )
    mamba_full_memory_ratio = setting(
        Number(0.01, 100),
        "State pool",
        "Bytes of the pool of recurrent states, as a share of the token pool's.",
        flag="mamba-full-memory-ratio",
        engines=_SGLANG,
        default="0.9",
        advanced=True,
    )
    enable_dp_attention = setting(
        Flag(),
        "Data-parallel attention",
        "Attention is replicated over data-parallel ranks inside the tensor-parallel group; each has its own pool.",
        flag="dp-attention",
        engines=_SGLANG,
        default="false",
        advanced=True,
    )


SECTIONS = (SglangSettings,)
