"""What the formulas of Megatron Bridge and Megatron-LM say about a job, and why memcore says something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.memory.published import FormulaResult, Published
from memcore.records import dataclass
from memcore.trainers.megatron.published.arguments import MegatronArguments
from memcore.trainers.megatron.published.reading import arguments_of
from memcore.trainers.megatron.published.report import FORMULAS, report_theoretical_memory


def published(config: Config) -> Published:
    """Return every formula's answer; UnsupportedError for networks that they do not know."""
    arguments = arguments_of(config)
    micro_batches = config[Training.gradient_accumulation_steps] or 1
    found = {name: _result(name, arguments, micro_batches) for name in FORMULAS}
    data = {"micro_batches": micro_batches, "arguments": asdict(arguments)}
    plain = {
        name: {
            "title": each.title,
            "weight_and_optimizer_bytes": each.weight_and_optimizer,
            "activation_bytes": each.activation,
            "total_bytes": each.total,
            "assumptions": list(each.assumptions),
            "differences": list(each.differences),
        }
        for name, each in found.items()
    }
    return Published(data={**data, "formulas": plain}, answers=tuple(found.values()))


def _result(name: str, arguments: MegatronArguments, micro_batches: int) -> FormulaResult:
    row = FORMULAS[name]
    memory = report_theoretical_memory(arguments, micro_batches, name)
    return FormulaResult(
        title=row.title,
        weight_and_optimizer=memory.weight_and_optimizer,
        activation=memory.activation,
        printed=str(memory),
        assumptions=row.assumptions,
        differences=tuple(each.text for each in _DIFFERENCES if name in each.formulas and each.applies(arguments)),
    )


@dataclass(frozen=True, slots=True)
class _Difference:
    """A reason why a formula says something else than what is allocated."""

    text: str
    applies: Callable[[MegatronArguments], bool]
    formulas: tuple[str, ...] = tuple(FORMULAS)


_BRIDGE = ("megatron-bridge", "megatron-bridge-2025")


def _differences() -> Iterator[_Difference]:
    yield _Difference(
        "a gated feed-forward layer saves 6·f bytes per token; the formula counts 4·f",
        lambda of: of.gated_linear_unit,
    )
    yield _Difference(
        "the formula ignores grouped-query attention, which has fewer and thus smaller keys and values",
        lambda of: of.key_heads < of.num_attention_heads,
    )
    yield _Difference(
        "18·h and 4·f describe a 2022 GPT with dropout; memcore counts each tensor that the layers save",
        lambda of: True,
    )
    yield _Difference(
        "the logits, 2 to 6 bytes per vocabulary entry and token, are on the last stage, which the formula leaves out",
        lambda of: of.pipeline_model_parallel_size > 1,
    )
    yield _Difference(
        "full recomputation keeps one input per layer; the formula counts all activations", _is_full, ("megatron-lm",)
    )
    yield _Difference(
        "no activations are reported without sequence parallelism and selective recomputation",
        lambda of: not _is_selective(of),
        _BRIDGE,
    )
    yield _Difference(
        "norms and routers are replicated on every tensor-parallel rank; the formula splits them",
        lambda of: of.tensor_model_parallel_size > 1,
        _BRIDGE,
    )
    yield _Difference("routers are not counted", lambda of: bool(of.num_moe_experts), _BRIDGE)
    yield _Difference(
        "the formula puts all experts, at the dense width, in every layer and on every expert-parallel rank",
        lambda of: bool(of.num_moe_experts),
        ("megatron-bridge-2025",),
    )
    yield _Difference(
        "multi-head latent attention is counted as ordinary attention", lambda of: of.multi_latent_attention, _BRIDGE
    )
    yield _Difference(
        "dispatched tokens, their copies and the router's probabilities are not counted",
        lambda of: bool(of.num_moe_experts),
    )
    yield _Difference(
        "context-parallel ranks also split the optimizer states and the sequence",
        lambda of: of.context_parallel_size > 1,
        ("megatron-bridge-2025", "megatron-lm"),
    )
    yield _Difference(
        "the formulas assume bf16 parameters with fp32 gradients and states, and leave out buffer padding, dummy "
        "gradients of fused accumulation, the embedding's dense gradient and workspaces",
        lambda of: True,
    )


def _is_full(of: MegatronArguments) -> bool:
    return of.recompute_granularity == "full"


def _is_selective(of: MegatronArguments) -> bool:
    return of.sequence_parallel and of.recompute_granularity == "selective"


_DIFFERENCES = tuple(_differences())
