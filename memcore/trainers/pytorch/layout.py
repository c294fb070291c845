"""How ranks divide the work: from the parallel sizes of a config to numbers, contradictions refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.hardware import find_accelerator
from memcore.layers.transformers.attention import heads_of
from memcore.messages import Message, joined
from memcore.networks.network import Model
from memcore.networks.parts import Attention, LatentAttention, Mixer
from memcore.networks.stages import Listed, Partition, layers_of, sparing_the_first, stage_of, weighing_ends
from memcore.tensors.attention import kernel_for
from memcore.tensors.ring import TURNS
from memcore.trace.code import LayerCode
from memcore.trace.engine import Engine
from memcore.trace.recipe import Pipeline
from memcore.trace.schedules import BOTH_WAYS, LOOPED, V_SHAPED
from memcore.trace.ulysses import Ulysses
from memcore.trainers.pytorch.expert_parallel import layer_code
from memcore.trainers.pytorch.extension import extension_of
from memcore.trainers.pytorch.frameworks import framework_of, is_early_titan
from memcore.trainers.pytorch.settings import TorchSettings
from memcore.trainers.pytorch.tensor_parallel import tensor_ranks
from memcore.trainers.pytorch.torchtitan_commits import LEAVES_CONTEXTS, SPARES_THE_FIRST


def context_ranks(read: Defaults, engine: Engine) -> int:
    """Ranks that share a sequence: those of a ring, or of Ulysses."""
    path = Parallelism.context_parallel_size
    contexts: int = read.given(path) or 1
    if contexts > 1 and not engine.shards:
        read.refuse(path, "found {}; supported only with {}, found {!r}", contexts, "engine.type 'fsdp'", engine.name)
    sequence = read.given(Training.sequence_length)
    if sequence is not None and sequence % (2 * contexts) and contexts > 1:
        read.refuse(Training.sequence_length, "found {}, which is not divisible by 2 × {} ranks", sequence, contexts)
    ulysses = ulysses_ranks(read)
    if sequence is not None and sequence % ulysses:
        read.refuse(Training.sequence_length, "found {}, which is not divisible by {} ranks", sequence, ulysses)
    return ulysses if is_early_titan(read, LEAVES_CONTEXTS) else contexts * ulysses


def ulysses_ranks(read: Defaults) -> int:
    """Ranks that share a sequence outside of attention, and heads in it."""
    return int(read.given(ULYSSES) or 1)


def is_before_ampere(read: Defaults) -> bool:
    """Return whether the GPU has no flash attention (sdp_utils.cpp, `check_flash_attention_hardware_support`)."""
    given = read.given(Hardware.accelerator)
    return given is not None and not find_accelerator(given).has_bf16


def ring(read: Defaults, model: Model, implementation: str, kernel: str, dtype: str) -> int:
    """Return how many turns of ring attention are recorded; `dtype` is that of the queries.

    Raises UnsupportedError for layers that no kernel with a ring takes.
    """
    path = Parallelism.context_parallel_size
    contexts: int = read.given(path) or 1
    if contexts == 1 or is_early_titan(read, LEAVES_CONTEXTS):
        return 0
    early = is_before_ampere(read)
    if not all(isinstance(layer.mixer, Attention | LatentAttention) for layer in model.network.kinds):
        raise UnsupportedError(
            path, "found {}; supported only for multi-head attention, which {} does not have", contexts, model.name
        )
    kernels = ("sdpa", "flash", "efficient", "cudnn", *(["flex"] if implementation == "torchtitan" else []))
    if implementation not in _WITH_RING or kernel not in kernels:
        among = ", ".join(kernels)
        read.refuse(path, "found {}; supported: layers of {} with attention {}", contexts, ", ".join(_WITH_RING), among)
    elif implementation != "torchtitan" and (read.given(Training.attention_mask) == "padded" or not _sees_all(model)):
        message = "found {}; layers of {} support it only where every token sees all before it, without padding"
        raise UnsupportedError(path, message, contexts, implementation)
    elif any(_kernel_of(layer.mixer, kernel, dtype, early=early) == "math" for layer in model.network.kinds):
        other = "bf16-mixed" if dtype == "fp32" else "fp16-mixed" if early and dtype == "bf16" else ""
        raise UnsupportedError(
            Training.precision if other else Training.attention,
            "context parallelism has no kernel for these widths and heads in this dtype; allowed: {}",
            other or "cudnn",
        )
    return min(contexts, TURNS)


_WITH_RING = ("torchtitan", "transformers", "liger")
"""Layers whose attention PyTorch runs as a ring: torchtitan's, and those of transformers with SDPA (accelerate)."""


