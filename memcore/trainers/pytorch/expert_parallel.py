"""Expert parallelism, from its settings to a model and sizes: routed experts as torchtitan divides them.

Source: torchtitan/distributed/parallel_dims.py and fsdp.py. Expert parallelism takes its ranks from those of data,
context and tensor parallelism; the ranks that have the same experts shard them among themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, comb

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.layers.torchtitan.experts import can_share
from memcore.layers.torchtitan.model import expresses
from memcore.layers.torchtitan.network import with_copied_heads, with_fused_heads
from memcore.messages import Message
from memcore.networks.catalog import find_model
from memcore.networks.network import Model
from memcore.networks.separate_experts import ARRIVED, ROWS, cut_crosswise, divided, experts_of, separated, spelled_out
from memcore.trace.engine import Engine
from memcore.trainers.pytorch.extension import extension_of
from memcore.trainers.pytorch.frameworks import framework_of, is_early_titan
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.torchtitan_commits import CASTS_FIRST, COPIES_HEADS, SEPARATES_HEADS

SIZE = Parallelism.expert_parallel_size
TENSOR = Parallelism.expert_tensor_parallel_size
IMBALANCE = EngineSettings.moe_load_imbalance
DISPATCHER = TorchSettings.moe_token_dispatcher
CAPACITY = EngineSettings.moe_expert_capacity_factor
ROOM = TorchSettings.non_blocking_capacity_factor
_TITAN = "torchtitan"
_LEAST = 4
"""Tokens that an expert of DeepSpeed takes at least (`--moe-min-capacity`)."""


def expert_ranks(read: Defaults, engine: Engine, model: Model, shards: int) -> int:
    """Ranks among which routed experts are divided."""
    ranks = int(read.given(SIZE) or 1)
    tensor, capacity = read.given(TENSOR), extension_of(read).capacity
    whole = ranks == 1 and tensor == (read.given(Parallelism.tensor_parallel_size) or 1)  # what it is without
    if tensor not in (None, 1) and not whole:
        read.refuse(TENSOR, "found {}; experts are not split further; allowed: {}", tensor, 1)
    if read.given(CAPACITY) is not None and "E" not in model.sizes and capacity:
        read.refuse(CAPACITY, "{} has no routed experts", model.name)
    if ranks == 1:
        if read.given(IMBALANCE) is not None:
            read.refuse(IMBALANCE, "needs {} of 2 or more", SIZE)
        return 1
    many = model.sizes.get("E", 0)
    if not list(experts_of(model.network)):
        read.refuse(SIZE, "found {}; {} has no routed experts", ranks, model.name)
    elif not engine.shards and not capacity:
        read.refuse(SIZE, "found {}; supported with {}, found {!r}", ranks, "engine.type 'fsdp'", engine.name)
    elif many % ranks:
        read.refuse(SIZE, "found {}, which does not divide {}'s {} experts", ranks, model.name, many)
        raise ConfigError(read.problems)
    elif shards % ranks and not framework_of(read).crosses_experts:
        over_all = Message("it must divide the {} data-parallel ranks", shards)
        over_shards = Message("it must divide the {} ranks over which FSDP shards", shards)
        read.refuse(SIZE, "found {}; {}", ranks, over_all if capacity else over_shards)
    else:
        return ranks
    return 1


def expert_sizes(read: Defaults, ranks: int, shards: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Ranks that share the same experts, and the rows that a rank's experts are given."""
    if "E" not in sizes:
        return {}
    if extension_of(read).capacity:
        rows = _capacity(read, sizes) * sizes["E"]
        return {"ep": ranks, "etp": 1, "ze": max(shards // ranks, 1), ROWS: rows, ARRIVED: rows}
    rows = (_tokens(sizes) if ranks > 1 else sizes["b"] * sizes["s"]) * sizes["e"]
    room = read.given(ROOM) if ranks > 1 else None
    if room is not None:
        if read.given(IMBALANCE) is not None:
            read.refuse(IMBALANCE, "has no effect next to {}; leave one of them out", ROOM)
        rows = max(1, int(most_rows(ranks, sizes) * float(room)))
    elif ranks > 1:
        worst = most_rows(ranks, sizes) / rows
        uneven = read.take(
            IMBALANCE,
            1.0,
            Message("all ranks receive the same number of tokens for their experts; at worst it is {:g}", worst),
        )
        rows = min(ceil(rows * Fraction(uneven).limit_denominator(1000)), most_rows(ranks, sizes))
    same = shards if framework_of(read).crosses_experts else max(shards // ranks, 1)
    return {"ep": ranks, "ze": same, ROWS: rows, ARRIVED: arrived(rows, ranks, sizes)}


def _capacity(read: Defaults, sizes: Mapping[str, int]) -> int:
    """Tokens that every expert takes of each rank: further ones are dropped, missing ones are empty (`_capacity`)."""
    factor = float(read.take(CAPACITY, 1.0, "DeepSpeed's default capacity, an even distribution"))
    return max(ceil(_tokens(sizes) / sizes["E"] * factor * sizes["e"]), _LEAST)


def arrived(rows: int, ranks: int, sizes: Mapping[str, int]) -> int:
    """Return the tokens that rows belong to, each sent to a rank once: at random, a fraction of all tokens."""
    tokens, own = _tokens(sizes) * ranks, sizes["E"] // ranks
    others = Fraction(comb(sizes["E"] - own, sizes["e"]), comb(sizes["E"], sizes["e"]))
    each = Fraction(sizes["e"], ranks) / (1 - others)
    return min(ceil(rows / each), tokens)


def dispatcher(read: Defaults, ranks: int) -> str:
    """Return how rows reach their experts."""
    if ranks == 1:
        if read.given(DISPATCHER) not in (None, "alltoall"):
            read.refuse(DISPATCHER, "found {!r}; needs {} of 2 or more", read.given(DISPATCHER), SIZE)
        return "local"
    found: str = read.take(DISPATCHER, *framework_of(read).dispatcher)
    return found


def worst_imbalance(read: Defaults, ranks: int, sizes: Mapping[str, int]) -> float | None:
    """Return how often one rank's experts are chosen at most, where a job leaves it open; 1 is as often as others."""
    settled = any(read.given(setting) is not None for setting in (IMBALANCE, ROOM))
    if ranks == 1 or settled or extension_of(read).capacity:
        return None
    return most_rows(ranks, sizes) / (_tokens(sizes) * sizes["e"])


def most_rows(ranks: int, sizes: Mapping[str, int]) -> int:
    """Rows if every token of every rank chose this rank's experts."""
    return _tokens(sizes) * ranks * min(sizes["e"], sizes["E"] // ranks)


def _tokens(sizes: Mapping[str, int]) -> int:
    """Return the tokens that a rank routes: tensor-parallel ranks share a sequence."""
    return max(1, sizes["b"] * sizes["s"] // sizes.get("tp", 1))


def layer_code(read: Defaults) -> str:
    """Return whose layers run; those of torchtitan are the ones that share routed experts."""
    own = framework_of(read).implementation
    found: str = read.given(Training.implementation) or (_TITAN if _shares(read) else own)
    return found


def with_mixers(config: Config, read: Defaults) -> tuple[Config, Defaults]:
    """Return the config with transformers' layers around experts that ranks share, where a framework has such networks.

    Source: NeMo Automodel, components/models (qwen3_5_moe, qwen3_next, nemotron_v3, minimax_m2, glm4_moe): mixers are
    transformers' or have the same operations, next to experts of components/moe/layers.py.
    """
    path = Training.implementation
    if read.given(path) or not (_shares(read) and framework_of(read).shares_experts):
        return config, read
    network = find_model(config.model).network
    if expresses(network) or not all(map(can_share, experts_of(network))):
        return config, read
    config = config.replaced(path, "transformers")
    found = Defaults(config)
    own = Message("{}'s own layers", read.given(EngineSettings.framework))
    found.assumptions = [*read.assumptions, Assumption(path, "transformers", own, notable=True)]
    return config, found


def _shares(read: Defaults) -> bool:
    return (read.given(SIZE) or 1) > 1 and not extension_of(read).capacity


def _own_experts(read: Defaults) -> bool:
    """Return whether routed experts are as torchtitan keeps them, whoever's layers are around them."""
    return layer_code(read) == _TITAN or (_shares(read) and framework_of(read).shares_experts)


def as_kept(read: Defaults, model: Model) -> Model:
    """The model with matrices of experts and heads as the layers keep them, and norms as the version computes them."""
    if not _own_experts(read):
        return model
    if layer_code(read) != _TITAN:
        return separated(model, fused=framework_of(read).fuses_gates)
    if is_early_titan(read, COPIES_HEADS):
        model = with_copied_heads(model)
    elif _fuses_heads(read):
        model = with_fused_heads(model)
    if is_early_titan(read):
        model = spelled_out(model, casts_first=is_early_titan(read, CASTS_FIRST))
    return separated(model, fused=framework_of(read).fuses_gates)


def _fuses_heads(read: Defaults) -> bool:
    """Return whether torchtitan of this version computes queries, keys and values at once.

    Adapters and a compiler's choice by a budget (`budgets.py`) are written down for matrices of their own.
    """
    titan = str(read.given(EngineSettings.framework)).lower() == _TITAN
    apart = read.given(Training.adapter.type) or read.given(Training.activation_memory_budget) is not None
    return titan and not apart and not is_early_titan(read, SEPARATES_HEADS)


def expert_share(read: Defaults, model: Model, ranks: int, shards: int) -> Model:
    """Return what one rank has of the routed experts."""
    if not _own_experts(read):
        return model
    many = model.sizes.get("E", shards)
    crowded = shards > (many // ranks if framework_of(read).crosses_experts else many)
    if ranks > 1:
        return divided(model, crowded=crowded)
    return cut_crosswise(model) if crowded else model
