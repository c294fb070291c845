"""Rules of nanotron and DeepSpeed: rows of `memcore.rules.RULES`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.rule import Rule

_ACCUMULATOR = "nanotron, optim/gradient_accumulator.py, FP32GradientAccumulator"
_PARALLEL = "nanotron, parallel/tensor_parallel/functional.py"

ZERO: Mapping[str, Rule] = {
    # nanotron.
    "fp32_gradients": Rule("gradients of all micro-batches, summed in fp32", _ACCUMULATOR, "gradients"),
    "master_parameter": Rule("fp32 copy of the parameters for the optimizer", _ACCUMULATOR, "optimizer states"),
    "gathered_parameters": Rule(
        "flat copies of the parameters for their all-gather, and NCCL's of those",
        "nanotron, distributed.py, all_gather_coalesced; pytorch, ProcessGroupNCCL.cpp, newLikeFlat",
        "communication",
    ),
    "gather_buffer": Rule("buffer for gathered sequences that stays", f"{_PARALLEL}, MemoryBuffer", "communication"),
    "gathered_sequence": Rule("all ranks' parts of a sequence", _PARALLEL),
    "scattered_sequence": Rule("this rank's part of a sequence of the sum over ranks", _PARALLEL),
    "scattered_gradient": Rule("this rank's part of an input's gradient", _PARALLEL),
    "sequence_lengths": Rule("where sequences begin in packed rows", "flash-attn, flash_attn_interface.py"),
    "argmax": Rule("position of the largest logit", _PARALLEL),
}
"""Rows by name."""