def _sees_all(model: Model) -> bool:
    """Return whether all layers have attention over heads without windows."""
    mixers = [layer.mixer for layer in model.network.kinds]
    return all(isinstance(mixer, Attention) and mixer.mask == "full" and mixer.sinks is None for mixer in mixers)


def _kernel_of(part: Mixer | None, kernel: str, dtype: str, *, early: bool) -> str:
    """Return what torchtitan's layers take for `kernel` (layers/torchtitan/attention.py)."""
    if isinstance(part, Attention) and kernel == "sdpa":
        heads = heads_of(part)
        return kernel_for(
            dtype, heads.repeated() if part.repeats_heads else heads, masked=False, even=True, early=early
        )
    if isinstance(part, LatentAttention) and kernel in ("sdpa", "flash"):
        even = part.heads.value == part.heads.width
        return kernel_for(dtype, heads_of(part), masked=False, even=even, early=early)
    return kernel


def ulysses(
    read: Defaults, model: Model, implementation: str, kernel: str, sizes: Mapping[str, int], *, padded: bool
) -> Ulysses | None:
    """Return what ranks exchange before and after attention; None: nothing.

    Raises UnsupportedError for layers that it does not support.
    """
    ranks = ulysses_ranks(read)
    if ranks == 1:
        return None
    if tensor_ranks(read) > 1:
        message = Message("found {} with parallelism.tensor_parallel_size {}", ranks, tensor_ranks(read))
        raise UnsupportedError(ULYSSES, "{}; the two are not supported together yet; leave one of them out", message)
    mixers = [layer.mixer for layer in model.network.kinds]
    if implementation not in ("transformers", "liger") or not all(isinstance(mixer, Attention) for mixer in mixers):
        raise UnsupportedError(
            ULYSSES, "found {}; supported only for multi-head attention in transformers' or Liger's layers", ranks
        )
    if kernel == "math":
        read.refuse(Training.attention, "found {!r}; Ulysses supports {}", "math", "flash, sdpa")
    if any(mixer is not None and mixer.mask != "full" for mixer in mixers) and kernel != "flash":
        read.refuse(Training.attention, "Ulysses with sliding windows is supported only with 'flash'")
    if padded:
        read.refuse(Training.attention_mask, "a mask over the whole sequence is not supported yet with Ulysses")
    for path in (Training.use_cache, Training.compile, Training.images_per_sequence):
        if read.given(path):
            read.refuse(path, "found {}, which is not supported yet with {}; leave it out", read.given(path), "Ulysses")
    return _exchanges(read, model, ranks, sizes)


