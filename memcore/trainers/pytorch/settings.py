"""Settings of PyTorch's own engines, as torchtitan names them: routed experts, float8, overlapped communication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memcore.config.kinds import Choice, Flag, Number
from memcore.config.schema import setting

_FSDP = ("fsdp",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFlags:
    """What torchtitan lets a job say about its engine."""

    type: str | None = None
    version: Any = None
    """Both are declared by `Engine`, which comes after this class; they stand here so that they come first."""

    moe_token_dispatcher: str | None = setting(
        Choice(
            ("alltoall", "allgather", "flex", "deepep", "hybridep"),
            {
                "alltoall": "one row for each token and expert, sent by all-to-all",
                "allgather": "every rank gets all tokens (Megatron)",
                "flex": "DeepEP's or HybridEP's kernels (Megatron)",
                "deepep": "DeepEP's kernels: a token is sent once to each rank (torchtitan)",
                "hybridep": "HybridEP's kernels, which sort rows too (torchtitan)",
            },
        ),
        "Token dispatcher",
        "How rows go to the ranks of their experts and back.",
        flag="moe-token-dispatcher",
        engines=(*_FSDP, "megatron", "megatron-fsdp"),
        default="alltoall; allgather with Megatron",
        advanced=True,
    )
    enable_fsdp_float8_all_gather: bool | None = setting(
        Flag(),
        "Gather in float8",
        "FSDP casts weights before the all-gather: gathered ones take one byte.",
        flag="float8-all-gather",
        engines=_FSDP,
        default="false",
        advanced=True,
    )
    enable_async_tensor_parallel: bool | None = setting(
        Flag(),
        "Asynchronous tensor parallel",
        "Products begin before all parts have arrived; their workspace in symmetric memory is outside the allocator.",
        flag="async-tp",
        engines=_FSDP,
        default="false",
        advanced=True,
    )
    moe_load_imbalance: float | None = setting(
        Number(),
        "Load imbalance",
        "Rows that the fullest rank's experts are given, over those of an even distribution.",
        flag="moe-load-imbalance",
        engines=(*_FSDP, "megatron", "megatron-fsdp"),
        default="1, an even distribution",
        advanced=True,
    )
