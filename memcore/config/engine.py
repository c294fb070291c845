"""Settings of who runs a job, whatever that is."""

from __future__ import annotations

import re

from memcore.config.kinds import Called, Choice, Flag, Integer, Number, Taken, Text, Version
from memcore.config.schema import Section, setting
from memcore.messages import Message
from memcore.registry import ENGINES, LOOPS, MEANT, STANDING_FOR, TRAINERS, loop_called


class EngineSettings(Section, path="engine", shorthand="type"):
    """Who runs the step, or serves."""

    type = setting(
        Choice(
            tuple(ENGINES),
            {name: home.meaning for name, home in ENGINES.items()},
            impossible={name: Message("memcore calls {}", flags) for name, flags in MEANT.items()},
            also={
                name: Taken(engine, why, brings={f"engine.{key}": value for key, value in own.items()})
                for name, (engine, why, own) in STANDING_FOR.items()
            },
        ),
        "Engine",
        "Training engine or server. DDP replicates everything; FSDP shards parameters, gradients and optimizer states.",
        flag="engine",
        common=True,
        default="none on 1 GPU, fsdp on several",
    )
    version = setting(
        Version(),
        "Engine version",
        "FSDP: 1 or 2 (FSDP2). Servers: the release, such as 0.19.0, which sets defaults and budgets. "
        "Megatron: Megatron-Core's release, such as 0.14.",
        flag="engine-version",
        former="fsdp-version",
        default="2 for FSDP; otherwise the newest known release",
        advanced=True,
    )
    expandable_segments = setting(
        Flag(),
        "Expandable segments",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which reduces fragmentation.",
        flag="expandable-segments",
    )
    max_split_size_mb = setting(
        Integer(unit="MiB"),
        "Largest split block",
        "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:N: blocks of N MiB and more are not split.",
        flag="max-split-size-mb",
        engines=tuple(TRAINERS),
        default="all blocks are split",
        advanced=True,
    )
    roundup_power2_divisions = setting(
        Integer(maximum=64),
        "Steps between powers of two",
        "PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:N: requests are rounded up to N steps between powers of two.",
        flag="roundup-power2-divisions",
        engines=tuple(TRAINERS),
        default="requests are rounded up to 512 bytes",
        advanced=True,
    )
    garbage_collection_threshold = setting(
        Number(0.01, 1),
        "Collection threshold",
        "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:X: beyond this fraction of the memory, unused segments "
        "are freed before new ones are allocated, if set_per_process_memory_fraction has set a limit.",
        flag="garbage-collection-threshold",
        engines=tuple(TRAINERS),
        default="none",
        advanced=True,
    )
    torch_empty_cache_steps = setting(
        Integer(),
        "Steps between emptied caches",
        "The Trainer empties the allocator's cache between forward and backward pass, in the first step and every "
        "N steps after it.",
        flag="torch-empty-cache-steps",
        engines=("none", "ddp", "fsdp", "deepspeed"),
        default="never",
        advanced=True,
    )
    framework = setting(
        Called(
            loop_called,
            {name: Message("is an engine: use --engine {}", name) for name in ENGINES if name not in LOOPS}
            | {name: Message("memcore calls {}", flags) for name, flags in MEANT.items() if name not in LOOPS},
        ),
        "Framework",
        "Training loop around the engine, whose layers and defaults are taken: torchtitan, torchtune, lit-gpt, trl, "
        "megatron-bridge and others. Custom loops (peft, accelerate, lit-gpt) hold the model's outputs through the "
        "backward pass.",
        flag="framework",
        default="transformers' Trainer",
        advanced=True,
    )
    framework_version = setting(
        Text(),
        "Framework version",
        "Version or commit of the framework: transformers 4 loads in fp32, torchtitan's layers and losses have "
        "changed, and releases of axolotl, LLaMA-Factory, ms-swift, open-instruct and TRL set that of transformers.",
        flag="framework-version",
        advanced=True,
    )
    moe_load_imbalance = setting(
        Number(),
        "Load imbalance",
        "Tokens routed to the busiest rank's experts, relative to an even distribution.",
        flag="moe-load-imbalance",
        default="1, even",
        advanced=True,
    )
    zero_stage = setting(
        Integer(0, 3),
        "ZeRO stage",
        "ZeRO stage: 1 shards optimizer states, 2 also gradients, 3 also parameters.",
        flag="zero-stage",
        common=True,
        engines=("nanotron", "deepspeed", "megatron-deepspeed"),
        default="0",
    )
    fp8_recipe = setting(
        Choice(("delayed", "tensorwise", "blockwise", "mxfp8", "rowwise")),
        "FP8 recipe",
        "Scaling recipe of FP8 tensors.",
        flag="fp8-recipe",
        engines=("fsdp", "megatron", "megatron-fsdp"),
        default="delayed with Megatron, tensorwise with FSDP (with fp8-mixed)",
        advanced=True,
    )
    delay_wgrad_compute = setting(
        Flag(),
        "Delayed weight gradients",
        "Compute weight gradients after all input gradients (with FSDP, only those of routed experts).",
        flag="delay-wgrad",
        engines=("fsdp", "megatron", "megatron-fsdp"),
        advanced=True,
    )
    moe_expert_capacity_factor = setting(
        Number(0, 1000),
        "Capacity factor",
        "Expert capacity relative to an even distribution; tokens beyond it are dropped.",
        flag="moe-capacity",
        engines=("megatron", "megatron-fsdp", "megatron-deepspeed"),
        default="none: no token is dropped; 1 with Megatron-DeepSpeed",
        advanced=True,
    )


def release(version: object) -> tuple[int, ...]:
    """Return a release as numbers.

    >>> release("0.19.0"), release("v0.2.6.post1")
    ((0, 19, 0), (0, 2, 6))
    """
    return tuple(int(part) for part in re.findall(r"(?:^v?|\.)(\d+)(?=\.|$|[a-z])", str(version)))
