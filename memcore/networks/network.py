"""The picture of a network: which parts it has, with sizes as symbols.

A `Network` holds no numbers, so networks that differ only in width, depth or vocabulary are equal; a `Model` adds the
numbers. Shapes are written in the symbols of `SYMBOLS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from typing import TypeVar

from memcore.networks.images import Images
from memcore.networks.parts import Attention, Experts, Extra, Ffn, Mixer
from memcore.networks.weights import Linear, Norm, Weight
from memcore.records import dataclass
from memcore.symbols import Shape, product


@dataclass(frozen=True, slots=True)
class Layer:
    """A decoder layer: a mixer, a feed-forward layer, norms, and how they are wired."""

    mixer: Mixer | None
    feed_forward: Ffn | None
    residual: str
    """How residual connections join the parts: a row of `DECODER_LAYERS` in `layers.transformers`."""
    norms: tuple[Norm, ...]
    """In order of use."""
    dropout: float = 0.0
    second_mixer: Mixer | None = None
    """Runs in parallel to the first (Falcon-H1), or before it (Zamba2)."""
    second_feed_forward: Ffn | None = None
    """Runs in parallel to the first (Gemma 4, Granite 4)."""
    extra: Extra | None = None
    order: tuple[str, ...] = ()
    """Its modules as the original makes them, where that is not mixers, feed-forward layers, norms."""
    kind: str | None = None
    """What all its parameters are for, where it is not what its parts say (`parts.KINDS`)."""
    times: int = 1
    """How often its one set of weights runs, each time on what the run before made (ALBERT)."""
    precise: bool = False
    """It computes in 16 bits where other layers compute in 8 (Megatron-Core, `first_last_layers_bf16`)."""

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """Return the mixers that it has."""
        return tuple(mixer for mixer in (self.mixer, self.second_mixer) if mixer is not None)

    @property
    def ffns(self) -> tuple[Ffn, ...]:
        """Return its feed-forward layers."""
        return tuple(ffn for ffn in (self.feed_forward, self.second_feed_forward) if ffn is not None)

    @property
    def has_experts(self) -> bool:
        """Return whether a router chooses among experts of it."""
        return any(isinstance(ffn, Experts) for ffn in self.ffns)

    @property
    def uses_shared_block(self) -> bool:
        """Return whether it runs a block whose parameters other layers use too."""
        return self.extra is not None and self.extra.variant == "zamba2"

    def weights(self) -> tuple[Weight, ...]:
        """Return its parameters, named relative to the layer."""
        parts = [*self.mixers, *self.ffns, *self.norms, *([self.extra] if self.extra else [])]
        found = [weight for part in parts for weight in part.weights()]
        if self.order:
            found.sort(key=self._place)
        if self.precise:
            found = [replace(weight, precise=True) for weight in found]
        if self.kind is None:
            return tuple(found)
        return tuple(each if each.kind == "adapter" else replace(each, kind=self.kind) for each in found)

    def _place(self, weight: Weight) -> int:
        places = (place for place, name in enumerate(self.order) if weight.name.startswith(f"{name}."))
        return next(places, len(self.order))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingAndHead:
    """What stands around the layers: embeddings, final norm and head."""

    embedding: Weight
    final_norm: Norm | None
    head: Linear
    tied: bool
    """The head shares the embedding's tensor."""
    positions: Weight | None = None
    embedding_norm: Norm | None = None
    embedding_scaled: bool = False
    """Its module scales the embedding by a buffer (Gemma)."""
    embedding_multiplied: bool = False
    """The model scales it by a number (Granite)."""
    embedding_dropout: float = 0.0
    head_softcap: bool = False
    head_scaled: bool = False
    head_upcast: bool = False
    """Logits are cast to fp32 as soon as they exist."""
    project_out: Linear | None = None
    """To the width of the embedding, where that is smaller than the layers' (OPT)."""
    project_in: Linear | None = None
    others: tuple[Weight, ...] = ()
    strides: tuple[int, ...] = ()
    """Of the convolutions over samples of a sound, from first to last; their product is the samples of a position."""
    start: str = "decoder"
    """What runs before the layers: a row of the starts in `layers.transformers`."""
    reads_tokens: bool = True
    """There is an embedding; only the first stage of a pipeline has one."""
    predicts: bool = True
    """There is a head; only the last stage of a pipeline has one."""
    finish: str = ""
    """Where head and loss are on stages of their own: `logits`, this one ends with the head; `loss`, it is the loss.

    If a stage of its own casts the logits, that one is `cast`, and the loss `cast loss`.
    """

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameters outside the layers; a tied head has no matrix of its own."""
        found = [self.embedding] if self.reads_tokens else []
        if self.positions is not None:
            found.append(self.positions)
        if self.embedding_norm is not None:
            found += self.embedding_norm.weights()
        for projection in (self.project_out, self.project_in):
            if projection is not None:
                found += projection.weights("embedding")
        if self.final_norm is not None:
            found += self.final_norm.weights()
        found += self.others
        if self.predicts:
            own = self.head.weights("head")
            found += [each for each in own if not self.tied or len(each.axes) == 1 or each.kind == "adapter"]
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A stack of layers other than the decoder, such as a vision encoder, and what leads into the decoder."""

    variant: str
    """The family whose code it is."""
    path: str
    """Where its layers are: `model.vision_tower.encoder.layers`."""
    runs: tuple[tuple[Layer, ...], ...]
    """Its layers from first to last: in each run a pattern repeats."""
    taps: tuple[int, ...]
    """The runs after which its hidden states go on to the decoder; layers after the last of them learn nothing."""
    outer_weights: tuple[Weight, ...] = ()
    """Its parameters outside the layers, by full name, those of the projector last."""
    outer_adapted: tuple[Linear, ...] = ()
    """Linear layers among these that have an adapter, by full name."""
    idle: frozenset[str] = frozenset()
    """Those of them whose results are not used, so that no gradient reaches them."""
    units: tuple[str, ...] = ()
    """Modules outside the layers that transformers' `_no_split_modules` names, so that FSDP shards each on its own."""
    checkpointed: bool = True
    """Its layers are `GradientCheckpointingLayer`s."""
    options: frozenset[str] = frozenset()
    """What the variant leaves open."""
    activation: str = "gelu"
    """Of the projector."""
    dropout: float = 0.0
    """In the projector."""
    divided: bool = False
    """Tensor-parallel ranks share it; another library's stands whole on each of them."""


