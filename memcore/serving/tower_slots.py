"""What a server holds of a vision tower: all of it on the first stage, its matrices sharded like the decoder's.

Sources: vllm, model_executor/models/{pixtral,siglip,clip,mllama4,…}.py: QKVParallelLinear, ColumnParallelLinear and
RowParallelLinear with the default `mm_encoder_tp_mode="weights"`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from memcore.networks.network import Layer, Model
from memcore.serving.slots import Slot, layer_slots


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
            matrix = len(weight.axes) == 2
            yield (
                Slot(
                    name=weight.name,
                    kind=weight.kind,
                    rows=(weight.axes[0] if matrix else weight.shape,),
                    columns=weight.axes[1] if matrix else (),
                    members=(weight.name.rpartition(".")[0],),
                ),
                "",
                1,
            )
