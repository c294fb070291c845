"""TensorRT-LLM's command line, and the YAML of its LLM API (`--config`, `--extra_llm_api_options`).

Source: TensorRT-LLM 1.3, tensorrt_llm/commands/serve.py (`get_llm_args`, `update_llm_args_with_extra_dict`: what the
YAML says holds) and llmapi/llm_args.py (`TorchLlmArgs`, `KvCacheConfig`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.formats.normalized import Normalized
from memcore.formats.python import Call
from memcore.formats.readers import flat
from memcore.formats.served import Served
from memcore.formats.shell import FILE
from memcore.formats.tool import Key, Tool
from memcore.formats.values import TORCH_DTYPES
from memcore.formats.yaml import read_yaml
from memcore.messages import Message
from memcore.servers.command_lines import same_bytes
from memcore.servers.tensorrt_llm.settings import BACKENDS, KERNELS, PYTORCH, TENSORRT, TensorRtSettings
from memcore.serving.inference import Inference

_CONFIGS = ("--config", "--extra_llm_api_options")
_CACHE, _DTYPE = "kv_cache_config", "--kv_cache_dtype"
_CACHES: Mapping[str, str] = {
    "auto": "auto", "fp8": "fp8", "nvfp4": "nvfp4", "bf16": "bfloat16", "fp16": "float16", "fp32": "float32",
    "fp8_ds_mla": "fp8_ds_mla",
}  # fmt: skip
_SPECULATION = "speculative_config"
_METHOD = f"{_SPECULATION}.decoding_type"
_LAYERS, _TOKENS = f"{_SPECULATION}.num_nextn_predict_layers", f"{_SPECULATION}.max_draft_len"
_METHODS: Mapping[str, str] = {"mtp": "MTP", "eagle3": "Eagle3", "eagle": "Eagle", "ngram": "NGram", "medusa": "Medusa"}
_CAPTURED, _GREATEST, _BACKEND = "*graphs", "*largest-graph", "backend"
_DRAFTS = tuple(f"{_SPECULATION}.{each}" for each in ("speculative_model", "speculative_model_dir"))
_VALUES: Mapping[str, Mapping[str, str]] = {
    Inference.kv_cache_dtype: _CACHES, Inference.weight_dtype: TORCH_DTYPES, Inference.speculative_method: _METHODS,
    TensorRtSettings.moe_kernels: {each: each.upper() for each in KERNELS},
    TensorRtSettings.trtllm_backend: {each: each for each in BACKENDS},
}  # fmt: skip
_NAMES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (Parallelism.tensor_parallel_size, ("--tp_size", "--tensor_parallel_size"), "tensor_parallel_size"),
    (Parallelism.pipeline_parallel_size, ("--pp_size", "--pipeline_parallel_size"), "pipeline_parallel_size"),
    (Inference.max_model_len, ("--max_seq_len",), "max_seq_len"),
    (Inference.max_num_seqs, ("--max_batch_size",), "max_batch_size"),
    (TensorRtSettings.max_num_tokens, ("--max_num_tokens",), "max_num_tokens"),
    (
        TensorRtSettings.free_gpu_memory_fraction,
        ("--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"),
        f"{_CACHE}.free_gpu_memory_fraction",
    ),
    (Inference.kv_cache_dtype, (_DTYPE,), f"{_CACHE}.dtype"),
    (Inference.block_size, (), f"{_CACHE}.tokens_per_block"),
    (Inference.weight_dtype, (), "dtype"),
    (Inference.speculative_method, (), _METHOD),
    (Inference.num_speculative_tokens, (), f"{_SPECULATION}.max_draft_len"),
    (TensorRtSettings.cuda_graphs, (), _CAPTURED),
    (TensorRtSettings.largest_graph, (), _GREATEST),
    (TensorRtSettings.trtllm_backend, ("--backend",), _BACKEND),
    (TensorRtSettings.enable_attention_dp, ("--enable_attention_dp",), "enable_attention_dp"),
    (TensorRtSettings.moe_kernels, (), "moe_config.backend"),
)
"""Settings with their flags, and the keys of the YAML."""
_SWITCHES = (TensorRtSettings.enable_attention_dp,)
"""Flags without a value (commands/serve.py, `is_flag`)."""


def _keys(*, flags: bool) -> Iterator[Key]:
    for path, own, name in _NAMES:
        values = _VALUES.get(path)
        known = flags and not name.startswith("*")
        names = (*(own or (f"*{name}",)), name) if known else (name,)  # what has no flag is read and not written
        off = "" if known and path in _SWITCHES else None
        yield Key(path=path, name=names[0], also=names[1:], values=values, off=off)


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return the command's flags, and above them what the file of settings says that the script writes."""
    normalized = {_with_underscores(name): value for name, value in found.items()}
    notes: list[Message] = []
    for flag in _CONFIGS:
        name = normalized.pop(flag, None)
        if name is None:
            continue
        text = normalized.get(f"{FILE}{str(name).removeprefix('./')}")
        content = read_yaml(text) if isinstance(text, str) else None
        if isinstance(content, Mapping):
            normalized |= flat(content)
        else:
            notes.append(Message("{}: {} is a separate file; give it as well", flag, name))
    plain, more = _of_file(normalized)
    return plain, (*notes, *more)


