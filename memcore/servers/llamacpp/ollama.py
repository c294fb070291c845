"""Ollama's Modelfiles, `ollama run` and the environment of its server, which runs llama.cpp.

Sources: ollama 0.24, api/types.go (`Options`, `DefaultOptions`: batches of 512), envconfig/config.go, server/sched.go
(numParallel 1). Its library's names are those of ollama.com/library; tags without a format are Q4_K_M there but for the
first families.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memcore.config.settings import Config
from memcore.formats.modelfile import PROJECTOR
from memcore.formats.normalized import Normalized
from memcore.formats.shell import ENVIRONMENT
from memcore.formats.tool import Key, Tool
from memcore.messages import Message
from memcore.networks.catalog import find_model, named
from memcore.servers.llamacpp.files import WEIGHTS, as_file, of_gguf, type_of_towers, weights_of
from memcore.servers.llamacpp.projector import has_towers
from memcore.servers.llamacpp.settings import OLLAMA as FORK
from memcore.servers.llamacpp.settings import LlamaCppSettings
from memcore.serving.inference import Inference

_LIBRARY: Mapping[str, tuple[str, str]] = {
    "codellama": ("7b", "meta-llama/CodeLlama-{}-Instruct-hf"),
    "deepseek-coder-v2": ("16b", "deepseek-ai/DeepSeek-Coder-V2-{}-Instruct"),
    "deepseek-r1": ("8b", "deepseek-ai/DeepSeek-R1-Distill-{}"),
    "devstral": ("24b", "mistralai/Devstral-Small-2507"),
    "gemma2": ("9b", "google/gemma-2-{}-it"),
    "gemma3": ("4b", "google/gemma-3-{}-it"),
    "gpt-oss": ("20b", "openai/gpt-oss-{}"),
    "llama2": ("7b", "meta-llama/Llama-2-{}-hf"),
    "llama3": ("8b", "meta-llama/Meta-Llama-3-{}-Instruct"),
    "llama3.1": ("8b", "meta-llama/Llama-3.1-{}-Instruct"),
    "llama3.2": ("3b", "meta-llama/Llama-3.2-{}-Instruct"),
    "llama3.3": ("70b", "meta-llama/Llama-3.3-{}-Instruct"),
    "mistral": ("7b", "mistralai/Mistral-{}-Instruct-v0.3"),
    "mistral-nemo": ("12b", "mistralai/Mistral-Nemo-Instruct-2407"),
    "mistral-small": ("24b", "mistralai/Mistral-Small-{}-Instruct-2501"),
    "mixtral": ("8x7b", "mistralai/Mixtral-{}-Instruct-v0.1"),
    "phi3": ("mini", "microsoft/Phi-3-{}-4k-instruct"),
    "phi4": ("14b", "microsoft/phi-4"),
    "qwen2": ("7b", "Qwen/Qwen2-{}-Instruct"),
    "qwen2.5": ("7b", "Qwen/Qwen2.5-{}-Instruct"),
    "qwen2.5-coder": ("7b", "Qwen/Qwen2.5-Coder-{}-Instruct"),
    "qwen3": ("8b", "Qwen/Qwen3-{}"),
    "qwen3-coder": ("30b", "Qwen/Qwen3-Coder-{}-Instruct"),
    "qwen3-vl": ("8b", "Qwen/Qwen3-VL-{}-Instruct"),
    "qwen3.5": ("9b", "Qwen/Qwen3.5-{}"),
    "qwq": ("32b", "Qwen/QwQ-{}"),
    "smollm2": ("1.7b", "HuggingFaceTB/SmolLM2-{}-Instruct"),
    "tinyllama": ("1.1b", "TinyLlama/TinyLlama-{}-Chat-v1.0"),
}
"""Names of the library with the size of `latest`, and the hub id of a size."""
_SIZES: Mapping[str, str] = {
    "qwen3:30b": "Qwen/Qwen3-30B-A3B", "qwen3:235b": "Qwen/Qwen3-235B-A22B",
    "qwen3-coder:30b": "Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-coder:480b": "Qwen/Qwen3-Coder-480B-A35B-Instruct",
    "deepseek-r1:1.5b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1:8b": "Qwen/Qwen3-8B",
    "deepseek-r1:7b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "deepseek-r1:14b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
    "deepseek-r1:32b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "deepseek-r1:70b": "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "deepseek-r1:671b": "deepseek-ai/DeepSeek-R1",
    "deepseek-coder-v2:16b": "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct",
    "deepseek-coder-v2:236b": "deepseek-ai/DeepSeek-Coder-V2-Instruct",
    "phi3:mini": "microsoft/Phi-3-mini-4k-instruct", "phi3:3.8b": "microsoft/Phi-3-mini-4k-instruct",
    "phi3:medium": "microsoft/Phi-3-medium-4k-instruct", "phi3:14b": "microsoft/Phi-3-medium-4k-instruct",
}  # fmt: skip
"""Sizes that are called otherwise on the hub."""
_FIRST = frozenset({"codellama", "gemma2", "llama2", "llama3", "mixtral", "phi3", "tinyllama", "deepseek-coder-v2"})
"""Families whose tags without a format are Q4_0."""
_TOWERS = "*towers"
"""The type of the towers, which a model of the library has in its own file."""
_NATIVE: Mapping[str, str] = {"gpt-oss": "mxfp4"}
_SIZE = re.compile(r"(?:e?\d+(?:\.\d+)?[bm]|\d+x\d+b|mini|medium)(?=-|$)")
_ENDS = re.compile(r"(?:^|[-_])(q\d\w*|iq\d\w*|fp16|f16|bf16|fp32|mxfp4)$")
_HUB = ("hf.co/", "huggingface.co/")
_VARIABLES: Mapping[str, str] = {"CONTEXT_LENGTH": "num_ctx", "NUM_PARALLEL": "*parallel", "KV_CACHE_TYPE": "*cache",
                                 "FLASH_ATTENTION": "*flash"}  # fmt: skip


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """Return what a Modelfile, a command or the environment says, a Modelfile first."""
    normalized = {name.removeprefix("--"): value for name, value in found.items()}
    for variable, name in _VARIABLES.items():
        value = normalized.pop(f"{ENVIRONMENT}OLLAMA_{variable}", None)
        if value is not None:
            normalized.setdefault(name, value)
    if "*flash" in normalized:
        normalized["*flash"] = normalized["*flash"] in (1, True, "1", "true", "True")
    normalized["*fork"] = FORK
    if normalized.get("num_gpu") in (-1, 999):
        del normalized["num_gpu"]
    cache = normalized.get("*cache")
    if cache is not None:
        normalized |= {"*cache": cache, "*cache_v": cache}
    found_model, said = _model(str(normalized.get("*", "")))
    towers = normalized.pop(PROJECTOR, None)
    if towers is not None:
        found_model[_TOWERS] = type_of_towers(towers)
    return {**normalized, **found_model}, tuple(said)


def _model(name: str) -> tuple[dict[str, Any], list[Message]]:
    """Return the model and the format that `FROM` names: a file, a repository of the hub, or a name of the library."""
    notes: list[Message]
    if not name:
        return {}, []
    if name.endswith(".gguf"):
        said, notes = of_gguf(name)
        return {"*": said.pop("-hf", name), **said}, notes
    for begins in _HUB:
        if name.startswith(begins):
            base, _, tag = name.removeprefix(begins).partition(":")
            notes = []
            return {"*": base, WEIGHTS: weights_of(tag if tag and tag != "latest" else "q4_k_m", notes)}, notes
    family, _, tag = name.rpartition("/")[2].partition(":")
    found = _SIZE.match(tag)
    usual, hub = _LIBRARY.get(family, ("", ""))
    size = found[0] if found else usual
    ends = _ENDS.search(tag) or _ENDS.search(family)  # who uploads one format alone may say it in the name
    notes = []
    if ends is None and "/" in name:
        notes.append(Message("{} does not say its format: Q4_K_M is assumed; set it with --quantization", name))
    plain = _NATIVE.get(family, "q4_0" if family in _FIRST else "q4_k_m")
    weights = weights_of(ends[1] if ends else plain, notes)
    wanted = _SIZES.get(f"{family}:{size}", hub.format(size.upper()))
    known = named(wanted) if wanted else None
    if known is None:
        own = name.partition(":")[0]  # a user's upload to the library, `owner/model:tag`
        return {"*": own if "/" in own and named(own) else name, WEIGHTS: weights}, notes
    taken = Message("{} in Ollama's library is counted as {} in {}", name, known.base, weights.upper())
    towers = {_TOWERS: "f16"} if has_towers(find_model(known.base)) else {}
    return {"*": known.base, WEIGHTS: weights, **towers}, [*notes, taken]


def _from(name: str, weights: str | None) -> Mapping[str, str]:
    """Return what `FROM` names."""
    return {"*": as_file(name, weights)}


def _runner(config: Config) -> dict[str, str]:
    """Return what a Modelfile does not say: the fork is Ollama's own, and variables of its server say the rest."""
    fork, flash, users = LlamaCppSettings.fork, LlamaCppSettings.flash_attn, Inference.batch_size
    keys, values = config[LlamaCppSettings.cache_type_k], config[LlamaCppSettings.cache_type_v]
    found: dict[str, str] = {}
    if config[fork] != FORK:
        found[fork] = "Ollama runs its own fork, which reserves other buffers"
    attends = config[flash]
    if attends is not None:
        found[flash] = _variable("FLASH_ATTENTION", int(attends))
    if (config[users] or 1) > 1:
        found[users] = _variable("NUM_PARALLEL", config[users])
    if config[LlamaCppSettings.mmproj] is not None:
        found[LlamaCppSettings.mmproj] = "a second FROM names the file of towers"
    if keys == values and keys not in (None, "f16"):
        found |= dict.fromkeys(_CACHES, _variable("KV_CACHE_TYPE", keys))
    return found


