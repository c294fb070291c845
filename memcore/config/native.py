"""Settings of PyTorch's own engines, as torchtitan names them: routed experts, float8, overlapped communication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memcore.config.kinds import Choice, Number
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
            ("alltoall", "allgather", "flex"),
            {
                "alltoall": "one row for each token and expert, sent by all-to-all",
                "allgather": "every rank gets all tokens (Megatron)",
                "flex": "DeepEP's or HybridEP's kernels (Megatron)",
            },
        ),
        "Token dispatcher",
        "How rows go to the ranks of their experts and back.",
        flag="moe-token-dispatcher",
        engines=(*_FSDP, "megatron", "megatron-fsdp"),
        default="alltoall; allgather with Megatron",
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
