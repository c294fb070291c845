"""From the tensors of a derived network to a `Model`: its decoder, encoders and towers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from memcore.errors import ConfigError
from memcore.limits import of_model
from memcore.messages import Message, joined
from memcore.networks.derived import PUBLISHED, Keys, Tensor, cache_of, derived, first_class, row_of, tensors
from memcore.networks.network import EmbeddingAndHead, Layer, Model, Network, Tower
from memcore.networks.patterns import compress
from memcore.networks.recognized import REPEATED, RESIDUAL, Facts, Symbols, plain, recognize
from memcore.networks.weights import Linear, Weight, kind_of
from memcore.units import shown

_BESIDE = re.compile(
    r"vision|visual|image|audio|speech|(^|\.)encoder(\.|$)|perceiver|qformer|projector|connector|tower"
)
"""Layers that are no decoder, where there are others."""
"""Keys of the language model, under the names that families give them."""
HEADS = (
    "num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads",
    "decoder_num_attention_heads", "num_decoder_attention_heads", "num_self_attention_heads",
)  # fmt: skip
CHOSEN = (
    "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "experts_per_token", "top_k", "top_k_experts",
    "num_selected_experts",
)  # fmt: skip
ALWAYS: Mapping[str, int] = {"nllb-moe": 2, "switch_transformers": 1, "zaya": 1}
"""Experts of a token where no key says it (transformers 5.23: NllbMoeTop2Router, SwitchTransformersTop1Router,
ZayaRouter)."""
PYRAMIDS = frozenset((
    "convnext", "convnextv2", "donut-swin", "efficientnet", "mobilenet_v2", "resnet", "segformer", "swin", "swinv2",
))  # fmt: skip
"""Types for images whose layers see fewer and fewer positions, and get wider: their parameters are counted."""
STRIDES: Mapping[int, tuple[int, ...]] = {7: (5, *[2] * 6), 13: (5, *[2, 1] * 6)}
"""Strides of convolutions over samples, by their number, where no key says them (transformers 5.23,
configuration_wav2vec2.py, configuration_sew.py, `conv_stride`)."""
FRAMES = frozenset(("csm",))
"""Types that predict frames of several codes: a decoder of its own runs over the codes of some frames."""
CYCLES = frozenset(("hrm_text",))
"""Types whose stacks take turns in cycles (transformers 5.23, `HrmTextModel.forward`)."""
EAGER = frozenset((
    *("big_bird", "bigbird_pegasus", "blip", "canine", "codegen", "convbert", "cpmant", "deberta", "deberta-v2"),
    *("flaubert", "flint", "fsmt", "funnel", "git", "gpt_neox_japanese", "granite_swa", "granitemoe_swa", "hy_v4"),
    *("ibert", "inkling2", "inkling2_text", "led", "lilt", "longformer", "longt5", "luke", "lxmert", "megatron-bert"),
    *("mpnet", "mra", "mvp", "nllb-moe", "nystromformer", "openai-gpt", "pegasus_x", "perceiver", "prophetnet"),
    *("reformer", "rembert", "roformer", "speech_to_text", "speecht5", "squeezebert", "switch_transformers"),
    *("t5gemma", "tapas", "trocr", "vilt", "visual_bert", "xglm", "xlm", "xlnet", "yoso"),
))  # fmt: skip
"""Types whose classes run eager attention alone (transformers 5.23, `_supports_sdpa`)."""
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "max_target_positions")
WINDOW = ("sliding_window",)
_ACTIVATIONS = (
    "hidden_act", "hidden_activation", "activation_function", "dense_act_fn", "feed_forward_proj", "activation",
    "ff_activation", "afn",
)  # fmt: skip
_KNOWN = frozenset((
    "silu", "swish", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "relu2", "gelu_fast", "quick_gelu",
))  # fmt: skip
"""Functions of `tensors.operations.ACTIVATIONS` that learn nothing and need no kernel of their own."""
VOCABULARY = ("vocab_size", "text_vocab_size", "n_vocab")
_TEXT = (
    "text_config.", "llm_config.", "language_config.", "thinker_config.text_config.", "decoder.", "",
    "vlm_config.text_config.", "decoder_config.",
)  # fmt: skip
"""Where a configuration may describe the language model."""


UNPROVED = "this family's cache size was derived only from the shapes of its attention tensors"
SIGNALS = "this family reads images or sounds alone: a token is a position of its layers"
TOWERS = "this family's towers and encoders are approximated in training; for serving only their parameters are counted"
ASSUMED = (UNPROVED, SIGNALS, TOWERS)
"""What is said of networks with parts that no row describes."""


NAMED_BEFORE: Mapping[str, str] = {"ViltForVisualQuestionAnswering": "ViltForQuestionAnswering"}
"""Classes that published files name and transformers has under another name (dandelin/vilt-b32-finetuned-vqa)."""


HEADED: Mapping[str, str] = {"step3p5": "Step3p7TextModel"}
"""Decoders that transformers has only inside composites, without a head: Step 3.5 is Step 3.7's language model."""


