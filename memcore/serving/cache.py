"""What generation caches, layer by layer: bytes of each token, or of each sequence, on one rank.

Sources: vllm, v1/kv_cache_interface.py and model_executor/layers/mamba/mamba_utils.py; sglang, srt/mem_cache;
transformers, cache_utils.py. Latent vectors (MLA) are the same on all tensor-parallel ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil

from memcore.errors import UnsupportedError
from memcore.networks.network import Layer, Model
from memcore.networks.parts import READS_EARLIER, Attention, LatentAttention, Mixer, SpecialMixer
from memcore.networks.recognized import UNCACHED
from memcore.records import dataclass
from memcore.serving.formats import BYTES
from memcore.serving.slots import TENSOR, sharded
from memcore.symbols import Axis, Shape, Shifted, Total, product, spell


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheType:
    """How an element of a key or a value is cached."""

    itemsize: Fraction
    per_head: Fraction = Fraction(0)
    """Bytes of scales for each head's key, and for its value."""
    latent: int | None = None
    """Bytes of a token's latent vector, where its parts are stored differently."""


CACHE_TYPES: Mapping[str, CacheType] = {
    "fp32": CacheType(itemsize=Fraction(4)),
    "bf16": CacheType(itemsize=Fraction(2)),
    "fp16": CacheType(itemsize=Fraction(2)),
    "fp8": CacheType(itemsize=Fraction(1)),
    "int8": CacheType(itemsize=Fraction(1), per_head=Fraction(4)),
    "int4": CacheType(itemsize=Fraction(1, 2), per_head=Fraction(4)),
    "nvfp4": CacheType(itemsize=Fraction(1, 2) + Fraction(1, 16)),
    "fp8_ds_mla": CacheType(itemsize=Fraction(1), latent=656),
    "q8_0": CacheType(itemsize=Fraction(34, 32)),
    "q5_1": CacheType(itemsize=Fraction(24, 32)),
    "q5_0": CacheType(itemsize=Fraction(22, 32)),
    "q4_1": CacheType(itemsize=Fraction(20, 32)),
    "q4_0": CacheType(itemsize=Fraction(18, 32)),
    "iq4_nl": CacheType(itemsize=Fraction(18, 32)),
}
"""Dtypes of caches. `int8` and `int4` have an fp32 scale for each token and head (vllm, triton_attn); `fp8_ds_mla` is
512 fp8, 4 scales and 64 bf16 (vllm, flashmla_sparse); q types are ggml's blocks of 32 with an fp16 scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """What one mixer keeps in the cache."""

    kind: str
    """`full`, `sliding`, `chunked`, `latent`, or `state` (the same for every length)."""
    bytes: int
    """Of a token, or of a state."""
    window: int = 0
    """Tokens that sliding and chunked layers see."""
    pool: int = 1
    """Tokens that share what is kept; those of a pool that is not full yet have a block of their own."""
    shape: Shape = ()
    """Elements in symbols."""
    title: str = ""

    def tokens(self, length: int) -> int:
        """Return tokens of a sequence that must stay."""
        if self.kind == "state":
            return 1
        return min(length, self.window) if self.window else length


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """How a server caches."""

    type: CacheType
    dtype: str
    """The model's: convolution states have it, and indexers."""
    state_dtype: str
    """Of recurrent states."""
    sizes: Mapping[str, int]
    """The model's, and those of the layout."""
    chunk: int = 0
    """Tokens of a chunk of chunked attention."""
    window: int = 0
    proposed: int = 0
    """Tokens that are proposed: convolutions keep that many more (vllm, mamba_utils.py, `num_spec`)."""
    keeps_kernel: bool = False
    """Convolution states hold as many tokens as the kernel sees (transformers), not one less."""
    every_layer: bool = False
    """Layers that read another layer's keys and values have room for their own, which nothing fills."""


def caches(layer: Layer) -> bool:
    """Return whether what a layer keeps is known."""
    return layer.extra is None or layer.extra.variant != UNCACHED


def cache_specs(layer: Layer, caching: Caching) -> tuple[CacheSpec, ...]:
    """Return what the mixers of a layer keep.

    Raises UnsupportedError where that is not known.
    """
    if not caches(layer):
        raise UnsupportedError("model.model_type", "this family's KV cache is not supported yet")
    found: list[CacheSpec] = []
    for mixer in layer.mixers:
        if isinstance(mixer, SpecialMixer) and READS_EARLIER in mixer.options:
            said = "layers that read the compressed keys of an earlier layer are not supported yet"
            raise UnsupportedError("model.kv_source_layer_ids", said)
        found += _mixer_specs(mixer, caching)
    return (*found, *_index_keys(layer, caching))


