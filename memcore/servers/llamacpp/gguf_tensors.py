"""The tensors of a GGUF file: what `convert_hf_to_gguf.py` of llama.cpp makes of a checkpoint's tensors.

Matrices keep their names' roles (`blk.3.attn_q.weight`), an expert matrix of all experts is one tensor, the expansion
of latent attention is split into the parts of keys and values, and what has one axis, norms, routers, convolutions and
tables of positions are stored as F32 whatever the file type. Vision and audio towers go to a file of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention, Mixer
from memcore.networks.weights import Linear, Norm, Weight
from memcore.records import dataclass
from memcore.servers.llamacpp.gguf_names import AFTER_ATTENTION, ENDS, MIXERS, NORMS, OTHERS, Parts
from memcore.symbols import Shape


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a GGUF file before the file type decides how its elements are stored."""

    name: str
    shape: tuple[int, ...]
    """The last axis is a row; GGUF lists the axes the other way round."""
    fixed: str | None = None
    """The type that the converter stores it in, whatever the file's."""

    @property
    def elements(self) -> int:
        """Return how many it has."""
        return prod(self.shape)

    @property
    def row(self) -> int:
        """Return elements of a row (`ne[0]`)."""
        return self.shape[-1]

    @property
    def axes(self) -> int:
        """Axes, without those of size one in front (`ggml_n_dims`)."""
        wide = [place for place, size in enumerate(self.shape) if size > 1]
        return len(self.shape) - min(wide, default=len(self.shape) - 1)


Tensors: TypeAlias = Iterator[GgufTensor]


def gguf_tensors(model: Model) -> tuple[GgufTensor, ...]:
    """Return every tensor of the text model's file: those outside the layers first, then layer by layer.

    >>> from memcore.networks.catalog import find_model
    >>> gguf_tensors(find_model("llama-3.1-8b"))[0]
    GgufTensor(name='token_embd.weight', shape=(128256, 4096), fixed=None)
    """
    return tuple(_tensors(model))


def layers_in_order(model: Model) -> Iterator[Layer]:
    """Yield the decoder's layers from first to last."""
    for pattern, times in zip(model.network.runs, model.repeats, strict=True):
        for _ in range(times):
            yield from pattern


def _tensors(model: Model) -> Tensors:
    embedding_and_head = model.network.embedding_and_head
    yield _matrix(model, "token_embd.weight", embedding_and_head.embedding.axes)
    if embedding_and_head.positions is not None:
        yield replace(_matrix(model, "position_embd.weight", embedding_and_head.positions.axes), fixed="F32")
    if embedding_and_head.embedding_norm is not None:
        yield from _norm(model, embedding_and_head.embedding_norm, "token_embd_norm")
    if embedding_and_head.final_norm is not None:
        # LFM2 calls its last norm that of the embedding
        last = "token_embd_norm" if embedding_and_head.final_norm.name.endswith("embedding_norm") else "output_norm"
        yield from _norm(model, embedding_and_head.final_norm, last)
    if not embedding_and_head.tied:
        yield _matrix(model, "output.weight", (embedding_and_head.head.outer, embedding_and_head.head.inner))
    if embedding_and_head.head.bias:
        yield GgufTensor("output.bias", (model.size(embedding_and_head.head.outer),), "F32")
    yield from _others(model)
    yield from rope_tensors(model)
    for index, layer in enumerate(layers_in_order(model)):
        for tensor in _layer(model, layer):
            yield replace(tensor, name=f"blk.{index}.{tensor.name}")


