"""Reading a Hugging Face `config.json` into a `Model`, by the rows of `families.FAMILIES`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from memcore import registry
from memcore.errors import ConfigError, Problem, nearest
from memcore.limits import DIFFERENT
from memcore.messages import Message, joined
from memcore.networks.derived import completed, derived, first_class
from memcore.networks.derived_model import ASSUMED, TOWERS, class_of, derived_model, known_types, text_within
from memcore.networks.families import ALIASES, FAMILIES
from memcore.networks.families.counted import COUNTED
from memcore.networks.families.family import Composite, Family
from memcore.networks.families.multimodal import COMPOSITES
from memcore.networks.families.remote import contradictions, extra_weights, own_family, published, renamed
from memcore.networks.families.remote_rows import OUTSIDE, REMOTE
from memcore.networks.network import EmbeddingAndHead, Layer, Model, Network
from memcore.networks.parts import Mixer
from memcore.networks.patterns import TYPES, Place, compress
from memcore.networks.published import published_extras
from memcore.networks.reader import Reader
from memcore.networks.short import expand, is_short
from memcore.networks.unknown import as_llama, check_known
from memcore.networks.weights import Linear, Norm, Weight
from memcore.symbols import Axis, Shape
from memcore.units import shown

_SIZES = {"hidden_size", "num_hidden_layers"}
"""Keys of a language model, which older files of composites have on top."""


def read_model(config: Mapping[str, object], name: str | None = None) -> Model:
    """The network that a `config.json` describes.

    Raises ConfigError naming every key that cannot be understood, or an unknown `model_type`.
    """
    config, added = _typed(config)
    _check_class(config)
    more, extras, own = extra_weights(config), published(config), own_family(config)
    added = (*added, *contradictions(config))
    config = _tied_by_text(renamed(config))
    model_type = config.get("model_type")
    known = ALIASES.get(model_type, model_type) if isinstance(model_type, str) else ""
    if known in COMPOSITES:
        model = _composite(config, known, COMPOSITES[known])
        model = _of_class(model, config, own=_plain(known) != _without_head(first_class(config)))
    elif known in FAMILIES:
        model = _language_model(Reader(config, FAMILIES[known].like or known, FAMILIES[known].keys), known)
        model = _of_class(model, config, own=known in REMOTE)
    elif known in registry.MODEL_TYPES:
        model = registry.engine_module(registry.MODEL_TYPES[known], "reader").READERS[known](Reader(config, known))
    elif is_short(config):
        model = _short(config)
    elif isinstance(model_type, str) and class_of(config, model_type) is not None:
        model = _derived(config, model_type)
        model = _with_head(model, _own_head(config)) if first_class(config) in _OWN_HEADS else model
    else:
        model = _unknown(config)
    if more:
        embedding_and_head = replace(
            model.network.embedding_and_head, others=(*model.network.embedding_and_head.others, *more)
        )
        said = (TOWERS,) if any(each.kind == "tower" for each in more) and TOWERS not in model.warnings else ()
        model = replace(
            model,
            network=replace(model.network, embedding_and_head=embedding_and_head),
            warnings=(*model.warnings, *said),
        )
    if own is not None:
        model = replace(model, network=replace(model.network, family=own), warnings=(*model.warnings, OUTSIDE))
    model = replace(model, published_extras={**model.published_extras, **extras}, warnings=(*added, *model.warnings))
    title = name or config.get("_name") or config.get("_name_or_path") or config.get("name") or model_type
    return replace(model, name=str(title or "Llama-like model"))


_HEAD = re.compile("For[A-Z]|LMHeadModel$|Model$")
"""Where the name of a class goes on to say what it is for."""
_DRAFT = re.compile(r"eagle|draft|medusa", re.IGNORECASE)
_MARKS = re.compile(r"[-_.]")
_BY_HAND = frozenset({*FAMILIES, *COMPOSITES, *ALIASES, *registry.MODEL_TYPES})
"""Types whose rows are written by hand."""


def _without_head(name: str) -> str:
    """A class's name up to what it is for, in small letters without marks."""
    return _MARKS.sub("", _HEAD.split(name, maxsplit=1)[0]).lower()


