"""What a server holds of a vision tower: all of it on the first stage, its matrices sharded like the decoder's.

Sources: vllm, model_executor/models/{pixtral,siglip,clip,mllama4,…}.py: QKVParallelLinear, ColumnParallelLinear and
RowParallelLinear with the default `mm_encoder_tp_mode="weights"`. Of projectors some are split too: Qwen's mergers,
those of LLaVA, LLaVA-NeXT and Mistral 3, and Llama 4's one matrix; others stand whole on each rank
(llava_onevision.py, internvl.py, kimi_vl.py, gemma3_mm.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from memcore.networks.network import Layer, Model
from memcore.networks.weights import Weight
from memcore.serving.slots import TENSOR, Slot, layer_slots, sharded
from memcore.symbols import Shape

_LINEAR = ("projector.linear_1.", "projector.linear_2.")
_MERGED = ("merger.mlp.0.", "merger.mlp.2.")
_STACKED = (".linear_fc1.", ".linear_fc2.")
_SPLIT: Mapping[str, tuple[str, str | None]] = {
    "qwen2_vl": _MERGED,
    "qwen2_5_vl": _MERGED,
    "qwen3_vl": _STACKED,
    "qwen3_vl_moe": _STACKED,
    "qwen3_5": _STACKED,
    "qwen3_5_moe": _STACKED,
    "llava": _LINEAR,
    "llava_next": _LINEAR,
    "mistral3": _LINEAR,
    "llama4": ("projector.linear_1.", None),
}
"""By family, what is in the names of a projector's matrices that are split by output, and of those by input."""


def tower_slots(model: Model) -> Iterator[tuple[Slot, str, int]]:
    """Slots of all towers, with what stands before their names, and how often they occur."""
    for tower, repeats in zip(model.network.towers, model.tower_repeats, strict=True):
        counts: Counter[Layer] = Counter()
        for pattern, times in zip(tower.runs, repeats, strict=True):
            for layer in pattern:
                counts[layer] += times
        for layer, count in counts.items():
            for slot in layer_slots(layer):
                yield slot, f"{tower.path}.*.", count
        for weight in tower.outer_weights:
            rows, columns = _axes(weight, model.network.family)
            yield (
                Slot(
                    name=weight.name,
                    kind=weight.kind,
                    rows=(rows,),
                    columns=columns,
                    members=(weight.name.rpartition(".")[0],),
                ),
                "",
                1,
            )


def _axes(weight: Weight, family: str) -> tuple[Shape, Shape]:
    """Return what one rank has of the rows and columns of a weight outside a tower's layers."""
    if len(weight.axes) != 2:
        return weight.shape, ()
    rows, columns = weight.axes
    outer, inner = _SPLIT.get(family, (None, None))
    if outer is not None and outer in weight.name:
        return sharded(rows, TENSOR), columns
    return rows, sharded(columns, TENSOR) if inner is not None and inner in weight.name else columns
