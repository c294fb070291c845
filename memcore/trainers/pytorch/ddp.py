"""DistributedDataParallel: every rank holds everything, and flat buckets of all gradients besides.

Source: torch/csrc/distributed/c10d/reducer.cpp. Buckets are allocated when the model is wrapped and stay. By default a
gradient is copied into its bucket and back; as a view of the bucket it needs no memory of its own once it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from memcore.networks.adapters import learns
from memcore.networks.weights import Weight
from memcore.symbols import Shape, Total
from memcore.tensors.tensor import Parameter
from memcore.trace.engine import AUTOCAST_PRESETS, Engine, Runtime
from memcore.trace.recipe import Buffer, Recipe


class Ddp(Runtime):
    """Gradients that are views of buckets leave nothing behind."""

    def parameter(self, weight: Weight) -> Parameter:
        """Return one parameter as the model sees it."""
        found = super().parameter(weight)
        found.bucketed = self.recipe.sharding.bucket_views
        return found


def buckets(weights: Sequence[tuple[Weight, int]], recipe: Recipe) -> Sequence[Buffer]:
    """Return all gradients of a dtype in flat buffers; their total does not depend on the size of a bucket."""
    learned = [(weight, count) for weight, count in weights if learns(weight, recipe.network)]
    shapes: dict[str, list[Shape]] = {}
    for weight, count in learned:
        shapes.setdefault(weight.dtype or recipe.precision.parameter, []).append((count, *weight.shape))
    rule = "gradient_buckets" if recipe.sharding.bucket_views else "ddp_buckets"
    return [
        Buffer(rule=rule, module="reducer", shape=(Total("N", tuple(each)),), dtype=dtype)
        for dtype, each in shapes.items()
    ]


ENGINE = Engine(
    name="ddp",
    title="DistributedDataParallel",
    runtime=Ddp,
    presets=AUTOCAST_PRESETS,
    default_preset="bf16",
    stored=lambda weight: weight.stored_axes,
    buffers=buckets,
    native=True,
)
