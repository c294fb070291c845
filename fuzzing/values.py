"""Values of settings: right ones, extremes of what is allowed, and wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from memcore.config.kinds import Kind
from memcore.config.settings import SETTINGS

SIZES = (1, 1, 1, 2, 2, 3, 4, 8, 16, 64, 100, 128, 1000, 1024, 4096)
"""Numbers that jobs have."""
LARGE = (1000, 2000, 16_384, 131_072, 10_000_000)
"""Numbers that are rare and real: GPUs, micro-batches, layers, tokens."""
WRONG: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 5e-324, math.nan, math.inf, -math.inf, 2**31, 2**53, 2**53 + 1,
    2**63, -(2**63), 10**40, 10**400, "", " ", "\n", "0", "1", "-1",
    "none", "auto", "null", "None", "true", "False", "8k",
    "7B", "1e9999", "80GiB", "9" * 5000, "nan", "🦙", "\x00", "\ud800", "\u202e", "é" * 300, "=1+1", "<script>",
    "../..", "a,b", ",", "[", "{}", "--", [], [None], [[]], [0], ["a", 1], [1, 2, 3], {}, {"": None}, {"type": None},
    {"name": []}, {"a": {"b": {"c": 1}}},
)  # fmt: skip
"""What no setting takes, or hardly any: of every type, as numbers and as words."""
NAMES = (
    "q_proj", "k_proj", "gate_proj", "all-linear", "mlp", "norm", "lm_head", "embed_tokens", "layers.0", "core_attn",
    "moe_act", "layernorm", "mlp", "moe", "qkv_linear", "expert_fc1", "attn", "mamba",
)  # fmt: skip
LAYOUTS = ("Et*3|(tt|)*29m|L", "Et|t|t|tL", "2,2", "1,3", "Et*9|L", "E|L", "()*9", "t" * 200, "E(t*2|)*4L", "m", "|")
VERSIONS = ("0.19.0", "0.6.3.post1", "v0.9.2", "2.1", "4.57.1", "1", "0.0", 1, 2, 3)


def right(kind: Kind[Any], rng: Random) -> Any:
    """A value that a setting takes."""
    return RIGHT[type(kind).__name__](kind, rng)


def extreme(kind: Kind[Any], rng: Random) -> Any:
    """A value at the edge of what a setting takes, or the right one of a kind that has no edges."""
    name = type(kind).__name__
    return (_EXTREME.get(name) or RIGHT[name])(kind, rng)


def wrong(rng: Random) -> Any:
    """Return a value that a setting rejects; sometimes one that another setting takes."""
    if rng.random() < 0.2:
        return right(rng.choice([each.kind for each in SETTINGS.values()]), rng)
    return rng.choice(WRONG)


def _whole(kind: Any, rng: Random) -> int:
    found = rng.choice(LARGE) if rng.random() < 0.05 else rng.choice(SIZES)
    return int(min(max(found, kind.minimum), kind.maximum))


def _number(kind: Any, rng: Random) -> float:
    most = min(kind.maximum, 100.0)
    return float(rng.choice([kind.minimum, most, rng.uniform(kind.minimum, most), (kind.minimum + most) / 2]))


def _layout(kind: Any, rng: Random) -> Any:
    return rng.choice(LAYOUTS) if rng.random() < 0.7 else [rng.randrange(4) for _ in range(rng.randrange(1, 6))]


def _edge(kind: Any, rng: Random) -> int:
    return int(rng.choice([kind.minimum, kind.maximum, kind.maximum - 1, 2 ** rng.randrange(54), *LARGE]))


def _edge_of_numbers(kind: Any, rng: Random) -> float:
    return float(rng.choice([kind.minimum, kind.maximum, 1e-9, 5e-324, kind.maximum / 2, 1e4]))


def _long_layout(kind: Any, rng: Random) -> Any:
    return rng.choice([f"Et*{10 ** rng.randrange(1, 10)}|L", [10**9], [0] * 500, "(" * 300, "Et*2|" * 300 + "L"])


_EXTREME: Mapping[str, Callable[[Any, Random], Any]] = {
    "Integer": _edge,
    "Number": _edge_of_numbers,
    "Layout": _long_layout,
    "Names": lambda kind, rng: ["q_proj"] * 300,
    "FlagOrCount": lambda kind, rng: rng.choice([0, 1, 2, 2**53, 10**30]),
    "Version": lambda kind, rng: rng.choice([0, 1, 2, 2**53, 10**30]),
}
RIGHT: Mapping[str, Callable[[Any, Random], Any]] = {
    "Flag": lambda kind, rng: rng.random() < 0.5,
    "Choice": lambda kind, rng: rng.choice(kind.options),
    "Counted": lambda kind, rng: rng.choice([*kind.options, f"{kind.prefix}:{rng.randrange(1, 64)}"]),
    "FlagOrCount": lambda kind, rng: rng.choice([True, False, 2, 4, 8]),
    "Integer": _whole,
    "Number": _number,
    "Listed": lambda kind, rng: rng.choice(list(kind.titles)),
    "Names": lambda kind, rng: rng.choice([rng.choice(NAMES), rng.sample(NAMES, 2)]),
    "Layout": _layout,
    "Version": lambda kind, rng: rng.choice(VERSIONS),
    "Proportions": lambda kind, rng: rng.choice(["1", "3,1", "0,1", "17/13"]),
    "TensorTypes": lambda kind, rng: rng.choice(["token_embd=q8_0", "output=q6_k,blk.0-7+9.ffn_down=q6_k"]),
    "Ranks": lambda kind, rng: rng.choice(["q_proj=4", "layers.0.self_attn.q_proj=2,v_proj=32"]),
    "LayerNumbers": lambda kind, rng: rng.choice([[0], [1, 2, 3], [0, 2]]),
    "ModelName": lambda kind, rng: "gpt2",
    "Text": lambda kind, rng: rng.choice(["peft", "trl", "accelerate", "4.57.1", "torchtune", "x"]),
    "Called": lambda kind, rng: rng.choice(["peft", "trl", "accelerate", "4.57.1", "torchtune", "x"]),
}
"""How to make what a setting takes, by the name of its kind."""
