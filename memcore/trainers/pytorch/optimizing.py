"""The optimizer of a job: its row of the table, its implementation, and what they cannot step with."""

from __future__ import annotations

from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.dtypes import FLOATING
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.optimizers.states import Implementation, Optimizer, State
from memcore.optimizers.table import OPTIMIZERS
from memcore.trace.engine import Engine
from memcore.trainers.pytorch.extension import extension_of
from memcore.trainers.pytorch.frameworks import framework_of
from memcore.trainers.pytorch.frozen import usual_preset
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.transformers_releases import FUSES_OPTIMIZER, before


def optimizer_of(read: Defaults, engine: Engine, *, fake: bool) -> tuple[Optimizer, Implementation]:
    """Return the row of the table, and the implementation of its step.

    Raises UnsupportedError for one that does not run on what the engine gives it.
    """
    name = read.take(Training.optimizer.name, "adamw", "the usual optimizer for language models")
    momentum = read.given(Training.optimizer.momentum)
    with_momentum = [row.removesuffix("-momentum") for row in OPTIMIZERS if row.endswith("-momentum")]
    if momentum is not None and name not in with_momentum:
        read.refuse(Training.optimizer.momentum, "applies to {}, found {!r}", joined(" and ", with_momentum), name)
    named = f"{name}-momentum" if name in with_momentum and momentum else name
    row = _optimizer_row(read, engine, named)
    reason = "the Hugging Face Trainer's and torchtitan's choice" if row.default == "fused" else "the library's choice"
    own = framework_of(read).step
    usual, reason = own or row.default, "the framework's choice" if own else reason
    if own is None and row.default == "fused" and before(read, FUSES_OPTIMIZER):
        usual, reason = "foreach", "the Trainer's choice before transformers 4.54"
    chosen = read.take(
        Training.optimizer.implementation, usual if usual in row.implementations else row.default, reason
    )
    if chosen not in row.implementations:
        others = (each.rpartition("@")[2] for each in OPTIMIZERS if each.startswith(f"{named}@"))
        allowed = ", ".join((*row.implementations, *others))
        read.refuse(Training.optimizer.implementation, "found {!r}; {} supports {}", chosen, row.title, allowed)
    how = row.implementations.get(chosen, row.implementations[row.default])
    _refuse_sharded(read, engine, row, how)
    _refuse_half(read, engine, row)
    row = _with_rank(read, engine, row)
    # A simulated step is nobody's Trainer.
    exempts = not fake and chosen == "bitsandbytes" and row.maps > 0 and framework_of(read).exempts_embeddings
    row = _with_master(read, engine, _with_states(read, engine, row, how, chosen), how)
    row = replace(row, exempts_embeddings=exempts, stacks=framework_of(read).stacks)
    if read.given(Training.offload.optimizer) is None or not engine.native:
        # What has stepped in the backward pass needs nothing at the end of it.
        return row, Implementation(step_on_device=how.step_on_device) if read.given(
            TorchSettings.optimizer_in_bwd
        ) else how
    if read.given(TorchSettings.optimizer_in_bwd):
        read.refuse(Training.offload.optimizer, "the step on the host runs after the backward pass")
    if framework_of(read).fetches_states:
        return replace(row, fetched=True), how
    return replace(row, on_host=True, maps=0), Implementation()


def _optimizer_row(read: Defaults, engine: Engine, named: str) -> Optimizer:
    """The row of the implementation that is asked for, else of one that steps with what FSDP leaves of matrices."""
    given = read.given(Training.optimizer.implementation)
    if given is None and OPTIMIZERS[named].whole and engine.shards and not engine.flat:
        given = _ON_TILES
    if given is None and named in framework_of(read).brings:
        given = "transformers"
    return OPTIMIZERS.get(f"{named}@{given}", OPTIMIZERS[named])


_ON_TILES = "distributed-shampoo"
_PLAIN = "torch cannot mix plain tensors with DTensors"
_PRECONDITIONERS = Message(
    "pytorch_optimizer's preconditioners are plain tensors, and {}; use implementation {!r}", _PLAIN, _ON_TILES
)
_ON_SHARDS = {
    "shampoo": _PRECONDITIONERS,
    "soap": _PRECONDITIONERS,
    "apollo": Message("apollo_torch's projection is a plain tensor, and {}", _PLAIN),
    "apollo-mini": Message("apollo_torch's projection is a plain tensor, and {}", _PLAIN),
    "galore-8bit": Message("its states are plain tensors, and {}; 'galore' projects DTensors", _PLAIN),
}
"""Why optimizers fail on FSDP2's shards: found by steps of pytorch_optimizer 4.1 and apollo_torch 1.0 on torch 2.13."""


