"""Repositories with weights in a format that servers load and do not make: which one to name for a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from memcore.errors import ConfigError
from memcore.networks.catalog import identified, named

_AWQ_OF_QWEN = (
    *(f"Qwen2.5-{size}B-Instruct" for size in ("0.5", "1.5", "3", "7", "14", "32", "72")),
    *(f"Qwen2.5-Coder-{size}B-Instruct" for size in ("0.5", "1.5", "3", "7", "14", "32")),
    *(f"Qwen2.5-VL-{size}B-Instruct" for size in ("3", "7", "32", "72")),
    *(f"Qwen3-{size}B" for size in ("4", "8", "14", "32")),
    "QwQ-32B",
)
_GPTQ_OF_QWEN = (
    *(f"Qwen2.5-{size}B-Instruct" for size in ("0.5", "1.5", "3", "7", "14", "32", "72")),
    *(f"Qwen2.5-Coder-{size}B-Instruct" for size in ("0.5", "1.5", "3", "7", "14", "32")),
    *(f"Qwen3-{size}" for size in ("30B-A3B", "235B-A22B")),
    "Qwen3.5-27B",
)
_FOUR_BITS_OF_RED_HAT = (
    *(f"Meta-Llama-3.1-{size}B-Instruct" for size in ("8", "70", "405")),
    *(f"Qwen3-{size}" for size in ("0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B")),
    *(f"gemma-3-{size}b-it" for size in ("4", "12", "27")),
    *(f"DeepSeek-R1-Distill-{size}B" for size in ("Qwen-7", "Qwen-14", "Qwen-32", "Llama-8", "Llama-70")),
    "Llama-3.3-70B-Instruct",
    "Llama-4-Scout-17B-16E-Instruct",
    "Mistral-Small-24B-Instruct-2501",
    "Mistral-Small-3.1-24B-Instruct-2503",
    "phi-4",
)
_EIGHT_BITS_OF_RED_HAT = (
    *(f"Meta-Llama-3.1-{size}B-Instruct" for size in ("8", "70", "405")),
    *(f"Llama-3.2-{size}B-Instruct" for size in ("1", "3")),
    *(f"DeepSeek-R1-Distill-{size}B" for size in ("Qwen-1.5", "Qwen-7", "Qwen-14", "Qwen-32", "Llama-8", "Llama-70")),
    "Llama-3.3-70B-Instruct",
)
_FP4_OF_NVIDIA = (
    *(f"Qwen3-{size}" for size in ("8B", "14B", "32B", "30B-A3B", "235B-A22B", "Next-80B-A3B-Instruct")),
    *(f"Qwen3.{size}" for size in ("5-397B-A17B", "6-27B", "6-35B-A3B")),
    *("Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", "Qwen3-Coder-480B-A35B-Instruct"),
)
_REPOSITORIES: tuple[str, ...] = (
    *(f"Qwen/{name}-AWQ" for name in _AWQ_OF_QWEN),
    *(f"Qwen/{name}-GPTQ-Int4" for name in _GPTQ_OF_QWEN),
    *(f"hugging-quants/Meta-Llama-3.1-{size}B-Instruct-AWQ-INT4" for size in (8, 70, 405)),
    *(f"cognitivecomputations/{name}-AWQ" for name in ("DeepSeek-R1", "DeepSeek-V3", "DeepSeek-V3-0324")),
    *(f"QuixiAI/Qwen3-{size}-AWQ" for size in ("30B-A3B", "235B-A22B")),
    "casperhansen/llama-3.3-70b-instruct-awq",
    "casperhansen/deepseek-r1-distill-llama-70b-awq",
    "casperhansen/mistral-nemo-instruct-2407-awq",
    "solidrust/Mistral-7B-Instruct-v0.3-AWQ",
    "stelterlab/Mistral-Small-24B-Instruct-2501-AWQ",
    "stelterlab/phi-4-AWQ",
    "TheBloke/Mixtral-8x7B-Instruct-v0.1-AWQ",
    *(f"RedHatAI/{name}-quantized.w4a16" for name in _FOUR_BITS_OF_RED_HAT),
    *(f"RedHatAI/{name}-quantized.w8a8" for name in _EIGHT_BITS_OF_RED_HAT),
    *(f"nvidia/{name}-NVFP4" for name in _FP4_OF_NVIDIA),
)
"""Sources: the makers' lists (QwenLM/Qwen3, docs/source/quantization; NVIDIA/TensorRT-LLM, docs/source/models and
examples/models/core; Red Hat AI's and hugging-quants' collections), vllm, tests/models/registry.py,
tests/weight_loading/models.txt and tests/models/quantization; sglang, python/sglang/test/test_utils.py;
modelscope/ms-swift, docs, Supported-models-and-datasets.md (AWQ of DeepSeek and of Qwen3's experts); pinned vLLM
commands of public repositories (casperhansen, solidrust, stelterlab, TheBloke). Only those are listed whose files
have the bytes that the format says: NVIDIA's of DeepSeek-R1, Gemma 4 and Kimi leave more in 16 bits."""
LIKE_AWQ = ("awq", "int4", "gptq")
"""Formats of 4 bits with a scale for each group of 128, of which any serves where AWQ does."""


_TUNED = re.compile(r"-(?:instruct|it|pt|base)(?=-\d{4}$|$)", re.IGNORECASE)
"""How names say whether a model follows instructions."""


@cache
def _of_models() -> Mapping[tuple[str, str], str]:
    """Return repositories by the model that they are of, however it is tuned, and their format."""
    found: dict[tuple[str, str], str] = {}
    for each in _REPOSITORIES:
        name = named(each)
        if name is not None and name.format is not None:
            found.setdefault((name.base, name.format), each)
            found.setdefault((_TUNED.sub("", name.base), name.format), each)
    return found


def repository(model: object, form: str, *, alike: bool = False) -> str | None:
    """Return a repository that has a model in a format; None where none is known.

    `alike`: or that has the same model tuned otherwise, in the same shapes.

    >>> repository("qwen3-32b", "awq"), repository("qwen3-32b", "nvfp4"), repository("gpt2", "awq")
    ('Qwen/Qwen3-32B-AWQ', 'nvidia/Qwen3-32B-NVFP4', None)
    >>> repository("gemma-3-27b-pt", "int4"), repository("gemma-3-27b-pt", "int4", alike=True)
    (None, 'RedHatAI/gemma-3-27b-it-quantized.w4a16')
    """
    if not isinstance(model, str):
        return None
    try:
        meant = identified(model)
    except ConfigError:
        return None
    if meant.format is not None:
        return None
    found = _of_models().get((meant.base, form))
    if found is not None and identified(found).base == meant.base:
        return found
    return _of_models().get((_TUNED.sub("", meant.base), form)) if alike else None