def _exchanges(read: Defaults, model: Model, ranks: int, sizes: Mapping[str, int]) -> Ulysses:
    """By how many heads there are for each rank (`UlyssesSPAttentionHF.__init__`)."""
    own = next(layer.mixer for layer in model.network.kinds if isinstance(layer.mixer, Attention))
    query, key = sizes[str(own.heads.query)], sizes[str(own.heads.key)]
    if query % ranks or (key % ranks and ranks % key):
        heads = Message("{} query and {} key heads of {}", query, key, model.name)
        read.refuse(ULYSSES, "found {}, which does not divide {}", ranks, heads)
        return Ulysses()
    return Ulysses(replicated=ranks > key, shared=query // ranks > max(key // ranks, 1))


def gpus_and_shards(read: Defaults, engine: Engine) -> tuple[int, int]:
    """GPUs of the job, and over how many FSDP shards."""
    groups = {
        "{} pipeline": read.given(Parallelism.pipeline_parallel_size) or 1,
        "{} tensor": tensor_ranks(read),
        "{} context": read.given(Parallelism.context_parallel_size) or 1,
        "{} Ulysses": ulysses_ranks(read),
    }
    total = _gpus(read, groups)
    tensors = groups["{} tensor"]
    ranks = max(total // (groups["{} pipeline"] * tensors), 1)
    if not engine.distributed and ranks > 1 and tensors > 1:
        read.refuse(
            EngineSettings.type,
            "'none' has no data parallelism, but the layout has {} data-parallel groups; allowed: {}",
            ranks,
            "fsdp",
        )
    elif not engine.distributed and ranks > 1:
        read.refuse(
            EngineSettings.type, "'none' runs on one GPU, found hardware.num_gpus {}; allowed: {}", total, "ddp, fsdp"
        )
    return total, _shards(read, ranks)


def _gpus(read: Defaults, groups: Mapping[str, int]) -> int:
    """Return the GPUs of the job: what is given, else what the groups of ranks need."""
    given, own = read.given(Hardware.num_gpus), read.given(Parallelism.data_parallel_size)
    parts = prod(groups.values())
    data = None if own is None else own * parts
    if given is not None and data is not None and given != data:
        times = "" if parts == 1 else Message(" times {} ranks of other groups", parts)
        said = "found {}{}, but hardware.num_gpus is {}; they must agree"
        read.refuse(Parallelism.data_parallel_size, said, own, times, given)
    total: int = given or data or read.take(Hardware.num_gpus, parts, "one GPU" if parts == 1 else "one for each part")
    if total % parts:
        product = joined(" × ", (Message(group, size) for group, size in groups.items() if size > 1))
        read.refuse(Hardware.num_gpus, "found {}, which is not a multiple of the {}-parallel ranks", total, product)
    return total


def _shards(read: Defaults, ranks: int) -> int:
    """Return over how many data-parallel ranks FSDP shards, and check over how many it shards again."""
    path, again = Parallelism.data_parallel_shard_size, TorchSettings.reshard_after_forward
    shards: int = read.take(path, ranks)
    if ranks % shards:
        read.refuse(path, "found {}, which does not divide the {} data-parallel ranks", shards, ranks)
    reshard = read.given(again)
    if isinstance(reshard, int) and not isinstance(reshard, bool) and (shards % reshard or reshard == shards):
        read.refuse(again, "found {}; a number must divide the {} ranks of a shard group", reshard, shards)
    return shards


STAGES = Parallelism.pipeline_parallel_size
ULYSSES = Parallelism.ulysses_parallel_size


CHUNKS = Parallelism.virtual_pipeline_parallel_size
_SCHEDULE = Parallelism.pipeline_schedule
_LAYOUT = Parallelism.pipeline_layout


def pipelined(read: Defaults) -> bool:
    """Return whether micro-batches go through a pipeline schedule, with some frameworks on one rank too."""
    return (read.given(STAGES) or 1) > 1 or framework_of(read).schedule is not None


def unscheduled(read: Defaults, model: Model, engine: Engine) -> Model:
    """The model with a warning where a schedule has no pipeline to run; torchtitan's files have one in any case."""
    schedule = read.given(_SCHEDULE)
    if pipelined(read) or schedule in (None, "1f1b") or not engine.composes:
        return model
    warning = Message("{} {!r} has no effect without a pipeline ({} is 1)", _SCHEDULE, schedule, STAGES)
    return replace(model, warnings=(*model.warnings, warning))


def partition(read: Defaults, model: Model, engine: Engine, total: int, *, fake: bool) -> Partition | None:
    """Return how the `total` layers are split over stages; None: as the engine does it.

    A simulated step is nobody's framework.
    """
    given = read.given(_LAYOUT)
    if given is not None and (isinstance(given, str) or len(given) != total or sum(given) != model.num_layers):
        message = Message("one layer count for each of the {} stages, in order, {} in total", total, model.num_layers)
        read.refuse(_LAYOUT, "found {!r:.80}; allowed: {}", given, message)
        return None
    named = None if fake else _partition(read, engine)
    found = named if given is None else Listed(tuple(given))
    if found is not None and 0 in found(model.num_layers, total):
        path = STAGES if given is None else _LAYOUT
        shares = list(found(model.num_layers, total))
        read.refuse(path, "found {}; {} layers would leave a stage empty", read.given(path), shares)
    elif any(map(_reuses, _mixers(model))) and any(
        _reuses(next(_mixers(stage_of(model, number, total, found or layers_of)), None)) for number in range(total)
    ):
        raise UnsupportedError(
            STAGES,
            "a pipeline stage cannot start with a layer that reuses the previous stage's indexer: not supported yet",
        )
    return found


def _mixers(model: Model) -> Iterator[Mixer | None]:
    """Return the mixer of each layer that differs from others, the first layer's first."""
    return (layer.mixer for run in model.network.runs for layer in run)


def _reuses(mixer: Mixer | None) -> bool:
    """Return whether it attends to the tokens that an earlier layer chose."""
    return isinstance(mixer, LatentAttention) and mixer.reuses


def _partition(read: Defaults, engine: Engine) -> Partition | None:
    if extension_of(read).job is not None or not pipelined(read):
        return None
    own = framework_of(read).partition
    if own is None and layer_code(read) == "torchtitan" and read.given(EngineSettings.framework) != "memcore":
        return sparing_the_first if is_early_titan(read, SPARES_THE_FIRST) else weighing_ends
    return own


def pipeline_stages(read: Defaults, model: Model, engine: Engine, micro_batches: int) -> tuple[int, str, int]:
    """Return the ranks of the pipeline, its schedule, and the stages on each rank."""
    path = STAGES
    stages: int = read.given(path) or 1
    if not pipelined(read):
        if (read.given(CHUNKS) or 1) > 1:
            read.refuse(CHUNKS, "found {}; needs {} of 2 or more", read.given(CHUNKS), STAGES)
        return stages, "1f1b", 1
    given = read.given(CHUNKS)
    looped = (given or 1) > 1
    schedule = _named_schedule(read, looped=looped)
    chunks = _chunks(read, schedule, stages)
    _refuse_schedule(read, schedule, stages, chunks, micro_batches)
    if (read.given(EngineSettings.version) or 2) == 1:
        raise UnsupportedError(
            path, "found {}; pipelines are supported only with FSDP2, found engine.version 1", stages
        )
    if layer_code(read) == "lit-gpt":
        raise UnsupportedError(path, "found {}; LitGPT's scripts have no pipeline parallelism; leave it out", stages)
    extension = extension_of(read)
    if not engine.composes and extension.job is None:
        read.refuse(
            path, "found {}; supported with {}, found {!r}", stages, "engine.type 'none' or 'fsdp'", engine.name
        )
    elif engine.shards and chunks > _ACTIVE:
        raise UnsupportedError(
            CHUNKS,
            "found {}; PyTorch's schedules keep {} stages gathered, more are not supported yet",
            chunks,
            _ACTIVE,
        )
    if stages_in_all(stages, schedule, chunks) > model.num_layers:
        read.refuse(
            path, "found {} ranks with {} stages each; {} has {} layers", stages, chunks, model.name, model.num_layers
        )
    embedding_and_head = model.network.embedding_and_head
    if (
        (embedding_and_head.tied and not extension.ties_stages)
        or embedding_and_head.start != extension.start
        or model.network.towers
    ):
        what = "a tied head" if embedding_and_head.tied else "towers" if model.network.towers else "such first layers"
        raise UnsupportedError(
            path, "found {}; {} has {}, which is not supported yet in a pipeline", stages, model.name, what
        )
    return stages, schedule, chunks


def stages_in_all(ranks: int, schedule: str, chunks: int) -> int:
    """Different stages of a pipeline: in both directions they are the same."""
    return ranks if schedule == BOTH_WAYS else ranks * chunks


def delays_experts(read: Defaults, *, parallel: bool) -> bool:
    """Return whether routed experts' weight gradients wait, as they do in PithTrain's pipelines since April 2026."""
    path = EngineSettings.delay_wgrad_compute
    found = bool(read.given(path))
    if found and not (parallel and pipelined(read)):
        read.refuse(path, "found {}; supported only with expert parallelism in a pipeline, as in PithTrain", "true")
    return found


def _named_schedule(read: Defaults, *, looped: bool) -> str:
    only = framework_of(read).schedule
    usual = only or ("interleaved-1f1b" if looped else "1f1b")
    schedule: str = read.take(_SCHEDULE, usual, "its own schedule" if only else "as in torchtitan")
    if only is not None and schedule != only:
        read.refuse(
            _SCHEDULE, "found {!r}; {} supports only {!r}", schedule, read.given(EngineSettings.framework), only
        )
    return schedule


_ACTIVE = 3
"""Stages of a rank whose parameters are gathered at once (schedules.py, `_add_unshard_reshard`)."""


def _chunks(read: Defaults, schedule: str, stages: int) -> int:
    """Stages on each rank."""
    if schedule == BOTH_WAYS:
        if stages % 2:
            read.refuse(
                STAGES, "found {}; 'dualpipe' needs an even number of ranks; 'dualpipev' supports any number", stages
            )
        if (read.given(CHUNKS) or 2) > 2:
            read.refuse(CHUNKS, "found {}; each 'dualpipe' rank has 2 stages, one per direction", read.given(CHUNKS))
        return 2
    usual = 2 if schedule in V_SHAPED or schedule == "interleaved-1f1b" else 1
    chunks: int = read.take(CHUNKS, usual, "as in torchtitan" if usual > 1 else None)
    if schedule in V_SHAPED and chunks != 2:
        read.refuse(CHUNKS, "found {}; {!r} has 2 stages on each rank", chunks, schedule)
    elif schedule not in LOOPED and chunks > 1:
        read.refuse(
            CHUNKS, "found {}; {!r} has one stage on each rank; allowed: {}", chunks, schedule, joined(", ", LOOPED)
        )
    return chunks


def _refuse_schedule(read: Defaults, schedule: str, stages: int, chunks: int, micro_batches: int) -> None:
    """Refuse what PyTorch's schedules do not take."""
    path = Training.gradient_accumulation_steps
    rounds = max(1, micro_batches // stages)
    if schedule in ("interleaved-1f1b", "zb-h1") and micro_batches % rounds:
        read.refuse(path, "found {}; {!r} needs a multiple of its {} rounds", micro_batches, schedule, rounds)
    if schedule == BOTH_WAYS and (micro_batches % 2 or micro_batches < 2 * stages):
        read.refuse(path, "found {}; {!r} needs an even number of at least {}", micro_batches, schedule, 2 * stages)
    if schedule == "dualpipev" and micro_batches < 2 * stages:
        read.refuse(path, "found {}; {!r} needs at least {}, one for each stage", micro_batches, schedule, 2 * stages)


_BOTH_COPIES = (
    Assumption(
        _SCHEDULE,
        BOTH_WAYS,
        "ranks r and PP - 1 - r hold the same two stages, and the caller sums their gradients in place; "
        "data parallelism as in PyTorch's pipelines",
        notable=True,
    ),
)


def pipeline_plan(read: Defaults, code: LayerCode) -> Pipeline | None:
    """Return how the pipeline runs, as far as all stages share it."""
    if not pipelined(read):
        for setting in (TorchSettings.pipeline_runtime, TorchSettings.return_outputs):
            if read.given(setting) is not None:
                read.refuse(setting, "needs {} of 2 or more", STAGES)
        return None
    if read.given(_SCHEDULE) == BOTH_WAYS:
        read.assumptions += _BOTH_COPIES
        for setting in (TorchSettings.pipeline_runtime, TorchSettings.return_outputs):
            if read.given(setting):
                read.refuse(
                    setting,
                    "found {!r}; 'dualpipe' uses DeepSeek's own schedule, which returns no outputs",
                    read.given(setting),
                )
        return Pipeline(warm=0, stands=False, runs=0, skips=False, runtime=BOTH_WAYS, returns_outputs=False)
    runtime = read.take(TorchSettings.pipeline_runtime, "torch", "PyTorch's own runtime")
    returns = read.take(
        TorchSettings.return_outputs, code.computes_loss, "PyTorch's default; torchtitan does not request them"
    )
    return Pipeline(warm=0, stands=False, runs=0, skips=False, runtime=runtime, returns_outputs=returns)
