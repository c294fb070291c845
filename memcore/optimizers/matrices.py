"""Optimizers that look at matrices as such: by their sides, their rows, or in few dimensions.

States and temporaries were counted in their code, allocation by allocation, on PyTorch 2.13: pytorch_optimizer 4.1
(Shampoo, SOAP, AdaBelief), adam-mini 1.1, galore-torch 1.0, apollo-torch 1.0. What solvers of the vendor take for
themselves is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.messages import Message
from memcore.optimizers.few_bits import FP32_MOMENTS
from memcore.optimizers.states import Implementation, Needs, Optimizer, State

_MOMENTS = (State("exp_avg"), State("exp_avg_sq"))
_SIDES = range(3)
_LOW = (State("exp_avg", "low"), State("exp_avg_sq", "low"))
_CODES = State("quantized_moment", "low", "uint8")
_SCALE = State("block_scales", "low-blocks", "fp32")
_IN_8_BITS = State("quantized_moment", dtype="uint8")
_BLOCKS = State("block_scales", "blocks", "fp32")


def _sides(rule: str, limit: int = 0) -> tuple[State, ...]:
    return tuple(State(rule, "side", size=side, limit=limit) for side in _SIDES)


def _squares(*counts: int, limit: int = 0) -> tuple[tuple[int, State], ...]:
    """Return how many squares of the first axis, of the second, and so on."""
    return tuple(
        (count, State("optimizer_temporary", "side", size=side, limit=limit)) for side, count in enumerate(counts)
    )


_MOST = 10_000
"""SOAP's `max_precondition_dim`."""
_FIRST = State("optimizer_temporary", "side", size=0, limit=_MOST)
_SHAMPOO = Implementation(
    times=(
        Needs(other=_squares(4)),
        Needs(own=1, other=_squares(0, 4)),
        Needs(own=1, other=_squares(0, 0, 4)),
        Needs(own=2),
    )
)
_SOAP = Implementation(
    times=(
        Needs(before=4, own=2),
        Needs(own=5, other=(*_squares(4, 2, limit=_MOST), (1, replace(_FIRST, alone=True)))),
        Needs(own=5, other=_squares(2, 5, limit=_MOST)),
    )
)
_TILES = 1024
"""Distributed Shampoo's `max_preconditioner_dim`."""
_TILE, _CAST = State("optimizer_temporary", "tile", "fp32"), State("optimizer_temporary", "tile-cast")
_TILE_SIDES = tuple(State("optimizer_temporary", "tile-side", "fp32", size=side) for side in _SIDES)
_UNPACKED = tuple((1, side) for side in _TILE_SIDES)
_PACKED = State("preconditioner", "factors", "fp32")
_PLAIN_TIMES = (Needs(before=2, own=1), Needs(before=1, own=2))
_LOW_TEMPORARY = State("optimizer_temporary", "low")
_FACTORS = (
    (1, State("optimizer_temporary", "cast", "fp32")),
    (1, State("optimizer_temporary", dtype="fp32")),
    (1, State("optimizer_temporary", "square", "fp32")),
    (1, State("optimizer_temporary", "low", "fp32")),
)
"""Singular vectors of a gradient in fp32, every 200th step from the first one on."""
_PROJECTED = Implementation(
    times=(
        Needs(before=1, own=1, other=((3, _LOW_TEMPORARY),)),
        Needs(own=2, other=((3, _LOW_TEMPORARY),)),
        Needs(before=2, other=((2, _LOW_TEMPORARY),), after_plain=True),
    ),
    plain_times=_PLAIN_TIMES,
)
_PROJECTED_8_BITS = Implementation(times=(Needs(own=1, other=((2, _LOW_TEMPORARY),)),), plain_times=(Needs(),))


_DECOMPOSED = replace(
    _PROJECTED,
    times=(
        *_PROJECTED.times,
        Needs(before=1, other=_FACTORS),
        Needs(before=2, other=_FACTORS, after_plain=True),
    ),
)


def _distributed(title: str, kept: tuple[State, ...], held: Needs, squares: int, config: str) -> Optimizer:
    """Gradients and directions of all parameters exist at once, and the factors of the current tile.

    Before that a number of squares of one side do, while it is factorized.
    """
    factorized = tuple(Needs(other=((squares, replace(side, size=axis)),)) for axis, side in enumerate(_TILE_SIDES))
    return Optimizer(
        title=Message("distributed_shampoo {}", title),
        states=(_PACKED, *kept, State("exp_avg")),
        implementations={"distributed-shampoo": Implementation(temporaries=2, times=(held,), alone=factorized)},
        default="distributed-shampoo",
        source=f"facebookresearch/optimizers, distributed_shampoo.py with {config}: each rank takes its part of a "
        "parameter in tiles of up to 1024 by 1024, with a packed triangle for each side",
        tile=_TILES,
        from_start=True,
    )