def _index_keys(layer: Layer, caching: Caching) -> Iterator[CacheSpec]:
    """Yield what an indexer next to heads keeps: one key for each token, whole on every rank.

    Source: vllm, models/minimax_m3/common/indexer.py (MiniMaxM3IndexerCache): the model's dtype.
    """
    for weight in layer.extra.parameters if layer.extra is not None else ():
        if weight.name.endswith("indexer.k_proj.weight"):
            shape = weight.shape[:1]
            size = ceil(product(shape, caching.sizes) * BYTES[caching.dtype])
            yield CacheSpec(kind="full", bytes=size, shape=shape, title="the indexer's keys")


def _mixer_specs(mixer: Mixer, caching: Caching) -> list[CacheSpec]:
    if isinstance(mixer, SpecialMixer):
        return _states(mixer, caching)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, caching)
    pooled = mixer.shares_cache and caching.every_layer
    if mixer.crosses or (not pooled and (mixer.shares_cache or not (mixer.cached or mixer.kept))):
        return []
    heads = mixer.heads
    widths = (heads.width, heads.value)
    key = sharded((heads.key,), TENSOR)
    sizes, type_ = caching.sizes, caching.type
    exact = sum((product((*key, width), sizes) * type_.itemsize for width in widths), Fraction(0))
    exact += 2 * product(key, sizes) * type_.per_head
    kind, window = _mask(mixer, caching)
    shape: Shape = (
        (2, *key, heads.width) if heads.width == heads.value else _together(*((*key, each) for each in widths))
    )
    return [CacheSpec(kind=kind, bytes=ceil(exact), window=window, shape=shape, title="keys and values")]


def _together(*shapes: Shape) -> Shape:
    """Return the elements of several tensors."""
    return shapes[0] if len(shapes) == 1 else (Total(" + ".join(map(spell, shapes)), shapes),)


def _mask(mixer: Attention, caching: Caching) -> tuple[str, int]:
    if mixer.mask == "sliding" or mixer.kept:
        return ("sliding", caching.window) if caching.window else ("full", 0)
    if mixer.mask == "chunked":
        return ("chunked", caching.chunk) if caching.chunk else ("full", 0)
    return "full", 0


def _latent(mixer: LatentAttention, caching: Caching) -> list[CacheSpec]:
    sizes, type_ = caching.sizes, caching.type
    elements = sizes["lk"] + sizes["r"]
    size = type_.latent if type_.latent is not None else ceil(elements * type_.itemsize)
    found = [CacheSpec(kind="latent", bytes=size, shape=("c",), title="latent keys and values")]
    if mixer.indexer:
        # 128 fp8 and an fp32 scale for each 128 of them.
        width, pool = sizes["j"], mixer.pool
        size = ceil(Fraction(width + 4 * -(-width // 128), pool))
        found.append(CacheSpec(kind="latent", bytes=size, pool=pool, shape=("j",), title="the indexer's keys"))
    return found


def _states(mixer: SpecialMixer, caching: Caching) -> list[CacheSpec]:
    """Convolutions keep one token less than they see; states have the dtype that the server gives them."""
    sizes, found = caching.sizes, []
    total, shapes = Fraction(0), []
    for shape in (*mixer.state, *mixer.kept):
        convolves = "K" in shape
        shortened = tuple(_seen(caching) if axis == "K" and not caching.keeps_kernel else axis for axis in shape)
        own = sharded(shortened, TENSOR)
        in_fp32 = mixer.variant.startswith("kimi-delta") and not convolves
        dtype = "fp32" if in_fp32 else caching.dtype if convolves else caching.state_dtype
        total += product(own, sizes) * BYTES[dtype]
        shapes.append(own)
    if shapes:
        found.append(CacheSpec(kind="state", bytes=ceil(total), shape=_together(*shapes), title="recurrent state"))
    if mixer.cached:
        size = ceil(sum(product(shape, sizes) for shape in mixer.cached) * caching.type.itemsize)
        found.append(CacheSpec(kind="full", bytes=size, shape=_together(*mixer.cached), title="cached tokens"))
    return found


def _seen(caching: Caching) -> Axis:
    """Return tokens that a convolution keeps: one less than it sees, and those that are proposed."""
    return Shifted(Shifted("K", 1, caching.proposed), -1, 1) if caching.proposed else Shifted("K", -1, 1)


def per_token(model: Model, caching: Caching) -> int:
    """Return bytes of one token in all layers, below any window."""
    total = 0
    for layer, count in model.layers:
        total += count * sum(each.bytes for each in cache_specs(layer, caching) if each.kind != "state")
    return total
