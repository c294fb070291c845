"""Networks described by Megatron's own argument names (`model_type: "megatron"`).

Source: Megatron-LM, megatron/training/arguments.py (names and defaults), core/models/{gpt,bert,T5,mamba}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from memcore.limits import INTEGER_DIGITS, LAYERS
from memcore.networks.network import EmbeddingAndHead, Layer, Model, Network
from memcore.networks.parts import Ffn, Heads, Mixer
from memcore.networks.patterns import compress
from memcore.networks.reader import Reader
from memcore.networks.recurrences import name_heads
from memcore.networks.weights import Linear, Weight
from memcore.trainers.megatron.networks import parts
from memcore.trainers.megatron.networks.parts import ENCODER, PATH, PREDICTION, RESIDUAL, Routing, Style

ARCHITECTURES = ("gpt", "bert", "t5", "hybrid")
_NORMS = {"LayerNorm": "layer", "RMSNorm": "rms"}
_ROTATIONS = {"rope": "full", "learned_absolute": "none", "none": "none"}
LETTERS = "M*-E"
"""Of a hybrid pattern: Mamba, attention, feed-forward layer, routed experts."""
FULL, SLIDING, DELTA = "full", "sliding", "delta"
"""Mixers of a stack: attention to all tokens, to those of a window, and gated delta nets."""


def read_arguments(reader: Reader) -> Model:
    """Return the network that Megatron's arguments describe."""
    architecture = reader.choice("architecture", ARCHITECTURES) if reader.has("architecture") else "gpt"
    norm = reader.choice("normalization", tuple(_NORMS)) if reader.has("normalization") else "LayerNorm"
    reader.symbol("h", reader.integer("hidden_size"))
    reader.symbol("V", reader.integer("vocab_size"))
    reader.symbol("P", reader.integer("max_position_embeddings"))
    reader.symbol("vd", reader.integer("make_vocab_size_divisible_by", 128))
    reader.check()
    bias = not reader.flag("disable_bias_linear")
    style = Style(_NORMS[norm], bias, bias or reader.flag("add_qkv_bias"), 0.1, 0.1)
    rows = _Rows(reader, style, architecture)
    runs = {"hybrid": _hybrid, "t5": _t5}.get(architecture, _stack)(reader, rows)
    reader.check()
    embedding_and_head = _embedding_and_head(reader, style, architecture)
    reader.check()
    network = Network("megatron", PATH, tuple(pattern for pattern, _ in runs), embedding_and_head)
    starts = _stage_starts(reader) if architecture == "hybrid" else ()
    repeats = tuple(times for _, times in runs)
    return Model("", network, repeats, reader.sizes, stage_starts=starts, window=_window(reader))


Runs = Sequence[tuple[tuple[Layer, ...], int]]


