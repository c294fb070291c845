"""Hugging Face models as Unsloth patches them: its functions for LoRA, and kernels like Liger's.

A full fine-tune has the layers that unsloth_zoo compiles (unsloth/models/loader.py, `full_finetuning`: `FastModel`;
unsloth_zoo/compiler.py), whose norms, rotations and activations are fused as Liger's are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.layers.transformers import liger, model, support, tables
from memcore.messages import Message, joined
from memcore.networks.network import Network
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.usual_targets import LLAMA_LINEARS
from memcore.networks.weights import Linear
from memcore.tensors.tensor import Tensor
from memcore.trace.code import LayerCode
from memcore.trace.step import Batch, Step


def check(network: Network) -> None:
    """Refuse what Unsloth does not patch like Llama, and adapters that it has no functions for."""
    support.check(network)
    if network.adapted and not any(
        linear.adapter_dtype is not None and linear.adapter_kind == "lora" for linear in _linears(network)
    ):
        message = (
            "Unsloth's functions are supported only with training.adapter.type 'lora'; use 'transformers' or 'liger'"
        )
        raise UnsupportedError(Training.implementation, message)
    adapted = (linear.name.rpartition(".")[2] for linear in _linears(network) if linear.adapter_dtype is not None)
    other = next((name for name in adapted if name not in LLAMA_LINEARS), None)
    if other is not None:
        message = Message("Unsloth adapts only {}, found {!r}", joined(", ", LLAMA_LINEARS), other)
        raise UnsupportedError(Training.adapter.target_modules, message)


def kernels(network: Network) -> Sequence[str]:
    """The attention kernels: with sinks Unsloth runs FlexAttention (unsloth_zoo/flex_attention/attention_sink.py)."""
    sinks = any(isinstance(layer.mixer, Attention) and layer.mixer.sinks is not None for layer in network.kinds)
    return ("flex",) if sinks else liger.kernels(network)


def _linears(network: Network) -> Iterator[Linear]:
    for layer in network.kinds:
        if isinstance(layer.mixer, Attention):
            yield from (*layer.mixer.inputs, layer.mixer.output)
        if isinstance(layer.feed_forward, FeedForward):
            yield from (layer.feed_forward.up, layer.feed_forward.down)


def forward(step: Step, batch: Batch) -> tuple[Tensor, object]:
    """Run the forward pass with Unsloth's functions."""
    step.tape.liger, step.tape.fuses_lora = step.recipe.liger, True
    return model.forward(step, batch)


IMPLEMENTATIONS: Mapping[str, LayerCode] = {
    "unsloth": LayerCode(
        name="unsloth",
        title="Unsloth",
        forward=forward,
        check=check,
        has_sdpa=lambda network: network.sdpa,
        kernels=kernels,
        computes_loss=True,
        has_cache=True,
        default_wrap="layer",
        buffers=tables.buffers,
        loss="cut-cross-entropy",
        pads=True,
        patched=lambda network, _: liger.fitting(network, liger.KERNELS),
    ),
}
"""By the value of `training.implementation`."""