_CACHES = (LlamaCppSettings.cache_type_k, LlamaCppSettings.cache_type_v)


def _variable(name: str, value: object) -> Message:
    """Return a reason for what the server's environment says (ollama, envconfig/config.go)."""
    return Message("set {} in the environment", f"OLLAMA_{name}={value}")


OLLAMA = Tool(
    name="ollama",
    title="Ollama",
    syntax="modelfile",
    engines=("llama.cpp",),
    wants=_runner,
    called={LlamaCppSettings.fork: FORK},
    prefixes=("ollama run", "ollama serve", "ollama pull", "ollama create"),
    tells=("num_ctx", "num_gpu", "num_batch"),
    model="*",
    tag=Inference.quantization,
    keys=(
        Key(path=Inference.quantization, name=WEIGHTS),
        Key(path=Inference.max_model_len, name="num_ctx"),
        Key(path=LlamaCppSettings.n_batch, name="num_batch"),
        Key(path=LlamaCppSettings.n_gpu_layers, name="num_gpu"),
        Key(path=Inference.batch_size, name="*parallel"),
        Key(path=LlamaCppSettings.cache_type_k, name="*cache"),
        Key(path=LlamaCppSettings.cache_type_v, name="*cache_v"),
        Key(path=LlamaCppSettings.flash_attn, name="*flash"),
        Key(path=LlamaCppSettings.mmproj, name=_TOWERS),
        Key(path=LlamaCppSettings.fork, name="*fork"),
    ),
    unsaid={Inference.quantization: None, Inference.max_model_len: None, LlamaCppSettings.flash_attn: None},
    normalized=_normalized,
    model_as=_from,
    vocabulary=("ollama",),
    source="ollama, api/types.go",
)
TOOLS = (OLLAMA,)
