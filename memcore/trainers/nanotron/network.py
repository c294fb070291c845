"""A Llama as nanotron has it: fused matrices, one rank's share of them, and pipeline stages of equal cost.

Source: huggingface/nanotron, models/llama.py (get_block_compute_costs), models/base.py (build_model),
parallel/tensor_parallel/nn.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.errors import ConfigError, UnsupportedError
from memcore.messages import joined
from memcore.networks.network import EmbeddingAndHead, Layer, Model, with_layers
from memcore.networks.parts import Attention, FeedForward
from memcore.networks.share import padded, shared
from memcore.networks.stages import cut
from memcore.networks.weights import Linear
from memcore.symbols import Axis, Shape, Total

FUSED = "nanotron"
"""The layout of its matrix for queries, keys and values."""


def converted(model: Model, ranks: int) -> Model:
    """Return the model with its modules as one tensor-parallel rank has it; the vocabulary is padded for the ranks."""
    network = with_layers(model.network, _layer)
    embedding_and_head = network.embedding_and_head
    embedding_and_head = replace(
        embedding_and_head,
        embedding=replace(embedding_and_head.embedding, split="outer"),
        head=replace(embedding_and_head.head, split="outer"),
    )
    sizes = {**model.sizes, "V": padded(model.sizes["V"], 1, ranks)}
    found = replace(model, network=replace(network, embedding_and_head=embedding_and_head), sizes=sizes)
    return found if ranks == 1 else shared(found)


def _layer(layer: Layer) -> Layer:
    attention, ffn = layer.mixer, layer.feed_forward
    if not isinstance(attention, Attention) or not isinstance(ffn, FeedForward) or ffn.gate is None:
        raise TypeError(layer)
    heads = attention.heads
    wide: Shape = (3, heads.query, heads.width)
    if attention.grouped:
        parts = ((heads.query, heads.width), (heads.key, heads.width), (heads.key, heads.width))
        wide = (Total("(a+2k)·d", parts),)
    biased = any(each.bias for each in attention.inputs)
    inputs = Linear(f"{attention.module}.qkv_proj", wide, attention.inputs[0].inner, bias=biased, split="outer")
    output = replace(attention.output, split="inner")
    up = Linear(f"{ffn.module}.gate_up_proj", (2, *ffn.up.outer), ffn.up.inner, split="outer")
    mixer = replace(attention, inputs=(inputs,), output=output, fused=FUSED)
    return replace(
        layer,
        mixer=mixer,
        feed_forward=replace(ffn, gate=None, up=up, down=replace(ffn.down, split="inner"), fused=True),
    )


def is_qwen2(model: Model) -> bool:
    """Return whether only nanotron's Qwen2 can express a network: its queries have biases, or layers no positions."""
    mixers = [mixer for layer in model.network.kinds for mixer in layer.mixers if isinstance(mixer, Attention)]
    return any(each.rotary == "none" or any(linear.bias for linear in each.inputs) for each in mixers)


def check(model: Model, *, packed: bool) -> None:
    """Refuse networks that nanotron's Llama cannot express; `packed`: its Qwen2, which may have biases.

    Source: models/qwen.py, `Qwen2Attention` (`attention_bias`, `no_rope_layer`).
    """
    attention = [layer.mixer for layer in model.network.kinds]
    ffns = [layer.feed_forward for layer in model.network.kinds]
    embedding_and_head = model.network.embedding_and_head
    wanted = {
        "attention in every layer": all(isinstance(each, Attention) for each in attention),
        "a gated feed-forward layer in every layer": all(
            isinstance(each, FeedForward) and each.gate is not None for each in ffns
        ),
        "RMSNorm": all(norm.kind == "rms" for layer in model.network.kinds for norm in layer.norms),
        "layers one after the other": all(layer.residual == "sequential" for layer in model.network.kinds),
        "matrices without biases": not any(
            linear.bias
            for each in attention
            if isinstance(each, Attention)
            for linear in (*(() if packed else each.inputs), each.output)
        ),
        "no norm on queries and keys": all(getattr(each, "query_norm", None) is None for each in attention),
        "rotary embeddings over whole heads": all(
            getattr(each, "rotary", "") in (("full", "none") if packed else ("full",)) for each in attention
        ),
        "attention to all tokens": all(getattr(each, "mask", "") == "full" for each in attention),
        "a final norm": embedding_and_head.final_norm is not None,
        "no towers": not model.network.towers
        and embedding_and_head.start == "decoder"
        and embedding_and_head.positions is None,
    }
    missing = [name for name, has in wanted.items() if not has]
    if missing:
        raise UnsupportedError(
            EngineSettings.type,
            "'nanotron' is supported only for Llama, Qwen2 and SmolLM3 models; {} lacks {}",
            model.name,
            joined(" and ", missing),
        )
    if model.sizes["a"] * model.sizes["d"] != model.sizes["h"]:
        raise UnsupportedError(
            EngineSettings.type,
            "nanotron requires head_dim = hidden_size / num_attention_heads, unlike {}'s",
            model.name,
        )


