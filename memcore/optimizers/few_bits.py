"""Optimizers whose states are quantized or paged: those of bitsandbytes and torchao.

Sources: bitsandbytes/optim/optimizer.py (`init_state`, `get_state_buffer`) and torchao/optim/adam.py with
subclass_8bit.py, subclass_4bit.py and subclass_fp8.py (`_new_buffer`, `zeros`; one compiled kernel for each parameter).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.optimizers.states import Implementation, Optimizer, State

KERNEL = Implementation()
"""A kernel that updates a parameter and its states in place."""
FP32_MOMENTS = (State("exp_avg", dtype="fp32"), State("exp_avg_sq", dtype="fp32"))
_KERNEL = {"bitsandbytes": KERNEL}
_BY_BLOCKS = {"bitsandbytes": Implementation(seconds=34e-12, waits=150e-6)}
"""Both moments are looked up and searched for in a table of 256 values (csrc/kernels.cu, `quantize_2D`), and `step`
waits for the GPU after each parameter (optim/optimizer.py, `sync_gpu`). Seconds as measured on an H100 and an H200:
steps of 1.2, 2.8 and 7.6 billion parameters in 146, 75 and 339 tensors take 65, 103 and 274 ms longer than their passes
(validation/measured/ and tests/truth/h100.json, `8bit`)."""
_IN_8_BITS = State("quantized_moment", dtype="uint8")
_SCALE = State("block_scales", "blocks", "fp32")
_BNB = "bitsandbytes/optim/optimizer.py, init_state: blocks of 256; tensors below 4096 elements in fp32"


def _paged(row: Optimizer, title: str) -> Optimizer:
    """Move large states to managed memory; block scales stay on the GPU."""

    def paged(states: tuple[State, ...]) -> tuple[State, ...]:
        return tuple(state if state.of == "blocks" else replace(state, paged=True) for state in states)

    source = f"{row.source}; get_state_buffer: from 100 000 elements on in managed memory"
    return replace(row, title=title, states=paged(row.states), plain=paged(row.plain), source=source)


def _bitsandbytes(title: str, states: tuple[State, ...], source: str) -> Optimizer:
    return Optimizer(title=title, states=states, implementations=_KERNEL, default="bitsandbytes", source=source)


def _in_8_bits(title: str, moments: tuple[State, ...], scales: int) -> Optimizer:
    return Optimizer(
        title=title,
        states=(*(_IN_8_BITS,) * scales, *(_SCALE,) * scales),
        plain=moments,
        maps=scales,
        quantized_from=4096,
        block=256,
        implementations=_BY_BLOCKS,
        default="bitsandbytes",
        source=_BNB,
    )


def _torchao(title: str, codes: State, maps: tuple[State, ...], block: int, file: str) -> Optimizer:
    """Both moments quantized; tensors that are small or no whole blocks are kept as they are."""
    return Optimizer(
        title=title,
        states=(codes, codes, _SCALE, _SCALE, *maps),
        plain=(State("exp_avg"), State("exp_avg_sq")),
        quantized_from=4096,
        whole_blocks=True,
        block=block,
        implementations={"torchao": Implementation()},
        default="torchao",
        source=f"torchao/optim/adam.py and {file}: blocks of {block}, a table of values for each moment",
    )


_MOMENT = State("exp_avg", dtype="fp32")
_ADAMW = _bitsandbytes("bitsandbytes AdamW", FP32_MOMENTS, "bitsandbytes/optim/adamw.py: two moments in fp32")
_LION = _bitsandbytes("bitsandbytes Lion", (_MOMENT,), "bitsandbytes/optim/lion.py: one moment in fp32")
_ADAMW_8BIT = _in_8_bits("8-bit AdamW", FP32_MOMENTS, 2)
_LION_8BIT = _in_8_bits("8-bit Lion", (_MOMENT,), 1)
_MAP_OF_256 = State("quantization_map", "map", "fp32")
_MAP_OF_16 = State("quantization_map", "map", "fp32", size=16)
FLASH_ADAM = Optimizer(
    title="FlashOptim's Adam",
    states=(
        State("quantized_moment", dtype="int8"),
        State("quantized_moment", dtype="uint8"),
        *(State("block_scales", "blocks", "fp16"),) * 2,
    ),
    block=32,
    implementations={"flashoptim": Implementation(masters=("int8", "int16", "none"))},
    default="flashoptim",
    source="flashoptim 0.1.4, optimizers.py: blocks of 32, one Triton kernel for each parameter",
)

QUANTIZED: Mapping[str, Optimizer] = {
    "adamw-8bit": _ADAMW_8BIT,
    "lion-8bit": _LION_8BIT,
    "paged-adamw": _paged(_ADAMW, "paged AdamW"),
    "paged-adamw-8bit": _paged(_ADAMW_8BIT, "paged 8-bit AdamW"),
    "paged-lion": _paged(_LION, "paged Lion"),
    "paged-lion-8bit": _paged(_LION_8BIT, "paged 8-bit Lion"),
    "adamw-8bit@torchao": _torchao("torchao 8-bit AdamW", _IN_8_BITS, (_MAP_OF_256,) * 2, 256, "subclass_8bit.py"),
    "adamw-4bit": _torchao(
        "torchao 4-bit AdamW",
        State("quantized_moment", "halves", "uint8"),
        (_MAP_OF_16,) * 2,
        128,
        "subclass_4bit.py",
    ),
    "adamw@flashoptim": FLASH_ADAM,
    "adam@flashoptim": FLASH_ADAM,
    "adamw-fp8": _torchao("torchao fp8 AdamW", _IN_8_BITS, (), 256, "subclass_fp8.py"),
}
"""Rows by name; `name@implementation` is what a name stands for in another library."""
