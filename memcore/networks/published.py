"""What the published size of a checkpoint counts beyond the parameters of its network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from memcore.networks.families.family import Family
from memcore.networks.network import Layer
from memcore.networks.parts import Attention, Experts
from memcore.networks.reader import Reader
from memcore.networks.weights import Weight
from memcore.symbols import Shape, product

_QUANTIZED = ("attention", "feed-forward", "shared-expert", "routed-expert")
"""Kinds of parameters whose matrices an fp8 checkpoint quantizes in blocks."""


UNUSED = "key and value weights of layers that reuse another layer's cache"
"""What Gemma 3n's and 4's checkpoints hold for their last layers, and their classes ignore."""


def published_extras(reader: Reader, family: Family, kinds: list[Layer], order: list[int]) -> Mapping[str, int]:
    """Elements by what they are for: layers that predict several tokens, router biases, scales of quantized blocks.

    Sources: the weight maps of the checkpoints of DeepSeek-V3, GLM-4.5 and Qwen3-Next, whose totals these explain, and
    of Falcon's, which hold a head that is tied.
    """
    sizes = reader.sizes
    predicting = _prediction_layers(reader, family) if order else 0
    layers = [(kinds[kind], count) for kind, count in Counter(order).items()]
    if predicting:
        layers.append((kinds[order[-1]], predicting))
    twice = family.saves_head and reader.flag("tie_word_embeddings")
    found = {
        "output head, tied to the embedding": sizes["V"] * sizes["h"] if twice else 0,
        UNUSED: sum(_unused(layers, sizes)),
        "multi-token prediction": _predicted(reader, family, kinds[order[-1]], predicting) if order else 0,
        "router correction biases": sum(_corrections(layers, sizes)),
        "fp8 block scales": sum(_scales(layers, sizes, _block(reader))),
    }
    return {name: size for name, size in found.items() if size}


def _predicted(reader: Reader, family: Family, last: Layer, count: int) -> int:
    if family.drafts is not None:
        return family.drafts(reader)
    return sum(_prediction(family, last, reader.sizes, count)) if count else 0


def _prediction_layers(reader: Reader, family: Family) -> int:
    if family.prediction is None:
        return 0
    # Qwen3-Next checkpoints hold such a layer without saying so; those of Qwen3.5 have a key of their own.
    usual = reader.integer("mtp_num_hidden_layers", 1, least=0) if family.prediction == "shares" else 0
    return reader.integer("num_nextn_predict_layers", usual, least=0)


def _prediction(family: Family, layer: Layer, sizes: Mapping[str, int], count: int) -> Iterator[int]:
    """One more layer, a matrix from two hidden states to one, three norms, and perhaps embedding and head again."""
    hidden, vocabulary = sizes["h"], sizes["V"]
    yield count * sum(product(weight.shape, sizes) for weight in layer.weights())
    yield count * (2 * hidden * hidden + 3 * hidden)
    if family.prediction == "copies":
        yield count * 2 * vocabulary * hidden


def _unused(layers: list[tuple[Layer, int]], sizes: Mapping[str, int]) -> Iterator[int]:
    """Keys, values and their norms of layers that have queries only, as those of layers with the same mask."""
    mixers = [(layer.mixer, count) for layer, count in layers if isinstance(layer.mixer, Attention)]
    own = {mixer.mask: mixer for mixer, _ in mixers if len(mixer.inputs) > 1}
    for mixer, count in mixers:
        if len(mixer.inputs) == 1 and mixer.fused == "no" and mixer.mask in own:
            other = own[mixer.mask]
            weights = [weight for linear in other.inputs[1:] for weight in linear.weights("attention")]
            norms = other.key_norm.weights() if other.key_norm else ()
            yield count * sum(product(weight.shape, sizes) for weight in (*weights, *norms))


def _corrections(layers: list[tuple[Layer, int]], sizes: Mapping[str, int]) -> Iterator[int]:
    for layer, count in layers:
        for ffn in layer.ffns:
            if isinstance(ffn, Experts) and ffn.correction is not None:
                yield count * sizes["E"]


def _block(reader: Reader) -> tuple[int, int] | None:
    """Return the blocks in which weights are quantized, if they are."""
    found = reader.value("quantization_config.weight_block_size")
    if reader.value("quantization_config.quant_method") != "fp8" or not isinstance(found, list):
        return None
    return (int(found[0]), int(found[1])) if len(found) == 2 and all(type(each) is int for each in found) else None


def _scales(layers: list[tuple[Layer, int]], sizes: Mapping[str, int], block: tuple[int, int] | None) -> Iterator[int]:
    if block is None:
        return
    for layer, count in layers:
        for weight in layer.weights():
            if weight.kind in _QUANTIZED and len(weight.axes) > 1:
                yield count * sum(_blocks(matrix, sizes, block) for matrix in _matrices(weight, sizes))


def _matrices(weight: Weight, sizes: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Yield how many matrices of which size a tensor holds as a checkpoint stores them.

    Each expert's, gate and up apart.
    """
    *leading, rows, columns = weight.axes
    experts = product(leading[0], sizes) if leading else 1
    parts = rows[0] if leading and isinstance(rows[0], int) else 1
    plain: Shape = rows[1:] if parts != 1 else rows
    yield experts * parts, product(plain, sizes), product(columns, sizes)


def _blocks(matrix: tuple[int, int, int], sizes: Mapping[str, int], block: tuple[int, int]) -> int:
    many, rows, columns = matrix
    return many * -(-rows // block[0]) * -(-columns // block[1])
