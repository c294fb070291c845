"""LongCat as its own code builds it: zero-computation experts and n-gram embeddings.

Sources: `modeling_longcat_flash.py` of meituan-longcat/LongCat-Flash-Chat; vllm 0.33, models/longcat_flash.py and
models/longcat_flash_ngram.py (`NgramEmbedding`); transformers 5.23, models/longcat_flash.
"""

from __future__ import annotations

from memcore.networks.families.counting import Config, whole
from memcore.networks.weights import Weight

_HASHED = ("ngram_vocab_size_ratio", "emb_split_num", "emb_neighbor_num")
"""Keys of n-gram embeddings: rows per word of the vocabulary, tables per length, tokens of the longest n-gram."""


def longcat(config: Config) -> Config:
    """Return the keys of transformers' class; zero-computation experts, which return their input, have no matrices.

    transformers 5.23 allocates their gate and up (`LongcatFlashExperts.__init__`), which no checkpoint holds.
    """
    own: Config = {"zero_expert_num": 0} if "auto_map" in config else {}
    if config.get("model_type") != "longcat_flash":
        own = {**own, "model_type": "longcat_flash", "architectures": ["LongcatFlashForCausalLM"]}
    return {**{key: value for key, value in config.items() if key not in _HASHED}, **own}


def longcat_more(config: Config) -> tuple[Weight, ...]:
    """Return the router's rows for zero-computation experts, and the n-gram embeddings."""
    zero, layers, hidden = (whole(config.get(key)) for key in ("zero_expert_num", "num_layers", "hidden_size"))
    scores = Weight("model.layers.mlp.router.classifier.zero", ((layers, zero), (hidden,)), "router")
    return (*((scores,) if "auto_map" in config and zero and layers else ()), *_ngrams(config))


def _ngrams(config: Config) -> tuple[Weight, ...]:
    """Return tables of hashed n-grams, each with two rows more than the one before, and a projection for each."""
    ratio, split, neighbors, hidden = (whole(config.get(key)) for key in (*_HASHED, "hidden_size"))
    many = split * (neighbors - 1)
    if not ratio or many < 1 or hidden < many:
        return ()
    width, module = hidden // many, "model.ngram_embeddings"
    return (
        Weight(f"{module}.oe_embedder.weight", (("V", many * ratio), (width,)), "embedding", split="outer"),
        Weight(f"{module}.oe_embedder.further", ((many * many,), (width,)), "embedding"),
        Weight(f"{module}.oe_projection", ((many,), (width,), (hidden,)), "other"),
    )
