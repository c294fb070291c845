"""What releases of Unsloth compute the loss with, where memory depends on it.

Source: unsloth, models/llama.py (`CausalLM_fast_forward`) and loader.py, and unsloth_zoo,
fused_losses/cross_entropy_loss.py (`get_chunk_size`, `_get_chunk_multiplier`), in their histories. Up to 2024.11.7
logits were in 16 bits, and their gradient took their place (kernels/cross_entropy_loss.py); then came Cut
Cross-Entropy, for more than 1,024 tokens. Since 2025.8.5 Unsloth's own loss computes head, loss and gradients for as
many rows at once as have logits of a target's size in fp32: 1 GiB at first, since 2025.9 half of what is free on the
GPU when the first step gets there, and since 2026.7 at most 4 GiB of it.

From unsloth_zoo 2025.3.13 on, Gemma 3's attention is Unsloth's own (temporary_patches, `patch_Gemma3Attention`,
`patch_Gemma3Attention_generic`): it calls SDPA with `enable_gqa` and a mask. Of PyTorch's kernels flash takes no mask
and the memory-efficient one no shared heads (sdp_utils.cpp), so all scores exist. Since 2026.3 FlexAttention may run.
"""

from __future__ import annotations

import re

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.layers.fused_loss import chunk_rows
from memcore.networks.network import Model
from memcore.networks.quantized import STORAGES
from memcore.trace.recipe import AS_THEY_ARE, HeadsAs
from memcore.trainers.pytorch.expert_parallel import layer_code
from memcore.units import GiB

_FAST = frozenset(("llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3", "qwen3_moe", "phi3"))
"""Families with a forward pass of Unsloth's own (loader.py); its checkpoints of Phi-3 and Phi-4 have the layout of
Mistral's and Llama's (models/mapper.py). The others are compiled (unsloth_zoo, compiler.py), with Cut Cross-Entropy
until that was turned off for PyTorch 2.8 and later, which is taken to run since 2025.9.1 (`UNSLOTH_ENABLE_CCE`).
"""
_IN_FP32 = re.compile("gemma3|gemma4|glm4_moe|gpt_oss|qwen3_5|qwen3_moe")
"""Families that Unsloth computes in fp32 on GPUs without bf16, since their numbers overflow in fp16: norms, gated
activations, rotations and attention, between matrices in fp16 (unsloth, models/loader.py: `FORCE_FLOAT32`;
unsloth_zoo, model_lists.py and temporary_patches/). Of August 2026; the first were Gemma 3, in March 2025."""
_CUTS, _FUSES, _MEASURES, _CAPS = (2024, 11, 8), (2025, 8, 5), (2025, 9, 1), (2026, 7, 1)
_SHARES, _FLEXES = (2025, 3, 13), (2026, 3, 0)
"""Releases from which Gemma 3's attention shares heads under a mask, and from which FlexAttention runs instead."""
_SHARING = frozenset(("gemma3", "gemma3_text"))
_FEW = 1024
_CAP = 4 * GiB
_RELEASE = re.compile(r"v?(\d{4})\.(\d+)(?:\.(\d+))?")


def computes_in_fp32(family: str) -> bool:
    """Return whether Unsloth computes a family in fp32 on a GPU without bf16."""
    return _IN_FP32.match(family) is not None


def _release(read: Defaults) -> tuple[int, int, int]:
    """Return the release that a config names; the newest one where it names none."""
    if str(read.given(EngineSettings.framework)).lower() != "unsloth":
        return _CAPS
    found = _RELEASE.match(str(read.given(EngineSettings.framework_version) or ""))
    return _CAPS if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def shared_heads(read: Defaults, family: str) -> HeadsAs:
    """Return whether a release shares heads in a family's attention for which SDPA then has no fused kernel."""
    return HeadsAs(grouped=True) if family in _SHARING and _SHARES <= _release(read) < _FLEXES else AS_THEY_ARE


def _fuses(family: str) -> tuple[int, int, int]:
    """Return the release in which a family's loss became Unsloth's own."""
    return _FUSES if family in _FAST else _MEASURES


def loss_of(read: Defaults, family: str, rows: int) -> tuple[str, str] | None:
    """Return the kind of loss of a family and the reason, if not the usual one."""
    found = _release(read)
    if found < _fuses(family) and (family not in _FAST or (found >= _CUTS and rows > _FEW)):
        return None
    if found < _FUSES:
        return "fused-linear", "this release of Unsloth writes the gradient of the logits in their place"
    return "fused-linear", "Unsloth's own loss, whose chunks are as large as free memory allows"


def rows_at_once(read: Defaults, model: Model, capacity: int | None, rows: int) -> dict[str, int]:
    """The rows whose logits exist at once, of a step's rows, where the loss is Unsloth's own; `capacity` in bytes."""
    found, logits = _release(read), rows * model.sizes["V"] * 4
    if layer_code(read) != "unsloth" or (model.network.family not in _FAST and found < _MEASURES):
        return {}
    if not rows:  # a sequence shorter than the ranks that share it, which is refused with its layers
        return {}
    if found < _FUSES:
        return chunk_rows(rows, rows)
    target = GiB if found < _MEASURES else _free(read, model, capacity) // 2
    if found < _CAPS:
        parts = max(4 * round(logits / target / 4), 1)
    else:
        target = min(target, _CAP)
        parts = 1 if logits <= target else 4 * -(-logits // (4 * target))
    return chunk_rows(rows, -(-rows // parts))


def _free(read: Defaults, model: Model, capacity: int | None) -> int:
    """About what the weights leave free; without a GPU's size, enough for the most that is taken."""
    if capacity is None:
        return 2 * _CAP
    given = read.given(Training.quantization)
    bits = 16 if given is None else STORAGES[str(given)].bits or 16
    return max(capacity - model.parameters * bits // 8, GiB)
