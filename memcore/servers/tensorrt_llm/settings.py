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
        "Fraction of the memory free after loading that TensorRT-LLM gives to the KV cache pool.",
        flag="free-gpu-memory-fraction",
        engines=_TRT,
        default="0.9",
    )
    max_num_tokens = setting(
        Integer(unit="tokens"), "Max tokens per step", "Max tokens per step.", flag="max-num-tokens",
        engines=_TRT, default="8192", advanced=True,
    )  # fmt: skip


SECTIONS = (TensorRtSettings,)
