"""What reads images or sounds alone, up to its first layer.

Convolutions over samples are those of transformers 5.23, models/wav2vec2 (`Wav2Vec2FeatureEncoder`), which WavLM,
HuBERT, Data2Vec, UniSpeech and SEW have too. What else makes vectors of an image or of a spectrum is not known: its
parameters learn, and the vectors are as wide as the layers.
"""

from __future__ import annotations

from math import prod

from memcore.layers.transformers.embeddings import LayerInputs
from memcore.layers.transformers.masks import attention_masks
from memcore.layers.transformers.rotary import rotary_tables
from memcore.networks.nearest import positions_seen, width
from memcore.networks.weights import Weight
from memcore.tensors.basics import new, to
from memcore.tensors.convolution import strided
from memcore.tensors.operations import gelu, layer_norm, learned
from memcore.tensors.tensor import Parameter, Tensor
from memcore.trace.step import Batch, Step


def signals(step: Step, batch: Batch) -> tuple[Tensor, LayerInputs]:
    """Hidden states of each position; only sounds are padded, so that only they have masks."""
    network = step.recipe.network
    around = network.embedding_and_head
    seen = positions_seen(network)
    dtype = step.recipe.precision.autocast or step.recipe.precision.parameter
    left = {weight.name: weight for weight in around.others}
    if around.strides:
        x = to(_projected(step, _heard(step, left), left), dtype)
    else:
        x = to(new(step.tape, ("b", seen or "s", *(width(network) or ("h",))), "fp32", "pixels"), dtype)
    for name in left:
        x = learned(x, step.weights[name])
    step.embedded(x)
    masks: dict[str, Tensor | None] = {"full": None} if seen else attention_masks(step, batch, x.dtype)
    return x, LayerInputs(None, masks, rotary_tables(step, x.dtype))


def _heard(step: Step, left: dict[str, Weight]) -> Tensor:
    """Convolutions that read samples, each with a GELU and some with a norm: (b, s, C).

    Where nobody calls `freeze_feature_encoder`, their input is made to need a gradient (`_requires_grad`), also where
    all that learns are adapters: autograd keeps what lies between them.
    """
    strides = step.recipe.network.embedding_and_head.strides
    x = new(step.tape, ("b", "s", prod(strides), 1), "fp32", "inputs")
    x.requires_grad = step.recipe.network.adapted
    for index in range(len(strides)):
        near = [name for name in left if f".conv_layers.{index}." in name]
        taken = {name.rpartition(".conv_layers.")[2].partition(".")[2]: _parameter(step, left, name) for name in near}
        weight = taken["conv.weight"]
        x = strided(x, weight, taken.get("conv.bias"), ("b", "s", prod(strides[index + 1 :]), *weight.shape[:1]))
        if "layer_norm.weight" in taken:
            x = layer_norm(x, taken["layer_norm.weight"], taken.get("layer_norm.bias"))
        x = gelu(x)
    return x


def _projected(step: Step, x: Tensor, left: dict[str, Weight]) -> Tensor:
    """`Wav2Vec2FeatureProjection`: a norm, and a matrix to the width of the layers, or that alone (SEW)."""
    near = {name.rpartition("feature_projection.")[2]: name for name in left if "feature_projection." in name}
    if "layer_norm.weight" in near:
        x = layer_norm(x, *(_parameter(step, left, near[f"layer_norm.{end}"]) for end in ("weight", "bias")))
    wide = ("b", "s", *(width(step.recipe.network) or ("h",)))
    matrix = next((end.removesuffix("weight") for end in ("projection.weight", "weight") if end in near), None)
    if matrix is None:
        return new(step.tape, wide, x.dtype, "pixels")
    weight, bias = (_parameter(step, left, near[f"{matrix}{end}"]) for end in ("weight", "bias"))
    return strided(x, weight, bias, wide)


def _parameter(step: Step, left: dict[str, Weight], name: str) -> Parameter:
    del left[name]
    return step.weights[name]