def split_axes(model: Model) -> Iterator[Axis]:
    """Yield the sizes that tensor-parallel ranks split."""
    for layer in model.network.kinds:
        if isinstance(layer.mixer, Attention) and isinstance(layer.feed_forward, FeedForward):
            heads = layer.mixer.heads
            axes = heads.query, heads.key if layer.mixer.grouped else heads.query, layer.feed_forward.up.outer[0]
            yield from axes


def placed(sizes: Mapping[str, int], layers: int, stages: int) -> list[int]:
    """The stage of each block: the embedding, the layers, the final norm, the head, the cast to fp32 and the loss.

    A block goes to the current stage; when the costs so far are beyond the stage's share, the next stage begins. Costs
    are of matrices, and of a layer's norms: without those shares are met exactly where the head costs as much as some
    layers, and stages then have a layer more than measured ones had room for.
    """
    return list(_balanced(_costs(sizes, layers), stages)[0])


@lru_cache(maxsize=64)
def _balanced(costs: tuple[int, ...], stages: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the stage of each block, and what each stage costs."""
    total, so_far, stage = sum(costs), 0, 0
    found, spent = [], [0] * (stages + 1)  # beyond 2^53 a share is rounded, and the loss may be behind the last
    for cost in costs:
        so_far += cost
        found.append(stage)
        spent[stage] += cost
        if so_far > total * ((stage + 1) / stages):
            stage += 1
    return tuple(found), tuple(spent)


def _costs(sizes: Mapping[str, int], layers: int) -> tuple[int, ...]:
    """Return what each block costs, in parameters of matrices and of layers' norms."""
    block = 4 * sizes["a"] * sizes["d"] * sizes["h"] + 3 * sizes["f"] * sizes["h"] + 2 * sizes["h"]
    return (0, *(block,) * layers, 0, sizes["V"] * sizes["h"], 0, 0)


def waits(model: Model, number: int, stages: int) -> bool:
    """Return whether a stage waits for what it receives: it does unless it has more to do than every other.

    With one forward and one backward pass in turn the slowest stage sets the pace: the others' results are there.
    """
    spent = _balanced(_costs(model.sizes, model.num_layers), stages)[1]
    return spent[number] <= max((*spent[:number], *spent[number + 1 :]))


def stage_of(model: Model, number: int, stages: int) -> Model:
    """Return the part of a model that stage `number` of `stages` has."""
    embedding, *places = placed(model.sizes, model.num_layers, stages)
    layers, (norm, head, cast, loss) = places[: model.num_layers], places[model.num_layers :]
    if head == cast < loss or number > loss:
        raise ConfigError.at(
            Parallelism.pipeline_parallel_size,
            "found {}; nanotron's load balancing leaves stage {} of {} without a layer or a loss",
            stages,
            number,
            model.name,
        )
    found = list(cut(model, layers.index(number) if number in layers else 0, _stop(layers, number)))
    embedding_and_head: EmbeddingAndHead = replace(
        model.network.embedding_and_head,
        reads_tokens=embedding == number,
        final_norm=model.network.embedding_and_head.final_norm if norm == number else None,
        predicts=head == number,
        tied=model.network.embedding_and_head.tied and embedding == head,
        finish=_finish(number, head, cast, loss),
    )
    network = replace(model.network, embedding_and_head=embedding_and_head, runs=tuple(pattern for pattern, _ in found))
    first = layers.index(number) if number in layers else 0
    return replace(model, network=network, repeats=tuple(times for _, times in found), first_layer=first)


def _finish(number: int, head: int, cast: int, loss: int) -> str:
    """Return what a stage ends with, where head and loss are on several."""
    if head == loss:
        return ""
    last = {cast: "cast", loss: "cast loss"} if cast < loss else {loss: "loss"}
    return {head: "logits", **last}.get(number, "")


def _stop(layers: Sequence[int], number: int) -> int:
    return layers.index(number) + layers.count(number) if number in layers else 0