def rope_tensors(model: Model) -> Tensors:
    """Factors of the rotation's frequencies, where the family's scaling has them.

    A config may leave the scaling out; Llama 3's vocabulary with more than 8192 positions is that of Llama 3.1 and
    later, and Phi-3's families scale from 131072 positions on.
    """
    half = next((model.size((part.heads.rotated,)) // 2 for part in _rotated(model)), 0)
    scaling = model.rope_scaling or _usual_scaling(model)
    for name in ROPE_TENSORS.get(scaling, ()):
        yield GgufTensor(f"{name}.weight", (half,), "F32")


ROPE_TENSORS: Mapping[str, tuple[str, ...]] = {
    "llama3": ("rope_freqs",),
    "proportional": ("rope_freqs",),
    "longrope": ("rope_factors_long", "rope_factors_short"),
}
"""By the type of scaling (`rope_scaling.rope_type`)."""


def _usual_scaling(model: Model) -> str:
    family, sizes = model.network.family, model.sizes
    if family in {"llama", "mllama"} and sizes["V"] == 128256 and sizes["P"] > 8192:
        return "llama3"
    if family in {"apertus", "smollm3"}:
        return "llama3" if family == "apertus" else "default"
    if family == "phi3" and sizes["P"] >= 131072:
        return "longrope"
    return "proportional" if family.startswith("gemma4") else "default"


def _rotated(model: Model) -> Iterator[Attention]:
    """Attention layers that rotate; those that see everything first, whose factors these are."""
    found = [mixer for layer, _ in model.layers for mixer in layer.mixers if isinstance(mixer, Attention)]
    yield from sorted((part for part in found if part.rotary != "none"), key=lambda part: part.mask != "full")


def _matrix(model: Model, name: str, axes: tuple[Shape, ...]) -> GgufTensor:
    return GgufTensor(name, tuple(model.size(axis) for axis in axes))


def _norm(model: Model, norm: Norm, name: str) -> Tensors:
    for weight in norm.weights():
        kind = weight.name.rpartition(".")[2]
        shape = tuple(model.size(axis) for axis in weight.axes)
        if norm.listed is None:
            yield GgufTensor(f"{name}.{kind}", shape, "F32")
        elif weight.name.endswith(f".0.{kind}"):
            yield GgufTensor(f"{name}.{kind}", (norm.listed, *shape), "F32")


def _linear(model: Model, linear: Linear, name: str, fixed: str | None = None) -> Tensors:
    yield GgufTensor(f"{name}.weight", (model.size(linear.outer), model.size(linear.inner)), fixed)
    if linear.bias:
        yield GgufTensor(f"{name}.bias", (model.size(linear.outer),), "F32")


def _layer(model: Model, layer: Layer) -> Tensors:
    for mixer in layer.mixers:
        yield from _mixer(model, mixer)
    sparse = layer.has_experts
    for ffn in layer.ffns:
        if isinstance(ffn, Experts):
            yield from _experts(model, ffn)
        else:
            yield from _feed_forward(model, ffn, "_shexp" if sparse and ffn.kind == "shared-expert" else "")
    for norm, name in zip(layer.norms, norm_names(model, layer), strict=True):
        yield from _norm(model, norm, name)
    if layer.extra is not None:
        for weight in layer.extra.weights():
            yield from _named(model, weight, OTHERS)
    if model.network.family.startswith("gemma4"):
        yield GgufTensor("layer_output_scale.weight", (1,), "F32")


def _mixer(model: Model, mixer: Mixer) -> Tensors:
    if isinstance(mixer, Attention):
        yield from _attention(model, mixer)
    elif isinstance(mixer, LatentAttention):
        yield from _latent(model, mixer)
    else:
        for weight in mixer.weights():
            yield from _named(model, weight, MIXERS.get(mixer.variant, {}))


def norm_names(model: Model, layer: Layer) -> list[str]:
    """GGUF's names of a layer's norms.

    A `post_attention_layernorm` is the norm before the feed-forward layer, or that behind attention where another
    stands before the feed-forward layer.
    """
    leaves = [norm.name.rpartition(".")[2] for norm in layer.norms]
    behind = model.network.family in AFTER_ATTENTION or "post_feedforward_layernorm" in leaves
    special = {"post_attention_layernorm": "post_attention_norm"} if behind else {}
    return [special.get(leaf) or NORMS.get(leaf, leaf) for leaf in leaves]


_INPUTS: Mapping[int, tuple[str, ...]] = {3: ("attn_q", "attn_k", "attn_v"), 2: ("attn_q", "attn_k")}


def _attention(model: Model, part: Attention) -> Tensors:
    if part.borrowed:
        return
    names = _INPUTS.get(len(part.inputs), ("attn_q" if part.fused == "no" else "attn_qkv",))
    for linear, name in zip(part.inputs, names, strict=True):
        yield from _linear(model, linear, name)
    yield from _linear(model, part.output, "attn_output")
    for norm, name in ((part.query_norm, "attn_q_norm"), (part.key_norm, "attn_k_norm")):
        if norm is not None:
            yield from _norm(model, norm, name)
    if part.sinks is not None:
        yield GgufTensor("attn_sinks.weight", (model.size(part.sinks.shape),), "F32")


def _latent(model: Model, part: LatentAttention) -> Tensors:
    names = ("attn_q",) if len(part.queries) == 1 else ("attn_q_a", "attn_q_b")
    for linear, name in zip(part.queries, names, strict=True):
        yield from _linear(model, linear, name)
    yield from _linear(model, part.compress, "attn_kv_a_mqa")
    heads, values = model.size((part.heads.query,)), model.size((part.heads.value,))
    latent = model.size(part.expand.inner)
    yield GgufTensor("attn_k_b.weight", (heads, latent, model.size(part.expand.outer) // heads - values))
    yield GgufTensor("attn_v_b.weight", (heads, values, latent))
    yield from _linear(model, part.output, "attn_output")
    for norm, name in ((part.query_norm, "attn_q_a_norm"), (part.latent_norm, "attn_kv_a_norm")):
        if norm is not None:
            yield from _norm(model, norm, name)
    for weight in part.indexer:
        yield from _named(model, weight, OTHERS)


def _feed_forward(model: Model, part: FeedForward, suffix: str) -> Tensors:
    if part.borrowed:
        return
    if part.gate is not None:
        yield from _linear(model, part.gate, f"ffn_gate{suffix}")
    if part.fused and part.kind == "shared-expert":
        rows, row = model.size(part.up.outer) // 2, model.size(part.up.inner)
        yield GgufTensor(f"ffn_gate{suffix}.weight", (rows, row))
        yield GgufTensor(f"ffn_up{suffix}.weight", (rows, row))
    else:
        yield from _linear(model, part.up, f"ffn_up{suffix}")
    yield from _linear(model, part.down, f"ffn_down{suffix}")


_EXPERTS: Mapping[str, tuple[str, ...]] = {
    "gate_up_proj": ("ffn_gate_exps", "ffn_up_exps"),
    "gate_proj": ("ffn_gate_exps",),
    "up_proj": ("ffn_up_exps",),
    "down_proj": ("ffn_down_exps",),
    "w1": ("ffn_gate_exps",),
    "v1": ("ffn_up_exps",),
    "w2": ("ffn_down_exps",),
}
"""What a tensor of all experts is split into."""


def _experts(model: Model, part: Experts) -> Tensors:
    experts = model.sizes["E"]
    # DBRX's converter stores its router like any matrix
    yield from _linear(model, part.router, "ffn_gate_inp", None if part.variant == "dbrx" else "F32")
    inner = model.size(part.latent[0].outer if part.latent else ("h",))
    for weight in part.experts:
        leaf = weight.name.rpartition(".")[2]
        names = _EXPERTS[leaf.removesuffix("_bias")]
        if model.network.family.startswith("gemma4") and len(names) == 2:
            names = ("ffn_gate_up_exps",)
        each = model.size(weight.shape) // len(names)
        if leaf.endswith("_bias"):
            yield from (GgufTensor(f"{name}.bias", (experts, each // experts), "F32") for name in names)
            continue
        width = each // experts // inner
        shape = (experts, inner, width) if names == ("ffn_down_exps",) else (experts, width, inner)
        yield from (GgufTensor(f"{name}.weight", shape, _native(model)) for name in names)
    if part.correction is not None:
        yield GgufTensor("exp_probs_b.bias", (experts,), "F32")
    for weight in part.routing:
        yield from _named(model, weight, OTHERS)
    for linear, name in zip(part.latent, ("ffn_latent_down", "ffn_latent_up"), strict=False):
        yield from _linear(model, linear, name)
    if part.shared is not None:
        yield from _feed_forward(model, part.shared, "_shexp")
    if part.shared_gate is not None:
        yield from _linear(model, part.shared_gate, "ffn_gate_inp_shexp", "F32")


def _native(model: Model) -> str | None:
    """Return the type in which experts are published, and which the converter keeps."""
    return "MXFP4" if model.network.family == "gpt_oss" else None


def _named(model: Model, weight: Weight, names: Mapping[str, str | Parts]) -> Tensors:
    """Yield a parameter of a part that is described by its parameters alone."""
    suffixes = [weight.name.split(".", count)[-1] for count in range(weight.name.count(".") + 1)]
    found = next((names[end] for end in suffixes if end in names), weight.name)
    shape = tuple(model.size(axis) for axis in weight.axes)
    parts: Parts = ((found, None),) if isinstance(found, str) else found
    rest = shape[0] - sum(model.size(rows) for _, rows in parts if rows is not None)
    for name, rows in parts:
        flat = tuple(size for size in (rest if rows is None else model.size(rows), *shape[1:]) if size > 1) or (1,)
        yield GgufTensor(name, flat, _fixed(name, flat))


_ALWAYS_F32 = ("ssm_conv1d", "shortconv.conv", "ffn_gate_inp", "altup_correct_coef", "altup_predict_coef",
               "indexer.proj", "_norm")  # fmt: skip


def _fixed(name: str, shape: tuple[int, ...]) -> str | None:
    """F32 for what the converter never stores in another type."""
    plain = len(shape) == 1 or not name.endswith(".weight") or any(each in name for each in _ALWAYS_F32)
    return "F32" if plain else None


def _others(model: Model) -> Tensors:
    """Yield parameters outside the layers that only some families have; towers have files of their own (mmproj)."""
    others = [weight for weight in model.network.embedding_and_head.others if weight.kind != "tower"]
    inside = [weight.name.removeprefix("model.").removeprefix("language_model.") for weight in others]
    stems = [name.split(".")[0] for name in inside]
    for place, (weight, stem) in enumerate(zip(others, stems, strict=True)):
        if stem in stems[:place]:
            continue
        name = ENDS.get(stem, inside[place])
        shape = tuple(model.size(axis) for axis in weight.axes)
        if name == "per_layer_token_embd.weight":
            # padded to the rows of the embedding (Gemma 3n)
            shape = (max(shape[0], model.size(model.network.embedding_and_head.embedding.outer)), *shape[1:])
        count = stems.count(stem)
        yield GgufTensor(name, (count, *shape) if count > 1 else shape, _fixed(name, shape))
