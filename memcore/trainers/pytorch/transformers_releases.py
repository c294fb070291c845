"""What releases of transformers did differently, where memory depends on it.

Read in the wheels of 4.38 to 4.57 and 5: `modeling_*.py` (`ForCausalLM.forward`), `loss/loss_utils.py`
(`ForCausalLMLoss`), `modeling_utils.py` (`gradient_checkpointing_enable`), `modeling_layers.py`
(`GradientCheckpointingLayer`, since 4.52) and `training_args.py` (`default_optim`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.trace.recipe import HeadsAs

Release = tuple[int, int]

SHIFTS_LABELS: Release = (4, 49)
"""`ForCausalLMLoss` moves the labels; before, logits were copied without the last token."""
UPCASTS_IN_LOSS: Release = (4, 46)
"""`ForCausalLMLoss` upcasts logits, which the model keeps in 16 bits meanwhile; before, models upcast their own."""
CHECKPOINTS_INSIDE: Release = (4, 52)
"""A layer checkpoints itself, within what wraps it; before, the model checkpointed calls of its wrapped layers."""
FUSES_OPTIMIZER: Release = (4, 54)
"""The Trainer takes the fused AdamW, where PyTorch is 2.8 or newer; before, `foreach`."""
STARTS_NEW: Release = (5, 0)
"""Checkpoints are of the new form, and a checkpoint is loaded in its own dtype."""
ORDERS_HEADS: Release = (4, 48)
"""One function calls SDPA for every family, and copies queries, keys and values into the order of their axes; before,
each family did so with a mask alone (integrations/sdpa_attention.py; modeling_llama.py, LlamaSdpaAttention)."""
SHARES_HEADS: Release = (4, 54)
"""Grouped keys and values are given to SDPA as they are where there is no mask; before, they were repeated."""
LEAVES_HEADS: Release = (4, 56)
"""Nothing is copied into another order any more."""
ALLOCATES_HALF: Release = (4, 51)
"""Before a model is quantized as it is loaded, half of its bytes in 16 bits are allocated at once, and freed; before,
nothing, and since 5.0 as many as it will have (modeling_utils.py, `caching_allocator_warmup`, whose factor is 4)."""
QUANTIZES_IN_TURN: Release = (5, 4)
"""Each matrix is quantized before the next is read; from 5.0 on, threads read all of them ahead, in 16 bits and onto
the GPU (core_model_loading.py, `convert_and_load_state_dict_in_model`: `has_on_the_fly_quantization`)."""
SPELLS_GATED_NORM: Release = (5, 15)
"""The gated norm after the delta rule is PyTorch's operations; before, flash-linear-attention's `FusedRMSNormGated`
where that package is installed (`__init__` of Qwen3-Next's, Qwen3.5's and OLMo Hybrid's `GatedDeltaNet`)."""
COPIES_FREQUENCIES: Release = (5, 0)
"""Rotary frequencies as they were made are a second buffer; before, both names were of one tensor
(`original_inv_freq`, modeling_llama.py)."""
_SHARES_FREQUENCIES: Mapping[str, Release] = {
    **dict.fromkeys(("cohere", "llama", "phi", "qwen2", "starcoder2"), (4, 48)),
    "gpt_neox": (4, 49),
    "falcon": (4, 54),
    **dict.fromkeys(("persimmon", "qwen2_moe", "stablelm"), (5, 0)),
}
"""Families whose attention kept a `rotary_emb` in each layer until it used the model's alone (`__init__` of
`LlamaAttention` and its kin, compared from 4.45 to 5.0)."""

_NEVER_UPCAST = frozenset(
    ("bloom", "dbrx", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "mpt", "opt", "persimmon", "stablelm", "xglm")
)
"""Families whose loss was computed in the dtype of the logits, until they took `ForCausalLMLoss` in 4.49."""
OWN_LOSS = frozenset((
    *("albert", "bart", "bert", "big_bird", "bigbird_pegasus", "blenderbot", "blenderbot-small", "camembert"),
    *("convbert", "cpmant", "data2vec-text", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm", "fnet"),
    *("fsmt", "funnel", "gte", "ibert", "jina_embeddings_v3", "layoutlm", "led", "longformer", "longt5", "luke"),
    *("m2m_100", "marian", "mbart", "megatron-bert", "mobilebert", "modernvbert", "mpnet", "mra", "mt5", "mvp"),
    *("nllb-moe", "nomic_bert", "nystromformer", "pegasus", "pegasus_x", "perceiver", "plbart", "pop2piano"),
    *("reformer", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "seamless_m4t"),
    *("seamless_m4t_v2", "speech_to_text", "speecht5", "squeezebert", "switch_transformers", "t5", "tapas", "udop"),
    *("umt5", "whisper", "xlm-roberta", "xlm-roberta-xl", "xmod", "yoso"),
))  # fmt: skip
"""Types whose class computes its loss itself, on logits as they are (transformers 5.23: `CrossEntropyLoss` in the
`forward` of their `ForMaskedLM` or `ForConditionalGeneration`); the others call `ForCausalLMLoss` or `ForMaskedLMLoss`,
which upcast."""
_UPCAST_LONGER: Mapping[str, Release] = {
    "granite": (4, 48),
    "mistral": (4, 48),
    "starcoder2": (4, 47),
    **dict.fromkeys(("codegen", "falcon_mamba", "gpt_neo", "gptj", "granitemoe", "jetmoe"), SHIFTS_LABELS),
    **dict.fromkeys(("mamba", "mamba2", "recurrent_gemma"), SHIFTS_LABELS),
}
"""Families that upcast their own logits for some releases more."""
_MASKS: Mapping[str, Mapping[str, Release]] = {
    "gpt2": {"bias": (5, 2), "masked_bias": (5, 0)},
    "gpt_neox": {"bias": (4, 49), "masked_bias": (4, 49)},
}
"""Families whose attention held a causal mask for the longest sequence, and what fills masked scores, until these."""
_RELEASE = re.compile(r"v?(\d+)\.(\d+)")
_TOOL = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_RUNS: Mapping[str, str] = {
    "axolotl": "0.4 4.37, 0.5 4.46, 0.7 4.48, 0.7.1 4.49, 0.8 4.50, 0.8.1 4.51, 0.10 4.52, 0.11 4.53, 0.12 4.55, "
    "0.13 4.57, 0.14 5.0, 0.15 5.3, 0.16 5.4, 0.17 5.9, 0.18 5.14, 0.19 5.16",
    "llama-factory": "0.8 4.41, 0.9 4.45, 0.9.1 4.46, 0.9.2 4.49, 0.9.3 4.52, 0.9.4 4.57, 0.9.5 5.6, 0.9.6 5.8",
    "ms-swift": "2.0 4.40, 2.3 4.44, 2.4 4.45, 2.5 4.46, 3.0 4.48, 3.1 4.49, 3.2 4.50, 3.3 4.51, 3.4 4.52, 3.7 4.55, "
    "3.8 4.56, 3.9 4.57, 4.0 5.2, 4.0.2 5.3, 4.1 5.5, 4.1.3 5.6, 4.2 5.8, 4.3 5.10, 4.3.1 5.12, 4.4.3 5.14, 4.5 5.16, "
    "4.6 5.19",
    "nemo-automodel": "0.1 4.55, 0.2 4.57, 0.3 5.0, 0.4 5.5, 0.5 5.8, 0.6 5.12, 0.7 5.18",
    "open-instruct": "0.1 4.57, 0.3 5.4",
    "trl": "0.8 4.39, 0.9 4.41, 0.10 4.44, 0.12 4.46, 0.13 4.47, 0.14 4.48, 0.16 4.50, 0.17 4.51, 0.18 4.52, "
    "0.20 4.54, 0.21 4.55, 0.22 4.56, 0.24 4.57, 0.28 5.1, 0.29 5.2, 1.0 5.4, 1.1 5.5, 1.3 5.6, 1.5 5.9, "
    "1.9 5.14, 1.11 5.16, 1.16 5.20",
    "verl": "0.2 4.47, 0.3 4.50, 0.4 4.52, 0.5 4.53, 0.6 4.57, 0.7.1 5.3, 0.9 5.10",
}
"""The release of transformers that a tool's release runs, from each of its releases on: the newest that it admits
(axolotl, requirements.txt and pyproject.toml; LLaMA-Factory, the same; NeMo Automodel, pyproject.toml; ms-swift,
requirements/framework.txt; open-instruct, pyproject.toml; verl 0.2 and 0.9, requirements.txt); for TRL, which says
only what it needs at least, and verl's releases between, which say nothing, the newest of its day (verl 0.8:
docker/Dockerfile.stable.vllm)."""


class CausalLoss(NamedTuple):
    """How a release computes the loss of a causal language model."""

    kind: str
    """As `training.loss`."""
    model_upcasts: bool
    slices_logits: bool


def loop_of(read: Defaults) -> str:
    """Return the training loop that a config names; for a version alone, transformers' around its own layers."""
    named = read.given(EngineSettings.framework)
    own = read.given(Training.implementation) in (None, "transformers", "liger")
    if named is None and own and read.given(EngineSettings.framework_version) is not None:
        return "transformers"
    return str(named).lower()


def release(read: Defaults, framework: str = "transformers") -> Release | None:
    """Return the release of transformers, or of another framework, that a config names.

    A tool that drives transformers has the one that its release runs.
    """
    given, named = str(read.given(EngineSettings.framework_version) or ""), loop_of(read)
    if named != framework:
        return _transformers_of(named, given) if framework == "transformers" else None
    found = _RELEASE.match(given)
    if found is not None:
        return int(found[1]), int(found[2])
    major = given.lstrip("v")
    return (int(major), 0) if major.isdecimal() and len(major) < 3 else None


def _transformers_of(tool: str, version: str) -> Release | None:
    """The release of transformers that a tool's version runs; of one before the table's first, that of the first."""
    if tool not in _RUNS or not _TOOL.match(version):
        return None
    runs = [each.split() for each in _RUNS[tool].split(", ")]
    reached = [under for since, under in runs if _numbers(since) <= _numbers(version)]
    major, minor, _ = _numbers(reached[-1] if reached else runs[0][1])
    return major, minor


def _numbers(version: str) -> tuple[int, int, int]:
    """Return the three numbers of a release, zeros where it has none."""
    found = _TOOL.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def before(read: Defaults, change: Release, framework: str = "transformers") -> bool:
    """Return whether a config names a release before a change. One that names none runs the newest."""
    found = release(read, framework)
    return found is not None and found < change


_LAST_OF: Mapping[int, int] = {5: 57, 1: 29}
"""The last minor release before a major one of transformers or TRL."""


def hangs_on(read: Defaults, change: Release, framework: str = "transformers") -> None:
    """Note the last release before a default that moves much memory, where a config names a loop without its release.

    Estimates have what that release needs within their range.
    """
    loop = loop_of(read)
    if read.given(EngineSettings.framework) is None or read.given(EngineSettings.framework_version) is not None:
        return
    former = _just_before(change) if loop == framework else _last_before(loop, change)
    if former is not None and former not in read.former_releases:
        read.former_releases.append(former)


def _just_before(change: Release) -> str:
    major, minor = change
    return f"{major}.{minor - 1}" if minor else f"{major - 1}.{_LAST_OF[major]}"


def _last_before(tool: str, change: Release) -> str | None:
    """Return the last release of a tool that runs a transformers from before a change, if one does."""
    runs = [each.split() for each in _RUNS.get(tool, "").split(", ") if each]
    return next((since for since, under in reversed(runs) if _numbers(under)[:2] < change), None)


def loading_of(read: Defaults) -> str:
    """How matrices that bitsandbytes quantizes reach the GPU, as `Quantization.loading`."""
    if not before(read, QUANTIZES_IN_TURN) or before(read, ALLOCATES_HALF):
        return "each"
    return "half" if before(read, STARTS_NEW) else "ahead"


def frequencies_each(read: Defaults, family: str) -> bool:
    """Return whether each layer of a family has rotary frequencies of its own in the release that a config names."""
    shared = _SHARES_FREQUENCIES.get(family)
    return shared is not None and before(read, shared)


def masks_each(read: Defaults, family: str) -> tuple[str, ...]:
    """Return the masks that each layer of a family holds in the release that a config names."""
    return tuple(name for name, none_since in _MASKS.get(family, {}).items() if before(read, none_since))


def heads_as(read: Defaults) -> HeadsAs:
    """Return what the release that a config names does with heads before SDPA."""
    ordered = before(read, LEAVES_HEADS) and not before(read, ORDERS_HEADS)
    return HeadsAs(repeated=before(read, SHARES_HEADS), contiguous=ordered)


def causal_loss(read: Defaults, family: str) -> CausalLoss | None:
    """Return how the release that a config names computes the loss; None: as the newest one."""
    if not before(read, SHIFTS_LABELS):
        return None
    if family in _NEVER_UPCAST:
        return CausalLoss("cross-entropy", model_upcasts=False, slices_logits=True)
    upcasts = before(read, _UPCAST_LONGER.get(family, UPCASTS_IN_LOSS))
    return CausalLoss("cross-entropy-fp32", model_upcasts=upcasts, slices_logits=True)
