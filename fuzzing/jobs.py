"""Random jobs and models, made from the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from fuzzing import corpus
from fuzzing.corpus import Tree
from fuzzing.trees import damaged
from fuzzing.values import extreme, right, wrong
from memcore.config.imported import CHECKPOINTING, DTYPES, ENGINES
from memcore.config.kinds import Kind, ModelName
from memcore.config.schema import Setting
from memcore.config.settings import SETTINGS

RUNNING: Sequence[str] = SETTINGS["engine.type"].kind.options  # type: ignore[attr-defined]
"""Every engine and server."""
SETTABLE = [path for path in SETTINGS if path not in ("model", "engine.type", "hardware.num_gpus")]
SIZES = tuple(path for path in SETTABLE if path.startswith("parallelism.") and path.endswith("_parallel_size"))
ACCELERATOR_IDS = ("h100-sxm-80gb", "a100-sxm-80gb", "t4", "rtx-4090", "mi300x")


def any_job(rng: Random) -> Tree:
    """A job of any kind: settings that go together, any settings, a measured job with mistakes, another tool's."""
    makers = (job, job, job, any_settings, known_job, foreign_job)
    found = rng.choice(makers)(rng)
    return damaged(found, rng) if rng.random() < 0.25 else found


def job(rng: Random, engines: Sequence[str] = RUNNING, most: int = 8) -> Tree:
    """Settings that one engine has, with values that they take; now and then an extreme or a wrong one."""
    engine = rng.choice(engines)
    found: Tree = {"model": model(rng), "engine": {"type": engine}}
    mine = [path for path in SETTABLE if path not in SIZES and applies(path, engine)]
    for path in rng.sample(mine, rng.randrange(most)):
        put(found, path, value(SETTINGS[path].kind, rng))
    gpus = 1 if engine == "none" and rng.random() < 0.8 else rng.choice([1, 2, 4, 8])
    for path in SIZES:
        if applies(path, engine) and rng.random() < 0.12:
            size = rng.choice([1, 2, 2, 4, 3])
            put(found, path, size)
            gpus *= size if "data" not in path else 1
    put(found, "hardware.num_gpus", gpus)
    if rng.random() < 0.8:
        put(found, "hardware.accelerator", rng.choice(ACCELERATOR_IDS))
    return found


def any_settings(rng: Random) -> Tree:
    """Any settings with any values, also such that contradict each other."""
    found: Tree = {"model": model(rng)}
    for path in rng.sample(list(SETTINGS), rng.randrange(1, 20)):
        put(found, path, value(SETTINGS[path].kind, rng))
    return found


def known_job(rng: Random) -> Tree:
    """A measured job with mistakes, or with a few other settings."""
    found: Tree = damaged(rng.choice(corpus.jobs()), rng)
    for path in rng.sample(SETTABLE, rng.randrange(3)):
        put(found, path, value(SETTINGS[path].kind, rng))
    return found


def foreign_job(rng: Random) -> Tree:
    """A file of another calculator, in its words."""
    sizes = {"num_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 1000, "max_seq_len": 512}
    experts = {"moe_enabled": True, "num_experts": 8, "top_k": 2, "expert_intermediate_size": 128}
    found: Tree = {
        "model": {"name": "x", "num_parameters": rng.choice(["1B", 10**9, "7e9"]), "largest_layer_params": 10, **sizes},
        "training": {"batch_size": 2, "optimizer": rng.choice(["adamw", "adamw_8bit", "sgd"]),
                     "dtype": rng.choice(list(DTYPES)), "activation_checkpointing": rng.choice(list(CHECKPOINTING))},
        "parallelism": {f"{name}_parallel_size": rng.choice([1, 1, 2]) for name in ("tensor", "pipeline", "data")},
        "engine": {"type": rng.choice([*ENGINES, "fsdp", "deepspeed"]), "zero_stage": rng.choice([None, 0, 1, 2, 3]),
                   "sharding_strategy": rng.choice(["full_shard", "no_shard", "shard_grad_op"]),
                   "offload_optimizer": rng.choice(["none", "cpu", "nvme"]),
                   "offload_param": rng.choice(["none", "cpu"])},
        "hardware": {"num_gpus": rng.choice([1, 2, 4, 8]), "gpu_memory_gb": 80, "total_gpu_memory_gb": 640},
    }  # fmt: skip
    if rng.random() < 0.4:
        found["model"] |= experts
    return damaged(found, rng) if rng.random() < 0.7 else found


def model(rng: Random) -> Any:
    """A name, the content of a config.json, or a few sizes."""
    chosen = rng.random()
    if chosen < 0.12:
        return rng.choice(corpus.names())
    if chosen < 0.22:
        return sized(rng)
    found = rng.choice(corpus.networks()) if chosen < 0.8 else shallow(rng.choice(corpus.published()))
    return damaged(found, rng, 2) if rng.random() < 0.15 else found


def damaged_model(rng: Random) -> Tree:
    """A published config.json with a mistake or two, the layers as many as they are or few."""
    found = rng.choice(corpus.published())
    changed: Tree = damaged(shallow(found) if rng.random() < 0.5 else found, rng, 2)
    return changed


def shallow(config: Mapping[str, Any]) -> Tree:
    """Shrink a network to a few layers, where its config gives only their number."""
    few = {name: min(config[name], 6) for name in ("num_hidden_layers", "n_layer", "num_layers") if name in config}
    return {**config, **few}


def sized(rng: Random) -> Tree:
    """A model of a few sizes, such as other calculators take."""
    found: Tree = {"num_parameters": rng.choice(["7B", "350M", 10**9, 1.5e9, "0.5B", "70b"])}
    for key, values in _SIZED.items():
        if rng.random() < 0.4:
            found[key] = rng.choice(values)
    return damaged(found, rng) if rng.random() < 0.3 else found


_SIZED: Mapping[str, Sequence[Any]] = {
    "hidden_size": [64, 4096, 100],
    "num_layers": [2, 32],
    "num_attention_heads": [4, 32, 7],
    "vocab_size": [1000, 128_256],
    "num_experts": [8],
    "top_k": [2],
    "max_seq_len": [128, 4096],
}


def value(kind: Kind[Any], rng: Random) -> Any:
    """A value for a setting, mostly one that it takes."""
    if isinstance(kind, ModelName):
        return model(rng)
    make: Callable[[Kind[Any], Random], Any] = rng.choices([right, extreme, lambda kind, rng: wrong(rng)], [90, 6, 4])[
        0
    ]
    return make(kind, rng)


def put(tree: Tree, path: str, found: Any) -> None:
    """Set a value in nested sections; what stands in the way stays."""
    *sections, last = path.split(".")
    here: Any = tree
    for name in sections:
        here = here.setdefault(name, {})
        if not isinstance(here, dict):
            return
    here[last] = found


def value_at(tree: Any, path: str) -> Any:
    """The value at a path; None where there is none."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def applies(path: str, engine: str) -> bool:
    """Whether a setting is one of an engine's."""
    setting: Setting[Any] = SETTINGS[path]
    return setting.engines is None or engine in setting.engines
