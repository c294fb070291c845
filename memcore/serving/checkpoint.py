"""What a checkpoint says about its own format: `quantization_config`, `dtype`, and which modules it leaves alone.

Sources: the `quantization_config` that transformers' quantizers, AutoAWQ, GPTQModel, llm-compressor and ModelOpt write,
and how vLLM reads it (model_executor/layers/quantization/*.py, `from_config`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memcore.errors import ConfigError
from memcore.messages import joined
from memcore.networks.catalog import catalog, find_model
from memcore.patterns import Pattern, starts_like
from memcore.serving.formats import FORMATS, Format

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The format of a checkpoint."""

    format: Format
    method: str
    """`quant_method`, as the file has it."""
    ignored: tuple[str, ...] = ()
    """Modules that stay in the model's dtype: names, parts of names, or `re:` and a pattern."""

    def leaves(self, module: str) -> bool:
        """Whether a module, by its full name, is left alone."""
        return any(_matches(pattern, module) for pattern in self.ignored)


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
    return f".{module}.".find(f".{ignored}.") >= 0


def raw_config(model: str | Raw) -> Raw:
    """The `config.json` of a model."""
    if isinstance(model, str):
        found: Raw = catalog()[find_model(model).name]["config"]
        return found
    return model


def text_config(raw: Raw) -> Raw:
    """The language model's part of it."""
    for name in ("text_config", "llm_config", "language_config"):
        found = raw.get(name)
        if isinstance(found, Mapping):
            return found
    return raw


_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def own_dtype(raw: Raw) -> str | None:
    """The dtype that the checkpoint was saved in."""
    for section in (raw, text_config(raw)):
        for key in ("dtype", "torch_dtype"):
            found = section.get(key)
            if isinstance(found, str):
                return _DTYPES.get(found.removeprefix("torch."))
    return None


def own_format(raw: Raw) -> Stored | None:
    """The format that the checkpoint is quantized in, if it is.

    Raises ConfigError for a method that is not known.
    """
    found = raw.get("quantization_config") or text_config(raw).get("quantization_config")
    if not found:
        return None
    if not isinstance(found, Mapping):
        raise ConfigError.at("model.quantization_config", "expected an object, found {!r:.80}", found)
    method = str(found.get("quant_method", "")).lower()
    if method not in _METHODS:
        raise ConfigError.at(
            "model.quantization_config.quant_method", "found {!r}; known: {}", method, joined(", ", _METHODS)
        )
    return _METHODS[method](found)


def _texts(found: object) -> tuple[str, ...]:
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
    name = "w8a16" if found.get("bits") == 8 else "gptq"
    return Stored(format=FORMATS[name].with_groups(_integer(found, ("group_size",), 128)), method="gptq")


def _bitsandbytes(found: Raw) -> Stored:
    name = "int8"
    if found.get("load_in_4bit") or found.get("_load_in_4bit"):
        name = "nf4-double" if found.get("bnb_4bit_use_double_quant") else "nf4"
    return Stored(format=FORMATS[name], method="bitsandbytes", ignored=_texts(found.get("llm_int8_skip_modules")))


def _mxfp4(found: Raw) -> Stored:
    return Stored(format=FORMATS["mxfp4"], method="mxfp4", ignored=_texts(found.get("modules_to_not_convert")))


def _modelopt(found: Raw) -> Stored:
    inner = found.get("quantization")
    section: Raw = inner if isinstance(inner, Mapping) else found
    algorithm = str(section.get("quant_algo", "")).upper()
    name = "nvfp4" if "FP4" in algorithm else "fp8"
    ignored = _texts(section.get("exclude_modules") or section.get("ignore"))
    return Stored(format=FORMATS[name], method="modelopt", ignored=ignored)


def _compressed(found: Raw) -> Stored:
    groups = found.get("config_groups")
    first: object = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    weights = first.get("weights") if isinstance(first, Mapping) else None
    section: Raw = weights if isinstance(weights, Mapping) else {}
    bits, kind = section.get("num_bits", 8), section.get("type", "int")
    quantizes_inputs = isinstance(first, Mapping) and isinstance(first.get("input_activations"), Mapping)
    name = _COMPRESSED.get((str(kind), bits, quantizes_inputs), "int8")
    chosen = FORMATS[name]
    if section.get("strategy") == "block":
        chosen = FORMATS["fp8-block"]
    elif section.get("strategy") in ("channel", "tensor") and name in ("int4", "w8a16"):
        chosen = chosen.with_groups(-1)
    elif name in ("int4", "w8a16"):
        chosen = chosen.with_groups(_integer(section, ("group_size",), 128))
    return Stored(format=chosen, method="compressed-tensors", ignored=_texts(found.get("ignore")))


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

_METHODS: Mapping[str, Callable[[Raw], Stored]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "awq": _awq,
    "gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed-tensors": _compressed,
}


def _integer(found: Raw, keys: Sequence[str], default: int) -> int:
    for key in keys:
        value = found.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return default
