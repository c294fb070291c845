"""Configs of families that are not in the tables: read as Llama-like where their keys allow it, else refused."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memcore.errors import ConfigError, Problem, nearest
from memcore.limits import NAME_LENGTH
from memcore.messages import Message, joined
from memcore.networks.derived import derived
from memcore.units import shown

ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"),
    "vocab_size": ("vocab_size",),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "tie_word_embeddings": ("tie_word_embeddings",),
    "attention_bias": ("attention_bias",),
    "mlp_bias": ("mlp_bias",),
}
"""Names that one size has in different families; the first five are needed."""
_NEEDED = 5
_FOREIGN = re.compile(
    r"expert|moe(_|$)|router|(^|_)ssm|mamba|lora_rank|linear_(num|attn|conv|key|value)|conv|vision|audio|img_|image_|embd_layer|speech|cross_att"
    r"|encoder_|recurrent|mb_per|hybrid|block_configs|altup|laurel|indexer|index_n|hc_mult|text_config|llm_config"
    r"|type_vocab_size|num_hidden_groups|inner_group_num|pooler|bottleneck|entity_|max_2d_position|relative_attention"
)
"""Keys that tell of parts which Llama does not have."""
_EMBEDDED = re.compile(r"embedding_size|embedding_dim|embed_dim|word_embed_proj_dim")
"""Keys of an embedding's width, which is that of Llama's layers."""
_ARCHITECTURE = re.compile(r"CausalLM|LMHead|LanguageModel|DoubleHeads")
"""What the name of a decoder's class contains."""
_PLAIN_LAYERS = {"full_attention", "sliding_attention", "attention"}


USES: Mapping[str, Message | None] = {
    "": None,
    "images": Message("images"),
    "sounds": Message("sounds"),
    "time series": Message("time series"),
    "videos": Message("videos"),
}
"""What unsupported families of transformers work on."""


def check_known(config: Mapping[str, object]) -> None:
    """Refuse a family of transformers that is not supported, and say which are.

    Raises ConfigError.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in derived().get("others", {}):
        return
    use = USES[derived()["others"][model_type]]
    found = (
        Message("found {!r}, a family of transformers that is not supported yet", model_type)
        if use is None
        else Message("found {!r}, a family of transformers for {} that is not supported yet", model_type, use)
    )
    said = "{}; memcore answers for language models and for those encoders that `memcore models --families` lists"
    raise ConfigError.at("model.model_type", said, found)


_TEXTS = ("text_config", "llm_config", "language_config")
"""Parts of a file that describe a language model."""


def as_llama(config: Mapping[str, object], known: tuple[str, ...]) -> tuple[dict[str, object], ...]:
    """The config as Llama's, and further readings of what its keys leave open: plain feed-forward layers, tied heads.

    Raises ConfigError naming the keys that are missing, or those that tell of other parts.
    """
    found = {name: config[key] for name, keys in ALIASES.items() for key in keys if config.get(key) is not None}
    missing = [name for name in list(ALIASES)[:_NEEDED] if name not in found]
    width = found.get("hidden_size")
    foreign = sorted(key for key, value in config.items() if _tells(key, value) or _embeds(key, value, width))
    if not _decodes(config.get("architectures")):
        foreign.append("architectures")
    if missing or foreign:
        raise ConfigError([_refusal(config, known, missing, foreign)])
    llama: dict[str, object] = {"model_type": "llama", **found}
    readings = [llama, {**llama, "model_type": "arcee"}]
    if "tie_word_embeddings" not in found:
        readings += [{**each, "tie_word_embeddings": True} for each in readings]
    return tuple(readings)


def _tells(key: str, value: object) -> bool:
    """Return whether a key tells of parts that Llama does not have."""
    if key == "layer_types":
        return not (isinstance(value, list) and all(str(each) in _PLAIN_LAYERS for each in value))
    nothing = value is None or value in (False, 0, [])
    return bool(_FOREIGN.search(key)) and not nothing


def _embeds(key: str, value: object, width: object) -> bool:
    """Return whether embeddings have another width than layers."""
    return bool(_EMBEDDED.fullmatch(key)) and value is not None and value != width


def _decodes(architectures: object) -> bool:
    """Return whether the classes that a file names are decoders with a head, as far as it names any."""
    named = [each for each in architectures if isinstance(each, str)] if isinstance(architectures, list) else []
    return not named or any(map(_ARCHITECTURE.search, named))


def _refusal(config: Mapping[str, object], known: tuple[str, ...], missing: list[str], foreign: list[str]) -> Problem:
    model_type = config.get("model_type")
    inside = next((key for key in _TEXTS if isinstance(config.get(key), Mapping)), None)
    if inside is not None:
        why = Message("give what is inside of {} as the model to have its language model alone", inside)
    elif missing:
        why = Message("it cannot be read like Llama: missing {}", joined(", ", missing))
    else:
        why = Message("it has parts that Llama does not have: {}", joined(", ", foreign))
    message = Message(
        "unknown family {}, not among the {} supported (`memcore models --families`); {}",
        shown(model_type),
        len(known),
        why,
    )
    return Problem(
        "model.model_type", message, nearest(model_type[:NAME_LENGTH], known) if isinstance(model_type, str) else None
    )
