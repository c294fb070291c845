"""A model in words: what each kind of layer is made of, which layers are of that kind, and what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memcore.messages import Message, joined
from memcore.networks.network import Layer, Model
from memcore.networks.parts import Attention, Experts, FeedForward, LatentAttention, Mixer, SpecialMixer
from memcore.records import dataclass
from memcore.units import ranges


@dataclass(frozen=True, slots=True)
class Row:
    """The layers of one kind."""

    layers: str
    """Their numbers: `0-2,7`."""
    count: int
    mixer: str
    ffn: str
    parameters: int
    """Of one layer."""
    cached: int
    """Elements that one layer caches for each token."""
    state: int
    """Elements that one layer keeps for each sequence."""
    layer: Layer


def layer_order(model: Model) -> list[Layer]:
    """Return every layer from first to last."""
    runs = zip(model.network.runs, model.repeats, strict=True)
    return [layer for pattern, repeats in runs for _ in range(repeats) for layer in pattern]


def layer_rows(model: Model) -> list[Row]:
    """Return one row for each kind of layer, in order of appearance."""
    places: dict[int, list[int]] = {}
    kinds = {id(layer): layer for layer in layer_order(model)}
    for number, layer in enumerate(layer_order(model)):
        places.setdefault(id(layer), []).append(number)
    merged: dict[Layer, list[int]] = {}
    for key, numbers in places.items():
        merged.setdefault(kinds[key], []).extend(numbers)
    return [_row(model, layer, sorted(numbers)) for layer, numbers in merged.items()]


def _row(model: Model, layer: Layer, numbers: Sequence[int]) -> Row:
    return Row(
        layers=ranges(numbers),
        count=len(numbers),
        mixer=joined(", ", (mixer_words(mixer, model) for mixer in layer.mixers)) or "none",
        ffn=joined(" + ", (_ffn_words(ffn, model.sizes) for ffn in layer.ffns)) or "none",
        parameters=sum(model.size(weight.shape) for weight in layer.weights()),
        cached=sum(model.size(shape) for mixer in layer.mixers for shape in mixer.cached),
        state=sum(model.size(shape) for mixer in layer.mixers for shape in mixer.state),
        layer=layer,
    )


RECURRENT: Mapping[str, str] = {
    "mamba2": "Mamba 2",
    "mamba": "Mamba",
    "gated-delta": "gated delta rule",
    "separate-delta": "gated delta rule",
    "kimi-delta": "Kimi delta attention",
    "lightning": "lightning attention",
    "recurrent-gemma": "real-gated linear recurrence",
    "short-conv": "short convolution",
    "deepseek_v4": "compressed attention",
}
"""Names of mixers that are described by their parameters; a variant's first word decides."""


def mixer_words(mixer: Mixer, model: Model) -> str:
    """Return a mixer in words: `grouped-query attention, 32 heads of 128 over 8, window 4096`."""
    if isinstance(mixer, SpecialMixer):
        return next((title for name, title in RECURRENT.items() if mixer.variant.startswith(name)), mixer.variant)
    if isinstance(mixer, LatentAttention):
        said = "latent attention, {} heads, {} + {} cached"
        indexed = "latent attention, {} heads, {} + {} cached, indexed"
        return Message(indexed if mixer.indexer else said, *(model.sizes[axis] for axis in ("a", "lk", "r")))
    return joined(", ", _attention_words(mixer, model))


def _attention_words(part: Attention, model: Model) -> Iterator[str]:
    heads = part.heads
    query, key, width = (model.sizes[str(each)] for each in (heads.query, heads.key, heads.width))
    several = "grouped-query attention" if part.grouped else "multi-head attention"
    yield "cross attention" if part.crosses else "multi-query attention" if key == 1 < query else several
    own = Message("{} heads of {}", query, width)
    yield Message("{} heads of {} over {}", query, width, key) if part.grouped else own
    if part.mask != "full":
        yield Message("window {}" if part.mask == "sliding" else "chunks of {}", model.window)
    if part.shares_cache:
        yield "keys and values of an earlier layer"
    if part.borrowed:
        yield "parameters of an earlier layer"


def _ffn_words(ffn: FeedForward | Experts, sizes: Mapping[str, int]) -> str:
    if isinstance(ffn, FeedForward):
        kind = "gated {}" if ffn.gate is not None or ffn.fused else "plain {}"
        layer = Message(kind, sizes[str(ffn.down.inner[0])])
        return joined(", ", (layer, "parameters of an earlier layer")) if ffn.borrowed else layer
    chosen, count, width = sizes[ffn.routed], sizes["E"], sizes["m"]
    if not ffn.shared:
        return Message("{} of {} experts of {}", chosen, count, width)
    return Message("{} of {} experts of {} and {} shared", chosen, count, width, sizes[str(ffn.shared.down.inner[0])])
