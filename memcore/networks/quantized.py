"""Frozen weights in few bits, as bitsandbytes and transformers store them: which are, and what each keeps besides.

Sources: transformers/integrations/bitsandbytes.py (`replace_with_bnb_linear`: every linear layer but the output head;
embeddings, norms and stacked experts are no linear layers), bitsandbytes/functional.py (`quantize_4bit`) and
bitsandbytes/nn/modules.py (`Linear4bit`, `Linear8bitLt`); transformers/integrations/finegrained_fp8.py (`FP8Linear`);
gptqmodel/nn_modules/qlinear/tritonv2.py (`TritonV2QuantLinear`; auto_gptq keeps the same tensors).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from memcore.errors import UnsupportedError
from memcore.networks.network import Model, with_layers
from memcore.networks.parts import Experts
from memcore.networks.weights import Linear, Weight
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape

BLOCK, NESTED_BLOCK, SIDE, GROUP = 64, 256, 128, 128
"""Numbers that share an absolute maximum, absolute maxima that share one of their own; a side of fp8's blocks; GPTQ's
usual group of inputs (`group_size` of `GPTQConfig`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A row of the table."""

    title: str
    bits: int
    double: bool = False
    """The absolute maxima are quantized too."""
    floating: bool = False
    """fp8 of transformers (`FineGrainedFP8Config`), not integers of bitsandbytes."""
    grouped: bool = False
    """GPTQ's: integers with a scale and a zero point for each group of inputs, in buffers, eight to an int32."""

    @property
    def dtype(self) -> str:
        """Return what bytes of it are, on one GPU."""
        return "fp8" if self.floating else "int32" if self.grouped else "int8" if self.bits == 8 else "uint8"


STORAGES: Mapping[str, Storage] = {
    "nf4": Storage(title="4-bit normal float, one fp32 scale per 64 values", bits=4),
    "nf4-double": Storage(title="4-bit normal float with double quantization (8-bit scales)", bits=4, double=True),
    "fp4": Storage(title="4-bit float, one fp32 scale per 64 values", bits=4),
    "fp4-double": Storage(title="4-bit normal float with double quantization (8-bit scales)", bits=4, double=True),
    "int8": Storage(title="LLM.int8(): 8-bit, one fp32 scale per row", bits=8),
    "fp8": Storage(title="transformers' FineGrainedFP8: one fp32 scale per 128 × 128 block", bits=8, floating=True),
    "gptq": Storage(title="GPTQ: 4-bit, a scale and a zero point for each 128 inputs", bits=4, grouped=True),
}
"""By the value of `training.quantization`."""
TITLES: Mapping[str, str] = {name: row.title for name, row in STORAGES.items()}
UNMODELLED = ("hqq", "aqlm", "eetq", "quanto")
"""What PEFT trains adapters next to as well."""
_INFERENCE = (
    "has no backward pass in transformers (quantizers, `is_trainable`): dequantize it on loading, or choose nf4"
)
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("mxfp4", "nvfp4"), _INFERENCE),
    "awq": "has GPTQ's tensors (4-bit integers, a scale and a zero point for each group): choose gptq",
}
"""Formats that are refused, and what to do instead."""


@dataclass(frozen=True, slots=True)
class QuantizationState:
    """A tensor that a quantized weight keeps with its numbers; no engine shards it."""

    rule: str
    shape: Shape
    dtype: str


def quantized(
    model: Model, storage: str, dtype: str, values: int, *, head: bool = False, experts: bool = False, ranks: str = "z"
) -> Model:
    """The model with the linear layers of decoder and towers quantized, `values` numbers in each element of `dtype`.

    With `head` the output head too, if it is no embedding; with `experts` the matrices of routed experts, which are
    linear layers of their own in transformers 4. `ranks`: over which FSDP shards them.
    """
    how = _How(storage, dtype, values, experts, ranks)
    quantize = partial(_quantized, how=how)
    network = with_layers(model.network, quantize)
    embedding_and_head = network.embedding_and_head
    if head and not embedding_and_head.tied:
        embedding_and_head = replace(embedding_and_head, head=_quantized(embedding_and_head.head, how))
    towers = tuple(with_layers(tower, quantize) for tower in network.towers)
    return replace(model, network=replace(network, embedding_and_head=embedding_and_head, towers=towers))


