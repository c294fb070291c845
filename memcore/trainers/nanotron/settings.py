"""Settings of nanotron, as its YAML files name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memcore.config.kinds import Choice, Flag
from memcore.config.parallelism import Parallelism
from memcore.config.schema import Section, Setting, setting
from memcore.config.training import Training

NANOTRON = ("nanotron",)


class NanotronSettings(Section, path="engine", engines=NANOTRON):
    """What nanotron can be told besides the job itself."""

    accumulate_grad_in_fp32 = setting(
        Flag(),
        "Accumulate in fp32",
        "Accumulate gradients in a flat fp32 buffer; the optimizer updates an fp32 copy of the parameters.",
        flag="accumulate-grad-in-fp32",
        default="true",
        advanced=True,
    )
    tp_mode = setting(
        Choice(
            ("ALL_REDUCE", "REDUCE_SCATTER"),
            {
                "ALL_REDUCE": "all-reduce: every tensor-parallel rank keeps whole sequences between layers",
                "REDUCE_SCATTER": "reduce-scatter: every rank keeps its part of the sequence (sequence parallelism)",
            },
        ),
        "Tensor-parallel mode",
        "How tensor-parallel ranks combine their partial results.",
        flag="tp-mode",
        default="ALL_REDUCE; REDUCE_SCATTER with sequence_parallel",
        advanced=True,
    )
    tp_linear_async_communication = setting(
        Flag(),
        "Overlapped tensor parallelism",
        "Overlap collectives with matrix products.",
        flag="tp-async",
        default="true; false with ALL_REDUCE",
        advanced=True,
    )
    tp_recompute_allgather = setting(
        Flag(),
        "Recompute all-gather",
        "Gather the sequence again in the backward pass instead of keeping it.",
        flag="tp-recompute-allgather",
        default="true",
        advanced=True,
    )
    model_class = setting(
        Choice(
            ("llama", "qwen2"),
            {
                "llama": "LlamaForTraining (models/llama.py)",
                "qwen2": "Qwen2ForTraining (models/qwen.py), with packed queries, keys and values",
            },
        ),
        "nanotron's model class",
        "Which of nanotron's model classes runs: a config with is_qwen2_config has its Qwen2, SmolLM3's included.",
        flag="nanotron-model-class",
        default="qwen2 if projections have biases or layers have no positions, otherwise llama",
        advanced=True,
    )


SECTIONS = (NanotronSettings,)
IN_CHINESE: Mapping[str, tuple[str, ...]] = {
    NanotronSettings.accumulate_grad_in_fp32: (
        "梯度累加到 fp32 的扁平缓冲区；优化器更新参数的 fp32 副本。",
        "fp32 累积",
    ),
    NanotronSettings.tp_mode: (
        "张量并行的 rank 如何合并部分结果。",
        "张量并行方式",
        "ALL_REDUCE；序列并行时为 REDUCE_SCATTER",
        "all-reduce：张量并行的每个 rank 在层间保留完整序列",
        "reduce-scatter：每个 rank 只保留序列的一部分（序列并行）",
    ),
    NanotronSettings.tp_linear_async_communication: ("集合通信与矩阵乘重叠。", "", "true；ALL_REDUCE 时为 false"),
    NanotronSettings.tp_recompute_allgather: ("反向传播时重新 all-gather 序列，而不是一直保留。", "重做 all-gather"),
    NanotronSettings.model_class: (
        "运行 nanotron 的哪个模型类：带 is_qwen2_config 的配置用它的 Qwen2，SmolLM3 也是如此。",
        "nanotron 的模型类",
        "投影带偏置或有层不用位置编码时为 qwen2，否则为 llama",
        "LlamaForTraining（models/llama.py）",
        "Qwen2ForTraining（models/qwen.py），查询、键和值打包在一起",
    ),
}
"""Of each setting its help, label, default and what its values mean, as far as these are its own."""
TAKES: Mapping[str, tuple[Setting[Any], ...]] = {
    "nanotron": (
        Parallelism.data_parallel_size,
        Parallelism.pipeline_parallel_size,
        Parallelism.pipeline_schedule,
    ),
}
"""What of the settings that engines have in common each of these takes."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "nanotron": (
        Training.activation_checkpointing.mode, Training.activation_checkpointing.every, Training.compute_dtype,
        Training.adapter.type, Training.zero_grad, Training.implementation, Training.liger_kernels, Training.loss_shift,
        Training.tiled_mlp,
        Training.dropout.hidden, Training.dropout.attention, Training.activation_memory_budget,
        Parallelism.context_parallel_size,
    ),
}  # fmt: skip
"""Settings that every engine could have, but this one refuses whatever their value."""