def _typed(config: Mapping[str, object]) -> tuple[Mapping[str, object], tuple[Message, ...]]:
    """A file without a type has that of the class that it names, which is said; marks in a type may be others."""
    name, kind = first_class(config), config.get("model_type")
    if not isinstance(kind, str | None):
        raise ConfigError.at("model.model_type", "expected a string, found {}", shown(kind))
    if isinstance(kind, str) and kind in _BY_HAND:  # the derived types need not be read
        return config, ()
    if isinstance(kind, str) and _MARKS.search(kind) and renamed(config) is config:
        families = known_families()
        alike = kind if kind in families else next((each for each in families if _plain(each) == _plain(kind)), kind)
        return (config if alike == kind else {**config, "model_type": alike}), ()
    if not name or kind is not None:
        return config, ()
    own = _without_head(name)
    found = next((each for each in (*known_families(), *COUNTED) if own and _plain(each) == own), None)
    said = Message("found no model_type; {!r} is taken from architectures", found)
    return (config, ()) if found is None else ({**config, "model_type": found}, (said,))


def _plain(kind: str) -> str:
    """A type in small letters without marks: LFM2-VL's first files write `lfm2-vl`, transformers `lfm2_vl`."""
    return _MARKS.sub("", kind).lower()


_TEXTS = ("text_config", "llm_config", "language_config")
"""Parts that describe the language model of a composite."""


def _tied_by_text(config: Mapping[str, object]) -> Mapping[str, object]:
    """A composite's file of before transformers 5 that does not say whether the head is tied leaves it to its text.

    Sources: transformers 4.50, modeling_utils.py (`tie_weights` asks `get_text_config().tie_word_embeddings`) and 5.0,
    whose composites have a default of their own. Files of 5.0's first days do as those before: Ministral 3 of 3 B says
    it in its text alone, and of the 14 B the one in fp8 says False where that in bf16 says nothing; the checkpoints of
    Ministral 3 of 8 B and of GLM-ASR, which say nothing, have a head. transformers 5.23 would tie it, and does not if
    what it loads differs (modeling_utils.py, `tie_weights`).
    """
    release = config.get("transformers_version")
    if config.get("tie_word_embeddings") is not None or (
        isinstance(release, str) and not release.startswith(("3.", "4.", "5.0.0.dev"))
    ):
        return config
    text = next((part for key in _TEXTS if isinstance(part := config.get(key), Mapping)), None)
    kind = text.get("model_type") if text is not None else None
    kind = ALIASES.get(kind, kind) if isinstance(kind, str) else ""
    if text is None or kind not in FAMILIES or not FAMILIES[kind].ties:
        return config
    reader = Reader(text, FAMILIES[kind].like or kind, FAMILIES[kind].keys)
    tied = reader.flag("tie_word_embeddings")
    return config if reader.problems else {**config, "tie_word_embeddings": tied}


def _check_class(config: Mapping[str, object]) -> None:
    """Refuse classes of another network than their type's: drafts of a model, and code of a checkpoint's own."""
    name, model_type, code = first_class(config), config.get("model_type"), config.get("auto_map")
    if not isinstance(model_type, str) or not (model_type in FAMILIES or model_type in known_types()):
        return
    if _DRAFT.search(name):
        raise ConfigError.at(
            "model.architectures",
            "found {!r}, a draft model for speculative decoding; "
            "give the target model, and name this one as its draft model",
            name,
        )
    own = isinstance(code, Mapping) and any(str(each).endswith(f".{name}") for each in code.values())
    kind, prefix = _plain(model_type), _without_head(name)
    if own and own_family(config) is None and model_type not in REMOTE and prefix != kind and prefix.endswith(kind):
        raise ConfigError.at(
            "model.architectures",
            "found {!r}, whose code comes with its checkpoint and differs from transformers' {!r}",
            name,
            model_type,
        )


_LABELLED = re.compile(r"For(SequenceClassification|TokenClassification|RewardModeling|QuestionAnswering)$")
_BARE = re.compile(r"(?<!LMHead)(?<!DoubleHeads)Model$")
_HEADS_COUNTED = ("CausalLM", "ConditionalGeneration", "MaskedLM", "PreTraining", "Retrieval", "ActionPrediction")
"""Ends of class names whose heads are counted: heads over the vocabulary, and parts with rows of their own."""


