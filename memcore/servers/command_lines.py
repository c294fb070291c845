"""Command lines of servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json import dumps
from typing import Any

from memcore.config.kinds import Flag
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, settings_of
from memcore.config.settings import MODEL, Config
from memcore.errors import ConfigError, UnsupportedError
from memcore.formats.normalized import Normalized
from memcore.formats.served import Served
from memcore.formats.shell import FILE, OUTSIDE
from memcore.formats.tool import Key, Tool
from memcore.formats.values import TORCH_DTYPES
from memcore.formats.yaml import read_yaml
from memcore.messages import Message, joined
from memcore.networks.catalog import named
from memcore.servers import captured_flags, positions
from memcore.servers.sglang.settings import SglangSettings
from memcore.servers.vllm.settings import VllmSettings
from memcore.serving.formats import IS_GGUF
from memcore.serving.inference import Inference
from memcore.serving.quantized import repository
from memcore.serving.settings import ServerSettings
from memcore.untrusted import parse_json

_DTYPES: Mapping[str, str] = {"half": "float16", "float": "float32", "auto": "auto"}
_CACHES: Mapping[str, str] = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}
_KERNELS: Mapping[str, str | None] = {
    "awq_marlin": "awq", "gptq_marlin": "gptq", "marlin": "gptq", "auto_round": "int4", "auto-round": "int4",
    "inc": "int4",
    "modelopt": "fp8", "modelopt_fp8": "fp8", "modelopt_fp4": "nvfp4", "bitsandbytes": "nf4", "experts_int8": "int8",
    "w8a8_int8": "int8", "w8a8_fp8": "fp8-channel", "moe_wna16": None, "compressed-tensors": None, "quark": None,
    "deepseek_v4_fp8": None,
}  # fmt: skip
"""Methods of `--quantization` that are not called like a format; None has the format that the checkpoint says.

Sources: vllm, model_executor/layers/quantization/__init__.py; sglang, srt/layers/quantization/__init__.py.
"""
_METHODS_OF_VLLM: Mapping[str, str] = {
    "fp8": "fp8", "awq": "awq", "gptq": "gptq", "nf4": "bitsandbytes", "nvfp4": "modelopt_fp4", "mxfp4": "mxfp4",
    "mxfp8": "mxfp8",
}  # fmt: skip
_METHODS_OF_SGLANG: Mapping[str, str] = {
    **_METHODS_OF_VLLM, "int8": "w8a8_int8", "fp8-channel": "w8a8_fp8", "int4": "auto-round",
}  # fmt: skip
"""Methods that make servers read a format; for others the checkpoint's own config decides (vllm,
model_executor/layers/quantization/__init__.py; sglang, srt/arg_groups/choices.py, `QUANTIZATION_CHOICES`)."""
_MADE = ("fp32", "bf16", "fp16", "fp8", "nf4")
"""Formats that servers make of a 16-bit checkpoint while they load it (vllm, docs/features/quantization: fp8, bnb)."""


def _loaded(config: Config) -> Config:
    """Return a config of a repository that has the weights in a format which no server makes, where one is known."""
    form = config.get(Inference.quantization)
    found = None if form in (None, *_MADE) else repository(config.model, str(form))
    return config if found is None else config.changed({MODEL: found, Inference.quantization: None})


def _stored(config: Config) -> dict[str, str]:
    """Return a reason for a format that only a quantized checkpoint can have, where the model is none."""
    path, model = Inference.quantization, config.model
    made = config.get(path) in (None, *_MADE) or not isinstance(model, str)
    if made or _says_format(model):
        return {}
    form = str(config[path])
    other = repository(model, form, alike=True)
    if other is not None:
        said = "name a repository with {} weights, such as {} of the same shapes; the server does not quantize {}"
        return {path: Message(said, form, other, model)}
    return {path: Message("name a repository with {} weights; the server does not quantize {}", form, model)}


_METHOD, _TOKENS, _DRAFT = (f"--speculative-config.{each}" for each in ("method", "num_speculative_tokens", "model"))
_SHORT: Mapping[str, str] = {"--spec-method": _METHOD, "--spec-tokens": _TOKENS, "--spec-model": _DRAFT}
"""Flags of vLLM for parts of its `--speculative-config` (engine/arg_utils.py)."""
_METHODS: Mapping[str, str] = {
    **{each: each for each in ("mtp", "eagle", "eagle3", "medusa", "dflash", "ngram")},
    "draft": "draft_model",
}  # fmt: skip
_ALGORITHMS: Mapping[str, str] = {
    "mtp": "NEXTN", "eagle": "EAGLE", "eagle3": "EAGLE3", "draft": "STANDALONE", "ngram": "NGRAM",
    "dflash": "DFLASH",
}  # fmt: skip
"""SGLang's words (srt/speculative/spec_info.py)."""
_STRATEGY = "--mamba-radix-cache-strategy"
_MODELS = ("--model", "--model-path", "--model_path", "-m")


