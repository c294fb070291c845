"""What repositories quantize: the usual recipe of a format for a family, and the least and the most that others do.

A format's name alone does not say which layers have it. Sources: the recipes of llm-compressor (examples/), which leave
the head, embeddings, routers, towers and, in hybrid networks, linear attention in 16 bits (quantization_w8a8_fp8/
qwen3_5_moe.py); those of ModelOpt (in its mixed checkpoints NVFP4 for feed-forward layers and the head, fp8 for
attention: `quantized_layers` of nvidia/Qwen3.6-27B-NVFP4 and nvidia/Qwen3.6-35B-A3B-NVFP4; in Gemma 4 attention in 16
bits, in its mixture the dense layers, too: 17.89 GiB are loaded of nvidia/Gemma-4-26B-A4B-NVFP4; latent attention in 16
bits, `*attn*` in examples/deepseek/ptq.py, and GLM's shared experts: sgl-project/sglang, pull request 29380); Qwen's
own fp8 and Red Hat's int4 of gated delta networks have every matrix of a block (28.51 GiB are loaded of
Qwen3.6-27B-FP8 and of Qwen3.8-27B-FP8, 34.22 of Qwen3.5-35B-A3B-FP8, 17.71 of RedHatAI/Qwen3.8-27B-INT4); AutoAWQ
and GPTQModel, which in dense networks quantize every linear layer of a block; AutoRound, whose defaults skip shapes
that no 32 divides (`in_proj_a`, `in_proj_b`); vllm, bitsandbytes_loader.py (target_modules: every LinearBase).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from memcore.networks.named import DYNAMIC
from memcore.networks.network import Model
from memcore.networks.parts import Experts, LatentAttention, SpecialMixer
from memcore.records import dataclass
from memcore.serving.checkpoint import Part, Stored
from memcore.serving.formats import FORMATS, MATRICES, Format

FFNS = frozenset({"feed-forward", "shared-expert", "routed-expert"})
ATTENTION = frozenset({"attention", "linear-attention"})
_SMALL = ("linear_attn.in_proj_a", "linear_attn.in_proj_b", "linear_attn.in_proj_ba", "linear_attn.conv1d")
"""What no recipe quantizes in linear attention."""
_GATED = ("qwen3_5", "qwen3_next")
"""Families with gated delta networks, by how they begin."""
_OF_BITSANDBYTES = re.compile(r"(?i)[-_]bnb")
"""Repositories that say that they hold what bitsandbytes has quantized: Unsloth's leave towers."""
_SEEING = frozenset({"tower", "projector"})
_FOUR_BITS = frozenset({"awq", "gptq", "int4", "nvfp4"})
_EIGHT_BITS = frozenset({"fp8", "fp8-channel", "fp8-block", "int8", "w8a16", "mxfp8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a repository is taken to be quantized, and what others of the format do."""

    usual: Stored
    others: tuple[Stored, ...] = ()
    """The smallest and the largest."""


def recipe(name: str, model: Model, repository: str = "") -> Recipe:
    """The usual recipe of a format for a network, or the one of who made the repository and of the tool that it names.

    >>> from memcore.networks.catalog import find_model
    >>> network = find_model("Qwen/Qwen3.6-27B")
    >>> len(recipe("int4", network).others), len(recipe("int4", network, "Intel/Qwen3.6-27B-int4-AutoRound").others)
    (2, 0)
    >>> sorted(recipe("mxfp4", network).usual.format.covers)[:3]
    ['attention', 'feed-forward', 'linear-attention']
    """
    maker = repository.rpartition("/")[0].lower()
    mixers = [mixer for layer, _ in model.layers for mixer in layer.mixers]
    hybrid = any(isinstance(mixer, SpecialMixer) for mixer in mixers)
    routed = model.has_experts
    chosen = FORMATS[name]
    everything = _covering(chosen, MATRICES)
    gated = hybrid and model.network.family.startswith(_GATED)
    rounded = name == "int4" and _AUTOROUND.search(repository)
    if rounded or (gated and (name, maker) in (("int4", "redhatai"), ("fp8-block", "qwen"))):
        return Recipe(usual=everything)
    if name == "nvfp4" and gated and maker in _NVFP4_OF:
        return Recipe(usual=_NVFP4_OF[maker]())
    latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    if name == "nvfp4" and maker == "nvidia" and (own := _of_nvidia(model, hybrid=hybrid, latent=latent)):
        return Recipe(usual=own)
    if name in ("awq", "int4") and maker in _INT4_OF:
        alone = routed and (hybrid or latent)
        return Recipe(
            usual=_covering(FORMATS["int4"].with_groups(32), frozenset({"routed-expert"}) if alone else MATRICES)
        )
    if name.startswith("nf4"):
        return _bitsandbytes(chosen, repository)
    if name in _FOUR_BITS and (hybrid or routed):
        return Recipe(
            usual=_modelopt() if name == "nvfp4" and gated else _usual(name, hybrid=hybrid, routed=routed),
            others=(everything, _largest(chosen, routed=routed)),
        )
    if name == "mxfp4" and not routed:
        # The format is of gpt-oss, experts alone; in a network without them tools quantize its layers.
        return Recipe(usual=Stored(format=replace(chosen, covers=MATRICES), method=name, ignored=_SMALL))
    if name in _EIGHT_BITS and hybrid:
        return Recipe(usual=everything, others=(everything, _covering(chosen, MATRICES - {"linear-attention"})))
    return Recipe(usual=Stored(format=chosen, method=name))


def _bitsandbytes(chosen: Format, repository: str) -> Recipe:
    """What is quantized while it is loaded has every linear layer in 4 bits, those of towers, too."""
    everything = _covering(chosen, MATRICES)
    if DYNAMIC.search(repository):
        return Recipe(usual=_leaving(chosen, 1), others=(everything, _leaving(chosen, _LEFT)))
    if _OF_BITSANDBYTES.search(repository):
        return Recipe(usual=Stored(format=chosen, method=chosen.name))
    return Recipe(usual=Stored(format=replace(chosen, covers=MATRICES | _SEEING), method=chosen.name))


NATIVE: Mapping[str, str] = {"gpt_oss": "mxfp4"}
"""Formats of families whose checkpoints all have one, which a config.json may not say."""


def stored_as(name: str, own: Stored | None, model: Model, repository: str) -> tuple[Stored, ...]:
    """Return how a repository may store weights in a format, the usual way first; `own` is what its file says."""
    if own is not None and (own.format.name == name or own.format.name.startswith(f"{name}-")):
        return (own,)
    found, ignored = recipe(name, model, repository), own.ignored if own else ()
    return tuple(replace(each, ignored=(*ignored, *each.ignored)) for each in (found.usual, *found.others))


def _usual(name: str, *, hybrid: bool, routed: bool) -> Stored:
    chosen = FORMATS[name]
    if not hybrid:
        return _covering(chosen, MATRICES)
    if name == "nvfp4":
        return _mixed()
    if routed:
        # Mixtures keep attention in 16 bits; llm-compressor's int4 mixtures have groups of 32.
        return _covering(chosen.with_groups(32) if name == "int4" else chosen, FFNS)
    return _covering(chosen, MATRICES - {"linear-attention"} if name == "awq" else MATRICES)


def _modelopt() -> Stored:
    chosen = FORMATS["nvfp4"]
    attention, head = Part(format=FORMATS["fp8"], kinds=ATTENTION), Part(format=chosen, targets=("lm_head",))
    return replace(_covering(chosen, FFNS), parts=(attention, head))


def _mixed() -> Stored:
    """NVFP4 for feed-forward layers, fp8 for attention, 16 bits for the head."""
    part = Part(format=FORMATS["fp8"], kinds=ATTENTION)
    return replace(_covering(FORMATS["nvfp4"], FFNS), parts=(part,))


def _of_nvidia(model: Model, *, hybrid: bool, latent: bool) -> Stored | None:
    """Return what NVIDIA's own NVFP4 checkpoints of a family have, where it is known and not what others do."""
    chosen, experts, family = FORMATS["nvfp4"], frozenset({"routed-expert"}), model.network.family
    if family == "gemma4":
        return _covering(chosen, experts if model.has_experts else FFNS)
    if model.has_experts and latent:
        return _covering(chosen, experts if family.startswith("glm") else FFNS)
    return _nemotron() if hybrid and _latent_experts(model) else None


def _latent_experts(model: Model) -> bool:
    return any(isinstance(ffn, Experts) and ffn.latent for layer, _ in model.layers for ffn in layer.ffns)


def _nemotron() -> Stored:
    """NVFP4 for routed experts, fp8 for shared ones and Mamba, 16 bits for attention, latent projections and the head.

    Source: Model-Optimizer, modelopt_recipes/models/Nemotron-3-Super-120B-A12B/super-nvfp4-max-calib.yaml, which has
    the published checkpoint's formats; of Ultra NVIDIA-NeMo/Nemotron, pull request 257.
    """
    part = Part(format=FORMATS["fp8"], kinds=frozenset({"linear-attention", "shared-expert"}))
    experts = _covering(FORMATS["nvfp4"], frozenset({"routed-expert"}))
    return replace(experts, parts=(part,), ignored=(*experts.ignored, "mixer.fc1_latent_proj", "mixer.fc2_latent_proj"))


def _compressor() -> Stored:
    return _covering(FORMATS["nvfp4"], MATRICES - {"linear-attention"})


def _whole() -> Stored:
    return _covering(FORMATS["nvfp4"], MATRICES)


_NVFP4_OF: Mapping[str, Callable[[], Stored]] = {
    "nvidia": _modelopt,
    "redhatai": _compressor,
    "unsloth": _mixed,
    "sakamakismile": _whole,
}
"""Recipes of NVFP4 for networks with gated delta networks by who makes them.

RedHatAI's is llm-compressor's: with linear attention in 16 bits Qwen3.6-35B-A3B-NVFP4 has the 21.88 GiB of logs.
Unsloth's files of Qwen3.8-27B-NVFP4 have 23.4 GB, of which 0.85 are for multi-token prediction (notes on its
config.json in a public repository: fp8 attention, NVFP4 feed-forward layers). Sakamakismile's are taken to have all
matrices of a block in NVFP4: 17.89 GiB of Qwen3.6-27B-Text-NVFP4-MTP, of which logs say 17.62 and no source the rest.
"""
_AUTOROUND = re.compile(r"(?<!mixed-)autoround", re.IGNORECASE)
"""Names of repositories that AutoRound made with its defaults."""


CACHES_IN_FP8: Mapping[str, frozenset[str]] = {"nvfp4": frozenset({"nvidia", "salyut1", "unsloth"})}
"""Who stores scales for a KV cache in fp8 along with a format.

32 KiB for each token of unsloth/Qwen3.8-27B-NVFP4, 46 on each of four ranks of Salyut1/GLM-4.7-NVFP4 (31.99 GiB for
729,248 tokens, and the warning of vLLM that only a cache in fp8 brings). NVIDIA's hf_quant_config.json have
`kv_cache_quant_algo`: vLLM 0.19.1 says that it takes fp8 for Gemma-4-31B-IT-NVFP4, of which 98,912 tokens fit.
"""
_INT4_OF = frozenset({"cyankiwi"})
"""Who quantizes to int4 in groups of 32, whatever the repository's name says.

Every matrix of a block: of Qwen3.5-9B 7.55 GiB are loaded; in mixtures with recurrent or latent layers routed experts
alone: of each half of Qwen3-Next-80B-A3B 22.53 GiB, of Mistral Small 4 33.94.
"""


_LEFT = 3
"""Layers whose 16 bits are as much as repositories of Unsloth's dynamic quantization have more: less than 10 % by their
cards, 5 and 14 % in logs of Llama-3.1-8B and of Qwen2.5-3B. Each file leaves parts of other layers; without its
config.json one layer is taken."""


def _leaving(chosen: Format, layers: int) -> Stored:
    found = _covering(chosen, MATRICES)
    return replace(found, ignored=(*found.ignored, *(f"layers.{number}" for number in range(layers))))


def _largest(chosen: Format, *, routed: bool) -> Stored:
    """Feed-forward layers alone, in a mixture experts alone and not the first layer, in groups of 32."""
    fine = chosen.with_groups(32) if chosen.name in ("int4", "awq", "gptq") else chosen
    if not routed:
        return _covering(fine, FFNS)
    found = _covering(fine, frozenset({"routed-expert"}))
    return replace(found, ignored=(*found.ignored, "layers.0"))


def _covering(chosen: Format, kinds: frozenset[str]) -> Stored:
    return Stored(format=replace(chosen, covers=kinds & _reach(chosen)), method=chosen.name, ignored=_SMALL)


def _reach(chosen: Format) -> frozenset[str]:
    """Return what a format can have at all: MXFP4 is for experts, where there are any."""
    return chosen.covers
