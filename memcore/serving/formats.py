"""Formats of weights: the bytes of an element, and what is stored with the elements.

A format quantizes matrices of some kinds; everything else keeps the model's dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from memcore.records import dataclass

BYTES: Mapping[str, Fraction] = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "int4": Fraction(1, 2),
}
"""Bytes of an element, by dtype."""
IS_GGUF = "found {:.120}; GGUF files are not supported yet with {}; llama.cpp and Ollama serve them"
"""What servers say that load none: of a file, a repository's file, or a type."""

MATRICES = frozenset({"attention", "linear-attention", "feed-forward", "shared-expert", "routed-expert"})
"""Kinds of parameters whose matrices are quantized; embeddings, head, norms and routers are not."""
EXPERTS = frozenset({"routed-expert"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationParameter:
    """Numbers stored with the elements: one for each block, given by its rows and columns."""

    title: str
    itemsize: Fraction
    rows: int | None = 1
    """Rows of a block; None: all of them."""
    columns: int | None = None
    """Columns of a block; None: all of them."""
    run: int | None = None
    """The elements of a block that is a run in a row instead."""
    grouped: bool = False
    """The group size of the format is the number of columns."""

    def count(self, rows: int, columns: int) -> int:
        """Return how many there are for a matrix."""
        if self.run is not None:
            return -(-rows * columns // self.run)
        down = 1 if self.rows is None else -(-rows // self.rows)
        return down * (1 if self.columns is None else -(-columns // self.columns))


Capability: TypeAlias = tuple[int, int]
"""A compute capability: 8.9 is (8, 9)."""
ANY: Capability = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How matrices are stored."""

    name: str
    title: str
    itemsize: Fraction
    source: str
    qparams: tuple[QuantizationParameter, ...] = ()
    covers: frozenset[str] = MATRICES
    """Kinds of parameters."""
    activations: Fraction | None = None
    """Bytes of an element of the inputs that are quantized as well."""
    multiplied: Capability = ANY
    """The least compute capability of an NVIDIA GPU that multiplies in it."""
    unpacked: Capability | None = None
    """The least with which servers have kernels that unpack it and multiply in 16 bits; None: what multiplies in it."""

    @property
    def loaded(self) -> Capability:
        """Return the least compute capability of an NVIDIA GPU on which servers load it."""
        return self.multiplied if self.unpacked is None else self.unpacked

    def with_groups(self, size: int) -> Format:
        """Return the format with another group size; one that is not positive means a whole row."""
        columns = size if size > 0 else None
        return replace(
            self, qparams=tuple(replace(each, columns=columns) if each.grouped else each for each in self.qparams)
        )

    def stored(self, rows: int, columns: int) -> Iterator[tuple[str, int, Fraction]]:
        """Yield what a matrix becomes: titles, numbers of elements, and bytes of each."""
        yield "weight", rows * columns, self.itemsize
        yield from ((each.title, each.count(rows, columns), each.itemsize) for each in self.qparams)


_FP32, _FP16, _E8M0 = Fraction(4), Fraction(2), Fraction(1)
_COMPRESSED = "vllm, model_executor/layers/quantization/compressed_tensors"
_AMPERE: Capability = (8, 0)
"""From which Marlin's kernels unpack fp8 and fp4: vllm, quantization/fp8.py, get_min_capability, and
utils/marlin_utils_fp4.py, is_fp4_marlin_supported (later releases, and sglang: 7.5); tgi, layers/fp8.py. Such a server
says "Your GPU does not have native support for FP4 computation" when it starts."""
_ADA: Capability = (8, 9)
_BLACKWELL: Capability = (10, 0)
_BNB = "bitsandbytes, functional.py, quantize_4bit (block 64, nested block 256)"


def _group(title: str, itemsize: Fraction, size: int) -> QuantizationParameter:
    return QuantizationParameter(title=title, itemsize=itemsize, columns=size, grouped=True)


def exl3(bits: Fraction) -> Format:
    """EXL3: 16 × 16 tiles of a trellis with as many bits for each weight, and signs of inputs and outputs in fp16."""
    return Format(
        name="exl3",
        title="EXL3: trellis in tiles of 16 × 16",
        itemsize=bits / 8,
        qparams=(
            QuantizationParameter(title="input signs", itemsize=_FP16, rows=None, columns=1),
            QuantizationParameter(title="output signs", itemsize=_FP16),
        ),
        source="exllamav3, modules/quant/exl3.py (trellis, suh, svh)",
    )


FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        Format(
            name="fp8",
            title="fp8, one scale for each matrix",
            itemsize=Fraction(1),
            qparams=(QuantizationParameter(title="scale", itemsize=_FP32, rows=None),),
            activations=Fraction(1),
            multiplied=_ADA,
            unpacked=_AMPERE,
            source="vllm, model_executor/layers/quantization/fp8.py",
        ),
        Format(
            name="fp8-channel",
            title="fp8, one scale for each output channel",
            itemsize=Fraction(1),
            qparams=(QuantizationParameter(title="scales", itemsize=_FP32),),
            activations=Fraction(1),
            multiplied=_ADA,
            unpacked=_AMPERE,
            source=f"{_COMPRESSED}/schemes/compressed_tensors_w8a8_fp8.py",
        ),
        Format(
            name="fp8-block",
            title="fp8 in blocks of 128 × 128",
            itemsize=Fraction(1),
            qparams=(QuantizationParameter(title="scales", itemsize=_FP32, rows=128, columns=128),),
            activations=Fraction(1),
            multiplied=_ADA,
            unpacked=_AMPERE,
            source="the checkpoints of DeepSeek-V3 (weight_scale_inv); vllm, quantization/fp8.py",
        ),
        Format(
            name="int8",
            title="int8, one scale for each output channel",
            itemsize=Fraction(1),
            qparams=(QuantizationParameter(title="scales", itemsize=_FP32),),
            activations=Fraction(1),
            source=f"{_COMPRESSED}/schemes/compressed_tensors_w8a8_int8.py; bitsandbytes, nn/modules.py, Int8Params",
        ),
        Format(
            name="w8a16",
            title="int8 weights in groups of 128",
            itemsize=Fraction(1),
            qparams=(_group("scales", _FP16, 128),),
            source=f"{_COMPRESSED}/schemes/compressed_tensors_wNa16.py",
        ),
        Format(
            name="int4",
            title="int4 in groups of 128, symmetric",
            itemsize=Fraction(1, 2),
            qparams=(_group("scales", _FP16, 128),),
            source=f"{_COMPRESSED}/schemes/compressed_tensors_wNa16.py",
        ),
        Format(
            name="awq",
            title="AWQ: int4 in groups of 128 with zero points",
            itemsize=Fraction(1, 2),
            qparams=(_group("scales", _FP16, 128), _group("zero points", Fraction(1, 2), 128)),
            unpacked=(7, 5),  # vllm, quantization/awq.py, get_min_capability
            source="vllm, model_executor/layers/quantization/awq_marlin.py: qweight, qzeros, scales",
        ),
        Format(
            name="gptq",
            title="GPTQ: int4 in groups of 128 with zero points",
            itemsize=Fraction(1, 2),
            qparams=(_group("scales", _FP16, 128), _group("zero points", Fraction(1, 2), 128)),
            source="vllm, model_executor/layers/quantization/gptq_marlin.py: qweight, qzeros, scales",
        ),
        Format(
            name="nf4",
            title="NF4 in blocks of 64",
            itemsize=Fraction(1, 2),
            qparams=(QuantizationParameter(title="absmax", itemsize=_FP32, run=64),),
            source=_BNB,
        ),
        Format(
            name="nf4-double",
            title="NF4 in blocks of 64, scales quantized again",
            itemsize=Fraction(1, 2),
            qparams=(
                QuantizationParameter(title="absmax", itemsize=Fraction(1), run=64),
                QuantizationParameter(title="nested absmax", itemsize=_FP32, run=64 * 256),
            ),
            source=_BNB,
        ),
        Format(
            name="mxfp4",
            title="MXFP4: fp4 in blocks of 32, scales are powers of two",
            itemsize=Fraction(1, 2),
            qparams=(QuantizationParameter(title="scales", itemsize=_E8M0, columns=32),),
            covers=EXPERTS,
            source="OCP microscaling formats 1.0; vllm, model_executor/layers/quantization/mxfp4.py",
        ),
        Format(
            name="mxfp8",
            title="MXFP8: fp8 in blocks of 32, scales are powers of two",
            itemsize=Fraction(1),
            qparams=(QuantizationParameter(title="scales", itemsize=_E8M0, columns=32),),
            activations=Fraction(1),
            source="OCP microscaling formats 1.0; vllm, model_executor/layers/quantization/mxfp8.py",
        ),
        Format(
            name="nvfp4",
            title="NVFP4: fp4 in blocks of 16 with fp8 scales",
            itemsize=Fraction(1, 2),
            qparams=(
                QuantizationParameter(title="scales", itemsize=Fraction(1), columns=16),
                QuantizationParameter(title="global scales", itemsize=_FP32, rows=None),
            ),
            activations=Fraction(1, 2),
            multiplied=_BLACKWELL,
            unpacked=_AMPERE,
            source="vllm, model_executor/layers/quantization/modelopt.py (NVFP4)",
        ),
    )
}
"""Every format by its name."""
