"""llama.cpp from Python: llama-cpp-python's class, and those of LangChain and LlamaIndex around it.

They have one sequence, 512 tokens and no layer on the GPU unless they are told otherwise, no flash attention, and
caches of windowed layers for all tokens (`llama_context_default_params`, where llama-server's flags say otherwise).

Sources: llama-cpp-python 0.3.35, llama_cpp/llama.py (`Llama.__init__`, `from_pretrained`); llama.cpp,
src/llama-context.cpp and ggml/include/ggml.h; langchain-community 0.4, llms/llamacpp.py; llama-index-llms-llama-cpp,
0.7, base.py (`LlamaCPP`: a context of 3,900 tokens).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from memcore.formats.python import Call
from memcore.formats.served import Served

_TYPES: Mapping[int, str] = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 20: "iq4_nl", 30: "bf16",
}  # fmt: skip
"""`ggml_type`, as caches may have it."""
_NAMED_TYPE = "$GGML_TYPE_"
_SPLIT = ("none", "layer", "row")
"""`llama_split_mode`."""
_FLAGS: Mapping[str, str] = {
    "n_gpu_layers": "-ngl", "n_ctx": "-c", "n_batch": "-b", "n_ubatch": "-ub", "flash_attn": "-fa",
    "type_k": "-ctk", "type_v": "-ctv", "split_mode": "-sm", "tensor_split": "-ts", "main_gpu": "--main-gpu",
    "swa_full": "--swa-full", "lora_path": "--lora", "repo_id": "-hf", "filename": "--hf-file", "model_path": "-m",
}  # fmt: skip
_UNSAID: Mapping[str, object] = {
    "n_gpu_layers": 0, "n_ctx": 512, "n_batch": 512, "n_ubatch": 512, "flash_attn": False, "swa_full": True,
}  # fmt: skip
_OF_LANGCHAIN = {"n_batch": 8}
_OF_INDEX = {"context_window": "n_ctx", "model_url": "model_path"}
_INDEXED = {"n_ctx": 3900}
_IGNORED = (
    "verbose", "seed", "n_threads", "n_threads_batch", "last_n_tokens_size", "chat_format", "tokenizer", "use_mmap",
    "use_mlock", "no_perf", "numa", "spm_infill", "local_dir", "local_dir_use_symlinks", "cache_dir", "lora_scale",
    "rope_freq_base", "rope_freq_scale", "rope_scaling_type", "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast",
    "yarn_beta_slow", "yarn_orig_ctx", "f16_kv", "kv_overrides", "additional_files",
)  # fmt: skip
"""What memory on the GPU does not depend on; `f16_kv` is no longer read."""
_OF_SAMPLING = (
    "temperature", "max_tokens", "top_p", "top_k", "min_p", "stop", "streaming", "callbacks", "callback_manager",
    "repeat_penalty", "echo", "logprobs", "suffix", "grammar_path", "grammar", "name", "cache", "tags", "metadata",
    "max_new_tokens", "generate_kwargs", "messages_to_prompt", "completion_to_prompt", "model_name",
)  # fmt: skip
"""The same for what frameworks take besides."""


def _flags(given: Mapping[str, Any], found: Sequence[Call]) -> Mapping[str, Any]:
    """Return the arguments as llama-server's flags, of one sequence."""
    given = {**_UNSAID, **{name: value for name, value in given.items() if value is not None}}
    given = {**_downloaded(given, found), **given}
    if "repo_id" in given:
        given.pop("model_path", None)
    for part in ("type_k", "type_v"):
        if part in given:
            given[part] = _type(given[part])
    if isinstance(given.get("split_mode"), int) and given["split_mode"] < len(_SPLIT):
        given["split_mode"] = _SPLIT[given["split_mode"]]
    if isinstance(given.get("tensor_split"), list):
        given["tensor_split"] = ",".join(map(str, given["tensor_split"]))
    for part, most in (("n_batch", "n_ctx"), ("n_ubatch", "n_batch")):  # a batch of the whole context at most
        if isinstance(given[part], int) and isinstance(given[most], int) and given[most] > 0:
            given[part] = min(given[part], given[most])
    towers = {"--mmproj": _projector(found)} if given.pop("chat_handler", None) is not None else {}
    host = {"--no-kv-offload": True} if given.pop("offload_kqv", True) is False else {}
    given["flash_attn"] = {True: "on", False: "off"}.get(given["flash_attn"], given["flash_attn"])
    flags = {_FLAGS.get(name, f"--{name.replace('_', '-')}"): value for name, value in given.items()}
    return {"-np": 1, **host, **towers, **{flag: value for flag, value in flags.items() if value is not False}}


def _projector(found: Sequence[Call]) -> object:
    """Return the file with a model's towers, which the handler of its chats loads (llama_chat_format.py)."""
    made = [each.arguments for each in found if "ChatHandler" in f"{each.of}{each.name}"]
    files = [each[name] for each in made for name in ("clip_model_path", "filename") if name in each]
    return files[0] if files else True


def _type(value: object) -> object:
    """Return the type of a cache by its name in llama.cpp, from its number or its name in C."""
    if isinstance(value, str):
        return value.removeprefix(_NAMED_TYPE).lower() if value.startswith(_NAMED_TYPE) else value
    return _TYPES.get(value, value) if isinstance(value, int) else value


def _downloaded(given: Mapping[str, Any], found: Sequence[Call]) -> dict[str, Any]:
    """Return the repository and the file that a model's path was downloaded from, by the same script."""
    path = str(given.get("model_path", ""))
    for call in found:
        if call.name != "hf_hub_download":
            continue
        repository, file = (
            call.arguments.get(name, call.places[at] if len(call.places) > at else None)
            for at, name in enumerate(("repo_id", "filename"))
        )
        if path == f"${call.name}" or (isinstance(file, str) and fnmatchcase(path.rpartition("/")[2], file)):
            return {"repo_id": repository, "filename": file}
    return {}


def _of_langchain(given: Mapping[str, Any], found: Sequence[Call]) -> Mapping[str, Any]:
    """Return the same for LangChain's class, whose batch is small."""
    return _flags({**_OF_LANGCHAIN, **given}, found)


def _of_index(given: Mapping[str, Any], found: Sequence[Call]) -> Mapping[str, Any]:
    """Return the same for LlamaIndex's class, which has other names and a longer context."""
    return _flags({**_INDEXED, **{_OF_INDEX.get(name, name): value for name, value in given.items()}}, found)


_PROGRAM = "llama-server"
SERVED = (
    Served(names=("Llama",), library="llama_cpp", program=_PROGRAM, places=("model_path",), ignored=_IGNORED,
           arguments=_flags),
    Served(names=("Llama",), method="from_pretrained", library="llama_cpp", program=_PROGRAM,
           places=("repo_id", "filename"), ignored=_IGNORED, arguments=_flags),
    Served(names=("LlamaCpp", "ChatLlamaCpp"), library="langchain", program=_PROGRAM, places=("model_path",),
           mappings=("model_kwargs",), ignored=(*_IGNORED, *_OF_SAMPLING), arguments=_of_langchain),
    Served(names=("LlamaCPP",), library="llama_index", program=_PROGRAM, places=("model_url",),
           mappings=("model_kwargs",), ignored=(*_IGNORED, *_OF_SAMPLING), arguments=_of_index),
)  # fmt: skip
"""Classes that load a GGUF file."""
