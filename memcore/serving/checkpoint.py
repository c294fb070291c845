"""What a checkpoint says about its own format: `quantization_config`, `dtype`, and which modules it leaves alone.

Sources: the `quantization_config` that transformers' quantizers, AutoAWQ, GPTQModel, llm-compressor and ModelOpt write,
and how vLLM reads it (model_executor/layers/quantization/*.py, `from_config`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from memcore.errors import ConfigError
from memcore.messages import joined
from memcore.networks.quantized import refuse_mlx
from memcore.patterns import Pattern, starts_like
from memcore.records import dataclass
from memcore.serving.formats import EXPERTS, FORMATS, MATRICES, Format, exl3

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Modules that have another format than the rest."""

    format: Format | None
    """None: the model's dtype."""
    targets: tuple[str, ...] = ()
    """Names, parts of names, or `re:` and a pattern."""
    kinds: frozenset[str] = frozenset()
    """Or kinds of parameters."""

    def has(self, kind: str, modules: Sequence[str]) -> bool:
        """Return whether a matrix made of these modules belongs to it."""
        return kind in self.kinds or any(_matches(each, module) for each in self.targets for module in modules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The format of a checkpoint."""

    format: Format
    method: str
    """`quant_method`, as the file has it."""
    ignored: tuple[str, ...] = ()
    """Modules that stay in the model's dtype: names, parts of names, or `re:` and a pattern."""
    parts: tuple[Part, ...] = ()
    """Modules with a format of their own; the first that has a module counts."""

    def leaves(self, module: str) -> bool:
        """Return whether a module, by its full name, is left alone."""
        known = _left_alone(self.ignored)
        if module not in known:
            known[module] = any(_matches(pattern, module) for pattern in self.ignored)
        return known[module]

    def format_of(self, kind: str, modules: Sequence[str]) -> Format | None:
        """Return how a matrix is stored that is made of some modules; None: in the model's dtype."""
        if any(self.leaves(module) for module in modules):
            return None
        for part in self.parts:
            if part.has(kind, modules):
                return part.format
        return self.format if kind in self.format.covers else None

    @property
    def numbers(self) -> frozenset[int] | None:
        """Return the layers that it may store otherwise than others of their kind; None for patterns: any layer."""
        found: frozenset[int] = frozenset()
        for names in (self.ignored, *(part.targets for part in self.parts)):
            numbers = _numbers(names)
            if numbers is None:
                return None
            found |= numbers
        return found

    @property
    def native(self) -> bool:
        """Quantized by those who trained it, so that its further layers are as well."""
        return self.method == "fp8" and not self.format.name.startswith("fp8-channel")


@lru_cache(maxsize=32)
def _left_alone(ignored: tuple[str, ...]) -> dict[str, bool]:
    """Answers of `Stored.leaves` by module: estimates of one search ask for the same names."""
    return {}


@lru_cache(maxsize=256)
def _numbers(names: tuple[str, ...]) -> frozenset[int] | None:
    found = set()
    for name in names:
        numbers = [int(word) for word in name.split(".") if word.isdecimal() and len(word) < _LONGEST_NUMBER]
        if (name.startswith("re:") or "*" in name) and ("\\d" in name or any(map(str.isdecimal, name))):
            return None
        found.update(numbers)
    return frozenset(found)


_LONGEST_NUMBER = 6
"""Digits of a layer's number."""


@lru_cache(maxsize=256)
def _compiled(text: str) -> Pattern:
    try:
        return Pattern(text)
    except ValueError as error:
        raise ConfigError.at("model.quantization_config", "the pattern {!r:.80} {}", text, str(error)) from None


def _matches(ignored: str, module: str) -> bool:
    if ignored.startswith("re:"):
        return _compiled(ignored[3:]).match(module)
    if "*" in ignored:
        return starts_like(ignored.split("*"), module)
    # A prefix of whole words, at the start or after a wrapper's name (`model.`, `language_model.`).
    return f".{_plain(module)}.".find(f".{_plain(ignored)}.") >= 0


def _plain(name: str) -> str:
    """A name without its wrapper, whose place differs between files and releases (`model.language_model.layers`)."""
    return name.replace("language_model.", "").removeprefix("model.").strip(".")


def text_config(raw: Raw) -> Raw:
    """Return the language model's part of it."""
    for name in ("text_config", "llm_config", "language_config"):
        found = raw.get(name)
        if isinstance(found, Mapping):
            return found
    return raw


_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def own_dtype(raw: Raw) -> str | None:
    """Return the dtype that the checkpoint was saved in."""
    for section in (raw, text_config(raw)):
        for key in ("dtype", "torch_dtype"):
            found = section.get(key)
            if isinstance(found, str):
                return _DTYPES.get(found.removeprefix("torch."))
    return None


MODEL_OPT = ("modelopt", "nvfp4")
"""How the methods of ModelOpt are called in checkpoints, and by the recipes of their makers."""


def own_cache(raw: Raw) -> str | None:
    """Return the dtype of the KV cache that the checkpoint has scales for.

    >>> own_cache({"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}})
    'fp8'
    """
    found = raw.get("quantization_config") or text_config(raw).get("quantization_config")
    if not isinstance(found, Mapping):
        return None
    inner = found.get("quantization")
    for section in (found, inner if isinstance(inner, Mapping) else {}):
        scheme = section.get("kv_cache_scheme")
        algorithm = scheme if isinstance(scheme, str) else section.get("kv_cache_quant_algo")
        if str(algorithm).lower() == "fp8":
            return "fp8"
        if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 and scheme.get("type") == "float":
            return "fp8"
    return None


def own_format(raw: Raw) -> Stored | None:
    """Return the format that the checkpoint is quantized in, if it is.

    Raises ConfigError for a method that is not known.
    """
    refuse_mlx(raw)
    found = raw.get("quantization_config") or text_config(raw).get("quantization_config")
    if not found:
        return None
    if not isinstance(found, Mapping):
        raise ConfigError.at("model.quantization_config", "expected an object, found {!r:.80}", found)
    producer = found.get("producer")
    maker = producer.get("name") if isinstance(producer, Mapping) else None  # ModelOpt may leave out the method
    method = str(found.get("quant_method") or (maker if found.get("quant_algo") else "") or "").lower()
    if method not in _METHODS:
        raise ConfigError.at(
            "model.quantization_config.quant_method", "found {!r}; known: {}", method, joined(", ", _METHODS)
        )
    stored = _METHODS[method](found)
    return replace(stored, parts=(*_native_parts({**text_config(raw), **found}), *stored.parts))


def _native_parts(said: Raw) -> Iterator[Part]:
    """Yield what DeepSeek-V4 and 4.1 store otherwise within a checkpoint of fp8.

    Sources: vllm, models/deepseek_v4/quant_config.py; the weight map of DeepSeek-V4.1-Flash, whose tables of n-grams
    have scales for 32 columns.
    """
    if said.get("expert_dtype") == "fp4":
        yield Part(format=FORMATS["mxfp4"], kinds=EXPERTS)
    if said.get("engram_layer_ids"):
        yield Part(format=FORMATS["mxfp8"], targets=("engram.embed",))


def _texts(found: object) -> tuple[str, ...]:
    if isinstance(found, str):
        return (found,)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, Sequence) else ()