_STACKED = 3
"""Axes of a matrix of all experts, which biases have one less of."""


class _How(NamedTuple):
    storage: str
    dtype: str
    values: int
    experts: bool
    ranks: str


def _quantized(part: Any, how: _How) -> Any:
    if isinstance(part, Linear):
        if part.module != "linear":
            return part
        return replace(part, quantized=how.storage, dtype=how.dtype, packs=how.values, ranks=how.ranks)
    if isinstance(part, tuple):
        return tuple(_quantized(item, how) for item in part)
    if is_dataclass(part) and not isinstance(part, (Weight, type)):
        changed = {item.name: _quantized(getattr(part, item.name), how) for item in fields(part) if item.init}
        if isinstance(part, Experts) and how.experts:
            changed["experts"] = tuple(
                replace(weight, quantized=how.storage, dtype=how.dtype, packs=how.values, ranks=how.ranks)
                if len(weight.axes) == _STACKED
                else weight
                for weight in part.experts
            )
        return replace(part, **changed)
    return part


def quantization_states(weight: Weight) -> Iterator[QuantizationState]:
    """Yield what a quantized weight keeps besides: maxima, the sixteen numbers that four bits stand for, offsets."""
    if weight.quantized is None:
        return
    row = STORAGES[weight.quantized]
    if row.floating:
        yield QuantizationState("quantization_scales", tuple(Quotient(axis, SIDE) for axis in weight.axes), "fp32")
        return
    if row.bits == 8:
        yield QuantizationState("quantization_scales", weight.outer, "fp32")
        return
    if row.grouped:
        *many, outer, inner = weight.axes  # stacked experts have an axis before them
        first = tuple(symbol for axis in many for symbol in axis)
        groups = Quotient(inner, GROUP)
        yield QuantizationState("group_scales", (*first, groups, *outer), "fp16")
        yield QuantizationState("group_zeros", (*first, groups, Quotient(outer, 8)), "int32")
        yield QuantizationState("group_index", (*first, *inner), "int32")
        return
    maxima: Shape = (Quotient(weight.shape, BLOCK),)
    yield QuantizationState("quantization_code", (16,), "fp32")
    if not row.double:
        yield QuantizationState("quantization_scales", maxima, "fp32")
        return
    yield QuantizationState("quantization_scales", maxima, "uint8")
    yield QuantizationState("nested_scales", (Quotient(maxima, NESTED_BLOCK),), "fp32")
    yield QuantizationState("quantization_code", (256,), "fp32")
    yield QuantizationState("quantization_offset", (), "fp32")


def trained_next_to(config: Mapping[str, object]) -> str | None:
    """Return the format of frozen weights that a checkpoint's `quantization_config` gives an adapter; None for others.

    FP8 and MXFP4 are not among them: trainers load such checkpoints in 16 bits (transformers, quantizers/
    quantizer_mxfp4.py, `dequantize`). Sources: transformers, utils/quantization_config.py (`BitsAndBytesConfig`);
    for AWQ, `memcore.networks.named`.

    >>> trained_next_to({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True,
    ...     "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}})
    'nf4-double'
    """
    found = config.get("quantization_config")
    if not isinstance(found, Mapping):
        return None
    method = found.get("quant_method")
    if method == "bitsandbytes" and found.get("load_in_8bit") is True:
        return "int8"
    if method == "bitsandbytes" and found.get("load_in_4bit") is True:
        kind = str(found.get("bnb_4bit_quant_type", "fp4"))
        return f"{kind}-double" if found.get("bnb_4bit_use_double_quant") is True else kind
    return "gptq" if method in ("gptq", "awq") and found.get("bits", found.get("w_bit")) == _FOUR else None


_FOUR = 4


def refuse_mlx(config: Mapping[str, object]) -> None:
    """Raise UnsupportedError for a checkpoint that MLX has quantized (mlx-lm, utils.py, `quantize_model`)."""
    for name in ("quantization", "quantization_config"):
        found = config.get(name)
        if isinstance(found, Mapping) and {"bits", "group_size"} <= found.keys() and not found.get("quant_method"):
            raise UnsupportedError(
                f"model.{name}", "is MLX's, which no supported server or trainer loads; give the original model"
            )
