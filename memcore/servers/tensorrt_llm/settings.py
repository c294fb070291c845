"""Settings of TensorRT-LLM, as it names them on its command line."""

from __future__ import annotations

from memcore.config.kinds import Integer, Number
from memcore.config.schema import Section, setting

_TRT = ("tensorrt-llm",)


class TensorRtSettings(Section, path="engine"):
    """What TensorRT-LLM can be told besides the job itself."""

    free_gpu_memory_fraction = setting(
        Number(0.01, 1),
        "Cache fraction",
        "TensorRT-LLM's share of the memory that is free after loading for the cache pool.",
        flag="free-gpu-memory-fraction",
        engines=_TRT,
        default="0.9",
    )
    max_num_tokens = setting(
        Integer(unit="tokens"), "Most tokens in a step", "Tokens that one step computes.", flag="max-num-tokens",
        engines=_TRT, default="8192", advanced=True,
    )  # fmt: skip


SECTIONS = (TensorRtSettings,)