CROSSING = "crossing"
"""The variant of attention to images, whose layers do not run without one (modeling_mllama.py)."""
SEEING = ("tower", "projector")
"""Kinds of parameters that only images and sounds reach."""
LANGUAGE_MODEL = "language-model"
"""A value of `training.trainable`: everything but these."""
_FEW = 16
"""Layers that are compared with each other; of more the hashes are."""


@dataclass(frozen=True)
class Network:
    """Everything about a network that is not a number; its hash, which looks at every layer, is kept."""

    family: str
    path: str
    """Where the layers are: `model.layers`."""
    runs: tuple[tuple[Layer, ...], ...]
    """The decoder from first to last: in each run a pattern of layers repeats."""
    embedding_and_head: EmbeddingAndHead
    towers: tuple[Tower, ...] = ()
    adapted: bool = False
    """Everything is frozen but its adapters."""
    trainable: tuple[str, ...] | None = None
    """Parts of the names of trainable parameters, or their kinds; None: all parameters."""
    frozen: tuple[str, ...] = ()
    """Kinds of parameters that learn nothing, whatever is trainable."""
    sdpa: bool = True
    """Whether transformers runs it with SDPA; if not, it falls back to eager attention."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, each.name) for each in fields(self)))

    def __getstate__(self) -> dict[str, object]:
        # Texts have another hash in another process.
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def encodes(self) -> bool:
        """Return whether an encoder of text or sound stands before the decoder, which always runs."""
        mixers = (mixer for layer in self.kinds for mixer in layer.mixers)
        return any(isinstance(mixer, Attention) and mixer.crosses and mixer.variant != CROSSING for mixer in mixers)

    @cached_property
    def kinds(self) -> tuple[Layer, ...]:
        """Each kind of layer once, in order of appearance."""
        objects = {id(layer): layer for run in self.runs for layer in run}.values()
        if len(objects) > _FEW:
            return tuple(dict.fromkeys(objects))
        # Equal layers are mostly the same object, and others differ early: both are cheaper to tell than hashes.
        found: list[Layer] = []
        for layer in objects:
            if layer not in found:
                found.append(layer)
        return tuple(found)


StackT = TypeVar("StackT", Network, Tower)


def with_layers(stack: StackT, change: Callable[[Layer], Layer]) -> StackT:
    """Return a network or a tower with its layers changed; a layer that stands in several places is changed once."""
    changed = {id(layer): change(layer) for run in stack.runs for layer in run}
    return replace(stack, runs=tuple(tuple(changed[id(layer)] for layer in run) for run in stack.runs))


@dataclass(frozen=True, eq=False)
class Model:
    """A network with its numbers; none equals another, so that what follows from one alone can be kept."""

    name: str
    network: Network
    repeats: tuple[int, ...]
    """How often the pattern of each run repeats."""
    sizes: Mapping[str, int]
    """The value of each symbol."""
    tower_repeats: tuple[tuple[int, ...], ...] = ()
    """The same for each tower."""
    images: Images | None = None
    """What an image becomes, if there is a tower."""
    window: int | None = None
    """Tokens that sliding or chunked layers see."""
    rope_scaling: str | None = None
    """How the file scales rotary frequencies (llama3, longrope, yarn …; `default` for not at all), if it says."""
    published_extras: Mapping[str, int] = field(default_factory=dict)
    """Elements that a checkpoint's published size counts in addition, by what they are for."""
    warnings: tuple[str, ...] = ()
    """What had to be assumed to understand the config."""
    alternatives: tuple[Mapping[str, object], ...] = ()
    """Other configs that it may stand for."""
    stage_starts: tuple[int, ...] = ()
    """Where the file itself cuts the layers into further pipeline stages."""
    first_layer: int = 0
    """The number of its first layer: the stage of a pipeline begins anywhere."""
    starts: tuple[int, ...] = ()
    """The number of the first layer of each run, where several stages are one after the other."""

    def size(self, shape: Shape) -> int:
        """Count the elements of a shape."""
        return product(shape, self.sizes)

    @cached_property
    def counts(self) -> Mapping[Layer, int]:
        """Return how many layers there are of each kind."""
        return _counted(self.network.runs, self.repeats)

    @cached_property
    def layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each kind of layer in order of appearance, with how many there are."""
        return tuple(self.counts.items())

    @property
    def has_experts(self) -> bool:
        """Return whether some layers have routed experts."""
        return any(layer.has_experts for layer, _ in self.layers)

    @cached_property
    def num_layers(self) -> int:
        """Return how many decoder layers there are."""
        return sum(count for _, count in self.layers)

    @cached_property
    def tensors(self) -> tuple[tuple[Weight, str, int], ...]:
        """Return every parameter tensor with its full name (`*` for the layer's number) and how many there are."""
        return tuple(self._tensors())

    def _tensors(self) -> Iterator[tuple[Weight, str, int]]:
        for tower, repeats in zip(self.network.towers, self.tower_repeats, strict=True):
            for layer, count in _counted(tower.runs, repeats).items():
                for weight in layer.weights():
                    yield weight, f"{tower.path}.*.{weight.name}", count
            for weight in tower.outer_weights:
                yield weight, weight.name, 1
        for layer, count in self.layers:
            for weight in layer.weights():
                yield weight, f"{self.network.path}.*.{weight.name}", count
        for weight in self.network.embedding_and_head.weights():
            yield weight, weight.name, 1

    def idle(self, *, images: bool) -> Counter[str]:
        """For the full name of a parameter, how many of these tensors no gradient reaches; `images`: there are some."""
        found: Counter[str] = Counter()
        for tower, repeats in zip(self.network.towers, self.tower_repeats, strict=True):
            last = max(tower.taps, default=-1) + 1 if images else 0
            for layer, count in _counted(tower.runs[last:], repeats[last:]).items():
                found.update({f"{tower.path}.*.{weight.name}": count for weight in layer.weights()})
            found.update(weight.name for weight in tower.outer_weights if weight.name in tower.idle or not images)
        if not images and not self.network.encodes:
            found.update(weight.name for weight in self.network.embedding_and_head.others if weight.kind in SEEING)
        for layer, count in self.layers:
            indexers = (weight for mixer in layer.mixers for weight in mixer.weights() if ".indexer." in weight.name)
            found.update({f"{self.network.path}.*.{weight.name}": count for weight in indexers})
        for layer, count in self.layers if not images else ():
            # Layers that attend to images are skipped without them; those that attend to an encoder are not.
            if any(isinstance(mixer, Attention) and mixer.variant == CROSSING for mixer in layer.mixers):
                found.update({f"{self.network.path}.*.{weight.name}": count for weight in layer.weights()})
        return found

    @cached_property
    def parameters(self) -> int:
        """Count all parameters; tied tensors count once."""
        return sum(self.size(weight.shape) * count for weight, _, count in self.tensors)

    @cached_property
    def parameters_by_kind(self) -> Mapping[str, int]:
        """Count all parameters by what they are for."""
        found: Counter[str] = Counter()
        for weight, _, count in self.tensors:
            found[weight.kind] += self.size(weight.shape) * count
        return dict(found)

    @cached_property
    def active_parameters(self) -> int:
        """Count the parameters that compute one token: of routed experts only those of the chosen ones."""
        idle = 0
        for layer, count in self.layers:
            for ffn in layer.ffns:
                if isinstance(ffn, Experts):
                    experts, chosen = self.sizes["E"], self.sizes[ffn.routed]
                    routed = sum(self.size(weight.shape) for weight in ffn.experts)
                    idle += count * (routed - routed * chosen // experts)
        return self.parameters - idle

    @cached_property
    def cached_elements(self) -> int:
        """Count the elements of the KV cache per token, below any sliding window, over all layers."""
        return sum(count * self.size(shape) for layer, count in self.layers for shape in _shapes(layer, "cached"))

    @cached_property
    def state_elements(self) -> int:
        """Count the elements of recurrent states in the cache per sequence, over all layers."""
        return sum(count * self.size(shape) for layer, count in self.layers for shape in _shapes(layer, "state"))

    @cached_property
    def kept_elements(self) -> int:
        """Count the elements that modules keep per sequence outside the cache, over all layers."""
        return sum(count * self.size(shape) for layer, count in self.layers for shape in _shapes(layer, "kept"))


def _counted(runs: Sequence[Sequence[Layer]], repeats: Sequence[int]) -> Counter[Layer]:
    """Each kind of layer of some runs in order of appearance, with how many there are."""
    objects: dict[int, Layer] = {}
    counts: Counter[int] = Counter()
    for pattern, times in zip(runs, repeats, strict=True):
        for layer in pattern:
            objects[id(layer)] = layer
            counts[id(layer)] += times
    found: Counter[Layer] = Counter()
    for number, layer in objects.items():
        found[layer] += counts[number]
    return found


def _shapes(layer: Layer, name: str) -> Iterator[Shape]:
    for mixer in layer.mixers:
        yield from getattr(mixer, name)
