"""How far a server is told that a model's positions reach: what it takes instead of parts of its config.json.

Sources: vllm, config/model.py (`hf_overrides`, and `rope_scaling` before 0.12; `_get_and_verify_max_len`) and envs.py
(`VLLM_ALLOW_LONG_MAX_MODEL_LEN`); sglang, srt/utils/hf_transformers_utils.py (`model_override_args`,
`get_context_length`) and srt/environ.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memcore.messages import Message, joined
from memcore.records import dataclass
from memcore.untrusted import parse_json

POSITIONS, LONGER = "*positions", "*longer"
_MOST = "max_position_embeddings"
_ROPE = ("rope_parameters", "rope_scaling")
_ORIGINAL = "original_max_position_embeddings"
_OF_ROTATION = frozenset({*_ROPE, _MOST, _ORIGINAL, "rope_theta"})
"""Keys of a config.json that change no size, except where the longest sequence follows from them."""
_TRUE = ("1", "true", "yes")


@dataclass(frozen=True, slots=True)
class Overrides:
    """Where a server is told so."""

    whole: str
    """The flag that replaces keys of config.json."""
    rope: str | None
    """The flag that replaces its `rope_scaling` alone."""
    variable: str
    """What in its environment allows longer sequences than the model's."""
    multiplies: bool
    """YaRN's factor times its original length is the longest sequence; else `max_position_embeddings` says it."""


_HARMLESS = frozenset({"architectures", "model_type", "dtype", "torch_dtype", "use_cache"})
"""Keys of config.json that servers' users change for another class of the same network."""
VLLM = Overrides("--hf-overrides", "--rope-scaling", "*env.VLLM_ALLOW_LONG_MAX_MODEL_LEN", True)
SGLANG = Overrides("--json-model-override-args", None, "*env.SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", False)


def stretched(normalized: dict[str, Any], told: Overrides) -> tuple[dict[str, Any], tuple[Message, ...]]:
    """Return a server's flags with the longest sequence that its overrides give, and whether it takes longer ones."""
    allowed = normalized.pop(told.variable, None)
    if str(allowed).lower() in _TRUE:
        normalized[LONGER] = True
    place = told.rope if told.rope in normalized else told.whole
    given, rest = _taken(normalized, told)
    if not given:
        left = [f"{told.whole}.{name}" for name in rest if name not in _HARMLESS]
        message = "{} may affect memory but is not supported yet: ignored"
        return normalized, (Message(message, joined(", ", left)),) if left else ()
    if rest:
        normalized[told.whole] = json.dumps(rest)
    rope = next((given[name] for name in _ROPE if isinstance(given.get(name), Mapping)), None)
    most = given.get(_MOST)
    if rope is not None:
        most = _of_yarn(rope) if told.multiplies else most
        if most is None and (told.multiplies or _ORIGINAL not in rope):
            normalized.setdefault(LONGER, True)
            said = (
                "{}: how far these rotary positions reach is not known; longer sequences than the model's own are taken"
            )
            return normalized, (Message(said, place),)
    if isinstance(most, int):
        normalized[POSITIONS] = most
    return normalized, ()


def _taken(normalized: dict[str, Any], told: Overrides) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what overrides say of rotary positions, taken from the flags, and the rest; none of what is not JSON."""
    given: dict[str, Any] = {}
    whole = _read(normalized, told.whole)
    for place in (whole, whole.get("text_config")):
        given |= (
            {name: each for name, each in place.items() if name in _OF_ROTATION} if isinstance(place, Mapping) else {}
        )
    if told.rope is not None and (rope := _read(normalized, told.rope)):
        given["rope_scaling"] = rope
        _drop(normalized, told.rope)
    if whole:
        _drop(normalized, told.whole)
    rest = {name: each for name, each in whole.items() if name not in _OF_ROTATION}
    if isinstance(rest.get("text_config"), Mapping):
        inner = {name: each for name, each in rest.pop("text_config").items() if name not in _OF_ROTATION}
        rest |= {"text_config": inner} if inner else {}
    return given, rest


def _read(normalized: Mapping[str, Any], flag: str) -> dict[str, Any]:
    """Return the object of a flag: JSON, an object of a file, or one flag for each of its keys.

    >>> _read({"--rope-scaling.factor": 4.0, "--rope-scaling.rope_type": "yarn"}, "--rope-scaling")
    {'factor': 4.0, 'rope_type': 'yarn'}
    """
    value = normalized.get(flag)
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return {}
    found: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    for name, each in normalized.items():
        if name.startswith(f"{flag}."):
            *above, last = name[len(flag) + 1 :].split(".")
            place = found
            for part in above:
                place = place.setdefault(part, {})
            place[last] = each
    return found


def _drop(normalized: dict[str, Any], flag: str) -> None:
    for name in [each for each in normalized if each == flag or each.startswith(f"{flag}.")]:
        del normalized[name]


def _of_yarn(rope: Mapping[str, Any]) -> int | None:
    """Return the longest sequence with YaRN, whose original length vLLM multiplies; None for other kinds.

    >>> _of_yarn({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})
    131072
    """
    original, factor = rope.get(_ORIGINAL), rope.get("factor")
    if rope.get("rope_type", rope.get("type")) != "yarn" or not isinstance(original, int):
        return None
    return int(original * factor) if isinstance(factor, (int, float)) else None


def spelled(most: int) -> str:
    """Return the override that gives a server its longest sequence.

    >>> spelled(131072)
    '{"max_position_embeddings": 131072}'
    """
    return json.dumps({_MOST: most})
