"""Dtypes and their bytes for each element."""

from __future__ import annotations

from collections.abc import Mapping

ITEMSIZE: Mapping[str, int] = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "int64": 8,
    "fp64": 8,
    "int32": 4,
    "int16": 2,
    "uint8": 1,
    "int8": 1,
    "fp8": 1,
    "bool": 1,
}
"""Bytes of one element, by dtype."""

FLOATING = ("fp32", "bf16", "fp16")
"""Dtypes that parameters, activations and gradients can have."""
