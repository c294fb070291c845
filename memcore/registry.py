"""Which trainers and servers there are, and where each is found.

Nothing but this table knows them. Whatever depends on an engine is asked of an engine module in the folder of its
trainer or server: `engine_module("fsdp", "settings")` is `memcore.trainers.pytorch.settings`. Engine modules are
imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple


class Home(NamedTuple):
    """Where an engine is known."""

    folder: str
    """Below `memcore/trainers/` or `memcore/servers/`."""
    meaning: str
    """What the engine is, for people."""
    base: str = ""
    """The folder whose modules stand in for those that this one lacks, where one library builds on another."""


TRAINERS: Mapping[str, Home] = {
    "none": Home("pytorch", "one GPU"),
    "ddp": Home("pytorch", "DistributedDataParallel: a full copy on every GPU"),
    "fsdp": Home("pytorch", "FSDP2: fully sharded"),
    "deepspeed": Home("deepspeed", "DeepSpeed: ZeRO stages 0 to 3, on the GPU or offloaded", "pytorch"),
    "megatron-deepspeed": Home(
        "megatron_deepspeed", "Megatron-DeepSpeed: tensor parallelism or Ulysses under ZeRO", "pytorch"
    ),
    "megatron": Home("megatron", "Megatron-Core: tensor, pipeline, context and expert parallelism"),
    "megatron-fsdp": Home("megatron", "Megatron-Core with parameters sharded by Megatron-FSDP"),
    "nanotron": Home("nanotron", "nanotron: tensor, pipeline and data parallelism with ZeRO-1", "pytorch"),
}
"""Engines that train, by the value of `engine.type`."""
SERVERS: Mapping[str, Home] = {
    "transformers": Home("generate", "inference with transformers' generate() or a similar script"),
    "vllm": Home("vllm", "serving with vLLM"),
    "sglang": Home("sglang", "serving with SGLang"),
    "tensorrt-llm": Home("tensorrt_llm", "serving with TensorRT-LLM"),
    "tgi": Home("tgi", "serving with TGI (Text Generation Inference)"),
    "lmdeploy": Home("lmdeploy", "serving with LMDeploy"),
    "llama.cpp": Home("llamacpp", "serving a GGUF file with llama.cpp"),
}
"""Engines that serve."""
MEANT: Mapping[str, str] = {
    "fsdp1": "--engine fsdp --engine-version 1",
    "fsdp2": "--engine fsdp",
    **{f"zero{stage}": f"--engine deepspeed --zero-stage {stage}" for stage in (1, 2, 3)},
    "megatron-core": "--engine megatron",
    "megatron-lm": "--engine megatron",
    "torchtitan": "--engine fsdp --implementation torchtitan",
    "unsloth": "--implementation unsloth",
    "liger": "--implementation liger",
    **{name: f"--framework {name}" for name in ("accelerate", "peft", "trl")},
    **dict.fromkeys(("llamacpp", "llama-cpp", "gguf"), "--engine llama.cpp"),
    **dict.fromkeys(("trtllm", "trt-llm"), "--engine tensorrt-llm"),
}
"""Flags for what people name as an engine and is another word for one, or a layer on top."""
_MLX = (
    "MLX is not known; llama.cpp serves GGUF files of as many bits, and allocates the whole cache at once, "
    "where MLX's grows with the tokens"
)
STANDING_FOR: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "ollama": ("llama.cpp", "Ollama runs llama.cpp, and engines of its own", {"fork": "ollama"}),
    "mlx": ("llama.cpp", _MLX, {}),
    "mlx-lm": ("llama.cpp", _MLX, {}),
}
"""Programs that are answered as an engine: which, why, and the engine's own settings by name."""


class Loop(NamedTuple):
    """A training loop around an engine, `engine.framework`."""

    engine: str = ""
    """What it runs where a config names no engine; empty: as without a framework."""
    several: str = ""
    """The same on several GPUs."""
    also: tuple[str, ...] = ()
    """Other spellings, in lower case, with hyphens for spaces and underscores."""


