"""The catalog: well-known checkpoints by hub id or nickname, from `data/catalog.json`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pkgutil import get_data
from typing import Any

from memcore.errors import ConfigError, Problem, meaning, nearest
from memcore.messages import Message, joined
from memcore.networks.named import Named, for_mlx, meant, meant_otherwise, plain, same_maker
from memcore.networks.named import named as named_by
from memcore.networks.network import Model
from memcore.networks.read import read_model


@lru_cache(maxsize=1)
def catalog() -> Mapping[str, Mapping[str, Any]]:
    """Return every entry by hub id: `config`, `parameters`, the exact count; `licence` and `dtype`, if known."""
    # get_data also reads from a wheel that has not been unpacked.
    found: Mapping[str, Mapping[str, Any]] = json.loads(get_data("memcore", "data/catalog.json") or b"{}")
    return found


def nickname(hub_id: str) -> str:
    """The short name of a hub id: `llama-3.1-8b` for `meta-llama/Llama-3.1-8B`."""
    return hub_id.rpartition("/")[2].lower()


@lru_cache(maxsize=1)
def _names() -> Mapping[str, str]:
    """Hub ids by every name they are found under."""
    return {name: hub_id for hub_id in catalog() for name in (nickname(hub_id), hub_id.lower())}


def listed_name(name: str) -> str:
    """Return the hub id that the catalog lists a name under, or the name itself."""
    return _names().get(name.strip().lower(), name)


def full_name(name: str, *, serves: bool = False) -> str:
    """Return the hub id that a name stands for, also to a server; others, folders and unknown names stay as they are.

    >>> full_name("gemma-3-27b"), full_name("unsloth/Qwen3-8B"), full_name("Qwen3-8B-AWQ")
    ('google/gemma-3-27b-pt', 'unsloth/Qwen3-8B', 'Qwen3-8B-AWQ')
    """
    found = listed_name(name)
    if found == name and "/" not in name and (meant := named(name)) and meant.format is None:
        return for_serving(meant).base if serves else meant.base
    return found


_ANSWERS, _RAW = re.compile(r"[-_](instruct|it|chat)\b", re.IGNORECASE), re.compile(r"-(base|pt)\b", re.IGNORECASE)


def for_serving(meant: Named) -> Named:
    """Return what a short name means to a server: of the models that it may mean, the first that follows instructions.

    >>> for_serving(identified("gemma 3 27b")).base, for_serving(identified("smollm3")).base
    ('google/gemma-3-27b-it', 'HuggingFaceTB/SmolLM3-3B')
    """
    known = (meant.base, *meant.others)
    tuned = [each for each in known if _ANSWERS.search(each)] or [each for each in known if not _RAW.search(each)]
    plain_answers = not meant.others or f"{meant.base}-Base" in meant.others
    base = meant.base if plain_answers else next(iter(tuned), meant.base)
    return replace(meant, base=base, others=tuple(each for each in known if each != base))


MATCHES = (
    "part of an id, of a hub id or of a family, a size such as 8b, >30b or <=9b, active parameters such as active<4b, "
    "a length such as context>=128k, a licence such as apache-2.0, "
    "or moe, hybrid, vision, audio, embedding or seq2seq"
)
"""What a word of a query may be."""
_SIZE = re.compile(r"(active)?(<=|>=|<|>)(\d+(?:\.\d+)?)([kmbt]?)")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def search(query: str) -> Mapping[str, Mapping[str, Any]]:
    """The entries of the catalog that match every word of a query.

    >>> list(search("qwen3 moe >450b"))
    ['Qwen/Qwen3-Coder-480B-A35B-Instruct']
    >>> list(search("olmo context>=64k >30b"))
    ['allenai/Olmo-3-1125-32B', 'allenai/Olmo-3-32B-Think', 'allenai/Olmo-3.1-32B-Instruct']
    >>> list(search("qwen3.5 moe active<4b")), list(search("olmo hybrid"))
    (['Qwen/Qwen3.5-35B-A3B'], ['allenai/Olmo-Hybrid-7B'])
    >>> list(search("audio <1b"))[0], list(search("qwen3 embedding >5b"))
    ('distil-whisper/distil-large-v3', ['Qwen/Qwen3-Embedding-8B', 'Qwen/Qwen3-VL-Embedding-8B'])
    """
    words = sorted(query.lower().split(), key=lambda word: word.startswith("active"))  # the slowest last
    return {hub_id: entry for hub_id, entry in catalog().items() if all(_matches(w, hub_id, entry) for w in words)}


_RECURRENT = re.compile(
    r"(mamba|linear|ssm)_\w+|attn_layer_(period|offset)|hybrid_override_pattern|linear_attn_config|conv_L_cache|"
    r"layer_group_size|lru_width"
)
"""Keys of layers that keep a state instead of keys and values."""
_EXPERTS = re.compile(r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts")
_EMBEDS = re.compile(r".*(?<!Chat)(?<!MT)(?<!Omni)(?<!GLM)(?<!CLIP)Model")
"""Classes whose results are no words."""
_PURPOSES: Mapping[str, re.Pattern[str]] = {
    "vision": re.compile(r"vision_config|visual|mm_vision_tower|siglip_config"),
    "audio": re.compile(r"audio_config|audio|num_mel_bins|thinker_config"),
    "seq2seq": re.compile(r"(num_)?decoder_layers|decoder|d_kv"),
}


def _purposes(config: Mapping[str, Any]) -> Iterator[str]:
    """What a model is for, as its keys tell."""
    yield from (purpose for purpose, keys in _PURPOSES.items() if any(map(keys.fullmatch, config)))
    inner = [part for part in config.values() if isinstance(part, dict)]
    if any(_EXPERTS.fullmatch(key) and _several(value) for part in (config, *inner) for key, value in part.items()):
        yield "moe"
    if any(_RECURRENT.fullmatch(key) for part in (config, *inner) for key in part) and config["model_type"] != "mamba":
        yield "hybrid"
    if any(map(_EMBEDS.fullmatch, config.get("architectures", ()))):
        yield "embedding"


def _several(value: object) -> bool:
    """Whether there is more than one expert; ERNIE 4.5 VL lists those of words and of images."""
    return any(type(each) is int and each > 1 for each in (value if isinstance(value, list) else (value,)))


_LICENCE = re.compile(r"licen[cs]e:(.+)")
_LENGTH = re.compile(r"(?:context|ctx)(<=|>=|<|>)(\d+)([km]?)")
_LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_sequence_length",
    "max_target_positions",
)  # fmt: skip
_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")


def _length(config: Mapping[str, Any]) -> int | None:
    """The longest sequence that a configuration states, that of its language model first."""
    inner = (_length(part) for key in _PARTS if isinstance(part := config.get(key), dict))
    own = (config.get(key) for key in _LENGTHS)
    return next((each for each in (*inner, *own) if isinstance(each, int)), None)


def _long(found: re.Match[str], config: Mapping[str, Any]) -> bool:
    """Whether a length is on the right side of one such as 128k, which is anything from 128,000 to 131,072 tokens."""
    power, length = {"": 0, "k": 1, "m": 2}[found[3]], _length(config)
    least, most = (int(found[2]) * each**power for each in (1000, 1024))
    limit = least if found[1] in (">=", "<") else most
    return length is not None and _COMPARE[found[1]](length, limit)


def _matches(word: str, hub_id: str, entry: Mapping[str, Any]) -> bool:
    size, length, licence = _SIZE.fullmatch(word), _LENGTH.fullmatch(word), _LICENCE.fullmatch(word)
    terms = entry.get("licence", "")
    if licence is not None:
        return bool(terms == licence[1])
    if length is not None:
        return _long(length, entry["config"])
    if size is None:
        said = f"{hub_id} {entry['config']['model_type']} {' '.join(_purposes(entry['config']))}".lower()
        if word[0].isdigit():  # 7b is not a part of 27b
            return re.search(rf"(?<![\d.]){re.escape(word)}", said) is not None
        return word in said or f"{terms}-".startswith(f"{word}-")
    limit = float(size[3]) * {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}[size[4]]
    return _COMPARE[size[2]](_from_catalog(hub_id).active_parameters if size[1] else entry["parameters"], limit)


def find_model(model: str | Mapping[str, object]) -> Model:
    """The model of a config: a name, or the content of a config.json; of a repository that quantizes it, the network.

    Raises ConfigError with the nearest id, or naming the keys that cannot be understood.
    """
    return _from_catalog(identified(model).base) if isinstance(model, str) else _read(_as_text(_whole(model)))


_ELSEWHERE = {"text_model_id": "text_config", "audio_model_id": "audio_config"}
"""Keys that name another repository's model, and the key of its configuration (Ultravox)."""