def _with_underscores(name: str) -> str:
    return f"--{name[2:].replace('-', '_')}" if name.startswith("--") and name != "--generation-config" else name


_EP = ("--ep_size", "--moe_expert_parallel_size", "ep_size", "moe_expert_parallel_size", "moe_tensor_parallel_size")
_OF_BENCH: Mapping[str, str] = {
    "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size",
    "kv_cache_free_gpu_mem_fraction": f"{_CACHE}.free_gpu_memory_fraction",
}  # fmt: skip
"""Options of trtllm-bench (commands/bench.py, bench/benchmark/throughput.py) as keys of a file."""

_SECTION, _GRAPHS = "pytorch_backend_config.", "cuda_graph_config"
_FORMER: Mapping[str, str] = {
    "use_cuda_graph": f"{_GRAPHS}.mode", "cuda_graph_padding_enabled": f"{_GRAPHS}.enable_padding",
    "cuda_graph_batch_sizes": f"{_GRAPHS}.batch_sizes", "cuda_graph_max_batch_size": f"{_GRAPHS}.max_batch_size",
    "kv_cache_dtype": f"{_CACHE}.dtype", "enable_overlap_scheduler": "disable_overlap_scheduler",
}  # fmt: skip
"""Keys of a section that releases before 0.20 had, and what they were called until 1.0 (llmapi/llm_args.py)."""


_BUILT = ("tensorrt", "trt")
"""Words for an engine that is built (commands/serve.py and bench.py, `--backend`); `_autodeploy` is PyTorch's."""
_LARGEST, _STEP, _MOST = 128, 64, 2**16
"""The largest batch that is captured where none is said, and how far apart those beyond it are if batches are padded,
and the largest of which batches are listed here."""


def _sizes(largest: int, *, padded: bool) -> list[int]:
    """Return the batches that are captured where they are not listed.

    Source: TensorRT-LLM 1.3, llmapi/llm_args.py (`_generate_cuda_graph_batch_sizes`).

    >>> len(_sizes(128, padded=False)), _sizes(256, padded=True)[-3:]
    (34, [128, 192, 256])
    """
    if padded:
        found = [1, 2, 4, *range(8, _LARGEST + 1, 8), *range(_LARGEST + _STEP, largest + 1, _STEP)]
    else:
        found = [*range(1, 33), 64, _LARGEST]
        while found[-1] * 2 < largest:
            found.append(found[-1] * 2)
    return sorted({*(each for each in found if each <= largest), largest})


def _captured(normalized: Mapping[str, Any]) -> list[int] | None:
    """Return the batches of decoding that are captured; None where the file says nothing of it, or what is no number.

    No batch is larger than the server's (_torch/pyexecutor/model_engine.py, `_filter_cuda_graph_batch_sizes`).
    """
    if normalized.get(f"{_GRAPHS}.mode") is False:
        return []  # `use_cuda_graph` of releases before 0.20
    listed, largest, padded = (normalized.get(f"{_GRAPHS}.{name}") for name in ("batch_sizes", "max_batch_size",
                                                                               "enable_padding"))  # fmt: skip
    most = normalized.get("max_batch_size", normalized.get("--max_batch_size"))
    most = most if isinstance(most, int) and most > 0 else None
    if isinstance(listed, list) and listed and all(type(each) is int for each in listed):
        return sorted({each for each in listed if most is None or each <= most})
    if largest is None and padded is None:
        return None
    largest = largest if type(largest) is int and largest > 0 else _LARGEST
    if largest > _MOST:
        return None
    return [each for each in _sizes(largest, padded=padded is True) if most is None or each <= most]


