"""The short form of a model: a few sizes instead of a `config.json`, read as Llama's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memcore.errors import ConfigError, Problem, nearest
from memcore.limits import INTEGER
from memcore.messages import Message, joined
from memcore.symbols import round_up
from memcore.units import shown

KEYS: Mapping[str, str] = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "max_seq_len": "max_position_embeddings",
    "tie_word_embeddings": "tie_word_embeddings",
}
"""Names of the short form, and what Llama's `config.json` calls them."""
_OTHERS = ("name", "num_parameters")
_DEPTH = 128
"""Hidden size for each layer: 4096 over 32 in Llama 7B, 5120 over 40 in 13B, 8192 over 80 in 70B."""
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*([kmbt]?)\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_MOST = 10**22
"""Parameters of the largest network whose layers still have sizes that are read."""
_VOCABULARY, _HEAD = 32_000, 128
"""Llama 2's vocabulary and head width."""


def is_short(config: Mapping[str, object]) -> bool:
    """Return whether this is the short form."""
    return "model_type" not in config and ("num_parameters" in config or "num_layers" in config)


def expand(short: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Return the `config.json` that a short form stands for, and a warning about what was assumed.

    Raises ConfigError naming unknown keys, or sizes that are missing.
    """
    allowed = (*KEYS, *_OTHERS)
    problems = [
        Problem(
            f"model.{key}",
            Message("unknown; a model needs a model_type, or keys of the short form: {}", joined(", ", allowed)),
            nearest(key, allowed),
        )
        for key in short
        if key not in allowed and not key.startswith("_")
    ]
    if problems:
        raise ConfigError(problems)
    given = {KEYS[key]: value for key, value in short.items() if key in KEYS and value is not None}
    total = _total(short.get("num_parameters"))
    if total is not None and not {"num_hidden_layers", "hidden_size"} & set(given):
        return _shaped(total, given)
    missing = [name for name, key in list(KEYS.items())[:3] if key not in given]
    if missing:
        raise ConfigError.at("model", "the short form needs num_parameters or {}", joined(", ", missing))
    assumed = {"vocab_size": _VOCABULARY, "intermediate_size": _width(given["hidden_size"])}
    config: dict[str, object] = {"model_type": "llama", **assumed, **given}
    taken, more = {name: value for name, value in assumed.items() if name not in given}, ""
    stated, counted = short.get("num_parameters"), _parameters(config)
    sized = all(_size(config, key) for key in _COUNTED)
    if total is not None and sized and _differs(stated, total, counted):
        if "intermediate_size" in given:
            more = Message("its sizes give {:,} parameters, but num_parameters is {}", counted, stated)
        else:
            config["intermediate_size"] = _fitting(config, total)
            width = taken.pop("intermediate_size")
            more = Message(
                "assumed intermediate_size {} for {} parameters; Llama 2's rule gives {}, for a total of {:,}",
                config["intermediate_size"],
                stated,
                width,
                counted,
            )
    words = (
        Message("assumed like Llama 2: {}", joined(", ", (f"{name} {value}" for name, value in taken.items())))
        if taken
        else ""
    )
    return config, joined("; ", filter(None, (words, more)))


def _total(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return None
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    total = int(min(float(match[1]), 2.0 * _MOST) * _UNITS[match[2].lower()]) if match else value
    if not isinstance(total, int) or isinstance(total, bool) or total < 1:
        raise ConfigError.at(
            "model.num_parameters", "expected a number of parameters such as 7B or 350M, found {}", shown(value)
        )
    if total > _MOST:
        raise ConfigError.at("model.num_parameters", "expected at most {:g}, found {}", _MOST, shown(value))
    return total


def _parameters(config: Mapping[str, object]) -> int:
    """Return the parameters of a Llama of these sizes."""
    depth, hidden, width, words = (_size(config, key) for key in _COUNTED)
    heads = _size(config, "num_attention_heads")
    width_of_head = _size(config, "head_dim") or hidden // max(heads, 1)
    pairs = heads + (_size(config, "num_key_value_heads") or heads)
    outer = hidden + (1 if config.get("tie_word_embeddings") else 2) * words * hidden
    return depth * (2 * pairs * width_of_head * hidden + 3 * hidden * width + 2 * hidden) + outer


_COUNTED = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")


def _size(config: Mapping[str, object], key: str) -> int:
    """Return a size; zero for what is none, and refused with the rest of the config."""
    found = config.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= INTEGER else 0


def _differs(stated: object, total: int, counted: int) -> bool:
    """Return whether a count is more than a tenth from what is stated, or rounds to other digits than that has."""
    digits = re.match(r"\d+(?:\.(\d+))?", str(stated))
    if digits is None or isinstance(stated, int | float):
        unit = 10.0 ** (len(str(total)) - len(str(total).rstrip("0")))
    else:
        unit = total / float(digits[0]) / 10 ** len(digits[1] or "")
    return abs(counted - total) > min(unit / 2, total / 10)


def _fitting(config: Mapping[str, object], total: int) -> int:
    """Return the feed-forward width, a multiple of 64, that comes nearest to a number of parameters."""
    depth, hidden, width, _ = (_size(config, key) for key in _COUNTED)
    return max(64, round((width + (total - _parameters(config)) / (3 * depth * hidden)) / 64) * 64)


def _width(hidden: object) -> int:
    """Return two thirds of four times the hidden size, rounded up to a multiple of 256 (Llama's own rule)."""
    return round_up(-(-8 * hidden // 3), 256) if isinstance(hidden, int) else 0


def _shaped(total: int, given: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """Return a network of Llama's proportions with about this many parameters."""
    words = _size(given, "vocab_size") or _VOCABULARY
    layers = min(range(1, 513), key=lambda depth: abs(_count(depth, words) - total))
    hidden = _DEPTH * layers
    rest = total - _count(layers, words)
    width = max(256, _width(hidden) + round(rest / (3 * hidden * layers) / 64) * 64)
    config = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": hidden // _HEAD,
        "intermediate_size": width,
        "vocab_size": words,
        **given,
    }
    sizes = Message("{} layers, hidden size {}, feed-forward {}, vocabulary {}", layers, hidden, width, words)
    return config, Message("only the number of parameters is given, so Llama's proportions are assumed: {}", sizes)


def _count(layers: int, words: int) -> int:
    hidden = _DEPTH * layers
    return layers * (4 * hidden * hidden + 3 * hidden * _width(hidden) + 2 * hidden) + hidden + 2 * words * hidden
