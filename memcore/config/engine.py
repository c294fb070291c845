"""Settings of who runs a job, whatever that is."""

from __future__ import annotations

import re

from memcore.config.kinds import Choice, Flag, Number, Text, Version
from memcore.config.schema import Section, setting
from memcore.registry import ENGINES


class EngineSettings(Section, path="engine"):
    """Who runs the step, or serves."""

    type = setting(
        Choice(tuple(ENGINES), {name: home.meaning for name, home in ENGINES.items()}),
        "Engine",
        "Who shares out the work: DDP replicates everything, FSDP shards parameters, gradients and optimizer.",
        flag="engine",
        common=True,
        default="none on one GPU, fsdp on several",
    )
    version = setting(
        Version(),
        "Engine version",
        "FSDP: 2 is FSDP2. Servers: their release, such as 0.19.0, by which defaults and budgets differ. "
        "Megatron: that of Megatron-Core, such as 0.14.",
        flag="engine-version",
        default="2 for FSDP; the newest release that is known",
        advanced=True,
    )
    expandable_segments = setting(
        Flag(),
        "Expandable segments",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: less memory reserved and unused.",
        flag="expandable-segments",
        default="false",
    )
    framework = setting(
        Text(),
        "Framework",
        "Who drives the engine. A loop of one's own (peft, accelerate, lit-gpt) holds the model's outputs through the "
        "backward pass; LitGPT and torchtune keep no embedding's moments in 32 bits; TRL loads in fp32.",
        flag="framework",
        default="transformers' Trainer",
        advanced=True,
    )
    framework_version = setting(
        Text(),
        "Framework version",
        "Its version or commit: transformers 4 loads in fp32, and torchtitan's layers and losses changed.",
        flag="framework-version",
        advanced=True,
    )
    moe_load_imbalance = setting(
        Number(),
        "Load imbalance",
        "Rows that the fullest rank's experts are given, over those of an even distribution.",
        flag="moe-load-imbalance",
        default="1, an even distribution",
        advanced=True,
    )


def release(version: object) -> tuple[int, ...]:
    """A release as numbers.

    >>> release("0.19.0"), release("v0.2.6.post1")
    ((0, 19, 0), (0, 2, 6))
    """
    return tuple(int(part) for part in re.findall(r"(?:^v?|\.)(\d+)(?=\.|$|[a-z])", str(version)))