_LABELS_OF_ANSWERS = ("gptj",)
"""Types whose answers to questions have as many scores as labels; others have two, for the first and the last word."""


def _scores(rows: Axis) -> tuple[Weight, ...]:
    """Return a head of two matrices with biases, whose last one has this many rows."""
    return (
        Weight("score.0.weight", (("h",), ("h",)), "head"),
        Weight("score.0.bias", (("h",),), "head"),
        Weight("score.2.weight", ((rows,), ("h",)), "head"),
        Weight("score.2.bias", ((rows,),), "head"),
    )


_OWN_HEADS: Mapping[str, tuple[Weight, ...]] = {
    "AgeGenderModel": (
        *(Weight(f"{head}.dense.weight", (("h",), ("h",)), "head") for head in ("age", "gender")),
        *(Weight(f"{head}.dense.bias", (("h",),), "head") for head in ("age", "gender")),
        Weight("age.out_proj.weight", ((1,), ("h",)), "head"),
        Weight("age.out_proj.bias", ((1,),), "head"),
        Weight("gender.out_proj.weight", (("labels",), ("h",)), "head"),
        Weight("gender.out_proj.bias", (("labels",),), "head"),
    ),
    "GPTNeoXRewardModel": (
        Weight("out_proj.weight", ((1,), ("h",)), "head"),
        Weight("out_proj.bias", ((1,),), "head"),
    ),
    "InternLM2ForRewardModel": (Weight("v_head.weight", ((1,), ("h",)), "head"),),
    "JinaForRanking": (
        Weight("projector.0.weight", (("half",), ("h",)), "head"),
        Weight("projector.2.weight", (("embedded",), ("half",)), "head"),
    ),
    "Qwen2ForProcessRewardModel": _scores("labels"),
    **dict.fromkeys(("JinaVLForRanking", "Qwen2ForRewardModel"), _scores(1)),
    "Wav2Vec2ForSpeechClassification": (
        Weight("classifier.dense.weight", (("h",), ("h",)), "head"),
        Weight("classifier.dense.bias", (("h",),), "head"),
        Weight("classifier.out_proj.weight", (("labels",), ("h",)), "head"),
        Weight("classifier.out_proj.bias", (("labels",),), "head"),
    ),
}
"""Heads whose code comes with their checkpoints, with their model card or with Open-Assistant (`reward_model.py`).

Those of Qwen's process reward model and of Jina's reranker are as vLLM has them (models/qwen2_rm.py, models/jina.py).
"""