def _own(section: type[Section], off: str) -> Iterator[Key]:
    """Yield a server's own settings, which are called as its flags are; `off` says no where a bare flag says yes."""
    for each in settings_of(section):
        words = each.name.replace("_", "-")
        yield Key(path=each, name=f"--{words}", off=off.format(words) if isinstance(each.kind, Flag) else None)


def _reach(told: positions.Overrides) -> tuple[Key, ...]:
    """How far a server is told that positions reach."""
    return (
        Key(path=ServerSettings.scaled_positions, name=told.whole, spelled=positions.spelled),
        Key(path=ServerSettings.scaled_positions, name=positions.POSITIONS),
        Key(path=ServerSettings.allow_longer, name=positions.LONGER),
    )


_SHARED = ("--prefill-context-parallel-size", "-pcp", "--attention-context-parallel-size", "--attn-cp-size")
"""Ways to share the work that are not supported; one GPU has all of it."""


def _named(found: Mapping[str, Any], title: str, place: str) -> dict[str, Any]:
    """Return a server's flags with dashes, its model where the table has it, and 16 bits by their names in PyTorch.

    `title` is the server's name in messages.
    """
    normalized: dict[str, Any] = {}
    for name, value in found.items():
        flag, dot, inner = name.partition(".")
        plain = flag.replace("_", "-") if name.startswith("--") else flag
        if plain not in _SHARED or value != 1:
            normalized[f"{plain}{dot}{inner}"] = value
    model = next((normalized.pop(name) for name in _MODELS if name in normalized and name != place), None)
    if model is not None:
        normalized[place] = model
    if _GGUF.search(str(normalized.get(place, ""))):
        raise UnsupportedError("--model", IS_GGUF, normalized[place], title)
    for name, words in (("--dtype", _DTYPES), ("--kv-cache-dtype", _CACHES)):
        if str(normalized.get(name)) in words:
            normalized[name] = words[str(normalized[name])]
    method = normalized.get("--quantization", normalized.get("-q"))
    if in_eight_bits(method, normalized.get(place)):
        return {name: value for name, value in normalized.items() if name not in ("--quantization", "-q")}
    if isinstance(method, str) and method in _KERNELS:
        normalized = {name: value for name, value in normalized.items() if name not in ("--quantization", "-q")}
        kept = None if method == _READS_FILE and _says_format(normalized.get(place)) else _KERNELS[method]
        normalized |= {"--quantization": kept} if kept else {}
    return normalized


_GGUF = re.compile(r"\.gguf$|-gguf:\w+$", re.IGNORECASE)
"""A file, or a file of a repository by its type (vllm, transformers_utils/gguf_utils.py, `is_remote_gguf`)."""
_READS_FILE = "modelopt"
"""The checkpoint's `quant_algo` decides which of ModelOpt's formats it is (`override_quantization_method`)."""


def in_eight_bits(method: object, model: object) -> bool:
    """Return whether a method that usually has 4 bits is given for a checkpoint whose name says 8.

    >>> in_eight_bits("gptq", "/models/Qwen2.5-3B-Instruct-GPTQ-Int8"), in_eight_bits("gptq", "Qwen/Qwen3-8B-GPTQ")
    (True, False)
    """
    if str(method).removesuffix("_marlin") not in ("gptq", "awq", "marlin") or not isinstance(model, str):
        return False
    known = named(model)
    return known is not None and known.format == "w8a16"


def _says_format(model: object) -> bool:
    known = named(str(model))
    return known is not None and known.format is not None


_DEVICES = ("cuda", "auto")