def _refuse_sharded(read: Defaults, engine: Engine, row: Optimizer, how: Implementation) -> None:
    """An error where a step needs more than an engine that shards parameters gives it."""
    path, name = Training.optimizer.name, read.given(Training.optimizer.name)
    if row.tile:
        _refuse_tiles(read, engine)
    partitioned = extension_of(read).partitions
    flat = partitioned or engine.flat
    if not (engine.shards or partitioned) or not (row.whole or (how.matrix and flat)):
        return
    found = Message("found {!r}; its step needs unsharded matrices", name)
    if flat:
        raise UnsupportedError(
            path, "{}; {} passes it slices of one flat vector; engine.type ddp does not shard them", found, engine.title
        )
    if name in _ON_SHARDS:
        raise UnsupportedError(path, "{}; {}; engine.type ddp does not shard them", found, _ON_SHARDS[name])
    if (read.given(Parallelism.tensor_parallel_size) or 1) > 1:
        raise UnsupportedError(
            path, "{}; projecting matrices that tensor parallelism also shards is not supported yet", found
        )


def _refuse_tiles(read: Defaults, engine: Engine) -> None:
    """Distributed Shampoo has a way of its own to share the work for each engine; FSDP2's shares none."""
    path = Training.optimizer.implementation
    shards, ranks = (
        read.given(setting) for setting in (Parallelism.data_parallel_shard_size, Parallelism.data_parallel_size)
    )
    if not engine.composes or engine.flat:
        raise UnsupportedError(
            path,
            "found {!r}; splitting its tiles among ranks of {} is not supported yet; engine.type: fsdp (FSDP2), none",
            _ON_TILES,
            engine.title,
        )
    if shards is not None and ranks is not None and shards < ranks:
        message = (
            "splitting its tiles among replicas is not supported yet; leave parallelism.data_parallel_shard_size out"
        )
        raise UnsupportedError(path, "found {!r}; {}", _ON_TILES, message)


def _refuse_half(read: Defaults, engine: Engine, row: Optimizer) -> None:
    """An error where factorizations are asked of half-precision matrices, which PyTorch has none for."""
    if any(state.of == "side" for state in row.states) and "fp32" not in _learned(read, engine):
        found = joined(" and ", sorted(_learned(read, engine)))
        raise UnsupportedError(
            Training.optimizer.name,
            "found {} for parameters in {}; it factorizes matrices in fp32; bf16-mixed keeps parameters in fp32",
            row.title,
            found,
        )


def _with_rank(read: Defaults, engine: Engine, row: Optimizer) -> Optimizer:
    """The row with the rank of its projections; GaLore keeps a slice of all singular vectors in fp32, else a copy."""
    path = Training.optimizer.rank
    if not row.rank:
        if read.given(path) is not None:
            read.refuse(path, "{} does not project gradients; leave it out", row.title)
        return row
    kept = "square" if "fp32" in _learned(read, engine) else "thin"
    states = tuple(replace(state, of=kept) if state.of == "basis" else state for state in row.states)
    return replace(row, rank=read.take(path, row.rank, "the library's default rank"), states=states)


def _with_states(read: Defaults, engine: Engine, row: Optimizer, how: Implementation, chosen: str) -> Optimizer:
    """Return the row with the states of an implementation, in the dtype that a config asks for."""
    path = Training.optimizer.state_dtype
    row = row if how.states is None else replace(row, states=how.states)
    dtype = read.given(path)
    if dtype is None:
        return row
    own = [state.dtype for state in row.states if state.dtype is not None]
    if own and own != [dtype] * len(own) and dtype not in how.dtypes:
        read.refuse(path, "found {!r}; {} keeps {}", dtype, row.title, joined(" or ", how.dtypes or own[:1]))
    if chosen != "fused" and not own and dtype not in _learned(read, engine):
        kept = joined(" and ", sorted(_learned(read, engine)))
        read.refuse(path, "found {!r}; {} ({}) keeps states like the parameters, in {}", dtype, row.title, chosen, kept)
    return replace(row, states=tuple(replace(state, dtype=dtype) for state in row.states))


def _with_master(read: Defaults, engine: Engine, row: Optimizer, how: Implementation) -> Optimizer:
    """Return the row with the optimizer's own copy of the parameters, or of the bits that bf16 ones lack.

    Source: transformer_engine, pytorch/optimizers/fused_adam.py (`initialize_state`: a whole copy unless parameters are
    in bf16); flashoptim, optimizers.py (`FlashOptimizer.__init__` raises an error for fp32 parameters).
    """
    path = Training.master_dtype
    if not how.masters:
        return row
    kept = read.take(path, how.masters[0], "the library's choice")
    if kept not in how.masters:
        read.refuse(path, "found {!r}; {} keeps {}", kept, row.title, joined(" or ", how.masters))
    if kept in ("int16", "int8") and "bf16" not in _learned(read, engine):
        if "fp32" not in how.masters:
            read.refuse(path, "found {!r}; it extends parameters in bf16; allowed here: {}", kept, "none")
        kept = "fp32"
    return row if kept == "none" else replace(row, states=(*row.states, State("master_copy", dtype=kept)))


def _learned(read: Defaults, engine: Engine) -> set[str]:
    """Return the dtypes that learned parameters can have."""
    if read.given(Training.adapter.type) is not None:
        return {read.given(Training.adapter.dtype) or "fp32"}
    preset = read.given(Training.precision) or usual_preset(read, engine)[0]
    found = read.given(Training.parameter_dtype) or preset
    return {found if found in FLOATING else "fp32"}