def _projected(title: str, projection: str, source: str, *, norm: bool, rank: int) -> Optimizer:
    kept = (State("projection", projection), *_LOW, *((State("update_norm", "scalar", "fp32"),) if norm else ()))
    return Optimizer(
        title=title,
        states=kept,
        plain=_MOMENTS,
        only_matrices=True,
        whole=True,
        rank=rank,
        implementations={"for-loop": _PROJECTED if norm else _DECOMPOSED},
        default="for-loop",
        source=source,
    )


_APOLLO = "apollo_torch/apollo.py: moments of a randomly projected gradient, the projection, the norm of an update"
_MINI_ROWS = frozenset(
    (
        *("embed", "embd", "wte", "lm_head", "output", "final_layer", "v_proj", "wv", "value"),
        *("o_proj", "wo", "attn.proj", "feed_forward", "linear", "mlp"),
    )
)
_MINI_HEADS = frozenset(("k_proj", "q_proj", "wq", "wk", "query", "key"))

OF_MATRICES: Mapping[str, Optimizer] = {
    "adabelief": Optimizer(
        title="AdaBelief",
        states=(State("exp_avg"), State("exp_avg_var")),
        implementations={"foreach": Implementation(temporaries=2)},
        default="foreach",
        source="pytorch_optimizer, optimizer/adabelief.py: foreach holds all differences to the mean, and all roots",
    ),
    "adam-mini": Optimizer(
        title="Adam-mini",
        states=(State("exp_avg"), State("mean_square", "scalar")),
        named=(
            (frozenset(("bias",)), _MOMENTS),
            (_MINI_HEADS, (State("exp_avg"), State("mean_square", "heads"))),
            (_MINI_ROWS, (State("exp_avg"), State("mean_square", "rows"))),
        ),
        implementations={"for-loop": Implementation(own=2)},
        default="for-loop",
        source="adam_mini, adam_mini.py: one mean square for each row, each head of queries and keys, each norm",
    ),
    "shampoo": Optimizer(
        title="Shampoo",
        states=(*_sides("preconditioner"), *_sides("preconditioner_root"), State("momentum_buffer")),
        whole=True,
        implementations={"for-loop": _SHAMPOO},
        default="for-loop",
        source="pytorch_optimizer, optimizer/shampoo.py: for each axis a matrix and its root, embeddings' too",
    ),
    "soap": Optimizer(
        title="SOAP",
        states=(*_MOMENTS, *_sides("preconditioner", _MOST), *_sides("eigenbasis", _MOST)),
        vector=_MOMENTS,
        whole=True,
        implementations={"for-loop": _SOAP},
        default="for-loop",
        source="pytorch_optimizer, optimizer/soap.py: Adam in the eigenbases of axes of up to 10 000; every tenth step "
        "factorizes them",
    ),
    "shampoo@distributed-shampoo": _distributed(
        "Shampoo",
        (State("preconditioner_root", "factors", "fp32"),),
        Needs(other=(*_UNPACKED, (1, _TILE), (1, _CAST))),
        4,
        "DefaultShampooConfig",
    ),
    "soap@distributed-shampoo": _distributed(
        "SOAP",
        (State("eigenbasis", "squares", "fp32"), State("exp_avg_sq", dtype="fp32")),
        Needs(other=((2, _TILE),)),
        6,
        "DefaultSOAPConfig",
    ),
    "galore": _projected(
        "GaLore",
        "basis",
        "galore_torch/adamw.py and galore_projector.py: moments of a projected gradient, and the projection; in fp32 "
        "it is a slice that keeps all singular vectors",
        norm=False,
        rank=128,
    ),
    "galore-8bit": Optimizer(
        title="8-bit GaLore",
        states=(State("projection", "basis"), _CODES, _CODES, _SCALE, _SCALE),
        plain=FP32_MOMENTS,
        large_states=(_IN_8_BITS, _IN_8_BITS, _BLOCKS, _BLOCKS),
        only_matrices=True,
        whole=True,
        rank=128,
        maps=2,
        quantized_from=4096,
        block=256,
        implementations={"bitsandbytes": _PROJECTED_8_BITS},
        default="bitsandbytes",
        source="galore_torch/adamw8bit.py: a projected gradient in 8 bits of bitsandbytes",
    ),
    "apollo": _projected("APOLLO", "thin", _APOLLO, norm=True, rank=256),
    "apollo-mini": _projected("APOLLO-Mini", "thin", _APOLLO, norm=True, rank=1),
}
"""Rows by name."""