def _fp8(found: Raw) -> Stored:
    name = "fp8-block" if found.get("weight_block_size") else "fp8"
    ignored = _texts(found.get("modules_to_not_convert") or found.get("ignored_layers"))
    return Stored(format=FORMATS[name], method="fp8", ignored=ignored)


def _fbgemm(found: Raw) -> Stored:
    return Stored(
        format=FORMATS["fp8-channel"], method="fbgemm_fp8", ignored=_texts(found.get("modules_to_not_convert"))
    )


def _awq(found: Raw) -> Stored:
    group = _integer(found, ("group_size", "q_group_size"), 128)
    return Stored(
        format=FORMATS["awq"].with_groups(group), method="awq", ignored=_texts(found.get("modules_to_not_convert"))
    )


def _gptq(found: Raw) -> Stored:
    """Source: vllm, quantization/utils/gptq_utils.py: `-:` leaves modules alone, `+:` gives them other bits."""
    size = _integer(found, ("group_size",), 128)
    dynamic = found.get("dynamic")
    parts, ignored = [], list(_texts(found.get("modules_to_not_convert")))
    for pattern, own in dynamic.items() if isinstance(dynamic, Mapping) else ():
        name = str(pattern)
        if name.startswith("-:"):
            ignored.append(f"re:{name[2:]}")
        elif isinstance(own, Mapping):
            group = _integer(own, ("group_size",), size)
            parts.append(Part(format=_integers(own.get("bits", found.get("bits"))).with_groups(group),
                              targets=(f"re:{name.removeprefix('+:')}",)))  # fmt: skip
    return Stored(
        format=_integers(found.get("bits")).with_groups(size), method="gptq", ignored=tuple(ignored), parts=tuple(parts)
    )