def _of_file(found: Mapping[str, Any]) -> Normalized:
    """Return the keys of a file of settings: how tokens are proposed, and what says that nothing is."""
    plain = {name.removeprefix(_SECTION): value for name, value in found.items()}
    normalized = {_FORMER.get(name, _OF_BENCH.get(name, name)): value for name, value in plain.items()}
    captured = _captured(normalized)
    if captured is not None:
        normalized = {name: value for name, value in normalized.items() if name not in _OF_GRAPHS}
        normalized[_CAPTURED] = len(captured)
        normalized |= {_GREATEST: captured[-1]} if captured else {}
    if any(name.startswith(_SECTION) for name in found):
        normalized.setdefault(_BACKEND, PYTORCH)
    for name in (_BACKEND, "--backend"):
        if name in normalized:
            normalized[name] = TENSORRT if normalized[name] in _BUILT else PYTORCH
    notes = [*same_bytes(normalized, *_EP)]
    if normalized.get(_METHOD) in (None, "None", "none"):
        normalized.pop(_METHOD, None)
    else:
        count = normalized.pop(_LAYERS, None)  # MTP's own word for it before 1.2
        if count is not None:
            normalized.setdefault(_TOKENS, count)
        draft = next((normalized.pop(each) for each in _DRAFTS if each in normalized), None)
        if draft is not None:
            taken = "{}: {} is counted as one layer with the model's own widths"
            notes.append(Message(taken, _DRAFTS[0], draft))
        method = str(normalized[_METHOD]).lower().replace("_", "")
        normalized[_METHOD] = next((each for each in _METHODS.values() if each.lower() == method), normalized[_METHOD])
    return normalized, tuple(notes)


_OF_GRAPHS = (_GRAPHS, *(f"{_GRAPHS}.{name}" for name in ("batch_sizes", "max_batch_size", "enable_padding", "mode")))


def _graphs(config: Config) -> Mapping[str, Any]:
    """Return as many batches as are captured, and the largest of them."""
    count = config[TensorRtSettings.cuda_graphs] or 0
    largest = max(config[TensorRtSettings.largest_graph] or count, count)
    return {f"{_GRAPHS}.batch_sizes": [*range(1, count), largest]} if 0 < count <= _MOST else {}


_PARTS: Mapping[str, str] = {
    "KvCacheConfig": _CACHE, "CudaGraphConfig": _GRAPHS, "MoeConfig": "moe_config",
}  # fmt: skip
"""Classes of Python that stand for sections of a file (tensorrt_llm/llmapi/llm_args.py)."""


def _of_python(given: Mapping[str, Any], found: Sequence[Call]) -> Mapping[str, Any]:
    """Return the arguments of `LLM` as keys of a file, with those of the objects among them."""
    made = {_PARTS[each.name]: each for each in found if each.name in _PARTS}
    parts = {section: dict(each.arguments) for section, each in made.items() if section in given}
    return {
        "*": given.get("model"),
        **flat({**{name: each for name, each in given.items() if name != "model"}, **parts}),
    }


TENSORRT_LLM = Tool(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    syntax="argv",
    engines=("tensorrt-llm",),
    program="trtllm-serve",
    prefixes=("trtllm-serve",),
    tells=("--kv_cache_free_gpu_memory_fraction", "--max_num_tokens"),
    model="*",
    keys=tuple(_keys(flags=True)),
    ignored=("--host", "--port", "--backend", "--log_level", "--trust_remote_code", "--tokenizer"),
    normalized=_normalized,
    settles=(*_CONFIGS, _LAYERS, *_EP, *_OF_GRAPHS),
    unsaid={Parallelism.tensor_parallel_size: 1},
    vocabulary=("tensorrt-llm",),
    served=(
        Served(
            names=("LLM",),
            library="tensorrt_llm",
            program="trtllm-serve",
            places=("model",),
            ignored=("tokenizer", "trust_remote_code", "backend"),
            arguments=_of_python,
        ),
    ),
    source="TensorRT-LLM, commands/serve.py",
)
OPTIONS = Tool(
    name="tensorrt-llm-options",
    title="TensorRT-LLM's LLM API",
    syntax="yaml",
    engines=("tensorrt-llm",),
    tells=(
        _CACHE,
        "kv_cache_free_gpu_mem_fraction",
        "cuda_graph_config",
        "moe_config",
        "enable_attention_dp",
        "enable_iter_perf_stats",
        "print_iter_log",
        _SECTION.rstrip("."),
        "use_cuda_graph",
    ),
    model="model",
    always={"print_iter_log": False},  # a key of its own, by which the file is known
    keys=tuple(_keys(flags=False)),
    normalized=_of_file,
    settles=(_LAYERS, *_OF_BENCH, *_EP, *_OF_GRAPHS),
    written=_graphs,
    unsaid={Parallelism.tensor_parallel_size: 1},
    vocabulary=("tensorrt-llm",),
    source="TensorRT-LLM, llmapi/llm_args.py",
)
TOOLS = (TENSORRT_LLM, OPTIONS)