def _now(name: object) -> object:
    return NAMED_BEFORE.get(name, name) if isinstance(name, str) else name


def class_of(config: Mapping[str, Any], model_type: str) -> str | None:
    """The class of transformers that a configuration names, else the one that checkpoints of its type mostly have."""
    table = derived()
    named = config.get("architectures")
    for name in map(_now, named) if isinstance(named, list) else ():
        for each in (name, f"{name}@{model_type}") if isinstance(name, str) else ():
            row = row_of(each)
            if row is not None and row["type"] == model_type:
                return str(each)
    kinds: Mapping[str, str] = table["types"].get(model_type, {})
    return kinds.get("class") or kinds.get("base") or HEADED.get(model_type)


def known_types() -> tuple[str, ...]:
    """Every derived `model_type`."""
    return tuple(derived()["types"])


def text_within(config: Mapping[str, Any], model_type: str) -> tuple[str, str, Mapping[str, Any]] | None:
    """The part of a configuration that describes a decoder of its own: where it stands, its type, its keys."""
    row = row_of(class_of(config, model_type))
    if row is None:
        return None
    keys = Keys(config, row)
    for _, _, where, name in row["inner"]:
        found = keys.stated(where)
        if f"{where}." in _TEXT and isinstance(found, Mapping):
            kind = found.get("model_type") or (row_of(name) or {}).get("type")
            return (where, PUBLISHED.get(kind, kind), found) if isinstance(kind, str) else None
    return None