def _raise_elsewhere(found: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for a server on anything but NVIDIA's GPUs; files of devices are a container's."""
    device = str(found.get("--device") or "auto")
    device = "auto" if device.startswith("/dev/") else device
    if device.partition(":")[0] not in _DEVICES and not OUTSIDE.search(device):
        raise UnsupportedError("--device", "found {!r:.80}; supported: {}", device, joined(", ", _DEVICES))


def _vllm(found: Mapping[str, Any]) -> Normalized:
    """vLLM's flags, whose words are separated by dashes or not (utils/argparse_utils.py, FlexibleArgumentParser)."""
    text = found.get(f"{FILE}{str(found.get('--config')).removeprefix('./')}")
    content = read_yaml(text) if isinstance(text, str) else None
    if isinstance(content, Mapping):  # the script writes it; what the command says holds (load_config_file)
        found = {**{f"--{name}": value for name, value in content.items()}, **found}
        found = {name: value for name, value in found.items() if name != "--config"}
    _raise_elsewhere(found)
    normalized = _counted(_named(found, "vLLM", "*"))
    given = normalized.pop("--speculative-config", normalized.pop("-sc", None))
    try:
        said = parse_json(given) if isinstance(given, str) and given.startswith("{") else None
    except ValueError:
        open_one = OUTSIDE.search(str(given))
        if open_one:
            said_of = "found {}, which the script does not set; set it with --set"
            raise ConfigError.at("--speculative-config", said_of, open_one[0]) from None
        raise ConfigError.at("--speculative-config", "is not JSON: {!r:.80}", given) from None
    if isinstance(said, Mapping):
        normalized |= {f"--speculative-config.{name}": value for name, value in said.items()}
    elif given is not None:
        normalized["--speculative-config"] = given
    normalized |= {name: normalized.pop(short) for short, name in _SHORT.items() if short in normalized}
    normalized, notes = _transferred(_processed(_pictured(_prefilled(_captured(normalized)))))
    normalized, why = _run(normalized)
    normalized, reach = positions.stretched(normalized, positions.VLLM)
    slots = _with_slots(normalized, _SLOTS, 1)
    drafted, further = _drafted(normalized)
    return drafted, (*notes, *why, *reach, *slots, *further)


_COMPILATION, _MODE = ("--compilation-config", "-cc", "-O"), "cudagraph_mode"
_GRAPHS = f"{_COMPILATION[0]}.{_MODE}"


def _captured(normalized: dict[str, Any]) -> dict[str, Any]:
    """Return the kind of graphs on its own, in small letters: vLLM reads any (config/compilation.py, `CUDAGraphMode`).

    >>> _captured({"-cc": '{"cudagraph_mode": "FULL_DECODE_ONLY"}'})
    {'--compilation-config.cudagraph_mode': 'full_decode_only'}
    """
    for name in _COMPILATION:
        mode = normalized.pop(f"{name}.{_MODE}", None)
        said = normalized.get(name)
        if isinstance(said, str) and said.startswith("{"):
            kept = _allowed(said)
            mode = kept.pop(_MODE, mode)
            normalized = {each: value for each, value in normalized.items() if each != name}
            normalized |= {name: dumps(kept)} if kept else {}
        if mode is not None:
            normalized[_GRAPHS] = str(mode).lower()
    return normalized


_LENGTHS = ("--max-model-len", "--max-num-batched-tokens")
_TIMES: Mapping[str, int] = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}
_IN_WORDS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([kmKM])")


def _counted(found: dict[str, Any]) -> dict[str, Any]:
    """The flags with tokens in digits: `32k` is 32,000 and `32K` 32,768 (engine/arg_utils.py, `human_readable_int`).

    >>> _counted({"--max-model-len": "25.6k", "--max-num-batched-tokens": "8K"})
    {'--max-model-len': 25600, '--max-num-batched-tokens': 8192}
    """
    for name in _LENGTHS:
        said = _IN_WORDS.fullmatch(str(found.get(name, "")))
        if said is not None and (said[2].islower() or "." not in said[1]):
            found[name] = int(float(said[1]) * _TIMES[said[2]])
    return found


_RUNNER, _TASK, _CONVERT = "--runner", "--task", "--convert"
_TASKS: Mapping[str, str] = {
    **dict.fromkeys(("embed", "embedding", "encode", "classify", "score", "reward", "pooling"), "pooling"),
    **dict.fromkeys(("generate", "transcription", "draft"), "generate"),
}
"""Runners of what `--task` names (vllm 0.9, config.py, `_TASK_RUNNER`; deprecated since 0.10)."""
_CONVERTS = ("embed", "classify", "reward")


def _run(normalized: dict[str, Any]) -> tuple[dict[str, Any], tuple[Message, ...]]:
    """The runner, which `--runner`, else `--task`, else `--convert` says (config/model.py, `_get_runner_type`)."""
    runner, task, convert = (normalized.pop(name, "auto") for name in (_RUNNER, _TASK, _CONVERT))
    if runner != "auto":
        normalized[_RUNNER] = runner
        return normalized, ()
    if task != "auto":
        normalized[_RUNNER] = _TASKS.get(str(task), task)
        return normalized, (Message("{} {} is read as {} {}", _TASK, task, _RUNNER, normalized[_RUNNER]),)
    if convert in _CONVERTS:
        normalized[_RUNNER] = "pooling"
        return normalized, (Message("{} {} is read as {} {}", _CONVERT, convert, _RUNNER, "pooling"),)
    return normalized, ()


