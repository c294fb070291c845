"""What DeepSpeed's ZeRO was told, as far as it decides which tensors come and go."""

from __future__ import annotations

from memcore.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroPlan:
    """How ZeRO runs on one rank.

    Sizes in symbols: `z` ranks that share, `zr` elements of a reduce bucket, `zf` of them filled, `zm` elements of
    parameters gathered in passing, `zl` between forward and backward pass, `zk` of parameters that every rank keeps,
    `zt` of the largest parameter, `zg` of this rank's part of a sub-group, `zp` that learn, `zh` ranks that share the
    secondary copy, `zs` elements of buffers for what is on a disk, `zq` and `zy` bytes of what quantized gathers and
    quantized reductions need in addition.
    """

    stage: int
    offloads_optimizer: str = "none"
    """none, cpu or nvme."""
    offloads_parameters: str = "none"
    overlaps: bool = False
    """Reduction overlaps with the backward pass, in a second bucket."""
    contiguous: bool = True
    """Gradients are copied into a bucket."""
    secondary: bool = False
    """hpZ: ranks of a node keep a secondary copy of the parameters among them."""
    quantized_weights: bool = False
    """qwZ: parameters are gathered in 8 bits."""
    quantized_gradients: bool = False
    """qgZ: gradients are reduced in 4 bits, parameter by parameter."""
    fp32_gradients: bool = False
    """`BF16_Optimizer`: gradients are added to a flat fp32 buffer of all parameters after each backward pass."""
    fp32_partitions: bool = False
    """Stage 3: a rank's part of the gradients is in fp32, though they come in bf16."""
    copies: str = "fp32"
    """The dtype of the optimizer's copy of the parameters, and of its states."""
    upcasts_reduction: bool = False
    """Gradients are cast to another dtype to be reduced: fp32, where ranks share sequences."""
    experts: bool = False
    """Routed experts are shared among the ranks that have the same ones, `ze`; this rank's part of all is `zw`."""