def _whole(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return a file with the configurations of the parts that it only names by their repositories.

    Raises ConfigError with the nearest id.
    """
    named = {part: config[key] for key, part in _ELSEWHERE.items() if isinstance(config.get(key), str)}
    if config.get("model_type") != "ultravox" or not named:
        return config
    return {**config, **{part: content_of(str(name)) for part, name in named.items()}}


def content_of(model: str | Mapping[str, object]) -> Mapping[str, object]:
    """The content of a model's config.json, that of the catalog for a name.

    Raises ConfigError with the nearest id.
    """
    return catalog()[identified(model).base]["config"] if isinstance(model, str) else model


@lru_cache(maxsize=1)
def _plain_names() -> Mapping[str, str]:
    """Hub ids by their names without marks, where only one has it."""
    found: dict[str, list[str]] = {}
    for hub_id in catalog():
        found.setdefault(plain(nickname(hub_id)), []).append(hub_id)
    return {name: hub_ids[0] for name, hub_ids in found.items() if len(hub_ids) == 1}


@lru_cache(maxsize=256)
def named(name: str) -> Named | None:
    """The model and the format behind a name that the catalog has not; None where neither is known.

    >>> named("RedHatAI/Qwen3-8B-FP8-dynamic").format, named("unsloth/Qwen3-8B").base, named("llama3-8b").base
    ('fp8-channel', 'Qwen/Qwen3-8B', 'meta-llama/Meta-Llama-3-8B')
    >>> named("somebody/something-else") is None
    True
    """
    found = named_by(name, _found) or _shortened(name)
    return None if found is not None and _another(name, found.base) else found


_AS_LARGE = 0.03
"""How much the sizes of models may differ that one short name stands for."""


_ABOUT = 0.08
"""How much a size in a name may differ from the model's: `phi4:14b` has 14.7 billion parameters."""


def _shortened(name: str) -> Named | None:
    """What a name without its version or purpose usually means, if all models that it may mean are as large."""
    maker, _, last = name.rpartition("/")
    nicknames = [each for each, hub_id in _short_names() if not maker or same_maker(maker, hub_id.partition("/")[0])]
    for short, size in ((meant(last, nicknames), None), *meant_otherwise(last, nicknames)):
        found = [_names()[each] for each in short]
        if size is not None:
            if meaning(last, nicknames):  # llama-70b: models of just that size have the words, too
                return None
            found = [each for each in found if abs(catalog()[each]["parameters"] - size * 1e9) < _ABOUT * size * 1e9]
        sizes = [catalog()[each]["parameters"] for each in found]
        if found:
            alike = max(sizes) <= (1 + _AS_LARGE) * min(sizes)
            return Named(found[0], None, "", tuple(found[1:])) if alike else None
    return None


def _short_names() -> Iterator[tuple[str, str]]:
    return ((nickname(hub_id), hub_id) for hub_id in catalog())


def _found(last: str) -> str | None:
    return _names().get(last.lower()) or _plain_names().get(plain(last))


_OWN_WORDS = frozenset({"bert", "roberta", "xlm-roberta", "distilbert", "electra", "albert", "deberta-v2", "mpnet"})
"""Types whose plain names, such as roberta-base, several makers gave to networks with words of their own."""


def _another(name: str, base: str) -> bool:
    """Whether a maker's model only has the name of another's."""
    maker = name.strip().rpartition("/")[0].lower()
    own = catalog()[base]["config"].get("model_type") in _OWN_WORDS
    return own and maker not in ("", base.partition("/")[0].lower(), "xenova", "onnx-community")


def known(name: str) -> bool:
    """Return whether a name stands for a model of the catalog.

    >>> known("mixtral-8x7b"), known("train.yaml")
    (True, False)
    """
    return name.strip().lower() in _names() or named(name) is not None


def identified(name: str) -> Named:
    """Return what a config's name stands for.

    Raises ConfigError with the nearest name of the catalog.
    """
    hub_id = _names().get(name.strip().lower())
    found = Named(hub_id, None, "") if hub_id is not None else named(name)
    if found is not None:
        return found
    mlx = for_mlx(name, _found)
    if mlx is not None:
        raise ConfigError.at("model", "found {!r:.80}, whose weights only MLX loads; its model is {}", name, mlx)
    if _WITH_SIZE.fullmatch(name.strip()):
        said = "found {!r:.80}, which is a size; name a model of `memcore models {}`; `memcore quick {}` takes a size"
        raise ConfigError([Problem("model", Message(said, name, name, name), next(iter(of_size(name)), None))])
    several = models_meant(name)
    told = Message("; it may be {}", joined(", ", several[:6])) if len(several) > 1 else ""
    message = Message("found {!r:.80}, which is not one of the {} models in the catalog{}", name, len(catalog()), told)
    if _FOLDER.match(name):
        asked = Message("{}; name the model of this folder with --model, or give its config.json", message)
        raise ConfigError([Problem("model", asked)])
    hub_id = name if "/" in name else ""
    base = _inside(name)
    if base is not None:
        said = "{}; name {} if it has the same shapes, as its name suggests, or give its config.json"
        raise ConfigError([Problem("model", Message(said, message, base), hub_id=hub_id)])
    asked = Message("{}; give its config.json, or name a model of the same shapes", message)
    raise ConfigError([Problem("model", asked, nearest_model(name), hub_id)])


def nearest_model(name: str) -> str | None:
    """Return the model of the catalog that an unknown name may stand for."""
    return next(iter(models_meant(name)), None) or nearest(name, _names())


def models_meant(name: str) -> list[str]:
    """Return the models whose names say what an unknown name says: those of its size, if it has one; bases first."""
    found, size = meaning(name, map(nickname, catalog())), _WITH_SIZE.search(name)
    sized = set(found).intersection(of_size(size[0])) if size else ()
    return bases_first([each for each in found if each in sized] or found)


def of_size(size: str) -> list[str]:
    """Return the models whose names say a size, bases first.

    >>> of_size("8B")[:3], of_size("llama")
    (['llama-3.1-8b', 'qwen3-8b', 'meta-llama-3-8b'], [])
    """
    if not _WITH_SIZE.fullmatch(size.strip()):
        return []
    said = rf"(?<![\w.]){re.escape(size.strip().lower())}(?![\w.])"
    return bases_first(each for each in map(nickname, catalog()) if re.search(said, each))


def bases_first(names: Iterable[str]) -> list[str]:
    """Return models by how many others have their name in theirs, as those that are made from them do."""
    every = [*map(nickname, catalog())]
    return sorted(names, key=lambda each: -sum(each in other for other in every))


_WITH_SIZE = re.compile(r"(?:\d{1,3}x)?\d{1,4}(?:\.\d{1,3})?b", re.IGNORECASE)
_SHORTEST = 2
_STORED = re.compile(r"aqlm|hqq|exl\d|quip|eetq|eagle|medusa|lora|[23]-?bit", re.IGNORECASE)
"""Words of names whose tensors are not those of the model in it."""


def _inside(name: str) -> str | None:
    """The model of the catalog whose name with its size is a part of another maker's: what it may be trained from.

    >>> _inside("teknium/CollectiveCognition-v1.1-Mistral-7B"), _inside("somebody/something-7b")
    ('mistralai/Mistral-7B-v0.3', None)
    >>> _inside("somebody/Rewards-Llama-3-Base-8B")
    'meta-llama/Meta-Llama-3-8B'
    """
    maker, _, last = name.rpartition("/")
    words = [] if _STORED.search(last) or not maker else [word for word in re.split(r"[-_]", last) if word][:_WORDS]
    return _among(words) or _among([word for word in words if word.lower() not in _LEARNT])


_LEARNT = frozenset({"base", "instruct", "chat", "it", "sft", "dpo", "simpo", "orpo", "kto", "rm"})
"""Words of names that say what a model was trained for."""


def _among(words: list[str]) -> str | None:
    """The model whose name is the longest run of a name's words with its size."""
    for length in range(len(words), _SHORTEST - 1, -1):
        for start in range(len(words) - length + 1):
            part = words[start : start + length]
            if not any(map(_WITH_SIZE.fullmatch, part)):
                continue
            found = "-".join(part)
            base = _found(found) or getattr(_shortened(found), "base", None)
            if base is not None:
                return base
    return None


_WORDS = 12
"""Words of a name that are looked at."""


_FOLDER = re.compile(r"[~./]|(?:[^/]{1,200}/){2}")
"""How a folder begins, which no hub id does."""


def _as_text(model: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(model), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError.at("model", "is not the content of a JSON file: {}", str(error)) from None


@lru_cache(maxsize=256)
def _from_catalog(hub_id: str) -> Model:
    return read_model(_whole(catalog()[hub_id]["config"]), name=hub_id)


@lru_cache(maxsize=64)
def _read(text: str) -> Model:
    return read_model(json.loads(text))