_LIMITS, _TEXT_ALONE, _IMAGES = "--limit-mm-per-prompt", "--language-model-only", "*images"
_VIDEOS = f"{_LIMITS}.video"


def _pictured(normalized: dict[str, Any]) -> dict[str, Any]:
    """Images of a prompt; none where neither they nor videos are let in (config/multimodal.py, `limit_per_prompt`)."""
    if normalized.pop(_TEXT_ALONE, False) is True:
        normalized[_IMAGES] = 0
        normalized.pop(_LIMITS, None)
        return normalized
    limits = _allowed(normalized.pop(_LIMITS, None)) | {
        name.partition(".")[2]: normalized.pop(name) for name in list(normalized) if name.startswith(f"{_LIMITS}.")
    }
    images, videos = (
        each.get("count") if isinstance(each, Mapping) else each for each in (limits.get("image"), limits.get("video"))
    )
    if images == 0 == videos:
        return {**normalized, _IMAGES: 0}
    unread = {name: value for name, value in limits.items() if name not in ("image", "video")}
    if isinstance(images, int) and images > 0:
        normalized[_IMAGES] = images
    elif images is not None:
        unread["image"] = images
    if isinstance(videos, int):
        normalized[_VIDEOS] = videos
    elif videos is not None:
        unread["video"] = videos
    return {**normalized, **{f"{_LIMITS}.{name}": value for name, value in unread.items()}}


_PROCESSOR = "--mm-processor-kwargs"
_PIXELS = f"{_PROCESSOR}.max_pixels"


def _processed(normalized: dict[str, Any]) -> dict[str, Any]:
    """Return what images' processors are told, each on its own.

    >>> _processed({"--mm-processor-kwargs": '{"max_pixels": 1003520, "fps": 2}'})
    {'--mm-processor-kwargs.max_pixels': 1003520, '--mm-processor-kwargs.fps': 2}
    """
    told = _allowed(normalized.pop(_PROCESSOR, None))
    return {**normalized, **{f"{_PROCESSOR}.{name}": value for name, value in told.items()}}


