"""Where the layouts of well-known runs stand in a search of the same cluster, and why others rank before them.

    python benchmarks/published.py            print it
    python benchmarks/published.py --write    write docs/layouts.md, too

Each run is searched with its own engine, GPUs and sequences of a step. Precisions are those that are modelled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from memcore import Config, MemcoreError, estimate, search
from memcore.config.parallelism import Parallelism
from memcore.faces.render.search import policy_of
from memcore.memory.estimate import Estimate
from memcore.questions.costs import Cost, cost_of
from memcore.questions.roofline import roofline_for
from memcore.questions.searching.layouts import Layout, config_of
from memcore.questions.searching.questions import Question, questions_of
from memcore.questions.searching.spaces import Tried, sequences_of
from memcore.units import GiB

H100 = {"accelerator": "h100-sxm-80gb"}
H100_96 = {**H100, "gpu_memory_gb": 95}
NEMOTRON = {
    "model_type": "nemotron", "hidden_size": 18432, "num_hidden_layers": 96, "num_attention_heads": 96,
    "num_key_value_heads": 8, "intermediate_size": 73728, "vocab_size": 256000, "max_position_embeddings": 4096,
    "head_dim": 192,
}  # fmt: skip
MEGATRON = {"type": "megatron", "distributed_optimizer": True}
TITAN = {"sequence_length": 8192, "implementation": "torchtitan"}
KEEP, SIZES = 25, (1, 2, 4, 8, 16)
FULL = "full"


@dataclass(frozen=True, slots=True)
class Run:
    """A published run."""

    title: str
    source: str
    config: Mapping[str, object]
    schedules: tuple[str, ...] = ("1f1b",)
    note: str = ""
    """What the run has that the config cannot say, or says in another way."""


RUNS = (
    Run(
        "Llama 3 405B on 8192 GPUs",
        "arXiv 2407.21783, table 4: TP 8, PP 16, DP 64, 16M tokens, 8k",
        {
            "model": "llama-3.1-405b",
            "training": {"sequence_length": 8192, "gradient_accumulation_steps": 32},
            "parallelism": {
                "tensor_parallel_size": 8, "sequence_parallel": True, "pipeline_parallel_size": 16,
                "virtual_pipeline_parallel_size": 8,
            },
            "engine": {**MEGATRON, "account_for_embedding_in_pipeline_split": True,
                       "account_for_loss_in_pipeline_split": True},
            "hardware": {**H100, "num_gpus": 8192},
        },
        note="Meta's own trainer is estimated as Megatron, with one layer fewer on the first and last stages "
        "as in the paper, whose schedule keeps fewer micro-batches in flight than interleaved 1F1B",
    ),
    Run(
        "Nemotron-4 340B on 1536 GPUs",
        "arXiv 2402.16819, section 2.3: TP 8, PP 12 in 8 chunks, 768 sequences of 4k",
        {
            "model": NEMOTRON,
            "training": {"sequence_length": 4096, "gradient_accumulation_steps": 48},
            "engine": MEGATRON,
            "parallelism": {
                "tensor_parallel_size": 8, "sequence_parallel": True, "pipeline_parallel_size": 12,
                "virtual_pipeline_parallel_size": 8,
            },
            "hardware": {**H100, "num_gpus": 1536},
        },
    ),
    Run(
        "DeepSeek-V3 on 2048 GPUs",
        "arXiv 2412.19437, section 3.2: PP 16, EP 64, no TP, 15360 sequences of 4k",
        {
            "model": "deepseek-v3",
            "training": {"sequence_length": 4096, "gradient_accumulation_steps": 120, "activation_checkpointing": FULL},
            "engine": MEGATRON,
            "parallelism": {"pipeline_parallel_size": 16, "expert_parallel_size": 64,
                            "pipeline_layout": [4] * 15 + [1]},
            "hardware": {"accelerator": "h800-sxm-80gb", "num_gpus": 2048},
        },
        note="estimated with bf16 instead of fp8, 1F1B instead of DualPipe, and full recomputation instead of its own choice of "
        "operations; DualPipe overlaps expert communication with the other half of a micro-batch, and a token goes to at most "
        "four nodes, both of which the cost model leaves out",
    ),
    Run(
        "torchtitan Llama 3.1 405B on 512 GPUs of 96 GB",
        "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: TP 8, PP 8, local batch 32 in micro-batches of 4",
        {
            "model": "llama-3.1-405b",
            "training": {**TITAN, "micro_batch_size": 4, "gradient_accumulation_steps": 8, "activation_checkpointing": FULL},
            "parallelism": {"tensor_parallel_size": 8, "pipeline_parallel_size": 8},
            "hardware": {**H100_96, "num_gpus": 512},
        },
    ),
    Run(
        "torchtitan Llama 3.1 70B on 256 GPUs of 96 GB",
        "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: TP 8, local batch 16",
        {
            "model": "llama-3.1-70b",
            "training": {**TITAN, "micro_batch_size": 16, "activation_checkpointing": FULL},
            "parallelism": {"tensor_parallel_size": 8},
            "hardware": {**H100_96, "num_gpus": 256},
        },
    ),
    Run(
        "torchtitan Llama 3 8B on 128 GPUs of 96 GB",
        "torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: FSDP, local batch 2, selective",
        {
            "model": "llama-3.1-8b",
            "training": {**TITAN, "micro_batch_size": 2, "activation_checkpointing": {"policy": "selective", "mode": "op"}},
            "hardware": {**H100_96, "num_gpus": 128},
        },
    ),
    Run(
        "Megatron, Qwen3 30B A3B on 16 GPUs",
        "ms-swift, docs of Megatron-SWIFT: PP 2, EP 8, full recomputation, A100",
        {
            "model": "qwen3-30b-a3b",
            "training": {"sequence_length": 8192, "gradient_accumulation_steps": 2, "activation_checkpointing": FULL},
            "engine": MEGATRON,
            "parallelism": {"pipeline_parallel_size": 2, "expert_parallel_size": 8},
            "hardware": {"accelerator": "a100-sxm-80gb", "num_gpus": 16},
        },
    ),
)  # fmt: skip


def report(run: Run) -> Iterator[str]:
    """A run in Markdown."""
    config = Config.from_dict(dict(run.config))
    yield f"## {run.title}\n\n{run.source}{f'; {run.note}' if run.note else ''}.\n\n"
    try:
        found = estimate(config)
    except MemcoreError as error:
        yield f"Refused: {error}\n\n"
        return
    if not isinstance(found, Estimate):
        raise TypeError(run.title)
    roofline = roofline_for(config)
    own, step = cost_of(found.job, roofline), sequences_of(found.job)
    fits = "fits" if found.fits else "does not fit"
    yield (
        f"As published it {fits}: {found.allocated.expected / GiB:.1f} GiB allocated, "
        f"{found.device.expected / GiB:.1f} on the device.\n"
    )
    tried = Tried(micro_batches=SIZES, schedules=run.schedules)
    questions, _ = questions_of(config, [found.job.num_gpus], None, step, None, tried)
    prices = [question.cost(each).per_token for question in questions for each in question.space.layouts()]
    less = sum(price < own.per_token * (1 - 1e-9) for price in prices)
    *_, last = search(config, sequences=step, keep=KEEP, micro_batches=SIZES, schedules=run.schedules)
    yield (
        f"{less:,} of {len(prices):,} layouts cost less by the model ({100 * less / len(prices):.0f}%), most of which do "
        "not fit.\n"
    )
    if not last.best:
        yield "No layout of the search fits.\n\n"
        return
    yield from _compared(own, [each.cost for each in last.best[:KEEP]])
    yield from _variant(questions, found, last.best[0].cost)
    rows = [("published", own.per_token / last.best[0].cost.per_token, "")]
    rows += [
        (_named(each.layout), each.cost.per_token / last.best[0].cost.per_token, policy_of(each))
        for each in {_named(each.layout): each for each in reversed(last.best)}.values()
    ]
    rows = [rows[0], *sorted(rows[1:], key=lambda row: row[1])[:4]]
    yield "\n| Layout | Cost | Policy |\n| --- | ---: | --- |\n"
    yield from (f"| {name} | {price:.3f} | {policy} |\n" for name, price, policy in rows)
    yield "\n"


def _variant(questions: list[Question], found: Estimate, cheapest: Cost) -> Iterator[str]:
    """Yield the cheapest that fits of the layouts with the same parallel sizes."""
    sizes = found.job.sizes
    division = sizes["tp"], found.job.stages, sizes["cp"], found.job.config[Parallelism.expert_parallel_size] or 1
    alike = [
        (question.cost(each).per_token, each, question)
        for question in questions
        for each in question.space.layouts()
        if each[:4] == division and each.micro_batch == sizes["b"]
    ]
    for price, each, question in sorted(alike, key=lambda one: one[0]):
        then = estimated(config_of(question.config, each, question.space.policies))
        if then is not None and then.fits:
            policy = policy_of(question.found(each, question.cost(each), (then.allocated.expected, None, True)))
            yield f"With the published parallel sizes, the cheapest that fits costs {price / cheapest.per_token:.3f}: {policy}.\n"
            return
    yield "With the published parallel sizes, nothing fits.\n"


def estimated(config: Config) -> Estimate | None:
    """The estimate of a layout; None where engine or model cannot do it."""
    try:
        found = estimate(config)
    except MemcoreError:
        return None
    return found if isinstance(found, Estimate) else None


def _named(layout: Layout) -> str:
    sizes = {"TP": "tensor", "PP": "stages", "CP": "context", "EP": "experts", "micro-batch": "micro_batch"}
    found = [f"{name} {getattr(layout, of)}" for name, of in sizes.items() if getattr(layout, of) > 1]
    return ", ".join(found) or "data parallel"


def _compared(own: Cost, best: list[Cost]) -> Iterator[str]:
    """Its place, and what the cheapest saves."""
    before = sum(each.per_token < own.per_token * (1 - 1e-9) for each in best)
    more = " or more" if before == len(best) else ""
    yield f"Of those that fit, {before}{more} {'is' if before == 1 else 'are'} cheaper; the cheapest costs "
    yield f"{100 * (1 - best[0].per_token / own.per_token):.0f}% less"
    mine, other = _parts(own), _parts(best[0])
    gaps = sorted(((mine[name] - other[name]) / own.per_token, name) for name in mine)
    said = [f"{100 * gap:.0f}% from {name}" for gap, name in reversed(gaps) if gap > 0.01]
    back = [f"{-100 * gap:.0f}% more on {name}" for gap, name in gaps if gap < -0.01]
    yield f": {', '.join(said)}{'; it spends ' + ', '.join(back) if back else ''}.\n" if said else ".\n"


def _parts(each: Cost) -> dict[str, float]:
    """GPU-seconds for a token by cause."""
    scale = each.gpus / each.tokens
    again = each.again / each.flops * each.computing
    waits = each.exposed + max(each.hidden - each.computing, 0)
    full = max(each.computing, each.hidden) + each.exposed
    return {
        "computation": (each.computing - again) * scale,
        "recomputation": again * scale,
        "exposed communication": waits * scale,
        "pipeline bubbles": (each.seconds - full) * scale,
    }


HEAD = """# Where published layouts stand

The layouts of well-known runs, ranked in a search over the same engine, GPUs and sequences per step
(`benchmarks/published.py --write`). Cost is relative to the cheapest layout that fits, by [the cost model](costs.md), which
ranks layouts and promises no speed. A published run may have had reasons that the model does not know: the network's
topology, failures, kernels tuned for certain sizes.

"""


def main() -> None:
    """Print, and write where asked."""
    parts = [HEAD]
    for run in RUNS:
        for part in report(run):
            parts.append(part)
            print(part, end="", flush=True)
    if "--write" in sys.argv:
        (ROOT / "docs" / "layouts.md").write_text("".join(parts).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
