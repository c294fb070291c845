"""Settings of Text Generation Inference, as its launcher names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.kinds import Integer, Number
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.serving.settings import NOT_SERVED

_TGI = ("tgi",)


class TgiSettings(Section, path="engine", engines=_TGI):
    """What TGI can be told besides the job itself."""

    cuda_memory_fraction = setting(
        Number(0.01, 1),
        "GPU memory fraction",
        "Fraction of the GPU that TGI may use; it leaves another tenth of that free.",
        flag="cuda-memory-fraction",
        common=True,
        default="1",
    )
    max_batch_prefill_tokens = setting(
        Integer(unit="tokens"),
        "Max prefill tokens",
        "Max prompt tokens per step; the warmup runs this number of tokens before the cache is sized.",
        flag="max-batch-prefill-tokens",
        default="by the GPU's and the model's FLOPs, otherwise 4096; at most the model's maximum",
    )
    cuda_graph_max_batch = setting(
        Integer(minimum=0, unit="sequences"),
        "Largest graph",
        "Largest batch captured as a CUDA Graph (1, 2, 4 … 32); 0 captures none.",
        flag="cuda-graph-max-batch",
        default="32; 0 with bitsandbytes in 8 bits",
        advanced=True,
    )


SECTIONS = (TgiSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    TgiSettings.cuda_memory_fraction: ("TGI 可用的显存比例；它还会再空出其中十分之一。", "显存比例"),
    TgiSettings.max_batch_prefill_tokens: (
        "每步的最大提示词 token 数；预热按此数运行，之后才确定缓存大小。",
        "每步最大预填充 token 数",
        "按 GPU 和模型的 FLOPs，否则为 4096；不超过模型的最大长度",
    ),
    TgiSettings.cuda_graph_max_batch: (
        "捕获为 CUDA Graph 的最大批次（1、2、4 … 32）；0 表示不捕获。",
        "最大 CUDA Graph 批次",
        "32；bitsandbytes 8 位时为 0",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {"tgi": (EngineSettings.version,)}
"""What of the settings that engines have in common it takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "tgi": (*NOT_SERVED, Parallelism.pipeline_parallel_size, Parallelism.context_parallel_size)
}
"""Settings that every engine could have, but this one refuses whatever their value."""
