"""DeepSeek-V4.1: layers that read the compressed keys of an earlier one, tables of n-grams, and drafts (DSpark).

Source: the weight map of deepseek-ai/DeepSeek-V4.1-Flash (revision dba1be0a: 96,085 tensors of 510,286,023,000 bytes)
and `inference/model.py` next to it. The first half of the layers keeps keys of several tokens, the second half those of
each token of one layer; a few layers score which of them a query sees, and the layers after them take that choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from memcore.networks.families.counting import Config, matrix, part, whole, within
from memcore.networks.families.family import Family
from memcore.networks.families.special import V4_EXPERTS, Compressed, hyper_connections
from memcore.networks.parts import READS_EARLIER, Extra, SpecialMixer
from memcore.networks.patterns import Place, depth, sparse
from memcore.networks.reader import Reader
from memcore.networks.weights import Weight
from memcore.records import dataclass
from memcore.symbols import Quotient, Shape, product

_ATTENTION = "self_attn"
_KINDS = ("window", "reads", "scores", "keeps", "keeps-scores", "pools", "pools-scores")
"""What a layer has besides its window: it reads earlier keys and choices, scores them, or keeps keys, of one token each
or of several."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Attention over a window and over compressed keys, which a few layers make for those after them."""

    kind: str
    """One of `_KINDS`."""

    def read(self, reader: Reader, mask: str, *, rotates: bool = True) -> SpecialMixer:
        """Return the mixer; the window is a ring of constant size, and only layers that make keys cache more."""
        weights, d, lq = Compressed("sliding_attention").window(reader)
        kept: tuple[Shape, ...] = ((reader.integer("sliding_window"), d),)
        cached: tuple[Shape, ...] = ()
        has = self.kind.split("-")
        if "scores" in has or "keeps" in has or "pools" in has:
            i = reader.symbol("i", reader.integer("index_n_heads"))
            j = reader.symbol("j", reader.integer("index_head_dim"))
            reader.symbol("ti", reader.integer("index_topk"))
        if "scores" in has:
            weights += _attention(("indexer.wq_b", (i, j), (lq,)), ("indexer.weights_proj", (i,), ("h",)))
        if "keeps" in has or "pools" in has:
            weights += _attention(("indexer.wk", (j,), (d,)), ("compressor.wkv", (d,), ("h",)))
            weights += [Weight(f"{_ATTENTION}.{each}.weight", ((wide,),), "norm")
                        for each, wide in (("indexer.k_norm", j), ("compressor.norm", d))]  # fmt: skip
            cached = ((d,), (j,))
        if "pools" in has:
            t = reader.symbol("t", _pooled(reader))
            weights += _attention(("compressor.wgate", (d,), ("h",)))
            cached = (Quotient((d,), t),), (Quotient((j,), t),)
        options = frozenset({READS_EARLIER})
        return SpecialMixer(_ATTENTION, "deepseek_v41", tuple(weights), kept, options, cached, table="compress")


def _attention(*matrices: tuple[str, Shape, Shape]) -> list[Weight]:
    return [Weight(f"{_ATTENTION}.{name}.weight", (outer, inner), "attention") for name, outer, inner in matrices]


def _rates(reader: Reader) -> list[int]:
    """Return how many tokens become one key of each layer; zero where it has a window alone."""
    listed, count = reader.listed("compress_ratios") or (), depth(reader)
    rates = [each for each in listed if type(each) is int and each >= 0][:count]
    if len(rates) < count:
        reader.refuse("compress_ratios", "lists {} of {} layers", len(rates), count)
    return [*rates, *[0] * (count - len(rates))]


def _makers(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.places("kv_source_layer_ids") or ())


def _pooled(reader: Reader) -> int:
    """Return how many tokens become one key where they are pooled."""
    rates, makers = _rates(reader), _makers(reader)
    found = {rate for layer, rate in enumerate(rates) if layer in makers and rate > 1}
    if len(found) > 1:
        reader.refuse("compress_ratios", "found {} in layers that keep keys, where one is supported", sorted(found))
    return min(found, default=1)