def derived_model(
    config: Mapping[str, Any],
    model_type: str,
    *,
    caches: bool | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Model:
    """The network of a derived type; `caches`: its attention's caches are known, which its row says otherwise.

    `sizes` are those of symbols that mean something already.
    Raises ConfigError for keys that its formulas do not cover.
    """
    name = class_of(config, model_type)
    if name is None:
        raise ConfigError.at(
            "model.model_type", "found {!r}, a family of transformers that is not supported yet", model_type
        )
    stacks: dict[str, dict[int, dict[str, tuple[int, ...]]]] = {}
    outer: dict[str, tuple[int, ...]] = {}
    for each in tensors(config, name):
        _put(each, stacks, outer)
    row = row_of(name) or {}
    keys = Keys(config, row)
    known = cache_of(row) if caches is None else caches
    if known == "none" and keys.stated("is_decoder") is True:
        known = True  # BERT and its like generate then: each layer's keys and values are kept
    cached = None if known == "none" else bool(known)
    symbol = Symbols(sizes)
    main = _main(stacks)
    order = {path: [layers.get(number, {}) for number in range(max(layers) + 1)] for path, layers in stacks.items()}
    layers = order.pop(main, [])
    window = _window(keys)
    facts = _facts(keys, outer, cached, known)
    masks = _masks(keys, len(layers)) if window and cached else ["full"] * len(layers)
    if masks is None:
        cached, masks = False, ["full"] * len(layers)
    read = _recognized(zip(layers, (facts._replace(mask=mask) for mask in masks), strict=True), symbol)
    read = [*_encoder(order, main, facts._replace(cached=None, other=False), symbol), *read]
    if _repeats(row, main, keys, len(layers)):
        times = _times(row, main, keys)
        read = [replace(each, times=times) if times else replace(each, residual=REPEATED) for each in read]
    runs, repeats = _runs(read)
    found = [_tower(path, layers, keys, symbol) for path, layers in order.items()]
    around = _embedding_and_head(outer, keys, symbol, _headed(config, model_type, name, outer))
    network = Network(
        model_type, main, runs, around, towers=tuple(each for each, _ in found), sdpa=model_type not in EAGER
    )
    symbol("P", _integer(keys, LENGTHS) or 4096)
    open_cache = (UNPROVED if around.reads_tokens else SIGNALS,) if cached is False else ()
    said = (*open_cache, *((TOWERS,) if found else ()))
    return Model(
        name="",
        network=network,
        repeats=repeats,
        sizes=symbol.sizes,
        tower_repeats=tuple(times for _, times in found),
        window=window,
        warnings=(*_named(config, name), *_said_of(sorted({*_unread(config, name)})), *said),
    )


def _headed(config: Mapping[str, Any], model_type: str, name: str, outer: dict[str, tuple[int, ...]]) -> str:
    """Return the class whose head is counted, and add the head to a decoder that transformers has without one."""
    own = first_class(config) or "ForCausalLM"
    if model_type not in HEADED or _HEADLESS.search(own):
        return name
    if config.get("tie_word_embeddings") is not True:
        outer["lm_head.weight"] = outer["embed_tokens.weight"]
    return own


def _facts(keys: Keys, outer: Mapping[str, tuple[int, ...]], cached: bool | None, known: bool | str | None) -> Facts:
    """What the configuration says of the main layers; `known`: what is proved of their cache."""
    return Facts(
        heads=_integer(keys, HEADS),
        chosen=_integer(keys, CHOSEN) or ALWAYS.get(keys.row["type"]),
        cached=cached,
        rotary="none" if any(kind_of(each) == "position" and not _BESIDE.search(each) for each in outer) else "full",
        latent=_turned(keys),
        pool=_integer(keys, ("index_kpool",)) or 1,
        activation=_activation(keys),
        other=known is False,
    )


def _encoder(
    order: dict[str, list[dict[str, tuple[int, ...]]]],
    main: str,
    facts: Facts,
    symbol: Symbols,
) -> list[Layer]:
    """The layers of an encoder in front of a decoder of the same width; it is one network with it."""
    path = re.sub(r"(^|\.)decoder(\.|$)", r"\1encoder\2", main)
    if path == main or path not in order:
        return []
    return _recognized(((each, facts) for each in order.pop(path)), symbol)


def _recognized(layers: Iterable[tuple[Mapping[str, tuple[int, ...]], Facts]], symbol: Symbols) -> list[Layer]:
    """Return the parts of the layers of a stack: equal ones are looked at once."""
    found: dict[tuple[tuple[tuple[str, tuple[int, ...]], ...], Facts], Layer] = {}
    keys = [(tuple(tensors.items()), facts) for tensors, facts in layers]
    for key in keys:
        if key not in found:
            found[key] = recognize(dict(key[0]), key[1], symbol)
    return [found[key] for key in keys]


def _window(keys: Keys) -> int | None:
    """Tokens that layers with a window see."""
    off = any(keys[f"{path}use_sliding_window"] is False for path in _TEXT)
    return None if off else _integer(keys, WINDOW)


def _masks(keys: Keys, count: int) -> list[str] | None:
    """Which tokens each layer sees, where there is a window; None where only its class says which layers have it.

    Source: transformers 5.23, cache_utils.py (`DynamicCache.__init__`: `layer_types`, else `sliding_window`).
    """
    kinds = next((found for path in _TEXT if (found := keys[f"{path}layer_types"]) is not None), None)
    if not isinstance(kinds, list):
        types = [keys.row["type"], *((row_of(cls) or {}).get("type") for *_, cls in keys.row["inner"])]
        chooses = any("layer_types" in derived()["keys"].get(each, "").split() for each in types)
        return None if chooses else ["sliding"] * count
    named = ["sliding" if str(kind).startswith("sliding") else "full" for kind in kinds]
    return (named + ["full"] * count)[:count]


def _turned(keys: Keys) -> tuple[int, int] | None:
    """Elements of a head that are rotated, and the width of a value, of latent attention."""
    turned, wide = _integer(keys, ("qk_rope_head_dim",), least=0), _integer(keys, ("v_head_dim",))
    return (turned, wide) if turned is not None and wide else None


def _repeats(row: Mapping[str, Any], main: str, keys: Keys, count: int) -> bool:
    """Whether layers run more often than there are of them: nothing of their number says how many layers there are."""
    if row["type"] in CYCLES:
        return True
    if main not in row["lists"] and row["inner"]:
        return False
    length = row["lists"].get(main, "")
    often = _integer(keys, ("num_hidden_layers", "num_layers", "n_layers")) or row["fixed"].get("num_hidden_layers")
    if not isinstance(often, int):
        return "groups" in length
    return often > count and not re.search(r"layers|blocks|depth", length)


def _times(row: Mapping[str, Any], main: str, keys: Keys) -> int | None:
    """How often each group of layers runs: the layers are shared out evenly among the groups; None where nobody says.

    Source: transformers 5.23, modeling_albert.py (`AlbertTransformer.forward`).
    """
    length = row["lists"].get(main, "")
    often, groups = _integer(keys, ("num_hidden_layers",)), keys[length] if "groups" in length else None
    if often is None or type(groups) is not int or groups < 1 or often % groups:
        return None
    return often // groups


_SIZED = re.compile(
    r"(?!.*(_id|_ids|_index|_token|length|version|beams?|ngram|top_k|seed|label|_tp|n_positions|rotary|_size_per|rope|drop)).*"
)
_PART = re.compile(r"norm|bias|gate|expert|moe|shared|adapter")


def _unread(config: Mapping[str, Any], name: str, path: str = "") -> Iterator[str]:
    """Keys with sizes, or of parts, that the class of this part of a configuration does not know."""
    row = row_of(name)
    known = derived()["keys"].get(row["type"]) if row is not None else None
    if row is None or known is None:
        return
    others = (each for key in (*row["names"], *row["absent"], *row["fixed"]) for each in (key, key.partition(".")[0]))
    names = {*known.split(), *others}
    keys = Keys(config, row)
    sizes = [keys[key] for key in row["absent"]]
    for key, value in config.items():
        if key not in names and _SIZED.fullmatch(key):
            # Another name of a size that is read says nothing new.
            sized = type(value) is int and value > 1 and value not in sizes
            listed = isinstance(value, list) and bool(value) and all(type(each) is int for each in value)
            if sized or listed or (value is True and _PART.search(key)):
                yield f"{path}{key}"
    for _, _, where, cls in row["inner"]:
        inside = keys.stated(where)
        if isinstance(inside, Mapping):
            yield from _unread(inside, cls, f"{path}{where}.")


def _said_of(unread: Sequence[str]) -> tuple[str, ...]:
    if not unread:
        return ()
    return (Message("found {}, which this family's class in transformers does not know", joined(", ", unread[:8])),)


def _named(config: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Say so if the file is for another class."""
    found = config.get("architectures")
    if not found and name.endswith("ForMaskedLM"):  # whose checkpoints as often have no head
        return (Message("found no architectures; counted as {}", name),)
    if not isinstance(found, list) or not found or name.partition("@")[0] in map(_now, found):
        return ()
    if name in HEADED.values():
        return ()
    return (Message("found architectures {}, counted as {}", shown(found[0]), name.partition("@")[0]),)


def _put(
    tensor: Tensor,
    stacks: dict[str, dict[int, dict[str, tuple[int, ...]]]],
    outer: dict[str, tuple[int, ...]],
) -> None:
    if tensor.stack:
        stacks.setdefault(tensor.stack, {}).setdefault(tensor.layer, {})[tensor.name] = tensor.shape
    else:
        outer[tensor.name] = tensor.shape


def _integer(keys: Keys, names: Sequence[str], least: int = 1) -> int | None:
    """The first of these keys of the language model that has a value."""
    for path in _TEXT:
        for name in names:
            found = keys[f"{path}{name}"]
            if type(found) is int and least <= found <= of_model(name):
                return found
    return None


def _activation(keys: Keys) -> str | None:
    """The function within the language model's feed-forward layers, as the file names it.

    Source: transformers 5.23, configuration_t5.py (`T5Config.__post_init__`: `gated-gelu` is `gelu_new`).
    """
    for path in _TEXT:
        for name in _ACTIVATIONS:
            found = keys.stated(f"{path}{name}")
            if isinstance(found, str):
                found = "gelu_new" if found == "gated-gelu" else found.removeprefix("gated-")
                return found if found in _KNOWN else None
    return None


def _main(stacks: Mapping[str, Mapping[int, Mapping[str, tuple[int, ...]]]]) -> str:
    """The largest list of layers that is not a tower or an encoder, where there are others."""

    def size(path: str) -> tuple[bool, bool, int]:
        seen = re.search(r"vision|visual|image|audio|speech", path)
        return (
            _BESIDE.search(path) is None,
            seen is None,
            sum(prod(s) for layer in stacks[path].values() for s in layer.values()),
        )

    return max(stacks, key=size, default="")


def _runs(layers: Sequence[Layer]) -> tuple[tuple[tuple[Layer, ...], ...], tuple[int, ...]]:
    kinds: dict[Layer, int] = {}
    found = compress([kinds.setdefault(layer, len(kinds)) for layer in layers]) if layers else []
    numbered = list(kinds)
    return tuple(tuple(numbered[kind] for kind in pattern) for pattern, _ in found), tuple(times for _, times in found)


def _tower(
    path: str, layers: Iterable[Mapping[str, tuple[int, ...]]], keys: Keys, symbol: Symbols
) -> tuple[Tower, tuple[int, ...]]:
    """A stack next to the decoder; its attention sees everything, and caches nothing."""
    seen = _SEEN.search(path) is not None
    kind = "tower" if seen or not re.search(r"(^|\.)(encoder|decoder)\.", f"{path}.") else None
    facts = Facts(_heads_of(path, keys) if seen else None, cached=None, rotary="none")
    found = [replace(each, kind=kind) for each in _recognized(((each, facts) for each in layers), symbol)]
    runs, repeats = _runs(found)
    return Tower(variant=RESIDUAL, path=path, runs=runs, taps=(len(runs) - 1,)), repeats


_SEEN = re.compile(r"vision|visual|image|audio|speech|img")
"""Paths of towers for images and sounds."""
_OF_SOUND = re.compile(r"audio|speech")
_HEADS_OF_TOWERS = ("num_attention_heads", "num_heads", "encoder_attention_heads", "attention_heads")


def _heads_of(path: str, keys: Keys) -> int | None:
    """Heads of a tower, as the part of the configuration that describes it says; some have a list of a number a stage.

    Raises ConfigError for a value that is no number of heads.
    """
    names = ("audio_config", "speech_config", "encoder_config") if _OF_SOUND.search(path) else ("vision_config",)
    for place, name in ((f"{before}{each}.", key) for before in ("", "thinker_config.") for each in names
                        for key in _HEADS_OF_TOWERS):  # fmt: skip
        found = keys[f"{place}{name}"]
        if isinstance(found, (str, bool, float)):
            keys.refuse(f"{place}{name}", "expected {}, found {}", "a positive integer", shown(found))
        if type(found) is int and 0 < found <= of_model("num_attention_heads"):
            return found
    return None


_HEADLESS = re.compile(
    r"((?<!LMHead)(?<!Decoder)Model|Encoder|Classification|QuestionAnswering(Simple)?|MultipleChoice|SentencePrediction)$"
)
"""Classes whose results are no words."""


_EMBEDS = re.compile(r"^(?!.*(position|pos_embed|patch|embedder\.proj|(row|column)_embedder)).*(embed|wte|shared|tok)")
"""Tables of tokens, not of places in an image or a sound, nor matrices that patches go through."""


def _of_signals(outer: Mapping[str, tuple[int, ...]], keys: Keys, symbol: Symbols) -> EmbeddingAndHead:
    """What is outside of layers that read images or sounds: no table has a row for each token."""
    v, h = symbol("V", 1), symbol("h", 1)
    return EmbeddingAndHead(
        embedding=Weight("embedding", ((v,), (h,)), "embedding"),
        final_norm=None,
        head=Linear("head", (v,), (h,)),
        tied=False,
        reads_tokens=False,
        predicts=False,
        others=tuple(plain(name, size) for name, size in outer.items()),
        strides=_strides(outer, keys),
        start="signals",
    )


def _strides(outer: Mapping[str, tuple[int, ...]], keys: Keys) -> tuple[int, ...]:
    """Strides of the convolutions that read samples; none where a spectrum or an image is read."""
    count = sum(name.endswith(".conv.weight") and ".conv_layers." in name for name in outer)
    found = keys.stated("conv_stride") or STRIDES.get(count)
    if not isinstance(found, (list, tuple)) or not count or len(found) != count:
        return ()
    return tuple(found) if all(type(each) is int and each > 0 for each in found) else ()


def _embedding_and_head(outer: dict[str, tuple[int, ...]], keys: Keys, symbol: Symbols, cls: str) -> EmbeddingAndHead:
    """What is outside of layers: the embedding, the head, and the rest."""
    rows = _integer(keys, VOCABULARY)
    tables = [name for name, shape in outer.items() if len(shape) == 2 and name.endswith("weight")]
    embeds = [name for name in tables if _EMBEDS.search(name)]
    wide = [name for name in (*embeds, *tables) if outer[name][0] == rows]
    first = next(iter(wide or embeds), None)
    # What is trained by CTC reads sounds: its vocabulary is that of its head alone.
    if first is None or cls.partition("@")[0].endswith("ForCTC"):
        return _of_signals(outer, keys, symbol)
    shape = outer.pop(first)
    if 0 in shape:
        raise ConfigError.at("model", "the token embedding would be {} × {}; both must be at least 1", *shape)
    v, h = symbol("V", shape[0]), symbol("h", shape[1])
    predicts = _HEADLESS.search(cls.partition("@")[0]) is None
    heads = [
        name
        for name in outer
        if predicts and re.search(r"lm_head|head|decoder|generator|predictions", name) and name in tables
    ]
    head = next((name for name in heads if outer[name] == shape), None)
    linear = Linear("lm_head", (v,), (h,))
    if head is not None:
        module = head.removesuffix(".weight")
        del outer[head]
        linear = replace(linear, name=module, bias=outer.pop(f"{module}.bias", None) is not None)
    # T5's class ties the head whatever a file says; checkpoints of T5 1.1 that say otherwise have one of their own.
    apart = predicts and keys.row.get("unties") and keys.stated("tie_word_embeddings") is False
    return EmbeddingAndHead(
        embedding=Weight(first, ((v,), (h,)), "embedding"),
        final_norm=None,
        head=linear,
        tied=head is None and not apart,
        predicts=predicts,
        others=tuple(
            replace(plain(name, size), kind="tower")
            if _BESIDE.search(name) and kind_of(name) != "projector"
            else plain(name, size)
            for name, size in outer.items()
        ),
    )
