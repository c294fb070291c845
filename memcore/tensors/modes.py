"""How layers compute: what a tape or a parameter carries for the operations that ask."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True)
class Float8:
    """How linear layers of blocks compute in float8."""

    recipe: str
    """tensorwise, rowwise or mxfp8: the scales are small, and the bytes of operands the same."""
    gathers: bool
    """FSDP gathers the weights in float8."""
    fused: bool
    """Casts are single kernels (`torch.compile`); else one operation after the other, in fp32."""
    keeps_weights: bool = False
    """What the compiler made of a weight in float8 stays for the backward pass, since it is smaller than the weight."""

    @property
    def keeps_fused(self) -> bool:
        """Return whether a product's backward pass reads pointwise results from memory, not only through its own cast.

        The compiler then computes them again within the cast (torch/_functorch/partitioners.py,
        `is_materialized_backwards`). The casts of MXFP8 are kernels of their own, which it does not see into.
        """
        return not self.fused or self.recipe == "mxfp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How frozen matrices are stored and computed with."""

    bits: int
    double: bool
    """The maxima of blocks are quantized too."""
    stored: str
    """The dtype that the matrices had, which they are dequantized to for gradients."""
    compute: str
    """The dtype of the product (`bnb_4bit_compute_dtype`)."""
    floating: bool = False
    """In fp8."""
    grouped: bool = False
    """In GPTQ's groups."""
    early: bool = False
    """bitsandbytes before 0.43.2, which held on to the inputs of 4-bit layers (9e75374)."""
    whole: bool = False
    """Stacked experts are dequantized together (bitsandbytes/nn/parametrize.py), not one after the other."""
    loading: str = "each"
    """How matrices reach the GPU when they are loaded: `each`, quantized before the next; `half`, each,
    after half of the 16-bit model was allocated and freed; or `ahead`, some in 16 bits while others are quantized."""
    casts_ends: bool = False
    """Embedding and output head are cast to fp32 when they are loaded, one after the other, and back."""


@dataclass(frozen=True, slots=True)
class TensorParallel:
    """How tensor parallelism divides the layers."""

    sequence: bool
    """Between its regions ranks have a part of the sequence each (sequence parallelism)."""
    loss: bool
    """The loss is computed on each rank's part of the vocabulary (loss parallelism)."""
