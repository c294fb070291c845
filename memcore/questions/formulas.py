"""What published formulas say about a job, beside memcore's own answer, and why the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate_training, is_serving
from memcore.memory.estimate import Estimate
from memcore.networks.catalog import find_model
from memcore.trainers.deepspeed.estimators import ModelStates, estimate_zero_model_states
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.published.reading import arguments_of
from memcore.trainers.megatron.published.report import FORMULAS, TheoreticalMemory, report_theoretical_memory


@dataclass(frozen=True, slots=True)
class Answer:
    """What one formula says, in bytes, and why memcore says something else."""

    name: str
    title: str
    memory: TheoreticalMemory
    assumptions: tuple[str, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Formulas beside memcore."""

    arguments: MegatronArguments
    micro_batches: int
    answers: tuple[Answer, ...]
    deepspeed: tuple[ModelStates, ...]
    """What DeepSpeed's estimators say."""
    estimate: Estimate | None
    refused: str
    """Why memcore has no answer of its own."""

    @property
    def held(self) -> int | None:
        """Bytes between steps on the worst rank: memcore's weights, gradients and optimizer."""
        return None if self.estimate is None else self.estimate.rank.between_steps


def compare(config: Config | Mapping[str, object]) -> Comparison:
    """Every formula's answer for a job, and memcore's where it has one.

    Raises ConfigError for servers and for what cannot be understood, and UnsupportedError for networks that the
    formulas do not know.

    >>> compare({"model": "llama-3.1-8b", "parallelism": {"tensor_parallel_size": 8}}).answers[0].memory
    TheoreticalMemory(weight_and_optimizer=18068686848.0, activation=None)
    """
    described = config if isinstance(config, Config) else Config.from_dict(config)
    if is_serving(described):
        engine = described[EngineSettings.type]
        path, found = (EngineSettings.type, f"found {engine}; ") if engine else ("inference", "")
        raise ConfigError.at(path, f"{found}the published formulas are of training only")
    arguments = arguments_of(described)
    micro_batches = described[Training.gradient_accumulation_steps] or 1
    answers = tuple(_answer(name, arguments, micro_batches) for name in FORMULAS)
    gpus, node = described[Hardware.num_gpus] or 1, described[Hardware.gpus_per_node] or 8
    model = find_model(described.model)
    deepspeed = estimate_zero_model_states(model, min(gpus, node), max(gpus // node, 1))
    try:
        own = estimate_training(described)
    except MemcoreError as error:
        return Comparison(arguments, micro_batches, answers, deepspeed, None, str(error))
    return Comparison(arguments, micro_batches, answers, deepspeed, own, "")


def _answer(name: str, arguments: MegatronArguments, micro_batches: int) -> Answer:
    row = FORMULAS[name]
    memory = report_theoretical_memory(arguments, micro_batches, name)
    reasons = tuple(each.text for each in _DIFFERENCES if name in each.formulas and each.applies(arguments))
    return Answer(name, row.title, memory, row.assumptions, reasons)


@dataclass(frozen=True, slots=True)
class _Difference:
    """A reason why a formula says something else than what is allocated."""

    text: str
    applies: Callable[[MegatronArguments], bool]
    formulas: tuple[str, ...] = tuple(FORMULAS)


_BRIDGE = ("megatron-bridge", "megatron-bridge-2025")


def _differences() -> Iterator[_Difference]:
    yield _Difference(
        "a gated feed-forward layer keeps 6·f bytes of a token, of which the formula counts 4·f",
        lambda of: of.gated_linear_unit,
    )
    yield _Difference(
        "keys and values of fewer heads are smaller than the formula's activations, which know no groups",
        lambda of: of.key_heads < of.num_attention_heads,
    )
    yield _Difference(
        "18·h and 4·f are those of a network of 2022 with dropout; memcore counts each tensor that the layers save",
        lambda of: True,
    )
    yield _Difference(
        "the logits, 2 to 6 bytes for each word, are on the last stage, which the formula never looks at",
        lambda of: of.pipeline_model_parallel_size > 1,
    )
    yield _Difference(
        "full recomputation keeps one input for each layer; the formula takes everything", _is_full, ("megatron-lm",)
    )
    yield _Difference("no activations are reported for such a job", lambda of: not _is_selective(of), _BRIDGE)
    yield _Difference(
        "norms and routers are on every tensor-parallel rank; the formula divides them",
        lambda of: of.tensor_model_parallel_size > 1,
        _BRIDGE,
    )
    yield _Difference("routers are not counted", lambda of: bool(of.num_moe_experts), _BRIDGE)
    yield _Difference(
        "every layer is taken to have all experts, of the dense width and on every expert-parallel rank",
        lambda of: bool(of.num_moe_experts),
        ("megatron-bridge-2025",),
    )
    yield _Difference(
        "latent attention is counted as attention with whole matrices", lambda of: of.multi_latent_attention, _BRIDGE
    )
    yield _Difference(
        "tokens sent to experts, their copies and the router's probabilities are not counted",
        lambda of: bool(of.num_moe_experts),
    )
    yield _Difference(
        "context-parallel ranks share the optimizer too, and each has its part of the sequence",
        lambda of: of.context_parallel_size > 1,
        ("megatron-bridge-2025", "megatron-lm"),
    )
    yield _Difference(
        "parameters are taken as bf16 with fp32 gradients and states; padding of buffers, dummy gradients of fused "
        "accumulation, the embedding's dense gradient and workspaces are left out",
        lambda of: True,
    )


def _is_full(of: MegatronArguments) -> bool:
    return of.recompute_granularity == "full"


def _is_selective(of: MegatronArguments) -> bool:
    return of.sequence_parallel and of.recompute_granularity == "selective"


_DIFFERENCES = tuple(_differences())
