"""`swift deploy` and `swift infer`, which hand their arguments on to a server, or to generate() of transformers.

Source: ms-swift 4.5, swift/arguments/infer_args.py: `vllm_*`, `sglang_*` and `lmdeploy_*` are the server's own
arguments; `vllm_gpu_memory_utilization` is 0.9 there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SERVES = re.compile(r"\bswift (?:deploy|infer|rollout)\b|swift/cli/(?:deploy|infer|rollout)\.py")
_BACKENDS: Mapping[str, tuple[str, str]] = {
    "vllm": ("vllm serve", "*"), "sglang": ("sglang.launch_server", "--model-path"),
    "lmdeploy": ("lmdeploy serve api_server", "*"),
}  # fmt: skip
"""What each runs, and the key of its model."""
_GENERATES: Mapping[str, str] = {
    "--model": "model", "--torch_dtype": "dtype", "--max_new_tokens": "max_new_tokens", "--max_length": "max_length",
    "--max_batch_size": "batch_size",
}  # fmt: skip
"""What transformers' engine takes (swift/infer_engine/transformers_engine.py), a text at a time where nothing is said;
`pt` is its former name."""
_BITS: Mapping[str, str] = {"4": "nf4", "8": "int8"}
_ITS_OWN: Mapping[str, Mapping[str, Any]] = {"vllm": {"--gpu-memory-utilization": 0.9}}
_RENAMED: Mapping[str, str] = {"--lmdeploy_vision_batch_size": "--vision-max-batch-size"}
"""Flags that are not called as the engine's (swift/infer_engine/lmdeploy_engine.py: `VisionConfig`)."""
_DTYPE = "--torch_dtype"
_WITHOUT_MEMORY = frozenset({
    "--host", "--port", "--max_new_tokens", "--temperature", "--top_p", "--top_k", "--stream", "--val_dataset",
    "--write_batch_size", "--served_model_name", "--load_data_args", "--result_path", "--verbose", "--log_interval",
    "--use_hf", "--system", "--template", "--api_key", "--max_batch_size", "--infer_backend", "--model", "--attn_impl",
})  # fmt: skip
_ON: Mapping[object, bool] = {"true": True, "True": True}
_OFF = ("false", "False", "none", "None")


def deployed(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the server's command that a command of ms-swift amounts to; None for another command.

    >>> deployed({"": "swift deploy", "--model": "a/b", "--infer_backend": "vllm", "--vllm_max_model_len": 8})
    {'': 'vllm serve', '*': 'a/b', '--gpu-memory-utilization': 0.9, '--max-model-len': 8}

    """
    if not _SERVES.search(str(found.get("", ""))):
        return None
    backend = str(found.get("--infer_backend", "transformers"))
    if backend in ("transformers", "pt"):
        return _generates(found)
    program, model = _BACKENDS[backend]
    keys: dict[str, Any] = {"": program, **_ITS_OWN.get(backend, {})}
    if "--model" in found:
        keys = {"": program, model: found["--model"], **_ITS_OWN.get(backend, {})}
    for name, value in found.items():
        own = name.startswith(f"--{backend}_")
        if own and value not in _OFF:
            flag = _RENAMED.get(name, f"--{name[len(backend) + 3 :].replace('_', '-')}")
            keys[flag] = _ON.get(value, value)
        elif name == _DTYPE:
            keys["--dtype"] = value
        elif not own and name and name not in _WITHOUT_MEMORY:
            keys[name] = value
    return keys


def _generates(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the call of generate() that a command with transformers' engine amounts to."""
    keys: dict[str, Any] = {"": "generate()", "batch_size": 1}
    for name, value in found.items():
        if name in _GENERATES:
            keys[_GENERATES[name]] = value
        elif name == "--quant_bits" and str(value) in _BITS:
            keys["quantization"] = _BITS[str(value)]
        elif name and name not in (*_WITHOUT_MEMORY, "--quant_method", "--nproc_per_node"):
            keys[name] = value
    return keys