class _Rows:
    """The kinds of parts that the arguments describe."""

    def __init__(self, reader: Reader, style: Style, architecture: str) -> None:
        self.reader, self.style = reader, style
        self.gated = reader.flag("swiglu") or reader.flag("quick_geglu")
        self.activation = "silu" if self.gated else "relu2" if reader.flag("squared_relu") else "gelu"
        self.bidirectional = architecture == "bert"
        kind = "learned_absolute"
        if reader.has("position_embedding_type"):
            kind = reader.choice("position_embedding_type", tuple(_ROTATIONS))
        self.positions = kind
        whole = reader.number("rotary_percent", 1.0) == 1.0
        self.rotary = "partial" if _ROTATIONS[kind] == "full" and not whole else _ROTATIONS[kind]

    def heads(self) -> Heads:
        """Of attention without a latent vector."""
        reader, hidden = self.reader, self.reader.sizes["h"]
        query = reader.integer("num_attention_heads")
        key = reader.integer("num_query_groups", query)
        if query % key:
            reader.refuse("num_query_groups", "{} does not divide the {} attention heads", key, query)
        width = reader.integer("kv_channels", max(hidden // query, 1))
        turned = int(width * reader.number("rotary_percent", 1.0))
        d = reader.symbol("d", width)
        return Heads(
            query=reader.symbol("a", query),
            key=reader.symbol("k", key),
            groups=reader.symbol("g", max(query // key, 1)),
            width=d,
            value=d,
            rotated=d if turned == width else reader.symbol("r", turned),
            unaligned=width % 8 != 0,
            wide=width > 256,
        )

    def attention(self, *, bidirectional: bool = False) -> Mixer:
        """Self-attention of any kind."""
        reader = self.reader
        if reader.flag("multi_latent_attention"):
            return self._latent()
        heads, gated = self.heads(), reader.flag("attention_output_gate")
        total = (1 + gated) * reader.sizes[str(heads.query)] + 2 * reader.sizes[str(heads.key)]
        both_ways = bidirectional or self.bidirectional
        rows, normed = reader.symbol("n", total), reader.flag("qk_layernorm")
        made = parts.attention(
            self.style,
            heads,
            rows,
            self.rotary,
            grouped=self.grouped(heads),
            normed=normed,
            gated=gated,
            bidirectional=both_ways,
        )
        kind = "softmax_type"
        learns = reader.has(kind) and reader.choice(kind, ("vanilla", "learnable")) == "learnable"
        return replace(made, sinks=parts.sinks(made)) if learns else made

    def mixer(self, kind: str) -> Mixer:
        """Return the mixer of a layer of a stack."""
        if kind == DELTA:
            return _gated_delta(self.reader)
        mixer = self.attention()
        return replace(mixer, mask=SLIDING) if kind == SLIDING else mixer

    def grouped(self, heads: Heads) -> bool:
        """Return whether query heads share key heads."""
        return self.reader.sizes[str(heads.groups)] > 1

    def _latent(self) -> Mixer:
        reader = self.reader
        plain, turned = reader.integer("qk_head_dim", 128), reader.integer("qk_pos_emb_head_dim", 64)
        value, latent = reader.integer("v_head_dim", 128), reader.integer("kv_lora_rank", 32)
        if reader.has("q_lora_rank"):
            reader.symbol("lq", reader.integer("q_lora_rank"))
        heads = latent_heads(reader, reader.integer("num_attention_heads"), plain, turned, value, latent)
        return parts.latent_attention(
            self.style,
            heads,
            compressed=reader.has("q_lora_rank"),
            normed=reader.flag("qk_layernorm"),
            rotary=self.rotary,
        )

    def dense(self) -> Ffn:
        """Return the feed-forward layer."""
        width = self.reader.symbol("f", self._width())
        return parts.dense(self.style, width, self.activation, gated=self.gated)

    def _width(self) -> int:
        """Of a feed-forward layer; with a gate what makes it as large as one without (arguments.py)."""
        hidden = self.reader.sizes["h"]
        return self.reader.integer("ffn_hidden_size", 4 * hidden * 2 // 3 // 64 * 64 if self.gated else 4 * hidden)

    def sparse(self) -> Ffn:
        """Routed experts."""
        reader = self.reader
        many = reader.symbol("E", reader.integer("num_experts"))
        chosen = reader.symbol("e", reader.integer("moe_router_topk", 2))
        if reader.sizes[chosen] > reader.sizes[many]:
            reader.refuse("moe_router_topk", "{} of {} experts", reader.sizes[chosen], reader.sizes[many])
        shared = reader.integer("moe_shared_expert_intermediate_size", 0, least=0)
        latent = reader.integer("moe_latent_size", 0, least=0)
        score = "moe_router_score_function"
        routing = Routing(
            experts=many,
            chosen=chosen,
            width=reader.symbol("m", reader.integer("moe_ffn_hidden_size", self._width())),
            shared=reader.symbol("w", shared) if shared else None,
            latent=reader.symbol("le", latent) if latent else None,
            shared_gate=reader.flag("moe_shared_expert_gate"),
            biased=reader.flag("moe_router_enable_expert_bias"),
            score=reader.choice(score, ("softmax", "sigmoid")) if reader.has(score) else "softmax",
            fp32=reader.value("moe_router_dtype") in ("fp32", "fp64"),
            clamped=reader.has("activation_func_clamp_value"),
        )
        return parts.sparse(self.style, routing, self.activation, gated=self.gated)

    def layer(self, mixer: Mixer | None, ffn: Ffn | None, residual: str = RESIDUAL) -> Layer:
        """Return a layer with a norm before each part."""
        names = [*(["input_layernorm"] if mixer else []), *(["pre_mlp_layernorm"] if ffn else [])]
        norms = tuple(self.style.normed(name) for name in names)
        return Layer(mixer=mixer, feed_forward=ffn, residual=residual, norms=norms, dropout=self.style.dropout)


def latent_heads(reader: Reader, heads: int, plain: int, turned: int, value: int, latent: int) -> Heads:
    """Return the symbols of multi-head latent attention, named as in `rows.Latent`."""
    a, width = reader.symbol("a", heads), plain + turned
    reader.symbol("p", plain)
    reader.symbol("lk", latent)
    reader.symbol("c", latent + turned)
    reader.symbol("u", plain + value)
    d, r = reader.symbol("d", width), reader.symbol("r", turned)
    return Heads(a, a, 1, d, d if value == width else reader.symbol("v", value), r, width % 8 != 0)


def _stack(reader: Reader, rows: _Rows) -> Runs:
    """GPT and BERT: layers of one or two mixers, dense or sparse, and those that predict further tokens."""
    count = reader.integer("num_layers")
    sparse = _chosen(reader, "moe_layer_freq", count, _nth) if reader.has("num_experts") else [False] * count
    order = list(zip(_mixers(reader, count), sparse, strict=True))
    ffns = {True: rows.sparse, False: rows.dense}
    made = {(mixer, kind): rows.layer(rows.mixer(mixer), ffns[kind]()) for mixer, kind in dict.fromkeys(order)}
    kinds = list(made)
    found = compress([kinds.index(each) for each in order])
    runs = [(tuple(made[kinds[kind]] for kind in pattern), times) for pattern, times in found]
    depths = reader.integer("mtp_num_layers", 0, least=0)
    return [*runs, *_predictions(reader, rows, [made[order[-1]]] if order else [], depths)]


def _mixers(reader: Reader, count: int) -> list[str]:
    """Return each layer's mixer: gated delta nets in all but every n-th layer, or windows."""
    if reader.has(_VARIANT):
        reader.choice(_VARIANT, ("gated_delta_net",))
        return [DELTA if each else FULL for each in _chosen(reader, "linear_attention_freq", count, _but_nth)]
    if _window(reader) is None:
        return [FULL] * count
    key = "window_attn_skip_freq"
    return [SLIDING if each else FULL for each in _chosen(reader, key, count, _but_nth, otherwise=count + 1)]


_VARIANT = "experimental_attention_variant"
_WINDOW = re.compile(r"\(?(-?\d{1,9}),-?\d{1,9}\)?")


def _window(reader: Reader) -> int | None:
    """Return the tokens that a window sees, itself among them: `window_size` has those to the left and to the right."""
    found = reader.value("window_size")
    if found is None:
        return None
    text = ",".join(map(str, found)) if isinstance(found, (list, tuple)) else str(found).replace(" ", "")
    match = _WINDOW.fullmatch(text)
    if match is None:
        reader.refuse("window_size", "expected two numbers such as 127,0, found {!r:.80}", found)
        return None
    return int(match[1]) + 1 or None


def _predictions(reader: Reader, rows: _Rows, pattern: Sequence[Layer], depths: int) -> Runs:
    """Layers that predict further tokens: each depth has its own, unless one is run repeatedly."""
    if not depths:
        return []
    repeated = reader.flag("mtp_use_repeated_layer")
    extra = parts.prediction(rows.style, depths if repeated else 1)
    first, *more = (replace(layer, residual=PREDICTION) for layer in pattern)
    return [((replace(first, extra=extra), *more), 1 if repeated else depths)]


def _nth(index: int, every: int) -> bool:
    """Return whether a layer is the first of as many (`moe_layer_freq`)."""
    return index % every == 0


def _but_nth(index: int, every: int) -> bool:
    """Return whether a layer is not the last of as many (`linear_attention_freq`, `window_attn_skip_freq`)."""
    return (index + 1) % every != 0


def _chosen(reader: Reader, key: str, count: int, rule: Callable[[int, int], bool], otherwise: int = 1) -> list[bool]:
    """Return which layers a key chooses: by a rule with its number, by a list, or by a list written as a sum."""
    found = reader.value(key)
    if found is None:
        found = otherwise
    if isinstance(found, str):
        found = _spelled(found)
    if isinstance(found, int) and not isinstance(found, bool) and found > 0:
        return [rule(index, found) for index in range(count)]
    if isinstance(found, list) and len(found) == count and all(each in (0, 1) for each in found):
        return [each == 1 for each in found]
    reader.refuse(key, "expected a number or a list of {} zeros and ones, found {!r:.80}", count, found)
    return [True] * count


def _spelled(text: str) -> object:
    """Return a list written as in Python, no longer than any model: `([0]*3+[1]*58)`, or a number."""
    bare = text.replace(" ", "").removeprefix("(").removesuffix(")")
    if bare.isdecimal() and len(bare) <= INTEGER_DIGITS:
        return int(bare)
    found: list[int] = []
    for part in bare.split("+"):
        match = re.fullmatch(r"\[([01](?:,[01])*)\](?:\*(\d{1,9}))?", part)
        if match is None:
            return text
        items, times = [int(each) for each in match[1].split(",")], int(match[2] or 1)
        if len(found) + len(items) * times > LAYERS:
            return text
        found += items * times
    return found


def _pattern(reader: Reader) -> tuple[str, str]:
    """Return the key of a hybrid pattern, and the pattern."""
    key = "hybrid_override_pattern" if reader.has("hybrid_override_pattern") else "hybrid_layer_pattern"
    text = reader.value(key)
    if not isinstance(text, str) or set(text) - set(f"{LETTERS}|/") or not text.strip("|/"):
        reader.refuse(key, "expected a string of {} | and /, found {!r:.80}", " ".join(LETTERS), text)
        return key, ""
    if len(text) > 2 * LAYERS:
        reader.refuse(key, "expected at most {} characters, found {}", 2 * LAYERS, len(text))
        return key, ""
    return key, text


def _stage_starts(reader: Reader) -> tuple[int, ...]:
    """Return where `|` ends a pipeline stage."""
    parts = _pattern(reader)[1].partition("/")[0].split("|")
    return tuple(sum(map(len, parts[: number + 1])) for number in range(len(parts) - 1))


def _hybrid(reader: Reader, rows: _Rows) -> Runs:
    """Return a layer for each letter; `|` ends a pipeline stage, `/` begins a depth that predicts further tokens."""
    key, text = _pattern(reader)
    if not text:
        return []
    main, *depths = text.replace("|", "").split("/")
    if len(set(depths)) > 1:
        reader.refuse(key, "every multi-token-prediction depth must have the same layers")
    made: dict[str, Layer] = {}
    for letter in dict.fromkeys(main + "".join(depths)):
        mixer = {"M": lambda: _mamba(reader), "*": rows.attention}.get(letter)
        ffn = {"-": rows.dense, "E": rows.sparse}.get(letter)
        made[letter] = rows.layer(mixer() if mixer else None, ffn() if ffn else None)
    order = [LETTERS.index(letter) for letter in main]
    runs = [(tuple(made[LETTERS[each]] for each in pattern), times) for pattern, times in parts.repeated(order)]
    count = reader.integer("mtp_num_layers", len(depths), least=0)
    if count != len(depths):
        reader.refuse("mtp_num_layers", "found {}, but {} has {} depths", count, key, len(depths))
    return [*runs, *_predictions(reader, rows, [made[letter] for letter in depths[0]] if depths else [], count)]


def _mamba(reader: Reader) -> Mixer:
    hidden, width = reader.sizes["h"], reader.integer("mamba_head_dim", 64)
    heads = reader.integer("mamba_num_heads", 2 * hidden // width)
    groups, state = reader.integer("mamba_num_groups", 8), reader.integer("mamba_state_dim", 128)
    mamba_sizes(reader, heads, width, groups, state, reader.integer("mamba_chunk_size", 128))
    return parts.mamba(reader.sizes)


def _gated_delta(reader: Reader) -> Mixer:
    """Return a gated delta net, whose absent sizes are those of `TransformerConfig`; symbols as in `GatedDelta`."""
    keys, values = reader.integer("linear_num_key_heads", 16), reader.integer("linear_num_value_heads", 32)
    wide, deep = reader.integer("linear_key_head_dim", 128), reader.integer("linear_value_head_dim", 128)
    name_heads(reader, keys, values, wide, deep, reader.integer("linear_conv_kernel_dim", 4, least=2))
    reader.symbol("I", 2 * keys * wide + 2 * values * deep + 2 * values)
    return parts.gated_delta(grouped=keys != values)


def mamba_sizes(reader: Reader, heads: int, width: int, groups: int, state: int, chunk: int) -> None:
    """The symbols of a Mamba 2 mixer, named as in `recurrences.Mamba2`."""
    inner = heads * width
    found = {"H": heads, "W": width, "D": inner, "G": groups, "hg": max(heads // groups, 1), "N": state, "K": 4}
    joined = {"X": inner + 2 * groups * state, "I": 2 * inner + 2 * groups * state + heads, "q": chunk}
    for name, value in (found | joined).items():
        reader.symbol(name, value)


def _t5(reader: Reader, rows: _Rows) -> Runs:
    """Return an encoder, and a decoder that looks at its result."""
    mixer, ffn = rows.attention(bidirectional=True), rows.dense()
    encoder = rows.layer(mixer, ffn, ENCODER)
    names = ("input_layernorm", "pre_cross_attn_layernorm", "pre_mlp_layernorm")
    decoder = replace(
        rows.layer(rows.attention(), ffn),
        second_mixer=parts.cross_attention(rows.style, rows.heads(), grouped=rows.grouped(rows.heads())),
        norms=tuple(rows.style.normed(name) for name in names),
    )
    usual = reader.integer("num_layers", 1)
    counts = reader.integer("encoder_num_layers", usual), reader.integer("decoder_num_layers", usual)
    lengths = ("encoder_seq_length", "decoder_seq_length")
    reader.symbol("sd", reader.integer(lengths[1], reader.integer(lengths[0], reader.sizes["P"])))
    return [((encoder,), counts[0]), ((decoder,), counts[1])]


def _embedding_and_head(reader: Reader, style: Style, architecture: str) -> EmbeddingAndHead:
    learned = not reader.has("position_embedding_type") or reader.value("position_embedding_type") == "learned_absolute"
    return embedding_and_head(
        style,
        learned=learned,
        tied=not reader.flag("untie_embeddings_and_output_weights"),
        head_bias=architecture in ("bert", "t5"),
        others=_OTHERS[architecture](style) if architecture in _OTHERS else (),
        start=architecture,
    )


def embedding_and_head(
    style: Style,
    *,
    learned: bool,
    tied: bool,
    head_bias: bool = False,
    others: tuple[Weight, ...] = (),
    start: str = "gpt",
) -> EmbeddingAndHead:
    """Embeddings, final norm and head."""
    return EmbeddingAndHead(
        embedding=Weight("embedding.word_embeddings.weight", (("V",), ("h",)), "embedding", split="outer"),
        positions=Weight("embedding.position_embeddings.weight", (("P",), ("h",)), "position") if learned else None,
        final_norm=style.normed("decoder.final_layernorm"),
        head=Linear("output_layer", ("V",), ("h",), head_bias, split="outer"),
        tied=tied,
        embedding_dropout=style.dropout,
        others=others,
        start=f"megatron-{start}",
    )


def _bert(style: Style) -> tuple[Weight, ...]:
    """Token types, a pooler with its binary head, and what stands before the head.

    Source: core/models/bert/{bert_model,bert_lm_head,pooler}.py.
    """
    return (
        Weight("embedding.tokentype_embeddings.weight", ((2,), ("h",)), "position"),
        *Linear("lm_head.dense", ("h",), ("h",), bias=True).weights("head"),
        *style.normed("lm_head.layer_norm").weights(),
        *Linear("pooler.dense", ("h",), ("h",), bias=True).weights("head"),
        *Linear("binary_head", (2,), ("h",), bias=True).weights("head"),
    )


def _encoder(style: Style) -> tuple[Weight, ...]:
    return tuple(style.normed("encoder.final_layernorm").weights())


_OTHERS = {"bert": _bert, "t5": _encoder}
"""Further parameters outside the layers."""