def _places(reader: Reader) -> list[Place]:
    """Return what each layer has; a tag is the number of its table of n-grams."""
    makers, scorers = _makers(reader), reader.places("index_source_layer_ids") or ()
    tables = {layer: str(number) for number, layer in enumerate(reader.places("engram_layer_ids") or ())}
    found = []
    for layer, rate in enumerate(_rates(reader)):
        keys = ("pools" if rate > 1 else "keeps") if layer in makers else ""
        words = "-".join(filter(None, (keys, "scores" if layer in scorers else "")))
        found.append(Place(words or ("reads" if rate else "window"), tag=tables.get(layer, "")))
    return found


def _more(reader: Reader, place: Place) -> Extra:
    """Return hyper-connections, and in some layers a table of hashed n-grams with what leads out of it."""
    streams = hyper_connections(reader, place)
    if not place.tag:
        return streams
    listed = reader.listed("engram_num_embeddings") or ()
    rows = whole(listed[int(place.tag)] if int(place.tag) < len(listed) else None)
    if not rows:
        reader.refuse("engram_num_embeddings", "expected a number of rows for each table, found {!r:.80}", listed)
    columns = (reader.integer("engram_max_ngram_size") - 1) * reader.integer("engram_n_heads")
    wide = reader.symbol("ew", reader.integer("engram_head_dim"))
    copies = reader.sizes["hc"]
    tables = (
        Weight("engram.embed.weight", ((rows or 1,), (wide,)), "embedding", split="outer"),
        Weight("engram.wkv.weight", ((copies + 1, "h"), (columns, wide)), "other"),
        *(Weight(f"engram.{each}_weight", (("hc",), ("h",)), "other") for each in "qk"),
    )
    return replace(streams, variant="n-grams", parameters=(*streams.parameters, *tables))


_BIASES = tuple(Weight(name, (("E",),), "router", dtype="fp32") for name in ("gate.bias", "gate.bias_vl"))
"""Corrections of scores, for words and for images."""


def _drafting(reader: Reader) -> int:
    """Count DSpark's layers, which see a window alone and have experts of their own, and what is around them."""
    many, text = reader.integer("num_nextn_predict_layers", 0, least=0), reader.config
    if not many:
        return 0
    own = Reader({**text, "n_routed_experts": text.get("dspark_n_routed_experts"),
                  "num_experts_per_tok": text.get("dspark_num_experts_per_tok")}, "deepseek_v4")  # fmt: skip
    h, words, rank = own.symbol("h", reader.sizes["h"]), reader.sizes["V"], own.integer("dspark_markov_rank")
    layer = [*Shared("window").read(own, "full").weights(), *_EXPERTS.read(own).weights()]
    layer += [*hyper_connections(own, Place()).parameters, Weight("norms", ((2, h),), "norm")]
    seen, hidden = len(reader.places("dspark_target_layer_ids") or ()), own.sizes[h]
    around = hidden * hidden * seen + 2 * hidden + 2 * words * rank + hidden + rank
    return many * sum(product(weight.shape, own.sizes) for weight in layer) + around


_EXPERTS = replace(V4_EXPERTS, correction=None, routing=_BIASES)
DEEPSEEK_V41 = Family(
    mixers={kind: Shared(kind) for kind in _KINDS},
    ffns={"sparse": _EXPERTS},
    mixer_plan=_places,
    ffn_plan=sparse,
    norm="rms-after",
    residual="hyper-connections",
    start="deepseek_v4",
    more=_more,
    drafts=_drafting,
    only={"attention_bias": False, "n_shared_experts": 1},
    sdpa=False,
    like="deepseek_v4",
)
"""The language model's row."""


def text_of(config: Config) -> Config:
    """Return the configuration of the language model."""
    found = within(config, "text_config")
    return {**(found if isinstance(found, Mapping) else {}), "model_type": "deepseek_v41_text"}


def towers(config: Config) -> Iterator[Weight]:
    """Yield a vision transformer with gated feed-forward layers, and two matrices of neighboring patches."""
    vision, hidden = config.get("vision_config"), whole(within(config, "text_config", "hidden_size"))
    if not isinstance(vision, Mapping):
        return
    keys = ("hidden_size", "num_hidden_layers", "intermediate_size", "patch_size", "downsample_ratio")
    width, layers, wide, patch, side = (whole(vision.get(key)) for key in keys)
    layer = matrix(3 * width, width) + matrix(width, width) + 3 * wide * width + 2 * width
    yield part("vision", layers * layer, matrix(width, 3 * patch * patch), width)
    yield part("aligner", matrix(hidden, width * side**2), matrix(hidden, hidden), 3 * hidden)
