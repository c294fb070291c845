"""LoRA in SGLang: slots of adapters that are allocated after the weights, before the pools are sized.

Source: sglang 0.5.6, 0.5.9, 0.5.12 and 0.5.23, srt/lora/mem_pool.py (`LoRAMemoryPool.init_buffers`), lora/utils.py
(`get_normalized_target_modules`) and srt/model_executor/model_runner.py (`init_lora_manager`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.memory.ledger import Entry
from memcore.servers.sglang.options import ALL_LINEAR, Options
from memcore.serving.adapters import ADAPTERS, DENSE, pairs, sizes_of
from memcore.serving.entries import tensor
from memcore.serving.formats import BYTES
from memcore.serving.job import ServingJob
from memcore.serving.slots import TENSOR, Slot, layer_slots
from memcore.serving.stages import Stage
from memcore.symbols import Quotient

_EXPERTS = (0, 5, 12)
"""The first release read in which experts get pairs; 0.5.9 has none."""
_MERGED: Mapping[str, str] = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
}
_SOURCE = "sglang, srt/lora/mem_pool.py, LoRAMemoryPool.init_buffers"


def adapters(job: ServingJob, chosen: Options, stage: Stage) -> Iterator[Entry]:
    """Yield slots for the adapters of one batch."""
    if not chosen.loras:
        return
    sizes, named = sizes_of(job, chosen.loras, chosen.lora_rank), {_MERGED.get(each, each) for each in chosen.targets}
    for layer, numbers in stage.kinds.items():
        for slot in layer_slots(layer):
            kind = chosen.number >= _EXPERTS if slot.leading else slot.kind in DENSE
            if slot.is_matrix and kind and _is_targeted(slot, named):
                merged = bool(slot.leading) and slot.name.endswith("gate_up_proj")
                yield from pairs(job, slot, sizes, len(numbers), _SOURCE, merged=merged)
    yield from _vocabulary(job, stage, named, sizes)


def _is_targeted(slot: Slot, named: set[str]) -> bool:
    words = {_MERGED.get(word, word) for each in (slot.name, *slot.members) for word in each.split(".")}
    return bool(named & {"all", ALL_LINEAR}) or bool(words & named)


def _vocabulary(job: ServingJob, stage: Stage, named: set[str], sizes: Mapping[str, int]) -> Iterator[Entry]:
    """Yield pairs next to the embedding, whole on each rank, and next to the head, whose B is split."""
    each = BYTES[job.basics.dtype]
    if stage.embeds and named & {"all", "embed_tokens"}:
        yield tensor("A", ADAPTERS, ("slots", "rank", "V"), each, sizes, _SOURCE, module="embedding")
        yield tensor("B", ADAPTERS, ("slots", "h", "rank"), each, sizes, _SOURCE, module="embedding")
    if stage.samples and named & {"all", "lm_head"}:
        shape = ("slots", Quotient(("V",), TENSOR), "rank")
        yield tensor("A", ADAPTERS, ("slots", "rank", "h"), each, sizes, _SOURCE, module="output head")
        yield tensor("B", ADAPTERS, shape, each, sizes, _SOURCE, module="output head")