def _integers(bits: object) -> Format:
    return FORMATS["w8a16" if bits == 8 else "gptq"]


def _autoround(found: Raw) -> Stored:
    """Source: auto_round, export/export_to_autoround: `extra_config` has the bits of single modules."""
    size, parts = _integer(found, ("group_size",), 128), []
    extra = found.get("extra_config")
    for name, own in extra.items() if isinstance(extra, Mapping) else ():
        bits = own.get("bits", found.get("bits")) if isinstance(own, Mapping) else 16
        group = _integer(own, ("group_size",), size) if isinstance(own, Mapping) else size
        chosen = None if isinstance(bits, int) and bits >= 16 else _integers(bits).with_groups(group)
        pattern = f"re:{name}" if any(sign in str(name) for sign in ("*", "\\", "[")) else str(name)
        parts.append(Part(format=chosen, targets=(pattern,)))
    return Stored(format=_integers(found.get("bits")).with_groups(size), method="auto-round", parts=tuple(parts))


def _torchao(found: Raw) -> Stored:
    """Source: torchao, quantization/quant_api.py: the names of its configurations."""
    text = str(found.get("quant_type", "")).lower()
    name = next((each for key, each in _TORCHAO.items() if key in text), "int8")
    return Stored(format=FORMATS[name], method="torchao", ignored=_texts(found.get("modules_to_not_convert")))


_TORCHAO: Mapping[str, str] = {
    "int4weightonly": "int4",
    "int4_weight_only": "int4",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "perrow": "fp8-channel",
    "float8": "fp8",
    "int8": "int8",
}


def _bitsandbytes(found: Raw) -> Stored:
    name = "int8"
    if found.get("load_in_4bit") or found.get("_load_in_4bit"):
        name = "nf4-double" if found.get("bnb_4bit_use_double_quant") else "nf4"
    return Stored(format=FORMATS[name], method="bitsandbytes", ignored=_texts(found.get("llm_int8_skip_modules")))


def _mxfp4(found: Raw) -> Stored:
    return Stored(format=FORMATS["mxfp4"], method="mxfp4", ignored=_texts(found.get("modules_to_not_convert")))


