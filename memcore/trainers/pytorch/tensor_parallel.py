"""Tensor parallelism, from its settings to the recipe: DTensor as torchtitan applies it."""

from __future__ import annotations

from memcore.config.defaults import Defaults
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.glossary import SYMBOLS
from memcore.networks.network import Model
from memcore.networks.parts import Attention, Experts, FeedForward
from memcore.networks.tensor_parallel import obstacles, split_axes
from memcore.symbols import measure
from memcore.tensors.modes import TensorParallel
from memcore.trace.engine import Engine
from memcore.trainers.pytorch.frameworks import framework_of
from memcore.trainers.pytorch.settings import TorchSettings

_SIZE = Parallelism.tensor_parallel_size
_SEQUENCE = Parallelism.sequence_parallel
_LOSS = Parallelism.loss_parallel


def tensor_ranks(read: Defaults) -> int:
    """Ranks that share every layer."""
    return int(read.given(_SIZE) or 1)


def tensor_parallel(read: Defaults, engine: Engine, model: Model, sequence: int) -> TensorParallel | None:
    """Return how ranks share the layers of a model; None: they do not."""
    ranks = tensor_ranks(read)
    if ranks == 1:
        for path in (_SEQUENCE, _LOSS):
            if read.given(path):
                read.refuse(path, "found {}; needs {} above 1", "true", _SIZE)
        return None
    _refuse(read, engine, model, ranks)
    if model.network.adapted:
        _refuse_adapters(read, engine, model)
    by_sequence = read.take(_SEQUENCE, True, "as torchtitan does")
    if by_sequence and sequence % ranks and not read.is_refused(_SIZE):
        read.refuse(Training.sequence_length, "found {}, which is not divisible by {} ranks", sequence, ranks)
    titan = read.given(Training.implementation) == "torchtitan"
    by_vocabulary = read.take(_LOSS, titan, "torchtitan's default" if titan else "the loss runs on full logits")
    return TensorParallel(sequence=by_sequence, loss=by_vocabulary)


def _refuse(read: Defaults, engine: Engine, model: Model, ranks: int) -> None:
    if not engine.composes:
        read.refuse(
            _SIZE, "found {}; supported with {}, found {!r}", ranks, "engine.type 'none' and 'fsdp'", engine.name
        )
    titan = read.given(Training.implementation) == "torchtitan"
    found = obstacles(model.network, titan=titan)
    if found:
        raise UnsupportedError(
            _SIZE,
            "found {}; tensor parallelism is not supported yet for {} ({})",
            ranks,
            joined(", ", found),
            model.name,
        )
    routed = any(isinstance(layer.feed_forward, Experts) for layer in model.network.kinds)
    if routed and read.given(_SEQUENCE) is False:
        raise UnsupportedError(_SIZE, "found {}; routed experts are supported only with sequence parallelism", ranks)
    axes = split_axes(model.network)
    shared = {SYMBOLS.get(str(each), str(each)): measure(each, model.sizes) for each in axes}
    read.refuse_uneven(_SIZE, ranks, model.name, shared)
    for path, value in (
        (Training.attention_mask, "padded"),
        (Training.attention, "math"),
    ):
        if read.given(path) == value:
            read.refuse(path, "found {!r}, which is not supported yet with tensor parallelism", value)
    reshard = read.given(TorchSettings.reshard_after_forward)
    if isinstance(reshard, int) and not isinstance(reshard, bool):
        read.refuse(
            TorchSettings.reshard_after_forward,
            "found {}; FSDP2 does not support this with DTensors; allowed: {}",
            reshard,
            "true, false",
        )
    loss = str(read.given(Training.loss))
    chunked = loss.startswith("chunked") and not titan
    if chunked or loss.startswith("fused"):
        read.refuse(Training.loss, "found {!r}, which is not supported yet with tensor parallelism", loss)
    masks = {mixer.mask for layer in model.network.kinds for mixer in layer.mixers}
    if masks != {"full"} and read.given(Training.attention) != "flash":
        read.refuse(Training.attention, "tensor parallelism with sliding windows is supported only with 'flash'")


def _refuse_adapters(read: Defaults, engine: Engine, model: Model) -> None:
    """torchtitan's LoRA shards its matrices like the layer that they belong to (torchtitan/components/lora.py).

    NeMo Automodel's shards both of them. PEFT's follows transformers' own plan, which sums over ranks behind each
    matrix of a pair.
    """
    own = framework_of(read).divides_adapters
    if not (own or read.given(Training.implementation) == "torchtitan") or not engine.shards:
        modelled = "with tensor parallelism, supported only with torchtitan's layers and engine.type fsdp"
        message = Message(
            "{}: PEFT adds hooks of transformers' own tensor-parallel plan, which is not supported yet", modelled
        )
        raise UnsupportedError(Training.adapter.type, "found {!r}; {}", read.given(Training.adapter.type), message)
    if read.given(Training.adapter.type) not in ("lora", "rslora"):
        read.refuse(Training.adapter.type, "with tensor parallelism, supported: {}", "lora")
    elif not own and bool(read.given(Training.adapter.dropout)):
        read.refuse(Training.adapter.type, "torchtitan's LoRA has no dropout; allowed: {}", "lora")
    if own and model.sizes["ra"] % tensor_ranks(read):
        read.refuse(Training.adapter.rank, "found {}; must be divisible by {} tensor-parallel ranks",
                    model.sizes["ra"], tensor_ranks(read))  # fmt: skip
    for setting in (
        Training.adapter.modules_to_save,
        Training.adapter.target_parameters,
        Training.adapter.rank_pattern,
    ):
        if read.given(setting):
            read.refuse(setting, "adapters do not have this with tensor parallelism; leave it out")
    if own and read.given(Training.quantization) is not None:
        read.refuse(Training.quantization, "with tensor parallelism, adapters are supported only on unquantized layers")
    parts = [part for layer in model.network.kinds for part in (layer.mixer, layer.feed_forward)]
    if model.network.embedding_and_head.head.adapter_dtype or not all(
        isinstance(part, Attention | FeedForward) for part in parts
    ):
        where = "multi-head attention and dense feed-forward layers"
        raise UnsupportedError(Training.adapter.target_modules, "with tensor parallelism, supported only for {}", where)
