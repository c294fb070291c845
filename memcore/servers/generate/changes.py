"""What makes room where generate() serves, from the harmless to what changes what is served."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.serving.changes import FEW_BITS, Becomes, ServerChange
from memcore.serving.inference import Inference

CHANGES: Mapping[str, tuple[ServerChange, ...]] = {
    "transformers": (
        ServerChange(
            title="Weights in NF4",
            kind="precision",
            note="weights are rounded to 4 bits in blocks of 64",
            how=Becomes(
                {Inference.quantization: "nf4"}, {Inference.quantization: ("nf4", "nf4-double", "int4", "mxfp4")}
            ),
        ),
        ServerChange(
            title="8-bit weights",
            kind="precision",
            note="weights are rounded to 8 bits",
            how=Becomes({Inference.quantization: "int8"}, {Inference.quantization: FEW_BITS}),
        ),
    ),
}
"""In order of harm, in which the ladder climbs them."""