def _own_head(config: Mapping[str, object]) -> tuple[Weight, ...]:
    """The head of a class of which transformers knows nothing."""
    hidden, embedded = config.get("hidden_size"), config.get("embedding_size")
    sizes: dict[Shape, Shape] = {
        ("labels",): (_labels(config),),
        ("half",): (hidden // 2 if type(hidden) is int else 1,),
        ("embedded",): (embedded if type(embedded) is int else 512,),
    }
    found = _OWN_HEADS[first_class(config)]
    return tuple(replace(each, axes=tuple(sizes.get(axis, axis) for axis in each.axes)) for each in found)


def _labels(config: Mapping[str, object]) -> int:
    labels = config.get("id2label")
    return len(labels) if isinstance(labels, Mapping) and labels else 2


def _with_head(model: Model, head: Sequence[Weight]) -> Model:
    """Return the model with another head than that for words."""
    around = model.network.embedding_and_head
    around = replace(around, predicts=False, others=(*around.others, *head))
    return replace(model, network=replace(model.network, embedding_and_head=around))


def headless(model: Model) -> Model:
    """Return the model without its head for words."""
    return _with_head(model, ())


def _of_class(model: Model, config: Mapping[str, object], *, own: bool = False) -> Model:
    """The network of the class that a file names: of one without words as results, with a score for each label.

    Source: transformers 5.23, modeling_layers.py (`GenericForSequenceClassification`, `GenericForTokenClassification`,
    `GenericForQuestionAnswering`).
    """
    name = first_class(config)
    labelled = _LABELLED.search(name)
    if name in _OWN_HEADS:
        return _with_head(model, _own_head(config))
    _, named, head = name.rpartition("For")
    if named and not labelled and head[:1].isupper() and not head.startswith(_HEADS_COUNTED):
        model = replace(model, warnings=(*model.warnings, Message("found {!r}, whose head is not counted", name)))
    if not labelled and (own or not _BARE.search(name)):
        return model
    count, asks = _labels(config), name.endswith("QuestionAnswering")
    if asks and model.network.family not in _LABELS_OF_ANSWERS:
        count = 2
    module = "qa_outputs" if asks else "score"
    score: tuple[Weight, ...] = (Weight(f"{module}.weight", ((count,), ("h",)), "head"),)
    if asks or "Token" in name:
        score += (Weight(f"{module}.bias", ((count,),), "head"),)
    return _with_head(model, score if labelled else ())


def _short(config: Mapping[str, object]) -> Model:
    """A few sizes, read as Llama's."""
    expanded, warning = expand(config)
    model = read_model(expanded)
    return replace(model, warnings=(warning,) if warning else ())


def known_families() -> tuple[str, ...]:
    """Every `model_type` that has a row."""
    return tuple(sorted({*_BY_HAND, *known_types()}))


def _unknown(config: Mapping[str, object]) -> Model:
    """A family without a row, read as Llama-like with a warning; what its keys leave open widens the range."""
    check_known(config)
    first, *others = as_llama(config, known_families())
    model_type = config.get("model_type")
    warning = Message(
        "family {!r} is unknown, so its keys were read as Llama's, with RMSNorm and a gated feed-forward "
        "layer; the range also allows for ungated feed-forward layers and, if the config leaves it open, "
        "tied embeddings",
        model_type,
    )
    return replace(read_model(first), warnings=(warning,), alternatives=tuple(others))


def _derived(config: Mapping[str, object], model_type: str) -> Model:
    """A derived network, its decoder by that one's own row if it has one and both have the same parameters."""
    config, added = completed(_nested(config, model_type))
    if added:
        _check_sections(config, model_type, added)
    found = _with_decoder(config, model_type)
    return replace(found, warnings=(_left_out(added), *found.warnings)) if added else found


def _check_sections(config: Mapping[str, object], model_type: str, added: Sequence[str]) -> None:
    """Refuse a file that lacks parts and has unknown ones instead: VibeVoice's first files are for other code."""
    known = derived()["keys"].get(model_type, "").split()
    others = [key for key, value in config.items() if isinstance(value, Mapping) and "model_type" in value]
    unknown = joined(", ", sorted({*others} - {*known, *derived()["parts"].get(model_type, {})}))
    if unknown.values:
        said = (
            "found {}, which its class in transformers does not know, and no {}; "
            "give a file that transformers has saved"
        )
        raise ConfigError.at("model", said, unknown, joined(", ", added))


def _nested(config: Mapping[str, object], model_type: str) -> Mapping[str, object]:
    """Keys of a language model that an older file has on top, where its class expects them."""
    part = derived()["parts"].get(model_type, {}).get("text_config")
    if part is None or "text_config" in config or not config.keys() >= _SIZES:
        return config
    inside = {key: value for key, value in config.items() if not isinstance(value, Mapping) or key.startswith("rope")}
    return {**config, "text_config": {**inside, "model_type": part["model_type"]}}


def _left_out(parts: Sequence[str]) -> Message:
    return Message("found no {}; the defaults of its class in transformers are used", joined(", ", parts))


def _with_decoder(config: Mapping[str, object], model_type: str) -> Model:
    found, inner = derived_model(config, model_type), text_within(config, model_type)
    kind = ALIASES.get(inner[1], inner[1]) if inner else ""
    if inner is None or kind not in FAMILIES:
        return found
    family = FAMILIES[kind]
    reader = Reader(inner[2], family.like or kind, family.keys, path=f"model.{inner[0]}")
    try:
        text = _language_model(reader, kind)
    except ConfigError:
        return found
    whole = _beside(text, derived_model(config, model_type, sizes=text.sizes))
    return found if whole is None else whole


def _beside(text: Model, found: Model) -> Model | None:
    """The decoder and what a derived network has besides, None where they do not fit together."""
    (before, _, last), (after, _, same) = (
        text.network.path.rpartition("layers"),
        found.network.path.rpartition("layers"),
    )
    embedding_and_head = found.network.embedding_and_head
    row = Composite(text="", towers=lambda whole, text: (), moved=(before, after), head=embedding_and_head.head.name)
    moved = _moved(text.network, row)
    own = {weight.name for weight in moved.embedding_and_head.weights()}
    rest = tuple(weight for weight in embedding_and_head.others if weight.name not in own)
    network = replace(
        moved,
        family=found.network.family,
        embedding_and_head=replace(
            moved.embedding_and_head, tied=embedding_and_head.tied, others=(*moved.embedding_and_head.others, *rest)
        ),
        towers=found.network.towers,
    )
    warnings = (*text.warnings, *(each for each in found.warnings if each not in ASSUMED), TOWERS)
    whole = replace(
        text,
        network=network,
        sizes=found.sizes,
        tower_repeats=found.tower_repeats,
        warnings=warnings if network.towers or rest else text.warnings,
    )
    fits = last == same and embedding_and_head.embedding.name == network.embedding_and_head.embedding.name
    return whole if fits and whole.parameters == found.parameters else None


def _composite(config: Mapping[str, object], model_type: str, row: Composite) -> Model:
    """A language model and its towers. Older files have the language model's keys on top."""
    if row.text_key not in config and not _SIZES & config.keys():
        whole_config, added = completed({**config, "model_type": model_type})
        if row.text_key not in added:
            message = "missing; add the part of the configuration that has this name"
            raise ConfigError.at(f"model.{row.text_key}", message)
        found = _composite(whole_config, model_type, row)
        return replace(found, warnings=(_left_out(added), *found.warnings))
    whole = Reader(config, model_type)
    nested = config.get(row.text_key, config)
    inner = nested.get("model_type") if isinstance(nested, Mapping) and nested is not config else None
    inner = None if inner == config.get("model_type") else ALIASES.get(inner, inner) if isinstance(inner, str) else None
    text = str(inner) if isinstance(inner, str) and inner in FAMILIES else row.text
    if isinstance(inner, str) and inner not in FAMILIES:
        allowed = ", ".join(sorted(FAMILIES))
        message = Message("found {!r}; known families: {}", inner, allowed)
        raise ConfigError([Problem(f"model.{row.text_key}.model_type", message, nearest(inner, FAMILIES))])
    family = FAMILIES[text]
    if nested is config:
        reader = Reader(config, family.like or text, family.keys, whole)
    else:
        reader = whole.sub(row.text_key, family.like or text, family.keys)
    key = family.keys.get("tie_word_embeddings", "tie_word_embeddings")
    sources = {"whole": (whole,), "text": (reader,), "either": (whole, reader)}[row.tied_by]
    tied = any(each.flag("tie_word_embeddings") for each in sources)
    reader.config = {**reader.config, key: tied}
    model, early = _language_model(reader, text), row.early(whole)
    if early > model.num_layers:
        reader.refuse(
            "num_hidden_layers", "found {}; the tower's features feed the first {} layers", model.num_layers, early
        )
        reader.check()
    model = _apart(model, early)
    towers = row.towers(whole, reader)
    whole.check()
    images = row.images(whole, reader) if row.images and towers else None
    whole.check()
    moved = _moved(model.network, row)
    warnings = (*model.warnings, *((row.warning,) if row.warning else ()))
    network = replace(moved, family=model_type, towers=tuple(tower for tower, _ in towers))
    repeats = tuple(each for _, each in towers)
    return replace(model, network=network, tower_repeats=repeats, images=images, warnings=warnings)


def _apart(model: Model, early: int) -> Model:
    """Return the model with its first layers as runs of their own."""
    network = model.network
    if not early or early >= model.num_layers:
        return model
    order = [layer for pattern, times in zip(network.runs, model.repeats, strict=True) for layer in pattern * times]
    kinds = list(dict.fromkeys(order))
    numbers = [kinds.index(layer) for layer in order]
    within = not any(kind.uses_shared_block for kind in kinds)
    found = [*compress(numbers[:early]), *compress(numbers[early:], within=within)]
    runs = tuple(tuple(kinds[kind] for kind in pattern) for pattern, _ in found)
    return replace(model, network=replace(network, runs=runs), repeats=tuple(times for _, times in found))


def _moved(network: Network, row: Composite) -> Network:
    """Return the language model's tensors under the names that they have in a model with towers."""
    before, after = row.moved

    def renamed(name: str) -> str:
        return name.replace(before, after, 1) if name.startswith(before) else name

    def weight(one: Weight) -> Weight:
        return replace(one, name=renamed(one.name))

    embedding_and_head, last = network.embedding_and_head, network.embedding_and_head.final_norm
    return replace(
        network,
        path=renamed(network.path),
        embedding_and_head=replace(
            embedding_and_head,
            embedding=weight(embedding_and_head.embedding),
            positions=None if embedding_and_head.positions is None else weight(embedding_and_head.positions),
            final_norm=None if last is None else replace(last, name=renamed(last.name)),
            head=replace(embedding_and_head.head, name=row.head),
            others=tuple(weight(each) for each in embedding_and_head.others),
        ),
    )


_STATED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")
"""Keys without a default that is known where a family's code comes with its checkpoints."""


def _language_model(reader: Reader, model_type: str) -> Model:
    family = FAMILIES[model_type]
    for key, value in family.only.items():
        if reader.value(key) not in (None, value):
            reader.refuse(
                key, "found {}, but only {} is supported for this family", shown(reader.value(key)), shown(value)
            )
    for key in _STATED if model_type in REMOTE else ():
        if not reader.states(key):
            reader.refuse(key, "missing; this family's code comes with its checkpoints, which give the key a value")
    reader.symbol("h", reader.integer("hidden_size"))
    reader.symbol("V", reader.integer("vocab_size"))
    reader.symbol("P", reader.integer("max_position_embeddings", 4096) + family.position_offset)
    reader.check()
    kinds, order = _layers(reader, family)
    reader.check()
    found = compress(order, within=not any(kind.uses_shared_block for kind in kinds))
    runs = tuple(tuple(kinds[kind] for kind in pattern) for pattern, _ in found)
    different = sum(len(pattern) for pattern in runs)
    if different > DIFFERENT:
        reader.refuse(
            "num_hidden_layers",
            "found {} layers without a repeating pattern; at most {} layers are supported",
            different,
            DIFFERENT,
        )
    network = Network(model_type, family.path, runs, _embedding_and_head(reader, family), sdpa=family.sdpa)
    reader.check()
    window = reader.value("sliding_window")
    return Model(
        name="",
        network=network,
        repeats=tuple(repeats for _, repeats in found),
        sizes=reader.sizes,
        window=window if isinstance(window, int) else None,
        rope_scaling=_rope_scaling(reader.config),
        published_extras=published_extras(reader, family, kinds, order),
        warnings=(family.warning,) if family.warning else (),
    )


def _rope_scaling(config: Mapping[str, object]) -> str | None:
    """The type of scaling of rotary frequencies, that of full attention where each kind of layer has its own."""
    for key in ("rope_scaling", "rope_parameters"):
        if key in config:
            found = config[key]
            found = found.get("full_attention", found) if isinstance(found, Mapping) else {}
            kind = found.get("rope_type", found.get("type")) if isinstance(found, Mapping) else None
            return kind if isinstance(kind, str) else "default"
    return None


def _layers(reader: Reader, family: Family) -> tuple[list[Layer], list[int]]:
    """Every kind of layer, and which kind each layer is."""
    places, ffns = family.mixer_plan(reader), family.ffn_plan(reader)
    _check_parts(reader, family, places, ffns)
    reader.check()
    numbers: dict[object, int] = {}
    kinds: dict[Layer, int] = {}
    order = []
    for index, (place, ffn, values) in enumerate(zip(places, ffns, _own_values(reader, len(places)), strict=True)):
        key = (place, ffn, values)
        if key not in numbers:
            reader.layer = index
            numbers[key] = kinds.setdefault(_layer(reader, family, place, ffn), len(kinds))
        order.append(numbers[key])
    reader.layer = None
    return list(kinds), order


def _check_parts(reader: Reader, family: Family, places: Sequence[Place], ffns: Sequence[str | None]) -> None:
    """Refuse kinds of layers that a file lists and the family does not have."""
    key = next((each for each in ("layers_block_type", "layer_types") if reader.states(each)), "layer_types")
    mixers = {place.mixer for place in places if place.mixer} - set(family.mixers)
    if mixers:
        allowed = joined(", ", (word for word, place in TYPES.items() if place.mixer in family.mixers))
        kind = Message("found layers with {} mixers, which the family does not have", min(mixers))
        reader.refuse(key, "{}; allowed: {}", kind, allowed)
    others = {ffn for ffn in ffns if ffn} - set(family.ffns)
    if others:
        reader.refuse(
            "mlp_layer_types",
            "found {} feed-forward layers, which the family does not have; allowed: {}",
            min(others),
            joined(", ", family.ffns),
        )


def _own_values(reader: Reader, count: int) -> list[object]:
    """What a file lists for each layer, so that layers that differ in a size are read apart."""
    shared = reader.value("num_kv_shared_layers")
    own = count - shared if isinstance(shared, int) else count
    listed = [each for each in reader.lists if len(each) >= count]
    return [(index >= own, *(each[index] for each in listed)) for index in range(count)]


def _layer(reader: Reader, family: Family, place: Place, ffn: str | None) -> Layer:
    mixer: Mixer | None = None
    if place.mixer is not None:
        mixer = family.mixers[place.mixer].read(reader, place.mask, rotates=place.rotates)
    second = family.second_mixer(place) if family.second_mixer else None
    second_ffn = family.second_ffn
    if second_ffn is not None and family.second_if is not None and not reader.value(family.second_if):
        second_ffn = None
    names = family.norms(reader, place) if callable(family.norms) else family.norms
    bias = reader.flag(family.norm_bias)
    return Layer(
        mixer=mixer,
        feed_forward=family.ffns[ffn].read(reader) if ffn else None,
        residual=family.residual(reader, place) if callable(family.residual) else family.residual,
        norms=tuple(Norm(name, family.norm, ("h",), bias, fused=reader.value("norm") != "composite") for name in names),
        dropout=reader.number("hidden_dropout", 0.0),
        second_mixer=second.read(reader, "full", rotates=True) if second else None,
        second_feed_forward=second_ffn.read(reader) if second_ffn else None,
        extra=family.more(reader, place) if family.more else None,
        order=family.order,
    )


def _embedding_and_head(reader: Reader, family: Family) -> EmbeddingAndHead:
    rows = reader.symbol("V", family.embedding_rows(reader)) if family.embedding_rows else "V"
    bias = reader.flag(family.norm_bias)

    def norm(name: str) -> Norm:
        return Norm(name, family.norm, ("h",), bias, fused=reader.value("norm") != "composite")

    last = family.final_norm(reader) if callable(family.final_norm) else family.final_norm
    width = "h"
    if reader.has("word_embed_proj_dim"):
        width = reader.symbol("h", reader.integer("word_embed_proj_dim"))
    projections = family.projections(reader) if family.projections else ()
    return EmbeddingAndHead(
        embedding=Weight(f"{family.embedding}.weight", ((rows,), (width,)), "embedding"),
        positions=Weight(f"{family.positions}.weight", (("P",), ("h",)), "position") if family.positions else None,
        embedding_norm=norm(family.embedding_norm) if family.embedding_norm else None,
        final_norm=norm(last) if last else None,
        head=Linear(family.head, ("V",), (width,), reader.flag(family.head_bias)),
        tied=family.ties and reader.flag("tie_word_embeddings"),
        embedding_scaled=family.embedding_scaled,
        embedding_multiplied=family.embedding_multiplied,
        embedding_dropout=reader.number("embedding_dropout", 0.0),
        head_softcap=family.softcap is not None and reader.value(family.softcap) is not None,
        head_scaled=family.head_scaled,
        head_upcast=family.head_upcast,
        project_out=projections[0] if projections else None,
        project_in=projections[1] if projections else None,
        others=family.others(reader) if family.others else (),
        start=family.start,
    )
