"""Which phases a server has, and graphs of: prompts, decoding, or both.

Sources: sglang, srt/server_args.py of 0.5.10 (`_handle_piecewise_cuda_graph`), 0.5.13 to 0.5.18
(`_disable_tc_piecewise_cudagraph_if_incompatible`, `_disable_breakable_cudagraph_if_incompatible`,
`_apply_cuda_graph_disaggregation_roles`, `_handle_pd_disaggregation`) and srt/arg_groups/cuda_graph_hook.py since; of
roles also 0.4.6. Layers: `init_piecewise_cuda_graphs`, then `compute_attention_and_moe_layers` and
`has_standard_gqa_for_all_local_layers` in srt/model_executor.
"""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.defaults import Defaults
from memcore.servers.sglang.attention import groups
from memcore.servers.sglang.backends import AUTO, TRTLLM_LATENT, attends
from memcore.servers.sglang.compressed import FAMILY
from memcore.servers.sglang.settings import DECODE, PREFILL, SglangSettings
from memcore.servers.sglang.towers import captures_prompts as captured_with_tower
from memcore.serving.inference import Inference
from memcore.serving.job import Basics

_SINCE = (0, 5, 10)
"""The release that captures graphs of prompts without being asked to (enable_piecewise_cuda_graph before)."""
_PHASES = (0, 5, 14)
"""The first release whose --disable-cuda-graph turns off graphs of prompts, too (CudaGraphConfig)."""
_DRAFTED = (0, 5, 14)
"""The first release that captures them where tokens are drafted."""
_BROKEN = (0, 5, 15)
"""The first release that breaks graphs instead of compiling pieces: a prefill server has them, latent attention not."""
_SLOWED = "deepseek_v3"
"""The family whose prompts are not captured where TensorRT-LLM's kernels attend, which graphs would replace."""
WIDER = (0, 5, 18)
"""The first release read with latent attention, data-parallel attention and tokens that are sent to experts."""
_LONGER, _SHORT, _LONG = (0, 5, 23), 2048, 8192
"""The first release read that captures more tokens of prompts with latent attention, and how many each does."""
_ROLES = (0, 5, 15)
"""The first release that leaves no room for the other phase."""
_UNCOMPILED = frozenset({"bailing_hybrid", "deepseek_v32", "glm_moe_dsa", "qwen3_next"})
"""Types whose prompts are not compiled, as they were before `_BROKEN` (`piecewise_cuda_graph_disabled_model_archs`)."""
_UNFOUND: Mapping[str, tuple[int, ...]] = {
    "granitemoehybrid": _SINCE,
    "lfm2": _SINCE,
    "lfm2_moe": _SINCE,
    "nemotron_h": (0, 5, 19),
}
"""Types with layers in which no attention is found (convolutions, Mamba, experts alone), and since which release."""
_HYBRID, _AGAIN, _FOUND_ON = "nemotron_h", (0, 5, 23), 12
"""The type whose experts alone are captured again, the first release read that does, and the compute capability of its
GPUs (`supports_hybrid_prefill_graph`)."""


def role(read: Defaults) -> str | None:
    """Return the phase that a server of a disaggregated deployment has, None for both."""
    found = read.given(SglangSettings.disaggregation_mode)
    return found if found in (PREFILL, DECODE) else None


def reserving(read: Defaults, number: tuple[int, ...]) -> str | None:
    """Return the one phase that the static fraction leaves room for, None for both."""
    return role(read) if number >= _ROLES else None


def captures_decoding(read: Defaults) -> bool:
    """Return whether decoding is captured."""
    off = SglangSettings.disable_cuda_graph, SglangSettings.disable_decode_cuda_graph
    return not any(map(read.given, off)) and role(read) != PREFILL


def captures_prompts(read: Defaults, basics: Basics, number: tuple[int, ...]) -> bool:
    """Return whether graphs of prompts are captured: unasked not with most towers, on AMD's GPUs, or in a pipeline."""
    if number >= _PHASES and read.given(SglangSettings.disable_cuda_graph):
        return False
    told = read.given(SglangSettings.prefill_cuda_graph)
    if told is not None:
        return told and role(read) != DECODE
    if number < _SINCE or (basics.speculation is not None and number < _DRAFTED) or role(read) == DECODE:
        return False
    if basics.model.network.family == FAMILY or basics.layout.pipeline > 1:
        return False
    if number < _BROKEN and _cannot_compile(read, basics):
        return False
    if read.given(Inference.max_loras) and number < WIDER:
        return False
    sent = read.given(SglangSettings.moe_a2a_backend) not in (None, "none")
    latent = number >= _BROKEN and "lk" in basics.sizes
    if number < WIDER and (sent or latent or groups(basics.layout) > 1):
        return False
    kernels = attends(basics.model, basics, read.given(SglangSettings.attention_backend) or AUTO, number)
    if number >= _BROKEN and kernels == TRTLLM_LATENT and basics.model.network.family == _SLOWED:
        return False
    nvidia = basics.accelerator is None or basics.accelerator.major is not None
    return nvidia and captured_with_tower(basics, number)


def _cannot_compile(read: Defaults, basics: Basics) -> bool:
    """Return whether pieces are not compiled: of a prefill server, next to symmetric memory, and of listed types."""
    listed = str(basics.raw.get("model_type")) in _UNCOMPILED
    return listed or role(read) == PREFILL or bool(read.given(SglangSettings.enable_symm_mem))


def finds_attention(basics: Basics, number: tuple[int, ...]) -> bool:
    """Return whether attention is found in all layers; without it prompts are not captured, though room is left."""
    family, accelerator = str(basics.raw.get("model_type")), basics.accelerator
    if number < _UNFOUND.get(family, (number[0] + 1,)):
        return True
    return family == _HYBRID and number >= _AGAIN and accelerator is not None and accelerator.major == _FOUND_ON


def captured_prompt(read: Defaults, basics: Basics, chunk: int, number: tuple[int, ...]) -> int:
    """Return tokens of the longest prompt that is captured.

    Source: srt/server_args.py of 0.5.12 to 0.5.18 and srt/arg_groups/memory_hook.py of 0.5.23 (max_bs of prefill).
    """
    given = read.given(SglangSettings.prefill_graph_tokens)
    if given is not None:
        return given
    bounds = [chunk, read.given(SglangSettings.max_total_tokens) or chunk]
    bounds += [_LONG if number >= _LONGER else _SHORT] * ("lk" in basics.sizes)
    bounds += [basics.max_model_len] * (number >= _BROKEN)
    return min(bounds)


def tokens_at_once(read: Defaults, basics: Basics, chunk: int, requests: int) -> int:
    """Return tokens of a step: a server that only decodes has those of its requests."""
    drafted = basics.speculation.tokens if basics.speculation is not None else 0
    return requests * (drafted + 1) if role(read) == DECODE else chunk