def _limited(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    """Videos next to images in one flag: vLLM takes the last of two.

    >>> _limited({"--limit-mm-per-prompt": '{"image": 2}', "--limit-mm-per-prompt.video": 0})
    {'--limit-mm-per-prompt': '{"image": 2, "video": 0}'}
    """
    if _LIMITS not in keys or _VIDEOS not in keys:
        return keys
    both = {**_allowed(keys[_LIMITS]), "video": keys[_VIDEOS]}
    return {**{name: value for name, value in keys.items() if name != _VIDEOS}, _LIMITS: dumps(both)}


def _allowed(given: object) -> dict[str, Any]:
    """Return how many of each kind: as JSON, or as vLLM had it before 0.10.

    >>> _allowed('{"image": 2}'), _allowed("image=2,video=0")
    ({'image': 2}, {'image': 2, 'video': 0})
    """
    if isinstance(given, str):
        try:
            given = parse_json(given)
        except ValueError:
            pairs = [each.partition("=")[::2] for each in str(given).split(",")]
            return {kind.strip(): int(count) if count.isdigit() else count for kind, count in pairs}
    return dict(given) if isinstance(given, Mapping) else {}


def _limits(images: int) -> str:
    """Return what lets that many images into a prompt.

    >>> _limits(0)
    '{"image": 0, "video": 0}'
    """
    return '{"image": 0, "video": 0}' if images == 0 else f'{{"image": {images}}}'


_CHUNKS = "--enable-chunked-prefill"


def _prefilled(normalized: dict[str, Any]) -> dict[str, Any]:
    """Prompts that are not cut into chunks: a step takes the longest of them.

    Source: vllm, config/scheduler.py (without chunks `max_num_batched_tokens` is at least `max_model_len`); chunks are
    the default since 0.8.
    """
    chunks = normalized.pop(_CHUNKS, True)
    whole = normalized.pop("--no-enable-chunked-prefill", False) or chunks in (False, "false", "False")
    longest = normalized.get("--max-model-len")
    if whole and isinstance(longest, int):
        normalized.setdefault("--max-num-batched-tokens", max(longest, _UNCHUNKED))
    return normalized


_LORA, _PATHS, _SLOTS = "--enable-lora", "--lora-paths", ("--max-loras", "--max-lora-rank")
_BATCH_SLOTS = ("--max-loras-per-batch", "--max-lora-rank", "--lora-target-modules")
_USUAL_SLOTS = 8
"""Adapters of a batch in SGLang (srt/server_args.py, `max_loras_per_batch`)."""


def _with_slots(normalized: dict[str, Any], names: tuple[str, ...], usual: int) -> tuple[Message, ...]:
    """Count slots of adapters, of which there are `usual` ones unasked, only where there are any.

    Sources: vllm, engine/arg_utils.py (`create_engine_config`); sglang, srt/arg_groups/lora_hook.py.
    """
    asked, paths = normalized.pop(_LORA, None), normalized.pop(_PATHS, None)
    if asked or (asked is None and paths):
        normalized.setdefault(names[0], usual)
        return ()
    lone = [name for name in names if normalized.pop(name, None) is not None]
    return (Message("no adapter is set, so {} has no effect", joined(", ", lone)),) if lone else ()


_UNCHUNKED = 2048
"""Tokens of a step at least (config/scheduler.py, DEFAULT_MAX_NUM_BATCHED_TOKENS)."""


_TRANSFER = "--kv-transfer-config"
_CONNECTORS: Mapping[str, str] = {
    "offloading": "OffloadingConnector", "lmcache": "LMCacheConnectorV1", "nixl": "NixlConnector",
}  # fmt: skip
_CONNECTOR = f"{_TRANSFER}.kv_connector"
_OF_HOSTS = ("kv_role", "engine_id", "kv_rank", "kv_parallel_size", "kv_ip", "kv_port")
"""Keys of `--kv-transfer-config` that say who talks to whom (config/kv_transfer.py)."""
_BACKEND, _SWAP = "--kv-offloading-backend", "--swap-space"


def _transferred(normalized: dict[str, Any]) -> tuple[dict[str, Any], list[Message]]:
    """Where blocks of the cache go besides the GPU (config/vllm.py, `_post_init_kv_transfer_config`)."""
    notes = []
    given = normalized.pop(_TRANSFER, None)
    said = _allowed(given)
    if given is not None and not said:
        normalized[_TRANSFER] = given
    found = {f"{_TRANSFER}.{name}": value for name, value in said.items()} | {
        name: normalized.pop(name) for name in list(normalized) if name.startswith(f"{_TRANSFER}.")
    }
    normalized |= {name: value for name, value in found.items() if name.rpartition(".")[2] not in _OF_HOSTS}
    backend = normalized.pop(_BACKEND, None)
    if backend == "lmcache":
        normalized.setdefault(_CONNECTOR, _CONNECTORS["lmcache"])
    elif backend not in (None, "native"):
        normalized[_BACKEND] = backend
    swapped = normalized.pop(_SWAP, None)
    if swapped not in (None, 0):
        notes.append(Message("{}: {} GiB of host memory per GPU, no GPU memory", _SWAP, swapped))
    return normalized, notes


def _drafted(normalized: dict[str, Any]) -> Normalized:
    """How tokens are proposed, by the method or the draft's name (vllm, config/speculative.py, `__post_init__`)."""
    method, draft = normalized.get(_METHOD), normalized.get(_DRAFT)
    if method is None and draft is None:
        return normalized, ()
    if method is None:
        method = next(
            (each for each in ("eagle3", "eagle", "medusa", "dflash") if each in str(draft).lower()), "draft_model"
        )
    elif str(method).endswith("mtp"):
        method = "mtp"
    normalized[_METHOD] = method
    if method == "draft_model" or draft is None:
        return normalized, ()
    del normalized[_DRAFT]
    return normalized, (_taken(_DRAFT, draft, str(method)),)


def _taken(flag: str, draft: object, method: str) -> Message:
    """Return what a head's own config.json would say."""
    if method.lower() == "dflash":
        return Message(
            "{}: {} is counted as layers with the model's own widths, with the layer count of published heads",
            flag,
            draft,
        )
    return Message("{}: {} is counted as one layer with the model's own widths", flag, draft)


def same_bytes(normalized: dict[str, Any], *flags: str) -> tuple[Message, ...]:
    """Leave out by how many ranks experts are divided, and say that all ranks hold the same bytes of them.

    Within the tensor-parallel group, a rank has 1/n of the experts, and of those the slice that the rest of the group
    leaves it. Sources: sglang, layers/moe/fused_moe_triton/layer.py (`moe_ep_size`, `moe_tp_size`); TensorRT-LLM,
    mapping.py (`moe_tp_size`, `moe_ep_size`).
    """
    name = next((each for each in flags if isinstance(normalized.get(each), int)), None)
    for each in flags:
        normalized.pop(each, None)
    said = "{}: whole experts, or slices of all of them, take the same bytes on each GPU"
    return () if name is None else (Message(said, name),)


def _sglang(found: Mapping[str, Any]) -> Normalized:
    """SGLang's flags; `--model` is short for `--model-path` (server_args.py), which `sglang serve` takes bare, too.

    Source: SGLang 0.5.23, cli/serve.py (`_normalize_positional_model_path`).
    """
    _raise_elsewhere(found)
    if "*" in found:
        found = {"--model-path": found["*"], **found}
    normalized = _named(found, "SGLang", "--model-path")
    if _DECODING in normalized:  # whose tables captured graphs read
        normalized[_ATTENTION] = normalized.pop(_DECODING)
    cache = str(normalized.get("--kv-cache-dtype"))
    if cache in _SGLANG_CACHES:
        normalized["--kv-cache-dtype"] = _SGLANG_CACHES[cache]
    groups = next((normalized.pop(name) for name in _GROUPS if name in normalized), 1)
    if groups != 1:  # since 0.5.22
        normalized |= {"--dp-size": groups, "--enable-dp-attention": True}
    if normalized.pop("--enable-deepep-moe", False) is True:  # before 0.4.10
        normalized.setdefault(_ALL_TO_ALL, "deepep")
    if normalized.get(_ALL_TO_ALL) in ("deepep", "flashinfer"):
        normalized[_EXPERTS] = True
    normalized, reach = positions.stretched(captured_flags.captured(normalized), positions.SGLANG)
    slots = _with_slots(normalized, _BATCH_SLOTS, _USUAL_SLOTS)
    shared = (*same_bytes(normalized, *_EP), *reach, *slots)
    proposed, notes = _proposed(normalized)
    return proposed, (*shared, *notes)


def _proposed(normalized: dict[str, Any]) -> Normalized:
    """How tokens are proposed (arg_groups/speculative_hook.py)."""
    algorithm = str(normalized.get("--speculative-algorithm", "")).upper()
    draft = next((normalized.pop(name) for name in _DRAFTS if name in normalized and algorithm != "STANDALONE"), None)
    if not algorithm:
        return normalized, ()
    own = algorithm == "EAGLE" and draft is None  # the checkpoint's own layers
    normalized["--speculative-algorithm"] = "NEXTN" if own else algorithm
    steps = normalized.pop("--speculative-num-steps", None)
    if normalized.get("--speculative-eagle-topk", 1) == 1 and steps is not None:
        normalized.pop("--speculative-eagle-topk", None)
        normalized["*drafted"] = steps
        normalized.pop("--speculative-num-draft-tokens", None)
    elif isinstance(many := normalized.pop("--speculative-num-draft-tokens", None), int):
        normalized["*drafted"] = many - 1  # the last token is verified with them
    return normalized, () if draft is None else (_taken("--speculative-draft-model-path", draft, algorithm),)


_ATTENTION, _DECODING = "--attention-backend", "--decode-attention-backend"
_GROUPS = ("--attn-dp-size", "--attention-data-parallel-size")
_EP = ("--ep-size", "--ep", "--expert-parallel-size")
_ALL_TO_ALL, _EXPERTS = "--moe-a2a-backend", "*experts"
"""Both share whole experts out over all ranks (server_args.py, `_handle_a2a_moe`)."""
_SGLANG_CACHES: Mapping[str, str] = {"fp8": "fp8_e4m3", "bfloat16": "bf16"}
"""Two words for one type (server_args.py, `--kv-cache-dtype`)."""
_SUMS = "--disable-custom-all-reduce"
_DRAFTS = ("--speculative-draft-model-path", "--speculative-draft-model")


_NO_FLAGS = frozenset(
    {
        VllmSettings.kv_connector,
        VllmSettings.compile_cache,
        VllmSettings.flashinfer_sampler,
        VllmSettings.estimate_cudagraphs,
        VllmSettings.use_v1,
        VllmSettings.use_v2_model_runner,
        VllmSettings.cudagraph_mode,
        VllmSettings.videos_per_sequence,
        VllmSettings.max_pixels,
    }
)
"""Settings that vLLM has in a file, in its environment (envs.py) or within another flag."""

_SERVE = "vllm serve"
_OF_SAMPLING = (
    "n", "best_of", "presence_penalty", "frequency_penalty", "temperature", "top_p", "top_k", "use_beam_search", "stop",
    "ignore_eos", "max_new_tokens", "logprobs", "callbacks", "verbose", "cache", "tags", "metadata",
)  # fmt: skip
"""What LangChain's class takes besides (langchain-community 0.4, llms/vllm.py)."""
VLLM = Tool(
    name="vllm",
    title="vLLM",
    syntax="argv",
    engines=("vllm",),
    loads=_loaded,
    wants=_stored,
    program="vllm serve",
    takes_file=True,
    prefixes=("vllm serve", "vllm.entrypoints", "vllm/vllm-openai"),
    served=(
        Served(names=("LLM", "EngineArgs", "AsyncEngineArgs"), library="vllm", program=_SERVE, places=("model",)),
        Served(names=("VLLM",), library="langchain", program=_SERVE, places=("model",), mappings=("vllm_kwargs",),
               ignored=_OF_SAMPLING),
    ),
    tells=("--gpu-memory-utilization", "--max-num-batched-tokens", "--max-num-seqs", "--enforce-eager"),
    model="*",
    keys=(
        Key(path=Parallelism.tensor_parallel_size, name="--tensor-parallel-size", also=("-tp",)),
        Key(path=Parallelism.pipeline_parallel_size, name="--pipeline-parallel-size", also=("-pp",)),
        Key(path=Parallelism.data_parallel_size, name="--data-parallel-size", also=("-dp",)),
        Key(path=Parallelism.context_parallel_size, name="--decode-context-parallel-size", also=("-dcp",)),
        Key(path=Inference.max_model_len, name="--max-model-len"),
        Key(path=Inference.max_num_seqs, name="--max-num-seqs"),
        Key(path=Inference.block_size, name="--block-size"),
        Key(path=Inference.weight_dtype, name="--dtype", values=TORCH_DTYPES),
        Key(path=Inference.quantization, name="--quantization", also=("-q",), spelled=_METHODS_OF_VLLM.get),
        Key(
            path=Inference.kv_cache_dtype,
            name="--kv-cache-dtype",
            values={"fp8": "fp8", "bf16": "bfloat16", "auto": "auto", "fp8_ds_mla": "fp8_ds_mla", "nvfp4": "nvfp4",
                    "int8": "int8_per_token_head", "int4": "int4_per_token_head"},
        ),
        Key(path=Inference.speculative_method, name=_METHOD, also=("--spec-method",), values=_METHODS),
        Key(path=Inference.num_speculative_tokens, name=_TOKENS, also=("--spec-tokens",)),
        Key(path=Inference.draft_model, name=_DRAFT, also=("--spec-model",)),
        Key(path=Inference.max_loras, name="--max-loras"),
        Key(path=Inference.max_lora_rank, name="--max-lora-rank"),
        Key(path=Inference.images_per_sequence, name=_LIMITS, spelled=_limits),
        Key(path=Inference.images_per_sequence, name=_IMAGES),
        Key(path=VllmSettings.videos_per_sequence, name=_VIDEOS),
        Key(path=VllmSettings.max_pixels, name=_PIXELS),
        Key(path=VllmSettings.cudagraph_mode, name=_GRAPHS),
        Key(path=VllmSettings.kv_connector, name=_CONNECTOR, values=_CONNECTORS),
        Key(path=VllmSettings.compile_cache, name="*env.VLLM_DISABLE_COMPILE_CACHE", values={True: 0, False: 1}),
        Key(path=VllmSettings.flashinfer_sampler, name="*env.VLLM_USE_FLASHINFER_SAMPLER",
            values={True: 1, False: 0}),
        Key(path=VllmSettings.estimate_cudagraphs, name="*env.VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
            values={True: 1, False: 0}),
        Key(path=VllmSettings.use_v1, name="*env.VLLM_USE_V1", values={True: 1, False: 0}),
        Key(path=VllmSettings.use_v2_model_runner, name="*env.VLLM_USE_V2_MODEL_RUNNER",
            values={True: 1, False: 0}),
        *_reach(positions.VLLM),
        *(each for each in _own(VllmSettings, "--no-{}") if each.path not in _NO_FLAGS),
        Key(
            path=ServerSettings.enable_expert_parallel,
            name="--enable-expert-parallel",
            also=("-ep",),
            off="--no-enable-expert-parallel",
        ),
        Key(path=ServerSettings.disable_custom_all_reduce, name=_SUMS, off="--no-disable-custom-all-reduce"),
    ),
    ignored=("--host", "--port", "--api-key", "--served-model-name", "--seed", "--download-dir", "--trust-remote-code",
             "--chat-template", "--tokenizer", "--disable-log-requests", "--enable-auto-tool-choice",
             "--tool-call-parser", "--reasoning-parser", "--generation-config", "--load-format",
             f"{_PROCESSOR}.min_pixels"),
    normalized=_vllm,
    placed=_limited,
    alongside={_SLOTS[0]: (_LORA, True), _CONNECTOR: (f"{_TRANSFER}.kv_role", "kv_both")},
    settles=("--speculative-config", _CHUNKS, _LORA, _TEXT_ALONE, _TRANSFER, _BACKEND, _SWAP, _TASK,
             _CONVERT, "--rope-scaling"),
    unsaid={Parallelism.tensor_parallel_size: 1},
    vocabulary=("vllm",),
    abbreviates=True,
    source="vllm, engine/arg_utils.py",
)  # fmt: skip

_RENAMED = frozenset({
    SglangSettings.mamba_ssm_dtype, SglangSettings.mamba_radix_cache_strategy, SglangSettings.cuda_graph_max_bs,
    SglangSettings.deepep_dispatch_tokens, SglangSettings.cuda_graph_sizes, SglangSettings.prefill_cuda_graph,
    SglangSettings.prefill_graph_tokens,
})  # fmt: skip
"""Settings that SGLang has under other names, or in other words."""

SGLANG = Tool(
    name="sglang",
    title="SGLang",
    syntax="argv",
    engines=("sglang",),
    loads=_loaded,
    wants=_stored,
    program="python -m sglang.launch_server",
    prefixes=("sglang.launch_server", "sglang serve"),
    served=(
        Served(names=("Engine", "ServerArgs"), library="sglang", program="sglang.launch_server", places=("model_path",),
               key="--model-path", negates=False),
    ),
    tells=("--mem-fraction-static", "--chunked-prefill-size", "--max-running-requests"),
    model="--model-path",
    keys=(
        Key(path=Parallelism.tensor_parallel_size, name="--tp-size", also=("--tp", "--tensor-parallel-size")),
        Key(path=Parallelism.pipeline_parallel_size, name="--pp-size", also=("--pp", "--pipeline-parallel-size")),
        Key(path=Parallelism.data_parallel_size, name="--dp-size", also=("--dp", "--data-parallel-size")),
        Key(path=Inference.max_model_len, name="--context-length"),
        Key(path=Inference.max_num_seqs, name="--max-running-requests"),
        Key(path=Inference.block_size, name="--page-size"),
        Key(path=Inference.weight_dtype, name="--dtype", values=TORCH_DTYPES),
        Key(path=Inference.quantization, name="--quantization", spelled=_METHODS_OF_SGLANG.get),
        Key(
            path=Inference.kv_cache_dtype,
            name="--kv-cache-dtype",
            values={"fp8": "fp8_e4m3", "bf16": "bf16", "auto": "auto"},
        ),
        Key(path=Inference.speculative_method, name="--speculative-algorithm", values=_ALGORITHMS),
        Key(path=Inference.num_speculative_tokens, name="*drafted"),
        Key(path=Inference.draft_model, name="--speculative-draft-model-path", also=("--speculative-draft-model",)),
        *_reach(positions.SGLANG),
        Key(path=SglangSettings.mamba_ssm_dtype, name="--mamba-ssm-dtype", values=TORCH_DTYPES),
        Key(path=SglangSettings.mamba_radix_cache_strategy, name=_STRATEGY, also=("--mamba-scheduler-strategy",)),
        Key(path=SglangSettings.cuda_graph_max_bs, name=captured_flags.LARGEST[0], also=captured_flags.LARGEST[1:]),
        Key(path=SglangSettings.cuda_graph_sizes, name=captured_flags.SIZES),
        Key(path=SglangSettings.prefill_cuda_graph, name=captured_flags.PROMPTS, values=captured_flags.KINDS),
        Key(path=SglangSettings.prefill_graph_tokens, name=captured_flags.LONGEST),
        Key(path=Inference.max_loras, name=_BATCH_SLOTS[0]),
        Key(path=Inference.max_lora_rank, name=_BATCH_SLOTS[1]),
        Key(path=SglangSettings.deepep_dispatch_tokens, name="*env.SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"),
        *(each for each in _own(SglangSettings, "") if each.path not in _RENAMED),
        Key(path=ServerSettings.enable_expert_parallel, name=_EXPERTS),
        Key(path=ServerSettings.disable_custom_all_reduce, name=_SUMS, off=""),
    ),
    ignored=("--host", "--port", "--api-key", "--served-model-name", "--random-seed", "--trust-remote-code",
             "--log-level", "--chat-template", "--tool-call-parser", "--reasoning-parser"),
    normalized=_sglang,
    settles=(
        "--enable-deepep-moe",
        *_GROUPS,
        "--speculative-num-steps",
        "--speculative-num-draft-tokens",
        "--speculative-eagle-topk",
        *_EP,
        *captured_flags.FLAGS,
        _DECODING,
        _LORA,
        _PATHS,
    ),
    alongside={_BATCH_SLOTS[0]: (_LORA, True)},
    unsaid={Parallelism.tensor_parallel_size: 1},
    vocabulary=("sglang",),
    abbreviates=True,
    source="sglang, server_args.py",
)  # fmt: skip
TOOLS = (VLLM, SGLANG)
