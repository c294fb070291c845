"""Ling and Ring: mixtures of experts, since 2.5 with linear attention in most layers.

Sources: `modeling_bailing_moe_v2_5.py` in inclusionAI/Ring-V2.5 (`BailingMoeV2_5LinearAttention`,
`BailingMoeV2_5MultiLatentAttention`, `BailingMoeV2_5DecoderLayer.__init__`); vllm 0.33,
models/bailing_moe_linear.py and models/sarvam.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.networks import patterns
from memcore.networks.families.decoders import UNBIASED
from memcore.networks.families.family import Family
from memcore.networks.families.sparse import NORMALIZED
from memcore.networks.parts import SpecialMixer
from memcore.networks.patterns import first_dense, typed
from memcore.networks.reader import Reader
from memcore.networks.recurrences import linears, matrix, prefixed
from memcore.networks.routed import Routed, shared_expert
from memcore.networks.rows import Dense, Latent
from memcore.networks.weights import Weight
from memcore.records import dataclass

BAILING = Family(
    mixers={"attention": replace(
        UNBIASED, module="attention", inputs=("query_key_value",), output="dense", fused="grouped",
        bias="use_qkv_bias", output_bias="use_bias", norms=("query_layernorm", "key_layernorm"),
        norm_if="use_qk_norm", rotary="partial",
    )},
    ffns={
        "dense": Dense(bias="use_bias"),
        "sparse": Routed(
            variant="deepseek_v3",
            shared=shared_expert("mlp.shared_experts", times="num_shared_experts"),
            shared_if="num_shared_experts",
            correction="gate.expert_bias",
            correction_if="moe_router_enable_expert_bias",
            groups=("n_group", "topk_group"),
            groups_if=lambda reader: reader.value("n_group") is not None,
            options=NORMALIZED,
        ),
    },
    ffn_plan=first_dense(),
    embedding="model.word_embeddings",
    ties=True,
)  # fmt: skip
"""Ling's first models, and Sarvam's smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    """Lightning attention with gated results, which are normed in groups of heads."""

    module: str = "attention"

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer."""
        heads = reader.symbol("a", reader.integer("num_attention_heads"))
        reader.symbol("d", reader.integer("head_dim", max(reader.sizes["h"] // reader.sizes["a"], 1)))
        bias = reader.flag("use_qkv_bias")
        normed = ("query_layernorm", "key_layernorm") if reader.flag("use_qk_norm") else ()
        weights = [
            *matrix("query_key_value", (3, heads, "d"), ("h",), bias=bias, split="outer"),
            *matrix("dense", ("h",), (heads, "d"), bias=reader.flag("use_bias"), split="inner"),
            *matrix("g_proj", (heads, "d"), ("h",), split="outer"),
            *(Weight(f"{each}.weight", (("d",),), "norm") for each in normed),
            Weight("g_norm.weight", ((heads, "d"),), "norm"),
        ]
        return SpecialMixer(
            module=self.module,
            variant="lightning-gated",
            parameters=prefixed(self.module, weights),
            linears=linears(self.module, weights),
            state=((heads, "d", "d"),),
        )


def _places(reader: Reader) -> list[str]:
    """Every n-th layer sees everything, and so do those after the last whole group."""
    layers, group = patterns.depth(reader), reader.integer("layer_group_size")
    last = layers // group * group
    return ["linear_attention" if (i + 1) % group and i < last else "full_attention" for i in range(layers)]


BAILING_V25 = replace(
    BAILING,
    mixers={"attention": Latent(variant="deepseek_v3", module="attention", output="dense"), "linear": _Linear()},
    mixer_plan=typed(_places),
    keys={"attention_bias": "use_qkv_bias"},
    prediction="shares",
)
"""Ling and Ring 2.5 and 2.6."""


def with_lightning(config: Mapping[str, object]) -> Mapping[str, object]:
    """Ling and Ring 2.5 have the type that transformers gives to Ling 3.0, whose linear attention is another."""
    return {**config, "model_type": "bailing_moe_v2_5"} if "group_norm_size" in config else config
