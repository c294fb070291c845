"""Images of a Megatron job: how many, for a tower that a framework adds to Megatron-Core's decoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.networks.network import Model, Network
from memcore.trace.code import code_of
from memcore.trace.pictures import image_sizes
from memcore.trainers.megatron.networks.towers import DIVIDED_VARIANTS, embedder
from memcore.trainers.megatron.ranks import Ranks
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.megatron.step_plan import MegatronPlan
from memcore.trainers.pytorch.resolve import images_of

_IMAGES = Training.images_per_sequence


def image_symbols(
    read: Defaults, model: Model, ranks: Ranks, implementation: str, micro_batch: int, sequence: int
) -> Mapping[str, int]:
    """Return the sizes that a job's images have.

    Raises UnsupportedError for what is not supported yet.
    """
    images, side = images_of(read, model, sequence, code_of(implementation))
    network = model.network
    if network.towers:
        _check(read, network)
    if ranks.context > 1 and network.towers:
        _check_context(read, network, ranks.context, images)
    if images and network.towers[0].variant in DIVIDED_VARIANTS:
        _check_divided(read)
    if embedder(read.given(EngineSettings.framework), network) == "swift":
        _check_swift(read, images)
    return image_sizes(model, micro_batch, sequence, images, side)


def _check(read: Defaults, network: Network) -> None:
    """Name what of a tower is not supported, and whose it is if no framework is named."""
    divided = network.towers[0].variant in DIVIDED_VARIANTS
    strategy = read.given(MegatronSettings.data_parallel_sharding_strategy)
    if divided and strategy in ("optim_grads", "optim_grads_params"):
        raise UnsupportedError(
            MegatronSettings.data_parallel_sharding_strategy,
            "found {!r}; Megatron-FSDP is not supported yet for the layers of a vision tower",
            strategy,
        )
    if divided and read.given(Training.adapter.type) is not None:
        message = "adapters would also reach the vision tower's Megatron-Core layers, which is not supported yet"
        raise UnsupportedError(Training.adapter.type, message)
    graphs = read.given(MegatronSettings.cuda_graph_impl)
    if graphs not in (None, "none"):
        raise UnsupportedError(
            MegatronSettings.cuda_graph_impl,
            "found {!r}; CUDA graphs are not supported yet for models with images",
            graphs,
        )
    if read.given(EngineSettings.framework) is None:
        whose = {"bridge": "Megatron Bridge", "swift": "ms-swift"}[embedder(None, network) or "swift"]
        reason = "the framework that provides this vision tower with Megatron's layers"
        read.assumptions.append(Assumption(EngineSettings.framework, whose, reason, notable=True))


def _check_context(read: Defaults, network: Network, ranks: int, images: int) -> None:
    """Megatron Bridge's Qwen3-VL shares sequences with images; its Qwen2.5-VL no sequences at all."""
    variant, path = network.towers[0].variant, Parallelism.context_parallel_size
    if variant in DIVIDED_VARIANTS:
        return
    if embedder(read.given(EngineSettings.framework), network) == "bridge":
        read.refuse(path, "found {}; Megatron Bridge's Qwen2.5-VL does not split sequences; allowed: {}", ranks, 1)
    elif images:
        raise UnsupportedError(
            path, "found {}; sequences with images are not supported yet with context parallelism", ranks
        )


def _check_swift(read: Defaults, images: int) -> None:
    """Its towers are frozen by default, and run for text alone too."""
    named = read.given(Training.trainable)
    if images and named is not None:
        raise UnsupportedError(
            Training.trainable,
            "found {!r}; ms-swift checkpoints a trainable tower, which is not supported yet",
            named,
        )
    if not images:
        reason = "for text-only batches ms-swift runs the tower on a small blank image, which is not counted"
        read.assumptions.append(Assumption(_IMAGES, 0, reason, notable=True))


def _check_divided(read: Defaults) -> None:
    """Name what of Megatron-Core's layers is not supported in a tower."""
    method, layers = (
        read.given(Training.activation_checkpointing.method) or "uniform",
        read.given(Training.activation_checkpointing.num_layers) or 1,
    )
    if read.given(Training.activation_checkpointing.policy) == "full" and (method, layers) != ("uniform", 1):
        raise UnsupportedError(
            Training.activation_checkpointing.method,
            "found {!r} with {} layers; for a vision tower, full recomputation is supported only with method "
            "'uniform' and num_layers 1",
            method,
            layers,
        )
    for setting, value in ((Training.attention, "math"), (MegatronSettings.distribute_saved_activations, True)):
        if read.given(setting) == value:
            raise UnsupportedError(
                setting, "found {!r}, which is not supported yet in a vision tower; leave it out", value
            )


def with_images(plan: MegatronPlan, embeds: str | None) -> MegatronPlan:
    """Return how layers run in a model with a tower: Megatron Bridge gives them no mask (training/vlm_step.py)."""
    return replace(plan, images=embeds, masked=plan.masked and embeds != "bridge")


def kernel_of(embeds: str | None, attention: str) -> str:
    """Return the attention of transformers' own towers: ms-swift asks for flash attention where the decoder has it."""
    return "flash" if embeds == "swift" and attention == "flash" else "sdpa"