def _modelopt(found: Raw) -> Stored:
    """Source: vllm, quantization/modelopt.py: one algorithm for all, or `quantized_layers` with one for each module."""
    inner = found.get("quantization")
    section: Raw = inner if isinstance(inner, Mapping) else found
    algorithm = str(section.get("quant_algo", "")).upper()
    ignored = _texts(section.get("exclude_modules") or section.get("ignore"))
    if section.get("config_groups") and not algorithm:
        return replace(_compressed(section), method="modelopt", ignored=ignored)
    layers = section.get("quantized_layers")
    if algorithm == "MIXED_PRECISION" and isinstance(layers, Mapping):
        by_format: dict[str, list[str]] = {}
        for module, own in layers.items():
            name = str(own.get("quant_algo", "")).upper() if isinstance(own, Mapping) else ""
            # Experts are stacked here: one stands for all.
            head, experts, _ = str(module).partition(".experts.")
            by_format.setdefault(_algorithm(name), []).append(f"{head}.experts" if experts else head)
        parts = tuple(
            Part(format=FORMATS[name], targets=tuple(dict.fromkeys(modules))) for name, modules in by_format.items()
        )
        return Stored(
            format=replace(FORMATS["nvfp4"], covers=frozenset()), method="modelopt", ignored=ignored, parts=parts
        )
    return Stored(format=FORMATS[_algorithm(algorithm)], method="modelopt", ignored=ignored)


def _algorithm(name: str) -> str:
    return next((each for key, each in _ALGORITHMS.items() if key in name), "fp8")


_ALGORITHMS: Mapping[str, str] = {
    "NVFP4": "nvfp4",
    "MXFP8": "mxfp8",
    "MXFP4": "mxfp4",
    "FP4": "nvfp4",
    "W4A16": "int4",
    "W4A8": "int4",
    "PER_CHANNEL": "fp8-channel",
    "PB_WO": "fp8-block",
    "FP8": "fp8",
    "INT8": "int8",
}
"""Formats by what a name of ModelOpt's algorithm contains; the first counts."""


def _compressed(found: Raw) -> Stored:
    """Source: vllm, compressed_tensors.py: groups of targets, `Linear` for all, names, or `re:` and a pattern."""
    groups = found.get("config_groups")
    rest, parts = None, []
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping):
            chosen, targets = _group_format(group), _texts(group.get("targets"))
            if rest is None and ("Linear" in targets or not targets):
                rest = chosen
            else:
                parts.append(Part(format=chosen, targets=targets))
    if rest is None:
        rest = replace(parts[0].format or FORMATS["int8"], covers=frozenset()) if parts else FORMATS["int8"]
    return Stored(format=rest, method="compressed-tensors", ignored=_texts(found.get("ignore")), parts=tuple(parts))


def _group_format(group: Raw) -> Format:
    weights = group.get("weights")
    section: Raw = weights if isinstance(weights, Mapping) else {}
    bits, kind = _integer(section, ("num_bits",), 8), section.get("type", "int")
    name = _COMPRESSED.get((str(kind), bits, isinstance(group.get("input_activations"), Mapping)), "int8")
    chosen = FORMATS[name]
    if section.get("strategy") == "block":
        return FORMATS["fp8-block"]
    if kind == "float" and section.get("group_size") == 32:
        return replace(FORMATS["mxfp4"], covers=MATRICES) if bits == 4 else FORMATS["mxfp8"]
    if name == "fp8-channel" and section.get("strategy") == "tensor":
        return FORMATS["fp8"]
    if section.get("strategy") in ("channel", "tensor") and name in ("int4", "w8a16"):
        return chosen.with_groups(-1)
    if name in ("int4", "w8a16"):
        return chosen.with_groups(_integer(section, ("group_size",), 128))
    return chosen


_COMPRESSED: Mapping[tuple[str, object, bool], str] = {
    ("int", 8, True): "int8",
    ("int", 8, False): "w8a16",
    ("int", 4, False): "int4",
    ("int", 4, True): "int4",
    ("float", 8, True): "fp8-channel",
    ("float", 8, False): "fp8-channel",
    ("float", 4, True): "nvfp4",
    ("float", 4, False): "nvfp4",
}
"""Names of formats by the weights' type, their bits, and whether inputs are quantized too."""


