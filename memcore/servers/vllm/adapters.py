"""LoRA in vLLM: pairs of low-rank matrices for as many adapters as the GPU holds, whether they are used or not.

Source: vllm 0.7.3, 0.8.5, 0.9.2, 0.10.2, 0.11.0, 0.11.1, 0.12.0, 0.17.1 and 0.27.1, lora/layers, lora/model_manager.py
(`_create_lora_modules`; lora/models.py before 0.11.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.config.engine import EngineSettings, release
from memcore.memory.ledger import Entry
from memcore.servers.vllm.options import Options
from memcore.servers.vllm.versions import NEWEST
from memcore.serving.adapters import ADAPTERS, DENSE, pairs, sizes_of
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.job import ServingJob
from memcore.serving.slots import layer_slots
from memcore.serving.stages import Stage

_LINEAR, _ROUTED = "vllm, lora/layers/base_linear.py", "vllm, lora/layers/fused_moe.py"
_EXPERTS, _WITHOUT_MORE_WORDS = (0, 11, 1), (0, 12)
_MORE_WORDS = 256
"""`lora_extra_vocab_size`, which adapters could add to the vocabulary before 0.12."""
_VOCABULARIES = frozenset((
    *("apertus", "exaone", "exaone4", "exaone_moe", "falcon_h1", "granite", "granitemoe", "granitemoehybrid"),
    *("granitemoeshared", "jais2", "jamba", "lfm2", "lfm2_moe", "llama", "minicpm", "mixtral", "nemotron"),
    *("nemotron_h", "phimoe", "solar"),
))  # fmt: skip
"""Networks whose classes name embeddings and head (`embedding_modules`) in every release."""
_VOCABULARIES_SINCE = dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe"), (0, 16))
"""Those whose classes do since a release: not in 0.14."""
_VOCABULARIES_BEFORE = {"mistral": (0, 15)}
"""Those of which they no longer do: Mistral's was Llama's until 0.14 and is one of its own in 0.15.1."""
_TOGETHER = frozenset({"gpt_oss", "qwen3_5_moe", "qwen3_vl_moe", "interns1_pro"})
"""Those whose experts' gate and up projections have one A (`is_3d_moe_weight`)."""


def adapters(job: ServingJob, chosen: Options, stage: Stage) -> Iterator[Entry]:
    """Yield slots for all adapters that can be on the GPU at the same time."""
    if not chosen.loras:
        return
    sizes = sizes_of(job, chosen.loras, chosen.lora_rank)
    together = job.model.network.family in _TOGETHER
    for layer, numbers in stage.kinds.items():
        for slot in layer_slots(layer):
            if slot.is_matrix and not slot.leading and slot.kind in DENSE:
                yield from pairs(job, slot, sizes, len(numbers), _LINEAR)
            elif slot.is_matrix and slot.leading and chosen.facts.since >= _EXPERTS:
                merged = slot.name.endswith("gate_up_proj") and not together
                yield from pairs(job, slot, sizes, len(numbers), _ROUTED, merged=merged)
    if _has_vocabulary(job.model.network.family, release(job.config[EngineSettings.version] or NEWEST)):
        yield from _vocabulary(job, chosen, stage, sizes)


def _has_vocabulary(family: str, version: tuple[int, ...]) -> bool:
    """Return whether embeddings and head have slots, too.

    >>> [_has_vocabulary(family, (0, 14)) for family in ("llama", "qwen3", "mistral")]
    [True, False, True]
    """
    named = family in _VOCABULARIES or version < _VOCABULARIES_BEFORE.get(family, ())
    return named or (family in _VOCABULARIES_SINCE and version >= _VOCABULARIES_SINCE[family])


def _vocabulary(job: ServingJob, chosen: Options, stage: Stage, sizes: Mapping[str, int]) -> Iterator[Entry]:
    """Rows for every word, of every rank; where the head is the embedding, it gets an embedding's, too."""
    parts, each = job.model.network.embedding_and_head, BYTES[job.basics.dtype]
    more = 0 if chosen.facts.since >= _WITHOUT_MORE_WORDS else _MORE_WORDS
    sizes = {**sizes, "words": sizes["V"] + more}
    if stage.embeds or (stage.samples and parts.tied):
        source = "vllm, lora/layers/vocal_parallel_embedding.py"
        fields = {"module": "embedding", "copies": 1 + (stage.embeds and stage.samples and parts.tied)}
        yield tensor("A", ADAPTERS, ("slots", "words", "rank"), each, sizes, source, **fields)
    if stage.embeds:
        yield tensor("B", ADAPTERS, ("slots", "h", "rank"), each, sizes, source, module="embedding")
    if stage.samples:
        source = "vllm, lora/layers/logits_processor.py"
        yield tensor("A", ADAPTERS, ("slots", "rank", "h"), each, sizes, source, module="output head")
        yield tensor("B", ADAPTERS, ("slots", "words", "rank"), each, sizes, source, module="output head")
