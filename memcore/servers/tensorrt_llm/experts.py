"""Kernels of experts in TensorRT-LLM: which ones a start takes, how they pad weights, what they allocate in addition.

Source: TensorRT-LLM 1.2, _torch/model_config.py (`resolve_moe_backend`), _torch/modules/fused_moe/quantization.py
(`MXFP4WeightTRTLLMGenFusedMoEMethod`, `MXFP4WeightCutlassFusedMoEMethod`) and fused_moe_deepgemm.py (`__init__`,
`get_workspace`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memcore.memory.ledger import Entry
from memcore.networks.network import Layer
from memcore.networks.parts import Experts
from memcore.servers.tensorrt_llm.settings import AUTO, CUTLASS, DEEPGEMM, TRITON, TRTLLM
from memcore.serving.entries import tensor
from memcore.serving.job import Basics, ServingJob
from memcore.serving.server_weights import Packed, evenly_packed
from memcore.serving.stages import Stage
from memcore.symbols import product, round_up

_DEEPGEMM = "TensorRT-LLM, _torch/modules/fused_moe/fused_moe_deepgemm.py, get_workspace"
_MOST = 18688
"""Tokens that DeepGEMM's kernels take at once, unless `moe_config.max_num_tokens` says it."""
_STEP = 128


def kernels(given: str, basics: Basics) -> str:
    """Return what `AUTO` stands for: of gpt-oss by the architecture, CUTLASS elsewhere."""
    major = basics.accelerator.major if basics.accelerator else None
    if given != AUTO:
        return given
    return {10: TRTLLM, 9: TRITON}.get(major or 9, CUTLASS) if basics.model.network.family == "gpt_oss" else CUTLASS


def _cutlass(many: int, wide: int, hidden: int, _tile: int) -> Packed:
    return evenly_packed(many, (round_up(wide, _STEP), round_up(hidden, _STEP)))


def _trtllm(many: int, wide: int, hidden: int, _tile: int) -> Packed:
    wide = round_up(wide, _STEP)
    return evenly_packed(many, (wide, round_up(hidden, 512)), (round_up(hidden, _STEP), wide))


PACKS: dict[str, Callable[[int, int, int, int], Packed]] = {CUTLASS: _cutlass, TRTLLM: _trtllm}
"""How experts in MXFP4 are padded."""


def deep_gemm_buffers(job: ServingJob, chosen: str, tokens: int, stage: Stage) -> Iterator[Entry]:
    """DeepGEMM's buffers: as many tokens for each expert of the rank as a step has in all."""
    stored = job.basics.stored
    found = next((ffn for layer in stage.kinds for ffn in _experts(layer)), None)
    if chosen != DEEPGEMM or found is None or stored is None or stored.format.name != "fp8-block":
        return
    sizes = job.basics.sizes
    hidden, wide = product((found.reads,), sizes), -(-sizes["m"] // sizes["ETP"])
    widest = max(hidden, wide)
    own = {
        "El": sizes["E"] // sizes["EP"],
        "Te": round_up(min(tokens * job.basics.layout.data, _MOST), _STEP),
        "w": widest,
        "r": max(hidden, 2 * wide),
        "b": round_up(-(-widest // _STEP), 4) // 4,
    }
    for title, axis, size in (
        ("tokens of every expert in fp8", "w", 1),
        ("results of every expert", "r", 2),
        ("scales of every expert's tokens", "b", 4),
    ):
        yield tensor(title, "workspaces", ("El", "Te", axis), size, own, _DEEPGEMM)


def _experts(layer: Layer) -> Iterator[Experts]:
    return (ffn for ffn in layer.ffns if isinstance(ffn, Experts))