def _quark(found: Raw) -> Stored:
    """Source: vllm, quantization/quark/quark.py: one scheme for all, and others for names with stars."""
    layers = found.get("layer_quant_config")
    own = layers.items() if isinstance(layers, Mapping) else ()
    return Stored(
        format=_quark_format(found.get("global_quant_config")) or replace(FORMATS["fp8"], covers=frozenset()),
        method="quark",
        ignored=_texts(found.get("exclude")),
        parts=tuple(Part(format=_quark_format(scheme), targets=(str(pattern),)) for pattern, scheme in own),
    )


def _quark_format(scheme: object) -> Format | None:
    """Return how a scheme stores weights, if it quantizes them; NVFP4 lists the elements and their scales."""
    weights = scheme.get("weight") if isinstance(scheme, Mapping) else None
    first = weights[0] if isinstance(weights, list) and weights else weights
    if not isinstance(first, Mapping):
        return None
    found = (str(first.get("dtype")), str(first.get("qscheme")))
    name = _QUARK.get(found)
    if name is None or (isinstance(weights, list) and len(weights) > 1 and name != "mxfp4"):
        path = "model.quantization_config.global_quant_config.weight"
        known = joined(", ", (" ".join(each) for each in _QUARK))
        raise ConfigError.at(path, "found {}; known: {}", " ".join(found), known)
    size = _integer(first, ("group_size",), 128)
    if name == "mxfp4":
        return FORMATS["nvfp4"] if size == _NVFP4 else replace(FORMATS["mxfp4"], covers=MATRICES)
    if name == "int4":
        return FORMATS["int4" if first.get("symmetric") else "awq"].with_groups(size)
    return FORMATS[name]


_NVFP4 = 16
"""Elements for each scale of NVFP4; MXFP4 has 32."""
_QUARK: Mapping[tuple[str, str], str] = {
    ("fp8_e4m3", "per_tensor"): "fp8",
    ("fp8_e4m3", "per_channel"): "fp8-channel",
    ("fp8_e4m3", "per_block"): "fp8-block",
    ("fp8_e4m3", "per_group"): "mxfp8",
    ("int8", "per_tensor"): "int8",
    ("int8", "per_channel"): "int8",
    ("int4", "per_group"): "int4",
    ("uint4", "per_group"): "int4",
    ("fp4", "per_group"): "mxfp4",
}
"""Formats by how Quark calls the type of weights and what has a scale."""


def _exl3(found: Raw) -> Stored:
    """Source: exllamav3, conversion/convert_model.py: `bits` on average, `head_bits` for the head.

    `tensor_storage` (conversion/quant_config.py) has those of single modules.
    """
    bits, head = (_bits(found.get(key)) for key in ("bits", "head_bits"))
    single: dict[Fraction, list[str]] = {}
    storage = found.get("tensor_storage")
    for module, own in storage.items() if isinstance(storage, Mapping) else ():
        if isinstance(own, Mapping) and own.get("quant_format") == "exl3":
            single.setdefault(_bits(own.get("bits_per_weight")), []).append(str(module))
    parts = [Part(format=exl3(each), targets=tuple(names)) for each, names in single.items()]
    parts.append(Part(format=exl3(head), kinds=frozenset({"head"})))
    return Stored(format=exl3(bits), method="exl3", parts=tuple(parts))


_MOST_BITS = 8


def _bits(found: object) -> Fraction:
    """Bits of a weight, from 1 to 8.

    Raises ConfigError for others.
    """
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 1 <= found <= _MOST_BITS:
        raise ConfigError.at("model.quantization_config.bits", "expected a number from 1 to 8, found {!r:.80}", found)
    return Fraction(found).limit_denominator(1000)


_METHODS: Mapping[str, Callable[[Raw], Stored]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "awq": _awq,
    "gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "auto-round": _autoround,
    "autoround": _autoround,
    "torchao": _torchao,
    "compressed-tensors": _compressed,
    "quark": _quark,
    "exl3": _exl3,
}


def _integer(found: Raw, keys: Sequence[str], default: int) -> int:
    for key in keys:
        value = found.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return default
