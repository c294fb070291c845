"""Settings of llama.cpp, as it names them on its command line."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.config.kinds import Choice, Flag, Integer, Listed, Text
from memcore.config.needs import ROUTED, Need
from memcore.config.schema import Section, setting
from memcore.serving.gguf_types import BLOCK_TYPES

_CPP = ("llama.cpp",)
_GGML = Listed("ggml types", {name.lower(): name for name in BLOCK_TYPES})


class LlamaCppSettings(Section, path="engine"):
    """What llama.cpp can be told besides the job itself."""

    n_gpu_layers = setting(
        Integer(minimum=0), "Layers on GPUs",
        "-ngl: layers on the GPU, counted from the last; the output head counts as one.",
        flag="n-gpu-layers", engines=_CPP, default="all",
    )  # fmt: skip
    n_batch = setting(
        Integer(unit="tokens"), "Batch", "-b: logical batch size, in tokens.", flag="n-batch",
        engines=_CPP, default="2048", advanced=True,
    )  # fmt: skip
    n_ubatch = setting(
        Integer(unit="tokens"), "Micro-batch", "-ub: physical batch size, in tokens; sizes the compute buffer.",
        flag="n-ubatch", engines=_CPP, default="512", advanced=True,
    )  # fmt: skip
    flash_attn = setting(
        Flag(), "Flash attention", "-fa: use flash attention.", flag="flash-attn", engines=_CPP,
        default="true", advanced=True,
    )  # fmt: skip
    cache_type_k = setting(
        _GGML, "Key cache type", "-ctk: type of cached keys.", flag="cache-type-k", engines=_CPP, default="f16",
        advanced=True,
    )  # fmt: skip
    cache_type_v = setting(
        _GGML, "Value cache type", "-ctv: type of cached values.", flag="cache-type-v", engines=_CPP, default="f16",
        advanced=True,
    )  # fmt: skip
    kv_unified = setting(
        Flag(), "Unified cache", "-kvu: one KV buffer for all sequences instead of one per sequence.",
        flag="kv-unified",
        engines=_CPP, default="false", advanced=True,
    )  # fmt: skip
    swa_full = setting(
        Flag(), "Full window cache", "--swa-full: cache the full context in sliding-window layers.", flag="swa-full",
        engines=_CPP, default="false", advanced=True,
    )  # fmt: skip
    split_mode = setting(
        Choice(("none", "layer", "row"), {"layer": "split by layers", "row": "split matrices by rows"}),
        "Split mode", "-sm: how the model is split over several GPUs.",
        flag="split-mode", engines=_CPP, default="layer",
        advanced=True,
    )  # fmt: skip
    n_cpu_moe = setting(
        Integer(minimum=0), "Experts on the host",
        "--n-cpu-moe: number of layers, from the first, whose experts stay on the host.",
        flag="n-cpu-moe", engines=_CPP, default="0", advanced=True,
    )  # fmt: skip
    mla = setting(
        Integer(0, 3), "MLA mode", "-mla of ik_llama.cpp: cache format of latent attention.", flag="mla", engines=_CPP,
        default="latent", advanced=True,
    )  # fmt: skip
    fork = setting(
        Text(), "Fork", "llama.cpp fork: mainline or ik_llama.cpp.", flag="fork", engines=_CPP, default="mainline",
        advanced=True,
    )  # fmt: skip


SECTIONS = (LlamaCppSettings,)
NEEDS: Mapping[str, Need] = {
    LlamaCppSettings.n_cpu_moe: ROUTED,
}
"""The one other setting that each of these waits for."""