LOOPS: Mapping[str, Loop] = {
    "transformers": Loop(also=("trainer", "hf", "huggingface", "hugging-face", "hf-trainer")),
    **{name: Loop() for name in ("trl", "peft", "accelerate", "axolotl", "unsloth", "torchtune", "verl")},
    "torchtitan": Loop(several="fsdp"),
    **{name: Loop() for name in ("pith-train", "easyr1", "memcore")},
    "llama-factory": Loop(also=("llamafactory",)),
    "ms-swift": Loop(also=("swift", "msswift")),
    "lit-gpt": Loop(also=("litgpt",)),
    "nemo-automodel": Loop(also=("automodel",)),
    "llm-foundry": Loop(also=("llmfoundry",)),
    "prime-rl": Loop(also=("primerl",)),
    "llama-recipes": Loop(also=("llama-cookbook",)),
    "fsdp_qlora": Loop(also=("fsdp-qlora",)),
    "arctictraining": Loop("deepspeed", also=("arctic-training",)),
    "openrlhf": Loop("deepspeed"),
    "open-instruct": Loop("deepspeed"),
    "megatron-bridge": Loop("megatron"),
    "slime": Loop("megatron"),
    "nemo": Loop("megatron"),
    "nemo-rl": Loop(),
}
"""Training loops by the value of `engine.framework`; links may name others, of which there is no estimate."""
USUAL_TRAINER, USUAL_SERVER = "fsdp", "vllm"
"""What runs a job on several GPUs, and what serves, where a config names no engine."""
GGUF_SERVER = "llama.cpp"
"""What serves a GGUF file for which a config names no engine."""
_SHARED: Mapping[str, str] = {"trainers": "memcore.layers", "servers": "memcore.serving"}
"""What several trainers or several servers have in common."""
MODEL_TYPES: Mapping[str, str] = {"megatron": "megatron"}
"""Values of `model_type` that a trainer reads in words of its own, with its engine."""
IMPLEMENTATIONS: Mapping[str, str] = {
    "transformers": "memcore.layers.transformers.code",
    "liger": "memcore.layers.transformers.liger",
    "unsloth": "memcore.layers.transformers.unsloth",
    "torchtitan": "memcore.layers.torchtitan.model",
    "lit-gpt": "memcore.layers.litgpt.model",
    "transformer-engine": "memcore.trainers.megatron.code",
    "megatron-local": "memcore.trainers.megatron.code",
    "nanotron": "memcore.trainers.nanotron.layers",
    "megatron-deepspeed": "memcore.trainers.megatron_deepspeed.layers",
}
"""Modules where layers are written line by line, by the value of `training.implementation`; each has such a table."""
FILES = (
    "memcore.servers.command_lines",
    "memcore.servers.tensorrt_llm.files",
    "memcore.servers.tgi.files",
    "memcore.servers.lmdeploy.files",
    "memcore.servers.generate.files",
    "memcore.servers.llamacpp.files",
    "memcore.servers.llamacpp.ollama",
    "memcore.trainers.megatron.slime",
    "memcore.trainers.megatron.files",
    "memcore.trainers.megatron.swift",
    "memcore.trainers.megatron.configured",
    "memcore.trainers.megatron.nemo_configs",
    "memcore.trainers.megatron.bridge_files",
    "memcore.trainers.megatron.nemo",
    "memcore.trainers.megatron.verl",
    "memcore.trainers.megatron.nemo_rl",
    "memcore.trainers.nanotron.files",
    "memcore.trainers.deepspeed.files",
    "memcore.trainers.pytorch.files",
)
"""Modules that describe the files and command lines of engines that have their own; each has such tools."""
ENGINES: Mapping[str, Home] = {**TRAINERS, **SERVERS}
_FACE = "memcore.faces.notebook"
"""How an answer shows itself in Python and in notebooks."""


def engine_module(engine: str, name: str) -> Any:
    """A module of an engine's folder, else of what it builds on, else of what is shared; None where none has it."""
    kind, home = "trainers" if engine in TRAINERS else "servers", ENGINES[engine]
    folders = (*(f"memcore.{kind}.{each}" for each in (home.folder, home.base) if each), _SHARED[kind])
    return next(filter(None, (_module(f"{folder}.{name}") for folder in folders)), None)


def own(engine: str, name: str, table: str, key: str | None = None) -> Any:
    """An engine's row of a table in one of its modules, by its name or a key of its own; what is missing is named."""
    rows = getattr(engine_module(engine, name), table, {})
    if (key or engine) not in rows:
        kind, folder = "trainers" if engine in TRAINERS else "servers", ENGINES[engine].folder
        raise LookupError(f"memcore/{kind}/{folder}/{name}.py has no row {key or engine!r} in {table}")
    return rows[key or engine]


def engine_modules(name: str) -> Iterator[Any]:
    """The engine modules of this name in the order of the tables, those that trainers or servers share first."""
    for kind, homes in (("trainers", TRAINERS), ("servers", SERVERS)):
        folders = (f"memcore.{kind}.{home.folder}" for home in homes.values())
        for folder in dict.fromkeys((_SHARED[kind], *folders)):
            found = _module(f"{folder}.{name}")
            if found is not None:
                yield found


def row(name: str, table: str, key: str) -> Any:
    """The row of a table that engine modules of this name share between them; None where none of them has it."""
    return next((getattr(each, table)[key] for each in engine_modules(name) if key in getattr(each, table)), None)


def merged(name: str, table: str) -> dict[Any, Any]:
    """The rows of a table that some engine modules of this name have, in one."""
    return {key: found for each in engine_modules(name) for key, found in getattr(each, table, {}).items()}


def loop_called(name: str) -> str:
    """Return the value of `engine.framework` that a name means; one that is not known stays as it is.

    >>> loop_called("LitGPT"), loop_called("Megatron_Bridge"), loop_called("my own")
    ('lit-gpt', 'megatron-bridge', 'my own')
    """
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    return next((each for each, loop in LOOPS.items() if plain in (each, *loop.also)), name)


def face() -> Any:
    """The words and pictures of an answer, which is made without them."""
    return _module(_FACE)


def answered(config: Any, fake: bool = False) -> Any:
    """The answer for a job, as `memcore.estimate` gives it."""
    return _module("memcore.estimation").estimate(config, fake=fake)


def tools() -> Iterator[Any]:
    """The tools whose files and command lines are an engine's own."""
    for name in FILES:
        yield from _module(name).TOOLS


def modules() -> Mapping[str, Any]:
    """Functions that read configs of Python modules that make them, by what tells such a module."""
    return {tells: read for name in FILES for tells, read in getattr(_module(name), "MODULES", {}).items()}


def launches() -> Iterator[Any]:
    """Functions that read commands which name a config that the tool itself has."""
    for name in FILES:
        yield from getattr(_module(name), "LAUNCHES", ())


@lru_cache(maxsize=512)
def _module(name: str) -> Any:
    return import_module(name) if find_spec(name) is not None else None
