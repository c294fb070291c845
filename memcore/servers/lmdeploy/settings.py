"""Settings of LMDeploy, as it names them on its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Choice, Integer, Number
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.serving.settings import NOT_SERVED

_LMDEPLOY = ("lmdeploy",)
BACKENDS: Mapping[str, str] = {
    "turbomind": "LMDeploy's own engine in C++",
    "pytorch": "the engine in PyTorch, for all other models",
}
"""The engines of LMDeploy."""


class LmdeploySettings(Section, path="engine", engines=_LMDEPLOY):
    """What LMDeploy can be told besides the job itself."""

    cache_max_entry_count = setting(
        Number(0.01, 1),
        "Cache fraction",
        "Fraction of the memory free after loading that LMDeploy gives to the KV cache.",
        flag="cache-max-entry-count",
        common=True,
        default="0.8",
    )
    max_prefill_token_num = setting(
        Integer(unit="tokens"), "Max prefill tokens", "Max tokens per step while prompts are processed.",
        flag="max-prefill-token-num", default="8192", advanced=True,
    )  # fmt: skip
    backend = setting(
        Choice(tuple(BACKENDS), BACKENDS),
        "LMDeploy's engine",
        "Engine that runs the model.",
        flag="lmdeploy-backend",
        default="turbomind if it supports the model, otherwise pytorch",
        advanced=True,
    )


SECTIONS = (LmdeploySettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    LmdeploySettings.cache_max_entry_count: ("LMDeploy 把加载后空闲显存的多大比例用作 KV 缓存。", "缓存比例"),
    LmdeploySettings.max_prefill_token_num: ("处理提示词时每步的最大 token 数。", "每步最大预填充 token 数"),
    LmdeploySettings.backend: (
        "运行模型的引擎。",
        "LMDeploy 的引擎",
        "支持该模型时为 turbomind，否则为 pytorch",
        "LMDeploy 自己的 C++ 引擎",
        "PyTorch 引擎，用于其他模型",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {"lmdeploy": (EngineSettings.version,)}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "lmdeploy": (*NOT_SERVED, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size)
}
"""Settings that every engine could have, but this one refuses whatever their value."""
