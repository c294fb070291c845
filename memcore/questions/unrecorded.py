"""What kernels read and write where no tape says so: in stages of pipelines, and where kernels are fused.

Bytes are those of a forward pass that is charged three times, once for it and twice for the backward pass, as
`memcore.questions.work` charges elementwise kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention
from memcore.networks.weights import Linear, linears_of
from memcore.symbols import measure
from memcore.trace.job import Job

_PASSES = 3
"""What the model charges for a forward and a backward pass."""
_CAST: tuple[float, float] = (30, 56)
"""Bytes for each element that an adapted linear layer reads and writes, forward and backward passes together, with an
adapter in fp32 next to 16 bits. Forward: the input is cast (6) and read (4); the result is written (4), scaled (8),
added (10) and cast back (6). Backward: the gradient is cast twice (12), scaled (8) and read twice (8); the input is
read (4), its gradient written (4), cast (6) and added to the layer's own (6). Source: peft/tuners/lora/layer.py,
Linear.forward."""
_PLAIN: tuple[float, float] = (12, 20)
"""The same with an adapter in the dtype of the layer: nothing is cast."""
_DORA: tuple[float, float] = (28, 4)
"""Bytes of a DoRA layer's norm in a forward pass, for each element of the matrix and of the identity that makes it:
B·A of an identity, scaled, added to the weight and squared in fp32 (peft/tuners/lora/dora.py, `forward`)."""
_KERNELS = 16
"""Kernels that an adapter adds to a layer, forward and backward passes together: seven and nine (the same file)."""
_LATENT = 15.1
"""Bytes for each element of queries, keys and values that latent attention rotates, expands and concatenates in several
kernels: 19.2 ms forward and 15.6 ms backward for 65,536 tokens with 128 heads on a GB300, at 0.7 of its bandwidth
(pytorch/torchtitan pull request 4134, stock eager kernels)."""


_NORM = (36 + 80) / _PASSES
"""Bytes for each element that a norm reads and writes, forward and backward passes together: cast to fp32, squared,
averaged, multiplied, cast back and weighed (models/llama/modeling_llama.py, LlamaRMSNorm)."""


_FUSED_BYTES, _EAGER_BYTES, _COMPOSED_BYTES = 20, 84, 114
"""Bytes for each element of the residual stream that a layer's kernels move in a forward pass. Fused: two norms and two
sums, ten elements in 16 bits. Eager: two norms that cast to fp32, compute and cast back (40), two sums (12), queries,
keys, values and the attention's output made contiguous (16), and an activation function of four times the width (16):
transformers, models/gpt2/modeling_gpt2.py; PyTorch, autocast_mode.cpp, fp32 list. Composed of several kernels, as norms
by the root mean square and rotations are, forward and backward passes move three times 114: norms 72 and 160, sums 24,
rotations 50, a gated activation 35 and 56, copies 8, less what `_elementwise` counts (models/llama/modeling_llama.py).
A trainer whose kernels are fused says so in its room: `fuses`."""


def _eager(model: Model) -> int:
    """Return what a layer's kernels move where nothing fuses them."""
    norms = {norm.kind for layer in model.network.kinds for norm in layer.norms}
    return _COMPOSED_BYTES if any(kind.startswith("rms") for kind in norms) else _EAGER_BYTES


_AUTOCAST, _CAST_WEIGHTS = 0.5, 12
"""What autocast adds to a layer's kernels: the residual stream is in fp32, and each product casts its input (6 bytes
for each of five); and bytes for each parameter: cast for a forward pass, and its gradient cast back (PyTorch,
autocast_mode.cpp)."""


def layers(job: Job, sequence: int) -> float:
    """Return bytes that a sequence's layers move beyond those of fused kernels, where nothing fuses them."""
    model = job.model
    each, elements = _eager(model), sequence * model.sizes["h"] * model.num_layers
    total = (each - _FUSED_BYTES) * elements + latent(model, sequence) + norms(model, sequence)
    if job.recipe.precision.autocast and job.recipe.precision.parameter == "fp32":
        total += _AUTOCAST * each * elements + _CAST_WEIGHTS * model.parameters / 3 / job.sizes["b"]
    return total


def adapters(job: Job) -> tuple[float, float]:
    """Bytes that the adapters of a sequence's tokens move, and how many kernels they add to a layer in the mean."""
    total, count = 0.0, 0
    for part, times in _linears(job.model):
        if part.adapter_dtype is None or part.adapter_kind not in ("lora", "dora", "adalora"):
            continue
        inner, outer = job.model.size(part.inner), job.model.size(part.outer)
        own = _PLAIN if part.adapter_dtype == job.recipe.precision.compute else _CAST
        total += times * job.sizes["s"] * job.sizes["cp"] * (own[0] * inner + own[1] * outer) / _PASSES
        if part.adapter_kind == "dora":
            total += times * (_DORA[0] * inner * outer + _DORA[1] * inner * inner) / _PASSES / job.sizes["b"]
        count += times
    return total, count * _KERNELS / job.model.num_layers


def dequantized(job: Job) -> float:
    """Bytes that weights in few bits move for a sequence: made 16-bit again in the forward and in the backward pass.

    Source: bitsandbytes/autograd/_functions.py, MatMul4Bit.
    """
    if job.recipe.quantization is None or job.recipe.quantization.bits > 4:
        return 0.0
    elements = sum(
        times * job.model.size(part.inner) * job.model.size(part.outer)
        for part, times in _linears(job.model)
        if part.quantized is not None
    )
    return 2 * elements * (job.recipe.quantization.bits / 8 + 2) / _PASSES / job.sizes["b"]


def latent(model: Model, sequence: int) -> float:
    """Return bytes that latent attention moves for a sequence where nothing fuses its rotation."""
    total = 0.0
    for layer, times in model.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, LatentAttention):
                heads = mixer.heads
                width = 2 * measure(heads.width, model.sizes) + measure(heads.value, model.sizes)
                total += times * sequence * _LATENT * measure(heads.query, model.sizes) * width
    return total


def norms(model: Model, sequence: int) -> float:
    """Bytes of norms by the root mean square beyond the two of a layer, where each is composed of several kernels."""
    total = 0.0
    for layer, times in model.layers:
        found = [each for each in layer.norms if each.kind.startswith("rms")]
        total += times * max(len(found) - 2, 0) * model.sizes["h"]
        for mixer in layer.mixers:
            if isinstance(mixer, Attention):
                heads = mixer.heads
                for head_norm, count in ((mixer.query_norm, heads.query), (mixer.key_norm, heads.key)):
                    if head_norm is not None and head_norm.kind.startswith("rms"):
                        total += times * measure(count, model.sizes) * measure(heads.width, model.sizes)
    return total * sequence * _NORM


def _linears(model: Model) -> Iterator[tuple[Linear, int]]:
    for layer, times in model.layers:
        for part in linears_of(layer):
            yield part, times
